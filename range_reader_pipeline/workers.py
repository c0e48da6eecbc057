"""Work spread over processes: started afresh, bounded, and gone when the parent is gone.

Results come back in the order of the tasks, whichever worker was faster, so nothing downstream depends on timing. With one
worker everything happens in the calling process; with more it does tasks itself only until they are there, since whoever works
dies when memory runs out, and it has to say so. Tasks are module-level functions of picklable arguments. What the processes run
is ``worker_process``; they see the environment as it was when they started, and not the parent's main module: in a Dagster run
that is Dagster's command line, 1.4 s of processor time a worker (2026-11).
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, Final, TypeVar

from range_reader_pipeline.allocation import freed_memory_kept

IS_FORKING: Final = sys.platform == "linux"  # elsewhere libraries do not expect it, and each worker is started by itself
END_S: Final = 5.0  # a worker that has not ended by then is killed

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class WorkerDiedError(RuntimeError):
    """A worker process was killed, most likely for want of memory."""


class Workers:
    """A fixed number of worker processes, or the calling process where that number is 1."""

    def __init__(self, count: int) -> None:
        """Use ``count`` processes; they start with the first tasks."""
        self.count = count
        self._crew: _Crew | None = None

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
        results: list[_Result] = []
        if self.count == 1 or len(tasks) <= 1:
            for task in tasks:
                results.append(function(task))
                on_done(len(results), results[-1])
            return results
        found: dict[int, _Outcome] = {}
        waiting = deque(range(len(tasks)))
        is_new = self._crew is None
        crew = self._crew = self._crew or _Crew(self.count)
        crew.begin(function, tasks, waiting)
        if is_new:
            while waiting and not crew.is_there():
                index = waiting.pop()  # the last, which are the smallest where sizes are known
                found[index] = _Outcome(function(tasks[index]))
        while len(results) < len(tasks):
            found.update(crew.outcomes(is_waiting=len(results) not in found))
            if len(results) in found:
                results.append(found.pop(len(results)).result())
                on_done(len(results), results[-1])
        return results

    def close(self) -> None:
        """Stop the processes, even in the middle of their tasks."""
        if self._crew is not None:
            self._crew.close()
            self._crew = None


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


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What came of a task."""

    value: Any
    error: BaseException | None = None

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class _Crew:
    """Processes that are starting or at work, each with one task at a time.

    A second one in advance would save a worker nothing but the time of a message, and two sides that both wait for the other to
    read would wait for ever.
    """

    def __init__(self, count: int) -> None:
        """Start the processes, without waiting for them."""
        self._round = 0  # of tasks; what comes from an earlier one, which ended by an error, is not wanted any more
        self._call: Callable[[int], bytes] = lambda _: b""
        self._waiting: deque[int] = deque()
        self._connections: list[Connection] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        theirs: list[Connection] = []
        for _ in range(count):
            own, other = Pipe()
            self._connections.append(own)
            theirs.append(other)
        self._silent = set(self._connections)  # that have not said yet that they are there
        self._busy: set[Connection] = set()
        alive_r, self._alive = os.pipe()
        try:
            for group in [theirs] if IS_FORKING else [[other] for other in theirs]:
                self._processes.append(_start([other.fileno() for other in group], alive_r))
        except BaseException:
            self.close()
            raise
        finally:
            os.close(alive_r)
            for other in theirs:
                other.close()

    def begin(self, function: Callable[[_Task], _Result], tasks: Sequence[_Task], waiting: deque[int]) -> None:
        """Hand out the first of these tasks, and the others one by one as the results are asked for."""
        self._round += 1
        self._call = lambda index: pickle.dumps((function, tasks[index]), pickle.HIGHEST_PROTOCOL)
        self._waiting = waiting
        self._hand_out()

    def is_there(self) -> bool:
        """Return whether a worker has said something."""
        return any(connection.poll() for connection in self._connections)

    def outcomes(self, *, is_waiting: bool) -> dict[int, _Outcome]:
        """Return what has come from the workers, by the numbers of the tasks, and hand them the next ones.

        Args:
            is_waiting: for the next message, where there is none.

        Raises:
            WorkerDiedError: a worker was killed.
        """
        found: dict[int, _Outcome] = {}
        for connection in self._ready(None if is_waiting else 0.0):
            with self._dying_told():
                if connection in self._silent:
                    connection.recv_bytes()
                    self._silent.remove(connection)
                    continue
                (of_round, index), value, error = connection.recv()
            self._busy.remove(connection)
            if of_round == self._round:
                found[index] = _Outcome(None if error else pickle.loads(value), error)  # noqa: S301 - from our own worker
                if error is not None:
                    self._waiting.clear()
        self._hand_out()
        return found

    def close(self) -> None:
        """Let the processes end, in the middle of a task if there is one, and wait for that."""
        os.close(self._alive)
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            deadline = threading.Timer(END_S, _kill, [process])  # since a wait that has an end of its own looks rarely
            deadline.start()
            process.wait()
            deadline.cancel()

    def _hand_out(self) -> None:
        for connection in self._connections:
            if self._waiting and connection not in self._busy:
                call = self._call(self._waiting[0])
                with self._dying_told():
                    connection.send(((self._round, self._waiting.popleft()), call))
                self._busy.add(connection)

    def _ready(self, timeout_s: float | None) -> list[Connection]:
        ready = wait(self._busy, timeout_s)
        return [connection for connection in self._busy if connection in ready]

    @contextmanager
    def _dying_told(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            msg = "a worker process was killed, most likely because memory ran out; use fewer workers"
            for process in self._processes:
                with suppress(subprocess.TimeoutExpired):
                    if process.wait(0.5) > 0:
                        msg = f"a worker process ended with exit code {process.returncode}; what it said is in the log"
            raise WorkerDiedError(msg) from error


def _start(connection_fds: Sequence[int], alive_fd: int) -> "subprocess.Popen[bytes]":
    """Start a process that serves these connections, all but one of them by its forks."""
    code = (
        f"import sys; sys.path[:] = {[str(path) for path in sys.path]}; "
        f"from range_reader_pipeline.worker_process import main; main({list(connection_fds)}, {alive_fd})"
    )
    return subprocess.Popen(  # noqa: S603 - our own code
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        pass_fds=[*connection_fds, alive_fd],
        # Nothing here multiplies matrices, and the threads that wait for it take a tenth of a second of a core from the start.
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        process_group=0,  # Ctrl-C is the parent's business
    )


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process that has not been waited for, and its forks."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
