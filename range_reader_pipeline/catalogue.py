"""What lies in the folder of hand histories: every file with its content hash, or with the reason why it is left out.

A file is what its bytes are, and how its suffix says to read them; names and times only save reading it again. ``version_of`` names
a state of the folder, and two states with the same contents under other names have one version. Only regular files inside the
folder count: a link that leads out of it is refused, so that nobody makes the pipeline read what it was not given. What files mean
is no business of this module, and the sensor uses it every half minute, so it imports nothing heavy.
"""

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Final

from range_reader_core.wording import writable
from range_reader_pipeline.storage import read_json, written_aside
from range_reader_pipeline.suffixes import content_suffix, reading_of

RACY_NS: Final = 2_000_000_000  # a file this young may change again within one tick of its clock: hash it anew next time
BLOCK_BYTES: Final = 1 << 20


class FileStatus(StrEnum):
    """Whether a file is read, and if not, why."""

    OK = "ok"
    UNSETTLED = "unsettled"  # changed so recently that somebody may still be writing it
    CHANGING = "changing"  # changed while it was hashed
    UNREADABLE = "unreadable"  # the file system refused
    OUTSIDE = "outside"  # a link that leads out of the folder, or to nothing
    IRREGULAR = "irregular"  # a linked folder, a pipe, a device, a name that is no text
    PENDING = "pending"  # not hashed within this scan's budget


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file of the folder."""

    name: str  # relative to the folder, with forward slashes
    size_bytes: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0  # the kernel's own time of the last change, which copying tools cannot set
    sha256: str = ""  # "" unless the status is OK
    status: FileStatus = FileStatus.OK
    reason: str = ""  # for a person, "" where the status is OK

    @property
    def content(self) -> str:
        """What the pipeline knows the file by: its bytes, and how its name says to read them; "" unless the status is OK."""
        return f"{self.sha256}.{reading_of(self.name)}" if self.sha256 else ""


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """The state of a folder. Entries are sorted by name. Versions are kept once known: a tick asks for them several times."""

    folder: Path
    entries: tuple[FileEntry, ...]
    num_ignored: int  # files with another suffix, and hidden ones

    @property
    def readable(self) -> tuple[FileEntry, ...]:
        """The files that are read; several may have the same content."""
        return tuple(entry for entry in self.entries if entry.status is FileStatus.OK)

    @property
    def left_out(self) -> tuple[FileEntry, ...]:
        """The files that are not read."""
        return tuple(entry for entry in self.entries if entry.status is not FileStatus.OK)

    @property
    def is_complete(self) -> bool:
        """Whether every readable file is hashed."""
        return all(entry.status is not FileStatus.PENDING for entry in self.entries)

    @cached_property
    def version(self) -> str:
        """The version of the readable contents."""
        return version_of(entry.content for entry in self.readable)

    @cached_property
    def listing_version(self) -> str:
        """A version of names, sizes and times, which is known without reading a file, and the same once it was read."""
        known = {FileStatus.PENDING: FileStatus.OK}
        text = "\n".join(
            f"{entry.name}\t{entry.size_bytes}\t{entry.mtime_ns}\t{known.get(entry.status, entry.status)}" for entry in self.entries
        )
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class HashMemo:
    """Content hashes from earlier scans of one folder: name -> (size, mtime_ns, ctime_ns, sha256)."""

    folder: Path
    hashes: dict[str, tuple[int, int, int, str]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, folder: Path) -> "HashMemo":
        """Return what an earlier scan of this folder saved; an unreadable or foreign memo is an empty one."""
        saved = read_json(path)
        if not isinstance(saved, dict) or saved.get("folder") != str(folder):
            return cls(folder)
        hashes = saved.get("hashes")
        kinds = [int, int, int, str]
        if not isinstance(hashes, dict) or not all(
            isinstance(entry, list) and [type(item) for item in entry] == kinds for entry in hashes.values()
        ):
            return cls(folder)
        return cls(folder, {name: tuple(entry) for name, entry in hashes.items()})

    def save(self, path: Path) -> None:
        """Write the memo, aside and then renamed. Losing it, or a race of two writers, costs time only."""
        text = json.dumps(
            {"folder": str(self.folder), "hashes": self.hashes}, separators=(",", ":")
        )  # ten times as fast as indented
        with written_aside(path) as aside:
            aside.write_text(text + "\n", encoding="utf-8")

    def known(self, entry: FileEntry) -> str | None:
        """Return the hash of a file that has not changed since it was hashed."""
        saved = self.hashes.get(entry.name)
        if saved is None or saved[:3] != (entry.size_bytes, entry.mtime_ns, entry.ctime_ns):
            return None
        return saved[3]


def version_of(contents: Iterable[str]) -> str:
    """Return the version of a set of contents; order and repetition do not matter."""
    return hashlib.sha256("\n".join(sorted(set(contents))).encode()).hexdigest()[:16]


def list_folder(folder: Path, skip: Path | None = None) -> Catalogue:
    """Return the files of a folder and its subfolders with sizes and times, none of them read; hashable ones are PENDING.

    Args:
        folder: where to look.
        skip: a subfolder to leave out: the home, if it lies inside, since its own JSON files are no hands.

    Raises:
        OSError: the folder itself cannot be listed.
    """
    root = folder.resolve(strict=True)
    with os.scandir(root):
        pass  # a folder that cannot be listed is an error, a subfolder that cannot is an entry
    found = list(_walk(root, None if skip is None else skip.resolve()))
    entries = sorted((entry for entry in found if entry is not None), key=lambda entry: entry.name)
    return Catalogue(folder=folder, entries=tuple(entries), num_ignored=len(found) - len(entries))


def scan(
    listing: Catalogue,
    memo: HashMemo,
    *,
    now_ns: int,
    settle_seconds: float = 0.0,
    max_bytes: int | None = None,
    on_hash: Callable[[FileEntry], None] = lambda _: None,
) -> Catalogue:
    """Return the listing with content hashes, from the memo or by reading; the memo is updated.

    Args:
        listing: from ``list_folder``.
        memo: of the same folder.
        now_ns: the present, as the file system's clock has it.
        settle_seconds: files that changed within this time are left out as UNSETTLED.
        max_bytes: stop reading files after so many bytes and leave the rest PENDING; no limit by default.
        on_hash: called before a file is read.
    """
    left = max_bytes
    entries = []
    fresh: dict[str, tuple[int, int, int, str]] = {}
    for listed in listing.entries:
        entry = listed
        if entry.status is FileStatus.PENDING:
            known = memo.known(entry)
            if now_ns - entry.ctime_ns < settle_seconds * 1e9:
                entry = replace(entry, status=FileStatus.UNSETTLED, reason=f"changed less than {settle_seconds:g} s ago")
            elif known is not None:
                entry = replace(entry, sha256=known, status=FileStatus.OK, reason="")
            elif left is None or left > 0:
                on_hash(entry)
                entry = _hashed(listing.folder, entry)
                left = None if left is None else left - entry.size_bytes
            if entry.sha256 and now_ns - max(entry.ctime_ns, entry.mtime_ns) > RACY_NS:
                fresh[entry.name] = (entry.size_bytes, entry.mtime_ns, entry.ctime_ns, entry.sha256)
        entries.append(entry)
    memo.hashes.clear()
    memo.hashes.update(fresh)
    return replace(listing, entries=tuple(entries))


def write_catalogue(path: Path, catalogue: Catalogue) -> None:
    """Write one row a file: name, size_bytes, mtime_ns, sha256, status, reason."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: Mapping[str, pa.DataType] = {
        "name": pa.string(),
        "size_bytes": pa.int64(),
        "mtime_ns": pa.int64(),
        "sha256": pa.string(),
        "status": pa.string(),
        "reason": pa.string(),
    }
    arrays = [pa.array([getattr(entry, name) for entry in catalogue.entries], kind) for name, kind in columns.items()]
    metadata = {"range_reader.folder": str(catalogue.folder), "range_reader.num_ignored": str(catalogue.num_ignored)}
    with written_aside(path) as aside:
        pq.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(columns.items(), metadata=metadata)), aside)


