"""Shares of the ceiling: worked by hand, and refused where there is nothing to have a share of."""

import numpy as np
import pytest

from range_reader_core.ceilings import format_share, share_at_point, share_of_reads
from range_reader_core.evaluation import PointScores, ReadScores
from range_reader_core.masks import POINTS
from range_reader_core.metrics import LOSS, METRICS, MRR
from range_reader_core.tables import sharpening_table, stratified_table


def scores(reader: str, losses: list[float], mrrs: list[float]) -> ReadScores:
    """Return two reads of two hands with three and one position."""
    sums = np.zeros((2, len(METRICS)))
    sums[:, LOSS], sums[:, MRR] = losses, mrrs
    return ReadScores(
        reader=reader,
        metric_sums=sums,
        num_positions=np.array([3, 1]),
        stratum=np.zeros(2, dtype=np.int64),
        hand_index=np.array([0, 1]),
    )


MODEL = scores("model", [18.0, 6.0], [0.09, 0.03])  # 6 nats and 0.03 a position
FLOOR = scores("floor", [21.0, 7.0], [0.03, 0.01])  # 7 nats and 0.01
ORACLE = scores("oracle", [15.0, 5.0], [0.15, 0.05])  # 5 nats and 0.05


def test_a_share_is_the_gain_over_the_gain() -> None:
    """One nat of two, two hundredths of four; every hand alike, so the interval is a point."""
    share = share_of_reads([MODEL, FLOOR, ORACLE], floor="floor", oracle="oracle", generator=np.random.default_rng(0))
    assert share.share_nats.mean == pytest.approx(0.5)
    assert share.share_mrr.mean == pytest.approx(0.5)
    assert share.ahead_nats.mean == pytest.approx(-1.0)
    assert share.ahead_mrr.mean == pytest.approx(-0.02)
    assert share.share_nats.interval is not None
    assert share.share_nats.interval.low == pytest.approx(0.5)
    assert share.share_nats.interval.high == pytest.approx(0.5)
    assert "50.0% (95% 50.0% to 50.0%) of its nats" in format_share(share)
    best = share_of_reads([ORACLE, FLOOR, ORACLE], floor="floor", oracle="oracle", generator=np.random.default_rng(0))
    assert best.share_nats.mean == pytest.approx(1.0)


def test_a_point_has_its_own_share() -> None:
    """The last point is the showdown; others do not count there."""
    parts = []
    for reader, loss in (("model", 4.0), ("floor", 6.0), ("oracle", 2.0)):
        metrics = np.full((2, len(POINTS), len(METRICS)), 7.0)
        metrics[:, -1, LOSS], metrics[:, -1, MRR] = loss, 1.0 / loss
        parts.append(PointScores(reader=reader, metrics=metrics, read_index=np.array([0, 1]), hand_index=np.array([0, 1])))
    share = share_at_point(parts, len(POINTS) - 1, floor="floor", oracle="oracle", generator=np.random.default_rng(0))
    assert share.share_nats.mean == pytest.approx(0.5)
    assert share.share_mrr.mean == pytest.approx((1 / 4 - 1 / 6) / (1 / 2 - 1 / 6))
    table = sharpening_table(parts, generator=np.random.default_rng(0), ceilings=["oracle"])
    best = table.best_lead("loss_nats", "showdown")
    assert best is not None
    assert best.baseline == "floor"


def test_an_oracle_that_reads_nothing_is_refused() -> None:
    """A share of nothing would be a number out of noise."""
    with pytest.raises(ValueError, match="reads no better than 'floor'"):
        share_of_reads(
            [MODEL, FLOOR, scores("oracle", [21.0, 7.0], [0.03, 0.01])],
            floor="floor",
            oracle="oracle",
            generator=np.random.default_rng(0),
        )
    with pytest.raises(ValueError, match="no scores of 'oracle'"):
        share_of_reads([MODEL, FLOOR], floor="floor", oracle="oracle", generator=np.random.default_rng(0))


def test_an_oracle_is_no_baseline_to_beat() -> None:
    """Else the lead over the best baseline would be a deficit on arena hands alone."""
    table = stratified_table([MODEL, FLOOR, ORACLE], generator=np.random.default_rng(0), ceilings=["oracle"])
    best = table.best_lead("loss_nats")
    assert best is not None
    assert best.baseline == "floor"
    assert table.row("oracle").scores["loss_nats"].mean == pytest.approx(5.0)
