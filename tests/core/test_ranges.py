"""Grid, entropy, rank and range text."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from range_reader_core import cards, ranges


def _remove(weights: npt.NDArray[np.float64], names: str) -> npt.NDArray[np.float64]:
    dead = [cards.parse_card(name) for name in names.split()]
    return np.where(cards.COMBO_HAS_CARD[:, dead].any(axis=1), 0.0, weights)


def _uniform() -> npt.NDArray[np.float64]:
    return np.full(cards.NUM_COMBOS, 1 / cards.NUM_COMBOS)


def _combo(name: str) -> int:
    return cards.combo_index(cards.parse_card(name[:2]), cards.parse_card(name[2:]))


def test_grid_puts_suited_hands_above_the_diagonal_and_offsuit_below() -> None:
    """A transposed grid would show every range mirrored and still sum to one."""
    weights = np.zeros(cards.NUM_COMBOS)
    for name, weight in (("AsKs", 1.0), ("AhKh", 2.0), ("AsKd", 4.0), ("2c2d", 8.0), ("9h8h", 16.0)):
        weights[_combo(name)] = weight
    expected = np.zeros((13, 13))
    expected[0, 1], expected[1, 0], expected[12, 12], expected[5, 6] = 3, 4, 8, 16
    np.testing.assert_array_equal(ranges.range_grid(weights), expected)


def test_grid_of_the_uniform_belief_counts_combos() -> None:
    """A combo filed under a wrong class would change a count of 6, 4 or 12."""
    grid = ranges.range_grid(_uniform()) * cards.NUM_COMBOS
    expected = np.where(np.eye(13, dtype=bool), 6, np.where(np.triu(np.ones((13, 13), dtype=bool)), 4, 12))
    np.testing.assert_allclose(grid, expected, rtol=1e-12)


def test_entropy_is_zero_when_certain_and_log2_of_the_count_when_uniform() -> None:
    """Nats or a missing sign would pass a mere monotonicity test."""
    certain = np.zeros(cards.NUM_COMBOS)
    certain[_combo("AhKd")] = 1.0
    quarters = np.zeros(cards.NUM_COMBOS)
    quarters[[3, 5, 700, 1325]] = 0.25
    assert ranges.entropy_bits(certain) == 0.0
    assert ranges.entropy_bits(quarters) == pytest.approx(2.0, abs=1e-12)
    assert ranges.entropy_bits(_uniform()) == pytest.approx(math.log2(1326), abs=1e-12)


def test_rank_of_equal_probabilities_is_their_mean() -> None:
    """Ranking ties first would flatter a uniform read; the metrics average them, and the page must agree."""
    belief = np.zeros(cards.NUM_COMBOS)
    belief[[10, 20, 30, 40]] = 0.4, 0.2, 0.2, 0.2
    assert ranges.combo_rank(belief, 10) == 1
    assert ranges.combo_rank(belief, 20) == 3
    assert ranges.combo_rank(_uniform(), 7) == 663.5


def test_uniform_classes_are_written_as_classes_relative_to_the_largest() -> None:
    """A tool reads a missing weight as 1, so absolute probabilities would turn every hand into a trace."""
    weights = 0.004 * ranges.parse_range("AA,KK:0.5,AKs:0.25,72o:0.0004")
    assert ranges.format_range(weights) == "AA,AKs:0.25,KK:0.5"
    assert ranges.format_class_range(weights) == "AA,AKs:0.25,KK:0.5"


def test_a_class_broken_by_card_removal_is_written_combo_by_combo() -> None:
    """Writing the class would hand the tool combos that hold a board card."""
    weights = _remove(ranges.parse_range("AKs,AA:0.5"), "As 7d 2c")
    assert ranges.format_range(weights) == "AhAd:0.5,AhAc:0.5,AdAc:0.5,AhKh,AdKd,AcKc"


def test_class_text_averages_over_live_combos_only() -> None:
    """Averaging in dead combos would lower every class that the board touches, and the tool would remove them again."""
    dead = [cards.parse_card(name) for name in ("As", "7d", "2c")]
    weights = _remove(ranges.parse_range("AKs,AhAd:0.6,QQ:0.2,77:0.3"), "As 7d 2c")
    assert ranges.format_class_range(weights, dead) == "AA:0.2,AKs,QQ:0.2,77:0.3"


def test_class_text_ignores_weight_left_on_dead_combos() -> None:
    """A combo the hand cannot hold must not set the scale."""
    weights = ranges.parse_range("AsKs,QQ:0.5")
    assert ranges.format_class_range(weights, [cards.parse_card("As")]) == "QQ"


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), decimals=st.integers(1, 4), sharpness=st.floats(0.0, 8.0))
def test_range_text_round_trips_to_its_rounding(seed: int, decimals: int, sharpness: float) -> None:
    """An export that another tool reads back differently is worse than none."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=cards.NUM_CLASSES)[cards.COMBO_CLASS] + rng.choice([0.0, 0.2]) * rng.normal(size=cards.NUM_COMBOS)
    belief = _remove(np.exp(sharpness * logits), "Ts 7d 2c Ah Kd")
    belief /= belief.sum()
    text = ranges.format_range(belief, decimals=decimals)
    parsed = ranges.parse_range(text)
    assert np.abs(parsed - belief / belief.max()).max() <= 0.5000001 * 10**-decimals
    assert parsed.max() == 1.0
    assert ranges.format_range(parsed, decimals=decimals) == text


