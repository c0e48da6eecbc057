"""The keyed shuffle: reads of many cache entries into shards, out of core, the same whatever the order or the number of workers.

Every read has a uniform 64-bit key (``partition.read_keys``), and a split is its reads in the order of their keys. Shards are
equal ranges of keys, a power of two of them. First the reads are made from the hands that the cache keeps, into runs: files of
bounded size, sorted by key within each split. Then each shard takes its range of keys out of every run and sorts them. No process
ever holds more than a run or a shard, and both steps spread over the workers. Which repeated hands are dropped is decided
elsewhere and applied on the way.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from range_reader_core.encoder import HandEncoder, Pairs, pairs_of
from range_reader_core.hand import LabelSource
from range_reader_core.partition import SPLITS, read_keys, splits_of
from range_reader_core.skeletons import joined
from range_reader_core.tokens import FLOP, RIVER, TURN
from range_reader_pipeline.reads_cache import Chunk, ReadsCache
from range_reader_pipeline.repeats import Repeats
from range_reader_pipeline.shards import SHARD_SCHEMA, shard_name
from range_reader_pipeline.workers import Workers

RUN_READS: Final = 1 << 17  # about 30 MB of rows
RUN_SCHEMA: Final = SHARD_SCHEMA.append(pa.field("key", pa.uint64()))
PROGRESS_STEPS: Final = 10
LABELS: Final = ("all", "dealt")  # dealt: leave out villains whose cards are known only because they were shown
STREET_NAMES: Final = ("preflop", "flop", "turn", "river")
_SHARD_OPTIONS: Final[dict[str, Any]] = {
    # Fixed, because the bytes of a shard are part of what is promised.
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": ["actions.list.element", "hand_id", "source", "label_source"],
    "write_statistics": False,
    "write_page_checksum": True,
    "version": "2.6",
    "data_page_version": "1.0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleConfig:
    """What decides where a read lies."""

    seed: int = 0  # of the order, 0..2**64-1
    reads_per_shard: int = 1 << 17  # a shard holds at most about so many
    labels: str = "all"  # a value of LABELS: which of the villain's cards may be targets

    def __post_init__(self) -> None:
        """Check the record."""
        if not 0 <= self.seed < 2**64:
            msg = f"seed must be in 0..2**64-1, got {self.seed}"
            raise ValueError(msg)
        if self.labels not in LABELS:
            msg = f"labels must be one of {', '.join(LABELS)}, got {self.labels!r}"
            raise ValueError(msg)
        if self.reads_per_shard < 1:
            msg = f"reads_per_shard must be positive, got {self.reads_per_shard}"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardInfo:
    """One finished shard."""

    split: str
    name: str
    num_reads: int
    num_positions: int
    num_bytes: int
    sha256: str
    reads_by_source: dict[str, int]
    reads_by_size_and_street: dict[str, int]  # "6 river": six dealt in, a river card was dealt


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleResult:
    """What was written."""

    shards: tuple[ShardInfo, ...]  # by split, then by place
    num_hands: dict[str, int]  # by split, hands that have reads


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunTask:
    cache: ReadsCache
    contents: tuple[str, ...]
    dropped: dict[str, npt.NDArray[np.int64]]  # rows of hands, by content
    config: ShuffleConfig
    folder: Path | None  # None: what fits one run is kept in memory
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    rows: "_Rows"
    num_reads: dict[str, int]  # by split
    num_hands: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShardTask:
    split: str
    index: int
    num_shards: int
    runs: "tuple[_Rows, ...]"
    path: Path


_Rows = Path | tuple[pa.RecordBatch, ...]  # of a run, one batch per split: a file of them, or they themselves


def num_shards(num_reads: int, reads_per_shard: int) -> int:
    """Return the least power of two of shards that hold at most ``reads_per_shard`` on average; 1 for no reads."""
    shards = 1
    while num_reads > shards * reads_per_shard:
        shards *= 2
    return shards


def shuffle(
    cache: ReadsCache,
    contents: Sequence[str],
    repeats: Repeats,
    folder: Path,
    *,
    scratch: Path,
    config: ShuffleConfig,
    workers: Workers,
    on_progress: Callable[[str], None] = lambda _: None,
) -> ShuffleResult:
    """Write the shards of all splits under ``folder``; a split without reads is one shard without rows.

    Args:
        cache: of the entries.
        contents: contents to take, in any order.
        repeats: hands to drop.
        folder: a new folder.
        scratch: a folder for runs, removed when done.
        config: seed and size.
        workers: who does it.
        on_progress: called with what was just done.

    Raises:
        CorruptCacheError: an entry cannot be read.
        OSError: the disk refused.
    """
    scratch.mkdir(parents=True)
    try:
        run_tasks = _run_tasks(cache, sorted(set(contents)), repeats, scratch, config, workers.count)
        if len(run_tasks) == 1 and workers.count == 1:
            run_tasks = [replace(task, folder=None) for task in run_tasks]
        run_lists = workers.map(_make_runs, run_tasks)
        runs = [run for part in run_lists for run in part]
        on_progress(f"sorted {sum(sum(run.num_reads.values()) for run in runs)} reads into {len(runs)} runs")
        tasks = []
        for split in SPLITS:
            (folder / split).mkdir(parents=True)
            count = num_shards(sum(run.num_reads[split] for run in runs), config.reads_per_shard)
            rows = tuple(run.rows for run in runs if run.num_reads[split])
            tasks += [
                _ShardTask(split=split, index=index, num_shards=count, runs=rows, path=folder / split / shard_name(index))
                for index in range(count)
            ]
        step = max(1, len(tasks) // PROGRESS_STEPS)
        shards = workers.map(
            _make_shard, tasks, lambda done, _: on_progress(f"wrote shard {done} of {len(tasks)}") if done % step == 0 else None
        )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    for split in SPLITS:
        seen = sum(shard.num_reads for shard in shards if shard.split == split)
        expected = sum(run.num_reads[split] for run in runs)
        if seen != expected:
            msg = f"the shards of {split} hold {seen} reads, the runs held {expected}; this is a bug of the shuffle"
            raise RuntimeError(msg)
    return ShuffleResult(shards=tuple(shards), num_hands={split: sum(run.num_hands[split] for run in runs) for split in SPLITS})


def _run_tasks(
    cache: ReadsCache, contents: Sequence[str], repeats: Repeats, scratch: Path, config: ShuffleConfig, num_workers: int
) -> list[_RunTask]:
    """Group the entries into runs of one size, as many for each worker. How they are grouped leaves no trace in the shards."""
    counts = [cache.counts(content) for content in contents]
    num_reads = [0 if found is None else found.encoding.num_reads for found in counts]
    total = max(1, sum(num_reads))
    num_groups = num_workers * -(-total // (num_workers * RUN_READS))
    groups: list[list[str]] = [[] for _ in range(num_groups)]
    before = 0
    for content, count in zip(contents, num_reads, strict=True):
        groups[min((before + count // 2) * num_groups // total, num_groups - 1)].append(content)
        before += count
    return [
        _RunTask(
            cache=cache,
            contents=tuple(group),
            dropped={content: rows for content in group if len(rows := repeats.dropped_rows(content))},
            config=config,
            folder=scratch,
            name=f"{index:06d}",
        )
        for index, group in enumerate(groups)
        if group
    ]


@dataclass(frozen=True, slots=True)
class _Part:
    """The reads of one chunk that count."""

    chunk: Chunk
    pairs: Pairs
    key: npt.NDArray[np.uint64]  # (N,)
    split: npt.NDArray[np.uint8]  # (N,)


def _make_runs(task: _RunTask) -> list[_Run]:
    runs: list[_Run] = []
    parts: list[_Part] = []
    num_reads = 0
    for part in _parts(task):
        parts.append(part)
        num_reads += len(part.key)
        if num_reads >= RUN_READS:
            runs.append(_run(task, len(runs), parts))
            parts, num_reads = [], 0
    if num_reads:
        runs.append(_run(task, len(runs), parts))
    return runs


def _parts(task: _RunTask) -> Iterator[_Part]:
    for content in task.contents:
        first_row = 0
        dropped = task.dropped.get(content, np.zeros(0, dtype=np.int64))
        for chunk in task.cache.chunks(content):
            num_hands = chunk.skeletons.num_hands
            here = dropped[(dropped >= first_row) & (dropped < first_row + num_hands)] - first_row
            first_row += num_hands
            yield _keyed(chunk, here, task.config)


def _keyed(chunk: Chunk, dropped: npt.NDArray[np.int64], config: ShuffleConfig) -> _Part:
    pairs = pairs_of(chunk.skeletons)
    if len(dropped):
        pairs = pairs.take(np.flatnonzero(~np.isin(pairs.of_hand, dropped)))
    if config.labels == "dealt":
        pairs = pairs.take(np.flatnonzero(~chunk.skeletons.is_shown[pairs.villain_places(chunk.skeletons)]))
    key = read_keys(config.seed, chunk.id_hashes, pairs.of_hand, pairs.villain.astype(np.uint8), pairs.perspective.astype(np.uint8))
    return _Part(chunk, pairs, key, splits_of(chunk.id_hashes)[pairs.of_hand])


def _run(task: _RunTask, index: int, parts: Sequence[_Part]) -> _Run:
    """Return one batch per split, each sorted by key, in a file if the task names a folder."""
    first_hand = np.cumsum([0, *(part.chunk.skeletons.num_hands for part in parts)])
    of_hand = np.concatenate([part.pairs.of_hand + first for part, first in zip(parts, first_hand[:-1], strict=True)])
    key = np.concatenate([part.key for part in parts])
    split = np.concatenate([part.split for part in parts])
    by_key = np.argsort(key)
    order = by_key[np.argsort(split[by_key], kind="stable")]  # a radix sort of bytes, three times as fast as a lexsort
    pairs = Pairs(
        of_hand=of_hand[order],
        villain=np.concatenate([part.pairs.villain for part in parts])[order],
        perspective=np.concatenate([part.pairs.perspective for part in parts])[order],
        is_walk=np.zeros(0, dtype=np.bool_),
    )
    ends = np.searchsorted(split[order], np.arange(len(SPLITS) + 1))
    batch = _rows(parts, pairs, key[order])
    pieces = [slice(begin, end) for begin, end in pairwise(ends.tolist())]
    batches = tuple([batch.slice(piece.start, piece.stop - piece.start) for piece in pieces])
    path = None if task.folder is None else task.folder / f"{task.name}_{index:06d}.arrow"
    if path is not None:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, RUN_SCHEMA) as writer:
            for one in batches:
                writer.write_batch(one)
    return _Run(
        rows=path or batches,
        num_reads={name: one.num_rows for name, one in zip(SPLITS, batches, strict=True)},
        num_hands={
            name: int(np.count_nonzero(np.bincount(pairs.of_hand[piece]))) for name, piece in zip(SPLITS, pieces, strict=True)
        },
    )


def _rows(parts: Sequence[_Part], pairs: Pairs, key: npt.NDArray[np.uint64]) -> pa.RecordBatch:
    """Return the reads of these pairs in ``RUN_SCHEMA``."""
    skeletons = joined([part.chunk.skeletons for part in parts])
    tokens, values, offsets = HandEncoder().inputs_of(skeletons, pairs)
    starts = pa.array(offsets.astype(np.int32))
    villain = pairs.villain_places(skeletons)
    hand = pa.array(pairs.of_hand)
    columns = {
        "actions": pa.ListArray.from_arrays(starts, pa.array(tokens)),
        "values": pa.ListArray.from_arrays(starts, pa.array(values)),
        "villain_combo": pa.array(skeletons.combos[villain].astype(np.uint16)),
        "hand_id": pa.concat_arrays([part.chunk.hand_ids for part in parts]).take(hand),
        "villain_seat": pa.array(pairs.villain.astype(np.uint8)),
        "perspective_seat": pa.array(pairs.perspective.astype(np.uint8)),
        "num_players": pa.array(skeletons.num_players[pairs.of_hand].astype(np.uint8)),
        "source": pa.concat_arrays([part.chunk.sources for part in parts]).take(hand),
        "label_source": pc.if_else(pa.array(skeletons.is_shown[villain]), LabelSource.SHOWN.value, LabelSource.DEALT.value),
        "key": pa.array(key),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in RUN_SCHEMA.names], schema=RUN_SCHEMA)


def _make_shard(task: _ShardTask) -> ShardInfo:
    """Gather one range of keys from all runs, sort it and write it."""
    shift = 64 - (task.num_shards.bit_length() - 1)
    lowest, highest = task.index << shift, ((task.index + 1) << shift) - 1
    slices = []
    for rows in task.runs:
        batch = _batch(rows, SPLITS.index(task.split))
        key = batch["key"].to_numpy()
        begin = int(np.searchsorted(key, np.uint64(lowest)))
        end = int(np.searchsorted(key, np.uint64(highest), side="right"))
        slices.append(batch.slice(begin, end - begin))
    table = pa.Table.from_batches(slices, RUN_SCHEMA).combine_chunks()
    if not _is_sorted(table):
        table = table.take(pa.array(_order(table))).combine_chunks()
    table = table.select(SHARD_SCHEMA.names).cast(SHARD_SCHEMA)
    pq.write_table(table, task.path, row_group_size=max(1, table.num_rows), **_SHARD_OPTIONS)
    with task.path.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    counts = pc.value_counts(table["source"]).to_pylist()
    return ShardInfo(
        split=task.split,
        name=task.path.name,
        num_reads=table.num_rows,
        num_positions=len(table["actions"].combine_chunks().flatten()) if table.num_rows else 0,
        num_bytes=task.path.stat().st_size,
        sha256=sha256,
        reads_by_source={row["values"]: row["counts"] for row in sorted(counts, key=lambda row: row["values"])},
        reads_by_size_and_street=_size_and_street(table),
    )


def _batch(rows: _Rows, index: int) -> pa.RecordBatch:
    if not isinstance(rows, Path):
        return rows[index]
    with pa.memory_map(str(rows)) as source:
        return pa.ipc.open_file(source).get_batch(index)


def _is_sorted(table: pa.Table) -> bool:
    """Say whether rows lie in the order of their keys, none of which collide: those of a single run do."""
    key = table["key"].to_numpy()
    return bool((key[1:] > key[:-1]).all())


def _order(table: pa.Table) -> npt.NDArray[np.int64]:
    """Return rows by key; keys that collide, by what they are keys of, so that no trace of the runs is left."""
    key = table["key"].to_numpy()
    order = np.argsort(key, kind="stable")
    if not (key[order][1:] == key[order][:-1]).any():
        return order
    columns = [(name, "ascending") for name in ("key", "hand_id", "villain_seat", "perspective_seat")]
    return np.asarray(pc.sort_indices(table, sort_keys=columns), dtype=np.int64)


def _size_and_street(table: pa.Table) -> dict[str, int]:
    """Count reads by players dealt in and last street dealt, which is read off the street marks."""
    if not table.num_rows:
        return {}
    actions = table["actions"].combine_chunks()
    tokens = actions.flatten().to_numpy()
    marks = np.flatnonzero((tokens == FLOP) | (tokens == TURN) | (tokens == RIVER))
    offsets = actions.offsets.to_numpy() - actions.offsets[0].as_py()
    street = np.diff(np.searchsorted(marks, offsets))
    size = table["num_players"].to_numpy().astype(np.int64)
    counts = np.bincount(size * len(STREET_NAMES) + street)
    return {
        f"{place // len(STREET_NAMES)} {STREET_NAMES[place % len(STREET_NAMES)]}": int(count)
        for place, count in enumerate(counts)
        if count
    }
