"""Where a model fails: its scores by street, position, table, stacks, line, label and source, and the hands it reads worst.

Groups come from tokens and values, and from what a read says of its label and source. A street is that of each position; all
else is of the read, its line included, which is what became of the hand and not what was known at a position. Every group states
what the model scores, over how many reads, and how far it leads the baseline that is best in that group on the same hands. The
first reader is the model. Means are (sum, count) divided once; intervals are 95%, by bootstrap over hands.

Legend: ``R`` readers, ``N`` reads, ``S`` streets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from range_reader_core import cards
from range_reader_core.batching import Batch, DeviceReads
from range_reader_core.evaluation import NothingToScoreError, ScoredPositions
from range_reader_core.intervals import central_interval, resampled_means
from range_reader_core.lines import POSITIONS, SITUATIONS, effective_stack_bb, read_betting, table_size, villain_position
from range_reader_core.masks import STREETS, street_at
from range_reader_core.metrics import LOSS, METRICS, MRR
from range_reader_core.reads import Reads
from range_reader_core.tables import TOTAL, BestLead, Estimate, Record
from range_reader_core.tokens import MAX_SEATS

DIMENSIONS: Final = ("all", "street", "position", "table size", "stack depth", "preflop line", "check-raise", "label", "source")
STACK_EDGES_BB: Final = (30.0, 60.0, 110.0, 210.0)
STACKS: Final = ("to 30 bb", "30 to 60 bb", "60 to 110 bb", "110 to 210 bb", "above 210 bb")
"""What the villain and its largest opponent can both lose."""
CHECK_RAISES: Final = ("villain check-raised", "no check-raise by the villain")
LABELS: Final = ("dealt", "shown")
NUM_WORST: Final = 20

_BATCH_READS: Final = 512


class StreetScores:
    """Running sums of scores by reader, read and street; ``observe`` is an ``evaluation.Observer``."""

    def __init__(self, readers: Sequence[str], reads: Reads) -> None:
        """Start with nothing counted for the readers' names, the model first, and the reads that they will be scored on."""
        self.readers = tuple(readers)
        self.sums: npt.NDArray[np.float64] = np.zeros((len(readers), reads.num_reads, len(STREETS), len(METRICS)))
        self.counts: npt.NDArray[np.int64] = np.zeros((reads.num_reads, len(STREETS)), dtype=np.int64)

    def observe(self, scored: ScoredPositions) -> None:
        """Count one reader's scores of a batch in."""
        part = scored.part
        index = part.batch.read_index.cpu().numpy()
        num_cells = len(index) * len(STREETS)
        cell = part.rows * len(STREETS) + street_at(part.batch.tokens)[part.rows, part.positions]  # (N,)
        sums = scored.columns.new_zeros((num_cells, len(METRICS))).index_add_(0, cell, scored.columns)
        self.sums[scored.reader, index] = sums.view(len(index), len(STREETS), -1).cpu().numpy()
        self.counts[index] = cell.bincount(minlength=num_cells).view(len(index), -1).cpu().numpy()


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRow:
    """The model on one group."""

    dimension: str  # of DIMENSIONS
    group: str
    num_reads: int
    num_hands: int
    num_positions: int
    loss_nats: Estimate
    mrr: Estimate
    lead_nats: BestLead | None  # the lowest loss of a baseline minus the model's; None where there is no baseline
    lead_mrr: BestLead | None  # the model's mrr minus the highest of a baseline

    def record(self) -> Record:
        """Return the row flat; intervals are ``*_low`` and ``*_high``."""
        record: Record = {
            "dimension": self.dimension,
            "group": self.group,
            "num_reads": self.num_reads,
            "num_hands": self.num_hands,
            "num_positions": self.num_positions,
        }
        leads = (("lead_nats", self.lead_nats), ("lead_mrr", self.lead_mrr))
        for name, best in leads:
            record[f"{name}_over"] = best.baseline if best else None
        estimates = (
            ("loss_nats", self.loss_nats),
            ("mrr", self.mrr),
            *((name, best.lead if best else None) for name, best in leads),
        )
        for name, estimate in estimates:
            interval = estimate.interval if estimate else None
            record[name] = estimate.mean if estimate else None
            record[f"{name}_low"] = interval.low if interval else None
            record[f"{name}_high"] = interval.high if interval else None
        return record


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstRead:
    """The worst of the reads of one hand."""

    read: int  # its number among the reads scored
    hand_id: str
    villain_seat: int
    perspective_seat: int
    truth: str  # the villain's cards, such as "7h2d"
    position: str  # of lines.POSITIONS
    preflop_line: str  # of lines.SITUATIONS
    num_positions: int
    loss_nats: float  # mean over them
    mean_rank: float
    baseline: str | None  # that reads it best
    baseline_loss_nats: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadGroups:
    """What groups each of ``N`` reads is in; every field but ``sources`` is (N,) int64."""

    position: npt.NDArray[np.int64]  # into lines.POSITIONS
    num_players: npt.NDArray[np.int64]
    stack: npt.NDArray[np.int64]  # into STACKS
    preflop_line: npt.NDArray[np.int64]  # into lines.SITUATIONS, as the flop fell or the hand ended
    check_raise: npt.NDArray[np.int64]  # into CHECK_RAISES
    label: npt.NDArray[np.int64]  # into LABELS
    source: npt.NDArray[np.int64]  # into sources
    sources: tuple[str, ...]


