"""Claims about what is told before a run begins, and about ports."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from range_reader_pipeline.config import TrainingConfig
from range_reader_pipeline.paths import home_paths
from range_reader_pipeline.ports import bound_socket
from range_reader_pipeline.preflight import check_folders, check_knobs


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("FAILED_FILES", "junk", "expected failed_files .* got 'junk'"),
        ("INIT_FROM", "junk", "expected init_from .* got 'junk'"),
        ("INIT_FROM", "kept", "INIT_FROM=kept .*nothing is kept in .*kept_or_scratch"),
        ("RETRAIN", "junk", "RETRAIN.*got 'junk'"),
        ("PRESET", "junk", "junk"),
        ("TRAIN_MINUTES", "-1", "TRAIN_MINUTES"),
    ],
)
def test_a_wrong_knob_is_told_before_anything_is_made(tmp_path: Path, variable: str, value: str, told: str) -> None:
    """Prevents an hour of encoding before a typing error is told."""
    paths = home_paths(home=str(tmp_path / "home"), environment={})
    with pytest.raises(ValueError, match=told):
        check_knobs(paths, TrainingConfig(), has_gpu=False, environment={f"RANGE_READER_{variable}": value})
    assert not paths.root.exists()


@pytest.mark.parametrize("init_from", ["", "scratch", "kept_or_scratch"])
def test_knobs_that_can_be_used_pass(tmp_path: Path, init_from: str) -> None:
    """Prevents a first run from being refused for what it does not need."""
    paths = home_paths(home=str(tmp_path / "home"), environment={})
    environment = {"RANGE_READER_INIT_FROM": init_from, "RANGE_READER_RETRAIN": "20%", "RANGE_READER_FAILED_FILES": "warn"}
    check_knobs(paths, TrainingConfig(), has_gpu=False, environment=environment)
    check_folders(paths)
    assert not paths.root.exists()


def test_folders_that_are_files_or_nowhere_are_told(tmp_path: Path) -> None:
    """Prevents a home made for a run that cannot start, and "no folder" of what is there and is a file."""
    (tmp_path / "file").write_text("")
    for home, ohh, told in (
        ("file", None, "file is no folder; point HOME_DIR="),
        ("file/sub/deep", None, "file is no folder; point HOME_DIR="),
        ("home", "file", "file is a file; OHH=<folder>"),
        ("home", "nowhere", "there is no folder .*nowhere: point OHH=<folder>"),
    ):
        paths = home_paths(home=str(tmp_path / home), ohh=str(tmp_path / ohh) if ohh else None, environment={})
        with pytest.raises(ValueError, match=told):
            check_folders(paths)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_taken_port_is_told_with_the_knob_that_takes_another() -> None:
    """Prevents "answering on" of a port that somebody else has, and Dagster's traceback."""
    with bound_socket("127.0.0.1", 0, knob="--port N") as other:
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ValueError, match=f"port {port} is taken; --port N takes another"):
            bound_socket("127.0.0.1", port, knob="--port N")
        for text, told in ((str(port), f"port {port} is taken; PORT=<n> takes another"), ("abc", "PORT: expected a number")):
            command = [sys.executable, "-m", "range_reader_pipeline.ports", text]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            assert (done.returncode, done.stderr.count("\n")) == (1, 1)
            assert told in done.stderr
    with pytest.raises(ValueError, match="expected an address of this machine"):
        bound_socket("192.0.2.1", port, knob="--port N")
    with bound_socket("127.0.0.1", port, knob="--port N") as free:
        assert free.family is socket.AF_INET
