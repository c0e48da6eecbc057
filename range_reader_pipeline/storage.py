"""Writing files so that nobody ever sees half of one: everything is written aside and then renamed.

A folder of files is published by pointing a symbolic link at it, again by a rename. Names of unfinished work carry the
suffix of ``ASIDE``, are never read, and are swept up by the next writer. What the operating system refuses is told in words a
person can act on by ``explain_os_error``.
"""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

ASIDE: Final = ".tmp"

_REMEDIES: Final = {
    errno.ENOSPC: "the disk is full: free some space, or set RANGE_READER_HOME to a folder on a larger disk",
    errno.EDQUOT: "your disk quota is used up: free some space, or set RANGE_READER_HOME to a folder elsewhere",
    errno.EACCES: "permission denied: make it writable for this user, or set RANGE_READER_HOME to a folder that is",
    errno.EPERM: "not permitted: make it writable for this user, or set RANGE_READER_HOME to a folder that is",
    errno.EROFS: "the file system is read-only: set RANGE_READER_HOME to a folder that can be written",
    errno.EMFILE: "too many open files: raise the limit with `ulimit -n 4096` and try again",
}


def aside_path(path: Path) -> Path:
    """Return where this process prepares what will be ``path``."""
    return path.with_name(f".{path.name}.{os.getpid()}{ASIDE}")


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """Yield a path beside ``path`` to write to; on leaving it takes the place of ``path``, on an error it is removed.

    Raises:
        OSError: the file system refused.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = aside_path(path)
    try:
        yield aside
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Write a JSON document with sorted keys, aside and then renamed."""
    with written_aside(path) as aside:
        aside.write_text(json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any | None:
    """Return a JSON document, None where there is no file or it holds no JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None


def point_link(link: Path, target: Path) -> None:
    """Make ``link`` a relative symbolic link to ``target`` in one step; readers see the old or the new one.

    Raises:
        FileExistsError: ``link`` is a file or folder and not a link; it is left alone.
    """
    if link.exists() and not link.is_symlink():
        msg = f"{link} is in the way: expected a link made by this pipeline, found a file or folder; move it elsewhere"
        raise FileExistsError(msg)
    aside = aside_path(link)
    aside.unlink(missing_ok=True)
    aside.symlink_to(os.path.relpath(target, link.parent))
    aside.replace(link)


def link_target(link: Path) -> Path | None:
    """Return the absolute folder a link made by ``point_link`` names, None where there is no such link or folder."""
    if not link.is_symlink():
        return None
    target = link.parent / link.readlink()
    return target if target.is_dir() else None


def replace_folder(folder: Path, aside: Path) -> None:
    """Put the finished folder ``aside`` in the place of ``folder``, which is removed if it was there."""
    if folder.exists():
        old = folder.with_name(f".{folder.name}.old{ASIDE}")
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
        aside.rename(folder)
        shutil.rmtree(old)
    else:
        aside.rename(folder)


def sweep(folder: Path, of: str = "*") -> None:
    """Remove unfinished work that killed writers left in ``folder``: all of it, or that of the files named ``of``.

    Only the holder of the lock under which these are written may call it.
    """
    if not folder.is_dir():
        return
    for entry in folder.glob(f".{of}.*{ASIDE}"):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def explain_os_error(error: OSError) -> str:
    """Return what the operating system refused, about which path, and what a person can do."""
    where = error.filename or error.filename2
    what = _REMEDIES.get(error.errno or 0, error.strerror or str(error))
    return f"{where}: {what}" if where else what