def read_catalogue(path: Path) -> Catalogue:
    """Return what ``write_catalogue`` wrote.

    Raises:
        FileNotFoundError: there is no catalogue yet.
    """
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    rows = [FileEntry(**{**row, "status": FileStatus(row["status"])}) for row in table.to_pylist()]
    metadata = table.schema.metadata
    return Catalogue(
        folder=Path(metadata[b"range_reader.folder"].decode()),
        entries=tuple(rows),
        num_ignored=int(metadata[b"range_reader.num_ignored"]),
    )


def _walk(root: Path, skip: Path | None) -> Iterator[FileEntry | None]:
    """Yield the hand histories below a folder, and None for each file that is none. A stack, since nesting may be hostile."""
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as found:
                items = list(found)
        except FileNotFoundError:
            continue  # removed meanwhile
        except OSError as error:
            yield FileEntry(name=_relative(folder, root) + "/", status=FileStatus.UNREADABLE, reason=error.strerror or str(error))
            continue
        for item in items:
            if item.name.startswith("."):
                yield None
            elif item.is_dir(follow_symlinks=False):
                if skip is None or Path(item.path) != skip:
                    folders.append(Path(item.path))
            elif content_suffix(item.name) is not None:
                yield _listed(item, root)
            elif _is_linked_folder(item):
                reason = "a linked folder; copy it into the folder instead"
                yield FileEntry(name=_relative(item.path, root) + "/", status=FileStatus.IRREGULAR, reason=reason)
            else:
                yield None


