"""The two tables people look at: scores by how far the villain got, and how the read sharpens street by street.

Means are (sum, count) divided once; intervals are 95%, by bootstrap over hands. Readers are compared on the same hands with
the same draws. A group without reads keeps its row and shows no number. The first reader given is the model, the others
are the baselines it must beat; what is quoted is the lead over the best of them, on the same hands. Text for people is in
``table_text``; ``records`` is for parquet and metadata.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from range_reader_core.evaluation import PointScores, ReadScores
from range_reader_core.intervals import Interval, central_interval, resampled_means
from range_reader_core.masks import POINTS, STRATA
from range_reader_core.metrics import METRICS

TOTAL: Final = "TOTAL"
POINT_NAMES: Final = (*POINTS[:-1], "showdown")  # whoever is read to the final position here shows down
Record = dict[str, str | int | float | None]
LeadMetric = Literal["loss_nats", "mrr"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean and its 95% interval; None where a single hand says nothing about the spread."""

    mean: float
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRow:
    """One reader on one group of reads."""

    reader: str
    group: str  # a stratum, TOTAL, or one of POINT_NAMES
    num_reads: int
    num_hands: int
    num_positions: int
    share_positions: float  # of all positions that the table scores
    scores: dict[str, Estimate]  # by name in METRICS; empty where the group has no reads


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """How much better the model is than a baseline on the same hands; positive is better in both."""

    baseline: str
    group: str
    loss_nats: Estimate  # the baseline's loss minus the model's
    mrr: Estimate  # the model's mrr minus the baseline's


@dataclass(frozen=True, slots=True, kw_only=True)
class BestLead:
    """How much better the model is than the best of the baselines; positive is better."""

    baseline: str
    lead: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What a reader gains after the flop, from cards and betting: end of the hand minus flop, on the same hands."""

    reader: str
    scores: dict[str, Estimate]  # by name in METRICS; a loss or a rank that falls is a negative number


@dataclass(frozen=True, slots=True, kw_only=True)
class StratifiedTable:
    """Scores over all supervised positions, by reader and by what became of the villain."""

    readers: tuple[str, ...]  # the model first
    rows: tuple[ScoreRow, ...]  # per reader: the strata, then TOTAL
    leads: tuple[Lead, ...]  # per baseline: the groups that have reads, TOTAL last
    ceilings: tuple[str, ...] = ()  # readers that nobody has to beat

    def row(self, reader: str, group: str = TOTAL) -> ScoreRow:
        """Return one row."""
        return _find_row(self.rows, reader, group)

    def lead(self, baseline: str, group: str = TOTAL) -> Lead:
        """Return the model's lead over a baseline.

        Raises:
            KeyError: there is no such baseline, or the group has no reads.
        """
        for lead in self.leads:
            if (lead.baseline, lead.group) == (baseline, group):
                return lead
        raise KeyError((baseline, group))

    def best_lead(self, metric: LeadMetric, group: str = TOTAL) -> BestLead | None:
        """Return the model's lead over the baseline that is best by a metric in a group; None where there is none."""
        return _best_lead(self.leads, metric, group, self.ceilings)

    def records(self) -> list[Record]:
        """Return one flat record a row; intervals are ``*_low`` and ``*_high``."""
        return _records(self.rows, self.leads)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharpeningTable:
    """Scores of showdown villains, the same reads at each point, by reader."""

    readers: tuple[str, ...]  # the model first
    num_reads: int
    num_hands: int
    rows: tuple[ScoreRow, ...]  # per reader: POINT_NAMES
    leads: tuple[Lead, ...]  # per baseline: POINT_NAMES
    ceilings: tuple[str, ...] = ()  # readers that nobody has to beat
    gains: tuple[Gain, ...]  # per reader

    def row(self, reader: str, point: str) -> ScoreRow:
        """Return one row."""
        return _find_row(self.rows, reader, point)

    def best_lead(self, metric: LeadMetric, point: str) -> BestLead | None:
        """Return the model's lead over the baseline that is best by a metric at a point; None where there is none."""
        return _best_lead(self.leads, metric, point, self.ceilings)

    def records(self) -> list[Record]:
        """Return one flat record a row; intervals are ``*_low`` and ``*_high``."""
        return _records(self.rows, self.leads)


