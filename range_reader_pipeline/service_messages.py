"""What the service is asked and answers, and the way from a message to a hand: the one place that knows the JSON.

A hand comes compactly, as far as it has been played, or as a complete Open Hand History object. Seats are 0..n-1 clockwise among
the players dealt in. Chips are in any unit; only their ratio to the big blind matters. All-in flags are not part of a message:
they follow from the stacks. A hand so far is played by the rules that files are checked by, and what they exclude is answered
with the reason.
"""

import io
import math
from collections import Counter
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, Self

import msgspec
from pydantic import BaseModel, ConfigDict, Field, model_validator

from range_reader_core import cards
from range_reader_core.hand import BOARD_CARDS, NO_SEAT, CanonicalHand, Event, EventKind
from range_reader_core.ohh import parse_ohh
from range_reader_core.ohh_rejects import Reject
from range_reader_core.replay import Oddity, play, replay_slack
from range_reader_core.session import hand_so_far
from range_reader_core.tokens import MAX_SEATS

MAX_EVENTS: Final = 512  # more than any hand holds; the model reads the first 96 positions
MAX_WORLDS: Final = 10_000
MAX_CHIPS: Final = 1e12
STACK_SLACK: Final = 1e-9  # of the stack, for chips that were added up as floats

Chips = Annotated[float, Field(ge=0.0, le=MAX_CHIPS, allow_inf_nan=False)]
Seat = Annotated[int, Field(ge=0, lt=MAX_SEATS)]
Card = Annotated[str, Field(pattern=f"^[{cards.RANKS}][{cards.SUITS}]$", examples=["Ts"])]
Hole = Annotated[str, Field(pattern=f"^([{cards.RANKS}][{cards.SUITS}]){{2}}$", examples=["AhKd"])]
KINDS: Final = {
    "ante": EventKind.POST_ANTE,
    "blind": EventKind.POST_BLIND,
    "fold": EventKind.FOLD,
    "check": EventKind.CHECK,
    "call": EventKind.CALL,
    "bet": EventKind.BET,
    "raise": EventKind.RAISE,
    "flop": EventKind.FLOP,
    "turn": EventKind.TURN,
    "river": EventKind.RIVER,
}


