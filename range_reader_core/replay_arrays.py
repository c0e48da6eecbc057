"""``replay.play`` for thousands of hands at once, step by step across all of them, for hands in which nothing is unusual.

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
    starts = np.cumsum(steps.num_steps) - steps.num_steps
    within = np.arange(len(steps.kind)) - np.repeat(starts, steps.num_steps)
    rank = np.repeat(_inverse(order), steps.num_steps)
    place = within * num_hands + rank
    size = int(steps.num_steps.max(initial=0)) * num_hands
    kind = np.zeros(size, dtype=np.uint8)
    seat = np.zeros(size, dtype=np.int64)  # places among the seats of all hands
    bit = np.zeros(size, dtype=np.int32)
    chips = np.zeros(size, dtype=np.float64)
    kind[place], seat[place], bit[place], chips[place] = steps.kind, rank * state.width + steps.seat, _BIT[steps.seat], steps.chips
    is_all_in = np.zeros(size, dtype=np.bool_)
    # Longest hands first, so that those still in play are always the first so many.
    num_active = np.searchsorted(-steps.num_steps[order], -np.arange(1, size // num_hands + 1) if num_hands else [], side="right")
    for step, active in enumerate(num_active.tolist()):
        here = slice(step * num_hands, step * num_hands + active)
        state.play(kind[here], seat[here], bit[here], chips[here], is_all_in[here])
    is_plain = np.zeros(num_hands, dtype=np.bool_)
    live = np.zeros(num_hands, dtype=np.int32)
    is_plain[order], live[order] = state.finish(steps.num_board[order]), state.live
    return is_plain, is_all_in[place], live


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
        self.gross = np.zeros(num_hands, dtype=np.float64)
        self.uncalled = np.zeros(num_hands, dtype=np.float64)
        self.live = (np.int32(1) << steps.num_players[self.order].astype(np.int32)) - np.int32(1)
        self.can_act, self.to_act = self.live.copy(), self.live.copy()
        self.is_preflop = np.ones(num_hands, dtype=np.bool_)
        self.has_voluntary = np.zeros(num_hands, dtype=np.bool_)
        self.is_plain = np.ones(num_hands, dtype=np.bool_)
        self.big_blind = steps.big_blind[self.order]
        self.pot = steps.pot[self.order]
        most = np.zeros(num_hands, dtype=np.float64)
        np.maximum.at(most, np.repeat(np.arange(num_hands), steps.num_steps), steps.chips)
        self.slack = RELATIVE_SLACK * np.fmax(self.pot, most[self.order])  # as ohh_settle has it

    def play(self, kind: npt.NDArray[np.uint8], place: Ints, bit: npt.NDArray[np.int32], chips: Floats, is_all_in: Bools) -> None:
        """Play one step of the first ``len(kind)`` hands, and note in ``is_all_in`` whose stack it empties.

        Args:
            kind: EventKind.
            place: of the seat, among the seats of all hands.
            bit: of the seat.
            chips: chips added.
            is_all_in: to be filled.
        """
        is_deal = kind >= EventKind.FLOP
        self._act(kind, place, bit, chips, is_deal, is_all_in)
        dealt = np.flatnonzero(is_deal)
        if len(dealt):
            self._deal(dealt)

    def finish(self, num_board: Ints) -> Bools:
        """Return which hands are decided and paid out right."""
        everyone = np.arange(len(self.live))
        is_shown_down = self.live & (self.live - 1) != 0
        is_right = self._is_closed(everyone) & (num_board == NUM_BOARD_CARDS)
        self.is_plain &= ~is_shown_down | is_right
        self._add_uncalled(everyone)
        is_paid = np.isnan(self.pot) | (np.abs(self.pot - self.gross) <= self.slack)
        is_paid |= np.abs(self.pot - (self.gross - self.uncalled)) <= self.slack
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

    def _act(
        self,
        kind: npt.NDArray[np.uint8],
        place: Ints,
        bit: npt.NDArray[np.int32],
        chips: Floats,
        is_deal: Bools,
        is_all_in: Bools,
    ) -> None:
        """Let everybody act. A deal is let through as an action that changes nothing: slices are cheaper than picking hands."""
        here = slice(len(kind))
        live, can_act, to_act = self.live[here], self.can_act[here], self.to_act[here]
        slack, highest, own = self.slack[here], self.highest[here], self.street_of_seat[place]
        is_blind, is_fold, is_check = kind == _POST_BLIND, kind == _FOLD, kind == _CHECK
        is_call, is_bet, is_raise = kind == _CALL, kind == _BET, kind == _RAISE
        is_ante = kind == _POST_ANTE
        is_post = is_ante | is_blind
        is_wager = is_bet | is_raise

        price = highest - own
        remaining = self.left[place] - chips
        least = self.least_left[place]
        is_empty = ((remaining <= slack) | (remaining <= least)) & ~(is_fold | is_check | is_deal)
        is_overspent = is_empty & (remaining < -slack) & (remaining < -least)
        total = own + np.where(is_ante, 0.0, chips)

        is_legal = (can_act & bit != 0) & ~is_overspent
        is_legal &= np.where(is_post, ~self.has_voluntary[here], live & (live - 1) != 0)
        is_legal &= is_post | is_fold | (to_act & bit != 0)
        is_legal &= ~is_check | (price <= slack)
        is_open = highest <= 0.0
        is_more = chips > price + slack
        is_legal &= ~is_bet | (is_open & (chips > 0.0))
        is_legal &= ~is_raise | (~is_open & is_more & ~(self.is_preflop[here] & (total <= self.big_blind[here])))
        is_nothing = (chips <= slack) & (price <= slack)
        is_legal &= ~is_call | (~is_open & ~is_more & ~is_nothing & ((chips >= price - slack) | is_empty))
        self.is_plain[here] &= is_legal | is_deal

        remaining[is_empty] = 0.0
        self.left[place] = remaining
        self.gross[here] += chips
        self.street_of_seat[place] = total
        self.has_voluntary[here] |= ~(is_post | is_deal)
        is_all_in[:] = is_empty
        # The new values need the old ones of each other.
        without = ~bit
        next_highest = np.where(is_wager, total, np.where(is_blind, np.maximum(highest, total), highest))
        next_to_act = np.where(is_wager, live, to_act) & np.where(is_wager | is_check | is_call, without, _EVERYONE)
        can_act &= np.where(is_fold | is_empty, without, _EVERYONE)
        live &= np.where(is_fold, without, _EVERYONE)
        highest[:] = next_highest
        to_act[:] = next_to_act


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
