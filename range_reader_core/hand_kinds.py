"""What kind of hand each combo is on the board in sight: how strong among all combos, and what it draws to.

A head that only sums up cards cannot know that a set beats a pair: how good two cards are depends on all of the board at once.
Here the evaluator (``strength``) says it, and the model learns one score a kind and position. Kinds are the same from every
perspective and move with the suits. Evaluated on the host, once for each different board of a batch.

Legend: ``B`` reads, ``T`` positions, ``N`` chosen positions, ``M`` different boards, ``C`` = 1326 combos.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from range_reader_core import cards
from range_reader_core.hand import BOARD_CARDS
from range_reader_core.lines import board_cards
from range_reader_core.strength import DRAWS, board_draws, board_percentile
from range_reader_core.tokens import COMMUNITY_OFFSET, MARK_OFFSET

EDGES: Final = np.array([0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.78, 0.85, 0.9, 0.94, 0.97, 0.985])
"""Where strength is cut: shares of the combos beaten. Finer at the top, where bets and raises live."""
NUM_STRENGTHS: Final = len(EDGES) + 1
NUM_DRAWS: Final = len(DRAWS)
NUM_KINDS: Final = NUM_STRENGTHS * NUM_DRAWS
NO_BOARD: Final = -1

_MAX_BOARD: Final = sum(BOARD_CARDS.values())
_MIN_BOARD: Final = 3


class HandKinds(NamedTuple):
    """The kinds of all combos on some boards, and which board each of some positions has."""

    kinds: torch.Tensor  # (M, C) int64, 0..NUM_KINDS - 1; without a meaning where a combo holds a board card
    board: torch.Tensor  # (N,) int64 into the boards; NO_BOARD where fewer than three cards are in sight

    def with_board(self, block: slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Return which positions of a block have a board (n,), counted from its start, and the kinds of all combos there (n, C)."""
        board = self.board[block]
        rows = (board != NO_BOARD).nonzero()[:, 0]
        return rows, self.kinds[board[rows]]

    def take(self, chosen: torch.Tensor) -> "HandKinds":
        """Return the kinds at some of the positions."""
        return HandKinds(self.kinds, self.board[chosen])


def hand_kinds(stream: torch.Tensor, rows: torch.Tensor, positions: torch.Tensor) -> HandKinds:
    """Return the kinds of hand at positions (N,) of rows (N,) of (B, T) int64 tokens."""
    is_board = (stream >= COMMUNITY_OFFSET) & (stream < MARK_OFFSET)
    num_board = is_board.cumsum(dim=1)[rows, positions].cpu().numpy()  # (N,)
    boards = board_cards(stream).cpu().numpy()  # (B, 5)
    read = rows.cpu().numpy()
    board_of = np.full(len(read), NO_BOARD, dtype=np.int64)
    kinds, num_kinds = [], 0
    for size in range(_MIN_BOARD, _MAX_BOARD + 1):
        is_size = num_board == size
        if not is_size.any():
            continue
        different, inverse = np.unique(boards[read[is_size], :size], axis=0, return_inverse=True)
        board_of[is_size] = num_kinds + inverse.ravel()
        kinds.append(board_kinds(different))
        num_kinds += len(different)
    of_boards = np.concatenate(kinds) if kinds else np.zeros((0, cards.NUM_COMBOS), dtype=np.int64)
    return HandKinds(torch.from_numpy(of_boards).to(stream.device), torch.from_numpy(board_of).to(stream.device))


def board_kinds(boards: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the kind of every combo on boards of one size (M, 3), (M, 4) or (M, 5), as (M, C)."""
    strength = np.searchsorted(EDGES, board_percentile(boards))  # NaN, of the dead, goes last
    kinds: npt.NDArray[np.int64] = strength * NUM_DRAWS + board_draws(boards)
    return kinds
