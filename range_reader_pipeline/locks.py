"""Being the only process that does something to a home."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

NOTICE_S: Final = 10.0  # between two words on who is waited for


@contextmanager
def held(path: Path, waiting: str, say: Callable[[str], None]) -> Iterator[None]:
    """Hold a lock file, waiting for whoever holds it. The system releases the lock of a process that was killed.

    Args:
        path: of the lock file; its folder is made.
        waiting: what is waited for, said at once where another process has it, and again every ``NOTICE_S`` seconds.
        say: receives it.

    Raises:
        OSError: the file cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    patience_s = 0.0
    while True:
        try:
            lock.acquire(timeout=patience_s)
            break
        except Timeout:
            say(waiting)
            patience_s = NOTICE_S
    try:
        yield
    finally:
        lock.release()
