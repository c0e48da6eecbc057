"""Deals hands for many tables at once and plays them to the end: cards, posts, actions, streets, showdown, pots.

Who acts how is the business of ``Players``; nothing here looks at cards before the showdown. A batch of hands is a function of the
settings, the players and one generator, and needs memory in proportion to its tables alone.

Legend: ``T`` tables, ``S`` = ``NUM_SEATS``, ``K`` pots, ``E`` events of all tables end to end.
"""

from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from range_reader_core import cards
from range_reader_core.arena.betting import NOBODY, NUM_SEATS, Betting, PublicState
from range_reader_core.arena.pots import Settlement, settle
from range_reader_core.hand import EventKind
from range_reader_core.strength import hand_strength

MIN_PLAYERS: Final = 2
NUM_BOARD_CARDS: Final = 5
BOARD_SIZE: Final = np.array([0, 3, 4, 5])  # cards on the table by street
_STREET_KINDS: Final = np.array([EventKind.POST_BLIND, EventKind.FLOP, EventKind.TURN, EventKind.RIVER])

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """What tables are dealt.

    Raises:
        ValueError: on construction, when a value is outside its range.
    """

    min_players: int = 2  # 2 to 10
    max_players: int = 6  # min_players to 10; every size between is as likely
    small_blind: int = 50  # chips, 0 to the big blind
    big_blind: int = 100  # chips, 2 or more
    ante: int = 0  # chips of every player
    straddle_share: float = 0.0  # of the tables of three and more where the seat after the big blind posts twice that
    min_stack_bb: float = 40.0  # big blinds, above 0; stacks are even between these two
    max_stack_bb: float = 200.0  # big blinds, up to 10,000

    def __post_init__(self) -> None:
        """Check ranges."""
        checks = (
            (
                MIN_PLAYERS <= self.min_players <= self.max_players <= NUM_SEATS,
                f"{MIN_PLAYERS} <= min_players <= max_players <= 10",
            ),
            (0 <= self.small_blind <= self.big_blind, "0 <= small_blind <= big_blind"),
            (2 <= self.big_blind <= 1_000_000, "2 <= big_blind <= 1,000,000"),
            (0 <= self.ante <= self.big_blind * 10, "0 <= ante <= ten big blinds"),
            (0.0 <= self.straddle_share <= 1.0, "0 <= straddle_share <= 1"),
            (0.0 < self.min_stack_bb <= self.max_stack_bb <= 10_000.0, "0 < min_stack_bb <= max_stack_bb <= 10,000"),
        )
        for is_met, text in checks:
            if not is_met:
                msg = f"arena tables: expected {text}, got {self}"
                raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seating:
    """Who sits where with what, before any card."""

    num_players: _Ints  # (T,)
    button: _Ints  # (T,)
    stacks: _Ints  # (T, S) chips before any post, 0 in empty seats
    antes: _Ints  # (T, S) posted
    blinds: _Ints  # (T, S) posted, straddles included
    blind_seats: _Ints  # (T, 3) small blind, big blind, straddle; NOBODY where there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class DealtCards:
    """All cards of ``T`` tables, dealt before the first action."""

    holes: _Ints  # (T, S, 2) the lower card first
    board: _Ints  # (T, 5) the flop ascending, turn, river

    @property
    def combos(self) -> _Ints:
        """The combo of every seat, (T, S)."""
        low, high = self.holes[:, :, 0], self.holes[:, :, 1]
        return high * (high - 1) // 2 + low


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """What happened at ``T`` tables: table t's events are ``[offsets[t]:offsets[t + 1]]``, in time order."""

    kind: _Ints  # (E,) EventKind
    seat: _Ints  # (E,) NOBODY for board deals
    chips: _Ints  # (E,) added by the event
    is_all_in: _Bools  # (E,)
    offsets: _Ints  # (T + 1,)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedHands:
    """``T`` finished hands."""

    settings: TableSettings
    seating: Seating
    dealt: DealtCards
    events: Events
    is_live: _Bools  # (T, S) not folded at the end
    num_board: _Ints  # (T,) board cards dealt
    settlement: Settlement


