"""Scores readers on reads: over every supervised position, or at the points where streets begin and the hand ends.

All readers of one call see the same positions and the same live combos, which are derived once, so their scores can be
compared hand by hand. What comes out is sums per read; grouping them into strata, averaging, intervals and text belong to
``tables``. Tensor legend: ``B`` reads of a batch, ``T`` positions of the longest, ``N`` chosen positions, ``C`` = 1326 combos.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import torch

from range_reader_core.batching import Batch, DeviceReads
from range_reader_core.masks import POINTS, SHOWDOWN, is_live_combo_at, is_supervised, outcome, point_positions
from range_reader_core.metrics import LOSS, METRICS, score_positions
from range_reader_core.reads import Reads

CPU_BATCH_READS: Final = 64
"""Reads scored at once on a CPU: about 1500 positions, 8 MB of scores a reader. More was slower."""
CUDA_BATCH_READS: Final = 1024

ProgressCallback = Callable[[int, int], None]
"""Called with the number of reads scored so far and in all."""


class NothingToScoreError(ValueError):
    """The reads hold no position of the kind that was to be scored; more hands are needed."""


class Reader(Protocol):
    """Anything that gives log-probabilities of the villain's combo."""

    @property
    def name(self) -> str:
        """What the rows of the tables call this reader."""
        ...

    def position_logp(self, batch: Batch, rows: torch.Tensor, positions: torch.Tensor, is_live: torch.Tensor) -> torch.Tensor:
        """Return log-probabilities (N, C) float32, -inf on dead combos.

        Args:
            batch: the reads.
            rows: (N,) int64 ascending, the row of the batch that each position belongs to.
            positions: (N,) int64, at or before which tokens may be used.
            is_live: (N, C) bool, the combos that card removal leaves.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisedBatch:
    """Every supervised position of a batch of reads."""

    batch: Batch
    rows: torch.Tensor  # (N,) int64 ascending, the row of the batch that each position belongs to
    positions: torch.Tensor  # (N,) int64
    is_live: torch.Tensor  # (N, C) bool
    targets: torch.Tensor  # (N,) int64, the true combo


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredPositions:
    """What one reader said at the supervised positions of a batch, for those who need more than sums per read."""

    reader: int  # its place among the readers
    part: SupervisedBatch
    logp: torch.Tensor  # (N, C) float32
    columns: torch.Tensor  # (N, 7) float64, its scores in the order of METRICS


Observer = Callable[[ScoredPositions], None]
"""Called with each reader's answers batch by batch; must not keep them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadScores:
    """One reader's scores on ``N`` reads, in the order of the reads given to ``evaluate``."""

    reader: str
    metric_sums: npt.NDArray[np.float64]  # (N, 7) over the supervised positions, in the order of METRICS
    num_positions: npt.NDArray[np.int64]  # (N,) supervised positions
    stratum: npt.NDArray[np.int64]  # (N,) into masks.STRATA
    hand_index: npt.NDArray[np.int64]  # (N,)


@dataclass(frozen=True, slots=True, kw_only=True)
class PointScores:
    """One reader's scores on the ``N`` showdown reads with a full board: the same reads at each of ``masks.POINTS``."""

    reader: str
    metrics: npt.NDArray[np.float64]  # (N, 4, 7)
    read_index: npt.NDArray[np.int64]  # (N,) which of the reads given to ``evaluate_points``
    hand_index: npt.NDArray[np.int64]  # (N,)


def evaluate(
    readers: Sequence[Reader],
    reads: Reads,
    *,
    device: torch.device | str = "cpu",
    batch_reads: int | None = None,
    on_progress: ProgressCallback | None = None,
    observers: Sequence[Observer] = (),
) -> tuple[ReadScores, ...]:
    """Return each reader's scores over all supervised positions.

    Args:
        readers: whom to score; the tables take the first one for the model.
        reads: what they read.
        device: where the readers' weights lie.
        batch_reads: reads scored at once; None chooses by device.
        on_progress: told of every batch.
        observers: shown every reader's answers on the way.

    Raises:
        NothingToScoreError: no read has a supervised position.
        ValueError: a reader gives the truth no probability.
    """
    num_reads = reads.num_reads
    sums = np.zeros((len(readers), num_reads, len(METRICS)))
    num_positions = np.zeros(num_reads, dtype=np.int64)
    stratum = np.zeros(num_reads, dtype=np.int64)
    for part in supervised_batches(reads, device=device, batch_reads=batch_reads, on_progress=on_progress):
        indices = part.batch.read_index.cpu().numpy()
        stratum[indices] = outcome(part.batch.tokens).cpu().numpy()
        num_positions[indices] = part.rows.bincount(minlength=len(indices)).cpu().numpy()
        for index, (logp, columns) in enumerate(_answers(readers, part)):
            per_row = columns.new_zeros((len(indices), len(METRICS))).index_add_(0, part.rows, columns)
            sums[index, indices] = per_row.cpu().numpy()
            for observe in observers:
                observe(ScoredPositions(reader=index, part=part, logp=logp, columns=columns))
    if not num_positions.any():
        msg = (
            f"none of {num_reads} reads has a supervised position; give a split that holds hands with actions after the hole cards"
        )
        raise NothingToScoreError(msg)
    _check_finite(readers, sums[:, :, LOSS], reads)
    return tuple(
        ReadScores(
            reader=reader.name, metric_sums=sums[i], num_positions=num_positions, stratum=stratum, hand_index=reads.hand_index
        )
        for i, reader in enumerate(readers)
    )