def stratified_table(
    scores: Sequence[ReadScores], *, generator: np.random.Generator, ceilings: Sequence[str] = ()
) -> StratifiedTable:
    """Return the table of readers that were evaluated together, the model first.

    Args:
        scores: what ``evaluate`` returned.
        generator: draws the hands for the intervals.
        ceilings: which of the readers are no baselines but the best that can be.

    Raises:
        ValueError: there are no scores, or they are of different reads.
    """
    _check_same_reads([part.reader for part in scores], [part.hand_index for part in scores])
    first = scores[0]
    sums = np.stack([part.metric_sums for part in scores], axis=1)  # (N, R, 7)
    has_positions = first.num_positions > 0
    rows: list[ScoreRow] = []
    leads: list[Lead] = []
    for group in (*STRATA, TOTAL):
        is_in = has_positions if group == TOTAL else has_positions & (first.stratum == STRATA.index(group))
        counts, hands = first.num_positions[is_in], first.hand_index[is_in]
        means, resamples = _means(sums[is_in], counts, hands, generator)  # (R, 7) and (S, R, 7)
        for index, part in enumerate(scores):
            row = ScoreRow(
                reader=part.reader,
                group=group,
                num_reads=len(counts),
                num_hands=len(np.unique(hands)),
                num_positions=int(counts.sum()),
                share_positions=float(counts.sum() / first.num_positions.sum()),
                scores=_estimates(means[index], resamples[:, index]) if len(counts) else {},
            )
            rows.append(row)
            if index and len(counts):
                leads.append(_lead(part.reader, group, means[[0, index]], resamples[:, [0, index]]))
    order = [part.reader for part in scores]
    return StratifiedTable(
        readers=tuple(order),
        rows=tuple(sorted(rows, key=lambda row: order.index(row.reader))),
        leads=tuple(sorted(leads, key=lambda lead: order.index(lead.baseline))),
        ceilings=tuple(ceilings),
    )


def sharpening_table(
    scores: Sequence[PointScores], *, generator: np.random.Generator, ceilings: Sequence[str] = ()
) -> SharpeningTable:
    """Return the table of readers that were evaluated together, the model first.

    Args:
        scores: what ``evaluate_points`` returned.
        generator: draws the hands for the intervals.
        ceilings: which of the readers are no baselines but the best that can be.

    Raises:
        ValueError: there are no scores, or they are of different reads.
    """
    _check_same_reads([part.reader for part in scores], [part.hand_index for part in scores])
    hands = scores[0].hand_index
    num_reads, num_hands = len(hands), len(np.unique(hands))
    sums = np.stack([part.metrics for part in scores], axis=1)  # (N, R, 4, 7)
    means, resamples = _means(sums, np.ones(num_reads, dtype=np.int64), hands, generator)  # (R, 4, 7) and (S, R, 4, 7)
    rows = [
        ScoreRow(
            reader=part.reader,
            group=point,
            num_reads=num_reads,
            num_hands=num_hands,
            num_positions=num_reads,
            share_positions=1 / len(POINT_NAMES),
            scores=_estimates(means[index, place], resamples[:, index, place]),
        )
        for index, part in enumerate(scores)
        for place, point in enumerate(POINT_NAMES)
    ]
    leads = [
        _lead(part.reader, point, means[[0, index], place], resamples[:, [0, index], place])
        for index, part in enumerate(scores)
        for place, point in enumerate(POINT_NAMES)
        if index
    ]
    gained, resampled = means[:, -1] - means[:, 0], resamples[:, :, -1] - resamples[:, :, 0]  # (R, 7) and (S, R, 7)
    gains = [Gain(reader=part.reader, scores=_estimates(gained[index], resampled[:, index])) for index, part in enumerate(scores)]
    return SharpeningTable(
        readers=tuple(part.reader for part in scores),
        num_reads=num_reads,
        num_hands=num_hands,
        rows=tuple(rows),
        leads=tuple(leads),
        ceilings=tuple(ceilings),
        gains=tuple(gains),
    )