class Players(Protocol):
    """Whoever decides."""

    def see_board(self, rows: _Ints, street: int, is_live: _Bools) -> None:
        """Learn that the cards of a street lie on the tables ``rows``, and which seats (N, S) are still in there."""

    def choose(self, rows: _Ints, seats: _Ints, state: PublicState) -> tuple[_Ints, _Bools]:
        """Return chips put in and whether it is a fold, (N,) each, for the players to act at the tables ``rows``."""


def seat_players(settings: TableSettings, num_tables: int, generator: np.random.Generator) -> Seating:
    """Return tables of random size, button and stacks, with their posts."""
    num_players = generator.integers(settings.min_players, settings.max_players, num_tables, endpoint=True)
    button = generator.integers(0, num_players)
    low, high = (max(1, round(bb * settings.big_blind)) for bb in (settings.min_stack_bb, settings.max_stack_bb))
    stacks = generator.integers(low, high, (num_tables, NUM_SEATS), endpoint=True)
    has_straddle = (generator.random(num_tables) < settings.straddle_share) & (num_players > MIN_PLAYERS)
    return posts(settings, np.where(np.arange(NUM_SEATS) < num_players[:, None], stacks, 0), num_players, button, has_straddle)


def posts(settings: TableSettings, stacks: _Ints, num_players: _Ints, button: _Ints, has_straddle: _Bools) -> Seating:
    """Return tables with what their antes, blinds and straddles come to, each at most what the stack holds.

    Chips; ``stacks`` is (T, S), the rest (T,).
    """
    place = np.arange(len(stacks))
    small = np.where(num_players == MIN_PLAYERS, button, (button + 1) % num_players)
    big = (small + 1) % num_players
    straddle = np.where(has_straddle, (big + 1) % num_players, NOBODY)
    antes = np.where(np.arange(NUM_SEATS) < num_players[:, None], np.minimum(stacks, settings.ante), 0)
    blinds = np.zeros_like(stacks)
    blinds[place, small] = settings.small_blind
    blinds[place, big] = settings.big_blind
    blinds[place[has_straddle], straddle[has_straddle]] = 2 * settings.big_blind
    return Seating(
        num_players=num_players,
        button=button,
        stacks=stacks,
        antes=antes,
        blinds=np.minimum(blinds, stacks - antes),
        blind_seats=np.stack([small, big, straddle], axis=1),
    )


def deal_cards(num_tables: int, generator: np.random.Generator) -> DealtCards:
    """Return hole cards for every seat and a full board for every table."""
    deck = np.argsort(generator.random((num_tables, cards.NUM_CARDS)), axis=1)
    board = deck[:, 2 * NUM_SEATS : 2 * NUM_SEATS + NUM_BOARD_CARDS].copy()
    board[:, :3].sort(axis=1)
    return DealtCards(holes=np.sort(deck[:, : 2 * NUM_SEATS].reshape(num_tables, NUM_SEATS, 2), axis=2), board=board)


def play_hands(settings: TableSettings, seating: Seating, dealt: DealtCards, players: Players) -> PlayedHands:
    """Return the hands as the players play them."""
    record = _Record()
    betting = _post(settings, seating, record)
    while True:
        rows = np.flatnonzero(betting.actor != NOBODY)
        if len(rows):
            seats = betting.actor[rows]
            state = betting.state(rows)
            chips, is_fold = players.choose(rows, seats, state)
            record.add(rows, _action_kinds(state, chips, is_fold), seats, chips, chips == state.stack)
            betting.act(rows, chips, is_fold)
        closed = np.flatnonzero((betting.actor == NOBODY) & ~betting.is_over)
        if len(closed):
            betting.next_street(closed)
            street = betting.street[closed]
            record.add(closed, _STREET_KINDS[street], np.full(len(closed), NOBODY))
            for number in np.unique(street).tolist():
                rows = closed[street == number]
                players.see_board(rows, number, betting.is_live[rows])
        elif not len(rows):
            break
    betting.close_street(np.arange(len(seating.button)))
    return PlayedHands(
        settings=settings,
        seating=seating,
        dealt=dealt,
        events=record.events(len(seating.button)),
        is_live=betting.is_live,
        num_board=BOARD_SIZE[betting.street],
        settlement=settle(
            stacks=betting.stacks,
            contributed=betting.contributed,
            uncalled=betting.uncalled,
            is_live=betting.is_live,
            strength=_showdown_strength(betting.is_live, dealt),
            button=seating.button,
            num_players=seating.num_players,
        ),
    )


