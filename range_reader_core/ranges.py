"""What people do with a belief over the 1326 combos: the 13x13 grid, its entropy, and the range text that tools exchange.

A range is an array of combo weights; a belief is a range that sums to one. Range text (``AA,AKs:0.5,AhKd:0.25``) carries
weights relative to the largest, as the solvers read them: only ratios mean anything, 1 is left out, and an entry that
rounds to zero is not written. Nothing here knows hands, models or files.
"""

import math
import re
from collections.abc import Collection
from typing import Final

import numpy as np
import numpy.typing as npt

from range_reader_core import cards

NUM_RANKS: Final = len(cards.RANKS)
DEFAULT_DECIMALS: Final = 3

_SUM_TOLERANCE: Final = 1e-4  # a float32 softmax over 1326 combos is well inside
_ENTRY: Final = re.compile(r"(?P<hands>[^:\s]+)(?:\s*:\s*(?P<weight>\d+(?:\.\d*)?|\.\d+))?")
_CLASSES: Final = re.compile(rf"(?P<high>[{cards.RANKS}])(?P<low>[{cards.RANKS}])(?P<suffix>[so]?)")
_COMBOS_BY_CLASS: Final = {name: np.flatnonzero(index == cards.COMBO_CLASS) for index, name in enumerate(cards.CLASS_NAMES)}