class Message(BaseModel):
    """Refuses what it does not know, so that a misspelt field is not silently a default."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class EventMessage(Message):
    """One thing that happened."""

    kind: Literal["ante", "blind", "fold", "check", "call", "bet", "raise", "flop", "turn", "river"]
    seat: Seat | None = Field(None, description="Who acts; left out for board deals.")
    chips: Chips = Field(0.0, description="Chips this action adds to the pot, never a street's total.")
    board: list[Card] = Field(default=[], max_length=3, description="The cards that a flop, turn or river adds.")


class HandMessage(Message):
    """A hand as far as it has been played."""

    stacks: list[Chips] = Field(min_length=2, max_length=MAX_SEATS, description="Chips of each seat before any post, clockwise.")
    button: Seat
    big_blind: Annotated[Chips, Field(gt=0.0)]
    hole_cards: dict[Seat, Hole] = Field(default={}, description="Cards of the seats whose cards are known, by seat.")
    events: list[EventMessage] = Field(max_length=MAX_EVENTS, description="Posts, actions and board deals in time order.")


class Question(Message):
    """A hand, one of two ways, and who looks at it."""

    hand: HandMessage | None = None
    ohh: dict[str, Any] | None = Field(None, description="The object under the key `ohh` of a complete Open Hand History record.")
    perspective: Seat | None = Field(description="The seat that reads, whose cards are known; null for a watcher without cards.")
    single_forward: bool = Field(False, description="Skip the average over suit relabelings: faster and a little noisier.")

    @model_validator(mode="after")
    def _has_one_hand(self) -> Self:
        if (self.hand is None) is (self.ohh is None):
            msg = "give the hand either as `hand` or as `ohh`"
            raise ValueError(msg)
        return self

    @property
    def num_relabelings(self) -> int:
        """24 to average over suits, 1 for a single forward."""
        return 1 if self.single_forward else cards.NUM_RELABELINGS


class BeliefQuestion(Question):
    """What does one seat hold?"""

    villain: Seat = Field(description="The seat that is read.")
    step: int | None = Field(None, ge=0, description="0 is the first step after the villain's hole slot; left out, the last.")


class BeliefAnswer(Message):
    """The belief about one seat."""

    probabilities: list[float] = Field(description="Of the 1326 combos in the order of /combos; they add up to 1.")


class EstimateQuestion(Question):
    """What does every other live seat hold?"""

    num_worlds: int = Field(0, ge=0, le=MAX_WORLDS, description="Deals of all hidden cards to draw from the ranges.")
    seed: int = Field(0, ge=0, lt=2**63, description="Of the deals.")


class WorldsAnswer(Message):
    """Deals of the hidden cards; no card twice in a deal."""

    seats: list[int]
    combos: list[list[int]] = Field(description="A row a deal, a combo a seat of `seats`.")
    is_exact: bool = Field(description="False where the ranges left so few deals that these are an approximation.")


class EstimateAnswer(Message):
    """A range for every other live seat."""

    ranges: list[list[float] | None] = Field(description="By seat; null for the reader itself and for folded seats.")
    worlds: WorldsAnswer | None


class CombosAnswer(Message):
    """The order of all probabilities."""

    combos: list[str]


class Health(Message):
    """What answers."""

    status: Literal["ok"]
    device: str
    num_layers: int
    width: int
    step: int
    metrics: dict[str, float]


def hand_of(question: Question) -> CanonicalHand:
    """Return the hand that a question is about.

    Raises:
        ValueError: it makes no hand; says why.
    """
    return _complete_hand(question.ohh) if question.hand is None else _hand_so_far(question.hand)


def _complete_hand(ohh: dict[str, Any] | None) -> CanonicalHand:
    results = list(parse_ohh(io.BytesIO(msgspec.json.encode({"ohh": ohh})), "request"))
    first = results[0]
    if isinstance(first, Reject):
        msg = f"ohh: {first.reason}: {first.message}"
        raise ValueError(msg)  # noqa: TRY004 - the type of a result, not of an argument
    return first


def _hand_so_far(message: HandMessage) -> CanonicalHand:
    _check_cards(message)
    holes = {seat: (cards.parse_card(hole[:2]), cards.parse_card(hole[2:])) for seat, hole in message.hole_cards.items()}
    hand = hand_so_far(
        stacks=message.stacks,
        button=message.button,
        big_blind=message.big_blind,
        hole_cards=holes,
        events=_events(message),
        hand_id="request",
    )
    return replace(hand, events=_played(hand))


def _check_cards(message: HandMessage) -> None:
    named = [hole[at : at + 2] for hole in message.hole_cards.values() for at in (0, 2)]
    named += [card for said in message.events for card in said.board]
    if len(set(named)) < len(named):
        card, count = Counter(named).most_common(1)[0]
        msg = f"a card twice: {card} is named {count} times among hole cards and board"
        raise ValueError(msg)


def _played(hand: CanonicalHand) -> tuple[Event, ...]:
    """Return the events as the rules have them, without calls of rounding dust.

    Raises:
        ValueError: the rules exclude an event, or its kind is not what the chips make it.
    """
    played = play(hand.stacks, hand.events, big_blind=hand.big_blind, slack_chips=replay_slack(hand), is_over=False)
    if Oddity.RABBIT_CARDS in played.oddities:
        msg = "board cards are dealt although everyone else has folded"
        raise ValueError(msg)
    if len(played.events) == len(hand.events):
        for index, (said, found) in enumerate(zip(hand.events, played.events, strict=True)):
            if said.kind is not found.kind:
                msg = (
                    f"event {index}: seat {said.seat} puts in {said.chips} chips as a {said.kind.name.lower()}, "
                    f"but the bets so far make it a {found.kind.name.lower()}"
                )
                raise ValueError(msg)
    return tuple(played.events)


def _events(message: HandMessage) -> list[Event]:
    """Return the events with their all-in flags."""
    left = list(message.stacks)
    events = []
    for index, said in enumerate(message.events):
        kind = KINDS[said.kind]
        if kind in BOARD_CARDS:
            if said.seat is not None or said.chips or len(said.board) != BOARD_CARDS[kind]:
                msg = f"event {index}: a {said.kind} has {BOARD_CARDS[kind]} board cards, no seat and no chips"
                raise ValueError(msg)
            events.append(Event(kind, NO_SEAT, board=tuple(sorted(cards.parse_card(card) for card in said.board))))
            continue
        if said.seat is None or said.seat >= len(left) or said.board:
            msg = f"event {index}: a {said.kind} has a seat in 0..{len(left) - 1} and no board cards, got seat {said.seat}"
            raise ValueError(msg)
        if said.chips and kind in {EventKind.FOLD, EventKind.CHECK}:
            msg = f"event {index}: a {said.kind} adds no chips, got {said.chips}"
            raise ValueError(msg)
        slack = STACK_SLACK * message.stacks[said.seat]
        if said.chips > left[said.seat] + slack:
            msg = f"event {index}: seat {said.seat} adds {said.chips} chips ({said.kind}) but has {left[said.seat]} left"
            raise ValueError(msg)
        left[said.seat] = math.fsum((left[said.seat], -said.chips))
        events.append(Event(kind, said.seat, said.chips, is_all_in=said.chips > 0 and left[said.seat] <= slack))
    return events
