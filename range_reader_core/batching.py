"""From reads to batches: resident flat arrays, a seeded stateless order with length buckets, suit relabelings on the device.

Legend: ``B`` reads, ``T`` positions. Reads are copied to the device once and batches are gathered there, so a step moves
nothing but read numbers. The order of an epoch is a function of (seed, epoch) and keeps no state: step s of a resumed run
sees the reads that step s of an undisturbed run sees. Batches are padded on the right to their longest read.
Which positions are supervised is not known here (``masks``).
"""

from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import torch

from range_reader_core.reads import Reads
from range_reader_core.suits import name_suits, relabelings_on
from range_reader_core.tokens import COMBO_OFFSET, MAX_SEATS, PAD, PREFLOP, BaseAction

BUCKET_BATCHES: Final = 32
"""Batches whose reads are sorted by length together. Padding falls below 2% of positions while batches still mix tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Reads padded on the right with PAD and value 0.

    Raises:
        ValueError: on construction, when shapes or dtypes disagree.
    """

    tokens: torch.Tensor  # (B, T) int64
    values: torch.Tensor  # (B, T) float32, big blinds
    targets: torch.Tensor  # (B,) int64, the villain's combo
    read_index: torch.Tensor  # (B,) int64, which reads these are

    def __post_init__(self) -> None:
        """Check shapes and dtypes."""
        num = self.tokens.shape[0]
        if self.tokens.ndim != 2 or self.values.shape != self.tokens.shape:
            msg = f"batch: expected tokens and values (B, T), got {tuple(self.tokens.shape)} and {tuple(self.values.shape)}"
            raise ValueError(msg)
        if self.targets.shape != (num,) or self.read_index.shape != (num,):
            msg = f"batch: expected {num} targets and read numbers, got {tuple(self.targets.shape)}, {tuple(self.read_index.shape)}"
            raise ValueError(msg)
        dtypes = (self.tokens.dtype, self.values.dtype, self.targets.dtype, self.read_index.dtype)
        if dtypes != (torch.int64, torch.float32, torch.int64, torch.int64):
            msg = f"batch: expected int64 tokens, float32 values, int64 targets and read numbers, got {dtypes}"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReads:
    """Reads resident on a device as flat arrays; lengths stay on the host, so choosing a width needs no synchronisation."""

    tokens: torch.Tensor  # (P,) int16: ids reach 1595
    values: torch.Tensor  # (P,) float32
    starts: torch.Tensor  # (N,) int64
    num_tokens: torch.Tensor  # (N,) int64
    targets: torch.Tensor  # (N,) int64
    lengths: npt.NDArray[np.int64]  # (N,) the same as num_tokens, on the host

    @classmethod
    def from_reads(cls, reads: Reads, device: torch.device) -> Self:
        """Return the reads on a device.

        Raises:
            ValueError: there is no read, or a read is empty.
        """
        lengths = reads.lengths
        if not len(lengths) or lengths.min() < 1:
            msg = f"expected at least one read and none empty, got {len(lengths)} reads"
            raise ValueError(msg)
        return cls(
            tokens=torch.from_numpy(reads.tokens.astype(np.int16)).to(device),
            values=torch.from_numpy(np.array(reads.values)).to(device),
            starts=torch.from_numpy(np.array(reads.offsets[:-1])).to(device),
            num_tokens=torch.from_numpy(lengths).to(device),
            targets=torch.from_numpy(reads.villain_combo.astype(np.int64)).to(device),
            lengths=lengths,
        )

    @property
    def num_reads(self) -> int:
        """Number of reads."""
        return len(self.lengths)

    def batch(self, indices: npt.NDArray[np.int64], *, width_multiple: int = 1) -> Batch:
        """Return the reads at ``indices`` (B,) as one batch, as wide as the longest rounded up to ``width_multiple`` positions.

        Raises:
            ValueError: there is no index.
        """
        if not len(indices):
            msg = "batch: expected at least one read"
            raise ValueError(msg)
        device = self.tokens.device
        longest = int(self.lengths[indices].max())
        width = -(-longest // width_multiple) * width_multiple
        read_index = torch.from_numpy(np.ascontiguousarray(indices)).to(device)
        column = torch.arange(width, device=device)  # (T,)
        is_real = column < self.num_tokens[read_index].unsqueeze(1)  # (B, T)
        flat = (self.starts[read_index].unsqueeze(1) + column).clamp_(max=len(self.tokens) - 1)  # (B, T)
        return Batch(
            tokens=torch.where(is_real, self.tokens[flat].long(), PAD),
            values=torch.where(is_real, self.values[flat], 0.0),
            targets=self.targets[read_index],
            read_index=read_index,
        )


def relabel(batch: Batch, relabeling: torch.Tensor) -> Batch:
    """Return the batch with each read's suits renamed by one of the 24 relabelings, ``relabeling`` (B,) int64.

    Raises:
        ValueError: not one relabeling a read.
    """
    if relabeling.shape != batch.targets.shape:
        msg = f"expected {batch.targets.shape[0]} relabelings, got {tuple(relabeling.shape)}"
        raise ValueError(msg)
    perm_action, perm_combo = relabelings_on(batch.tokens.device)
    return Batch(
        tokens=perm_action[relabeling.unsqueeze(1), batch.tokens],
        values=batch.values,
        targets=perm_combo[relabeling, batch.targets],
        read_index=batch.read_index,
    )


def with_named_suits(batch: Batch) -> tuple[Batch, torch.Tensor]:
    """Return the batch with each read's suits named, and which names are alike, (B, T) int64; see ``suits``."""
    tokens, relabeling, alike = name_suits(batch.tokens)
    targets = relabelings_on(tokens.device)[1][relabeling, batch.targets]
    return replace(batch, tokens=tokens, targets=targets), alike


def hide_perspective(batch: Batch, is_hidden: torch.Tensor) -> Batch:
    """Return the batch with the perspective's cards hidden in the reads ``is_hidden`` (B,) bool: read by a watcher without cards.

    Raises:
        ValueError: not one flag a read.
    """
    if is_hidden.shape != batch.targets.shape or is_hidden.dtype != torch.bool:
        msg = f"expected {batch.targets.shape[0]} flags, got {tuple(is_hidden.shape)} of {is_hidden.dtype}"
        raise ValueError(msg)
    preflop_at = (batch.tokens == PREFLOP).int().argmax(dim=1, keepdim=True)  # (B, 1); the slots follow it in seat order
    seat = torch.arange(batch.tokens.shape[1], device=batch.tokens.device) - preflop_at - 1  # (B, T)
    hidden = int(BaseAction.HIDE_HOLE) * MAX_SEATS + seat
    is_shown = (batch.tokens >= COMBO_OFFSET) & is_hidden.unsqueeze(1)
    return replace(batch, tokens=torch.where(is_shown, hidden, batch.tokens))


def batches_per_epoch(num_reads: int, batch_size: int) -> int:
    """Return how many batches ``epoch_batches`` makes."""
    return -(-num_reads // batch_size)


def epoch_batches(lengths: npt.NDArray[np.int64], *, batch_size: int, seed: int, epoch: int) -> list[npt.NDArray[np.int64]]:
    """Return the batches of one epoch as arrays (B,) of read numbers: every read once, alike in length within a batch.

    Reads are shuffled, then sorted by length within runs of ``BUCKET_BATCHES`` batches, then the batches are shuffled, so short
    and long ones alternate. All batches but one hold ``batch_size`` reads.

    Raises:
        ValueError: ``batch_size`` is below 1.
    """
    if batch_size < 1:
        msg = f"expected a batch size of at least 1, got {batch_size}"
        raise ValueError(msg)
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(lengths))
    run = BUCKET_BATCHES * batch_size
    batches: list[npt.NDArray[np.int64]] = []
    for start in range(0, len(order), run):
        chunk = order[start : start + run]
        chunk = chunk[np.argsort(lengths[chunk], kind="stable")]
        batches.extend(chunk[i : i + batch_size] for i in range(0, len(chunk), batch_size))
    return [batches[i] for i in rng.permutation(len(batches))]
