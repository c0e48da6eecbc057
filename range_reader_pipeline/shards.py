"""The rows of a shard: their columns and order, how reads become such rows, and how a split becomes reads again.

This is the one place that knows the layout, for the cache of encoded files, for the shuffle and for whoever trains. A shard is
an ordinary parquet file that anyone can open; its schema's metadata names the vocabulary, because ids mean nothing under
another one. Rows lie in the order of the keyed shuffle, so any prefix of a split is a uniform sample of it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from range_reader_core.hand import LabelSource
from range_reader_core.reads import Reads
from range_reader_core.tokens import VOCABULARY_HASH

_Number = TypeVar("_Number", bound=np.generic)

VOCABULARY_KEY: Final = b"range_reader.vocabulary"
SHARD_SCHEMA: Final = pa.schema(
    [
        pa.field("actions", pa.list_(pa.uint16())),
        pa.field("values", pa.list_(pa.float32())),
        pa.field("villain_combo", pa.uint16()),
        pa.field("hand_id", pa.string()),
        pa.field("villain_seat", pa.uint8()),
        pa.field("perspective_seat", pa.uint8()),
        pa.field("num_players", pa.uint8()),
        pa.field("source", pa.string()),
        pa.field("label_source", pa.string()),
    ],
    metadata={VOCABULARY_KEY: VOCABULARY_HASH.encode()},
)
COLUMN_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "actions": "token ids of the public record and the perspective's cards, in order",
    "values": "big blinds each action adds; the stack at a sit token, 0 where no chips move",
    "villain_combo": "the target: the villain's two cards as a combo 0..1325",
    "hand_id": "source and game number, or a content hash where there is none",
    "villain_seat": "seat whose cards are read, 0-based and clockwise",
    "perspective_seat": "seat that reads, whose cards are visible",
    "num_players": "players dealt in",
    "source": "site and network as the file names them",
    "label_source": "dealt: the cards were in the record; shown: known only because they were shown",
}


def shard_name(index: int) -> str:
    """Return the file name of a shard."""
    return f"shard_{index:05d}.parquet"


def split_shards(data_folder: Path, split: str) -> list[Path]:
    """Return the shards of a split, in order.

    Raises:
        ValueError: the folder holds no shard of this split.
    """
    shards = sorted((data_folder / split).glob("shard_*.parquet"))
    if not shards:
        msg = f"{data_folder / split} holds no shards; materialize encoded_shards first"
        raise ValueError(msg)
    return shards


def load_split(data_folder: Path, split: str, max_reads: int | None = None) -> Reads:
    """Return the reads of a split, shard by shard in the order of the shuffle.

    Args:
        data_folder: a folder of shards, or the link to one; a link is followed once, so a publication meanwhile changes nothing.
        split: ``train``, ``val`` or ``test``.
        max_reads: stop after so many; what is returned is a uniform sample of the split's reads.

    Raises:
        ValueError: there are no shards, one is damaged, or they were written with another vocabulary.
    """
    folder = data_folder.resolve()
    parts: list[pa.Table] = []
    num_reads = 0
    for path in split_shards(folder, split):
        part = _read(path)
        _check_vocabulary(part.schema, path)
        parts.append(part if max_reads is None else part.slice(0, max_reads - num_reads))
        num_reads += len(parts[-1])
        if max_reads is not None and num_reads >= max_reads:
            break
    return reads_of_table(pa.concat_tables(parts))


def reads_of_table(table: pa.Table) -> Reads:
    """Return the rows of a table in ``SHARD_SCHEMA`` as reads, in order, in arrays of their own that may be written to."""
    hand_index, hand_ids = _coded(table["hand_id"])
    source_index, sources = _coded(table["source"])
    return Reads(
        tokens=_items(table["actions"], np.uint16),
        values=_items(table["values"], np.float32),
        offsets=_offsets(table["actions"]),
        villain_combo=_own(table["villain_combo"].to_numpy()),
        villain_seat=_own(table["villain_seat"].to_numpy()),
        perspective_seat=_own(table["perspective_seat"].to_numpy()),
        num_players=_own(table["num_players"].to_numpy()),
        hand_index=hand_index,
        hand_ids=hand_ids,
        source_index=source_index,
        sources=sources,
        is_label_shown=_own(pc.equal(table["label_source"], LabelSource.SHOWN.value).to_numpy()),
    )


def table_of_reads(reads: Reads) -> pa.Table:
    """Return reads as a table in ``SHARD_SCHEMA``, in order. Token and value arrays are shared, not copied."""
    offsets = pa.array(reads.offsets.astype(np.int32))
    labels = pa.DictionaryArray.from_arrays(
        pa.array(reads.is_label_shown.astype(np.int8)), pa.array([LabelSource.DEALT.value, LabelSource.SHOWN.value])
    )
    columns = [
        pa.ListArray.from_arrays(offsets, pa.array(reads.tokens)),
        pa.ListArray.from_arrays(offsets, pa.array(reads.values)),
        pa.array(reads.villain_combo),
        pa.array(reads.hand_ids, pa.string()).take(pa.array(reads.hand_index)),
        pa.array(reads.villain_seat),
        pa.array(reads.perspective_seat),
        pa.array(reads.num_players),
        pa.array(reads.sources, pa.string()).take(pa.array(reads.source_index)),
        labels.cast(pa.string()),
    ]
    return pa.Table.from_arrays(columns, schema=SHARD_SCHEMA)


def _read(path: Path) -> pa.Table:
    try:
        return pq.read_table(path, columns=[*SHARD_SCHEMA.names], page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, FileNotFoundError):
            raise
        msg = f"{path} is damaged on disk ({error}): delete the file and materialize encoded_shards again"
        raise ValueError(msg) from error


def _check_vocabulary(schema: pa.Schema, path: Path) -> None:
    seen = (schema.metadata or {}).get(VOCABULARY_KEY, b"none").decode()
    if seen != VOCABULARY_HASH:
        msg = f"{path}: shards use vocabulary {seen}, this code uses {VOCABULARY_HASH}; materialize encoded_shards again"
        raise ValueError(msg)


def _items(column: pa.ChunkedArray, dtype: type[_Number]) -> npt.NDArray[_Number]:
    """Return the list items of all rows as one array."""
    return np.concatenate([np.zeros(0, dtype=dtype), *(chunk.flatten().to_numpy() for chunk in column.chunks)])


def _offsets(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return where each row's items begin, and the end: shape (N + 1,)."""
    offsets = np.zeros(len(column) + 1, dtype=np.int64)
    lengths = [np.diff(chunk.offsets.to_numpy()) for chunk in column.chunks]
    np.cumsum(np.concatenate([np.zeros(0, dtype=np.int64), *lengths]), out=offsets[1:])
    return offsets


def _own(array: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    # Arrow's memory is read-only, and torch warns about such arrays.
    return array if array.flags.writeable else array.copy()


def _coded(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Return a text column as indices into its distinct values, in order of first appearance."""
    coded = column.dictionary_encode().unify_dictionaries()
    indices = [np.zeros(0, dtype=np.int64), *(chunk.indices.to_numpy() for chunk in coded.chunks)]
    texts = coded.chunk(0).dictionary.to_pylist() if coded.num_chunks else []
    return np.concatenate(indices), tuple(texts)