def read_groups(reads: Reads) -> ReadGroups:
    """Return the groups of each read.

    Raises:
        ValueError: there are no reads.
    """
    resident = DeviceReads.from_reads(reads, torch.device("cpu"))
    order = np.argsort(reads.lengths, kind="stable")
    parts = [_groups_of_batch(resident.batch(order[at : at + _BATCH_READS])) for at in range(0, len(order), _BATCH_READS)]
    columns = np.zeros((reads.num_reads, 5), dtype=np.int64)
    columns[order] = np.concatenate(parts)
    return ReadGroups(
        position=columns[:, 0],
        num_players=columns[:, 1],
        stack=columns[:, 2],
        preflop_line=columns[:, 3],
        check_raise=columns[:, 4],
        label=reads.is_label_shown.astype(np.int64),
        source=reads.source_index,
        sources=reads.sources,
    )


def failure_table(
    scores: StreetScores, reads: Reads, groups: ReadGroups, *, generator: np.random.Generator
) -> tuple[FailureRow, ...]:
    """Return a row for every group that has positions, in the order of ``DIMENSIONS``.

    Args:
        scores: what the readers scored on the reads.
        reads: the same reads.
        groups: ``read_groups`` of them.
        generator: draws the hands for the intervals.

    Raises:
        NothingToScoreError: nothing was scored.
    """
    _check_scored(scores)
    num_streets = len(STREETS)
    counts = scores.counts.ravel()  # (N * S,)
    sums = scores.sums[..., [LOSS, MRR]].reshape(len(scores.readers), len(counts), 2)
    read = np.repeat(np.arange(len(scores.counts)), num_streets)
    is_scored = counts > 0
    rows = []
    for dimension, names, code in _dimensions(groups):
        code_of_cell = code.ravel() if code.ndim == 2 else np.repeat(code, num_streets)
        for index, name in enumerate(names):
            cells = np.flatnonzero(is_scored & (code_of_cell == index))
            if len(cells):
                rows.append(
                    _row(dimension, name, scores.readers, sums[:, cells], counts[cells], reads.hand_index, read[cells], generator)
                )
    return tuple(rows)


def worst_reads(scores: StreetScores, reads: Reads, groups: ReadGroups, *, num: int = NUM_WORST) -> tuple[WorstRead, ...]:
    """Return the reads with the highest mean loss of the model, one a hand, the worst first; arguments as ``failure_table``.

    Raises:
        NothingToScoreError: nothing was scored.
    """
    _check_scored(scores)
    counts = scores.counts.sum(axis=1)  # (N,)
    scored = np.flatnonzero(counts)
    means = scores.sums.sum(axis=2)[:, scored] / counts[scored, None]  # (R, n, 7)
    loss = means[0, :, LOSS]
    order = np.argsort(-loss, kind="stable")
    _, first = np.unique(reads.hand_index[scored[order]], return_index=True)  # the worst read of each hand
    worst = []
    for place in order[np.sort(first)[:num]].tolist():
        read = int(scored[place])
        baselines = means[1:, place, LOSS]
        best = int(baselines.argmin()) if len(baselines) else None
        worst.append(
            WorstRead(
                read=read,
                hand_id=reads.hand_ids[reads.hand_index[read]],
                villain_seat=int(reads.villain_seat[read]),
                perspective_seat=int(reads.perspective_seat[read]),
                truth=cards.format_combo(int(reads.villain_combo[read])),
                position=POSITIONS[groups.position[read]],
                preflop_line=SITUATIONS[groups.preflop_line[read]],
                num_positions=int(counts[read]),
                loss_nats=float(loss[place]),
                mean_rank=float(means[0, place, METRICS.index("mean_rank")]),
                baseline=None if best is None else scores.readers[1 + best],
                baseline_loss_nats=None if best is None else float(baselines[best]),
            )
        )
    return tuple(worst)


