"""Work spread over processes: bounded, and gone when the parent is gone.

Results come back in the order of the tasks, whichever worker was faster, so nothing downstream depends on timing. With one
worker everything happens in the calling process; with more it does tasks itself only until they are there, since whoever works
dies when memory runs out, and it has to say so. Tasks are module-level functions of picklable arguments.

On Linux workers are forked of a server process that has imported what they need (``worker_imports``): nothing else has
happened in it, so forking is safe there as it is not in the caller. They see the environment as it was when they started.
"""

import multiprocessing
import os
import signal
import sys
import threading
import types
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess, SpawnContext, SpawnProcess
from multiprocessing.process import BaseProcess
from typing import Any, ClassVar, Final, TypeVar

from range_reader_pipeline.allocation import freed_memory_kept, keep_freed_memory

START_METHOD: Final = "forkserver" if sys.platform == "linux" else "spawn"  # elsewhere libraries do not expect to be forked
NICENESS: Final = 5  # below the code server and the web server, whose heartbeats must not starve
_BLAS_THREADS: Final = "OPENBLAS_NUM_THREADS"

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class WorkerDiedError(RuntimeError):
    """A worker process was killed, most likely for want of memory."""


class Workers:
    """A fixed number of worker processes, or the calling process where that number is 1."""

    def __init__(self, count: int) -> None:
        """Use ``count`` processes; they start with the first tasks."""
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
        with _dying_told():
            if self._pool is not None:
                return list(_collect([self._pool.submit(function, task) for task in tasks], on_done))
            self._pool = ProcessPoolExecutor(self.count, mp_context=_context(), initializer=_prepare)
            return self._map_while_starting(self._pool, function, tasks, on_done)

    def _map_while_starting(
        self,
        pool: ProcessPoolExecutor,
        function: Callable[[_Task], _Result],
        tasks: Sequence[_Task],
        on_done: Callable[[int, _Result], None],
    ) -> list[_Result]:
        """Return ``map`` by a pool whose processes are not there yet: until then this one does tasks from the end."""
        waiting, lock = deque(tasks), threading.Lock()
        of_caller: list[_Result] = []
        with ThreadPoolExecutor(1) as thread:
            started = thread.submit(_start, pool, function, waiting, lock)
            try:
                while (taken := _taken(waiting, lock, self.count)) is not None:
                    of_caller.append(function(*taken))
            except BaseException:
                with lock:
                    waiting.clear()
                for future in started.result():
                    future.cancel()
                raise
            results = list(_collect(started.result(), on_done))
        for result in reversed(of_caller):
            results.append(result)
            on_done(len(results), result)
        return results

    def close(self) -> None:
        """Stop the processes, even in the middle of their tasks. Letting idle ones wind up takes 0.14 s and gains nothing."""
        if self._pool is not None:
            for process in list((self._pool._processes or {}).values()):  # noqa: SLF001 - terminate_workers() is new in Python 3.14
                process.terminate()
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
            if START_METHOD == "forkserver":
                _stop_server()


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


def _stop_server() -> None:
    """End the server, which would hold 60 MB until this process ends, at once: winding up takes it 0.02 s."""
    server: Any = forkserver._forkserver  # noqa: SLF001 - there is no public way
    if server._forkserver_pid is not None:  # noqa: SLF001
        os.kill(server._forkserver_pid, signal.SIGKILL)  # noqa: SLF001
    server._stop()  # noqa: SLF001


def _collect(futures: list[Future[_Result]], on_done: Callable[[int, _Result], None]) -> Iterator[_Result]:
    try:
        for index, future in enumerate(futures):
            result = future.result()
            on_done(index + 1, result)
            yield result
    finally:
        for future in futures:
            future.cancel()


@contextmanager
def _dying_told() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool as error:
        msg = "a worker process was killed, most likely because memory ran out; use fewer workers"
        raise WorkerDiedError(msg) from error


def _start(
    pool: ProcessPoolExecutor, function: Callable[[_Task], _Result], waiting: deque[_Task], lock: threading.Lock
) -> list[Future[_Result]]:
    """Wait for a worker, and give the pool what is waiting then; returns its futures, in the order of the tasks."""
    pool.submit(_nothing)
    with lock:
        futures = [pool.submit(function, task) for task in waiting]
        waiting.clear()
    return futures


def _nothing() -> None:
    """Do nothing: the pool starts a worker with its first task, which takes as long as the server imports."""


def _taken(waiting: deque[_Task], lock: threading.Lock, least: int) -> tuple[_Task] | None:
    """Return the last task that is waiting, the smallest where sizes are known; None where there are but ``least``."""
    with lock:
        return (waiting.pop(),) if len(waiting) > least else None


@contextmanager
def _without_main() -> Iterator[None]:
    # A child imports its parent's main module. In a Dagster run that is Dagster's command line, 1.4 s of CPU per worker (measured
    # 2026-11-30), and in a script without a guard it is the script itself. Tasks need neither.
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


class _ForkServerProcess(ForkServerProcess):
    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Any:  # noqa: N802 - the hook that contexts use
        with _without_main():
            return ForkServerProcess._Popen(process_obj)  # noqa: SLF001


class _SpawnProcess(SpawnProcess):
    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Any:  # noqa: N802 - the hook that contexts use
        with _without_main():
            return SpawnProcess._Popen(process_obj)  # noqa: SLF001


class _ForkServerContext(ForkServerContext):
    Process: ClassVar[type[ForkServerProcess]] = _ForkServerProcess


class _SpawnContext(SpawnContext):
    Process: ClassVar[type[SpawnProcess]] = _SpawnProcess


def _context() -> ForkServerContext | SpawnContext:
    """Return how processes are started; the server that they are forked of is started here, and not waited for."""
    if START_METHOD != "forkserver":
        return _SpawnContext()
    context = _ForkServerContext()
    context.set_forkserver_preload(["range_reader_pipeline.worker_imports"])
    # Nothing here multiplies matrices, and the threads that wait for it take a tenth of a second of a core from the start.
    threads = os.environ.get(_BLAS_THREADS)
    os.environ[_BLAS_THREADS] = "1"
    # Ctrl-C in a terminal is the parent's business from the start, also while the server imports.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        del os.environ[_BLAS_THREADS]
        if threads is not None:
            os.environ[_BLAS_THREADS] = threads
    return context


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
