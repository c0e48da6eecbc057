"""Whether probabilities mean what they say: the reliability of single combos and of the most probable ones together.

A forecast is the probability of a live combo, or the mass of the k most probable ones; it is reliable where what was promised
is what happened. Forecasts fall into bins, by street and number of opponents, as (promised, happened, count) sums in float64.
The error is the mass per position that lies in bins which promise too much or too little; chance alone makes it positive, so the
error that chance would make of perfect forecasts stands beside it. Hands are dealt into blocks at random and intervals resample
blocks, so memory does not grow with the hands. What repairs a belief is in ``temperature``.

Legend: ``N`` positions, ``C`` = 1326 combos, ``J`` blocks, ``S`` streets, ``O`` numbers of opponents, ``K`` bins.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from range_reader_core.evaluation import NothingToScoreError, ScoredPositions
from range_reader_core.intervals import Interval, central_interval, resampled_means
from range_reader_core.lines import num_opponents
from range_reader_core.masks import STREETS, street_at
from range_reader_core.metrics import METRICS, TOP_KS
from range_reader_core.reads import Reads
from range_reader_core.tables import TOTAL, Estimate, Record

COMBO: Final = "combo"
FORECASTS: Final = (COMBO, *(f"top{k}" for k in TOP_KS))
OPPONENTS: Final = ("0 opponents", "1 opponent", "2 opponents", "3 opponents", "4 opponents", "5+ opponents")
"""Seats but the villain's that have not folded."""
NUM_BINS: Final = 20
COMBO_EDGES: Final = np.concatenate([[0.0], np.logspace(-4.75, 0.0, NUM_BINS)])
"""Bins of a combo's probability: four a decade, all below 10^-4.75 in one. A uniform guess lies near 10^-3.1."""
MASS_EDGES: Final = np.linspace(0.0, 1.0, NUM_BINS + 1)

_MAX_BLOCKS: Final = 200
_MIN_HAPPENED: Final = 5.0  # fewer truths in a bin say too little about its spread
_BINS_A_DECADE: Final = 4
_SUMS: Final = ("promised", "happened", "count")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityBin:
    """Forecasts of about one size."""

    low: float  # edges
    high: float
    num_forecasts: int
    promised: float  # mean forecast
    happened: Estimate  # share that came true; no interval where fewer than five did


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityCurve:
    """One kind of forecast in one group of positions."""

    reader: str
    forecast: str  # of FORECASTS
    group: str  # TOTAL, a street, or one of OPPONENTS
    num_positions: int
    bins: tuple[ReliabilityBin, ...]  # those that hold forecasts, ascending
    error: Estimate  # mass a position in bins that promise too much or too little
    chance_error: float | None  # what perfect forecasts would show; None where the error has no interval

    @property
    def promised(self) -> float:
        """The mean forecast."""
        return sum(part.promised * part.num_forecasts for part in self.bins) / sum(part.num_forecasts for part in self.bins)

    @property
    def happened(self) -> float:
        """The share of forecasts that came true."""
        return sum(part.happened.mean * part.num_forecasts for part in self.bins) / sum(part.num_forecasts for part in self.bins)

    def records(self) -> list[Record]:
        """Return one flat record a bin."""
        return [
            {
                "reader": self.reader,
                "forecast": self.forecast,
                "group": self.group,
                "low": part.low,
                "high": part.high,
                "num_forecasts": part.num_forecasts,
                "promised": part.promised,
                "happened": part.happened.mean,
                "happened_low": part.happened.interval.low if part.happened.interval else None,
                "happened_high": part.happened.interval.high if part.happened.interval else None,
            }
            for part in self.bins
        ]


