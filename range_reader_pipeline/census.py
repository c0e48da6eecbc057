"""A count of what lies in the published shards, from their rows alone and not from what the manifest says.

Shard by shard, with only the columns needed; hand ids are held as 64-bit hashes, 8 bytes a hand. It exists to contradict the code
that wrote the shards, so it shares none with it.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from range_reader_core.partition import SPLITS
from range_reader_pipeline.shards import split_shards


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """What was counted."""

    num_hands: dict[str, int]  # by split, distinct ids
    num_reads: dict[str, int]  # by split
    num_twice: int  # reads of a hand, villain and perspective that another read has too
    twice_examples: tuple[str, ...]  # ids of such hands
    num_shared: int  # hands with reads in more than one split
    reads_by_source: npt.NDArray[np.int64]  # (shards of train, sources)
    reads_by_size: npt.NDArray[np.int64]  # (shards of train, table sizes)


def take_census(data_folder: Path) -> Census:
    """Count the shards of a data folder.

    Raises:
        ValueError: a split has no shards.
    """
    folder = data_folder.resolve()
    hands: dict[str, npt.NDArray[np.uint64]] = {}
    num_reads = dict.fromkeys(SPLITS, 0)
    num_twice = 0
    examples: list[str] = []
    by_source: list[dict[str, int]] = []
    by_size: list[dict[str, int]] = []
    for split in SPLITS:
        hashes = []
        for path in split_shards(folder, split):
            frame = pl.read_parquet(path, columns=["hand_id", "villain_seat", "perspective_seat", "num_players", "source"])
            num_reads[split] += frame.height
            # Equal reads have equal keys, so they cannot be in different shards.
            twice = frame.filter(frame.select("hand_id", "villain_seat", "perspective_seat").is_duplicated())
            num_twice += twice.height
            examples += twice["hand_id"].head(3).to_list()
            hashes.append(frame["hand_id"].hash().unique().to_numpy())
            if split == "train":
                by_source.append(_value_counts(frame["source"]))
                by_size.append(_value_counts(frame["num_players"]))
        hands[split] = np.unique(np.concatenate(hashes))
    train, val, test = (hands[split] for split in SPLITS)
    held_out = np.concatenate([val, test])
    num_shared = len(np.intersect1d(val, test)) + int(np.isin(np.unique(held_out), train).sum())
    return Census(
        num_hands={split: len(hands[split]) for split in SPLITS},
        num_reads=num_reads,
        num_twice=num_twice,
        twice_examples=tuple(examples[:3]),
        num_shared=num_shared,
        reads_by_source=_matrix(by_source),
        reads_by_size=_matrix(by_size),
    )


def _value_counts(column: pl.Series) -> dict[str, int]:
    counts = column.value_counts()
    return {str(value): int(count) for value, count in zip(counts[column.name], counts["count"], strict=True)}


def _matrix(rows: list[dict[str, int]]) -> npt.NDArray[np.int64]:
    kinds = sorted({kind for row in rows for kind in row})
    return np.array([[row.get(kind, 0) for kind in kinds] for row in rows], dtype=np.int64).reshape(len(rows), len(kinds))
