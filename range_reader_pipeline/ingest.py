"""From one input file to its cache entry, and from many files to theirs, spread over processes.

A file is parsed and encoded in chunks of hands, so memory does not grow with it. What is cached under a content hash was read
under that hash: the bytes are hashed as they pass, and a file that changed since the catalogue saw it leaves no entry. Records
that are refused become rejects, never exceptions. Order among files, splits and repeats across files are the shuffle's business.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from range_reader_core.encoder import ENCODER_VERSION, EncodingCounts, HandEncoder
from range_reader_core.hand import CanonicalHand
from range_reader_core.ohh_rejects import Reject
from range_reader_core.partition import hand_hashes
from range_reader_pipeline.notations import parse_hands
from range_reader_pipeline.reads_cache import EntryWriter, FileCounts, ReadsCache
from range_reader_pipeline.streams import HashingReader, PlainStream
from range_reader_pipeline.workers import Workers

CHUNK_HANDS: Final = 2_000
CHUNK_REJECTS: Final = 2_000
FILE_BROKEN: Final = "FILE_BROKEN"  # code of a compressed file that ends badly; what it held before counts


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTask:
    """A file to encode, as the catalogue saw it."""

    path: Path
    name: str  # for messages and rejects
    sha256: str
    cache: ReadsCache


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOutcome:
    """What came of a task."""

    name: str
    sha256: str
    counts: FileCounts | None  # None: no entry was made
    problem: str = ""  # why not


def open_cache(folder: Path) -> ReadsCache:
    """Return the cache for what this version of the code encodes."""
    return ReadsCache(folder, ENCODER_VERSION)


def ingest_file(task: FileTask) -> FileOutcome:
    """Parse and encode one file into its cache entry.

    Raises:
        OSError: the cache cannot be written. A file that cannot be read is an outcome, not an error.
    """
    try:
        source = HashingReader(task.path)
    except OSError as error:
        return FileOutcome(name=task.name, sha256=task.sha256, counts=None, problem=error.strerror or str(error))
    stream = PlainStream(source, task.path.name)
    try:
        with task.cache.writer(task.sha256) as entry, _without_garbage_collection():
            counts = _encode(stream, task.name, entry)
            _require_content(source, task.sha256)
            entry.finish(counts)
    except _ChangedError as error:
        return FileOutcome(name=task.name, sha256=task.sha256, counts=None, problem=str(error))
    except OSError:
        if source.error is None:
            raise
        return FileOutcome(name=task.name, sha256=task.sha256, counts=None, problem=str(source.error))
    finally:
        stream.close()
    return FileOutcome(name=task.name, sha256=task.sha256, counts=counts)


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
        counts = task.cache.counts(task.sha256)
        if counts is None:
            missing.append(task)
        else:
            outcomes[task.sha256] = FileOutcome(name=task.name, sha256=task.sha256, counts=counts)
    num_cached = len(outcomes)
    missing.sort(key=_size, reverse=True)
    encoded = workers.map(ingest_file, missing, lambda count, outcome: on_done(num_cached + count, outcome))
    outcomes.update((outcome.sha256, outcome) for outcome in encoded)
    return [outcomes[task.sha256] for task in tasks]


class _ChangedError(Exception):
    """The bytes read are not those that were catalogued."""


def _require_content(source: HashingReader, sha256: str) -> None:
    if source.sha256_to_end() != sha256:
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
    encoder = HandEncoder()
    encoding = EncodingCounts()
    by_code: dict[str, int] = {}
    num_rejected = 0
    is_failed = False
    hands: list[CanonicalHand] = []
    rejects: list[dict[str, Any]] = []
    for parsed in parse_hands(stream, name):
        if isinstance(parsed, CanonicalHand):
            hands.append(parsed)
            if len(hands) == CHUNK_HANDS:
                encoding += _add_hands(encoder, hands, entry)
                hands.clear()
        else:
            by_code[parsed.reason.value] = by_code.get(parsed.reason.value, 0) + 1
            num_rejected += not parsed.reason.is_file_level
            is_failed |= parsed.reason.is_file_level
            rejects.append(_reject_row(parsed))
            if len(rejects) == CHUNK_REJECTS:
                entry.add_rejects(rejects)
                rejects.clear()
    encoding += _add_hands(encoder, hands, entry)
    if stream.problem is not None:
        by_code[FILE_BROKEN] = 1
        is_failed = True
        rejects.append({"line": 0, "hand_id": "", "code": FILE_BROKEN, "message": stream.problem, "excerpt": ""})
    entry.add_rejects(rejects)
    return FileCounts(encoding=encoding, num_rejected=num_rejected, by_code=by_code, is_failed=is_failed)


def _add_hands(encoder: HandEncoder, hands: list[CanonicalHand], entry: EntryWriter) -> EncodingCounts:
    """Encode and store hands. Of hands with one id only the first has reads: it is the one that any repeat loses to."""
    hand_ids = [hand.hand_id for hand in hands]
    row_of_id = {hand_id: row for row, hand_id in reversed(list(enumerate(hand_ids)))}  # the first row of each
    is_unique = len(row_of_id) == len(hands)
    reads, counts = encoder.encode_hands(hands if is_unique else [hands[row] for row in sorted(row_of_id.values())])
    num_reads = np.zeros(len(hands), dtype=np.int64)
    rows = [row_of_id[hand_id] for hand_id in reads.hand_ids]
    num_reads[rows] = np.bincount(reads.hand_index, minlength=len(rows))
    entry.add_reads(reads)
    entry.add_hands(
        hand_ids,
        [hand.source for hand in hands],
        hand_hashes(hand_ids),
        [hand.content_hash for hand in hands],
        num_reads,
    )
    if is_unique:
        return counts
    return EncodingCounts(**{**asdict(counts), "num_hands": len(hands)})


def _reject_row(reject: Reject) -> dict[str, Any]:
    return {
        "line": reject.line,
        "hand_id": reject.hand_id,
        "code": reject.reason.value,
        "message": reject.message,
        "excerpt": reject.text,
    }
