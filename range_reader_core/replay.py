"""The betting state machine: what each action costs, what it amounts to, and whether the chips can be right.

``play`` walks posts, actions and deals over the stacks and returns the same events with label and all-in recomputed:
a label is a hint, the price is the truth. It refuses what no rule allows and never patches an amount. The parser
plays every hand through it, and ``replay`` plays a finished ``CanonicalHand`` again, so there is one set of rules.
Turn order is not enforced (straddles and dead buttons bend it), but everyone who must act has to act, once, before a
street closes. ``slack_chips`` is the field's tolerance: the rounding of the writer's number type.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from range_reader_core.hand import CanonicalHand, Event, EventKind

RELATIVE_SLACK: Final = 1e-5  # of the larger amount or the pot; float32 writers drift by 2e-7 an operation
EVEN_STACKS: Final = 1.2e-4  # rs-poker takes all-ins for equal within this share, and the larger for a call
NUM_BOARD_CARDS: Final = 5


class Fault(StrEnum):
    """What makes a sequence of events impossible."""

    ILLEGAL_ACTION = "ILLEGAL_ACTION"
    OVERSPEND = "OVERSPEND"
    INCOMPLETE = "INCOMPLETE"
    BOMB_POT = "BOMB_POT"


class ReplayError(ValueError):
    """Raised when events cannot have happened."""

    def __init__(self, fault: Fault, message: str) -> None:
        """Carry the kind of fault and a message."""
        super().__init__(message)
        self.fault = fault


class Oddity(StrEnum):
    """Legal but unusual turns of a hand, worth a tag."""

    OPEN_FOLD = "open_fold"  # folds with nothing to call
    UNDER_MIN_RAISE = "under_min_raise"  # raises by less than the last raise without being all-in
    RELABELED = "relabeled"  # the writer's label contradicts the price
    DUST = "dust"  # someone acts with a stack that is only rounding
    RABBIT_CARDS = "rabbit_cards"  # board cards dealt after everyone else had folded; left out


class Decision(NamedTuple):
    """The state just before one voluntary action; per-seat tuples have one entry a player."""

    event_index: int  # into the hand's events
    seat: int
    street: int  # 0 preflop .. 3 river
    price_chips: float  # chips needed to call
    pot_chips: float  # everything put in so far, this street included
    stacks: tuple[float, ...]  # chips left behind
    committed: tuple[float, ...]  # live chips put in on this street
    is_live: tuple[bool, ...]  # not folded


class Played(NamedTuple):
    """A hand played to its end."""

    events: list[Event]  # labels and all-in flags recomputed
    left: list[float]  # chips behind at the end, before any pot is paid
    gross_chips: float  # everything put in, uncalled chips included
    streets: list[list[float]]  # live chips per street and seat
    live: int  # bit s: seat s has not folded
    oddities: set[str]


def replay(hand: CanonicalHand) -> tuple[Decision, ...]:
    """Return the state before each voluntary action of a hand.

    Raises:
        ValueError: the events break the rules, a label or all-in flag contradicts the chips, or the pots pay out more
            than was put in.
    """
    slack_chips = replay_slack(hand)
    decisions: list[Decision] = []
    has_dust = Oddity.DUST in hand.tags
    played = play(
        hand.stacks, hand.events, big_blind=hand.big_blind, slack_chips=slack_chips, has_dust=has_dust, decisions=decisions
    )
    for index, (said, found) in enumerate(zip(hand.events, played.events, strict=True)):
        if said != found:
            msg = f"hand {hand.hand_id}: event {index} is recorded as {said}, but the chips make it {found}"
            raise ValueError(msg)
    if sum(hand.collected) > played.gross_chips + slack_chips and "added_to_pot" not in hand.tags:
        msg = f"hand {hand.hand_id}: pots pay {sum(hand.collected)} chips, but only {played.gross_chips} were put in"
        raise ValueError(msg)
    return tuple(decisions)


def replay_slack(hand: CanonicalHand) -> float:
    """Return the tolerance in chips that a hand's own numbers call for."""
    chips = [event.chips for event in hand.events]
    relative = RELATIVE_SLACK * max(sum(hand.collected), *chips, 0.0)
    return max(relative, cent_slack([*hand.stacks, *chips, *hand.collected]))


def cent_slack(amounts: Sequence[float]) -> float:
    """Return half a cent if every amount is written in whole cents, else 0."""
    is_cents = all(abs(amount * 100 - round(amount * 100)) <= 1e-9 * max(1.0, amount * 100) for amount in amounts)
    return 0.005 if is_cents else 0.0


