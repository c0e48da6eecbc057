"""One complete, validated hand: seats, stacks, known hole cards and what happened, in order.

Seats are numbered 0..n-1 among the players dealt in, clockwise, whatever seat numbers the source used. Chips are
float64 as the source wrote them; big blinds start in the encoder. A ``CanonicalHand`` is valid once built: cards are
distinct, boards have a legal shape, events name seated players. Whether the chips add up is the parser's business
(``replay``). Results and shown cards are labels and never become inputs.
"""

from dataclasses import dataclass, fields
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

from range_reader_core import cards
from range_reader_core.tokens import MAX_SEATS

NO_SEAT: Final = -1


class EventKind(IntEnum):
    """What happened: forced posts, actions and board deals. Straddles and extra blinds are POST_BLIND, dead posts POST_ANTE."""

    POST_ANTE = 0
    POST_BLIND = 1
    FOLD = 2
    CHECK = 3
    CALL = 4
    BET = 5
    RAISE = 6
    FLOP = 7
    TURN = 8
    RIVER = 9


BOARD_CARDS: Final = {EventKind.FLOP: 3, EventKind.TURN: 1, EventKind.RIVER: 1}
_BOARD_SHAPE: Final = {EventKind.FLOP: (3, 0), EventKind.TURN: (1, 3), EventKind.RIVER: (1, 4)}  # cards dealt, cards before
_ALL_CARDS: Final = frozenset(range(cards.NUM_CARDS))
VOLUNTARY_CHIPS: Final = frozenset({EventKind.CALL, EventKind.BET, EventKind.RAISE})


class LabelSource(StrEnum):
    """How a seat's hole cards are known; shown hands are a biased sample."""

    DEALT = "dealt"
    SHOWN = "shown"


class Event(NamedTuple):
    """One thing that happened, in time order. A NamedTuple because a hand holds dozens and files hold millions."""

    kind: EventKind
    seat: int = NO_SEAT  # NO_SEAT for board deals
    chips: float = 0.0  # chips this action adds to the pot
    is_all_in: bool = False  # the action leaves the seat without chips
    board: tuple[int, ...] = ()  # the cards a board deal adds, ascending