def _listed(item: "os.DirEntry[str]", root: Path) -> FileEntry:
    name = _relative(item.path, root)
    try:
        item.name.encode()
        # realpath, because Path.resolve raises RuntimeError at a loop of links before Python 3.13.
        if item.is_symlink() and not Path(os.path.realpath(item.path, strict=True)).is_relative_to(root):
            return FileEntry(name=name, status=FileStatus.OUTSIDE, reason="a link that leads out of the folder")
        status = item.stat()
    except UnicodeEncodeError:
        return FileEntry(name=name, status=FileStatus.IRREGULAR, reason="the file's name is not valid text")
    except FileNotFoundError:
        return FileEntry(name=name, status=FileStatus.OUTSIDE, reason="a link to nothing, or removed meanwhile")
    except OSError as error:  # a loop of links, or no permission
        return FileEntry(name=name, status=FileStatus.UNREADABLE, reason=error.strerror or str(error))
    if not stat.S_ISREG(status.st_mode):
        return FileEntry(name=name, status=FileStatus.IRREGULAR, reason="not a regular file")
    return FileEntry(
        name=name,
        size_bytes=status.st_size,
        mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns,
        status=FileStatus.PENDING,
        reason="not hashed yet",
    )


def _is_linked_folder(item: "os.DirEntry[str]") -> bool:
    try:
        return item.is_symlink() and item.is_dir()
    except OSError:  # a loop of links
        return False


def _hashed(folder: Path, entry: FileEntry) -> FileEntry:
    """Return the entry with the hash of its content, or with the reason why it has none."""
    try:
        with (folder / entry.name).open("rb", buffering=0) as stream:
            before = os.fstat(stream.fileno())
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            after = os.fstat(stream.fileno())
    except OSError as error:
        return replace(entry, status=FileStatus.UNREADABLE, reason=error.strerror or str(error))
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        return replace(entry, status=FileStatus.CHANGING, reason="changed while it was read; taken next time")
    return replace(
        entry,
        size_bytes=after.st_size,
        mtime_ns=after.st_mtime_ns,
        ctime_ns=after.st_ctime_ns,
        sha256=digest,
        status=FileStatus.OK,
        reason="",
    )


def _relative(path: str | Path, root: Path) -> str:
    # Cut off as text: pathlib takes 20 times as long. A root of "/" ends in the separator already.
    name = str(path)[len(str(root).rstrip(os.sep)) + 1 :]
    return writable(name.replace(os.sep, "/"))
