"""Players who follow styles: each looks at its own two cards alone and draws its action from the very policy the oracle reads.

Legend: ``T`` tables, ``S`` seats, ``N`` decisions.
"""

import math

import numpy as np
import numpy.typing as npt

from range_reader_core import cards
from range_reader_core.arena.betting import PublicState
from range_reader_core.arena.deal import BOARD_SIZE, DealtCards
from range_reader_core.arena.policy import Frequencies, Holdings, Policy
from range_reader_core.arena.preflop_order import COMBO_QUANTILE
from range_reader_core.strength import board_draws, board_strength

_Ints = npt.NDArray[np.int64]
_BOARDS_AT_ONCE = 256  # 0.7 MB of strengths


class StylePlayers:
    """Implements ``deal.Players`` with a style for every seat."""

    def __init__(self, policy: Policy, styles: _Ints, dealt: DealtCards, generator: np.random.Generator) -> None:
        """Sit down.

        Args:
            policy: of the book that ``styles`` number.
            styles: (T, S).
            dealt: the cards.
            generator: draws the actions.
        """
        self._policy = policy
        self._styles = styles
        self._board = dealt.board
        self._combos = dealt.combos  # (T, S)
        self._quantile = COMBO_QUANTILE[self._combos]
        self._percentile = np.full(self._combos.shape, 0.5)
        self._draw = np.zeros(self._combos.shape, dtype=np.int64)
        self._generator = generator

    def see_board(self, rows: _Ints, street: int, is_live: npt.NDArray[np.bool_]) -> None:
        """Work out what every hand still in, ``is_live`` (N, S), at the tables ``rows`` (N,) is worth on the board of a street."""
        for start in range(0, len(rows), _BOARDS_AT_ONCE):
            part = slice(start, start + _BOARDS_AT_ONCE)
            board, seat = np.nonzero(is_live[part])
            table = rows[part][board]
            worth = held_worth(self._board[rows[part], : BOARD_SIZE[street]], board, self._combos[table, seat])
            self._percentile[table, seat], self._draw[table, seat] = worth

    def choose(self, rows: _Ints, seats: _Ints, state: PublicState) -> tuple[_Ints, npt.NDArray[np.bool_]]:
        """Return chips put in and whether it is a fold, (N,) each."""
        styles = self._styles[rows, seats]
        holdings = Holdings(
            quantile=self._quantile[rows, seats][:, None],
            percentile=self._percentile[rows, seats][:, None],
            draw=self._draw[rows, seats][:, None],
        )
        frequencies = self._policy.frequencies(styles, state, holdings)
        return _drawn(frequencies, self._policy.raise_chips(styles, state), state.price, self._generator)


def held_worth(boards: _Ints, board: _Ints, combos: _Ints) -> tuple[npt.NDArray[np.float64], _Ints]:
    """Return percentile and draw of combos, (N,) each: ``board_percentile`` of some combos without sorting all of them.

    Args:
        boards: (G, 3), (G, 4) or (G, 5).
        board: (N,) which of them each combo is on.
        combos: (N,) none of which holds a card of its board.
    """
    strength = board_strength(boards)  # (G, C)
    others, held = strength[board], strength[board, combos][:, None]  # (N, C) and (N, 1)
    num_dead = cards.NUM_COMBOS - math.comb(cards.NUM_CARDS - boards.shape[1], 2)  # they are less than anything
    less = np.count_nonzero(others < held, axis=1)
    at_most = np.count_nonzero(others <= held, axis=1)
    percentile = ((less + at_most) / 2 - num_dead) / (cards.NUM_COMBOS - num_dead)
    return percentile.astype(np.float32).astype(np.float64), board_draws(boards)[board, combos].astype(np.int64)


def _drawn(
    frequencies: Frequencies, raise_chips: _Ints, price: _Ints, generator: np.random.Generator
) -> tuple[_Ints, npt.NDArray[np.bool_]]:
    """Draw an action for the one combo of each row."""
    action, size = generator.random((2, len(price)))
    is_fold = action < frequencies.fold[:, 0]
    is_raise = action >= 1 - frequencies.raise_[:, 0]
    chosen = (frequencies.size[:, 0].cumsum(axis=1) < size[:, None]).sum(axis=1)
    chips = np.take_along_axis(raise_chips, np.minimum(chosen, raise_chips.shape[1] - 1)[:, None], axis=1)[:, 0]
    return np.select([is_fold, is_raise & ~is_fold], [0, chips], price), is_fold