def uncalled_chips(streets: Sequence[Sequence[float]]) -> float:
    """Return the chips that nobody matched: the highest less the second-highest live commitment, over all streets."""
    total = 0.0
    for street in streets:
        second, first = sorted(street)[-2:]
        total += first - second
    return total


def play(
    stacks: Sequence[float],
    steps: Sequence[Event],
    *,
    big_blind: float,
    slack_chips: float,
    has_dust: bool = False,
    is_over: bool = True,
    decisions: list[Decision] | None = None,
) -> Played:
    """Return the hand that the steps make, from the stacks before any post.

    A step's ``kind`` is the writer's label, ``chips`` what it adds. ``is_all_in`` False on a step that empties the stack
    lets that seat act again with rounding dust, as float32 simulators do; ``has_dust`` allows it to every seat. A hand that
    is being played (``is_over`` False) may end anywhere.

    Raises:
        ReplayError: an action that the rules exclude, chips that a stack does not hold, a street or hand left undecided.
    """
    num_seats = len(stacks)
    left = list(stacks)
    street = [0.0] * num_seats
    streets = [street]
    live = can_act = to_act = (1 << num_seats) - 1
    dust = live if has_dust else 0
    all_in = 0
    gross = highest = 0.0
    min_raise = big_blind
    num_board = num_voluntary = street_index = 0
    events: list[Event] = []
    append = events.append
    oddities: set[str] = set()

    for step in steps:
        kind, seat, chips, is_flagged, board = step
        if board:
            if not live & (live - 1):
                oddities.add(Oddity.RABBIT_CARDS)
                continue
            if to_act & can_act:
                _check_closed(
                    to_act & can_act, can_act, street, highest, slack_chips, is_bomb_pot=not num_voluntary and not num_board
                )
            street = [0.0] * num_seats
            streets.append(street)
            highest = 0.0
            min_raise = big_blind
            to_act = live
            num_board += len(board)
            street_index += 1
            append(step)
            continue

        bit = 1 << seat
        if not can_act & bit:
            if not live & bit or not all_in & dust & bit or chips > slack_chips:
                _refuse_action(step, is_folded=not live & bit)
            oddities.add(Oddity.DUST)
        is_post = kind is _POST_BLIND or kind is _POST_ANTE
        if not is_post:
            if decisions is not None:
                decisions.append(_decision(len(events), seat, street_index, highest, gross, left, street, live))
            num_voluntary += 1
            if not live & (live - 1):
                msg = f"seat {seat} acts ({kind.name}) although everyone else has folded"
                raise ReplayError(Fault.ILLEGAL_ACTION, msg)
            if kind is _FOLD:
                if highest - street[seat] <= slack_chips:
                    oddities.add(Oddity.OPEN_FOLD)
                live ^= bit
                can_act &= ~bit
                append(step)
                continue
            if can_act & bit and not to_act & bit:
                if not 0.0 < chips <= slack_chips or highest - street[seat] > slack_chips:
                    msg = f"seat {seat} acts again ({kind.name}) although nobody raised"
                    raise ReplayError(Fault.ILLEGAL_ACTION, msg)
                # A call of the rounding error in somebody's call is no decision.
                left[seat] -= chips
                gross += chips
                oddities.add(Oddity.DUST)
                continue
            to_act &= ~bit
            if kind is _CHECK:
                if highest - street[seat] > slack_chips:
                    msg = f"seat {seat} checks with {highest - street[seat]} chips to call"
                    raise ReplayError(Fault.ILLEGAL_ACTION, msg)
                append(step)
                continue

        remaining = left[seat] - chips
        is_all_in = False
        if remaining <= slack_chips or remaining <= RELATIVE_SLACK * stacks[seat]:
            if remaining < -slack_chips and remaining < -RELATIVE_SLACK * stacks[seat]:
                msg = f"seat {seat} puts in {chips} chips ({kind.name}) but has {left[seat]} left"
                raise ReplayError(Fault.OVERSPEND, msg)
            remaining = 0.0
            is_all_in = True
            all_in |= bit
            can_act &= ~bit
            if not is_flagged:
                dust |= bit
        left[seat] = remaining
        gross += chips

        if is_post:
            if kind is _POST_BLIND:
                street[seat] += chips
                if street[seat] > highest:
                    highest = street[seat]
                    if num_voluntary:
                        to_act |= live
            append(step if is_flagged is is_all_in else _new(Event, (kind, seat, chips, is_all_in, ())))
            continue

        own = street[seat]
        price = highest - own
        total = own + chips
        if highest <= 0.0:
            found = _BET
            if kind is _CALL or chips <= 0.0:
                if chips > slack_chips:
                    msg = f"seat {seat} calls {chips} chips with nothing to call"
                    raise ReplayError(Fault.ILLEGAL_ACTION, msg)
                found = _CHECK
        elif chips > price + slack_chips:
            found = _RAISE
            if kind is _CALL or (not street_index and total <= big_blind):
                found = _CALL
                if not is_all_in or chips - price > EVEN_STACKS * total:
                    if street_index or total > big_blind + slack_chips:
                        msg = f"seat {seat} calls {chips} chips with {price} to call"
                        raise ReplayError(Fault.ILLEGAL_ACTION, msg)
                    # A big blind posted short still costs the full blind on sites; simulators ask only what was posted.
                    to_act |= _behind(street, total - slack_chips) & ~bit
                    highest = total
        elif chips <= slack_chips and price <= slack_chips:
            found = _CHECK
        else:
            found = _CALL
            if chips < price - slack_chips and not is_all_in:
                msg = f"seat {seat} puts in {chips} chips ({kind.name}) with {price} to call and {remaining} left behind"
                raise ReplayError(Fault.ILLEGAL_ACTION, msg)
        if found is _BET or found is _RAISE:
            raised = total - highest
            if raised >= min_raise:
                min_raise = raised
            elif not is_all_in and raised < min_raise - slack_chips:
                oddities.add(Oddity.UNDER_MIN_RAISE)
            to_act = live & ~bit
            highest = total
        street[seat] = total
        if found is kind and is_flagged is is_all_in:
            append(step)
        else:
            if found is not kind:
                oddities.add(Oddity.RELABELED)
            append(_new(Event, (found, seat, 0.0 if found is _CHECK else chips, is_all_in, ())))

    if not live:
        msg = "everyone folded"
        raise ReplayError(Fault.ILLEGAL_ACTION, msg)
    if is_over and live & (live - 1):
        if to_act & can_act:
            _check_closed(to_act & can_act, can_act, street, highest, slack_chips, is_bomb_pot=False)
        if num_board < NUM_BOARD_CARDS:
            msg = f"the hand ends with {live.bit_count()} players in and {num_board} board cards"
            raise ReplayError(Fault.INCOMPLETE, msg)
    return Played(events, left, gross, streets, live, oddities)


