"""What a worker process runs: tasks from its connection, results back, until the parent closes a pipe or is gone.

``workers`` starts this afresh in one process, which imports what tasks need once and then forks the other workers, each with a
connection of its own. Forking is safe here and not in the parent: nothing but imports has happened yet, no thread of Python runs.
Nothing here knows the order of tasks or who waits for them.
"""

import gc
import os
import pickle
import threading
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Final

# Imported for the workers forked of this process, which would otherwise each import them at their first task. Arrow looks for
# masked arrays in all that it is given, and NumPy imports what knows them when it is asked (14 ms; 2026-12).
import numpy.ma  # noqa: F401

import range_reader_pipeline.ingest
import range_reader_pipeline.shuffle  # noqa: F401
from range_reader_pipeline.allocation import keep_freed_memory

NICENESS: Final = 5  # below the code server and the web server, whose heartbeats must not starve


def main(connection_fds: Sequence[int], parent_fd: int) -> None:
    """Work off what comes; as many processes as there are connections.

    Args:
        connection_fds: file descriptors of this process's ends of the connections.
        parent_fd: of the reading end of a pipe that only the parent can close.
    """
    os.nice(NICENESS)
    keep_freed_memory()
    gc.freeze()  # or the first collection of each worker would write to all that is shared
    own_fd, children = _fork(connection_fds)
    watch = threading.Thread(target=_end_with_parent, args=(parent_fd, children), daemon=True)
    watch.start()
    with Connection(own_fd) as connection, suppress(EOFError, ConnectionError):
        connection.send_bytes(b"")  # it is there
        while True:
            place, call = connection.recv()
            connection.send((place, *_outcome(call)))
    watch.join()


def _fork(connection_fds: Sequence[int]) -> tuple[int, list[int]]:
    """Return, in each process, its descriptor and whom it has forked; the others' descriptors are closed there."""
    children: list[int] = []
    for index, fd in enumerate(connection_fds[:-1]):
        with warnings.catch_warnings():
            # Python 3.12 counts the threads of libraries as well; Arrow's allocator has one, and forks with care.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            for other in connection_fds[index + 1 :]:
                os.close(other)
            return fd, []
        children.append(child)
        os.close(fd)
    return connection_fds[-1], children


def _end_with_parent(parent_fd: int, children: Sequence[int]) -> None:
    os.read(parent_fd, 1)  # returns when the other end is closed, be it because the parent was killed
    for child in children:
        os.waitpid(child, 0)
    os._exit(0)  # in the middle of a task, if there is one


def _outcome(call: bytes) -> tuple[bytes, BaseException | None]:
    """Return the pickled result of a pickled call, or its error."""
    try:
        function, task = pickle.loads(call)  # noqa: S301 - from the parent
        return pickle.dumps(function(task), pickle.HIGHEST_PROTOCOL), None
    except BaseException as error:  # it is the parent's to handle
        return b"", _portable(error)


def _portable(error: BaseException) -> BaseException:
    """Return an error as it can be sent, with where it happened."""
    told = "".join(traceback.format_exception(error))
    try:
        sent: BaseException = pickle.loads(pickle.dumps(error))  # noqa: S301 - just made
    except Exception:  # whatever it is, it cannot be sent
        sent = RuntimeError(repr(error))
    sent.add_note(f"in a worker process:\n{told}")
    return sent
