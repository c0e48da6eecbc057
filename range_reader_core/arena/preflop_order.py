"""The one order in which the arena's players rank starting hands, best first.

Bill Chen's points: the high card's, doubled for a pair, more for suited and connected cards, less for gaps. Classes of equal points
go by their high card, then the low one, then suited first, so the order has no ties. Charts speak of the best so many percent.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from range_reader_core import cards

_HIGH_CARD_POINTS: Final = np.array([rank / 2 + 1 for rank in range(9)] + [6.0, 7.0, 8.0, 10.0])  # 2..T, J, Q, K, A
_LEAST_PAIR: Final = 5.0
_SUITED_POINTS: Final = 2.0
_GAP_POINTS: Final = np.array([0.0, -1.0, -2.0, -4.0])
_WIDE_GAP_POINTS: Final = -5.0
_QUEEN: Final = cards.RANKS.index("Q")


def _points() -> npt.NDArray[np.float64]:
    low, high = cards.COMBO_CARDS[:, 0] // 4, cards.COMBO_CARDS[:, 1] // 4
    is_pair = cards.COMBO_SHAPE == cards.SHAPE_PAIR
    gap = np.maximum(high - low - 1, 0)
    gap_points = np.where(gap < len(_GAP_POINTS), _GAP_POINTS[np.minimum(gap, len(_GAP_POINTS) - 1)], _WIDE_GAP_POINTS)
    straight_point = (gap <= 1) & (high < _QUEEN) & ~is_pair
    points = _HIGH_CARD_POINTS[high] + _SUITED_POINTS * (cards.COMBO_SHAPE == cards.SHAPE_SUITED) + gap_points + straight_point
    pair_points = np.maximum(2 * _HIGH_CARD_POINTS[high], _LEAST_PAIR)
    result: npt.NDArray[np.float64] = np.where(is_pair, pair_points, np.ceil(points))
    return result


def _quantile() -> npt.NDArray[np.float64]:
    low, high = cards.COMBO_CARDS[:, 0] // 4, cards.COMBO_CARDS[:, 1] // 4
    is_suited = cards.COMBO_SHAPE == cards.SHAPE_SUITED
    key = ((_points() * 13 + high) * 13 + low) * 2 + is_suited
    order = np.argsort(-key, kind="stable")
    _, first, count = np.unique(-key[order], return_index=True, return_counts=True)
    quantile = np.empty(cards.NUM_COMBOS)
    quantile[order] = np.repeat(first + count / 2, count) / cards.NUM_COMBOS
    return quantile


COMBO_QUANTILE: Final = _quantile()  # (1326,) the share of combos that are better, its own class counting half: 0 best, 1 worst
