"""Keeping Dagster's own records bounded: old runs go, what the UI shows as the latest of anything stays.

Dagster's retention settings purge ticks but neither runs nor their events (seen with 1.13.28), and every arrival adds a run.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import dagster as dg

KEEP_VARIABLE: Final = "RANGE_READER_KEEP_RUNS"
KEEP_RUNS: Final = 500
MAX_REMOVED: Final = 200  # in one tick, which has a deadline
_ENDED: Final = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


def runs_to_keep(environment: Mapping[str, str]) -> int:
    """Return how many of the newest runs are kept.

    Raises:
        ValueError: the environment does not say a number above 0.
    """
    text = environment.get(KEEP_VARIABLE) or str(KEEP_RUNS)
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        msg = f"{KEEP_VARIABLE}: expected a number of runs such as {KEEP_RUNS}, got {text!r}"
        raise ValueError(msg)
    return int(text)


def remove_old_runs(instance: dg.DagsterInstance, *, keep: int) -> int:
    """Remove ended runs beyond the newest ``keep`` with their events and logs, oldest first, and return how many.

    Runs that hold the latest materialization of an asset stay, since the UI shows it and the sensor asks for it.
    """
    num_excess = instance.get_runs_count() - keep
    if num_excess <= 0:
        return 0
    oldest = instance.get_run_records(dg.RunsFilter(statuses=_ENDED), limit=min(num_excess, MAX_REMOVED), ascending=True)
    latest = [instance.get_latest_materialization_event(key) for key in instance.get_asset_keys()]
    in_use = {event.run_id for event in latest if event is not None}
    removed = [record.dagster_run.run_id for record in oldest if record.dagster_run.run_id not in in_use]
    for run_id in removed:
        instance.delete_run(run_id)
        instance.compute_log_manager.delete_logs(prefix=[run_id])
        _remove_events_file(instance, run_id)
    return len(removed)


def _remove_events_file(instance: dg.DagsterInstance, run_id: str) -> None:
    """Remove the file that SQLite storage keeps for each run, which would go on taking the space of the deleted events."""
    from dagster._core.storage.event_log import SqliteEventLogStorage  # half a second of SQLAlchemy

    storage = instance.event_log_storage
    if isinstance(storage, SqliteEventLogStorage):
        path = Path(storage.path_for_shard(run_id))
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)


@dg.schedule(
    name="housekeeping",
    job_name="refresh_dataset",  # Dagster wants one; none is ever launched
    cron_schedule="30 4 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description=(
        f"Every morning, removes Dagster's records of the oldest runs beyond the newest {KEEP_RUNS} ({KEEP_VARIABLE}). "
        "Checkpoints, reports and results.tsv are not touched, and the latest materialization of each asset stays. It launches "
        "nothing."
    ),
)
def housekeeping(context: dg.ScheduleEvaluationContext) -> dg.SkipReason:
    """Remove old runs."""
    keep = runs_to_keep(os.environ)
    num_removed = remove_old_runs(context.instance, keep=keep)
    return dg.SkipReason(f"runs whose records were removed: {num_removed}; the newest {keep} stay")