_new = tuple.__new__
_POST_ANTE: Final = EventKind.POST_ANTE
_POST_BLIND: Final = EventKind.POST_BLIND
_FOLD: Final = EventKind.FOLD
_CHECK: Final = EventKind.CHECK
_CALL: Final = EventKind.CALL
_BET: Final = EventKind.BET
_RAISE: Final = EventKind.RAISE


def _check_closed(
    waiting: int, can_act: int, street: Sequence[float], highest: float, slack_chips: float, *, is_bomb_pot: bool
) -> None:
    """Refuse to close a street while someone still has to act; one player alone with nothing to call need not."""
    seat = waiting.bit_length() - 1
    is_alone = not can_act & (can_act - 1)
    if is_alone and highest - street[seat] <= slack_chips:
        return
    if is_bomb_pot and not is_alone:
        msg = "a flop without any preflop action"
        raise ReplayError(Fault.BOMB_POT, msg)
    msg = f"the street closes before seat {seat} acts, with {highest - street[seat]} chips to call"
    raise ReplayError(Fault.INCOMPLETE, msg)


def _behind(street: Sequence[float], chips: float) -> int:
    """Return the seats that have put in less than ``chips`` on a street, as bits."""
    return sum(1 << seat for seat, own in enumerate(street) if own < chips)


def _refuse_action(step: Event, *, is_folded: bool) -> None:
    state = "after folding" if is_folded else "while all-in"
    msg = f"seat {step.seat} acts ({step.kind.name}, {step.chips} chips) {state}"
    raise ReplayError(Fault.ILLEGAL_ACTION, msg)


def _decision(
    event_index: int, seat: int, street_index: int, highest: float, gross: float, left: list[float], street: list[float], live: int
) -> Decision:
    return Decision(
        event_index=event_index,
        seat=seat,
        street=street_index,
        price_chips=max(highest - street[seat], 0.0),
        pot_chips=gross,
        stacks=tuple(left),
        committed=tuple(street),
        is_live=tuple(bool(live >> other & 1) for other in range(len(left))),
    )
