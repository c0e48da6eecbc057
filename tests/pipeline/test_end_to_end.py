"""Claims about the whole chain: 200 hands through all assets in one process."""

import dagster as dg
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.pipeline.encoded import folder_bytes
from tests.pipeline.trained import NUM_HANDS, Chain

BASELINES = {"uniform over live combos", "static range", "position and line", "position, line and strength"}
ASSETS = ("arena_hands", "ohh_files", "encoded_shards", "checkpoint", "stratified_eval", "sharpening_report", "range_report")


def test_every_asset_is_materialized_from_files_to_both_reports(trained: Chain) -> None:
    """Prevents a link of the chain that works alone and not behind the one before it."""
    assert trained.result.success
    keys = {event.asset_key.to_user_string() for event in trained.result.get_asset_materialization_events()}
    assert keys == set(ASSETS)
    assert trained.metadata("encoded_shards")["hands"] == NUM_HANDS
    assert trained.metadata("stratified_eval")["num_reads"] > 0
    assert trained.metadata("sharpening_report")["num_reads"] > 0
    for check in trained.result.get_asset_check_evaluations():
        assert check.passed or check.severity is dg.AssetCheckSeverity.WARN, check.check_name


def test_reports_lie_where_the_metadata_says_and_hold_the_baselines(trained: Chain) -> None:
    """Prevents a score without the floor beside it."""
    for name in ("stratified_eval", "sharpening_report"):
        metadata = trained.metadata(name)
        text = trained.paths.reports.joinpath(f"{name}.txt").read_text()
        assert str(trained.paths.reports / f"{name}.txt") == metadata["report"]
        assert "uniform over live combos" in text
        assert "static range" in text
        assert text.split("\n\nrun:")[0] in metadata["table"]
        rows = pq.read_table(metadata["rows"])
        assert BASELINES | {"model"} == set(rows["reader"].to_pylist())
        assert "data:image/png;base64," in metadata["picture"]
        assert metadata["best_baseline"] in BASELINES
        assert f"over {metadata['best_baseline']}" in text


def test_the_stratified_report_says_where_it_fails_whether_it_is_calibrated_and_what_it_read_worst(trained: Chain) -> None:
    """Prevents a mean that hides a stratum, and a worst hand that nobody can look at."""
    metadata = trained.metadata("stratified_eval")
    folder = trained.paths.reports
    total = pq.read_table(folder / "stratified_eval.parquet").filter(
        (pc.field("reader") == "model") & (pc.field("group") == "TOTAL")
    )
    failures = pq.read_table(folder / "where_it_fails.parquet").to_pylist()
    for dimension in ("all", "street", "position", "table size", "stack depth", "preflop line", "label", "source"):
        positions = sum(row["num_positions"] for row in failures if row["dimension"] == dimension)
        assert positions == total["num_positions"][0].as_py(), dimension
    (everything,) = (row for row in failures if row["dimension"] == "all")
    assert everything["lead_nats"] == pytest.approx(metadata["nats_ahead_of_best_baseline"], rel=1e-5)  # shown rounded
    bins = pq.read_table(folder / "calibration.parquet").to_pylist()
    assert sum(row["num_forecasts"] for row in bins if (row["forecast"], row["group"]) == ("top64", "TOTAL")) == positions
    assert "data:image/png;base64," in metadata["calibration_picture"]
    worst = pq.read_table(folder / "worst_reads.parquet").to_pylist()
    assert worst == sorted(worst, key=lambda row: -row["loss_nats"])
    assert len({row["hand_id"] for row in worst}) == len(worst) == min(20, metadata["num_hands"])
    assert "a watcher who sees nobody's cards" in metadata["table"]


def test_an_unchanged_report_is_not_graded_again(own_copy: Chain) -> None:
    """Prevents half an hour of grading for a result that lies on disk; a changed setting is graded."""
    for name in ("stratified_eval", "sharpening_report"):
        assert not own_copy.metadata(name)["reused"]
    again = own_copy.again("train_and_evaluate")
    for name in ("stratified_eval", "sharpening_report"):
        before, after = own_copy.metadata(name), again.metadata(name)
        assert after["reused"]
        varying = {"reused", "seconds", "report", "rows"}
        assert {key: str(after[key]) for key in after if key not in varying} == {
            key: str(before[key]) for key in before if key not in varying
        }


def test_nothing_changed_means_nothing_done(own_copy: Chain) -> None:
    """Prevents a second run from encoding or training again, or from writing other bytes."""
    before = folder_bytes(own_copy.paths.data_versions), folder_bytes(own_copy.paths.runs), own_copy.paths.results.read_bytes()
    again = own_copy.again()
    assert again.metadata("ohh_files")["reused"]
    assert again.metadata("encoded_shards")["reused"]
    assert again.metadata("checkpoint")["reused"]
    assert (folder_bytes(own_copy.paths.data_versions), folder_bytes(own_copy.paths.runs)) == before[:2]
    assert own_copy.paths.results.read_bytes() == before[2]


@pytest.mark.slow
def test_two_gradings_of_one_checkpoint_are_equal_to_the_byte(own_copy: Chain) -> None:
    """Prevents a report that says something else each time although nothing was measured anew."""
    before = folder_bytes(own_copy.paths.reports)
    for record in own_copy.paths.reports.glob("*.json"):
        record.unlink()
    again = own_copy.again("train_and_evaluate")
    assert not again.metadata("stratified_eval")["reused"]
    assert folder_bytes(own_copy.paths.reports) == before


def test_metadata_stays_small(trained: Chain) -> None:
    """Prevents an event log that grows by megabytes a run: Dagster stores each blob several times."""
    for event in trained.result.get_asset_materialization_events():
        size = len(dg.serialize_value(event.materialization))
        assert size < 150_000, (event.asset_key, size)
