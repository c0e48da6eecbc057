"""A local copy of the hand histories at a URL, brought in line with one listing of the store.

Only what is new or changed is fetched, by size and by the tag or time that the store gives; what is gone is removed. The index
beside the copy says what of it is current: the token of the object, and size and time of the file made from it. Each
file is fetched aside and then renamed, under a lock, so two at once do the work once, and a killed one is gone on
with. A store that cannot be listed, or lists nothing where there was something, changes nothing. Everything else in the pipeline
sees a folder.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from typing import Final

from range_reader_core.wording import byte_count, counted
from range_reader_pipeline.catalogue import Catalogue, FileEntry, FileStatus, list_folder
from range_reader_pipeline.locks import held
from range_reader_pipeline.object_store import StoredObject, StoreError, StoreListing, fetch, list_store
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.storage import read_json, write_json, written_aside

NUM_FETCHES: Final = 8  # at a time: small objects cost a round trip each
SAY_EVERY_S: Final = 5.0
SAVE_EVERY_S: Final = 5.0  # what a kill loses of the index is fetched again

OnProgress = Callable[[str], None]
Index = dict[str, tuple[str, int, int]]  # name -> token of the object, size and mtime_ns of the file made from it


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    """The local copy as it is now."""

    listing: Catalogue  # as ``list_folder`` gives it, with the objects that are not copied as entries that are left out
    num_fetched: int
    num_bytes: int  # of those
    num_removed: int


class _ChangedError(Exception):
    """An object is not the one that was listed."""


def mirror(paths: HomePaths, on_progress: OnProgress = lambda _: None) -> Mirrored:
    """Bring the copy in line with the store.

    Args:
        paths: of a home whose hand histories lie at a URL.
        on_progress: called now and then with what was fetched so far.

    Raises:
        OSError: the home cannot be written.
        StoreError: the store cannot be used or does not answer, or lists nothing any more.
    """
    with held(paths.mirror_lock, "another run is fetching hand histories for this home; waiting for it", on_progress):
        store = list_store(paths.ohh_url)
        index = _load_index(paths)
        _check_not_emptied(paths, store, index)
        current = _current(paths, store, index)
        paths.ohh.mkdir(parents=True, exist_ok=True)
        _remove_others(paths.ohh, store.files)
        _save_index(paths, current)
        wanted = {name: stored for name, stored in store.files.items() if name not in current}
        changed = _fetch_all(paths, wanted, current, on_progress)
        return Mirrored(
            listing=_with(list_folder(paths.ohh), (*store.refused, *changed), store.num_ignored),
            num_fetched=len(wanted) - len(changed),
            num_bytes=sum(current[name][1] for name in wanted if name in current),
            num_removed=len(index.keys() - store.files.keys()),
        )


def look(paths: HomePaths, *, timeout_s: float) -> tuple[Catalogue, tuple[FileEntry, ...]]:
    """Return what ``mirror`` would leave as it is, listed, and entries for what it would fetch or refuse. Nothing is written.

    Entries to fetch are PENDING, and their times are those of the store.

    Raises:
        StoreError: as ``mirror``.
    """
    store = list_store(paths.ohh_url, timeout_s=timeout_s)
    index = _load_index(paths)
    _check_not_emptied(paths, store, index)
    current = _current(paths, store, index)
    listing = list_folder(paths.ohh) if paths.ohh.is_dir() else Catalogue(folder=paths.ohh, entries=(), num_ignored=0)
    kept = tuple(entry for entry in listing.entries if entry.name in current)
    to_fetch = [
        FileEntry(
            name=name,
            size_bytes=stored.size_bytes,
            mtime_ns=stored.mtime_ns,
            ctime_ns=stored.mtime_ns,
            status=FileStatus.PENDING,
            reason="not fetched yet",
        )
        for name, stored in store.files.items()
        if name not in current
    ]
    return replace(listing, entries=kept, num_ignored=store.num_ignored), (*to_fetch, *store.refused)


def _check_not_emptied(paths: HomePaths, store: StoreListing, index: Index) -> None:
    """Make sure that files which were there have not all vanished, as they seem to where a prefix is mistyped or moved."""
    if index and not store.files:
        msg = (
            f"{paths.ohh_url} lists no hand histories any more, after {counted(len(index), 'file')} before: the copy and the "
            f"shards are left as they are. If the files are meant to be gone, remove {paths.mirror}"
        )
        raise StoreError(msg)


def _current(paths: HomePaths, store: StoreListing, index: Index) -> Index:
    """Return the part of the index whose files are there as they were written, of objects that are there as they were fetched."""
    current = {}
    for name, stored in store.files.items():
        known = index.get(name)
        if known is not None and known[:2] == (stored.token, stored.size_bytes) and _state(paths.ohh / name) == known[1:]:
            current[name] = known
    return current


def _state(path: Path) -> tuple[int, int] | None:
    """Return size and time of a regular file."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns) if S_ISREG(status.st_mode) else None


def _remove_others(folder: Path, keep: Mapping[str, StoredObject]) -> None:
    """Remove what is no current name, with the unfinished files of a killed mirror and folders that are empty then."""
    for place, subfolders, names in os.walk(folder, topdown=False):
        here = Path(place)
        links = [name for name in subfolders if (here / name).is_symlink()]
        for name in (*names, *links):
            path = here / name
            if path.relative_to(folder).as_posix() not in keep or path.is_symlink():
                path.unlink(missing_ok=True)
        for name in subfolders:
            with suppress(OSError):  # not empty
                (here / name).rmdir()


