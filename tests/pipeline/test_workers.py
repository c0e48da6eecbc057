"""Worker processes: results in order, errors in one piece, and nobody left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from range_reader_pipeline import workers as starting
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


def refuse_or_square(task: tuple[int, float]) -> int:
    """Fail at one task and work on the others."""
    return refuse(1) if task[0] == 1 else slow_square(task)


def refuse(number: int) -> int:
    """Fail as a task with bad data would."""
    msg = f"bad {number}"
    raise ValueError(msg)


def reverse(data: bytes) -> bytes:
    """Return as much as was given."""
    return data[::-1]


def after_ctrl_c(_: int) -> str:
    """Go on after what a terminal sends to all processes."""
    os.kill(os.getpid(), signal.SIGINT)
    return "still here"


def place_told(_: int) -> str | None:
    """Return what the environment says."""
    return os.environ.get("RANGE_READER_TEST_PLACE")


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


def test_the_caller_works_on_the_last_tasks_while_workers_start_and_then_no_more() -> None:
    """Starting takes a fifth of a second of a core; later on, whoever works may die for want of memory."""
    with workers(2) as pool:
        first, second = pool.map(process_id, range(40)), pool.map(process_id, range(40))
    assert first[2:] == [os.getpid()] * 38
    assert os.getpid() not in {*first[:2], *second}


def test_workers_that_are_started_one_by_one_do_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where forking is not safe, as on a Mac, each is a process of its own."""
    monkeypatch.setattr(starting, "START_METHOD", "spawn")
    with workers(3) as pool:
        assert pool.map(slow_square, [(number, 0.3) for number in range(3)]) == [0, 1, 4]
        ids = pool.map(process_id, range(60))
    assert os.getpid() not in ids
    assert not any(is_running(pid) for pid in ids)


def test_tasks_and_results_may_be_large() -> None:
    """Both sides writing more than a socket holds, and neither reading, would be the end."""
    tasks = [bytes([number]) * 3_000_000 + b"end" for number in range(6)]
    with workers(2) as pool:
        assert pool.map(reverse, tasks) == [task[::-1] for task in tasks]


def test_an_error_ends_the_work_with_that_error() -> None:
    """The message of a failed file must reach the person who started the run, and where it happened whoever repairs it."""
    with pytest.raises(ValueError, match="bad 5") as caught, workers(2) as pool:
        pool.map(refuse, [5, 6])
    assert "in refuse" in str(caught.value.__cause__)


def test_an_error_of_the_callers_own_tasks_ends_the_work_too() -> None:
    """It works on the last ones while workers start; what it gave them is not done behind its back later."""
    with workers(2) as pool:
        with pytest.raises(ValueError, match="bad 1"):
            pool.map(refuse_or_square, [(2, 0.0), (3, 0.0), (4, 0.0), (1, 0.0)])
        assert pool.map(slow_square, [(4, 0.0), (5, 0.0), (6, 0.0)]) == [16, 25, 36]


def test_after_an_error_the_workers_can_be_used_again() -> None:
    """A damaged entry is encoded again by the same workers; what still comes from before must not pass for its result."""
    with workers(2) as pool:
        with pytest.raises(ValueError, match="bad 1"):
            pool.map(refuse_or_square, [(1, 0.0), (2, 0.5), (3, 0.0)])
        assert pool.map(slow_square, [(4, 0.0), (5, 0.0), (6, 0.0), (7, 0.0)]) == [16, 25, 36, 49]


def test_nobody_is_left_afterwards() -> None:
    """Not even in the middle of a task; a training that follows needs the memory."""
    ids: set[int] = set()

    def work() -> None:
        with workers(2) as pool:
            ids.update(pool.map(process_id, range(2)))
            pool.map(slow_square, [(1, 0.0), (2, 60.0)], interrupt)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert ids
    assert not any(is_running(pid) for pid in ids)


def interrupt(*_: int) -> None:
    """Do as Ctrl-C does."""
    raise KeyboardInterrupt


def test_ctrl_c_in_a_terminal_is_the_parents_business() -> None:
    """Two tracebacks of workers would bury the one line that counts."""
    with workers(2) as pool:
        assert pool.map(after_ctrl_c, [1, 2]) == ["still here"] * 2


def test_workers_see_the_environment_as_it_is_when_they_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server kept from earlier would have that of then. The one thing set for them is not left behind in this process."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    for place in ("here", "there"):
        monkeypatch.setenv("RANGE_READER_TEST_PLACE", place)
        with workers(2) as pool:
            assert set(pool.map(place_told, [1, 2])) == {place}
    assert os.environ["OPENBLAS_NUM_THREADS"] == "7"


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
        "    print(*pool.map(process_id, range(2)), flush=True)\n"
        "    pool.map(slow_square, [(1, 60.0), (2, 60.0)])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    ) as parent:
        assert parent.stdout is not None
        children = {int(pid) for pid in parent.stdout.readline().split()}
        assert len(children - {parent.pid}) == len(children) > 0
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
