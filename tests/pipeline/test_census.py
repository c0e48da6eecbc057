"""The census contradicts shards that are wrong, whatever their manifest says."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from range_reader_core.encoder import HandEncoder
from range_reader_pipeline.census import take_census
from range_reader_pipeline.shards import table_of_reads
from tests.core.hands import random_hands


def table_of(seed: int, num_hands: int = 10) -> pa.Table:
    return table_of_reads(HandEncoder().encode_hands(random_hands(seed, num_hands))[0])


def write_data(folder: Path, splits: dict[str, list[pa.Table]]) -> Path:
    for split, tables in splits.items():
        (folder / split).mkdir(parents=True)
        for index, table in enumerate(tables):
            pq.write_table(table, folder / split / f"shard_{index:05d}.parquet")
    return folder


def test_sound_shards_are_counted(tmp_path: Path) -> None:
    """The numbers that the checks compare with the manifest."""
    first, second = table_of(1), table_of(2)
    census = take_census(write_data(tmp_path, {"train": [first, second], "val": [table_of(3)], "test": [table_of(4).slice(0, 0)]}))
    assert census.num_reads["train"] == first.num_rows + second.num_rows
    assert census.num_hands["train"] == len({*first["hand_id"].to_pylist(), *second["hand_id"].to_pylist()})
    assert (census.num_hands["test"], census.num_twice, census.num_shared) == (0, 0, 0)
    assert census.reads_by_source.sum(axis=1).tolist() == [first.num_rows, second.num_rows]
    assert census.reads_by_size.shape[1] > 2


@pytest.mark.parametrize(("held_out", "other"), [("val", "test"), ("test", "val")])
def test_a_hand_on_both_sides_is_found(tmp_path: Path, held_out: str, other: str) -> None:
    """One such hand makes every grade a little too good, and nobody can tell by how much."""
    train = table_of(1)
    leaked = pa.concat_tables([table_of(2), train.slice(3, 1)])
    assert take_census(write_data(tmp_path, {"train": [train], held_out: [leaked], other: [table_of(3)]})).num_shared == 1


def test_a_hand_in_val_and_test_is_found(tmp_path: Path) -> None:
    """The test set must not have chosen the checkpoint."""
    held_out = table_of(2)
    census = take_census(write_data(tmp_path, {"train": [table_of(1)], "val": [held_out], "test": [held_out.slice(0, 2)]}))
    assert census.num_shared == len(set(held_out["hand_id"].to_pylist()[:2]))


def test_a_read_that_is_there_twice_is_found(tmp_path: Path) -> None:
    """It would count double in training and in every average."""
    train = table_of(1)
    doubled = pa.concat_tables([train, train.slice(5, 1)])
    census = take_census(write_data(tmp_path, {"train": [doubled], "val": [table_of(2)], "test": [table_of(3)]}))
    assert census.num_twice == 2
    assert census.twice_examples[0] == train["hand_id"][5].as_py()
