"""Whether counts are spread as chance would spread them: the chi-square test, without a statistics library.

Rows are shards, columns are kinds of reads. Kinds too rare for the approximation are counted as one. ``p`` is the probability that
independent draws differ at least so much; a shuffle that mixes well gives each value of it equally often.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

LEAST_EXPECTED: Final = 5.0  # reads per cell for the chi-square distribution to hold
_MAX_TERMS: Final = 10_000
_PRECISION: Final = 1e-12


@dataclass(frozen=True, slots=True)
class ChiSquare:
    """The result of a test."""

    statistic: float
    num_degrees: int  # of freedom; 0 where there is nothing to compare
    p: float  # 1.0 where there is nothing to compare


def chi_square(counts: npt.NDArray[np.int64]) -> ChiSquare:
    """Test whether all rows of a (R, K) table of counts have the same proportions."""
    table = _without_rare(counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0])
    rows, kinds = table.shape
    num_degrees = (rows - 1) * (kinds - 1)
    if num_degrees <= 0:
        return ChiSquare(0.0, 0, 1.0)
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True) / table.sum()
    statistic = float(((table - expected) ** 2 / expected).sum())
    return ChiSquare(statistic, num_degrees, upper_tail(statistic, num_degrees))


def upper_tail(statistic: float, num_degrees: int) -> float:
    """Return the probability that a chi-square variable exceeds ``statistic``: the regularised gamma function Q(k/2, x/2)."""
    a, x = num_degrees / 2.0, statistic / 2.0
    if x <= 0.0:
        return 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    return 1.0 - scale * _lower_series(a, x) if x < a + 1.0 else scale * _upper_fraction(a, x)


def _lower_series(a: float, x: float) -> float:
    term = total = 1.0 / a
    for n in range(1, _MAX_TERMS):
        term *= x / (a + n)
        total += term
        if term < total * _PRECISION:
            break
    return total


def _upper_fraction(a: float, x: float) -> float:
    """Evaluate the continued fraction by Lentz's method."""
    tiny = 1e-300
    b = x + 1.0 - a
    c, d = 1.0 / tiny, 1.0 / b
    value = d
    for n in range(1, _MAX_TERMS):
        factor = -n * (n - a)
        b += 2.0
        d = 1.0 / (factor * d + b or tiny)
        c = b + factor / c or tiny
        value *= d * c
        if abs(d * c - 1.0) < _PRECISION:
            break
    return value


def _without_rare(table: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the table with kinds that are expected too rarely in some row added up into one, or left out if even that is rare."""
    if not table.size:
        return table
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True) / table.sum()
    is_rare = expected.min(axis=0) < LEAST_EXPECTED
    if not is_rare.any():
        return table
    pooled = table[:, is_rare].sum(axis=1, keepdims=True)
    common = table[:, ~is_rare]
    least = (table.sum(axis=1) * pooled.sum() / table.sum()).min()
    return np.hstack([common, pooled]) if least >= LEAST_EXPECTED else common
