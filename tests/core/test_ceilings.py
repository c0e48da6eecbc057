"""Shares of the ceiling: worked by hand, and refused where there is nothing to have a share of."""

import numpy as np
import pytest

from range_reader_core import tokens
from range_reader_core.baselines import LiveUniformReader, StaticRangeReader
from range_reader_core.ceilings import EnteredScores, format_share, share_at_point, share_of_reads
from range_reader_core.encoder import HandEncoder
from range_reader_core.evaluation import PointScores, Reader, ReadScores, ScoredPositions, evaluate
from range_reader_core.masks import POINTS
from range_reader_core.metrics import LOSS, METRICS, MRR
from range_reader_core.tables import sharpening_table, stratified_table
from tests.core.hands import random_hands


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


def test_positions_before_the_first_chips_do_not_count() -> None:
    """A seat is asked for only if it puts chips in, which a model may know and the oracle does not: such positions are left out."""
    reads, _ = HandEncoder().encode_hands(random_hands(3, 60))
    readers: list[Reader] = [LiveUniformReader(), StaticRangeReader(class_counts=np.arange(169.0))]
    entered = EnteredScores(2, reads.num_reads)
    expected = np.zeros((2, 2))  # sum and number of losses

    def observe(scored: ScoredPositions) -> None:
        entered.observe(scored)
        part = scored.part
        for index, (row, position) in enumerate(zip(part.rows.tolist(), part.positions.tolist(), strict=True)):
            names = [tokens.describe(token) for token in part.batch.tokens[row, : position + 1].tolist()]
            seat = next(name for name in names if name.startswith("predict_hole")).partition("@")[2]
            if any(f"{action}@{seat}" in names for action in ("call", "bet", "raise", "all_in")):
                expected[scored.reader] += scored.columns[index, LOSS].item(), 1

    parts = entered.of(evaluate(readers, reads, observers=[observe]))
    assert 0 < expected[0, 1] < sum(int(part.num_positions.sum()) for part in evaluate(readers[:1], reads))
    for part, (loss, count) in zip(parts, expected, strict=True):
        assert part.num_positions.min() > 0
        assert len(part.metric_sums) == len(part.num_positions) == len(part.stratum) == len(part.hand_index)
        assert int(part.num_positions.sum()) == count
        assert part.metric_sums[:, LOSS].sum() == pytest.approx(loss)


def test_an_oracle_is_no_baseline_to_beat() -> None:
    """Else the lead over the best baseline would be a deficit on arena hands alone."""
    table = stratified_table([MODEL, FLOOR, ORACLE], generator=np.random.default_rng(0), ceilings=["oracle"])
    best = table.best_lead("loss_nats")
    assert best is not None
    assert best.baseline == "floor"
    assert table.row("oracle").scores["loss_nats"].mean == pytest.approx(5.0)
