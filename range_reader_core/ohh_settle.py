"""A ``Draft`` -> a ``CanonicalHand``: money by replay, pots checked, content hashed.

Money is derived and never patched: labels, prices and all-ins come from ``replay.play``; the pots must equal the chips
put in, gross or net of the uncalled bet; otherwise the hand is refused with the reason.
"""

import hashlib

import msgspec

from range_reader_core.hand import CanonicalHand, Event
from range_reader_core.ohh_draft import Draft, HandTag
from range_reader_core.ohh_rejects import RejectError, RejectReason
from range_reader_core.replay import RELATIVE_SLACK, Played, ReplayError, cent_slack, play, uncalled_chips


def settle(built: Draft, steps: list[Event]) -> CanonicalHand:
    """Return the finished hand, its money derived from the steps (amounts being chips added).

    Raises:
        RejectError: the chips do not add up, or no rule allows what happens.
    """
    played = play_steps(built, steps)
    collected = built.collected
    if any(collected):
        for seat, won in enumerate(collected):
            if won > 0.0 and not played.live >> seat & 1:
                raise RejectError(RejectReason.WINNER, f"seat {seat} folded and wins {won} chips")
    tags = built.tags
    if played.oddities:
        tags |= played.oddities
    hole_cards = built.hole_cards
    if played.has_all_in and _is_overpaid(built, played):
        tags.add(HandTag.OVERPAID)
    stacks = tuple(_stacks(built, steps))
    events = tuple(played.events)
    small_blind, big_blind, ante = built.blinds
    content = (built.seat_numbers, built.button, built.blinds, stacks, hole_cards, built.label_sources, events, collected)
    content_hash = hashlib.sha256(_pack(content)).hexdigest()[:32]
    try:
        return CanonicalHand(
            hand_id=built.hand_id or f"{built.source}#sha256:{content_hash}",
            source=built.source,
            seat_numbers=built.seat_numbers,
            button=built.button,
            small_blind=small_blind,
            big_blind=big_blind,
            ante=ante,
            stacks=stacks,
            hole_cards=tuple(hole_cards),
            label_sources=tuple(built.label_sources),
            events=events,
            collected=tuple(collected),
            content_hash=content_hash,
            tags=frozenset(tags),
        )
    except ValueError as error:
        raise RejectError(RejectReason.DUP_CARD, str(error)) from error


def play_steps(built: Draft, steps: list[Event]) -> Played:
    """Return the steps played to the end, with pots checked.

    The tolerance is relative; only where that fails and every amount is in whole cents, half a cent is allowed.

    Raises:
        RejectError: the chips do not add up, or no rule allows what happens.
    """
    scale = built.pot_chips or 0.0
    for step in steps:
        if step[2] > scale:
            scale = step[2]
    slack_chips = RELATIVE_SLACK * scale
    try:
        return _play_within(built, steps, slack_chips)
    except RejectError:
        cents = cent_slack([*built.stacks, *[step.chips for step in steps], *built.collected, built.pot_chips or 0.0])
        if cents <= slack_chips:
            raise
    return _play_within(built, steps, cents)


_pack = msgspec.msgpack.Encoder().encode


def _stacks(built: Draft, steps: list[Event]) -> list[float]:
    """Return the stacks at the start, with chips added during the hand where a seat put in more than it began with."""
    if not built.top_ups:
        return built.stacks
    stacks = list(built.stacks)
    for seat, chips in built.top_ups.items():
        if sum(step.chips for step in steps if step.seat == seat) > stacks[seat] * (1.0 + RELATIVE_SLACK):
            stacks[seat] += chips
            built.tags.add(HandTag.ADDED_CHIPS)
    return stacks


def _play_within(built: Draft, steps: list[Event], slack_chips: float) -> Played:
    try:
        played = play(_stacks(built, steps), steps, big_blind=built.blinds[1], slack_chips=slack_chips)
    except ReplayError as error:
        raise RejectError(RejectReason(error.fault.value), str(error)) from error
    pot = built.pot_chips
    if pot is not None:
        gross = played.gross_chips + built.added_chips
        if abs(pot - gross) > slack_chips:
            net = gross - uncalled_chips(played.streets)
            if abs(pot - net) > slack_chips:
                msg = f"pots hold {pot}, but the players put in {gross} ({net} without the uncalled bet)"
                raise RejectError(RejectReason.POT_MISMATCH, msg)
    return played


def _is_overpaid(built: Draft, played: Played) -> bool:
    """Say whether a seat wins more than the dead money and what its own chips could match from every other seat."""
    live_chips = [sum(chips) for chips in zip(*played.streets, strict=True)]
    limit = (played.gross_chips - sum(live_chips)) + built.added_chips + RELATIVE_SLACK * played.gross_chips
    for own, won in zip(live_chips, built.collected, strict=True):
        if won > limit and won - limit > sum([min(own, other) for other in live_chips]):
            return True
    return False
