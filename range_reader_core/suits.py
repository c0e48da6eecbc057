"""Suits named by what they hold: the names that make a reader exactly indifferent to what suits are called, in one forward.

Suits are labels. Naming them by the cards in sight gives all 24 relabelings of a hand the same named stream, so a model that
reads named streams answers them alike; neither random relabelings in training nor forwards under all of them in use are needed.
The suit of the perspective's higher card comes first, then that of its lower one, then those of the flop from its lowest card
up, then the turn's and the river's. A hand and a flop are sets: flop cards of one rank are put in the order of their names.

Suits that hold the same ranks so far, such as all that are not in sight, are alike, and must be treated alike in the answer.
Which names those are is one of ``ALIKE`` at every position; the head averages over them (``model.ComposedHead``). A later card
that tells them apart settles who takes which name, and no earlier token depends on that: names are given by what is visible so
far alone, and keys and values of earlier positions stay valid. Between the cards of a flop, names alike are those of before it.

Legend: ``B`` reads, ``T`` positions, ``G`` = 8 kinds of names alike, ``C`` = 1326 combos.
"""

import functools
from itertools import permutations
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from range_reader_core import cards
from range_reader_core.card_walk import CardWalk, is_read_alone, walk_cards
from range_reader_core.hand import BOARD_CARDS, EventKind
from range_reader_core.tokens import COMBO_OFFSET, COMMUNITY_OFFSET, MARK_OFFSET, PERM_ACTION, PERM_COMBO

NUM_SUITS: Final = len(cards.SUITS)
ALIKE: Final = tuple(
    tuple(tuple(names) for names in np.split(np.arange(NUM_SUITS), [j + 1 for j in range(3) if kind >> j & 1]) if len(names) > 1)
    for kind in range(1 << (NUM_SUITS - 1))
)
"""Sets of names alike by kind. Bit j of a kind says that something tells names j and j + 1 apart."""

_NUM_RANKS: Final = len(cards.RANKS)
_FLOP_CARDS: Final = BOARD_CARDS[EventKind.FLOP]
_STAGE_OF_BOARD: Final = (1, 1, 1, 2, 3, 4)  # by cards on the table
_SHIFTS: Final = (2 * _NUM_RANKS + 2, _NUM_RANKS + 2, 2, 1, 0)  # of a suit's holding, to what is known at each stage


class NamedSuits(NamedTuple):
    """A stream in named suits, and what to make of the answers."""

    stream: torch.Tensor  # (B, T) int64 tokens
    relabeling: torch.Tensor  # (B,) int64, the suit relabeling that gives the names
    alike: torch.Tensor  # (B, T) int64 into ALIKE


def name_suits(stream: torch.Tensor) -> NamedSuits:
    """Return streams (B, T) int64 with named suits; each shows at most one hand."""
    if is_read_alone(stream):
        return _name_one(stream)
    device = stream.device
    is_board = (stream >= COMMUNITY_OFFSET) & (stream < MARK_OFFSET)
    num_board = is_board.cumsum(dim=1)  # (B, T)
    is_hole = stream >= COMBO_OFFSET
    holding = _holdings(stream, is_board, num_board, is_hole)  # (B, 4)
    ordered, suit_by_name = holding.sort(dim=1, descending=True, stable=True)  # (B, 4) each
    places = NUM_SUITS ** torch.arange(NUM_SUITS, device=device)
    relabeling = _relabeling_of_order(device)[(suit_by_name * places).sum(dim=1)]  # (B,)

    known = ordered.unsqueeze(1) >> torch.tensor(_SHIFTS, device=device).unsqueeze(1)  # (B, 5 stages, 4)
    is_apart = known[:, :, 1:] != known[:, :, :-1]  # (B, 5, 3)
    kind = (is_apart << torch.arange(NUM_SUITS - 1, device=device)).sum(dim=2)  # (B, 5)
    stage = torch.tensor(_STAGE_OF_BOARD, device=device)[num_board] * (is_hole.cumsum(dim=1) + num_board).clamp(max=1)  # (B, T)
    return NamedSuits(_renamed(stream, relabeling, is_board, num_board), relabeling, kind.gather(1, stage))


def mean_over_alike() -> torch.Tensor:
    """Return, by kind, what each name's share becomes when names alike are averaged, (G, 4, 4) float32."""
    mean = torch.eye(NUM_SUITS).repeat(len(ALIKE), 1, 1)
    for kind, sets in enumerate(ALIKE):
        for names in sets:
            mean[kind, names[0] : names[-1] + 1, names[0] : names[-1] + 1] = 1.0 / len(names)
    return mean


