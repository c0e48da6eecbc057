"""``replay.play`` for thousands of hands at once, step by step across all of them, for hands in which nothing is unusual.

Only what a later step depends on is done step by step; whether each step was legal is judged afterwards, for all steps at once.

It accepts and never refuses: a hand is *plain* if ``play`` would take it with every label as written, no chip dropped and pots that
match within the relative tolerance; of any other hand it says nothing, and the careful way decides. The same float64 operations in
the same order as ``play``, so an accepted hand has the same all-ins.

Legend: ``H`` hands, ``N`` steps of all hands, ``16`` seats.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from range_reader_core.hand import EventKind
from range_reader_core.replay import NUM_BOARD_CARDS, RELATIVE_SLACK
from range_reader_core.tokens import MAX_SEATS

MAX_STEPS: Final = 128  # of a plain hand; the most seen is 61

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The steps of many hands, end to end: posts, actions and deals in the writer's words."""

    kind: npt.NDArray[np.uint8]  # (N,) EventKind
    seat: Ints  # (N,) 0 for deals
    chips: Floats  # (N,) chips added
    num_steps: Ints  # (H,)
    stacks: Floats  # (H, 16) before any post, 0 where nobody sits
    num_players: Ints  # (H,)
    num_board: Ints  # (H,) cards dealt
    big_blind: Floats  # (H,)
    pot: Floats  # (H,) what the pots hold, NaN where there are none


def play_plain(steps: Steps) -> tuple[Bools, Bools, npt.NDArray[np.int32]]:
    """Return which hands are plain (H,), which steps empty a stack (N,), and who is in at the end (H,) as bits.

    Both of the latter mean something for plain hands alone.
    """
    num_hands = len(steps.num_steps)
    fits = steps.num_steps <= MAX_STEPS
    if not fits.all():
        return _play_those_that_fit(steps, fits)
    state = _State(steps)
    order = state.order
    # First the first step of every hand, then the second; longest hands first, so that those still in play are always the first.
    num_active = np.searchsorted(-steps.num_steps[order], -np.arange(1, int(steps.num_steps.max(initial=0)) + 1), side="right")
    begins = np.cumsum(num_active) - num_active
    starts = np.cumsum(steps.num_steps) - steps.num_steps
    rank = np.repeat(_inverse(order), steps.num_steps)
    place = begins[np.arange(len(steps.kind)) - np.repeat(starts, steps.num_steps)] + rank
    moves = _Moves(steps, state, rank, place)
    for begin, active in zip(begins.tolist(), num_active.tolist(), strict=True):
        state.play(moves, slice(begin, begin + active))
    state.is_plain[moves.hand[~moves.are_legal(state)]] = False
    is_plain = np.zeros(num_hands, dtype=np.bool_)
    live = np.zeros(num_hands, dtype=np.int32)
    is_plain[order], live[order] = state.finish(steps.num_board[order], moves), state.live
    return is_plain, moves.is_all_in[place], live


def _play_those_that_fit(steps: Steps, fits: Bools) -> tuple[Bools, Bools, npt.NDArray[np.int32]]:
    in_fitting = np.repeat(fits, steps.num_steps)
    some = Steps(
        kind=steps.kind[in_fitting],
        seat=steps.seat[in_fitting],
        chips=steps.chips[in_fitting],
        num_steps=steps.num_steps[fits],
        stacks=steps.stacks[fits],
        num_players=steps.num_players[fits],
        num_board=steps.num_board[fits],
        big_blind=steps.big_blind[fits],
        pot=steps.pot[fits],
    )
    is_plain = np.zeros(len(fits), dtype=np.bool_)
    is_all_in = np.zeros(len(steps.kind), dtype=np.bool_)
    live = np.zeros(len(fits), dtype=np.int32)
    is_plain[fits], is_all_in[in_fitting], live[fits] = play_plain(some)
    return is_plain, is_all_in, live


def _inverse(order: Ints) -> Ints:
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank


