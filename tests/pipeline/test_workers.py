"""Worker processes: results in order, errors in one piece, and nobody left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from range_reader_pipeline.workers import WorkerDiedError, workers


def slow_square(task: tuple[int, float]) -> int:
    """Square a number after a while."""
    number, seconds = task
    time.sleep(seconds)
    return number * number


def process_id(_: int) -> int:
    """Return who does the work."""
    return os.getpid()


def die(number: int) -> int:
    """Die as the out-of-memory killer would have it, at one task."""
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def refuse(number: int) -> int:
    """Fail as a task with bad data would."""
    msg = f"bad {number}"
    raise ValueError(msg)


def main_module(_: int) -> bool:
    """Return whether the parent's main module was imported."""
    return hasattr(sys.modules["__main__"], "parents_own_name")


def test_results_come_in_the_order_of_tasks() -> None:
    """Whatever depends on which worker was faster cannot be repeated."""
    done: list[tuple[int, int]] = []
    with workers(2) as pool:
        results = pool.map(slow_square, [(1, 0.2), (2, 0.0), (3, 0.0)], lambda count, result: done.append((count, result)))
    assert results == [1, 4, 9]
    assert done == [(1, 1), (2, 4), (3, 9)]


def test_one_worker_or_one_task_stays_in_this_process() -> None:
    """Starting a process takes longer than a small file."""
    with workers(1) as pool:
        assert pool.map(process_id, [1, 2]) == [os.getpid()] * 2
    with workers(2) as pool:
        assert pool.map(process_id, [1]) == [os.getpid()]
        assert os.getpid() not in pool.map(process_id, [1, 2])


def test_an_error_ends_the_work_with_that_error() -> None:
    """The message of a failed file must reach the person who started the run."""
    with pytest.raises(ValueError, match="bad 5"), workers(2) as pool:
        pool.map(refuse, [5, 6])


def test_a_killed_worker_is_an_error_that_says_so() -> None:
    """Waiting for it would take for ever."""
    with pytest.raises(WorkerDiedError, match="use fewer workers"), workers(2) as pool:
        pool.map(die, [0, 1, 2])


def test_the_parents_main_module_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a Dagster run that is the whole of Dagster, in a script without a guard the script itself, again and again."""
    monkeypatch.setattr(sys.modules["__main__"], "parents_own_name", 1, raising=False)
    with workers(2) as pool:
        assert pool.map(main_module, [1, 2]) == [False, False]
    assert sys.modules["__main__"].parents_own_name == 1  # type: ignore[attr-defined]  # set above


def test_workers_die_with_a_killed_parent() -> None:
    """They hold both ends of their queue and would wait for a dead parent for as long as the machine runs."""
    code = (
        "from tests.pipeline.test_workers import process_id, slow_square\n"
        "from range_reader_pipeline.workers import workers\n"
        "with workers(2) as pool:\n"
        "    print(*pool.map(process_id, range(8)), flush=True)\n"
        "    pool.map(slow_square, [(1, 60.0), (2, 60.0)])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    ) as parent:
        assert parent.stdout is not None
        children = {int(pid) for pid in parent.stdout.readline().split()}
        assert children
        parent.kill()
    deadline = time.monotonic() + 20
    while any(is_running(pid) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_running(pid) for pid in children)


def is_running(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_no_worker_at_all_is_refused() -> None:
    """Zero processes would wait for ever."""
    with pytest.raises(ValueError, match="at least one"), workers(0):
        pass
