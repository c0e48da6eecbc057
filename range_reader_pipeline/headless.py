"""All assets in this process, recorded in the same Dagster instance that ``dagster dev`` shows.

The instance is the one whose dagster.yaml lies in ``$DAGSTER_HOME``, the working directory or the clone. The run claims no pool
slot: a killed process could not give it back and would block every training until a daemon frees it. The training lock, which dies
with its holder, keeps trainings apart instead. For the same reason a run that a kill left "started" is ended by the next one.
"""

import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import dagster as dg
from filelock import FileLock, Timeout

from range_reader_pipeline.definitions import build_definitions
from range_reader_pipeline.liveness import PATIENCE_S, dead_run_ids, forget
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.terminal import terminal_logger

if TYPE_CHECKING:
    from rich.console import Console

HEADLESS_TAG: Final = "range_reader/headless"
_LOCKS: Final = ".dagster_home/headless"
_OVERRIDES: Final[Mapping[str, Any]] = {
    "concurrency": {"pools": {"granularity": "run"}},  # of a run in this process: no slots, see above
    "compute_logs": {  # the terminal is the log; capturing it would start a helper process that outlives Ctrl-C
        "module": "dagster._core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    },
}


def run_everything(paths: HomePaths, run_config: Mapping[str, Any], console: "Console", *, job: str = "everything") -> str:
    """Materialize all assets and return the id of the Dagster run.

    Args:
        paths: the home, and the folder of hand histories.
        run_config: of the job.
        console: where progress goes.
        job: which job to run.

    Raises:
        Whatever an asset raised; the run is recorded as failed.
    """
    definitions = build_definitions(
        resources={"home": HomeResource(home=str(paths.root), ohh=paths.ohh_source)},
        loggers={"terminal": terminal_logger(console)},
        sensors=[],
        schedules=[],
    )
    with _records_explained(), _instance() as instance:
        end_dead_runs(instance)
        sweep_locks(instance, paths)
        run_id = str(uuid.uuid4())
        with _alive(run_id):
            definitions.resolve_job_def(job).execute_in_process(
                run_config={**run_config, "loggers": {"terminal": {}}},
                instance=instance,
                run_id=run_id,
                # The daemon must not re-execute what somebody stopped on the terminal.
                tags={HEADLESS_TAG: "true", "dagster/max_retries": "0"},
            )
        return run_id


def end_dead_runs(instance: dg.DagsterInstance) -> None:
    """Mark the headless runs as failed whose process is gone: nobody else would notice before ``max_runtime_seconds``."""
    started = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING], tags={HEADLESS_TAG: "true"})
    for run in instance.get_runs(filters=started):
        try:
            with _lock(run.run_id).acquire(blocking=False):
                instance.report_run_failed(run, "the process of this run is gone without having ended it: killed, or a power cut")
                _lock_path(run.run_id).unlink(missing_ok=True)
        except Timeout:
            continue  # alive


def sweep_locks(instance: dg.DagsterInstance, paths: HomePaths) -> None:
    """Remove the lock files that killed processes have left, this instance's and the home's.

    Those of a run that has not ended on record stay: by them the sensor ``dead_runs`` learns of its death.
    """
    before_s = time.time() - PATIENCE_S
    for path in Path(_LOCKS).absolute().glob("*.lock"):
        try:
            with FileLock(path).acquire(blocking=False):
                if path.stat().st_mtime < before_s:
                    path.unlink(missing_ok=True)
        except (Timeout, FileNotFoundError):
            continue  # alive, or swept by another run
    for run_id in dead_run_ids(paths):
        run = instance.get_run_by_id(run_id)
        if run is not None and run.is_finished:
            forget(paths, run_id)


@contextmanager
def _instance() -> Iterator[dg.DagsterInstance]:
    from dagster._core.instance.ref import InstanceRef

    candidates = [Path.cwd(), Path(__file__).resolve().parent.parent]
    home = os.environ.get("DAGSTER_HOME")
    folder = Path(home) if home else next((path for path in candidates if (path / "dagster.yaml").exists()), candidates[0])
    with chdir(folder), dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(folder), overrides=_OVERRIDES)) as instance:
        yield instance


@contextmanager
def _records_explained() -> Iterator[None]:
    """Turn what the database says of a full disk into what a person can do.

    Raises:
        dagster.Failure: Dagster's records cannot be written.
    """
    from sqlalchemy.exc import OperationalError

    try:
        yield
    except OperationalError as error:
        message = (
            f"Dagster's records cannot be written ({error.orig}). They lie in .dagster_home beside dagster.yaml: free space there, "
            "or point DAGSTER_HOME at a folder with a copy of dagster.yaml on another disk, and run again"
        )
        raise dg.Failure(message, allow_retries=False) from error


@contextmanager
def _alive(run_id: str) -> Iterator[None]:
    """Hold the lock that shows that the process of a run is alive."""
    lock = _lock(run_id)
    Path(lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
    try:
        with lock:
            yield
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)


def _lock(run_id: str) -> FileLock:
    return FileLock(_lock_path(run_id))


def _lock_path(run_id: str) -> Path:
    return Path(_LOCKS).absolute() / f"{run_id}.lock"
