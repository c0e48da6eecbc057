"""Claims about when one arm is better than another."""

import math

import numpy as np
import pytest

from range_reader_core.evaluation import ReadScores
from range_reader_core.metrics import LOSS, MEAN_RANK, METRICS, MRR
from range_reader_pipeline.comparison import ComparedArm, compare
from range_reader_pipeline.results_log import RunStatus

NUM_READS = 400
RNG = np.random.default_rng(7)
POSITIONS = RNG.integers(1, 9, NUM_READS)
HANDS = np.arange(NUM_READS) // 2
NOISE = RNG.normal(0.0, 1.0, NUM_READS)


def _scores(loss: float, mrr: float = 0.02, *, noise: float = 1.0) -> ReadScores:
    """Return scores whose means are exactly these, with a spread over hands that all arms share."""
    sums = np.zeros((NUM_READS, len(METRICS)))
    centred = (NOISE - (NOISE * POSITIONS).sum() / POSITIONS.sum()) * noise
    sums[:, LOSS] = (loss + centred) * POSITIONS
    sums[:, MRR] = (mrr + 0.001 * centred) * POSITIONS
    sums[:, MEAN_RANK] = 300.0 * POSITIONS
    return ReadScores(
        reader="x", metric_sums=sums, num_positions=POSITIONS, stratum=np.zeros(NUM_READS, dtype=np.int64), hand_index=HANDS
    )


def _compare(*ours: float, base: tuple[float, ...] = (6.70, 6.71, 6.72)) -> tuple[ComparedArm, ComparedArm]:
    arms = {"base": [_scores(loss) for loss in base], "ours": [_scores(loss) for loss in ours]}
    first, second = compare(arms, _scores(6.8), "base")
    return first, second


def test_gains_leads_and_ratio_are_what_they_are_called() -> None:
    """Prevents a sign or a denominator from being the wrong way round."""
    base, ours = _compare(6.60, 6.61, 6.62)
    assert base.gain_nats.mean == pytest.approx(0.09)
    assert ours.gain_nats.mean == pytest.approx(0.19)
    assert ours.lead_nats.mean == pytest.approx(0.10)
    assert ours.gain_ratio.mean == pytest.approx(0.19 / 0.09)
    assert ours.seed_gains == pytest.approx((0.20, 0.19, 0.18))
    assert ours.loss_nats.low < 6.61 < ours.loss_nats.high
    # All arms share their spread over hands, so what is paired has none.
    assert ours.gain_nats.high - ours.gain_nats.low < 1e-9
    assert ours.lead_nats.high - ours.lead_nats.low < 1e-9
    assert (ours.status, ours.verdict) == (RunStatus.KEEP, "better")
    assert base.lead_nats.mean == 0.0
    assert base.status is RunStatus.DISCARD


def test_there_is_no_ratio_to_an_arm_that_gains_nothing() -> None:
    """Prevents a factor of minus forty-eight from being read as a factor."""
    _, ours = _compare(6.60, 6.61, 6.62, base=(6.80, 6.81, 6.82))
    assert math.isnan(ours.gain_ratio.mean)
    assert ours.verdict == "better"


def test_a_lead_within_the_spread_of_seeds_is_none() -> None:
    """Prevents one lucky seed from deciding."""
    _, ours = _compare(6.60, 6.70, 6.75)
    differences = np.array([0.10, 0.01, -0.03])
    half = 4.303 * differences.std(ddof=1) / math.sqrt(3)
    assert ours.lead_nats.high - ours.lead_nats.mean == pytest.approx(half, rel=2e-3)
    assert ours.lead_nats.mean == pytest.approx(differences.mean())
    assert (ours.status, ours.verdict) == (RunStatus.DISCARD, "not told apart")


def test_a_worse_arm_is_called_so() -> None:
    """Prevents a loss from passing as noise."""
    _, ours = _compare(6.80, 6.81, 6.82)
    assert (ours.status, ours.verdict) == (RunStatus.DISCARD, "worse")


def test_a_single_seed_decides_nothing() -> None:
    """Prevents an anecdote from being kept."""
    arms = {"base": [_scores(6.7)], "ours": [_scores(6.5)]}
    _, ours = compare(arms, _scores(6.8), "base")
    assert ours.lead_nats.low == -math.inf
    assert (ours.status, ours.verdict) == (RunStatus.DISCARD, "not told apart")


def test_hands_widen_a_lead_that_they_do_not_share() -> None:
    """Prevents few hands from looking like many."""
    arms = {"base": [_scores(6.7, noise=0.5)] * 3, "ours": [_scores(6.6)] * 3}
    _, ours = compare(arms, _scores(6.8), "base")
    per_hand = np.array([((0.5 * NOISE) * POSITIONS)[hand == HANDS].sum() for hand in range(NUM_READS // 2)])
    error = per_hand.std() * math.sqrt(len(per_hand)) / POSITIONS.sum()
    assert (ours.lead_nats.high - ours.lead_nats.low) / 2 == pytest.approx(1.96 * error, rel=0.15)


def test_scores_of_other_reads_are_refused() -> None:
    """Prevents a comparison of arms that read different hands."""
    other = _scores(6.7)
    shifted = ReadScores(
        reader="x",
        metric_sums=other.metric_sums,
        num_positions=POSITIONS + 1,
        stratum=other.stratum,
        hand_index=other.hand_index,
    )
    with pytest.raises(ValueError, match="not of the same reads"):
        compare({"base": [other], "ours": [shifted]}, other, "base")
