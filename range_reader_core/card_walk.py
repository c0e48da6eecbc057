"""The cards that one stream shows, walked in plain Python: for a read alone, as ``betting_walk`` has its betting.

What the cards mean is said where it is computed for batches (``masks``, ``suits``, ``hand_kinds``); those take this way for one
stream on a CPU, where each of a batch's tensor operations costs more than the whole walk. Tests hold the two to each other.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import torch

from range_reader_core import cards
from range_reader_core.tokens import COMBO_OFFSET, COMMUNITY_OFFSET, MARK_OFFSET

_CARDS_OF_COMBO: Final = tuple((low, high) for low, high in cards.COMBO_CARDS.tolist())


class CardWalk(NamedTuple):
    """The cards of a stream in the order of their positions."""

    hole: tuple[int, int] | None  # of the perspective, the lower card first; None for a watcher
    hole_at: int  # position of the hand; that of the end of the stream for a watcher
    board: list[int]
    board_at: list[int]  # position of each board card
    num_board: list[int]  # (T,) board cards on the table at each position, its own included


def walk_cards(stream: Iterable[int]) -> CardWalk:
    """Return the cards of a stream of tokens, which shows at most one hand."""
    hole: tuple[int, int] | None = None
    hole_at = -1
    board: list[int] = []
    board_at: list[int] = []
    num_board: list[int] = []
    for position, token in enumerate(stream):
        if COMMUNITY_OFFSET <= token < MARK_OFFSET:
            board.append(token - COMMUNITY_OFFSET)
            board_at.append(position)
        elif token >= COMBO_OFFSET:
            hole, hole_at = _CARDS_OF_COMBO[token - COMBO_OFFSET], position
        num_board.append(len(board))
    return CardWalk(hole, len(num_board) if hole is None else hole_at, board, board_at, num_board)


def is_read_alone(stream: torch.Tensor) -> bool:
    """Return whether (B, T) tokens are one stream on a CPU."""
    return len(stream) == 1 and stream.device.type == "cpu"
