"""From one input file to its cache entry, and from many files to theirs, spread over processes.

A file is parsed and encoded in chunks of hands, so memory does not grow with it. What is cached under a content was read
under it: the bytes are hashed as they pass, and a file that changed since the catalogue saw it leaves no entry. Records
that are refused become rejects, never exceptions. Order among files, splits and repeats across files are the shuffle's business.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from range_reader_core.encoder import ENCODER_VERSION, EncodingCounts, HandEncoder, pairs_of
from range_reader_core.hand import CanonicalHand
from range_reader_core.ohh_rejects import Reject, RejectReason
from range_reader_core.partition import hand_hashes
from range_reader_core.skeletons import NamedSkeletons, named_joined, skeletons_of
from range_reader_pipeline.notations import read_hands
from range_reader_pipeline.reads_cache import EntryWriter, FileCounts, ReadsCache
from range_reader_pipeline.streams import HashingReader, PlainStream
from range_reader_pipeline.workers import Workers

CACHE_VERSION: Final = "4"  # raise it when a file would be stored differently: the layout, or which hands an entry holds
CHUNK_HANDS: Final = 2_000
CHUNK_REJECTS: Final = 2_000
OTHER_GAMES: Final = frozenset(
    reason.value
    for reason in (
        RejectReason.GAME_TYPE,
        RejectReason.BET_TYPE,
        RejectReason.CAPPED,
        RejectReason.BOMB_POT,
        RejectReason.FILE_NO_HANDS,
    )
)
FILE_BROKEN: Final = "FILE_BROKEN"  # code of a compressed file that ends badly; what it held before counts


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTask:
    """A file to encode, as the catalogue saw it."""

    path: Path
    name: str  # for messages and rejects
    content: str  # see ``FileEntry.content``
    cache: ReadsCache


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOutcome:
    """What came of a task."""

    name: str
    content: str
    counts: FileCounts | None  # None: no entry was made
    problem: str = ""  # why not


def open_cache(folder: Path) -> ReadsCache:
    """Return the cache for what this version of the code encodes."""
    return ReadsCache(folder, f"{ENCODER_VERSION}_{CACHE_VERSION}")


def ingest_file(task: FileTask) -> FileOutcome:
    """Parse and encode one file into its cache entry.

    Raises:
        OSError: the cache cannot be written. A file that cannot be read is an outcome, not an error.
    """
    try:
        source = HashingReader(task.path)
    except OSError as error:
        return FileOutcome(name=task.name, content=task.content, counts=None, problem=error.strerror or str(error))
    stream = PlainStream(source, task.path.name)
    try:
        with task.cache.writer(task.content) as entry, _without_garbage_collection():
            counts = _encode(stream, task.name, entry)
            _require_content(source, task.content)
            entry.finish(counts)
    except _ChangedError as error:
        return FileOutcome(name=task.name, content=task.content, counts=None, problem=str(error))
    except OSError:
        if source.error is None:
            raise
        return FileOutcome(name=task.name, content=task.content, counts=None, problem=str(source.error))
    finally:
        stream.close()
    return FileOutcome(name=task.name, content=task.content, counts=counts)


def ingest_files(
    tasks: Sequence[FileTask], workers: Workers, on_done: Callable[[int, FileOutcome], None] = lambda *_: None
) -> list[FileOutcome]:
    """Return the outcomes of all tasks, in their order. Files that have an entry are not read.

    Args:
        tasks: one per content.
        workers: who does it; the largest files are started first.
        on_done: called with the number of finished files and the last outcome.
    """
    outcomes: dict[str, FileOutcome] = {}
    missing: list[FileTask] = []
    for task in tasks:
        counts = task.cache.counts(task.content)
        if counts is None:
            missing.append(task)
        else:
            outcomes[task.content] = FileOutcome(name=task.name, content=task.content, counts=counts)
    num_cached = len(outcomes)
    missing.sort(key=_size, reverse=True)
    encoded = workers.map(ingest_file, missing, lambda count, outcome: on_done(num_cached + count, outcome))
    outcomes.update((outcome.content, outcome) for outcome in encoded)
    return [outcomes[task.content] for task in tasks]


class _ChangedError(Exception):
    """The bytes read are not those that were catalogued."""


def _require_content(source: HashingReader, content: str) -> None:
    if not content.startswith(source.sha256_to_end()):
        msg = "changed since it was catalogued"
        raise _ChangedError(msg)


def _size(task: FileTask) -> int:
    try:
        return task.path.stat().st_size
    except OSError:
        return 0


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    # Millions of small tuples and no cycles: the collector walks them all again and again for nothing.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _encode(stream: PlainStream, name: str, entry: EntryWriter) -> FileCounts:
    hands = _Hands(entry)
    by_code: dict[str, int] = {}
    num_rejected = 0
    is_failed = False
    rejects: list[dict[str, Any]] = []
    for found in read_hands(stream, name):
        if isinstance(found, Reject):
            by_code[found.reason.value] = by_code.get(found.reason.value, 0) + 1
            num_rejected += not found.reason.is_file_level
            is_failed |= found.reason.is_file_level
            rejects.append(_reject_row(found))
            if len(rejects) == CHUNK_REJECTS:
                entry.add_rejects(rejects)
                rejects.clear()
        else:
            hands.add(found)
    if stream.problem is not None:
        by_code[FILE_BROKEN] = 1
        is_failed = True
        rejects.append({"line": 0, "hand_id": "", "code": FILE_BROKEN, "message": stream.problem, "excerpt": ""})
    entry.add_rejects(rejects)
    # A file of other games is nobody's fault and nothing to repair.
    is_failed &= not by_code.keys() <= OTHER_GAMES
    return FileCounts(encoding=hands.finish(), num_rejected=num_rejected, by_code=by_code, is_failed=is_failed)


class _Hands:
    """Collects hands in the order of the file and stores them in chunks."""

    def __init__(self, entry: EntryWriter) -> None:
        self._entry = entry
        self._encoder = HandEncoder()
        self._counts = EncodingCounts()
        self._parts: list[NamedSkeletons] = []
        self._single: list[CanonicalHand] = []  # that follow the parts
        self._num_hands = 0

    def add(self, hands: NamedSkeletons | CanonicalHand) -> None:
        if isinstance(hands, CanonicalHand):
            self._single.append(hands)
            self._num_hands += 1
        else:
            self._close_single()
            self._parts.append(hands)
            self._num_hands += hands.num_hands
        if self._num_hands >= CHUNK_HANDS:
            self._store()

    def finish(self) -> EncodingCounts:
        self._store()
        return self._counts

    def _close_single(self) -> None:
        if self._single:
            self._parts.append(skeletons_of(self._single))
            self._single.clear()

    def _store(self) -> None:
        self._close_single()
        if self._parts:
            hands = named_joined(self._parts)
            self._counts += self._encoder.counts_of(hands.skeletons, pairs_of(hands.skeletons))
            self._entry.add_hands(hands, hand_hashes(hands.hand_ids))
        self._parts.clear()
        self._num_hands = 0


def _reject_row(reject: Reject) -> dict[str, Any]:
    return {
        "line": reject.line,
        "hand_id": reject.hand_id,
        "code": reject.reason.value,
        "message": reject.message,
        "excerpt": reject.text,
    }