@dataclass(slots=True)
class _Record:
    """Events as they come, many tables at a time."""

    parts: list[tuple[_Ints, _Ints, _Ints, _Ints, _Bools]] = field(default_factory=list)

    def add(self, rows: _Ints, kind: _Ints, seat: _Ints, chips: _Ints | None = None, is_all_in: _Bools | None = None) -> None:
        """Append one event at each table of ``rows``."""
        none = np.zeros(len(rows), dtype=np.int64)
        self.parts.append(
            (rows, kind, seat, none if chips is None else chips, none.astype(np.bool_) if is_all_in is None else is_all_in)
        )

    def events(self, num_tables: int) -> Events:
        """Return the events table by table."""
        table, kind, seat, chips, is_all_in = (np.concatenate(column) for column in zip(*self.parts, strict=True))
        order = np.argsort(table, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(table, minlength=num_tables))])
        return Events(kind=kind[order], seat=seat[order], chips=chips[order], is_all_in=is_all_in[order], offsets=offsets)


def _post(settings: TableSettings, seating: Seating, record: _Record) -> Betting:
    """Post antes and blinds; posts of nothing are no events."""
    left = seating.stacks - seating.antes
    for step in range(1, NUM_SEATS + 1):  # antes go clockwise from the left of the button
        rows = np.flatnonzero(seating.num_players >= step)
        seats = (seating.button[rows] + step) % seating.num_players[rows]
        chips = seating.antes[rows, seats]
        _record_posts(record, EventKind.POST_ANTE, rows, seats, chips, left[rows, seats] == 0)
    left = left - seating.blinds
    for seat_of in seating.blind_seats.T:
        rows = np.flatnonzero(seat_of != NOBODY)
        seats = seat_of[rows]
        _record_posts(record, EventKind.POST_BLIND, rows, seats, seating.blinds[rows, seats], left[rows, seats] == 0)
    last = np.where(seating.blind_seats[:, 2] == NOBODY, seating.blind_seats[:, 1], seating.blind_seats[:, 2])
    return Betting.posted(
        stacks=seating.stacks,
        num_players=seating.num_players,
        button=seating.button,
        antes=seating.antes,
        blinds=seating.blinds,
        first=last + 1,
        big_blind=settings.big_blind,
    )


def _record_posts(record: _Record, kind: EventKind, rows: _Ints, seats: _Ints, chips: _Ints, is_all_in: _Bools) -> None:
    is_some = chips > 0
    kinds = np.full(int(is_some.sum()), kind, dtype=np.int64)
    record.add(rows[is_some], kinds, seats[is_some], chips[is_some], is_all_in[is_some])


def _action_kinds(state: PublicState, chips: _Ints, is_fold: _Bools) -> _Ints:
    is_raise = state.committed + chips > state.highest
    kinds = [EventKind.FOLD, EventKind.CHECK, EventKind.BET, EventKind.RAISE]
    return np.select([is_fold, chips == 0, is_raise & (state.highest == 0), is_raise], kinds, EventKind.CALL)


def _showdown_strength(is_live: _Bools, dealt: DealtCards) -> _Ints:
    """Return the strength of the seats that have to show, (T, S); 0 elsewhere."""
    strength = np.zeros(is_live.shape, dtype=np.int64)
    rows, seats = np.nonzero(is_live & (is_live.sum(axis=1, keepdims=True) > 1))
    strength[rows, seats] = hand_strength(np.concatenate([dealt.holes[rows, seats], dealt.board[rows]], axis=1))
    return strength
