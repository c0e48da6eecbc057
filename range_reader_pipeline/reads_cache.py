"""Encoded hands of single input files, by content: what lets a new file be added without encoding the others again.

A file's entry is named by its content (the hash of its bytes and how its name says to read them) and the version of the code
that encoded it. It consists of ``.arrow``, one row a hand with its skeleton and hole cards once, of which the shuffle makes the
reads, and ``.rejects.parquet``. The rejects are written last and hold the counts, so an entry without them does not exist. Both
carry checksums: an entry damaged on disk raises ``CorruptCacheError`` and is encoded again. Nothing here knows other files, splits
or order.
"""

import json
import time
import zlib
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
from range_reader_core.skeletons import NamedSkeletons, Skeletons
from range_reader_pipeline.storage import written_aside

COUNTS_KEY: Final = b"range_reader.counts"
UNUSED_SECONDS: Final = 7 * 86_400  # entries that no catalogue names are kept so long, for files that come back

HANDS_SCHEMA: Final = pa.schema(
    [
        pa.field("hand_id", pa.string()),
        pa.field("source", pa.string()),
        pa.field("id_hash", pa.binary(HASH_BYTES)),  # decides side and place, and finds repeats without holding ids in memory
        pa.field("digest", pa.uint64()),  # tells a repeat from a conflict
        pa.field("tokens", pa.list_(pa.uint16())),  # of the skeleton
        pa.field("values", pa.list_(pa.float32())),
        pa.field("combos", pa.list_(pa.int16())),  # per seat
        pa.field("is_shown", pa.list_(pa.bool_())),  # per seat
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
CHECKSUM_KEY: Final = b"range_reader.crc32"  # of the file of hands
BLOCK_BYTES: Final = 1 << 20
# Alone, since the threads of a pool keep memory of their own (15 MB; 2026-11).
_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


class CorruptCacheError(ValueError):
    """An entry cannot be read; ``content`` names what has to be encoded again."""

    def __init__(self, content: str, problem: str) -> None:
        """Name the content and the problem. Both are the exception's arguments, or it could not leave a worker process."""
        super().__init__(content, problem)
        self.content = content
        self.problem = problem

    def __str__(self) -> str:
        """Return what a person should read."""
        return f"the cached reads of content {self.content[:16]} cannot be read ({self.problem})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCounts:
    """What became of one file's records."""

    encoding: EncodingCounts = field(default_factory=EncodingCounts)
    num_rejected: int = 0  # records, not counting reports on the whole file
    by_code: dict[str, int] = field(default_factory=dict)  # all rejects, those on the whole file included
    is_failed: bool = False  # the file as a whole was refused, and not because it holds other games


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some of an entry's hands."""

    hand_ids: pa.Array
    sources: pa.Array
    id_hashes: npt.NDArray[np.uint64]  # (H, 2)
    skeletons: Skeletons


class EntryWriter:
    """Takes one file's hands and rejects, chunk by chunk."""

    def __init__(self, hands_path: Path, rejects_path: Path) -> None:
        """Open the entry's files."""
        self._hands_path = hands_path
        self._sink = pa.OSFile(str(hands_path), "wb")
        self._hands = pa.ipc.new_file(self._sink, HANDS_SCHEMA, options=_COMPRESSED)
        self._rejects = pq.ParquetWriter(
            rejects_path, REJECTS_SCHEMA, compression="zstd", write_statistics=False, write_page_checksum=True
        )

    def add_hands(self, hands: NamedSkeletons, id_hashes: npt.NDArray[np.uint64]) -> None:
        """Append hands, with the (H, 2) hashes of their ids."""
        skeletons = hands.skeletons
        columns = [
            pa.array(hands.hand_ids, pa.string()),
            pa.DictionaryArray.from_arrays(pa.array(hands.source_index), pa.array(hands.sources, pa.string())).cast(pa.string()),
            pa.FixedSizeBinaryArray.from_buffers(pa.binary(HASH_BYTES), len(id_hashes), [None, pa.py_buffer(id_hashes.tobytes())]),
            pa.array(hands.digests),
            _lists(skeletons.tokens, skeletons.lengths),
            _lists(skeletons.values, skeletons.lengths),
            _lists(skeletons.combos, skeletons.num_players),
            _lists(skeletons.is_shown, skeletons.num_players),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=HANDS_SCHEMA)
        self._hands.write_batch(batch)

    def add_rejects(self, rows: Sequence[dict[str, Any]]) -> None:
        """Append rejects, as rows of ``REJECTS_SCHEMA``."""
        if rows:
            self._rejects.write_table(pa.Table.from_pylist(rows, schema=REJECTS_SCHEMA))

    def finish(self, counts: FileCounts) -> None:
        """Store the counts and close the files."""
        self._close_hands()
        counted = json.dumps(asdict(counts), sort_keys=True).encode()
        self._rejects.add_key_value_metadata({COUNTS_KEY: counted, CHECKSUM_KEY: _checksum(self._hands_path).encode()})
        self.close()

    def close(self) -> None:
        """Close the files; harmless when they are closed."""
        self._close_hands()
        self._rejects.close()

    def _close_hands(self) -> None:
        if not self._sink.closed:
            self._hands.close()
            self._sink.close()


@dataclass(frozen=True, slots=True)
class ReadsCache:
    """The entries of one folder written by one version of the code."""

    folder: Path
    version: str  # of parser and encoder

    def path(self, content: str) -> Path:
        """Return where the hands of this content are kept."""
        return self.folder / f"{content}-{self.version}.arrow"

    @contextmanager
    def writer(self, content: str) -> Iterator[EntryWriter]:
        """Yield a writer; on leaving, the entry appears at once, on an error nothing does."""
        path = self.path(content)
        # Leaving renames in reverse: the rejects, which hold the counts, last.
        with written_aside(_rejects_path(path)) as rejects, written_aside(path) as hands:
            entry = EntryWriter(hands, rejects)
            try:
                yield entry
            finally:
                entry.close()

    def counts(self, content: str) -> FileCounts | None:
        """Return the counts of an entry, None where there is no entry or it cannot be read."""
        try:
            fields = json.loads(self._metadata(content)[COUNTS_KEY])
            counts = FileCounts(**{**fields, "encoding": EncodingCounts(**fields["encoding"])})
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
            return None
        return counts if self.path(content).exists() else None

    def _metadata(self, content: str) -> dict[bytes, bytes]:
        return pq.read_metadata(_rejects_path(self.path(content))).metadata or {}

    def id_hashes(self, content: str) -> npt.NDArray[np.uint64]:
        """Return the hashes of the ids of an entry's hands, shape (H, 2).

        Raises:
            CorruptCacheError: they cannot be read.
        """
        return _words(self.hands_column(content, "id_hash"))

    def hands_column(self, content: str, column: str) -> pa.ChunkedArray:
        """Return one column of ``HANDS_SCHEMA``.

        Raises:
            CorruptCacheError: it cannot be read.
        """
        with self._reading(content):
            return pa.chunked_array([batch[column] for batch in self._batches(content, [column])], HANDS_SCHEMA.field(column).type)

    def chunks(self, content: str) -> Iterator[Chunk]:
        """Yield an entry's hands, a few thousand at a time.

        Raises:
            CorruptCacheError: they cannot be read.
        """
        with self._reading(content):
            for batch in self._batches(content):
                skeletons = Skeletons(
                    tokens=batch["tokens"].flatten().to_numpy(),
                    values=batch["values"].flatten().to_numpy(),
                    lengths=np.diff(batch["tokens"].offsets.to_numpy()).astype(np.int64),
                    num_players=np.diff(batch["combos"].offsets.to_numpy()).astype(np.int64),
                    combos=batch["combos"].flatten().to_numpy(),
                    is_shown=batch["is_shown"].flatten().to_numpy(zero_copy_only=False),
                )
                yield Chunk(batch["hand_id"], batch["source"], _words(pa.chunked_array([batch["id_hash"]])), skeletons)

    def _batches(self, content: str, columns: Sequence[str] = tuple(HANDS_SCHEMA.names)) -> Iterator[pa.RecordBatch]:
        """Yield the batches of an entry, once it is found sound."""
        path = self.path(content)
        if _checksum(path).encode() != self._metadata(content)[CHECKSUM_KEY]:
            raise CorruptCacheError(content, "its checksum is wrong")
        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=[HANDS_SCHEMA.get_field_index(name) for name in columns])
        with pa.OSFile(str(path)) as source, pa.ipc.open_file(source, options=options) as file:
            for index in range(file.num_record_batches):
                yield file.get_batch(index)

    def rejects(self, content: str) -> Iterator[pa.Table]:
        """Yield an entry's rejects in ``REJECTS_SCHEMA``, a part at a time.

        Raises:
            CorruptCacheError: they cannot be read.
        """
        with (
            self._reading(content),
            pq.ParquetFile(_rejects_path(self.path(content)), page_checksum_verification=True) as file,
        ):
            for group in range(file.num_row_groups):
                yield file.read_row_group(group)

    def discard(self, content: str) -> None:
        """Remove an entry."""
        path = self.path(content)
        for part in (path, _rejects_path(path)):
            part.unlink(missing_ok=True)

    def prune(self, keep: set[str]) -> int:
        """Remove entries of contents not in ``keep`` that were not written lately, and return how many files went."""
        if not self.folder.is_dir():
            return 0
        oldest = time.time() - UNUSED_SECONDS
        num_removed = 0
        for path in (*self.folder.glob("*.arrow"), *self.folder.glob("*.parquet")):
            content, _, rest = path.name.rpartition("-")
            is_current = content in keep and rest.partition(".")[0] == self.version
            if not is_current and path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)
                num_removed += 1
        return num_removed

    @contextmanager
    def _reading(self, content: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException, KeyError) as error:
            raise CorruptCacheError(content, str(error)) from error


def _rejects_path(path: Path) -> Path:
    return path.with_suffix(".rejects.parquet")


def _words(column: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """Return 16-byte hashes as pairs of words, shape (H, 2)."""
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    joined = b"".join(chunk.buffers()[1][HASH_BYTES * chunk.offset : HASH_BYTES * (chunk.offset + len(chunk))] for chunk in chunks)
    return np.frombuffer(joined, dtype="<u8").reshape(-1, 2)


def _lists(items: npt.NDArray[Any], lengths: npt.NDArray[np.int64]) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(items))


def _checksum(path: Path) -> str:
    """Return a checksum of a file. Arrow must not see a damaged one: it takes the process down."""
    total = 0
    with path.open("rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            total = zlib.crc32(block, total)
    return f"{total:08x}"