def test_float32_weights_are_rounded_in_float64() -> None:
    """0.0625 is exact, but a quotient in float32 may fall on the other side of a rounding edge."""
    weights = ranges.parse_range("AA,KK:0.3335").astype(np.float32) * np.float32(0.007)
    assert ranges.format_range(weights, decimals=2) == "AA,KK:0.33"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("AK", "AKs,AKo"),
        ("QQ+", "AA,KK,QQ"),
        ("ATs+", "ATs,AJs,AQs,AKs"),
        ("KJ+", "KJs,KQs,KJo,KQo"),
        ("99-66", "66,77,88,99"),
        ("A2s-A5s", "A5s,A4s,A3s,A2s"),
        ("QTo-Q8o:0.5", "QTo:.5, Q9o:0.50 ,Q8o: 0.5"),
        ("KdAh:0.25", "AhKd:0.25"),
        ("32s", "3s2s,3h2h,3d2d,3c2c"),
        ("AA:1\n", "AA"),
    ],
)
def test_usual_shorthand_is_read(text: str, same: str) -> None:
    """People paste ranges from solvers and books; a shorthand read wrongly is silent."""
    np.testing.assert_array_equal(ranges.parse_range(text), ranges.parse_range(same))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "AA,",
        "AAs",
        "KA",
        "AKx",
        "AA:1.5",
        "AA:-1",
        "AA:nan",
        "AA:",
        "AhAh",
        "AhK",
        "99-6",
        "A5s-K2s",
        "A5s-A2o",
        "99-A2",
        "AA;KK",
    ],
)
def test_malformed_text_is_refused_with_the_entry(text: str) -> None:
    """A range that silently loses hands skews every number computed from it."""
    with pytest.raises(ValueError, match=r"range text|two different cards"):
        ranges.parse_range(text)


@pytest.mark.parametrize("text", ["AA,AA:0.5", "AK,AKs", "QQ+,KK:0.2", "AhKd,AKo"])
def test_a_combo_named_twice_is_refused(text: str) -> None:
    """Tools differ on whether the first or the last weight counts."""
    with pytest.raises(ValueError, match="names already"):
        ranges.parse_range(text)


def test_what_is_no_range_or_belief_is_refused() -> None:
    """A grid of logits or of the wrong axis would look plausible."""
    with pytest.raises(ValueError, match="shape"):
        ranges.range_grid(np.ones(169))
    with pytest.raises(ValueError, match="at least 0"):
        ranges.range_grid(-_uniform())
    with pytest.raises(ValueError, match="sum to 1"):
        ranges.entropy_bits(2 * _uniform())
    with pytest.raises(ValueError, match="combo in"):
        ranges.combo_rank(_uniform(), -1)
    with pytest.raises(ValueError, match="positive weight"):
        ranges.format_range(np.zeros(cards.NUM_COMBOS))
