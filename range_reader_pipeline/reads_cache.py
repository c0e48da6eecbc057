"""Encoded reads of single input files, by content: what lets a new file be added without encoding the others again.

A file's entry is named by the hash of its bytes and the version of the code that encoded it, and consists of ``.hands.parquet``
(one row a hand, those without reads too), ``.rejects.parquet`` (if there are any) and ``.parquet`` (the reads, in the order of
their hands). The reads are written last and hold the counts, so an entry without them does not exist. Pages carry checksums:
an entry damaged on disk raises ``CorruptCacheError`` and is encoded again. Nothing here knows other files, splits or order.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from range_reader_core.encoder import EncodingCounts
from range_reader_core.partition import HASH_BYTES
from range_reader_core.reads import Reads
from range_reader_pipeline.storage import written_aside

COUNTS_KEY: Final = b"range_reader.counts"
UNUSED_SECONDS: Final = 7 * 86_400  # entries that no catalogue names are kept so long, for files that come back

READS_SCHEMA: Final = pa.schema(
    [
        pa.field("actions", pa.list_(pa.uint16())),
        pa.field("values", pa.list_(pa.float32())),
        pa.field("villain_combo", pa.uint16()),
        pa.field("villain_seat", pa.uint8()),
        pa.field("perspective_seat", pa.uint8()),
        pa.field("num_players", pa.uint8()),
        pa.field("is_label_shown", pa.bool_()),
    ]
)
HANDS_SCHEMA: Final = pa.schema(
    [
        pa.field("hand_id", pa.string()),
        pa.field("source", pa.string()),
        pa.field("id_hash", pa.binary(HASH_BYTES)),  # decides side and place, and finds repeats without holding ids in memory
        pa.field("content_hash", pa.string()),  # tells a repeat from a conflict
        pa.field("num_reads", pa.uint16()),
    ]
)
REJECTS_SCHEMA: Final = pa.schema(
    [
        pa.field("line", pa.int64()),
        pa.field("hand_id", pa.string()),
        pa.field("code", pa.string()),
        pa.field("message", pa.string()),
        pa.field("excerpt", pa.string()),
    ]
)
_FAST: Final[dict[str, Any]] = {
    "compression": "lz4",
    "use_dictionary": False,
    "write_statistics": False,
    "write_page_checksum": True,
}


class CorruptCacheError(ValueError):
    """An entry cannot be read; ``sha256`` names the content that has to be encoded again."""

    def __init__(self, sha256: str, problem: str) -> None:
        """Name the content and the problem. Both are the exception's arguments, or it could not leave a worker process."""
        super().__init__(sha256, problem)
        self.sha256 = sha256
        self.problem = problem

    def __str__(self) -> str:
        """Return what a person should read."""
        return f"the cached reads of content {self.sha256[:16]} cannot be read ({self.problem})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCounts:
    """What became of one file's records."""

    encoding: EncodingCounts = field(default_factory=EncodingCounts)
    num_rejected: int = 0  # records, not counting reports on the whole file
    by_code: dict[str, int] = field(default_factory=dict)  # all rejects, those on the whole file included
    is_failed: bool = False  # the file as a whole was refused


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some of an entry's hands, with their reads in the order of the hands."""

    hand_ids: pa.Array
    id_hashes: npt.NDArray[np.uint64]  # (H, 2)
    sources: pa.Array
    num_reads: npt.NDArray[np.int64]  # (H,) per hand
    reads: pa.RecordBatch  # in READS_SCHEMA


class EntryWriter:
    """Takes one file's hands, reads and rejects, chunk by chunk."""

    def __init__(self, reads_path: Path, hands_path: Path, rejects_path: Path) -> None:
        """Open the entry's files."""
        self._reads = pq.ParquetWriter(reads_path, READS_SCHEMA, **_FAST)
        self._hands = pq.ParquetWriter(hands_path, HANDS_SCHEMA, **_FAST)
        self._rejects = pq.ParquetWriter(rejects_path, REJECTS_SCHEMA, compression="zstd", write_statistics=False)
        self.has_rejects = False

    def add_reads(self, reads: Reads) -> None:
        """Append reads, which belong to the hands added next, in order."""
        offsets = pa.array(reads.offsets.astype(np.int32))
        columns = [
            pa.ListArray.from_arrays(offsets, pa.array(reads.tokens)),
            pa.ListArray.from_arrays(offsets, pa.array(reads.values)),
            pa.array(reads.villain_combo),
            pa.array(reads.villain_seat),
            pa.array(reads.perspective_seat),
            pa.array(reads.num_players),
            pa.array(reads.is_label_shown),
        ]
        self._reads.write_table(pa.Table.from_arrays(columns, schema=READS_SCHEMA))

    def add_hands(
        self,
        hand_ids: Sequence[str],
        sources: Sequence[str],
        id_hashes: npt.NDArray[np.uint64],
        content_hashes: Sequence[str],
        num_reads: npt.NDArray[np.int64],
    ) -> None:
        """Append hands, with the (H, 2) hashes of their ids."""
        columns = [
            pa.array(hand_ids, pa.string()),
            pa.array(sources, pa.string()),
            pa.FixedSizeBinaryArray.from_buffers(pa.binary(HASH_BYTES), len(hand_ids), [None, pa.py_buffer(id_hashes.tobytes())]),
            pa.array(content_hashes, pa.string()),
            pa.array(num_reads.astype(np.uint16)),
        ]
        self._hands.write_table(pa.Table.from_arrays(columns, schema=HANDS_SCHEMA))

    def add_rejects(self, rows: Sequence[dict[str, Any]]) -> None:
        """Append rejects, as rows of ``REJECTS_SCHEMA``."""
        if rows:
            self.has_rejects = True
            self._rejects.write_table(pa.Table.from_pylist(rows, schema=REJECTS_SCHEMA))

    def finish(self, counts: FileCounts) -> None:
        """Store the counts and close the files."""
        self._reads.add_key_value_metadata({COUNTS_KEY: json.dumps(asdict(counts), sort_keys=True).encode()})
        self.close()

    def close(self) -> None:
        """Close the files; harmless when they are closed."""
        for writer in (self._reads, self._hands, self._rejects):
            writer.close()


