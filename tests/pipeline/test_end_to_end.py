"""Claims about the whole chain: 200 hands through all five assets in one process."""

import dagster as dg
import pyarrow.parquet as pq

from tests.pipeline.encoded import folder_bytes
from tests.pipeline.trained import NUM_HANDS, Chain

ASSETS = ("ohh_files", "encoded_shards", "checkpoint", "stratified_eval", "sharpening_report")


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


def test_reports_lie_where_the_metadata_says_and_hold_the_readers_that_ignore_the_betting(trained: Chain) -> None:
    """Prevents a score without the floor beside it."""
    for name in ("stratified_eval", "sharpening_report"):
        metadata = trained.metadata(name)
        text = trained.paths.reports.joinpath(f"{name}.txt").read_text()
        assert str(trained.paths.reports / f"{name}.txt") == metadata["report"]
        assert "uniform over live combos" in text
        assert "static range" in text
        assert text.split("\n\nrun:")[0] in metadata["table"]
        rows = pq.read_table(metadata["rows"])
        assert {"model", "uniform over live combos", "static range"} == set(rows["reader"].to_pylist())
        assert "data:image/png;base64," in metadata["picture"]


def test_nothing_changed_means_nothing_done(own_copy: Chain) -> None:
    """Prevents a second run from encoding or training again, or from writing other bytes."""
    before = folder_bytes(own_copy.paths.data_versions), folder_bytes(own_copy.paths.runs), own_copy.paths.results.read_bytes()
    again = own_copy.again()
    assert again.metadata("ohh_files")["reused"]
    assert again.metadata("encoded_shards")["reused"]
    assert again.metadata("checkpoint")["reused"]
    assert (folder_bytes(own_copy.paths.data_versions), folder_bytes(own_copy.paths.runs)) == before[:2]
    assert own_copy.paths.results.read_bytes() == before[2]


def test_two_gradings_of_one_checkpoint_are_equal_to_the_byte(own_copy: Chain) -> None:
    """Prevents a report that says something else each time although nothing was measured anew."""
    before = folder_bytes(own_copy.paths.reports)
    own_copy.again("train_and_evaluate")
    assert folder_bytes(own_copy.paths.reports) == before


def test_metadata_stays_small(trained: Chain) -> None:
    """Prevents an event log that grows by megabytes a run: Dagster stores each blob several times."""
    for event in trained.result.get_asset_materialization_events():
        size = len(dg.serialize_value(event.materialization))
        assert size < 150_000, (event.asset_key, size)
