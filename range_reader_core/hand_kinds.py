"""What kind of hand each combo is on the board in sight: how strong among all combos, and what it draws to.

A head that only sums up cards cannot know that a set beats a pair: how good two cards are depends on all of the board at once.
Here the evaluator (``strength``) says it, and the model learns one score a kind and position. Kinds are the same from every
perspective and move with the suits. Evaluated on the host, once for each different board; the latest are kept.

Legend: ``B`` reads, ``T`` positions, ``N`` chosen positions, ``M`` different boards, ``C`` = 1326 combos.
"""

import threading
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from range_reader_core import cards
from range_reader_core.card_walk import is_read_alone, walk_cards
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
_NO_CARD: Final = -1
_KEY_DIGITS: Final = (cards.NUM_CARDS + 1) ** np.arange(_MAX_BOARD)
_MOST_KNOWN: Final = 1 << 17  # boards, 174 MB


class HandKinds(NamedTuple):
    """The kinds of all combos on some boards, and which board each of some positions has."""

    kinds: torch.Tensor  # (M, C) int64, 0..NUM_KINDS - 1; without a meaning where a combo holds a board card
    board: torch.Tensor  # (N,) int64 into the boards; NO_BOARD where fewer than three cards are in sight

    def with_board(self, block: slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Return which positions of a block have a board (n,), counted from its start, and the kinds of all combos there (n, C)."""
        board = self.board[block]
        rows = (board != NO_BOARD).nonzero()[:, 0]
        return rows, self.kinds.index_select(0, board[rows])

    def take(self, chosen: torch.Tensor | slice) -> "HandKinds":
        """Return the kinds at some of the positions."""
        return HandKinds(self.kinds, self.board[chosen])


def hand_kinds(stream: torch.Tensor, rows: torch.Tensor, positions: torch.Tensor) -> HandKinds:
    """Return the kinds of hand at positions (N,) of rows (N,) of (B, T) int64 tokens."""
    if is_read_alone(stream):
        return _kinds_in_one(stream, positions)
    is_board = (stream >= COMMUNITY_OFFSET) & (stream < MARK_OFFSET)
    num_board = is_board.cumsum(dim=1)[rows, positions].cpu().numpy()  # (N,)
    boards = board_cards(stream).cpu().numpy()[rows.cpu().numpy()]  # (N, 5)
    boards = np.where(np.arange(_MAX_BOARD) < num_board[:, None], boards, _NO_CARD)
    has_board = num_board >= _MIN_BOARD
    keys = ((np.sort(boards[has_board], axis=1) + 1) @ _KEY_DIGITS).astype(np.int64)
    different, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    board_of = np.full(len(boards), NO_BOARD, dtype=np.int64)
    board_of[has_board] = inverse
    kinds = _KNOWN.kinds(different, boards[has_board][first])
    return HandKinds(torch.from_numpy(kinds.astype(np.int64)).to(stream.device), torch.from_numpy(board_of).to(stream.device))


def board_kinds(boards: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the kind of every combo on boards of one size (M, 3), (M, 4) or (M, 5), as (M, C)."""
    strength = np.searchsorted(EDGES, board_percentile(boards))  # NaN, of the dead, goes last
    kinds: npt.NDArray[np.int64] = strength * NUM_DRAWS + board_draws(boards)
    return kinds


def _kinds_in_one(stream: torch.Tensor, positions: torch.Tensor) -> HandKinds:
    """Return ``hand_kinds`` at positions (N,) of one stream (1, T)."""
    walked = walk_cards(stream[0].tolist())
    num_board = [walked.num_board[position] for position in positions.tolist()]
    sizes = sorted({num for num in num_board if num >= _MIN_BOARD})
    place = {size: index for index, size in enumerate(sizes)}
    boards = np.full((len(sizes), _MAX_BOARD), _NO_CARD, dtype=np.int64)
    for row, size in enumerate(sizes):
        boards[row, :size] = walked.board[:size]
    keys = (np.sort(boards, axis=1) + 1) @ _KEY_DIGITS
    kinds = _KNOWN.kinds(keys, boards)
    return HandKinds(torch.from_numpy(kinds.astype(np.int64)), torch.tensor([place.get(num, NO_BOARD) for num in num_board]))


class _KnownBoards:
    """Kinds on boards met before: reads of a hand share its boards, and with named suits hands share most flops."""

    def __init__(self) -> None:
        self._place: dict[int, int] = {}  # of a board's key among the rows
        self._rows = np.empty((0, cards.NUM_COMBOS), dtype=np.uint8)
        self._lock = threading.Lock()

    def kinds(self, keys: npt.NDArray[np.int64], boards: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
        """Return the kinds (M, C) of boards (M, 5) with these keys; places without a card come last."""
        with self._lock:
            if len(self._place) + len(keys) > _MOST_KNOWN:
                self._place.clear()
            unknown = [index for index, key in enumerate(keys.tolist()) if key not in self._place]
            size = (boards != _NO_CARD).sum(axis=1)
            for num_cards in range(_MIN_BOARD, _MAX_BOARD + 1):
                new = [index for index in unknown if size[index] == num_cards]
                if new:
                    self._add(keys[new].tolist(), board_kinds(boards[new, :num_cards]).astype(np.uint8))
            return self._rows[[self._place[key] for key in keys.tolist()]]

    def _add(self, keys: list[int], rows: npt.NDArray[np.uint8]) -> None:
        begin, end = len(self._place), len(self._place) + len(keys)
        if end > len(self._rows):
            room = np.empty((max(end, 2 * len(self._rows)), cards.NUM_COMBOS), dtype=np.uint8)
            room[:begin] = self._rows[:begin]
            self._rows = room
        self._rows[begin:end] = rows
        self._place.update(zip(keys, range(begin, end), strict=True))


_KNOWN: Final = _KnownBoards()