def format_failures(rows: Sequence[FailureRow], *, note: str = "") -> str:
    """Return the rows as aligned text, a blank line between dimensions.

    Args:
        rows: what ``failure_table`` returned.
        note: how and on what the readers were scored.
    """
    width = max(len(row.group) for row in rows)
    header = (
        f"{'group':<{width}}{'reads':>8}{'hands':>8}{'positions':>11}{'loss':>8}{'loss 95%':>14}{'mrr':>8}"
        f"{'lead':>9}{'lead 95%':>18}  over"
    )
    lines = [f"where it fails{f' ({note})' if note else ''}: loss and lead over the best baseline in nats a position", header]
    dimension = ""
    for row in rows:
        if row.dimension != dimension:
            dimension = row.dimension
            lines += ["", dimension, "-" * len(header)]
        best = row.lead_nats
        lines.append(
            f"{row.group:<{width}}{row.num_reads:>8,}{row.num_hands:>8,}{row.num_positions:>11,}{row.loss_nats.mean:>8.3f}"
            f"{_range(row.loss_nats, '.3f'):>14}{row.mrr.mean:>8.4f}"
            + (f"{best.lead.mean:>+9.3f}{_range(best.lead, '+.3f'):>18}  {best.baseline}" if best else "")
        )
    return "\n".join(lines)


def _dimensions(groups: ReadGroups) -> list[tuple[str, tuple[str, ...], npt.NDArray[np.int64]]]:
    """Return the dimensions with the names of their groups and the group of each read (N,), or of each read and street (N, S)."""
    num_reads = len(groups.position)
    street = np.tile(np.arange(len(STREETS)), (num_reads, 1))
    sizes = tuple(f"{size} players" for size in range(MAX_SEATS + 1))
    columns = (
        ((TOTAL,), np.zeros(num_reads, dtype=np.int64)),
        (STREETS, street),
        (POSITIONS, groups.position),
        (sizes, groups.num_players),
        (STACKS, groups.stack),
        (SITUATIONS, groups.preflop_line),
        (CHECK_RAISES, groups.check_raise),
        (LABELS, groups.label),
        (groups.sources, groups.source),
    )
    return [(name, *column) for name, column in zip(DIMENSIONS, columns, strict=True)]


def _groups_of_batch(batch: Batch) -> npt.NDArray[np.int64]:
    """Return position, number of players, stack, preflop line and check-raise of each read, (B, 5)."""
    betting = read_betting(batch.tokens, batch.values)
    stack = torch.bucketize(effective_stack_bb(batch.tokens, batch.values), torch.tensor(STACK_EDGES_BB))
    situation = torch.where(betting.street == 0, betting.situation, -1)
    columns = (
        villain_position(batch.tokens),
        table_size(batch.tokens),
        stack,
        situation.amax(1),  # it only ever rises
        1 - betting.is_check_raise.any(1).long(),
    )
    return torch.stack(columns, dim=1).numpy()


def _row(
    dimension: str,
    name: str,
    readers: tuple[str, ...],
    sums: npt.NDArray[np.float64],
    counts: npt.NDArray[np.int64],
    hand_index: npt.NDArray[np.int64],
    read: npt.NDArray[np.int64],
    generator: np.random.Generator,
) -> FailureRow:
    """Return the row of cells with sums (R, cells, 2) of loss and mrr."""
    hands = hand_index[read]
    num_hands = len(np.unique(hands))
    means = sums.sum(axis=1) / counts.sum()  # (R, 2)
    resamples = np.zeros((0, *means.shape))
    if num_hands > 1:
        flat = sums.transpose(1, 0, 2).reshape(len(counts), -1)
        resamples = resampled_means(flat, counts, hands, generator=generator).reshape(-1, *means.shape)  # (S, R, 2)
    leads: list[BestLead | None] = [None, None]
    if len(readers) > 1:
        for column, sign in ((0, -1.0), (1, 1.0)):  # a lower loss is better, a higher mrr
            best = 1 + int((sign * means[1:, column]).argmax())
            lead = sign * (means[0, column] - means[best, column])
            resampled = sign * (resamples[:, 0, column] - resamples[:, best, column])
            leads[column] = BestLead(baseline=readers[best], lead=_estimate(lead, resampled))
    return FailureRow(
        dimension=dimension,
        group=name,
        num_reads=len(np.unique(read)),
        num_hands=num_hands,
        num_positions=int(counts.sum()),
        loss_nats=_estimate(means[0, 0], resamples[:, 0, 0]),
        mrr=_estimate(means[0, 1], resamples[:, 0, 1]),
        lead_nats=leads[0],
        lead_mrr=leads[1],
    )


def _estimate(mean: float, resamples: npt.NDArray[np.float64]) -> Estimate:
    return Estimate(mean=float(mean), interval=central_interval(resamples) if len(resamples) else None)


def _range(estimate: Estimate, form: str) -> str:
    interval = estimate.interval
    return "-" if interval is None else f"{interval.low:{form}}..{interval.high:{form}}"


def _check_scored(scores: StreetScores) -> None:
    if not scores.counts.any():
        msg = f"no supervised position was scored for {scores.readers}; pass StreetScores.observe to evaluate first"
        raise NothingToScoreError(msg)