class _State:
    """All hands, the longest first, between two steps."""

    def __init__(self, steps: Steps) -> None:
        num_hands = len(steps.num_steps)
        self.order: Ints = np.argsort(-steps.num_steps, kind="stable")
        self.width = int(steps.num_players.max(initial=2))  # seats that anybody sits in
        self.left = steps.stacks[self.order, : self.width].ravel()  # (H * width,)
        self.least_left = RELATIVE_SLACK * self.left  # below it a stack counts as empty
        self.street = np.zeros((num_hands, self.width), dtype=np.float64)
        self.street_of_seat = self.street.reshape(-1)  # the same memory
        self.highest = np.zeros(num_hands, dtype=np.float64)
        self.uncalled = np.zeros(num_hands, dtype=np.float64)
        self.live = (np.int32(1) << steps.num_players[self.order].astype(np.int32)) - np.int32(1)
        self.can_act, self.to_act = self.live.copy(), self.live.copy()
        self.is_preflop = np.ones(num_hands, dtype=np.bool_)
        self.has_voluntary = np.zeros(num_hands, dtype=np.bool_)
        self.is_plain = np.ones(num_hands, dtype=np.bool_)
        self.big_blind = steps.big_blind[self.order]
        self.pot = steps.pot[self.order]
        most = np.zeros(num_hands, dtype=np.float64)
        has_steps = np.flatnonzero(steps.num_steps)
        if len(has_steps):
            most[has_steps] = np.maximum.reduceat(steps.chips, (np.cumsum(steps.num_steps) - steps.num_steps)[has_steps])
        self.slack = RELATIVE_SLACK * np.fmax(self.pot, most[self.order])  # as ohh_settle has it

    def play(self, moves: "_Moves", here: slice) -> None:
        """Play one step of the first hands, and note in ``moves`` what it is to be judged by.

        A deal is let through as an action that changes nothing: slices are cheaper than picking hands.
        """
        first = slice(here.stop - here.start)
        place, without = moves.place[here], moves.without[here]
        live, can_act, to_act, highest = self.live[first], self.can_act[first], self.to_act[first], self.highest[first]
        own = self.street_of_seat[place]
        remaining = self.left[place] - moves.chips[here]
        is_empty = (remaining <= moves.limit[here]) & moves.can_empty[here]
        moves.own[here], moves.remaining[here], moves.is_all_in[here] = own, remaining, is_empty
        moves.live[here], moves.can_act[here], moves.to_act[here], moves.highest[here] = live, can_act, to_act, highest
        moves.is_preflop[here], moves.has_voluntary[here] = self.is_preflop[first], self.has_voluntary[first]

        total = own + moves.paid[here]
        remaining[is_empty] = 0.0
        self.left[place] = remaining
        self.street_of_seat[place] = total
        self.has_voluntary[first] |= moves.is_voluntary[here]
        # The new values need the old ones of each other.
        is_wager = moves.is_wager[here]
        next_to_act = np.where(is_wager, live, to_act) & moves.still_to_act[here]
        highest[:] = np.where(is_wager, total, np.where(moves.is_blind[here], np.maximum(highest, total), highest))
        can_act &= np.where(is_empty, without, _EVERYONE) & moves.still_in[here]
        live &= moves.still_in[here]
        to_act[:] = next_to_act
        dealt = np.flatnonzero(moves.is_deal[here])
        if len(dealt):
            self._deal(dealt)

    def finish(self, num_board: Ints, moves: "_Moves") -> Bools:
        """Return which hands are decided and paid out right."""
        everyone = np.arange(len(self.live))
        is_shown_down = self.live & (self.live - 1) != 0
        is_right = self._is_closed(everyone) & (num_board == NUM_BOARD_CARDS)
        self.is_plain &= ~is_shown_down | is_right
        self._add_uncalled(everyone)
        gross = np.bincount(moves.hand, weights=moves.chips, minlength=len(self.live))  # adds up step after step, as ``play`` does
        is_paid = np.isnan(self.pot) | (np.abs(self.pot - gross) <= self.slack)
        is_paid |= np.abs(self.pot - (gross - self.uncalled)) <= self.slack
        return self.is_plain & is_paid

    def _deal(self, hands: Ints) -> None:
        live = self.live[hands]
        self.is_plain[hands] &= self._is_closed(hands) & (live & (live - 1) != 0)
        self._add_uncalled(hands)
        self.street[hands] = 0.0
        self.highest[hands] = 0.0
        self.to_act[hands] = live
        self.is_preflop[hands] = False

    def _is_closed(self, hands: Ints) -> Bools:
        """Say whether nobody has to act any more; one player alone with nothing to call need not."""
        can_act = self.can_act[hands]
        waiting = self.to_act[hands] & can_act
        price = self.highest[hands] - self.street[hands, _HIGHEST_BIT[waiting]]
        is_alone = can_act & (can_act - 1) == 0
        is_closed: Bools = (waiting == 0) | (is_alone & (price <= self.slack[hands]))
        return is_closed

    def _add_uncalled(self, hands: Ints) -> None:
        top = np.partition(self.street[hands], self.width - 2, axis=1)
        self.uncalled[hands] += top[:, -1] - top[:, -2]