@dataclass(frozen=True, slots=True)
class ReadsCache:
    """The entries of one folder written by one version of the code."""

    folder: Path
    version: str  # of parser and encoder

    def path(self, sha256: str) -> Path:
        """Return where the reads of this content are kept."""
        return self.folder / f"{sha256}-{self.version}.parquet"

    @contextmanager
    def writer(self, sha256: str) -> Iterator[EntryWriter]:
        """Yield a writer; on leaving, the entry appears at once, on an error nothing does."""
        path = self.path(sha256)
        hands_path, rejects_path = _hands_path(path), _rejects_path(path)
        # Leaving renames in reverse: rejects, hands, and the reads last.
        with written_aside(path) as reads, written_aside(hands_path) as hands, written_aside(rejects_path) as rejects:
            entry = EntryWriter(reads, hands, rejects)
            try:
                yield entry
            finally:
                entry.close()

    def counts(self, sha256: str) -> FileCounts | None:
        """Return the counts of an entry, None where there is no entry or it cannot be read."""
        path = self.path(sha256)
        try:
            metadata = pq.read_metadata(path).metadata or {}
            fields = json.loads(metadata[COUNTS_KEY])
            counts = FileCounts(**{**fields, "encoding": EncodingCounts(**fields["encoding"])})
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
            return None
        is_whole = _hands_path(path).exists() and _rejects_path(path).exists()
        return counts if is_whole else None

    def id_hashes(self, sha256: str) -> npt.NDArray[np.uint64]:
        """Return the hashes of the ids of an entry's hands, shape (H, 2).

        Raises:
            CorruptCacheError: they cannot be read.
        """
        return _words(self._hands_column(sha256, "id_hash"))

    def hand_texts(self, sha256: str, column: str) -> pa.Array:
        """Return ``hand_id``, ``source`` or ``content_hash`` of an entry's hands.

        Raises:
            CorruptCacheError: they cannot be read.
        """
        return self._hands_column(sha256, column).combine_chunks()

    def chunks(self, sha256: str) -> Iterator[Chunk]:
        """Yield an entry's hands and reads, a few thousand hands at a time.

        Raises:
            CorruptCacheError: they cannot be read.
        """
        path = self.path(sha256)
        with (
            self._reading(sha256),
            pq.ParquetFile(_hands_path(path), page_checksum_verification=True) as hands_file,
            pq.ParquetFile(path, page_checksum_verification=True) as reads_file,
        ):
            for group in range(hands_file.num_row_groups):  # the writer makes one of each per chunk
                hands = hands_file.read_row_group(group, columns=["hand_id", "id_hash", "source", "num_reads"]).combine_chunks()
                reads = reads_file.read_row_group(group).combine_chunks()
                if not reads.num_rows:
                    continue
                yield Chunk(
                    hand_ids=hands["hand_id"].chunk(0),
                    id_hashes=_words(hands["id_hash"]),
                    sources=hands["source"].chunk(0),
                    num_reads=hands["num_reads"].to_numpy().astype(np.int64),
                    reads=reads.to_batches()[0],
                )

    def rejects(self, sha256: str) -> Iterator[pa.Table]:
        """Yield an entry's rejects in ``REJECTS_SCHEMA``, a part at a time.

        Raises:
            CorruptCacheError: they cannot be read.
        """
        with self._reading(sha256), pq.ParquetFile(_rejects_path(self.path(sha256))) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group)

    def discard(self, sha256: str) -> None:
        """Remove an entry."""
        path = self.path(sha256)
        for part in (path, _hands_path(path), _rejects_path(path)):
            part.unlink(missing_ok=True)

    def prune(self, keep: set[str]) -> int:
        """Remove entries of contents not in ``keep`` that were not written lately, and return how many files went."""
        if not self.folder.is_dir():
            return 0
        oldest = time.time() - UNUSED_SECONDS
        num_removed = 0
        for path in self.folder.glob("*.parquet"):
            sha256, _, rest = path.name.partition("-")
            is_current = sha256 in keep and rest.partition(".")[0] == self.version
            if not is_current and path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)
                num_removed += 1
        return num_removed

    def _hands_column(self, sha256: str, column: str) -> pa.ChunkedArray:
        with self._reading(sha256):
            return pq.read_table(_hands_path(self.path(sha256)), columns=[column], page_checksum_verification=True)[column]

    @contextmanager
    def _reading(self, sha256: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException, KeyError) as error:
            raise CorruptCacheError(sha256, str(error)) from error


def _hands_path(path: Path) -> Path:
    return path.with_suffix(".hands.parquet")


def _rejects_path(path: Path) -> Path:
    return path.with_suffix(".rejects.parquet")


def _words(column: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """Return 16-byte hashes as pairs of words, shape (H, 2)."""
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    joined = b"".join(chunk.buffers()[1][HASH_BYTES * chunk.offset : HASH_BYTES * (chunk.offset + len(chunk))] for chunk in chunks)
    return np.frombuffer(joined, dtype="<u8").reshape(-1, 2)
