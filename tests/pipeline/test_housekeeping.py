"""Claims about the removal of old runs from Dagster's records."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from range_reader_pipeline.housekeeping import housekeeping, remove_old_runs, runs_to_keep


@dg.asset
def first() -> None:
    """Materialized once, long ago."""


@dg.asset
def second() -> None:
    """Materialized by every run."""


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """Return an instance on disk, as the UI uses one."""
    with dg.instance_for_test(temp_dir=str(tmp_path)) as made:
        yield made


def run_ids(instance: dg.DagsterInstance) -> list[str]:
    """Return the runs on record, newest first."""
    return [run.run_id for run in instance.get_runs()]


def materialize(instance: dg.DagsterInstance, *assets: dg.AssetsDefinition) -> str:
    return dg.materialize(list(assets), instance=instance).run_id


def test_the_newest_runs_and_what_the_ui_shows_stay(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    """Prevents a disk full of old logs, and an asset that looks as if it had never been made."""
    only = materialize(instance, first)
    later = [materialize(instance, second) for _ in range(5)]
    assert remove_old_runs(instance, keep=2) == 3
    assert run_ids(instance) == [later[4], later[3], only]
    assert instance.get_latest_materialization_event(first.key) is not None
    assert instance.get_latest_materialization_event(second.key) is not None
    assert len(instance.all_logs(later[4])) > 3
    assert not list(tmp_path.rglob(f"*{later[0]}*"))
    assert list(tmp_path.rglob(f"*{later[4]}*"))
    assert remove_old_runs(instance, keep=2) == 0


def test_runs_that_have_not_ended_stay(instance: dg.DagsterInstance) -> None:
    """Prevents a training of a week from losing its record while it runs."""
    running = instance.create_run_for_job(
        dg.define_asset_job("a_job", [second]).resolve(asset_graph=dg.Definitions([second]).resolve_asset_graph())
    )
    for _ in range(3):
        materialize(instance, second)
    remove_old_runs(instance, keep=1)
    assert running.run_id in run_ids(instance)


def test_the_schedule_says_what_it_did(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents records that vanish without anybody knowing why."""
    for _ in range(4):
        materialize(instance, second)
    monkeypatch.setenv("RANGE_READER_KEEP_RUNS", "3")
    with dg.build_schedule_context(instance=instance) as context:
        tick = housekeeping(context)
    assert isinstance(tick, dg.SkipReason)
    assert tick.skip_message == "runs whose records were removed: 1; the newest 3 stay"


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5", "²"])
def test_a_number_that_is_none_is_refused(text: str) -> None:
    """Prevents a typing error from removing everything."""
    with pytest.raises(ValueError, match="expected a number of runs"):
        runs_to_keep({"RANGE_READER_KEEP_RUNS": text})
    assert runs_to_keep({}) == 500