def format_calibration(curves: Sequence[ReliabilityCurve], *, note: str = "") -> str:
    """Return a row a group: the calibration error, what chance alone would make of it, and the mass of the likeliest combos.

    Args:
        curves: what ``ReliabilitySums.curves`` returned.
        note: how and on what the reader was scored.
    """
    tops = [f"top{k}" for k in TOP_KS]
    by_group: dict[str, dict[str, ReliabilityCurve]] = {}
    for curve in curves:
        by_group.setdefault(curve.group, {})[curve.forecast] = curve
    header = (
        f"{'group':<12}{'positions':>11}{'error':>8}{'error 95%':>14}{'by chance':>11}{''.join(f'{name:>16}' for name in tops)}"
    )
    lines = [
        f"calibration of {curves[0].reader}{f' ({note})' if note else ''}",
        "error: mass a position in bins that promise too much or too little; topK: mass promised > share of truths among them",
        "",
        header,
        "-" * len(header),
    ]
    for group, of_forecast in by_group.items():
        combo = of_forecast[COMBO]
        interval = combo.error.interval
        spread = f"{interval.low:.3f}-{interval.high:.3f}" if interval else "-"
        chance = "-" if combo.chance_error is None else f"{combo.chance_error:.3f}"
        masses = "".join(f"{f'{of_forecast[name].promised:.3f} > {of_forecast[name].happened:.3f}':>16}" for name in tops)
        lines.append(f"{group:<12}{combo.num_positions:>11,}{combo.error.mean:>8.3f}{spread:>14}{chance:>11}{masses}")
    return "\n".join(lines)


class ReliabilitySums:
    """Running sums of one reader's forecasts; ``observe`` is an ``evaluation.Observer``."""

    def __init__(self, name: str, reads: Reads, *, generator: np.random.Generator, reader: int = 0) -> None:
        """Start with nothing counted.

        Args:
            name: what the curves call the reader.
            reads: what will be read; their hands are dealt into blocks.
            generator: deals the hands.
            reader: the reader's place among those evaluated; the answers of others are passed over.
        """
        self.name = name
        self._reader = reader
        hands, hand = np.unique(reads.hand_index, return_inverse=True)
        self._num_blocks = max(1, min(_MAX_BLOCKS, len(hands)))
        self._block = torch.from_numpy(generator.permutation(len(hands))[hand] % self._num_blocks)  # (reads,)
        self._shape = (self._num_blocks, len(STREETS), len(OPPONENTS), NUM_BINS)
        self.sums: npt.NDArray[np.float64] = np.zeros((len(FORECASTS), len(_SUMS), *self._shape))

    def observe(self, scored: ScoredPositions) -> None:
        """Count the forecasts of one batch in."""
        if scored.reader != self._reader:
            return
        part = scored.part
        at = (part.rows, part.positions)
        opponents = num_opponents(part.batch.tokens)[at].clamp(max=len(OPPONENTS) - 1)
        block = self._block.to(part.rows.device)[part.batch.read_index[part.rows]]
        cell = (block * len(STREETS) + street_at(part.batch.tokens)[at]) * len(OPPONENTS) + opponents  # (N,)
        self._count_combos(cell * NUM_BINS, scored)
        mass = scored.logp.topk(max(TOP_KS), dim=1).values.double().exp().cumsum(1)  # (N, 128)
        for place, k in enumerate(TOP_KS, start=1):
            promised = mass[:, k - 1]
            bins = (promised * NUM_BINS).long().clamp(max=NUM_BINS - 1)
            happened = scored.columns[:, METRICS.index(f"top{k}")]
            for column, weights in enumerate((promised, happened, torch.ones_like(promised))):
                self._add(place, column, cell * NUM_BINS + bins, weights)

    def _count_combos(self, first_bin: torch.Tensor, scored: ScoredPositions) -> None:
        """Count every live combo in; ``first_bin`` (N,) is where the bins of each position begin."""
        logp, is_live, targets = scored.logp, scored.part.is_live, scored.part.targets[:, None]
        bins = (logp * (_BINS_A_DECADE / math.log(10.0)) + NUM_BINS).floor().clamp(0, NUM_BINS - 1).long()  # (N, C)
        place = torch.where(is_live, first_bin[:, None] + bins, math.prod(self._shape))
        truth = place.gather(1, targets)[:, 0]
        self._add(0, 0, place.view(-1), logp.double().exp().view(-1))
        self._add(0, 1, truth, torch.ones_like(truth, dtype=torch.float64))
        self._add(0, 2, place.view(-1), None)

    def _add(self, forecast: int, column: int, place: torch.Tensor, weights: torch.Tensor | None) -> None:
        """Add to bins; the place after the last one takes what does not count."""
        num_places = math.prod(self._shape)
        added = torch.bincount(place, weights, minlength=num_places + 1)[:num_places].cpu().numpy()
        self.sums[forecast, column] += added.reshape(self._shape)

    def curves(self, *, generator: np.random.Generator) -> tuple[ReliabilityCurve, ...]:
        """Return a curve for each kind of forecast and each group that has positions, TOTAL first.

        Args:
            generator: draws the blocks for the intervals.

        Raises:
            NothingToScoreError: nothing was counted.
        """
        if not self.sums.any():
            msg = f"{self.name}: no position was scored, so there is no reliability to report"
            raise NothingToScoreError(msg)
        groups = {TOTAL: self.sums.sum(axis=(3, 4))}  # each (forecasts, 3, J, K)
        groups |= {name: self.sums[:, :, :, index].sum(axis=3) for index, name in enumerate(STREETS)}
        groups |= {name: self.sums[:, :, :, :, index].sum(axis=3) for index, name in enumerate(OPPONENTS)}
        curves = []
        for group, sums in groups.items():
            positions = sums[1, _SUMS.index("count")].sum(axis=1)  # (J,) every position makes one forecast of top16
            if positions.any():
                for index, forecast in enumerate(FORECASTS):
                    curves.append(_curve(self.name, forecast, group, sums[index], positions, generator))
        return tuple(curves)