def evaluate_points(
    readers: Sequence[Reader],
    reads: Reads,
    *,
    device: torch.device | str = "cpu",
    batch_reads: int | None = None,
    on_progress: ProgressCallback | None = None,
) -> tuple[PointScores, ...]:
    """Return each reader's scores of showdown villains at each of ``POINTS``. Reads whose board is not full are left out.

    Arguments as ``evaluate``.

    Raises:
        NothingToScoreError: no villain came to a showdown on a full board.
        ValueError: a reader gives the truth no probability.
    """
    chosen = np.sort(
        np.concatenate(
            [
                batch.read_index[_is_showdown(batch.tokens)].cpu().numpy()
                for batch in _batches(reads, np.arange(reads.num_reads), device, batch_reads, None)
            ]
            or [np.zeros(0, dtype=np.int64)]
        )
    )
    if not len(chosen):
        msg = f"none of {reads.num_reads} reads reaches a showdown on a full board; give a split that holds hands played to the end"
        raise NothingToScoreError(msg)
    metrics = np.zeros((len(readers), len(chosen), len(POINTS), len(METRICS)))
    for batch in _batches(reads, chosen, device, batch_reads, on_progress):
        places = np.searchsorted(chosen, batch.read_index.cpu().numpy())
        at = point_positions(batch.tokens)  # (B, 4)
        rows = torch.arange(len(at), device=at.device).repeat_interleave(len(POINTS))  # (N,) = (B * 4,)
        for index, (_, columns) in enumerate(_answers(readers, _at(batch, rows, at.flatten()))):
            metrics[index, places] = columns.view(len(at), len(POINTS), len(METRICS)).cpu().numpy()
    _check_finite(readers, metrics[:, :, :, LOSS].sum(axis=2), reads, chosen)
    hand_index = reads.hand_index[chosen]
    return tuple(
        PointScores(reader=reader.name, metrics=metrics[i], read_index=chosen, hand_index=hand_index)
        for i, reader in enumerate(readers)
    )


def supervised_batches(
    reads: Reads,
    *,
    device: torch.device | str = "cpu",
    batch_reads: int | None = None,
    on_progress: ProgressCallback | None = None,
) -> Iterator[SupervisedBatch]:
    """Yield every supervised position of the reads, batch by batch, as ``evaluate`` scores them; arguments as there."""
    for batch in _batches(reads, np.arange(reads.num_reads), device, batch_reads, on_progress):
        rows, positions = is_supervised(batch.tokens).nonzero(as_tuple=True)  # (N,) each
        yield _at(batch, rows, positions)


def _batches(
    reads: Reads,
    indices: npt.NDArray[np.int64],
    device: torch.device | str,
    batch_reads: int | None,
    on_progress: ProgressCallback | None,
) -> Iterator[Batch]:
    """Yield the chosen reads, alike in length within a batch, and report progress after each."""
    if not len(indices):
        return
    resident = DeviceReads.from_reads(reads, torch.device(device))
    step = batch_reads or (CUDA_BATCH_READS if resident.tokens.is_cuda else CPU_BATCH_READS)
    order = indices[np.argsort(reads.lengths[indices], kind="stable")]
    for start in range(0, len(order), step):
        yield resident.batch(order[start : start + step])
        if on_progress is not None:
            on_progress(min(start + step, len(order)), len(order))


def _at(batch: Batch, rows: torch.Tensor, positions: torch.Tensor) -> SupervisedBatch:
    is_live = is_live_combo_at(batch.tokens, rows, positions)  # (N, C)
    return SupervisedBatch(batch=batch, rows=rows, positions=positions, is_live=is_live, targets=batch.targets[rows])


def _answers(readers: Sequence[Reader], part: SupervisedBatch) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield each reader's log-probabilities at the positions, (N, C), and their scores, float64 (N, 7)."""
    for reader in readers:
        with torch.no_grad():
            logp = reader.position_logp(part.batch, part.rows, part.positions, part.is_live)
            yield logp, score_positions(logp, part.targets, part.is_live).columns()


def _is_showdown(tokens: torch.Tensor) -> torch.Tensor:
    """Return which reads of (B, T) have a villain at a showdown on a full board, bool (B,)."""
    return (outcome(tokens) == SHOWDOWN) & (point_positions(tokens) >= 0).all(dim=1)


def _check_finite(
    readers: Sequence[Reader], losses: npt.NDArray[np.float64], reads: Reads, chosen: npt.NDArray[np.int64] | None = None
) -> None:
    """Refuse a reader that gave a truth no probability: one such read makes every mean loss infinite."""
    for reader, loss in zip(readers, losses, strict=True):
        broken = np.flatnonzero(~np.isfinite(loss))
        if len(broken):
            index = int(broken[0] if chosen is None else chosen[broken[0]])
            hand_id = reads.hand_ids[reads.hand_index[index]]
            msg = (
                f"reader {reader.name!r} gives the true combo no probability in {len(broken)} reads, first read {index} of hand "
                f"{hand_id}; a reader must leave every live combo possible"
            )
            raise ValueError(msg)