@dataclass(frozen=True, slots=True, kw_only=True)
class CanonicalHand:
    """One hand. All per-seat tuples have length ``num_players``.

    Raises:
        ValueError: on construction, when lengths, seats, cards, label sources or board shapes are inconsistent.
    """

    hand_id: str  # "source#game_number", or "source#sha256:..." where the source gave no number
    source: str  # "site/network" as written in the file
    seat_numbers: tuple[int, ...]  # the source's own seat numbers, ascending
    button: int  # seat index 0..n-1
    small_blind: float  # nominal, chips
    big_blind: float  # nominal, chips, > 0
    ante: float  # nominal, chips
    stacks: tuple[float, ...]  # chips before any post
    hole_cards: tuple[tuple[int, int] | None, ...]  # (lo, hi) per seat, None where unknown
    label_sources: tuple[LabelSource | None, ...]  # None exactly where hole_cards is None
    events: tuple[Event, ...]
    collected: tuple[float, ...]  # chips won from the pots, per seat
    content_hash: str  # of everything that matters except dates and names; tells a repeat from a conflict
    tags: frozenset[str] = frozenset()  # oddities kept for study, such as "dead_button"

    @property
    def num_players(self) -> int:
        """Number of players dealt in."""
        return len(self.stacks)

    @property
    def board(self) -> tuple[int, ...]:
        """All community cards in the order of their streets."""
        return tuple(card for event in self.events for card in event.board)

    def __post_init__(self) -> None:
        """Check the record."""
        n = len(self.stacks)
        if not 2 <= n <= MAX_SEATS:
            msg = f"hand {self.hand_id}: expected 2..{MAX_SEATS} players, got {n}"
            raise ValueError(msg)
        if not (len(self.hole_cards) == len(self.label_sources) == len(self.seat_numbers) == len(self.collected) == n):
            msg = f"hand {self.hand_id}: per-seat fields differ in length from the {n} stacks"
            raise ValueError(msg)
        if not 0 <= self.button < n:
            msg = f"hand {self.hand_id}: button {self.button} is not a seat in 0..{n - 1}"
            raise ValueError(msg)
        if not self.big_blind > 0:
            msg = f"hand {self.hand_id}: the big blind must be positive, got {self.big_blind}"
            raise ValueError(msg)
        self._check_cards()

    def _check_cards(self) -> None:
        """Check cards, boards and seats in few steps: this runs for every hand of a corpus."""
        seen: list[int] = []
        num_players = len(self.stacks)
        for kind, seat, _, _, board in self.events:
            if board:
                if (len(board), len(seen)) != _BOARD_SHAPE.get(kind) or list(board) != sorted(board):
                    msg = f"hand {self.hand_id}: {kind.name} deals {board} onto {len(seen)} cards, or not ascending"
                    raise ValueError(msg)
                seen += board
            elif not 0 <= seat < num_players:
                msg = f"hand {self.hand_id}: {kind.name} names seat {seat}, but there are {num_players} players"
                raise ValueError(msg)
        for pair, label in zip(self.hole_cards, self.label_sources, strict=True):
            if pair is None or label is None:
                if not (pair is None and label is None):
                    msg = f"hand {self.hand_id}: a seat needs hole cards and a label source or neither, got {pair}, {label}"
                    raise ValueError(msg)
                continue
            lo, hi = pair
            if lo >= hi:
                msg = f"hand {self.hand_id}: a seat needs its lower card first, got {pair}"
                raise ValueError(msg)
            seen += pair
        distinct = set(seen)
        if len(distinct) != len(seen) or not distinct <= _ALL_CARDS:
            msg = f"hand {self.hand_id}: a card appears twice or is outside 0..51 among board and hole cards"
            raise ValueError(msg)


def unchecked_hand(
    hand_id: str,
    source: str,
    seat_numbers: tuple[int, ...],
    button: int,
    small_blind: float,
    big_blind: float,
    ante: float,
    stacks: tuple[float, ...],
    hole_cards: tuple[tuple[int, int] | None, ...],
    label_sources: tuple[LabelSource | None, ...],
    events: tuple[Event, ...],
    collected: tuple[float, ...],
    content_hash: str,
    tags: frozenset[str],
) -> CanonicalHand:
    """Return a hand whose caller has established everything that ``CanonicalHand`` checks.

    For parsers alone: a frozen dataclass sets its fields one by one through ``object.__setattr__`` and checks them, which for
    a corpus costs as much as reading it (6 us a hand here, 1 us this way, 2026-11).
    """
    hand = _new_hand(CanonicalHand)
    _set_hand_id(hand, hand_id)
    _set_source(hand, source)
    _set_seat_numbers(hand, seat_numbers)
    _set_button(hand, button)
    _set_small_blind(hand, small_blind)
    _set_big_blind(hand, big_blind)
    _set_ante(hand, ante)
    _set_stacks(hand, stacks)
    _set_hole_cards(hand, hole_cards)
    _set_label_sources(hand, label_sources)
    _set_events(hand, events)
    _set_collected(hand, collected)
    _set_content_hash(hand, content_hash)
    _set_tags(hand, tags)
    return hand


_new_hand = object.__new__
(
    _set_hand_id,
    _set_source,
    _set_seat_numbers,
    _set_button,
    _set_small_blind,
    _set_big_blind,
    _set_ante,
    _set_stacks,
    _set_hole_cards,
    _set_label_sources,
    _set_events,
    _set_collected,
    _set_content_hash,
    _set_tags,
) = (getattr(CanonicalHand, field.name).__set__ for field in fields(CanonicalHand))
