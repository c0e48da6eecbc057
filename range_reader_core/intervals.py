"""95% intervals by bootstrap over hands.

Reads of one hand share its cards and its betting, so they are not independent: whole hands are drawn with replacement,
never reads or positions. Every column of one call is resampled with the same draws, so a difference of two columns is
a paired difference. Nothing here knows what is being averaged.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

NUM_RESAMPLES: Final = 1000
_MAX_DRAWS: Final = 4_000_000  # drawn at once; bounds the memory of one pass to about 64 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A 95% interval."""

    low: float
    high: float


def resampled_means(
    sums: npt.NDArray[np.float64],
    counts: npt.NDArray[np.int64],
    hands: npt.NDArray[np.int64],
    *,
    generator: np.random.Generator,
    num_resamples: int = NUM_RESAMPLES,
) -> npt.NDArray[np.float64]:
    """Return the micro-averaged means of resampled hands, shape (num_resamples, K).

    Args:
        sums: (N, K) sums of K quantities over the positions of each read.
        counts: (N,) positions of each read.
        hands: (N,) which hand each read belongs to; any numbering.
        generator: where the draws come from.
        num_resamples: how often the hands are drawn again.

    Raises:
        ValueError: fewer than two hands, or a hand without positions; such hands say nothing about the spread.
    """
    names, inverse = np.unique(hands, return_inverse=True)
    num_hands = len(names)
    if num_hands < 2:
        msg = f"resampled_means: expected at least 2 hands to resample, got {num_hands}"
        raise ValueError(msg)
    weighted = np.column_stack([sums, counts]).astype(np.float64)  # (N, K + 1)
    per_hand = np.stack([np.bincount(inverse, column, num_hands) for column in weighted.T], axis=1)  # (num_hands, K + 1)
    if not (per_hand[:, -1] > 0).all():
        msg = f"resampled_means: {int((per_hand[:, -1] <= 0).sum())} of {num_hands} hands have no position"
        raise ValueError(msg)
    totals = np.empty((num_resamples, per_hand.shape[1]))
    step = max(1, _MAX_DRAWS // num_hands)
    for start in range(0, num_resamples, step):
        rows = min(step, num_resamples - start)
        draws = generator.integers(num_hands, size=(rows, num_hands)) + np.arange(rows)[:, None] * num_hands
        times_drawn = np.bincount(draws.ravel(), minlength=rows * num_hands).reshape(rows, num_hands)
        totals[start : start + rows] = times_drawn.astype(np.float64) @ per_hand
    means: npt.NDArray[np.float64] = totals[:, :-1] / totals[:, -1:]
    return means


def central_interval(resamples: npt.NDArray[np.float64]) -> Interval:
    """Return the central 95% of resampled values, shape (num_resamples,)."""
    low, high = np.quantile(resamples, [0.025, 0.975])
    return Interval(low=float(low), high=float(high))