class _Moves:
    """All steps in the order in which they are played: what they are, what they do, and how things stood before each."""

    def __init__(self, steps: Steps, state: _State, rank: Ints, place: Ints) -> None:
        """Lay step ``i`` of ``steps``, of the hand of this rank, at ``place[i]``."""
        num_steps = len(place)
        step = np.empty(num_steps, dtype=np.int64)
        step[place] = np.arange(num_steps)
        kind, seat = steps.kind[step], steps.seat[step]
        self.hand: Ints = rank[step]  # places in ``state``
        self.place = self.hand * state.width + seat  # of the seat, among the seats of all hands
        self.bit = _BIT[seat]
        self.without = ~self.bit
        self.chips = steps.chips[step]
        self.slack = state.slack[self.hand]
        self.limit = np.maximum(self.slack, state.least_left[self.place])  # what is left up to it counts as nothing
        self.is_deal = kind >= EventKind.FLOP
        self.is_blind, is_ante = kind == _POST_BLIND, kind == _POST_ANTE
        self.is_fold, self.is_check, self.is_call = kind == _FOLD, kind == _CHECK, kind == _CALL
        self.is_bet, self.is_raise = kind == _BET, kind == _RAISE
        self.is_post = self.is_blind | is_ante
        self.is_wager = self.is_bet | self.is_raise
        self.is_voluntary = ~(self.is_post | self.is_deal)
        self.can_empty = ~(self.is_fold | self.is_check | self.is_deal)
        self.paid = np.where(is_ante, 0.0, self.chips)
        self.still_to_act = np.where(self.is_wager | self.is_check | self.is_call, self.without, _EVERYONE)
        self.still_in = np.where(self.is_fold, self.without, _EVERYONE)
        # Noted while they are played.
        self.own, self.highest, self.remaining = (np.empty(num_steps, dtype=np.float64) for _ in range(3))
        self.live, self.can_act, self.to_act = (np.empty(num_steps, dtype=np.int32) for _ in range(3))
        self.is_all_in, self.is_preflop, self.has_voluntary = (np.empty(num_steps, dtype=np.bool_) for _ in range(3))

    def are_legal(self, state: _State) -> Bools:
        """Say of each step that was played whether it was legal as written; deals are judged elsewhere."""
        chips, slack = self.chips, self.slack
        price = self.highest - self.own
        is_legal: Bools = (self.can_act & self.bit != 0) & ~(self.can_empty & (self.remaining < -self.limit))
        is_legal &= np.where(self.is_post, ~self.has_voluntary, self.live & (self.live - 1) != 0)
        is_legal &= self.is_post | self.is_fold | (self.to_act & self.bit != 0)
        is_legal &= ~self.is_check | (price <= slack)
        is_open = self.highest <= 0.0
        is_more = chips > price + slack
        is_legal &= ~self.is_bet | (is_open & (chips > 0.0))
        is_small = self.is_preflop & (self.own + self.paid <= state.big_blind[self.hand])
        is_legal &= ~self.is_raise | (~is_open & is_more & ~is_small)
        is_nothing = (chips <= slack) & (price <= slack)
        is_legal &= ~self.is_call | (~is_open & ~is_more & ~is_nothing & ((chips >= price - slack) | self.is_all_in))
        return is_legal | self.is_deal


_POST_ANTE: Final = int(EventKind.POST_ANTE)
_POST_BLIND: Final = int(EventKind.POST_BLIND)
_FOLD: Final = int(EventKind.FOLD)
_CHECK: Final = int(EventKind.CHECK)
_CALL: Final = int(EventKind.CALL)
_BET: Final = int(EventKind.BET)
_RAISE: Final = int(EventKind.RAISE)
_BIT: Final = np.int32(1) << np.arange(MAX_SEATS, dtype=np.int32)
_EVERYONE: Final = np.int32(-1)
_HIGHEST_BIT: Final = np.array([0] + [bits.bit_length() - 1 for bits in range(1, 1 << MAX_SEATS)], dtype=np.int64)
