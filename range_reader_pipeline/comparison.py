"""Arms compared on the same hands: nats gained over the static range and mrr, with intervals, and whether a difference is one.

Means are over the seeds of an arm. Hands are drawn again with the same draws for all arms, so differences are paired. What hands
leave uncertain and what seeds leave uncertain are added as variances: an arm is better only if both together say so.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from range_reader_pipeline.results_log import RunStatus

if TYPE_CHECKING:
    from range_reader_core.evaluation import ReadScores

BOOTSTRAP_SEED: Final = 20_240_607
_T_QUANTILES: Final = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)  # 97.5%, by degrees of freedom from 1
_NORMAL_QUANTILE: Final = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A mean with its 95% interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return mean and interval as text."""
        return f"{self.mean:.4f} ({self.low:.4f} to {self.high:.4f})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedArm:
    """An arm beside the static range and the arm it is compared with."""

    name: str
    seed_gains: tuple[float, ...]  # nats gained over the static range, by seed
    seed_mrrs: tuple[float, ...]
    loss_nats: Measured
    gain_nats: Measured  # the static range's loss minus the arm's
    mrr: Measured
    mean_rank: float
    lead_nats: Measured  # the base arm's loss minus this one's; seeds' spread included
    lead_mrr: Measured
    gain_ratio: Measured  # nats gained, over the base arm's; hands alone; NaN where the base arm may gain nothing

    @property
    def status(self) -> RunStatus:
        """Keep what is better than the base arm by more than its interval; else discard."""
        return RunStatus.KEEP if self.lead_nats.low > 0.0 else RunStatus.DISCARD

    @property
    def verdict(self) -> str:
        """Say what the interval says."""
        if self.lead_nats.low > 0.0:
            return "better"
        return "worse" if self.lead_nats.high < 0.0 else "not told apart"


def compare(
    arms: Mapping[str, Sequence["ReadScores"]], static: "ReadScores", base: str, *, is_paired: bool = True
) -> tuple[ComparedArm, ...]:
    """Return the arms compared with ``base``, in the given order.

    Args:
        arms: the scores of each seed by arm; seeds of the same place in two arms saw the same order of reads.
        static: the static range's scores.
        base: the arm that the others are compared with.
        is_paired: whether seeds of the same place are compared with each other; else each arm's seeds spread by themselves.

    Raises:
        ValueError: the scores are not of the same reads, or fewer than two hands.
    """
    from range_reader_core.intervals import central_interval, resampled_means
    from range_reader_core.metrics import LOSS, MEAN_RANK, MRR

    everything = [static, *(scores for seeds in arms.values() for scores in seeds)]
    if any(not np.array_equal(scores.num_positions, static.num_positions) for scores in everything):
        msg = "compare: the scores are not of the same reads"
        raise ValueError(msg)
    count = int(static.num_positions.sum())
    columns = {"static": static.metric_sums[:, [LOSS]]}
    means: dict[str, npt.NDArray[np.float64]] = {}  # (seeds, 7)
    for name, seeds in arms.items():
        columns[name] = np.mean([scores.metric_sums for scores in seeds], axis=0)[:, [LOSS, MRR]]
        means[name] = np.array([scores.metric_sums.sum(axis=0) / count for scores in seeds])
    static_loss = float(static.metric_sums[:, LOSS].sum() / count)
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    draws = resampled_means(np.hstack(list(columns.values())), static.num_positions, static.hand_index, generator=rng)
    static_draws = draws[:, 0]
    of_arm = {name: draws[:, 1 + 2 * index : 3 + 2 * index] for index, name in enumerate(arms)}

    def over_hands(mean: float, resamples: npt.NDArray[np.float64]) -> Measured:
        interval = central_interval(resamples)
        return Measured(mean=float(mean), low=interval.low, high=interval.high)

    def lead(name: str, metric: int, resamples: npt.NDArray[np.float64]) -> Measured:
        ours, theirs = means[name][:, metric], means[base][:, metric]
        sign = -1.0 if metric == LOSS else 1.0
        of_hands = over_hands(sign * (ours.mean() - theirs.mean()), resamples)
        if name == base:
            return of_hands
        seeds = _half_width_of_seeds(ours, theirs, is_paired=is_paired)
        below, above = (math.hypot(of_hands.mean - of_hands.low, seeds), math.hypot(of_hands.high - of_hands.mean, seeds))
        return Measured(mean=of_hands.mean, low=of_hands.mean - below, high=of_hands.mean + above)

    base_gain, base_gain_draws = static_loss - means[base][:, LOSS].mean(), static_draws - of_arm[base][:, 0]
    compared = []
    for name in arms:
        loss, mrr, rank = (float(means[name][:, metric].mean()) for metric in (LOSS, MRR, MEAN_RANK))
        loss_draws, mrr_draws = of_arm[name].T
        compared.append(
            ComparedArm(
                name=name,
                seed_gains=tuple(static_loss - means[name][:, LOSS]),
                seed_mrrs=tuple(means[name][:, MRR]),
                loss_nats=over_hands(loss, loss_draws),
                gain_nats=over_hands(static_loss - loss, static_draws - loss_draws),
                mrr=over_hands(mrr, mrr_draws),
                mean_rank=rank,
                lead_nats=lead(name, LOSS, of_arm[base][:, 0] - loss_draws),
                lead_mrr=lead(name, MRR, mrr_draws - of_arm[base][:, 1]),
                gain_ratio=over_hands((static_loss - loss) / base_gain, (static_draws - loss_draws) / base_gain_draws)
                if base_gain > 0.0 and base_gain_draws.min() > 0.0
                else Measured(mean=math.nan, low=math.nan, high=math.nan),
            )
        )
    return tuple(compared)


def _half_width_of_seeds(ours: npt.NDArray[np.float64], theirs: npt.NDArray[np.float64], *, is_paired: bool) -> float:
    """Return half the 95% interval that the spread over seeds leaves; infinite for a single seed."""
    if min(len(ours), len(theirs)) < 2:
        return math.inf
    if is_paired and len(ours) == len(theirs):
        error, freedom = float(np.std(ours - theirs, ddof=1)) / math.sqrt(len(ours)), len(ours) - 1
    else:
        error = math.sqrt(float(ours.var(ddof=1)) / len(ours) + float(theirs.var(ddof=1)) / len(theirs))
        freedom = min(len(ours), len(theirs)) - 1
    return error * (_T_QUANTILES[freedom - 1] if freedom <= len(_T_QUANTILES) else _NORMAL_QUANTILE)
