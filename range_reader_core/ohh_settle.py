"""A ``Draft`` -> a ``CanonicalHand``: money by replay, pots checked, content hashed.

Money is derived and never patched: labels, prices and all-ins come from ``replay.play``; the pots must equal the chips
put in, gross or net of the uncalled bet; otherwise the hand is refused with the reason.
"""

import hashlib
from typing import Final, Never

import msgspec

from range_reader_core.cards import format_card
from range_reader_core.hand import CanonicalHand, Event, unchecked_hand
from range_reader_core.ohh_draft import Draft
from range_reader_core.ohh_rejects import MAX_HAND_ID, RejectError, RejectReason
from range_reader_core.ohh_tags import HandTag
from range_reader_core.replay import RELATIVE_SLACK, Played, ReplayError, cent_slack, play, uncalled_chips

MIN_BIG_BLIND: Final = 1e-6  # no currency has less, and stacks counted in it have to fit a float32


def settle(built: Draft, steps: list[Event]) -> CanonicalHand:
    """Return the finished hand, its money derived from the steps (amounts being chips added).

    Raises:
        RejectError: the chips do not add up, or no rule allows what happens.
    """
    numbers = built.seat_numbers
    if (
        built.blinds[1] < MIN_BIG_BLIND
        or len(built.hand_id or built.source) > MAX_HAND_ID
        or not -_MOST <= numbers[0] <= numbers[-1] <= _MOST
    ):
        _refuse_extremes(built)
    played = play_steps(built, steps)
    collected = tuple(built.collected)
    tags = built.tags
    for seat, won in enumerate(collected):
        if won:
            if not played.live >> seat & 1:
                raise RejectError(RejectReason.WINNER, f"seat {seat} folded and wins {won} chips")
            # Twice its stack is covered by whoever put in the most; more takes several players' chips.
            if won > 2.0 * built.stacks[seat] and _is_overpaid(built, played, seat):
                tags.add(HandTag.OVERPAID)
    if played.oddities:
        tags |= played.oddities
    seen = list(built.board)
    for pair in built.hole_cards:
        if pair is not None:
            seen += pair
    if len(set(seen)) < len(seen):
        repeated = sorted({format_card(card) for card in seen if seen.count(card) > 1})
        raise RejectError(RejectReason.DUP_CARD, f"in two places among board and hole cards: {', '.join(repeated)}")
    stacks = tuple(_stacks(built, steps) if built.top_ups else built.stacks)
    events = tuple(played.events)
    hole_cards = tuple(built.hole_cards)
    label_sources = tuple(built.label_sources)
    small_blind, big_blind, ante = built.blinds
    content = (built.seat_numbers, built.button, built.blinds, stacks, hole_cards, label_sources, events, collected)
    content_hash = hashlib.sha256(_pack(content)).hexdigest()[:32]
    # The checks of CanonicalHand would find nothing here that is not checked above, and cost as much as the replay.
    return unchecked_hand(
        built.hand_id or f"{built.source}#sha256:{content_hash}",
        built.source,
        built.seat_numbers,
        built.button,
        small_blind,
        big_blind,
        ante,
        stacks,
        hole_cards,
        label_sources,
        events,
        collected,
        content_hash,
        frozenset(tags) if tags else _NO_TAGS,
    )


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


def _refuse_extremes(built: Draft) -> Never:
    """Refuse what cannot be stored or divided by."""
    if built.blinds[1] < MIN_BIG_BLIND:
        raise RejectError(RejectReason.NO_BLINDS, f"expected a big blind of at least {MIN_BIG_BLIND}, got {built.blinds[1]}")
    name = built.hand_id or built.source
    if len(name) > MAX_HAND_ID:
        msg = f"expected site, network and game number of at most {MAX_HAND_ID} characters, got {len(name)}"
        raise RejectError(RejectReason.TYPE, msg)
    raise RejectError(RejectReason.SEATS, f"expected seat numbers of less than 64 bits, got {built.seat_numbers}")


_MOST: Final = (1 << 63) - 1  # for a seat number
_pack = msgspec.msgpack.Encoder().encode
_NO_TAGS: Final[frozenset[str]] = frozenset()


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


def _is_overpaid(built: Draft, played: Played, seat: int) -> bool:
    """Say whether a seat wins more than the dead money and what its own chips could match from every other seat."""
    live: list[float] = [sum(chips) for chips in zip(*played.streets, strict=True)]
    dead = played.gross_chips - sum(live) + built.added_chips
    won = built.collected[seat]
    return won - dead > sum([min(live[seat], chips) for chips in live]) + RELATIVE_SLACK * won
