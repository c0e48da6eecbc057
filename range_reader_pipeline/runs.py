"""Runs: the reads of a bounded number of hands, sorted by split and key, from which the shuffle takes its shards.

The hands of a run come out of the cache once and stay as skeletons; rows are made of them a few thousand at a time, in their final
order, so no process ever holds the rows of a run, which are ten times as large. A run goes to a file in pieces, each of which knows
its range of keys, or stays in memory where there is no other. Which reads make which run leaves no trace in the shards.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from range_reader_core.encoder import HandEncoder, Pairs, pairs_of
from range_reader_core.hand import LabelSource
from range_reader_core.partition import SPLITS, read_keys, splits_of
from range_reader_core.skeletons import Skeletons, joined
from range_reader_pipeline.reads_cache import Chunk, ReadsCache
from range_reader_pipeline.shards import SHARD_SCHEMA

RUN_SCHEMA: Final = SHARD_SCHEMA.append(pa.field("key", pa.uint64()))
ROWS_READS: Final = 1 << 14  # made at a time: about 4 MB
PIECE_READS: Final = 1 << 12  # of a run in a file: what a shard reads of its neighbours is half as much at either end


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTask:
    """The files whose reads make a run, or several where they are more than ``max_reads``."""

    cache: ReadsCache
    contents: tuple[str, ...]
    dropped: dict[str, npt.NDArray[np.int64]]  # rows of hands, by content
    seed: int
    is_dealt_only: bool  # leave out villains whose cards are known only because they were shown
    max_reads: int
    folder: Path | None  # None: the one run is kept in memory
    name: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A batch of a run's file: reads of one split that follow each other."""

    split: str
    lowest: int  # keys
    highest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A finished run: in a file of these pieces, or in memory."""

    path: Path | None
    pieces: tuple[Piece, ...]  # in the order of the file
    reads: "SortedReads | None"
    num_reads: dict[str, int]  # by split
    num_hands: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedReads:
    """The reads of a run, by split, then by key; equal keys by what they are keys of."""

    skeletons: Skeletons
    hand_ids: pa.Array
    sources: pa.Array
    pairs: Pairs
    key: npt.NDArray[np.uint64]  # (N,)
    ends: tuple[int, ...]  # where each split begins, and the end

    def between(self, split: str, lowest: int, highest: int) -> range:
        """Return which reads of a split have keys from ``lowest`` to ``highest``."""
        place = SPLITS.index(split)
        begin, end = self.ends[place : place + 2]
        key = self.key[begin:end]
        first = int(np.searchsorted(key, np.uint64(lowest)))
        return range(begin + first, begin + int(np.searchsorted(key, np.uint64(highest), side="right")))

    def rows(self, reads: range) -> pa.RecordBatch:
        """Return reads that follow each other in ``RUN_SCHEMA``."""
        pairs = self.pairs.take(np.arange(reads.start, reads.stop))
        tokens, values, offsets = HandEncoder().inputs_of(self.skeletons, pairs)
        starts = pa.array(offsets.astype(np.int32))
        villain = pairs.villain_places(self.skeletons)
        hand = pa.array(pairs.of_hand)
        columns = {
            "actions": pa.ListArray.from_arrays(starts, pa.array(tokens)),
            "values": pa.ListArray.from_arrays(starts, pa.array(values)),
            "villain_combo": pa.array(self.skeletons.combos[villain].astype(np.uint16)),
            "hand_id": self.hand_ids.take(hand),
            "villain_seat": pa.array(pairs.villain.astype(np.uint8)),
            "perspective_seat": pa.array(pairs.perspective.astype(np.uint8)),
            "num_players": pa.array(self.skeletons.num_players[pairs.of_hand].astype(np.uint8)),
            "source": self.sources.take(hand),
            "label_source": _LABELS.take(pa.array(self.skeletons.is_shown[villain].astype(np.int8))),
            "key": pa.array(self.key[reads.start : reads.stop]),
        }
        return pa.RecordBatch.from_arrays([columns[name] for name in RUN_SCHEMA.names], schema=RUN_SCHEMA)


def make_runs(task: RunTask) -> list[Run]:
    """Return the runs of a task.

    Raises:
        CorruptCacheError: an entry cannot be read.
        OSError: the disk refused.
    """
    runs: list[Run] = []
    parts: list[_Part] = []
    num_reads = 0
    for part in _parts(task):
        parts.append(part)
        num_reads += len(part.key)
        if num_reads >= task.max_reads:
            runs.append(_run(task, len(runs), _sorted(parts)))
            parts, num_reads = [], 0
    if num_reads:
        runs.append(_run(task, len(runs), _sorted(parts)))
    return runs


def pieces_of(run: Run, wanted: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Yield some of the pieces of a run's file.

    They are read, not mapped: what is mapped counts as this process's memory and comes in page by page.
    """
    with pa.OSFile(str(run.path)) as source, pa.ipc.open_file(source) as file:
        for index in wanted:
            yield file.get_batch(index)


