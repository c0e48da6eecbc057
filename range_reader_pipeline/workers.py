"""Work spread over processes: started afresh (spawn), bounded, and gone when the parent is gone.

Results come back in the order of the tasks, whichever worker was faster, so nothing downstream depends on timing. With one
worker everything happens in the calling process. Tasks are module-level functions of picklable arguments.
"""

import multiprocessing
import os
import signal
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.popen_spawn_posix import Popen
from multiprocessing.process import BaseProcess
from typing import ClassVar, TypeVar

from range_reader_pipeline.allocation import freed_memory_kept, keep_freed_memory

NICENESS = 5  # below the code server and the web server, whose heartbeats must not starve

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class WorkerDiedError(RuntimeError):
    """A worker process was killed, most likely for want of memory."""


class Workers:
    """A fixed number of worker processes, or the calling process where that number is 1."""

    def __init__(self, count: int) -> None:
        """Use ``count`` processes; they start with the first task."""
        self.count = count
        self._pool: ProcessPoolExecutor | None = None

    def map(
        self,
        function: Callable[[_Task], _Result],
        tasks: Sequence[_Task],
        on_done: Callable[[int, _Result], None] = lambda *_: None,
    ) -> list[_Result]:
        """Return ``function`` of every task, in the order of the tasks.

        Args:
            function: a module-level function.
            tasks: its arguments; the first are started first.
            on_done: called in this process with the number of finished tasks and the result of the last one.

        Raises:
            WorkerDiedError: a worker was killed.
        """
        if self.count == 1 or len(tasks) <= 1:
            results = []
            for task in tasks:
                results.append(function(task))
                on_done(len(results), results[-1])
            return results
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self.count, mp_context=_BareSpawnContext(), initializer=_prepare)
        futures = [self._pool.submit(function, task) for task in tasks]
        return list(self._collect(futures, on_done))

    def _collect(self, futures: list[Future[_Result]], on_done: Callable[[int, _Result], None]) -> Iterator[_Result]:
        try:
            for index, future in enumerate(futures):
                result = future.result()
                on_done(index + 1, result)
                yield result
        except BrokenProcessPool as error:
            msg = "a worker process was killed, most likely because memory ran out; use fewer workers"
            raise WorkerDiedError(msg) from error
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        """Stop the processes, even in the middle of their tasks. Letting idle ones wind up takes 0.14 s and gains nothing."""
        if self._pool is not None:
            for process in list((self._pool._processes or {}).values()):  # noqa: SLF001 - terminate_workers() is new in Python 3.14
                process.terminate()
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


@contextmanager
def workers(count: int) -> Iterator[Workers]:
    """Yield ``count`` workers and stop them on leaving, be it by an error or an interrupt.

    Raises:
        ValueError: the count is not positive.
    """
    if count < 1:
        msg = f"expected at least one worker, got {count}"
        raise ValueError(msg)
    pool = Workers(count)
    with freed_memory_kept() if count == 1 else nullcontext():
        try:
            yield pool
        finally:
            pool.close()


class _BareSpawnProcess(SpawnProcess):
    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Popen:  # noqa: N802 - the standard library's name
        # A spawned child imports its parent's main module. In a Dagster run that is Dagster's command line, 1.4 s of CPU
        # per worker (measured 2026-11-30), and in a script without a guard it is the script itself. Tasks need neither.
        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            return SpawnProcess._Popen(process_obj)  # noqa: SLF001 - the hook its contexts use
        finally:
            sys.modules["__main__"] = main


class _BareSpawnContext(SpawnContext):
    Process: ClassVar[type[SpawnProcess]] = _BareSpawnProcess


def _prepare() -> None:
    """Set a worker up: Ctrl-C is the parent's business, and without a parent there is nothing to work for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    keep_freed_memory()
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    # Workers hold both ends of the pool's queue, so they would wait for ever for a parent that was killed.
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
