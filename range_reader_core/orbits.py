"""Which suit relabelings a stream can tell apart, so that suit averaging reads each distinct stream once and no more.

The relabelings that leave every token of a stream where it is are its stabiliser. Relabelings of one left coset of it rename
the stream alike, so one forward answers for all of them: ``representatives`` names the smallest of each coset, and averaging
over the stabiliser (``average_over_stabiliser``) puts back what the others would have added, by renaming the answer. This is
exact for any model. Looked up from tokens and not from cards, because a pair in the hand is one token whichever of its two
suits comes first. A stabiliser is stored as (..., 24) bool.

Legend: ``B`` reads, ``T`` positions, ``N`` answers, ``C`` = 1326 combos.
"""

import functools

import numpy as np
import numpy.typing as npt
import torch

from range_reader_core.cards import NUM_COMBOS, NUM_RELABELINGS, SUIT_RELABELINGS
from range_reader_core.tokens import PERM_ACTION, PERM_COMBO, VOCAB_SIZE


def stabiliser(stream: torch.Tensor) -> torch.Tensor:
    """Return which relabelings leave each stream unchanged, (B, 24) bool, from (B, T) int64 tokens; padding counts for nothing."""
    tables = _tables_on(stream.device)
    is_fixing: torch.Tensor = tables.is_fixed_by[stream].all(dim=1)  # (B, T, 24) -> (B, 24)
    return is_fixing


def representatives(is_fixing: torch.Tensor) -> torch.Tensor:
    """Return which relabelings are the smallest of their coset, (B, 24) bool, for stabilisers (B, 24) bool.

    Reading a stream renamed by these alone reads every distinct renaming of it, each once.
    """
    return representative_of(is_fixing) == torch.arange(NUM_RELABELINGS, device=is_fixing.device)


def representative_of(is_fixing: torch.Tensor) -> torch.Tensor:
    """Return the smallest relabeling that renames a stream as each of the 24 does, (B, 24) int64, for stabilisers (B, 24) bool."""
    product = _tables_on(is_fixing.device).product  # (24, 24)
    alike = torch.where(is_fixing.unsqueeze(1), product, NUM_RELABELINGS)  # (B, 24, 24)
    return alike.amin(dim=2)


def average_over_stabiliser(probabilities: torch.Tensor, is_fixing: torch.Tensor) -> torch.Tensor:
    """Return the mean of each answer and its renamings by the stabiliser of its stream.

    Args:
        probabilities: (N, C), the mean over the representatives, each named back.
        is_fixing: (N, 24) bool.
    """
    powers = 2 ** torch.arange(NUM_RELABELINGS, device=is_fixing.device)
    groups, group_of_row = torch.unique((is_fixing * powers).sum(dim=1), return_inverse=True)
    if groups.tolist() == [1]:  # nothing but the identity
        return probabilities
    averaged = probabilities.clone()
    for index, group in enumerate(groups.tolist()):
        orbit, size = _orbits_on(group, probabilities.device)  # (C,) and (number of orbits,)
        rows = (group_of_row == index).nonzero()[:, 0]
        summed = probabilities.new_zeros(len(rows), len(size)).index_add_(1, orbit, probabilities[rows])
        averaged[rows] = (summed / size)[:, orbit]
    return averaged


class _Tables:
    def __init__(self, device: torch.device) -> None:
        is_fixed_by = (np.arange(VOCAB_SIZE) == PERM_ACTION).T.copy()  # (1596, 24)
        self.is_fixed_by = torch.from_numpy(is_fixed_by).to(device)
        self.product = torch.from_numpy(_product()).to(device)


def _product() -> npt.NDArray[np.int64]:
    """Return the table of products (24, 24): entry (g, h) renames by h first, then by g."""
    index = {tuple(row): position for position, row in enumerate(SUIT_RELABELINGS.tolist())}
    both = SUIT_RELABELINGS[:, SUIT_RELABELINGS]  # (24 g, 24 h, 4)
    return np.array([[index[tuple(suits)] for suits in row] for row in both.tolist()], dtype=np.int64)


@functools.cache
def _tables_on(device: torch.device) -> _Tables:
    return _Tables(device)


@functools.cache
def _orbits_on(group: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the orbit of each combo under a group of relabelings, given as bits, and the sizes of the orbits."""
    members = [relabeling for relabeling in range(NUM_RELABELINGS) if group >> relabeling & 1]
    smallest = PERM_COMBO[members].min(axis=0)  # (C,)
    _, orbit, size = np.unique(smallest, return_inverse=True, return_counts=True)
    assert size.sum() == NUM_COMBOS
    return torch.from_numpy(orbit).to(device), torch.from_numpy(size).to(device)
