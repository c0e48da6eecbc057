"""Hand histories at a URL such as s3://bucket/hands: what one listing of the store says, and one object fetched to a file.

fsspec speaks to the stores; which package it needs for one, and where credentials come from, is the store's business. An object
counts as a folder's file would: by its suffix, unless it is hidden. Its key becomes a relative name, and a key that
would lead out of a folder, or that no folder can hold, is refused with a reason and never used as a path. Whatever a store or its
library raises becomes a ``StoreError``. fsspec is imported when a store is asked, not with this module.
"""

import errno
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from range_reader_core.wording import writable
from range_reader_pipeline.catalogue import FileEntry, FileStatus
from range_reader_pipeline.suffixes import content_suffix

MAX_NAME_BYTES: Final = 200  # of one part of a name: file systems take 255, and unfinished files have longer names

_CONTENT_TAGS: Final = ("md5Hash", "ETag", "etag", "checksum", "generation")  # as S3, GCS and Azure call what follows the content
_TIMES: Final = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE)  # of the disk written to, never of a store
_UNANSWERED: Final[
    dict[str, "Future[StoreListing]"]
] = {}  # listings given up on; a store that hangs gets one thread, not one a tick


class StoreError(ValueError):
    """A store cannot be used or does not answer; says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """One hand history file of a store."""

    key: str  # as the store names it
    size_bytes: int
    mtime_ns: int  # of the last change, 0 where the store does not say
    token: str  # what changes when the content does


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreListing:
    """What lies below a URL."""

    files: Mapping[str, StoredObject]  # by name below the URL, with forward slashes; sorted
    refused: tuple[FileEntry, ...]  # objects that no folder can hold
    num_ignored: int  # objects with another suffix, and hidden ones


def check_url(url: str) -> str:
    """Return the scheme of a URL that can be read here; nothing is asked of the store.

    Raises:
        StoreError: it is no such URL, or the package for this kind of store is missing.
    """
    import fsspec
    from fsspec.registry import known_implementations

    scheme, _, rest = url.partition("://")
    if ":" in rest.split("/")[0].rpartition("@")[0]:
        msg = "the URL of the hand histories holds a password, which logs would show: set the store's own environment variables"
        raise StoreError(msg)
    if scheme in ("http", "https"):
        msg = f"{url}: a web server does not list its files; give the bucket's own address, such as s3://bucket/hands"
        raise StoreError(msg)
    if "::" in url or not rest.strip("/"):
        msg = f"{url}: expected one bucket and a folder in it, such as s3://bucket/hands"
        raise StoreError(msg)
    try:
        fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        package = known_implementations[scheme]["class"].split(".")[0]
        what = f".venv/bin/pip install -c requirements.lock {package}" if package != "fsspec" else str(error)
        msg = f"{url}: {scheme}:// needs a package that is not installed here: {what}"
        raise StoreError(msg) from error
    except ValueError as error:
        msg = f"{url}: no kind of store is called {scheme}; expected a folder, or a URL such as s3://bucket/hands or gs://bucket/hands"
        raise StoreError(msg) from error
    return scheme


def list_store(url: str, *, timeout_s: float | None = None) -> StoreListing:
    """Return what lies below a URL, asked for anew.

    Args:
        url: of a folder.
        timeout_s: how long to wait; by default as long as the store's library does.

    Raises:
        StoreError: the store cannot be used or does not answer.
    """
    if timeout_s is None:
        return _listing(url)
    earlier = _UNANSWERED.get(url)
    if earlier is not None and not earlier.done():
        msg = f"{url} has not answered an earlier listing yet"
        raise StoreError(msg)
    answer: Future[StoreListing] = Future()

    def ask() -> None:
        try:
            answer.set_result(_listing(url))
        except BaseException as error:  # raised where the answer is waited for
            answer.set_exception(error)

    threading.Thread(target=ask, name="list_store", daemon=True).start()
    try:
        return answer.result(timeout_s)
    except TimeoutError as error:
        _UNANSWERED[url] = answer
        msg = f"{url} has not answered within {timeout_s:g} s"
        raise StoreError(msg) from error


def fetch(url: str, key: str, target: Path, on_bytes: Callable[[int], None]) -> None:
    """Write an object to a file.

    Args:
        url: below which the object lies.
        key: as the listing named it.
        target: the file.
        on_bytes: called now and then with how many bytes came; InterruptedError from it ends the transfer.

    Raises:
        FileNotFoundError: the object is gone.
        InterruptedError: ``on_bytes`` did.
        OSError: the disk refused.
        StoreError: the store did.
    """
    from fsspec.callbacks import Callback

    class Watched(Callback):  # type: ignore[misc]  # fsspec is untyped
        def relative_update(self, inc: int = 1) -> None:
            on_bytes(inc)

    store, _ = _connect(url)
    with _in_own_words("", passes=_is_ours):
        store.get_file(key, str(target), callback=Watched())


def _connect(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the URL's folder as that file system names it."""
    import fsspec

    check_url(url)
    with _in_own_words(f"{url} cannot be reached: "):
        store, root = fsspec.url_to_fs(url)
    return store, root.rstrip("/")