@dataclass(frozen=True, slots=True)
class _Part:
    """The reads of one chunk that count."""

    chunk: Chunk
    pairs: Pairs
    key: npt.NDArray[np.uint64]  # (N,)
    split: npt.NDArray[np.uint8]  # (N,)


def _parts(task: RunTask) -> Iterator[_Part]:
    for content in task.contents:
        first_row = 0
        dropped = task.dropped.get(content, np.zeros(0, dtype=np.int64))
        for chunk in task.cache.chunks(content):
            num_hands = chunk.skeletons.num_hands
            here = dropped[(dropped >= first_row) & (dropped < first_row + num_hands)] - first_row
            first_row += num_hands
            yield _keyed(chunk, here, task)


def _keyed(chunk: Chunk, dropped: npt.NDArray[np.int64], task: RunTask) -> _Part:
    pairs = pairs_of(chunk.skeletons)
    if len(dropped):
        pairs = pairs.take(np.flatnonzero(~np.isin(pairs.of_hand, dropped)))
    if task.is_dealt_only:
        pairs = pairs.take(np.flatnonzero(~chunk.skeletons.is_shown[pairs.villain_places(chunk.skeletons)]))
    key = read_keys(task.seed, chunk.id_hashes, pairs.of_hand, pairs.villain.astype(np.uint8), pairs.perspective.astype(np.uint8))
    return _Part(chunk, pairs, key, splits_of(chunk.id_hashes)[pairs.of_hand])


def _sorted(parts: Sequence[_Part]) -> SortedReads:
    first_hand = np.cumsum([0, *(part.chunk.skeletons.num_hands for part in parts)])
    hand_ids = pa.concat_arrays([part.chunk.hand_ids for part in parts])
    pairs = Pairs(
        of_hand=np.concatenate([part.pairs.of_hand + first for part, first in zip(parts, first_hand[:-1], strict=True)]),
        villain=np.concatenate([part.pairs.villain for part in parts]),
        perspective=np.concatenate([part.pairs.perspective for part in parts]),
        is_walk=np.zeros(0, dtype=np.bool_),
    )
    key = np.concatenate([part.key for part in parts])
    split = np.concatenate([part.split for part in parts])
    by_key = np.argsort(key)
    if (key[by_key][1:] == key[by_key][:-1]).any():
        columns = [key, hand_ids.take(pa.array(pairs.of_hand)), pairs.villain, pairs.perspective]
        by_key = order_of(pa.table(columns, names=_ORDER))
    order = by_key[np.argsort(split[by_key], kind="stable")]  # a radix sort of bytes, three times as fast as a lexsort
    return SortedReads(
        skeletons=joined([part.chunk.skeletons for part in parts]),
        hand_ids=hand_ids,
        sources=pa.concat_arrays([part.chunk.sources for part in parts]),
        pairs=pairs.take(order),
        key=key[order],
        ends=tuple(np.searchsorted(split[order], np.arange(len(SPLITS) + 1)).tolist()),
    )


def order_of(table: pa.Table) -> npt.NDArray[np.int64]:
    """Return rows by key; keys that collide, by what they are keys of, so that no trace of the runs is left."""
    key = table["key"].to_numpy()
    order = np.argsort(key, kind="stable")
    if not (key[order][1:] == key[order][:-1]).any():
        return order
    return np.asarray(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in _ORDER]), dtype=np.int64)


def _run(task: RunTask, index: int, reads: SortedReads) -> Run:
    path = None if task.folder is None else task.folder / f"{task.name}_{index:06d}.arrow"
    splits = {split: slice(begin, end) for split, (begin, end) in zip(SPLITS, pairwise(reads.ends), strict=True)}
    return Run(
        path=path,
        pieces=() if path is None else tuple(_written(reads, path)),
        reads=reads if path is None else None,
        num_reads={split: part.stop - part.start for split, part in splits.items()},
        num_hands={split: int(np.count_nonzero(np.bincount(reads.pairs.of_hand[part]))) for split, part in splits.items()},
    )


def _written(reads: SortedReads, path: Path) -> Iterator[Piece]:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, RUN_SCHEMA) as writer:
        for split, (begin, end) in zip(SPLITS, pairwise(reads.ends), strict=True):
            for first in range(begin, end, ROWS_READS):
                rows = reads.rows(range(first, min(first + ROWS_READS, end)))
                for place in range(0, rows.num_rows, PIECE_READS):
                    piece = rows.slice(place, PIECE_READS)
                    writer.write_batch(piece)
                    key = piece["key"]
                    yield Piece(split, key[0].as_py(), key[-1].as_py())


_ORDER: Final = ("key", "hand_id", "villain_seat", "perspective_seat")
_LABELS: Final = pa.array([LabelSource.DEALT.value, LabelSource.SHOWN.value])