@functools.cache
def relabelings_on(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what the 24 relabelings make of every token (24, 1596) and of every combo (24, C), int64, on a device."""
    return torch.from_numpy(PERM_ACTION).to(device), torch.from_numpy(PERM_COMBO).to(device)


def _name_one(stream: torch.Tensor) -> NamedSuits:
    """Return ``name_suits`` of one stream (1, T)."""
    walked = walk_cards(stream[0].tolist())
    holding = _holdings_of_one(walked)
    suit_by_name = sorted(range(NUM_SUITS), key=lambda suit: -holding[suit])  # stable
    relabeling = int(_relabeling_by_digits()[sum(suit * NUM_SUITS**place for place, suit in enumerate(suit_by_name))])
    kind = [0] * len(_SHIFTS)
    for stage, shift in enumerate(_SHIFTS):
        known = [holding[suit] >> shift for suit in suit_by_name]
        kind[stage] = sum((known[name + 1] != known[name]) << name for name in range(NUM_SUITS - 1))
    # Before any card is in sight nothing is told apart: stage 0.
    alike = [
        kind[_STAGE_OF_BOARD[num] if num or position >= walked.hole_at else 0] for position, num in enumerate(walked.num_board)
    ]
    renamed = PERM_ACTION[relabeling][stream[0].numpy()]  # (T,)
    if len(walked.board) >= _FLOP_CARDS:
        renamed[walked.board_at[0] : walked.board_at[0] + _FLOP_CARDS].sort()
    return NamedSuits(torch.from_numpy(renamed)[None], torch.tensor([relabeling]), torch.tensor([alike]))


def _holdings_of_one(walked: CardWalk) -> list[int]:
    """Return ``_holdings`` of one stream."""
    holding = [0] * NUM_SUITS
    for card in walked.hole or ():
        holding[card % NUM_SUITS] += 1 << card // NUM_SUITS + _NUM_RANKS + 2
    for place, card in enumerate(walked.board):
        of_flop, of_later = 1 << _NUM_RANKS - 1 - card // NUM_SUITS + 2, 2 >> max(place - _FLOP_CARDS, 0)
        holding[card % NUM_SUITS] += of_flop if place < _FLOP_CARDS else of_later
    return holding


def _holdings(stream: torch.Tensor, is_board: torch.Tensor, num_board: torch.Tensor, is_hole: torch.Tensor) -> torch.Tensor:
    """Return a number for what each suit holds, (B, 4): the greater, the earlier the name; equal ones are alike.

    From the highest bit: ranks in the hand, high ranks first; ranks on the flop, low ranks first; the turn; the river.
    """
    every_suit = torch.arange(NUM_SUITS, device=stream.device)
    low, high = _combo_columns(stream.device)
    combo = torch.where(is_hole, stream - COMBO_OFFSET, 0).amax(dim=1)  # (B,)
    held = torch.stack([low[combo], high[combo]], dim=1)  # (B, 2)
    weight = torch.where(is_hole.any(dim=1, keepdim=True), 1 << (held // NUM_SUITS + _NUM_RANKS + 2), 0)
    holding = (weight.unsqueeze(2) * (held.unsqueeze(2) % NUM_SUITS == every_suit)).sum(dim=1)  # (B, 4)
    card = torch.where(is_board, stream - COMMUNITY_OFFSET, 0)  # (B, T)
    of_flop = 1 << (_NUM_RANKS - 1 - card // NUM_SUITS + 2)
    of_later = 2 >> (num_board - _FLOP_CARDS - 1).clamp(min=0)  # turn 2, river 1
    weight = torch.where(num_board <= _FLOP_CARDS, of_flop, of_later) * is_board
    return holding + (weight.unsqueeze(2) * (card.unsqueeze(2) % NUM_SUITS == every_suit)).sum(dim=1)


def _renamed(stream: torch.Tensor, relabeling: torch.Tensor, is_board: torch.Tensor, num_board: torch.Tensor) -> torch.Tensor:
    renamed = relabelings_on(stream.device)[0][relabeling.unsqueeze(1), stream]  # (B, T)
    first = is_board.int().argmax(dim=1, keepdim=True)  # (B, 1)
    places = (first + torch.arange(_FLOP_CARDS, device=stream.device)).clamp(max=stream.shape[1] - 1)  # (B, 3)
    flop = renamed.gather(1, places)
    has_flop = num_board[:, -1:] >= _FLOP_CARDS
    return torch.where(has_flop, renamed.scatter(1, places, flop.sort(dim=1).values), renamed)


@functools.cache
def _combo_columns(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    columns = torch.from_numpy(cards.COMBO_CARDS.T.copy()).to(device)
    return columns[0], columns[1]


@functools.cache
def _relabeling_of_order(device: torch.device) -> torch.Tensor:
    return torch.from_numpy(_relabeling_by_digits()).to(device)


@functools.cache
def _relabeling_by_digits() -> npt.NDArray[np.int64]:
    """Return the relabeling that names suits in a given order, by the order's digits in base 4, the first the lowest."""
    table: npt.NDArray[np.int64] = np.full(NUM_SUITS**NUM_SUITS, -1, dtype=np.int64)
    relabelings = {tuple(row): number for number, row in enumerate(cards.SUIT_RELABELINGS.tolist())}
    for order in permutations(range(NUM_SUITS)):
        digits = sum(suit * NUM_SUITS**place for place, suit in enumerate(order))
        table[digits] = relabelings[tuple(order.index(suit) for suit in range(NUM_SUITS))]
    return table