def _listing(url: str) -> StoreListing:
    store, root = _connect(url)
    remedy = (
        ". The bucket's name, the network and the credentials decide; the latter come from the store's own environment variables "
        "(docs/scale.md)"
    )
    with _in_own_words(f"{url} cannot be listed: ", remedy):
        store.invalidate_cache()  # the daemon lives for months, and so would its first listing
        found = store.find(root, detail=True)
    if root in found:
        msg = f"{url} is one file: give the folder that it lies in"
        raise StoreError(msg)
    return _sorted_out(url, root, found)


def _sorted_out(url: str, root: str, found: Mapping[str, Mapping[str, Any]]) -> StoreListing:
    files: dict[str, StoredObject] = {}
    refused: list[FileEntry] = []
    num_ignored = 0
    for key in sorted(found):
        if not key.startswith(root + "/"):
            continue  # of a neighbour whose name begins alike
        name, info = key[len(root) + 1 :], found[key]
        verdict = _refusal(name, info)
        if verdict is None and (above := next((parent for parent in _parents(name) if parent in files), None)):
            verdict = FileStatus.IRREGULAR, f"a folder cannot hold both it and {above}"
        if content_suffix(name) is None:
            num_ignored += 1
        elif verdict is not None:
            text = writable(name)
            refused.append(FileEntry(name=text, status=verdict[0], reason=verdict[1]))
        elif any(part.startswith(".") for part in name.split("/")):
            num_ignored += 1
        else:
            mtime_ns, size = _mtime_ns(info), int(info.get("size") or 0)
            tag = next((f"{tag} {info[tag]}" for tag in _CONTENT_TAGS if info.get(tag)), "")
            if not tag and not mtime_ns:
                msg = f"{url} says neither when its files changed nor what they hold, so changes would be missed: copy them"
                raise StoreError(msg)
            files[name] = StoredObject(key=key, size_bytes=size, mtime_ns=mtime_ns, token=tag or f"mtime {mtime_ns}")
    return StoreListing(files=files, refused=tuple(refused), num_ignored=num_ignored)


def _refusal(name: str, info: Mapping[str, Any]) -> tuple[FileStatus, str] | None:
    """Return why a name is no path of a folder, None if it is one."""
    parts = name.split("/")
    if ".." in parts or not parts[0]:
        return FileStatus.OUTSIDE, "a name that leads out of the folder"
    if "." in parts or "" in parts or "\0" in name:
        return FileStatus.IRREGULAR, "a name that no folder can hold"
    try:
        longest = max(len(part.encode()) for part in parts)
    except UnicodeEncodeError:
        return FileStatus.IRREGULAR, "the name is not valid text"
    if longest > MAX_NAME_BYTES:
        return FileStatus.IRREGULAR, f"a name with a part of {longest} bytes; at most {MAX_NAME_BYTES} are taken"
    if info.get("islink") or info.get("type") != "file":
        return FileStatus.IRREGULAR, "not a regular file"
    return None


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]


def _mtime_ns(info: Mapping[str, Any]) -> int:
    value = next((info[name] for name in _TIMES if info.get(name)), 0)
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
    return int(value * 1e6) * 1000  # seconds; a float holds no more than microseconds of today


@contextmanager
def _in_own_words(before: str, after: str = "", *, passes: Callable[[Exception], bool] = lambda _: False) -> Iterator[None]:
    """Raise what a store's library raises as a ``StoreError`` that quotes it, but for what ``passes``.

    Every library has errors of its own, some of which are plain ``Exception``s, so nothing narrower can be named.
    """
    try:
        yield
    except Exception as error:
        if passes(error):
            raise
        quoted = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise StoreError(before + quoted + after) from error


def _is_ours(error: Exception) -> bool:
    """Return whether an error of a transfer is told as it is: the object is gone, it was stopped, or the local disk refused."""
    return isinstance(error, FileNotFoundError | InterruptedError) or (isinstance(error, OSError) and error.errno in _LOCAL_ERRORS)
