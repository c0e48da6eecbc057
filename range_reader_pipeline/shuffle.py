"""The keyed shuffle: reads of many cache entries into shards, out of core, the same whatever the order or the number of workers.

Every read has a uniform 64-bit key (``partition.read_keys``), and a split is its reads in the order of their keys. Shards are
equal ranges of keys, a power of two of them. First the hands that the cache keeps become runs (``runs``): reads of bounded number,
sorted by key within each split. Then each shard takes its range of keys out of every run, sorts them and writes them in groups of
rows. No process ever holds more than a run's hands or a shard, and both steps spread over the workers. Which repeated hands are
dropped is decided elsewhere and applied on the way.
"""

import hashlib
import heapq
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from range_reader_core.partition import SPLITS
from range_reader_core.tokens import FLOP, MAX_SEATS, RIVER
from range_reader_core.wording import counted
from range_reader_pipeline.reads_cache import ReadsCache
from range_reader_pipeline.repeats import Repeats
from range_reader_pipeline.runs import ROWS_READS, RUN_SCHEMA, Run, RunTask, SortedReads, make_runs, order_of, pieces_of
from range_reader_pipeline.shards import SHARD_SCHEMA, shard_name
from range_reader_pipeline.workers import Workers

RUN_READS: Final = 1 << 17  # whose hands take about 20 MB, and the rows made of them 30
PROGRESS_STEPS: Final = 10
LABELS: Final = ("all", "dealt")  # dealt: leave out villains whose cards are known only because they were shown
STREET_NAMES: Final = ("preflop", "flop", "turn", "river")
_SHARD_OPTIONS: Final[dict[str, Any]] = {
    # Fixed, because the bytes of a shard are part of what is promised.
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": ["hand_id", "source", "label_source"],
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
class _ShardTask:
    split: str
    lowest: int  # keys
    highest: int
    runs: tuple[Run, ...]
    path: Path


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
        run_lists = workers.map(make_runs, run_tasks)
        runs = [run for part in run_lists for run in part]
        num_reads = sum(sum(run.num_reads.values()) for run in runs)
        on_progress(f"sorted {counted(num_reads, 'read')} into {counted(len(runs), 'run')}")
        tasks = []
        for split in SPLITS:
            (folder / split).mkdir(parents=True)
            count = num_shards(sum(run.num_reads[split] for run in runs), config.reads_per_shard)
            tasks += [_shard_task(split, index, count, runs, folder / split) for index in range(count)]
        step = max(1, len(tasks) // PROGRESS_STEPS)
        shards = workers.map(
            _make_shard, tasks, lambda done, _: on_progress(f"wrote shard {done:,} of {len(tasks):,}") if done % step == 0 else None
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
) -> list[RunTask]:
    """Group the entries into runs of one size, as many for each worker. How they are grouped leaves no trace in the shards."""
    counts = [cache.counts(content) for content in contents]
    num_reads = [0 if found is None else found.encoding.num_reads for found in counts]
    num_groups = num_workers * max(1, -(-sum(num_reads) // (num_workers * RUN_READS)))
    groups: list[list[str]] = [[] for _ in range(num_groups)]
    filled = [(0, index) for index in range(num_groups)]  # a heap: the emptiest takes the largest that is left
    for count, content in sorted(zip(num_reads, contents, strict=True), reverse=True):
        before, index = heapq.heappop(filled)
        groups[index].append(content)
        heapq.heappush(filled, (before + count, index))
    return [
        RunTask(
            cache=cache,
            contents=tuple(group),
            dropped={content: rows for content in group if len(rows := repeats.dropped_rows(content))},
            seed=config.seed,
            is_dealt_only=config.labels == "dealt",
            max_reads=RUN_READS,
            folder=scratch,
            name=f"{index:06d}",
        )
        for index, group in enumerate(groups)
        if group
    ]


def _shard_task(split: str, index: int, count: int, runs: Sequence[Run], folder: Path) -> _ShardTask:
    shift = 64 - (count.bit_length() - 1)
    return _ShardTask(
        split=split,
        lowest=index << shift,
        highest=((index + 1) << shift) - 1,
        runs=tuple([run for run in runs if run.num_reads[split]]),
        path=folder / shard_name(index),
    )


def _make_shard(task: _ShardTask) -> ShardInfo:
    """Gather one range of keys from all runs, in order, and write it."""
    num_reads = num_positions = 0
    by_source: Counter[str] = Counter()
    by_size_and_street = np.zeros(_NUM_SIZES * len(STREET_NAMES), dtype=np.int64)
    with pq.ParquetWriter(task.path, SHARD_SCHEMA, **_SHARD_OPTIONS) as writer:
        for rows in _groups(task):
            group = pa.Table.from_batches([rows]).select(SHARD_SCHEMA.names).cast(SHARD_SCHEMA)
            writer.write_table(group, row_group_size=ROWS_READS)
            num_reads += rows.num_rows
            num_positions += len(rows["actions"].flatten())
            by_source.update({row["values"]: row["counts"] for row in pc.value_counts(rows["source"]).to_pylist()})
            by_size_and_street += _size_and_street(rows)
    with task.path.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    return ShardInfo(
        split=task.split,
        name=task.path.name,
        num_reads=num_reads,
        num_positions=num_positions,
        num_bytes=task.path.stat().st_size,
        sha256=sha256,
        reads_by_source=dict(sorted(by_source.items())),
        reads_by_size_and_street={
            f"{place // len(STREET_NAMES)} {STREET_NAMES[place % len(STREET_NAMES)]}": int(count)
            for place, count in enumerate(by_size_and_street)
            if count
        },
    )


def _groups(task: _ShardTask) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a shard in ``RUN_SCHEMA``, a group at a time."""
    alone = task.runs[0].reads if len(task.runs) == 1 else None
    if alone is not None:
        yield from _groups_in_memory(alone, alone.between(task.split, task.lowest, task.highest))
        return
    table = pa.Table.from_batches([rows for run in task.runs for rows in _slices(run, task)], RUN_SCHEMA).combine_chunks()
    order = order_of(table)
    for first in range(0, len(order), ROWS_READS):
        (rows,) = table.take(pa.array(order[first : first + ROWS_READS])).combine_chunks().to_batches()
        yield rows


def _groups_in_memory(run: SortedReads, reads: range) -> Iterator[pa.RecordBatch]:
    for first in range(reads.start, reads.stop, ROWS_READS):
        yield run.rows(range(first, min(first + ROWS_READS, reads.stop)))


def _slices(run: Run, task: _ShardTask) -> Iterator[pa.RecordBatch]:
    """Yield what a run's file holds of a shard."""
    wanted = [
        index
        for index, piece in enumerate(run.pieces)
        if piece.split == task.split and piece.highest >= task.lowest and piece.lowest <= task.highest
    ]
    for rows in pieces_of(run, wanted):
        key = rows["key"].to_numpy()
        begin = int(np.searchsorted(key, np.uint64(task.lowest)))
        end = int(np.searchsorted(key, np.uint64(task.highest), side="right"))
        yield rows.slice(begin, end - begin)


def _size_and_street(rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Count reads by players dealt in and last street dealt, which is read off the street marks."""
    actions = rows["actions"]
    tokens = actions.flatten().to_numpy()
    marks = np.flatnonzero(tokens - np.uint16(FLOP) <= RIVER - FLOP)  # the three follow each other; below them it wraps around
    offsets = actions.offsets.to_numpy() - actions.offsets[0].as_py()
    street = np.diff(np.searchsorted(marks, offsets))
    size = rows["num_players"].to_numpy().astype(np.int64)
    return np.bincount(size * len(STREET_NAMES) + street, minlength=_NUM_SIZES * len(STREET_NAMES))


_NUM_SIZES: Final = MAX_SEATS + 1
