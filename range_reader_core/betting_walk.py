"""The facts that ``embedding`` and ``betting_embedding`` tell, for one hand at a time, walked position by position in plain Python.

For a batch these facts come from some two hundred tensor operations that look at all of it at once. For one short stream each of
them costs more than all that the stream says; a walk takes a tenth of their time, and a hand that goes on is not walked again.
What the facts mean is said where they are computed for batches: what a call is, what a seat's position and a pot's situation are
called come from there (``lines``), and a test holds the two to each other at every position.
"""

import functools
from collections.abc import Iterable
from typing import Final, NamedTuple

import torch

from range_reader_core.betting_embedding import MAX_RATIO, MIN_POT_BB, NO_POSITION, NUM_SITUATIONS, RATIO_SCALE, ROLES
from range_reader_core.lines import (
    CALLS,
    EPSILON_BB,
    FIRST_DECISION,
    LAST_DECISION,
    PRICED_ACTIONS,
    RAISES,
    position,
    preflop_situation,
)
from range_reader_core.tokens import COMBO_OFFSET, FLOP, MAX_SEATS, NUM_SEAT_TOKENS, PREFLOP, RIVER, BaseAction

_NO_SEAT: Final = MAX_SEATS
_OTHER, _VILLAIN, _PERSPECTIVE = range(len(ROLES))
_PRICED: Final = frozenset(PRICED_ACTIONS)
_MOST_RAISES: Final = NUM_SITUATIONS - 1  # more of them change no situation
_SITUATIONS: Final = tuple(
    tuple(preflop_situation(torch.arange(NUM_SITUATIONS), torch.tensor(has_limper)).tolist()) for has_limper in (False, True)
)
"""What is faced before the flop by whether somebody limped, then by the number of raises."""


class WalkedFacts(NamedTuple):
    """What is told about each of ``S`` positions."""

    rows: list[tuple[int, ...]]  # (S, 9) row numbers: ``PositionFacts`` and ``BettingFacts`` in their order
    amounts: list[tuple[float, ...]]  # (S, A) as in ``BettingFacts``


class _Place(NamedTuple):
    """The public state at a position: all but who is read by whom."""

    seat: int
    num_folded: int
    situation: int  # of all streets
    pot_bb: float  # this token's chips included
    to_call_bb: float
    size: float
    odds: float
    initiative: int  # the seat that has it
    put_in_bb: tuple[float, ...]  # by seat


class BettingWalk:
    """A hand as its tokens tell it, from the first one on."""

    def __init__(self) -> None:
        """Stand before the first token."""
        self._places: list[_Place] = []
        self._stacks = [0.0] * MAX_SEATS
        self.num_players = self._villain = 0
        self._perspective = _NO_SEAT
        self._button = self._num_folded = self._slots_begin = self._street = self._num_raises = 0
        self._has_limper = False
        self._pot = self._price = 0.0
        self._committed = [0.0] * MAX_SEATS  # on this street
        self._put_in = [0.0] * MAX_SEATS
        self._aggressor = self._initiative = _NO_SEAT

    def append(self, token: int, value: float) -> None:
        """Walk over a token and its chip amount in big blinds."""
        action, seat = divmod(token, MAX_SEATS)
        to_call = size = odds = 0.0
        if token < NUM_SEAT_TOKENS:
            to_call = max(self._price - self._committed[seat], 0.0)
            odds = to_call / max(self._pot + to_call, MIN_POT_BB)
            if action == BaseAction.SIT:
                self.num_players += 1
                self._stacks[seat] += value
            elif action == BaseAction.IS_BUTTON:
                self._button = seat
            elif action in _PRICED or action == BaseAction.POST_ANTE:
                size = self._put(action, seat, value)
            elif action == BaseAction.FOLD:
                self._num_folded += 1
            elif action == BaseAction.PREDICT_HOLE:
                self._villain = seat
        elif FLOP <= token <= RIVER:
            self._begin_street()
        elif token == PREFLOP:
            self._slots_begin = len(self._places) + 1
        if token >= COMBO_OFFSET:
            seat = self._perspective = len(self._places) - self._slots_begin
        elif token >= NUM_SEAT_TOKENS:
            seat = _NO_SEAT
        self._places.append(
            _Place(seat, self._num_folded, self._situation(), self._pot, to_call, size, odds, self._initiative, tuple(self._put_in))
        )

    def facts(self, first: int = 0, villain: int | None = None, end: int | None = None) -> WalkedFacts:
        """Return the facts of the positions ``first`` to ``end``, about the villain that the tokens name or another seat."""
        villain = self._villain if villain is None else villain
        places = self._places[first:end]
        relpos, positions = _around_button(self.num_players, self._button)
        roles = [_OTHER] * (_NO_SEAT + 1)
        roles[self._perspective] = _PERSPECTIVE
        roles[_NO_SEAT] = _OTHER
        roles[villain] = _VILLAIN
        stack, villain_position = self._stacks[villain], positions[villain]
        n = self.num_players
        rows: list[tuple[int, ...]] = []
        amounts: list[tuple[float, ...]] = []
        for seat, num_folded, situation, pot, to_call, size, odds, initiative, put_in_by_seat in places:
            put_in = put_in_by_seat[villain]
            depth = min(max(stack - put_in, 0.0) / max(pot, MIN_POT_BB), MAX_RATIO)
            of_betting = (roles[seat], situation, positions[seat], villain_position, int(initiative == villain))
            rows.append((seat, relpos[seat], n, n - num_folded, *of_betting))
            amounts.append((pot, to_call, put_in, RATIO_SCALE * size, RATIO_SCALE * odds, RATIO_SCALE * depth))
        return WalkedFacts(rows, amounts)

    def _put(self, action: int, seat: int, value: float) -> float:
        """Put chips in; returns what a voluntary action adds over the pot."""
        is_raise = False
        if action in _PRICED:
            self._committed[seat] += value
            is_raise = action in RAISES or (action == BaseAction.ALL_IN and self._committed[seat] > self._price + EPSILON_BB)
            self._price = max(self._price, self._committed[seat])
        if is_raise:
            self._num_raises += 1
            self._aggressor = seat
        elif action in CALLS and not self._num_raises:
            self._has_limper = True
        before = self._pot
        self._pot += value
        self._put_in[seat] += value
        is_decision = FIRST_DECISION <= action <= LAST_DECISION
        return min(value / max(before, MIN_POT_BB), MAX_RATIO) if is_decision else 0.0

    def _begin_street(self) -> None:
        self._street += 1
        self._num_raises, self._has_limper, self._price = 0, False, 0.0
        self._committed = [0.0] * MAX_SEATS
        self._initiative = self._aggressor

    def _situation(self) -> int:
        num_raises = min(self._num_raises, _MOST_RAISES)
        return self._street * NUM_SITUATIONS + num_raises if self._street else _SITUATIONS[self._has_limper][num_raises]


def walk(stream: Iterable[int], values: Iterable[float]) -> BettingWalk:
    """Return the walk over a whole stream."""
    walked = BettingWalk()
    for token, value in zip(stream, values, strict=True):
        walked.append(token, value)
    return walked


@functools.cache
def _around_button(num_players: int, button: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return each seat's place after the button and its position, nobody's last."""
    after_button = torch.arange(MAX_SEATS) - button
    relpos = after_button % max(num_players, 1)
    positions = position(after_button, torch.tensor(num_players))
    return (*relpos.tolist(), _NO_SEAT), (*positions.tolist(), NO_POSITION)