def _means(
    sums: npt.NDArray[np.float64], counts: npt.NDArray[np.int64], hands: npt.NDArray[np.int64], generator: np.random.Generator
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return means (...) of sums (N, ...) and resampled means (S, ...); S is 0 where fewer than two hands are there."""
    shape = sums.shape[1:]
    if not len(counts):
        return np.full(shape, np.nan), np.zeros((0, *shape))
    means = sums.sum(axis=0) / counts.sum()
    if len(np.unique(hands)) < 2:
        return means, np.zeros((0, *shape))
    resamples = resampled_means(sums.reshape(len(counts), -1), counts, hands, generator=generator)
    return means, resamples.reshape(-1, *shape)


def _estimates(means: npt.NDArray[np.float64], resamples: npt.NDArray[np.float64]) -> dict[str, Estimate]:
    """Name the metrics (7,) and their resamples (S, 7)."""
    return {
        name: Estimate(mean=float(mean), interval=central_interval(column) if len(column) else None)
        for name, mean, column in zip(METRICS, means, resamples.T, strict=True)
    }


def _lead(baseline: str, group: str, means: npt.NDArray[np.float64], resamples: npt.NDArray[np.float64]) -> Lead:
    """Return the lead of the first over the second of two readers: means (2, 7) and resamples (S, 2, 7)."""
    gap = _estimates(means[1] - means[0], resamples[:, 1] - resamples[:, 0])
    reverse = _estimates(means[0] - means[1], resamples[:, 0] - resamples[:, 1])
    return Lead(baseline=baseline, group=group, loss_nats=gap["loss_nats"], mrr=reverse["mrr"])


def _best_lead(leads: Sequence[Lead], metric: LeadMetric, group: str, ceilings: Sequence[str]) -> BestLead | None:
    candidates = [
        BestLead(baseline=lead.baseline, lead=lead.loss_nats if metric == "loss_nats" else lead.mrr)
        for lead in leads
        if lead.group == group and lead.baseline not in ceilings
    ]
    return min(candidates, key=lambda best: best.lead.mean, default=None)


def _check_same_reads(readers: list[str], hands: list[npt.NDArray[np.int64]]) -> None:
    if not readers:
        msg = "a table needs the scores of at least one reader"
        raise ValueError(msg)
    if len(set(readers)) < len(readers) or any(not np.array_equal(hands[0], other) for other in hands[1:]):
        msg = f"a table compares different readers on the same reads, got {readers}; evaluate them in one call"
        raise ValueError(msg)


def _find_row(rows: tuple[ScoreRow, ...], reader: str, group: str) -> ScoreRow:
    for row in rows:
        if (row.reader, row.group) == (reader, group):
            return row
    raise KeyError((reader, group))


def _records(rows: Sequence[ScoreRow], leads: Sequence[Lead]) -> list[Record]:
    by_row = {(lead.baseline, lead.group): lead for lead in leads}
    records = []
    for row in rows:
        record = _record(row)
        lead = by_row.get((row.reader, row.group))
        record |= _flat("model_lead_nats", lead.loss_nats if lead else None)
        record |= _flat("model_lead_mrr", lead.mrr if lead else None)
        records.append(record)
    return records


def _record(row: ScoreRow) -> Record:
    record: Record = {
        "reader": row.reader,
        "group": row.group,
        "num_reads": row.num_reads,
        "num_hands": row.num_hands,
        "num_positions": row.num_positions,
        "share_positions": row.share_positions,
    }
    for name in METRICS:
        record |= _flat(name, row.scores.get(name))
    return record


def _flat(name: str, estimate: Estimate | None) -> Record:
    interval = estimate.interval if estimate else None
    return {
        name: estimate.mean if estimate else None,
        f"{name}_low": interval.low if interval else None,
        f"{name}_high": interval.high if interval else None,
    }
