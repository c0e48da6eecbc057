"""Tables: micro-averages, groups without reads, leads and gains on the same hands, flat records."""

import math

import numpy as np
import pytest

from range_reader_core.evaluation import PointScores, ReadScores
from range_reader_core.masks import POINTS, STRATA
from range_reader_core.metrics import LOSS, MEAN_RANK, METRICS, MRR
from range_reader_core.tables import POINT_NAMES, TOTAL, sharpening_table, stratified_table

SHOWDOWN, RIVER_FOLD = STRATA.index("showdown"), STRATA.index("river-fold")


def _read_scores(reader: str, mean_loss: list[float], *, counts: list[int], stratum: list[int], hands: list[int]) -> ReadScores:
    """Scores whose metric m of read i is ``mean_loss[i] + m`` at every position."""
    per_position = np.array(mean_loss)[:, None] + np.arange(len(METRICS))
    return ReadScores(
        reader=reader,
        metric_sums=per_position * np.array(counts)[:, None],
        num_positions=np.array(counts),
        stratum=np.array(stratum),
        hand_index=np.array(hands),
    )


def _pair() -> tuple[ReadScores, ReadScores]:
    shape = {"counts": [10, 30, 5, 0], "stratum": [SHOWDOWN, SHOWDOWN, RIVER_FOLD, RIVER_FOLD], "hands": [0, 1, 1, 2]}
    return (
        _read_scores("model", [6.0, 6.4, 7.0, 0.0], **shape),
        _read_scores("static range", [6.5, 6.9, 7.5, 0.0], **shape),
    )


