"""How many cores other programs leave to this process: as many threads as PyTorch should use.

An OpenMP thread whose core somebody else has makes all the others wait for it, many times a step. Beside one busy process on two
cores, two threads trained the ``cpu`` preset at 230 reads/s and one at 930; with nothing beside it two came to 1,200 and one to 950
(2026-11). So threads are as many as there are cores to spare, looked at again and again.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from range_reader_core.train_events import TrainEvent

_STAT: Final = Path("/proc/stat")
_NOT_BUSY: Final = (3, 4)  # columns of the kernel's table: idle, and idle while a disk is waited for
_COUNTED: Final = 8  # columns that add up to all time; those of guests lie in others already
_NEEDED: Final = 0.7  # of a core must be left for a thread of its own to pay


class Usage(NamedTuple):
    """Seconds of processor time since the machine and this process began."""

    busy_s: float  # of everybody on the cores that this process may use
    own_s: float  # of this process
    at_s: float  # the clock


class SpareCores:
    """Sets PyTorch's threads to the cores that others left since the last look."""

    def __init__(self, usage: Callable[[], Usage | None] | None = None) -> None:
        """Take the first look, which sets nothing.

        Args:
            usage: tells what was used so far, None where nobody knows. By default Linux's table of the cores, and nothing where
                OMP_NUM_THREADS says how many threads there shall be.
        """
        self._usage = usage or (lambda: None if os.environ.get("OMP_NUM_THREADS") else _usage_on_linux())
        self._last = self._usage()

    def look(self) -> None:
        """Set the threads by what happened since the last look; does nothing where that is not known."""
        import torch

        now = self._usage()
        if now is None or self._last is None or now.at_s - self._last.at_s <= 0.0:
            return
        others = (now.busy_s - self._last.busy_s - (now.own_s - self._last.own_s)) / (now.at_s - self._last.at_s)
        self._last = now
        wanted = min(max(int(num_cores() - max(others, 0.0) + 1.0 - _NEEDED), 1), num_cores())
        if wanted != torch.get_num_threads():
            torch.set_num_threads(wanted)

    def looking_at_reports(self, reporter: "Callable[[TrainEvent], None]", *, is_by_clock: bool) -> "Callable[[TrainEvent], None]":
        """Return a training's reporter that also looks at every report of progress.

        Not where blocks are compiled, since they would be compiled anew for each number of threads.

        Args:
            reporter: told of every event.
            is_by_clock: the clock ends the training; one that steps end is the same at every repetition and is left alone.
        """
        from range_reader_core.train_events import Progress, Started

        is_free = is_by_clock

        def report(event: "TrainEvent") -> None:
            nonlocal is_free
            reporter(event)
            if isinstance(event, Started):
                is_free = is_by_clock and not event.is_compiled
            elif isinstance(event, Progress) and is_free:
                self.look()

        return report


def num_cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _usage_on_linux() -> Usage | None:
    """Return what was used so far; None where the kernel keeps no such table."""
    try:
        lines = _STAT.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    ticks = 0
    for name, *columns in (line.split() for line in lines):
        if name in mine:
            ticks += sum(int(column) for place, column in enumerate(columns[:_COUNTED]) if place not in _NOT_BUSY)
    return Usage(busy_s=ticks / os.sysconf("SC_CLK_TCK"), own_s=time.process_time(), at_s=time.monotonic())
