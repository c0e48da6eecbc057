"""Threads follow the cores that others leave, and stay as they are where nobody knows or somebody has said."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from range_reader_core.train_events import Progress, Started, TrainEvent
from range_reader_pipeline.spare_cores import SpareCores, Usage

CORES = 4


@pytest.fixture(autouse=True)
def _four_cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pretend to have four cores, and put the threads back."""
    before = torch.get_num_threads()
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(CORES)), raising=False)
    yield
    torch.set_num_threads(before)


def threads_after(busy_s: float, own_s: float) -> int:
    """Return the threads after ten seconds in which everybody used so much and this process so much of it."""
    usages = iter([Usage(100.0, 7.0, 50.0), Usage(100.0 + busy_s, 7.0 + own_s, 60.0)])
    torch.set_num_threads(3)
    cores = SpareCores(lambda: next(usages))
    assert torch.get_num_threads() == 3  # one look tells nothing
    cores.look()
    return torch.get_num_threads()


def test_a_thread_for_each_core_that_is_left() -> None:
    """Alone, beside one, beside more than there are cores; a core that is mostly free counts as free."""
    assert threads_after(busy_s=40.0, own_s=40.0) == 4
    assert threads_after(busy_s=40.0, own_s=30.0) == 3
    assert threads_after(busy_s=33.0, own_s=30.0) == 4
    assert threads_after(busy_s=40.0, own_s=25.0) == 2
    assert threads_after(busy_s=40.0, own_s=2.0) == 1


def test_a_clock_of_ticks_may_lag_behind() -> None:
    """The kernel counts others' time in ticks and ours exactly, so that ours can come out as the larger."""
    assert threads_after(busy_s=0.0, own_s=1.0) == 4


@pytest.mark.parametrize(("is_by_clock", "is_compiled", "expected"), [(True, False, 4), (True, True, 3), (False, False, 3)])
def test_a_training_looks_at_its_reports(is_by_clock: bool, is_compiled: bool, expected: int) -> None:
    """Compiled blocks and repeatable trainings keep the threads that they began with; events go on to the reporter."""
    usages = iter([Usage(0.0, 0.0, 0.0), Usage(10.0, 10.0, 10.0)])
    torch.set_num_threads(3)
    told: list[TrainEvent] = []
    report = SpareCores(lambda: next(usages)).looking_at_reports(told.append, is_by_clock=is_by_clock)
    events = [
        Started(
            device="cpu",
            precision="float32",
            is_compiled=is_compiled,
            num_parameters=1,
            num_train_reads=1,
            num_val_reads=1,
            setup_s=0.0,
        ),
        Progress(step=1, elapsed_s=1.0, budget_s=2.0, reads_per_s=1.0, loss_nats=1.0, learning_rate=1.0),
    ]
    for event in events:
        report(event)
    assert told == events
    assert torch.get_num_threads() == expected


def test_who_has_said_how_many_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As OMP_NUM_THREADS does."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    torch.set_num_threads(2)
    SpareCores().look()
    assert torch.get_num_threads() == 2


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="needs Linux's /proc")
def test_the_machine_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real table is read, and a number between one and all comes out."""
    monkeypatch.undo()  # the real cores
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = SpareCores()
    assert sum(number * number for number in range(3_000_000)) > 0  # some tenths of a second of work
    cores.look()
    assert 1 <= torch.get_num_threads() <= len(os.sched_getaffinity(0))