def range_grid(weights: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Return the summed weight of each class as the usual 13x13 grid.

    Args:
        weights: (1326,) combo weights or probabilities.

    Returns:
        (13, 13): aces first, pairs on the diagonal, suited hands above it; row-major order is ``cards.CLASS_NAMES``.

    Raises:
        ValueError: the shape is wrong or a weight is negative or not finite.
    """
    _check_weights(weights)
    summed = np.bincount(cards.COMBO_CLASS, weights=weights, minlength=cards.NUM_CLASSES)
    return summed.astype(np.float64).reshape(NUM_RANKS, NUM_RANKS)


def entropy_bits(belief: npt.NDArray[np.floating]) -> float:
    """Return the Shannon entropy of a belief in bits: 0 for one certain combo, 10.37 for all combos alike.

    Args:
        belief: (1326,) probabilities that sum to one.

    Raises:
        ValueError: ``belief`` is no probability distribution over the combos.
    """
    _check_belief(belief)
    positive = belief[belief > 0].astype(np.float64)
    return float(max(0.0, -(positive * np.log2(positive)).sum()))


def combo_rank(belief: npt.NDArray[np.floating], combo: int) -> float:
    """Return the rank of a combo when the most probable counts 1; equal probabilities share their mean rank.

    Args:
        belief: (1326,) probabilities that sum to one.
        combo: 0..1325.

    Raises:
        ValueError: ``belief`` is no probability distribution over the combos, or there is no such combo.
    """
    _check_belief(belief)
    if not 0 <= combo < cards.NUM_COMBOS:
        msg = f"expected a combo in 0..{cards.NUM_COMBOS - 1}, got {combo}"
        raise ValueError(msg)
    num_better = int((belief > belief[combo]).sum())
    num_equal = int((belief == belief[combo]).sum())
    return num_better + (num_equal + 1) / 2


def format_range(weights: npt.NDArray[np.floating], *, decimals: int = DEFAULT_DECIMALS) -> str:
    """Return range text that keeps every combo: a class where its combos are alike, single combos where they are not.

    Card removal makes a class uneven, so ``AsKs`` on the board leaves ``AhKh,AdKd,AcKc``. ``parse_range`` gives back
    the weights relative to the largest, rounded to ``decimals``.

    Args:
        weights: (1326,) combo weights or probabilities.
        decimals: digits kept after the point.

    Raises:
        ValueError: the shape is wrong, a weight is negative or not finite, or all are zero.
    """
    units = _relative_units(_check_weights(weights), decimals)  # (1326,)
    entries = []
    for name, combos in _COMBOS_BY_CLASS.items():
        if (units[combos] == units[combos[0]]).all():
            entries.append((name, int(units[combos[0]])))
        else:
            entries.extend((cards.format_combo(int(combo)), int(units[combo])) for combo in combos[::-1])
    return _join_entries(entries, decimals)


def format_class_range(
    weights: npt.NDArray[np.floating], dead_cards: Collection[int] = (), *, decimals: int = DEFAULT_DECIMALS
) -> str:
    """Return range text by class alone: the mean weight of a class's live combos, relative to the largest such mean.

    Shorter than ``format_range`` and accepted by tools that take no single combos; what sets the suits of a class apart
    is lost. Dead combos are left out of the mean because the tool removes them again for the board.

    Args:
        weights: (1326,) combo weights or probabilities.
        dead_cards: cards 0..51 that the hand cannot hold: the board and the reader's own.
        decimals: digits kept after the point.

    Raises:
        ValueError: the shape is wrong, a weight is negative or not finite, or none of a live combo is positive.
    """
    is_live = ~cards.COMBO_HAS_CARD[:, sorted(dead_cards)].any(axis=1)  # (1326,)
    num_live = np.bincount(cards.COMBO_CLASS, weights=is_live, minlength=cards.NUM_CLASSES)  # (169,)
    summed = range_grid(np.where(is_live, weights, 0.0)).ravel()  # (169,)
    units = _relative_units(summed / np.maximum(num_live, 1), decimals)
    return _join_entries([(name, int(unit)) for name, unit in zip(cards.CLASS_NAMES, units, strict=True)], decimals)


def parse_range(text: str) -> npt.NDArray[np.float64]:
    """Return the weights that range text names, shape (1326,), 0 for combos it does not name.

    Entries are separated by commas: a class (``AA``, ``AKs``, ``AKo``, ``AK`` for both), a run of classes (``QQ+``,
    ``ATs+``, ``99-66``, ``A5s-A2s``) or a combo (``AhKd``), each with an optional weight in 0..1 such as ``:0.5``.

    Raises:
        ValueError: an entry is not of this form, a weight is outside 0..1, or a combo is named twice.
    """
    weights = np.zeros(cards.NUM_COMBOS, dtype=np.float64)
    is_named = np.zeros(cards.NUM_COMBOS, dtype=np.bool_)
    for entry in (part.strip() for part in text.split(",")):
        match = _ENTRY.fullmatch(entry)
        if match is None:
            msg = f"range text: expected an entry such as 'AA', 'AKs:0.5', 'QQ+' or 'AhKd:0.25', got {entry!r}"
            raise ValueError(msg)
        weight = 1.0 if match["weight"] is None else float(match["weight"])
        if weight > 1:
            msg = f"range text: expected a weight in 0..1, got {weight} in {entry!r}"
            raise ValueError(msg)
        combos = _parse_hands(match["hands"])
        if is_named[combos].any():
            twice = cards.format_combo(int(combos[is_named[combos]][0]))
            msg = f"range text: {entry!r} names {twice}, which an entry before it names already"
            raise ValueError(msg)
        is_named[combos] = True
        weights[combos] = weight
    return weights


def _check_weights(weights: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    if weights.shape != (cards.NUM_COMBOS,):
        msg = f"expected weights of shape ({cards.NUM_COMBOS},), got {weights.shape}"
        raise ValueError(msg)
    is_bad = ~np.isfinite(weights) | (weights < 0)
    if is_bad.any():
        combo = int(np.flatnonzero(is_bad)[0])
        msg = f"expected finite weights of at least 0, got {weights[combo]} for {cards.format_combo(combo)}"
        raise ValueError(msg)
    return weights


def _check_belief(belief: npt.NDArray[np.floating]) -> None:
    total = float(_check_weights(belief).sum(dtype=np.float64))
    if not math.isclose(total, 1.0, abs_tol=_SUM_TOLERANCE):
        msg = f"expected probabilities that sum to 1, got a sum of {total}"
        raise ValueError(msg)


def _relative_units(weights: npt.NDArray[np.floating], decimals: int) -> npt.NDArray[np.int64]:
    largest = float(weights.max())
    if not largest > 0:
        msg = "range text: expected at least one positive weight, got none"
        raise ValueError(msg)
    units: npt.NDArray[np.int64] = np.floor(weights.astype(np.float64) / largest * 10**decimals + 0.5).astype(np.int64)
    return units


def _join_entries(entries: list[tuple[str, int]], decimals: int) -> str:
    one = 10**decimals
    return ",".join(
        name if unit == one else f"{name}:{f'{unit / one:.{decimals}f}'.rstrip('0')}" for name, unit in entries if unit > 0
    )


def _parse_hands(text: str) -> npt.NDArray[np.int64]:
    """Return the combos that one entry names."""
    if len(text) == 4 and text[:2] in cards.CARD_BY_NAME and text[2:] in cards.CARD_BY_NAME:
        return np.array([cards.combo_index(cards.parse_card(text[:2]), cards.parse_card(text[2:]))])
    first, dash, last = text.partition("-")
    has_plus = first.endswith("+") and not dash
    high, low, suffix = _parse_class(first.removesuffix("+") if has_plus else first, text)
    is_pair = high == low
    other = low
    if has_plus:
        other = NUM_RANKS - 1 if is_pair else high - 1
    elif dash:
        last_high, other, last_suffix = _parse_class(last, text)
        if last_suffix != suffix or (last_high == other) != is_pair or not (is_pair or last_high == high):
            msg = f"range text: expected a run such as '99-66' or 'A5s-A2s', got {text!r}"
            raise ValueError(msg)
    names = []
    for rank in range(min(low, other), max(low, other) + 1):
        if is_pair:
            names.append(cards.RANKS[rank] * 2)
        else:
            names.extend(cards.RANKS[high] + cards.RANKS[rank] + shape for shape in (suffix or "so"))
    return np.concatenate([_COMBOS_BY_CLASS[name] for name in names])


def _parse_class(name: str, text: str) -> tuple[int, int, str]:
    """Return the ranks of a class, the higher first, and ``s``, ``o`` or nothing; ``text`` is the entry it stands in."""
    match = _CLASSES.fullmatch(name)
    if match is None:
        msg = f"range text: expected a hand such as 'AA', 'AKs', 'QQ+' or 'AhKd', got {text!r}"
        raise ValueError(msg)
    high, low, suffix = cards.RANKS.index(match["high"]), cards.RANKS.index(match["low"]), match["suffix"]
    if high < low or (high == low and suffix):
        msg = f"range text: a hand has its higher rank first and a pair has no suffix, got {text!r}"
        raise ValueError(msg)
    return high, low, suffix
