"""Reads as the arena's own betting machine plays them again: what each player saw before each action, from tokens alone.

The stream of a read holds stacks, posts and every action in big blinds; multiplied by the blind they are the whole chips that were
dealt with. So a read is replayed by the very machine that dealt it, and a stream that its rules cannot explain is refused. Nothing
hidden is in the stream, so nothing hidden is here.

Legend: ``B`` reads, ``T`` positions, ``D`` decisions of all reads, ``S`` seats.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from range_reader_core import tokens
from range_reader_core.arena.betting import NOBODY, NUM_SEATS, Betting, PublicState
from range_reader_core.tokens import MAX_SEATS, BaseAction

_VOLUNTARY: Final = (
    BaseAction.FOLD,
    BaseAction.CHECK,
    BaseAction.CALL,
    BaseAction.BET,
    BaseAction.RAISE,
    BaseAction.ALL_IN,
)
_NUM_BOARD_CARDS: Final = 5

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicRecord:
    """Every decision of some reads, in the order of reads and time."""

    row: _Ints  # (D,) the read
    position: _Ints  # (D,) where its token stands
    seat: _Ints  # (D,) who decides
    state: PublicState  # before it
    chips: _Ints  # (D,) put in
    is_fold: _Bools  # (D,)
    boards: _Ints  # (B, 5) cards in the order of their streets, -1 where none came
    villain: _Ints  # (B,)
    perspective: _Ints  # (B,) NOBODY where nobody's cards are seen

    def take(self, decisions: _Ints) -> "PublicRecord":
        """Return some of the decisions, (M,) numbers of those here, of the same reads."""
        return replace(
            self,
            row=self.row[decisions],
            position=self.position[decisions],
            seat=self.seat[decisions],
            state=self.state.take(decisions),
            chips=self.chips[decisions],
            is_fold=self.is_fold[decisions],
        )


def replay_reads(stream: _Ints, values: npt.NDArray[np.float64], big_blind: int) -> PublicRecord:
    """Return the decisions of reads.

    Args:
        stream: (B, T) tokens, right-padded.
        values: (B, T) big blinds.
        big_blind: chips.

    Raises:
        ValueError: a read that the arena's rules cannot have produced.
    """
    num_reads = len(stream)
    place = np.arange(num_reads)
    action, seat = np.divmod(stream, MAX_SEATS)
    is_action = stream < tokens.COMMUNITY_OFFSET
    action = np.where(is_action, action, NOBODY)
    chips = np.rint(values * big_blind).astype(np.int64)
    if (np.abs(values * big_blind - chips) > 1e-3 * np.maximum(1.0, chips / 1000)).any():
        msg = f"these reads hold amounts that are no whole chips of a big blind of {big_blind}; they were not dealt by this arena"
        raise ValueError(msg)
    is_sit = action == BaseAction.SIT
    num_players = is_sit.sum(axis=1)
    if num_players.max() > NUM_SEATS:
        msg = f"these reads hold tables of {num_players.max()} players; the arena seats {NUM_SEATS}"
        raise ValueError(msg)

    is_voluntary = np.isin(action, _VOLUNTARY)
    number = is_voluntary.cumsum(axis=1) - 1  # of each action in its read
    rows, positions = np.nonzero(is_voluntary)
    most = int(is_voluntary.sum(axis=1).max())
    where = np.full((num_reads, most), NOBODY)
    where[rows, number[rows, positions]] = positions
    first = np.where(is_voluntary.any(axis=1), seat[place, is_voluntary.argmax(axis=1)], 0)
    betting = Betting.posted(
        stacks=_by_seat(is_sit, seat, chips),
        num_players=num_players,
        button=_seat_of(action == BaseAction.IS_BUTTON, seat),
        antes=_by_seat(action == BaseAction.POST_ANTE, seat, chips),
        blinds=_by_seat(action == BaseAction.POST_BLIND, seat, chips),
        first=first,
        big_blind=big_blind,
    )
    steps: list[tuple[_Ints, _Ints, _Ints, PublicState, _Ints, _Bools]] = []
    for step in range(most):
        rows = np.flatnonzero(where[:, step] != NOBODY)
        while len(closed := rows[(betting.actor[rows] == NOBODY) & ~betting.is_over[rows]]):
            betting.next_street(closed)
        at = where[rows, step]
        acting = seat[rows, at]
        if (betting.actor[rows] != acting).any():
            wrong = int(np.flatnonzero(betting.actor[rows] != acting)[0])
            msg = (
                f"read {rows[wrong]}, position {at[wrong]}: seat {acting[wrong]} acts, the arena's rules expect seat "
                f"{betting.actor[rows][wrong]}; this hand was not dealt by the arena"
            )
            raise ValueError(msg)
        state, added = betting.state(rows), chips[rows, at]
        is_fold = action[rows, at] == BaseAction.FOLD
        steps.append((rows, at, acting, state, added, is_fold))
        betting.act(rows, added, is_fold)
    return _record(steps, stream, seat, action, num_players, big_blind)


def _record(
    steps: list[tuple[_Ints, _Ints, _Ints, PublicState, _Ints, _Bools]],
    stream: _Ints,
    seat: _Ints,
    action: _Ints,
    num_players: _Ints,
    big_blind: int,
) -> PublicRecord:
    columns = {
        name: np.concatenate([getattr(state, name) for _, _, _, state, _, _ in steps])
        for name in PublicState.__slots__
        if name != "big_blind"
    }
    row, position, acting, added, is_fold = (np.concatenate([step[index] for step in steps]) for index in (0, 1, 2, 4, 5))
    order = np.lexsort((position, row))
    boards = np.full((len(stream), _NUM_BOARD_CARDS), NOBODY)
    is_board = (stream >= tokens.COMMUNITY_OFFSET) & (stream < tokens.MARK_OFFSET)
    on, at = np.nonzero(is_board)
    boards[on, (is_board.cumsum(axis=1) - 1)[on, at]] = stream[on, at] - tokens.COMMUNITY_OFFSET
    is_hole = stream >= tokens.COMBO_OFFSET
    slot = is_hole.argmax(axis=1) - num_players - 3  # after bos, the sits, the button and the preflop mark
    return PublicRecord(
        row=row[order],
        position=position[order],
        seat=acting[order],
        state=PublicState(big_blind=big_blind, **columns).take(order),
        chips=added[order],
        is_fold=is_fold[order],
        boards=boards,
        villain=_seat_of(action == BaseAction.PREDICT_HOLE, seat),
        perspective=np.where(is_hole.any(axis=1), slot, NOBODY),
    )


def _by_seat(is_chosen: _Bools, seat: _Ints, chips: _Ints) -> _Ints:
    """Return the chips of the chosen tokens by seat, (B, S)."""
    rows, positions = np.nonzero(is_chosen)
    total = np.zeros((len(seat), NUM_SEATS), dtype=np.int64)
    np.add.at(total, (rows, seat[rows, positions]), chips[rows, positions])
    return total


def _seat_of(is_chosen: _Bools, seat: _Ints) -> _Ints:
    """Return the seat of the one chosen token of each read, (B,)."""
    result: _Ints = (seat * is_chosen).sum(axis=1)
    return result
