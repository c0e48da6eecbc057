"""The rules of No-Limit Hold'em betting for many tables in lockstep: who acts, what it costs, what is allowed.

Only what everybody sees lives here; cards do not. Chips are whole numbers. The same machine deals hands and replays them for the
oracle, so both see the same state before every action. The rules are those of cash games, as PokerKit plays them: the price is
the largest amount actually posted or bet, a raise is at least the last full raise (at first the largest blind), an all-in raise of
less reopens the betting only for those whose price has grown to a full raise since, and nobody raises where nobody could answer.

Legend: ``T`` tables, ``S`` = ``NUM_SEATS``, ``N`` tables in which somebody is to act. Seats beyond a table's players are empty.
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt

NUM_SEATS: Final = 10
NOBODY: Final = -1
RIVER: Final = 3
POSITIONS: Final = ("early", "middle", "late", "small_blind", "big_blind")
SIZES: Final = ("third", "two_thirds", "pot", "overbet", "all_in")
"""What a bet or raise is measured against: the pot after a call."""

_SIZE_PERCENT: Final = np.array([33, 67, 100, 150])
_EARLY, _MIDDLE, _LATE, _SMALL_BLIND, _BIG_BLIND = range(len(POSITIONS))
_SEATS: Final = np.arange(NUM_SEATS)

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicState:
    """What a player to act sees, one entry a table, in chips."""

    big_blind: int
    street: _Ints  # (N,) 0 preflop .. 3 river
    position: _Ints  # (N,) into POSITIONS
    price: _Ints  # (N,) to call, at most the stack
    pot: _Ints  # (N,) everything put in so far
    stack: _Ints  # (N,) behind
    committed: _Ints  # (N,) own live chips on this street
    highest: _Ints  # (N,) live chips of the largest bet on this street
    min_raise: _Ints  # (N,) least increment of a full raise
    can_raise: _Bools  # (N,)
    num_opponents: _Ints  # (N,) others who have not folded
    num_raises: _Ints  # (N,) bets and raises on this street
    num_callers: _Ints  # (N,) calls since the last of them, limps included
    is_last: _Bools  # (N,) acts last of those left after the flop
    has_initiative: _Bools  # (N,) made the last bet or raise of the hand so far

    def take(self, rows: _Ints) -> "PublicState":
        """Return the state at some tables: ``rows`` (M,) are numbers of those here, with repeats if wanted."""
        columns = {name: getattr(self, name)[rows] for name in self.__slots__ if name != "big_blind"}
        return PublicState(big_blind=self.big_blind, **columns)


@dataclass(slots=True, kw_only=True)
class Betting:
    """The betting of ``T`` tables. ``act`` and ``next_street`` change it."""

    big_blind: int
    num_players: _Ints  # (T,)
    button: _Ints  # (T,)
    stacks: _Ints  # (T, S) behind
    contributed: _Ints  # (T, S) everything put in
    uncalled: _Ints  # (T, S) of it, what nobody matched on streets that are closed
    street_chips: _Ints  # (T, S) live chips on this street
    is_live: _Bools  # (T, S) dealt in and not folded
    is_waiting: _Bools  # (T, S) has to act before the street closes
    has_acted: _Bools  # (T, S) since the last full raise
    highest: _Ints  # (T,)
    min_raise: _Ints  # (T,)
    street: _Ints  # (T,) 0 preflop .. 3 river
    actor: _Ints  # (T,) seat to act, NOBODY once the street is closed
    num_raises: _Ints  # (T,) on this street
    num_callers: _Ints  # (T,) since the last raise
    aggressor: _Ints  # (T,) who bet or raised last in the hand, NOBODY before

    @classmethod
    def posted(
        cls, *, stacks: _Ints, num_players: _Ints, button: _Ints, antes: _Ints, blinds: _Ints, first: _Ints, big_blind: int
    ) -> Self:
        """Return the tables once antes, blinds and straddles are in.

        Args:
            stacks: (T, S) before any post, 0 in empty seats.
            num_players: (T,) 2 to 10, in the first seats.
            button: (T,) seat of the dealer.
            antes: (T, S) dead chips posted, at most the stack.
            blinds: (T, S) live chips posted, at most what the ante left.
            first: (T,) the seat from which the first to act is looked for.
            big_blind: nominal.
        """
        num_tables = len(stacks)
        is_live = num_players[:, None] > _SEATS
        zeros = np.zeros(num_tables, dtype=np.int64)
        tables = cls(
            big_blind=big_blind,
            num_players=num_players,
            button=button,
            stacks=stacks - antes - blinds,
            contributed=antes + blinds,
            uncalled=np.zeros_like(stacks),
            street_chips=blinds.copy(),
            is_live=is_live,
            is_waiting=np.zeros_like(is_live),
            has_acted=np.zeros_like(is_live),
            highest=blinds.max(axis=1),
            min_raise=np.maximum(blinds.max(axis=1), big_blind),
            street=zeros.copy(),
            actor=np.full(num_tables, NOBODY),
            num_raises=zeros.copy(),
            num_callers=zeros.copy(),
            aggressor=np.full(num_tables, NOBODY),
        )
        tables._open_round(np.arange(num_tables), first)
        return tables

    @property
    def is_over(self) -> _Bools:
        """Where the hand needs no more cards or actions, (T,)."""
        is_over: _Bools = (self.is_live.sum(axis=1) == 1) | ((self.actor == NOBODY) & (self.street == RIVER))
        return is_over

    def act(self, rows: _Ints, chips: _Ints, is_fold: _Bools) -> None:
        """Fold or put in chips, once at each table of ``rows``: 0 chips is a check, the price a call, more a bet or raise.

        Args:
            rows: (N,) tables with somebody to act.
            chips: (N,) legal amounts, 0 for folds.
            is_fold: (N,).
        """
        seat = self.actor[rows]
        self.is_waiting[rows, seat] = False
        self.is_live[rows[is_fold], seat[is_fold]] = False
        self.stacks[rows, seat] -= chips
        self.contributed[rows, seat] += chips
        self.street_chips[rows, seat] += chips
        raised_by = self.street_chips[rows, seat] - self.highest[rows]
        self.num_callers[rows] += (chips > 0) & (raised_by <= 0)

        is_raise = raised_by > 0
        raising, raiser = rows[is_raise], seat[is_raise]
        self.is_waiting[raising] = self.is_live[raising] & (self.stacks[raising] > 0)
        self.is_waiting[raising, raiser] = False
        self.highest[raising] += raised_by[is_raise]
        self.num_raises[raising] += 1
        self.num_callers[raising] = 0
        self.aggressor[raising] = raiser
        is_full = raised_by >= self.min_raise[rows]
        self.has_acted[rows[is_full]] = False
        self.min_raise[rows[is_full]] = raised_by[is_full]
        self.has_acted[rows, seat] = True
        self._find_actor(rows, seat + 1)

    def next_street(self, rows: _Ints) -> None:
        """Open the next street at the tables ``rows`` (N,), whose betting is closed and not over."""
        self.close_street(rows)
        self.street[rows] += 1
        self.has_acted[rows] = False
        self.highest[rows] = 0
        self.min_raise[rows] = self.big_blind
        self.num_raises[rows] = 0
        self.num_callers[rows] = 0
        self._open_round(rows, self.button[rows] + 1)

    def close_street(self, rows: _Ints) -> None:
        """Note what of the largest bet nobody matched at the tables ``rows`` (N,), and collect the bets.

        Where there is any, no action follows.
        """
        in_order = np.sort(self.street_chips[rows], axis=1)
        self.uncalled[rows, self.street_chips[rows].argmax(axis=1)] += in_order[:, -1] - in_order[:, -2]
        self.street_chips[rows] = 0

    def state(self, rows: _Ints) -> PublicState:
        """Return what the players to act see at the tables ``rows`` (N,), in that order."""
        seat, size = self.actor[rows], self.num_players[rows]
        street_chips, stacks, is_live = self.street_chips[rows], self.stacks[rows], self.is_live[rows]
        place = np.arange(len(rows))
        highest, stack, committed = self.highest[rows], stacks[place, seat], street_chips[place, seat]
        full_price = highest - committed
        is_other = is_live.copy()
        is_other[place, seat] = False
        can_answer = (is_other & (stacks + street_chips > highest[:, None])).any(axis=1)
        is_reopened = ~self.has_acted[rows, seat] | (full_price >= self.min_raise[rows])
        order = (_SEATS - self.button[rows, None] - 1) % size[:, None]  # (N, S) of acting after the flop
        return PublicState(
            big_blind=self.big_blind,
            street=self.street[rows],
            position=position(seat, self.button[rows], size),
            price=np.minimum(full_price, stack),
            pot=self.contributed[rows].sum(axis=1),
            stack=stack,
            committed=committed,
            highest=highest,
            min_raise=self.min_raise[rows],
            can_raise=can_answer & is_reopened & (stack > full_price),
            num_opponents=is_other.sum(axis=1),
            num_raises=self.num_raises[rows],
            num_callers=self.num_callers[rows],
            is_last=np.where(is_live, order, NOBODY).max(axis=1) == order[place, seat],
            has_initiative=self.aggressor[rows] == seat,
        )

    def _open_round(self, rows: _Ints, first: _Ints) -> None:
        """Let everybody act who can still lose chips, unless that is one player with nothing to call."""
        bets, stacks, is_live = self.street_chips[rows], self.stacks[rows], self.is_live[rows]
        most_to_lose = np.sort(np.where(is_live, bets + stacks, 0), axis=1)[:, -2]
        is_waiting = is_live & (np.minimum(stacks, most_to_lose[:, None] - bets) > 0)
        is_alone = (is_waiting.sum(axis=1) == 1) & ~(is_waiting & (bets < self.highest[rows, None])).any(axis=1)
        self.is_waiting[rows] = is_waiting & ~is_alone[:, None]
        self._find_actor(rows, first)

    def _find_actor(self, rows: _Ints, first: _Ints) -> None:
        """Set the first waiting seat from ``first`` on, clockwise; nobody once one player is left."""
        is_waiting = self.is_waiting[rows]
        distance = np.where(is_waiting, (_SEATS - first[:, None]) % self.num_players[rows, None], NUM_SEATS)
        nearest = distance.argmin(axis=1)
        is_closed = ~is_waiting.any(axis=1) | (self.is_live[rows].sum(axis=1) == 1)
        self.actor[rows] = np.where(is_closed, NOBODY, nearest)


def position(seat: _Ints, button: _Ints, num_players: _Ints) -> _Ints:
    """Return the place at the table before the flop, into ``POSITIONS``, of seats and tables that broadcast, int64 of their shape.

    Late is the button and the seat before it.
    Of the seats before these, the two nearest are middle. Heads-up the button is the small blind.
    """
    after_button = (seat - button) % num_players
    to_button = (button - seat) % num_players
    place = np.select([to_button <= 1, to_button <= 3], [_LATE, _MIDDLE], _EARLY)
    place = np.where((after_button == 1) & (num_players > 2), _SMALL_BLIND, place)
    place = np.where((after_button == 2) & (num_players > 2), _BIG_BLIND, place)
    heads_up = np.where(after_button == 0, _SMALL_BLIND, _BIG_BLIND)
    return np.where(num_players == 2, heads_up, place).astype(np.int64)


def raise_chips(state: PublicState, commit_percent: _Ints) -> _Ints:
    """Return what each of ``SIZES`` adds, (N, 5) chips, where a raise is allowed.

    Whole chips, at least a full raise. What takes ``commit_percent`` (N,) of the stack or more takes all of it.
    """
    pot_after_call = state.pot + state.price
    to = state.highest[:, None] + np.maximum(pot_after_call[:, None] * _SIZE_PERCENT // 100, state.min_raise[:, None])
    added = to - state.committed[:, None]  # (N, 4)
    added = np.where(added * 100 >= commit_percent[:, None] * state.stack[:, None], state.stack[:, None], added)
    return np.concatenate([np.minimum(added, state.stack[:, None]), state.stack[:, None]], axis=1)
