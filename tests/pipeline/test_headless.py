"""Claims about headless runs: what the terminal says, and what the Dagster instance remembers."""

import io
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test
from rich.console import Console

from range_reader_pipeline import headless
from range_reader_pipeline.headless import HEADLESS_TAG, end_dead_runs, run_everything
from range_reader_pipeline.run_store import RunStore
from range_reader_pipeline.terminal import ASSET_ORDER
from tests.core.hands import random_hands
from tests.pipeline.encoded import home_with

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def instance_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that holds a Dagster instance of its own, and make it the current one."""
    folder = tmp_path / "dagster"
    folder.mkdir()
    (folder / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    return folder


@pytest.fixture
def instance(instance_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    """Return the instance as the UI would open it."""
    monkeypatch.chdir(instance_folder)
    with dg.DagsterInstance.from_config(str(instance_folder)) as opened:
        yield opened


def _config(when: str = "auto", **training: object) -> dict[str, object]:
    return {
        "ops": {
            "arena_hands": {"config": {"when": when}},
            "checkpoint": {"config": {"preset": "tiny", "device": "cpu", **training}},
        }
    }


@pytest.mark.slow
def test_a_run_is_recorded_where_the_ui_looks_and_told_asset_by_asset(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    """Prevents headless runs that the UI knows nothing of, and a terminal full of Dagster's own messages."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 120)})
    text = io.StringIO()
    run_id = run_everything(paths, _config(max_steps=2, num_evaluations=1), Console(file=text, width=200))
    run = instance.get_run_by_id(run_id)
    assert run is not None
    assert run.status is dg.DagsterRunStatus.SUCCESS
    assert run.tags["dagster/max_retries"] == "0"
    assert instance.get_latest_materialization_event(dg.AssetKey("sharpening_report")) is not None
    lines = text.getvalue().splitlines()
    for number, name in enumerate(ASSET_ORDER, start=1):
        assert f"{number}/{len(ASSET_ORDER)} {name}" in lines
    assert any("val mrr" in line for line in lines)
    assert len(lines) < 60
    assert not any("STEP_" in line or run_id in line for line in lines)


def test_a_failed_run_raises_what_happened_and_is_recorded_as_failed(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    """Prevents a failure that only the terminal has seen."""
    paths = home_with(tmp_path, {})
    with pytest.raises(dg.Failure, match="no hand histories found"):
        run_everything(paths, _config(when="never"), Console(file=io.StringIO()))
    (run,) = instance.get_runs()
    assert run.status is dg.DagsterRunStatus.FAILURE


def test_runs_of_dead_processes_are_ended_and_live_ones_left(instance: dg.DagsterInstance) -> None:
    """Prevents a run that a kill left "started" from standing in the UI for two days."""
    tags = {HEADLESS_TAG: "true"}
    dead, alive, other = (
        create_run_for_test(instance, run_id=str(uuid.uuid4()), status=dg.DagsterRunStatus.STARTED, tags=run_tags)
        for run_tags in (tags, tags, {})
    )
    with headless._alive(alive.run_id):
        end_dead_runs(instance)
        seen = [instance.get_run_by_id(run.run_id) for run in (dead, alive, other)]
    assert [run.status for run in seen if run] == [
        dg.DagsterRunStatus.FAILURE,
        dg.DagsterRunStatus.STARTED,
        dg.DagsterRunStatus.STARTED,
    ]


def _start(home: Path, folder: Path) -> "subprocess.Popen[str]":
    command = [
        sys.executable,
        "-m",
        "range_reader_pipeline.cli",
        "run",
        "--home",
        str(home),
        "--preset",
        "tiny",
        "--minutes",
        "0.4",
    ]
    environment = {**os.environ, "DAGSTER_HOME": str(folder), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*command, "--device", "cpu"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def _wait_for_line(process: "subprocess.Popen[str]", text: str) -> None:
    assert process.stdout is not None
    deadline_s = time.monotonic() + 120
    for line in process.stdout:
        if text in line:
            return
        assert time.monotonic() < deadline_s
    pytest.fail(f"the process ended without saying {text!r}")


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_a_training_that_is_stopped_or_killed_goes_on_and_finishes(tmp_path: Path, instance_folder: Path, sent: int) -> None:
    """Prevents Ctrl-C, a kill or a power cut from costing more than a minute of training, or from blocking the next run."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 120)})
    with _start(paths.root, instance_folder) as first:
        _wait_for_line(first, "val mrr")
        first.send_signal(sent)
        output = first.communicate(timeout=60)[0]
    if sent == signal.SIGINT:
        assert first.returncode == 130
        assert "go on from" in output
    assert RunStore(paths).kept() is None
    with _start(paths.root, instance_folder) as second:
        output = second.communicate(timeout=240)[0]
    assert second.returncode == 0, output
    assert "resumed at step" in output
    kept = RunStore(paths).kept()
    assert kept is not None
    assert kept.seconds < 40  # the budget of 24 s, what was spent before included, and room for a busy machine


@pytest.mark.slow
def test_a_full_disk_under_dagsters_records_is_one_line(tmp_path: Path, instance_folder: Path) -> None:
    """Prevents two hundred lines of SQLAlchemy for somebody whose disk is full."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 150)})
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000)); "
        "from range_reader_pipeline.cli import main; main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, "run", "--home", str(paths.root), "--preset", "tiny", "--minutes", "0.01"]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env={**os.environ, "DAGSTER_HOME": str(instance_folder)}
    )
    assert done.returncode == 1
    assert "Dagster's records cannot be written" in done.stderr
    assert "DAGSTER_HOME" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