def _fetch_all(
    paths: HomePaths, wanted: Mapping[str, StoredObject], index: Index, on_progress: OnProgress
) -> tuple[FileEntry, ...]:
    """Fetch objects, enter them into the index, and return entries for those that changed meanwhile."""
    if not wanted:
        return ()
    num_bytes = sum(stored.size_bytes for stored in wanted.values())
    on_progress(f"{counted(len(wanted), 'file')} to fetch from {paths.ohh_url}, {byte_count(num_bytes)}")
    changed: list[FileEntry] = []
    stop = threading.Event()  # set by the first failure, and where this ends: nobody waits for a gigabyte to come
    todo = iter(wanted.items())
    running: dict[Future[int], str] = {}
    arrived: dict[str, int] = {}  # bytes of the files under way; keys are set here, values in the threads
    num_done = bytes_done = 0

    def settle(future: "Future[int]") -> BaseException | None:
        """Enter what came of an object, and return the failure that ends the mirror, if it is one."""
        nonlocal num_done, bytes_done
        name = running.pop(future)
        stored, error = wanted[name], future.exception()
        del arrived[name]
        if isinstance(error, InterruptedError):  # because of another's failure
            return None
        if isinstance(error, _ChangedError):
            changed.append(FileEntry(name=name, status=FileStatus.CHANGING, reason=str(error)))
        elif error is not None:
            return error
        else:
            index[name] = (stored.token, stored.size_bytes, future.result())
        num_done += 1
        bytes_done += stored.size_bytes
        return None

    said_s = saved_s = time.monotonic()
    try:
        with ThreadPoolExecutor(NUM_FETCHES, thread_name_prefix="fetch") as pool:
            try:
                while True:
                    for name, stored in islice(todo, 0 if stop.is_set() else 2 * NUM_FETCHES - len(running)):
                        arrived[name] = 0
                        running[pool.submit(_fetch, paths, name, stored, arrived, stop)] = name
                    if not running:
                        break
                    # All that ended together is entered before a failure among it is raised.
                    ended = [settle(future) for future in wait(running, timeout=SAY_EVERY_S, return_when=FIRST_COMPLETED).done]
                    if failure := next((error for error in ended if error is not None), None):
                        raise failure
                    now_s = time.monotonic()
                    if num_done == len(wanted) or now_s - said_s >= SAY_EVERY_S:
                        so_far = byte_count(bytes_done + sum(arrived.values()))
                        on_progress(f"fetched {num_done:,} of {counted(len(wanted), 'file')}, {so_far}")
                        said_s = now_s
                    if now_s - saved_s >= SAVE_EVERY_S:
                        _save_index(paths, index)
                        saved_s = now_s
            finally:
                stop.set()
    finally:  # what came through while the others were stopped is kept as well
        for future in [future for future in running if future.done()]:
            settle(future)
        _save_index(paths, index)
    return tuple(changed)


def _fetch(paths: HomePaths, name: str, stored: StoredObject, arrived: dict[str, int], stop: threading.Event) -> int:
    """Put an object into its place, with its time, and return the file's time in nanoseconds."""

    def on_bytes(count: int) -> None:
        if stop.is_set():
            msg = "the mirror is being stopped"
            raise InterruptedError(msg)
        arrived[name] += count

    target = paths.ohh / name
    try:
        with written_aside(target) as aside:
            on_bytes(0)
            fetch(paths.ohh_url, stored.key, aside, on_bytes)
            _check_size(aside, stored)
            if stored.mtime_ns:
                os.utime(aside, ns=(stored.mtime_ns, stored.mtime_ns))
    except FileNotFoundError as error:
        target.unlink(missing_ok=True)
        msg = "removed after it was listed"
        raise _ChangedError(msg) from error
    except _ChangedError:
        target.unlink(missing_ok=True)
        raise
    except OSError:
        stop.set()  # the local disk refused; before anything else begins
        raise
    except StoreError as error:
        stop.set()
        msg = f"{name} cannot be fetched from {paths.ohh_url}: {error}. What was fetched is kept: run again to go on"
        raise StoreError(msg) from error
    return target.stat().st_mtime_ns


def _check_size(path: Path, stored: StoredObject) -> None:
    size = path.stat().st_size
    if size != stored.size_bytes:
        msg = f"listed with {stored.size_bytes:,} bytes and came with {size:,}: changed meanwhile, or unpacked on the way"
        raise _ChangedError(msg)


def _with(listing: Catalogue, others: tuple[FileEntry, ...], num_ignored: int) -> Catalogue:
    entries = sorted((*listing.entries, *others), key=lambda entry: entry.name)
    return replace(listing, entries=tuple(entries), num_ignored=num_ignored)


def _load_index(paths: HomePaths) -> Index:
    """Return what was current after the last mirror; an index that cannot be read is an empty one."""
    saved = read_json(paths.mirror_index)
    files = saved.get("files") if isinstance(saved, dict) and saved.get("url") == paths.ohh_url else None
    kinds = [str, int, int]
    if not isinstance(files, dict) or not all(
        isinstance(entry, list) and [type(item) for item in entry] == kinds for entry in files.values()
    ):
        return {}
    return {name: tuple(entry) for name, entry in files.items()}


def _save_index(paths: HomePaths, index: Index) -> None:
    write_json(paths.mirror_index, {"url": paths.ohh_url, "files": index})
