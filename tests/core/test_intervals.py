"""Bootstrap intervals over hands: coverage of the right spread, pairing, and refusal of what has no spread."""

import math

import numpy as np
import pytest

from range_reader_core.intervals import central_interval, resampled_means


def test_interval_matches_the_normal_interval_of_independent_hands() -> None:
    """An interval of the wrong width makes every claimed gain wrong; with one read a hand theory gives the width."""
    values = np.random.default_rng(0).normal(3.0, 2.0, size=(2000, 1))
    ones = np.ones(2000, dtype=np.int64)
    means = resampled_means(values, ones, np.arange(2000), generator=np.random.default_rng(1), num_resamples=2000)
    interval = central_interval(means[:, 0])
    half = 1.96 * values.std() / math.sqrt(2000)
    assert interval.low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_reads_of_one_hand_are_drawn_together() -> None:
    """Treating five copies of one hand as five observations would shrink the interval by sqrt(5)."""
    values = np.random.default_rng(0).normal(size=(400, 1))
    once = resampled_means(values, np.ones(400, dtype=np.int64), np.arange(400), generator=np.random.default_rng(1))
    copies = np.repeat(values, 5, axis=0)
    hands = np.repeat(np.arange(400), 5)
    many = resampled_means(copies, np.ones(2000, dtype=np.int64), hands, generator=np.random.default_rng(1))
    np.testing.assert_allclose(many, once, rtol=0, atol=1e-12)


def test_means_are_micro_averages() -> None:
    """A hand of ten positions weighs ten times a hand of one; equal weights would give 5.0 here."""
    means = resampled_means(
        np.array([[0.0], [100.0]]), np.array([1, 10]), np.array([7, 3]), generator=np.random.default_rng(0), num_resamples=50
    )
    assert set(np.round(means[:, 0], 9)) == {0.0, round(100 / 11, 9), 10.0}


def test_columns_share_draws_so_differences_are_paired() -> None:
    """Independent draws would drown a constant difference of two readers in the spread of the hands."""
    base = np.random.default_rng(0).normal(0.0, 50.0, size=100)
    counts = np.full(100, 2)
    sums = np.stack([base, base - 0.5 * counts], axis=1)
    means = resampled_means(sums, counts, np.arange(100), generator=np.random.default_rng(1))
    np.testing.assert_allclose(means[:, 0] - means[:, 1], 0.5, rtol=0, atol=1e-12)


def test_memory_bound_does_not_change_the_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing in pieces must still fill every resample."""
    monkeypatch.setattr("range_reader_core.intervals._MAX_DRAWS", 700)
    values = np.random.default_rng(0).normal(5.0, 1.0, size=(100, 1))
    means = resampled_means(
        values, np.ones(100, dtype=np.int64), np.arange(100), generator=np.random.default_rng(1), num_resamples=50
    )
    assert means.shape == (50, 1)
    assert (np.abs(means - 5.0) < 1.0).all()


def test_one_hand_has_no_interval() -> None:
    """An interval of width zero from one hand would look like certainty."""
    with pytest.raises(ValueError, match="at least 2 hands"):
        resampled_means(
            np.ones((3, 1)), np.ones(3, dtype=np.int64), np.zeros(3, dtype=np.int64), generator=np.random.default_rng(0)
        )


def test_a_hand_without_positions_is_refused() -> None:
    """A resample of only empty hands would divide by zero."""
    with pytest.raises(ValueError, match="1 of 2 hands have no position"):
        resampled_means(np.ones((2, 1)), np.array([1, 0]), np.array([0, 1]), generator=np.random.default_rng(0))