def _points(reader: str, mrr_by_point: list[float], num_reads: int = 6) -> PointScores:
    metrics = np.zeros((num_reads, 4, len(METRICS)))
    metrics[:, :, MRR] = np.array(mrr_by_point) + np.arange(num_reads)[:, None] / 100
    metrics[:, :, MEAN_RANK] = [351.0, 310.0, 314.0, 305.0]
    return PointScores(reader=reader, metrics=metrics, read_index=np.arange(num_reads), hand_index=np.arange(num_reads) // 2)


def test_a_row_is_a_micro_average_of_its_positions() -> None:
    """Averaging reads instead of positions would give 6.2 and another headline."""
    table = stratified_table(_pair(), generator=np.random.default_rng(0))
    row = table.row("model", "showdown")
    assert row.scores["loss_nats"].mean == pytest.approx((10 * 6.0 + 30 * 6.4) / 40)
    assert row.scores["mrr"].mean == pytest.approx(row.scores["loss_nats"].mean + METRICS.index("mrr"))
    assert (row.num_reads, row.num_hands, row.num_positions) == (2, 2, 40)
    assert row.share_positions == pytest.approx(40 / 45)
    assert table.row("model").scores["loss_nats"].mean == pytest.approx((60 + 192 + 35) / 45)


def test_reads_without_positions_count_nowhere() -> None:
    """A read cut before its window would inflate the sample count beside a metric that it is not in."""
    table = stratified_table(_pair(), generator=np.random.default_rng(0))
    assert table.row("model").num_reads == 3
    assert table.row("model", "river-fold").num_reads == 1


def test_every_group_has_a_row_and_an_empty_one_has_no_number() -> None:
    """A bucket that vanishes, or scores 0.0, reads as a result."""
    table = stratified_table(_pair(), generator=np.random.default_rng(0))
    groups = [row.group for row in table.rows if row.reader == "model"]
    assert groups == [*STRATA, TOTAL]
    empty = table.row("model", "turn-fold")
    assert (empty.num_reads, empty.num_positions, empty.share_positions, empty.scores) == (0, 0, 0.0, {})
    record = next(record for record in table.records() if record["group"] == "turn-fold")
    assert record["loss_nats"] is None
    assert record["mrr_low"] is None


def test_one_hand_has_a_mean_and_no_interval() -> None:
    """An interval of width zero would look like certainty."""
    row = stratified_table(_pair(), generator=np.random.default_rng(0)).row("model", "river-fold")
    assert row.scores["loss_nats"].mean == 7.0
    assert row.scores["loss_nats"].interval is None


def test_intervals_hold_the_mean_and_repeat_with_the_seed() -> None:
    """A report made twice from the same scores must be the same report."""
    first = stratified_table(_pair(), generator=np.random.default_rng(3))
    assert first == stratified_table(_pair(), generator=np.random.default_rng(3))
    estimate = first.row("model").scores["loss_nats"]
    assert estimate.interval is not None
    assert estimate.interval.low < estimate.mean < estimate.interval.high


def test_the_lead_is_positive_where_the_model_is_better_and_paired() -> None:
    """A sign error would publish a loss as a win; unpaired draws would hide a constant lead in the spread of hands."""
    table = stratified_table(_pair(), generator=np.random.default_rng(0))
    lead = table.lead("static range")
    assert lead.loss_nats.mean == pytest.approx(0.5)
    assert lead.loss_nats.interval is not None
    assert (lead.loss_nats.interval.low, lead.loss_nats.interval.high) == (pytest.approx(0.5), pytest.approx(0.5))
    assert lead.mrr.mean == pytest.approx(-0.5)  # in this made-up data the baseline's mrr is higher
    assert [(one.baseline, one.group) for one in table.leads] == [
        ("static range", group) for group in ("river-fold", "showdown", TOTAL)
    ]
    with pytest.raises(KeyError):
        table.lead("static range", "turn-fold")


def test_records_carry_the_lead_beside_the_baseline() -> None:
    """Whoever plots the records must find the lead without knowing how it is paired."""
    table = stratified_table(_pair(), generator=np.random.default_rng(0))
    by_key = {(record["reader"], record["group"]): record for record in table.records()}
    assert by_key["static range", TOTAL]["model_lead_nats"] == pytest.approx(0.5)
    assert by_key["model", TOTAL]["model_lead_nats"] is None
    assert len(by_key) == 2 * (len(STRATA) + 1)
    assert all(set(record) == set(by_key["model", TOTAL]) for record in by_key.values())


def test_sharpening_rows_are_the_same_reads_at_each_point() -> None:
    """The climb is within hands; each row must count them all."""
    table = sharpening_table([_points("model", [0.01, 0.02, 0.02, 0.03])], generator=np.random.default_rng(0))
    assert [row.group for row in table.rows] == list(POINT_NAMES)
    assert len(POINT_NAMES) == len(POINTS)
    assert [row.num_reads for row in table.rows] == [6, 6, 6, 6]
    assert (table.num_reads, table.num_hands) == (6, 3)
    assert [row.scores["mrr"].mean for row in table.rows] == pytest.approx([0.035, 0.045, 0.045, 0.055])
    assert table.row("model", "turn").scores["mean_rank"].mean == pytest.approx(310.0)


def test_the_gain_is_paired_over_points() -> None:
    """Hands differ far more than a read sharpens; unpaired, no gain would ever show."""
    table = sharpening_table(
        [_points("model", [0.01, 0.02, 0.02, 0.03]), _points("static range", [0.02, 0.02, 0.02, 0.02])],
        generator=np.random.default_rng(0),
    )
    model, static = table.gains
    assert model.scores["mrr"].mean == pytest.approx(0.02)
    assert model.scores["mrr"].interval is not None
    assert model.scores["mrr"].interval.low == pytest.approx(0.02)
    assert model.scores["mean_rank"].mean == pytest.approx(-46.0)
    assert static.scores["mrr"].mean == pytest.approx(0.0)
    assert math.isclose(static.scores["loss_nats"].mean, 0.0)
    assert len(table.records()) == 8


def test_scores_of_other_reads_are_refused() -> None:
    """A lead over other hands is no lead."""
    model, baseline = _pair()
    moved = ReadScores(
        reader="other",
        metric_sums=baseline.metric_sums,
        num_positions=baseline.num_positions,
        stratum=baseline.stratum,
        hand_index=baseline.hand_index[::-1],
    )
    with pytest.raises(ValueError, match="same reads"):
        stratified_table([model, moved], generator=np.random.default_rng(0))
    with pytest.raises(ValueError, match="different readers"):
        stratified_table([model, model], generator=np.random.default_rng(0))
    with pytest.raises(ValueError, match="at least one reader"):
        sharpening_table([], generator=np.random.default_rng(0))


def test_metric_columns_are_where_the_tables_expect_them() -> None:
    """The fixtures above index columns; a reordering must fail here and not as a wrong number."""
    assert (METRICS[LOSS], METRICS[MRR], METRICS[MEAN_RANK]) == ("loss_nats", "mrr", "mean_rank")


def test_the_best_baseline_is_the_one_that_leaves_the_smallest_lead() -> None:
    """Quoting the lead over whichever baseline is weakest would flatter the model."""
    model, static = _pair()
    counts = {"counts": [10, 30, 5, 0], "stratum": model.stratum.tolist(), "hands": [0, 1, 1, 2]}
    better = _read_scores("tracker", [5.9, 6.3, 6.9, 0.0], **counts)
    table = stratified_table((model, static, better), generator=np.random.default_rng(0))
    best = table.best_lead("loss_nats")
    assert best is not None
    assert (best.baseline, best.lead) == ("tracker", table.lead("tracker").loss_nats)
    assert best.lead.mean == pytest.approx(-0.1)
    by_mrr = table.best_lead("mrr")  # in this fixture the higher loss is the higher mrr
    assert by_mrr is not None
    assert by_mrr.baseline == "static range"
    assert table.best_lead("loss_nats", "turn-fold") is None


def test_sharpening_leads_compare_the_same_point() -> None:
    """A lead of the model's showdown over a baseline's flop would be won by the board alone."""
    table = sharpening_table(
        (_points("model", [0.1, 0.2, 0.3, 0.4]), _points("a", [0.1, 0.1, 0.1, 0.1]), _points("b", [0.0, 0.3, 0.0, 0.0])),
        generator=np.random.default_rng(0),
    )
    leads = [table.best_lead("mrr", point) for point in POINT_NAMES]
    assert [(best.baseline, round(best.lead.mean, 6)) for best in leads if best] == [
        ("a", 0.0),
        ("b", -0.1),
        ("a", 0.2),
        ("a", 0.3),
    ]
    records = [record for record in table.records() if record["reader"] == "a"]
    assert [round(float(record["model_lead_mrr"] or 0.0), 6) for record in records] == [0.0, 0.1, 0.2, 0.3]
