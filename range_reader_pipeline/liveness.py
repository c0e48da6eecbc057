"""Whether the process of a run is alive: it holds a lock for as long as it lives, and the operating system drops it at any death.

Dagster's launcher for local processes does not look after a restart: what a power cut, or a kill of everything, ended stays
"started" (seen with 1.13.28), and what waits for its pool slot waits with it. The lock files lie in the home; those of a process
that ended in peace are gone.
"""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from range_reader_pipeline.paths import HomePaths

PATIENCE_S: Final = 60.0  # between two steps in processes of their own nobody holds the lock


@contextmanager
def shown_alive(paths: HomePaths, run_id: str) -> Iterator[None]:
    """Hold the lock of a run. Several processes of one run may; a home that cannot be written costs the lock, not the run."""
    path = _lock_path(paths, run_id)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = path.open("a")
        fcntl.flock(stream, fcntl.LOCK_SH)
    except OSError:
        yield
        return
    with stream:
        path.touch()
        yield
        with suppress(OSError):
            path.unlink(missing_ok=True)


def is_dead(paths: HomePaths, run_id: str, *, now_s: float | None = None) -> bool:
    """Tell whether a run's process has begun its work in this home and is gone without having ended it."""
    path = _lock_path(paths, run_id)
    try:
        age_s = (time.time() if now_s is None else now_s) - path.stat().st_mtime
        with path.open("a") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (FileNotFoundError, BlockingIOError):
        return False
    return age_s >= PATIENCE_S


def dead_run_ids(paths: HomePaths) -> list[str]:
    """Return the runs that ``is_dead`` of those whose lock files lie in the home."""
    run_ids = sorted(path.stem for path in _lock_path(paths, "any").parent.glob("*.lock"))
    return [run_id for run_id in run_ids if is_dead(paths, run_id)]


def forget(paths: HomePaths, run_id: str) -> None:
    """Remove the lock file of a run that is dead."""
    _lock_path(paths, run_id).unlink(missing_ok=True)


def _lock_path(paths: HomePaths, run_id: str) -> Path:
    return paths.root / "cache" / "alive" / f"{run_id}.lock"