def _curve(
    name: str,
    forecast: str,
    group: str,
    sums: npt.NDArray[np.float64],
    positions: npt.NDArray[np.float64],
    generator: np.random.Generator,
) -> ReliabilityCurve:
    """Return the curve of sums (3, J, K) over positions (J,)."""
    has_positions = positions > 0
    sums, positions = sums[:, has_positions], positions[has_positions]
    num_blocks = len(positions)
    total = sums.sum(axis=1)  # (3, K)
    promised, happened, count = total
    resamples = np.zeros((0, *total.shape))
    if num_blocks > 1:
        flat = sums.transpose(1, 0, 2).reshape(num_blocks, -1)
        means = resampled_means(flat, positions.astype(np.int64), np.arange(num_blocks), generator=generator)
        resamples = means.reshape(-1, *total.shape)  # (R, 3, K) a position
    edges = COMBO_EDGES if forecast == COMBO else MASS_EDGES
    bins = [
        ReliabilityBin(
            low=float(edges[k]),
            high=float(edges[k + 1]),
            num_forecasts=int(count[k]),
            promised=float(promised[k] / count[k]),
            happened=_share(happened[k], count[k], resamples[:, 1:, k]),
        )
        for k in np.flatnonzero(count)
    ]
    error = float(np.abs(promised - happened).sum() / positions.sum())
    resampled_gap = resamples[:, 0] - resamples[:, 1]  # (R, K)
    has_spread = len(resamples) > 0
    return ReliabilityCurve(
        reader=name,
        forecast=forecast,
        group=group,
        num_positions=int(positions.sum()),
        bins=tuple(bins),
        error=Estimate(
            mean=error,
            interval=_reflected(error, np.abs(resampled_gap).sum(axis=1)) if has_spread else None,
        ),
        # The mean of |x| is sqrt(2 / pi) standard deviations where x is normal around zero.
        chance_error=float(resampled_gap.std(axis=0).sum() * math.sqrt(2 / math.pi)) if has_spread else None,
    )


def _reflected(error: float, resamples: npt.NDArray[np.float64]) -> Interval:
    """Return the basic bootstrap interval of an error >= 0: noise lifts a sum of magnitudes, and resampling lifts it once more."""
    central = central_interval(resamples)
    return Interval(low=max(0.0, 2 * error - central.high), high=max(0.0, 2 * error - central.low))


def _share(happened: float, count: float, resamples: npt.NDArray[np.float64]) -> Estimate:
    """Return happened / count with the interval of resampled (happened, count) pairs (R, 2)."""
    is_counted = resamples[:, 1] > 0
    has_interval = happened >= _MIN_HAPPENED and bool(is_counted.any())
    shares = resamples[is_counted, 0] / resamples[is_counted, 1]
    return Estimate(mean=float(happened / count), interval=central_interval(shares) if has_interval else None)
