"""Shards are an open format: what is written is what a trainer, or anyone with polars, gets back."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from range_reader_core.encoder import HandEncoder
from range_reader_core.reads import Reads
from range_reader_pipeline.repeats import find_repeats
from range_reader_pipeline.shards import SHARD_SCHEMA, load_split, reads_of_table, shard_name, table_of_reads
from range_reader_pipeline.shuffle import ShuffleConfig, shuffle
from range_reader_pipeline.workers import workers
from tests.core.hands import random_hands
from tests.pipeline.encoded import cache_of


def some_reads(count: int = 30) -> Reads:
    """Encode a few random hands of several table sizes."""
    reads, _ = HandEncoder().encode_hands(random_hands(7, count))
    assert reads.num_reads > count
    return reads


def write_split(folder: Path, split: str, tables: list[pa.Table]) -> None:
    (folder / split).mkdir(parents=True)
    for index, table in enumerate(tables):
        pq.write_table(table, folder / split / shard_name(index))


def assert_same(ours: Reads, theirs: Reads) -> None:
    """Compare reads column by column, with hand ids and sources looked up."""
    for name in (
        "tokens",
        "values",
        "offsets",
        "villain_combo",
        "villain_seat",
        "perspective_seat",
        "num_players",
        "is_label_shown",
    ):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
        assert getattr(ours, name).dtype == getattr(theirs, name).dtype
    assert [ours.hand_ids[i] for i in ours.hand_index] == [theirs.hand_ids[i] for i in theirs.hand_index]
    assert [ours.sources[i] for i in ours.source_index] == [theirs.sources[i] for i in theirs.source_index]


def test_reads_survive_the_way_through_shards(tmp_path: Path) -> None:
    """A shifted offset or a swapped column would train the model on other people's cards."""
    reads = some_reads()
    table = table_of_reads(reads)
    write_split(tmp_path, "train", [table.slice(0, 11), table.slice(11, 0), table.slice(11)])
    assert_same(load_split(tmp_path, "train"), reads)


def test_a_shard_reads_as_plain_columns_in_polars(tmp_path: Path) -> None:
    """Dictionary or extension types would make the files ours alone."""
    reads = some_reads()
    write_split(tmp_path, "val", [table_of_reads(reads)])
    frame = pl.read_parquet(tmp_path / "val" / shard_name(0))
    assert dict(frame.schema) == {
        "actions": pl.List(pl.UInt16),
        "values": pl.List(pl.Float32),
        "villain_combo": pl.UInt16,
        "hand_id": pl.String,
        "villain_seat": pl.UInt8,
        "perspective_seat": pl.UInt8,
        "num_players": pl.UInt8,
        "source": pl.String,
        "label_source": pl.String,
    }
    assert frame["actions"][3].to_list() == reads.read(3)[0].tolist()
    assert frame["hand_id"][3] == reads.hand_ids[reads.hand_index[3]]


def test_max_reads_takes_a_prefix_across_shards(tmp_path: Path) -> None:
    """A small training must see the first reads of the shuffle, not the first shard only or one read too many."""
    reads = some_reads()
    table = table_of_reads(reads)
    write_split(tmp_path, "train", [table.slice(0, 11), table.slice(11)])
    assert load_split(tmp_path, "train", max_reads=5).num_reads == 5
    assert_same(load_split(tmp_path, "train", max_reads=17), reads_of_table(table.slice(0, 17)))


def test_loaded_arrays_may_be_written_to(tmp_path: Path) -> None:
    """PyTorch warns about read-only arrays, and warnings are errors here."""
    write_split(tmp_path, "train", [table_of_reads(some_reads())])
    loaded = load_split(tmp_path, "train")
    for name in ("tokens", "values", "offsets", "villain_combo", "villain_seat", "hand_index", "is_label_shown"):
        assert getattr(loaded, name).flags.writeable, name


def test_an_empty_split_is_no_reads_and_a_missing_one_an_error(tmp_path: Path) -> None:
    """A dozen hands can leave val empty; a typo in the split's name must not look like that."""
    write_split(tmp_path, "val", [SHARD_SCHEMA.empty_table()])
    assert load_split(tmp_path, "val").num_reads == 0
    with pytest.raises(ValueError, match="materialize encoded_shards first"):
        load_split(tmp_path, "vla")


def test_shards_of_another_vocabulary_are_refused(tmp_path: Path) -> None:
    """Equal ids under another order would be read as other cards without any error."""
    table = table_of_reads(some_reads()).replace_schema_metadata({"range_reader.vocabulary": "0" * 16})
    write_split(tmp_path, "train", [table])
    with pytest.raises(ValueError, match="shards use vocabulary 0000"):
        load_split(tmp_path, "train")


def test_a_publication_in_the_middle_of_a_load_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards of two versions in one training would hold some hands twice and others never."""
    table = table_of_reads(some_reads())
    write_split(tmp_path / "data_versions" / "v1", "train", [table.slice(0, 10), table.slice(10, 10)])
    write_split(tmp_path / "data_versions" / "v2", "train", [table.slice(0, 1), table.slice(1, 1)])
    (tmp_path / "data").symlink_to("data_versions/v1")
    read_table = pq.read_table

    def read_then_publish(path: Path, columns: list[str], **options: Any) -> pa.Table:
        part = read_table(path, columns=columns, **options)
        (tmp_path / "data").unlink()
        (tmp_path / "data").symlink_to("data_versions/v2")
        return part

    monkeypatch.setattr(pq, "read_table", read_then_publish)
    assert load_split(tmp_path / "data", "train").num_reads == 20


def test_damage_on_disk_is_said_with_the_remedy(tmp_path: Path) -> None:
    """A flipped bit must not become a card, and wherever it hits, somebody has to know which file to delete."""
    hands = random_hands(3, 60)
    cache, hashes = cache_of(tmp_path, {"a.ohh": hands})
    with workers(1) as pool:
        contents = list(hashes.values())
        repeats = find_repeats(cache, contents)
        shuffle(cache, contents, repeats, tmp_path / "data", scratch=tmp_path / "x.tmp", config=ShuffleConfig(), workers=pool)
    path = tmp_path / "data" / "train" / shard_name(0)
    sound, expected = path.read_bytes(), load_split(tmp_path / "data", "train")
    num_found = 0
    for place in range(4, len(sound) - 4, len(sound) // 80):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 16]) + sound[place + 1 :])
        try:
            seen = load_split(tmp_path / "data", "train")
        except ValueError as error:
            num_found += f"{path} is damaged on disk" in str(error) or "vocabulary" in str(error)
        else:
            assert_same(seen, expected)
    assert num_found > 50
