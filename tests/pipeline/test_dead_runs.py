"""Claims about runs whose process is gone."""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from range_reader_pipeline import headless, liveness
from range_reader_pipeline.dead_runs import dead_runs
from range_reader_pipeline.headless import sweep_locks
from range_reader_pipeline.liveness import is_dead, shown_alive
from range_reader_pipeline.paths import HomePaths, home_paths
from range_reader_pipeline.resources import HomeResource

HOLD = """
import sys, time
from range_reader_pipeline.liveness import shown_alive
from range_reader_pipeline.paths import home_paths
with shown_alive(home_paths(home=sys.argv[1]), sys.argv[2]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def paths(tmp_path: Path) -> HomePaths:
    return home_paths(home=str(tmp_path / "home"), environment={})


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """Return an instance on disk, whose runs are local processes."""
    with dg.instance_for_test(temp_dir=str(tmp_path)) as made:
        yield made


def killed_holder(paths: HomePaths, run_id: str) -> None:
    """Let a process hold the lock of a run, see that it counts as alive, and kill it."""
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(paths.root), run_id], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    assert not is_dead(paths, run_id, now_s=time.time() + 3600)
    holder.kill()
    holder.wait()
    holder.stdout.close()


def tick(instance: dg.DagsterInstance, paths: HomePaths) -> str:
    with dg.build_sensor_context(instance=instance, resources={"home": HomeResource(home=str(paths.root))}) as context:
        result = dead_runs(context)
    assert isinstance(result, dg.SkipReason)
    return result.skip_message or ""


def test_a_killed_process_counts_as_dead_after_a_while(paths: HomePaths) -> None:
    """Prevents a run from being given up between two of its steps, and a dead one from being waited for."""
    killed_holder(paths, "r")
    assert not is_dead(paths, "r")
    assert is_dead(paths, "r", now_s=time.time() + liveness.PATIENCE_S + 1)


def test_what_ended_in_peace_or_never_began_is_not_dead(paths: HomePaths) -> None:
    """Prevents runs in containers, or of before, from being ended by mistake."""
    with shown_alive(paths, "r"):
        pass
    for run_id in ("r", "never"):
        assert not is_dead(paths, run_id, now_s=time.time() + 3600)


def test_a_home_that_cannot_be_written_costs_no_run(tmp_path: Path) -> None:
    """Prevents a full disk from failing a run before the asset can say what is wrong."""
    (tmp_path / "file").write_text("")
    done = False
    with shown_alive(home_paths(home=str(tmp_path / "file"), environment={}), "r"):
        done = True
    assert done


@pytest.mark.parametrize(
    ("status", "becomes"),
    [
        (dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.FAILURE),
        (dg.DagsterRunStatus.CANCELING, dg.DagsterRunStatus.CANCELED),
    ],
)
def test_a_power_cut_does_not_leave_a_run_started_for_ever(
    paths: HomePaths,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    status: dg.DagsterRunStatus,
    becomes: dg.DagsterRunStatus,
) -> None:
    """Its pool slot would stay taken and every training after it would wait."""
    dead = create_run_for_test(instance, status=status)
    alive = create_run_for_test(instance, status=status)
    killed_holder(paths, dead.run_id)
    monkeypatch.setattr(liveness, "PATIENCE_S", 0.0)
    with shown_alive(paths, alive.run_id):
        assert tick(instance, paths) == "running: 2, of them dead: 1"
        assert tick(instance, paths) == "running: 1, of them dead: 0"
    seen = {run.run_id: run.status for run in instance.get_runs()}
    assert seen == {dead.run_id: becomes, alive.run_id: status}


def test_a_run_shows_that_it_is_alive_from_its_first_step_to_its_last(paths: HomePaths, instance: dg.DagsterInstance) -> None:
    """Prevents a sensor that has nothing to look at."""
    seen: list[list[str]] = []

    @dg.asset
    def looks(home: HomeResource) -> None:
        seen.append([path.name for path in (home.paths().root / "cache" / "alive").iterdir()])

    result = dg.materialize([looks], instance=instance, resources={"home": HomeResource(home=str(paths.root))})
    assert seen == [[f"{result.run_id}.lock"]]
    assert not list((paths.root / "cache" / "alive").iterdir())


def test_lock_files_of_killed_processes_are_swept(
    paths: HomePaths, instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prevents a file for each kill, for ever; the sensor needs those of runs whose death nobody has noted."""
    monkeypatch.chdir(tmp_path)
    ended, unnoticed, alive = (
        create_run_for_test(instance, run_id=str(uuid.uuid4()), status=status).run_id
        for status in (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTED)
    )
    alive_folder, headless_folder = paths.root / "cache" / "alive", tmp_path / ".dagster_home" / "headless"
    for folder in (alive_folder, headless_folder):
        folder.mkdir(parents=True)
        for run_id in (ended, unnoticed):
            (folder / f"{run_id}.lock").touch()
    with shown_alive(paths, alive), headless._alive(alive):
        sweep_locks(instance, paths)
        assert len(list(headless_folder.iterdir())) == 3  # it may be between making its file and holding it
        hour_ago_s = time.time() - 3600
        for path in (*alive_folder.iterdir(), *headless_folder.iterdir()):
            os.utime(path, (hour_ago_s, hour_ago_s))
        sweep_locks(instance, paths)
        assert {path.stem for path in alive_folder.iterdir()} == {unnoticed, alive}
        assert {path.stem for path in headless_folder.iterdir()} == {alive}
