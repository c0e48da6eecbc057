"""An entry is whole or it is not there, and damage is noticed."""

import os
import time
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from range_reader_core.encoder import pairs_of
from range_reader_core.skeletons import Skeletons
from range_reader_pipeline import reads_cache
from range_reader_pipeline.ingest import ingest_file, open_cache
from range_reader_pipeline.reads_cache import CorruptCacheError, FileCounts, ReadsCache
from tests.core.hands import random_hands
from tests.pipeline.encoded import cache_of, task_of
from tests.pipeline.ohh_writer import write_ohh

SKELETON_FIELDS = [field.name for field in fields(Skeletons)]


def read_all(cache: ReadsCache, content: str) -> list[tuple[list[str], bytes]]:
    """Return everything of an entry's chunks, in a form that compares."""
    return [
        (
            [*chunk.hand_ids.to_pylist(), *chunk.sources.to_pylist()],
            b"".join(np.ascontiguousarray(getattr(chunk.skeletons, name)).tobytes() for name in SKELETON_FIELDS)
            + chunk.id_hashes.tobytes(),
        )
        for chunk in cache.chunks(content)
    ]


def test_an_interrupted_writer_leaves_nothing(tmp_path: Path) -> None:
    """Half a file's hands under its hash would be taken for all of them."""
    cache = ReadsCache(tmp_path, "1")

    def interrupted() -> None:
        with cache.writer("f" * 64) as entry:
            entry.add_rejects([{"line": 1, "hand_id": "", "code": "X", "message": "", "excerpt": ""}])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lost", [".arrow", ".rejects.parquet"])
def test_an_entry_that_lacks_a_part_does_not_exist(tmp_path: Path, lost: str) -> None:
    """A kill between two renames, or a clean-up by hand, must lead to encoding again."""
    cache, hashes = cache_of(tmp_path, {"a.ohh": random_hands(1, 5)})
    assert cache.counts(hashes["a.ohh"]) is not None
    cache.path(hashes["a.ohh"]).with_suffix(lost).unlink()
    assert cache.counts(hashes["a.ohh"]) is None


def test_damage_is_found_and_names_the_file(tmp_path: Path) -> None:
    """A flipped bit on disk must not become a card. Wherever it hits, either reading fails or nothing has changed."""
    cache, hashes = cache_of(tmp_path, {"a.ohh": random_hands(1, 40)})
    content = hashes["a.ohh"]
    path = cache.path(content)
    sound, expected = path.read_bytes(), read_all(cache, content)
    num_found = 0
    for place in range(0, len(sound), len(sound) // 60):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 16]) + sound[place + 1 :])
        try:
            seen = read_all(cache, content)
        except CorruptCacheError as error:
            num_found += error.content == content
        else:
            assert seen == expected, place
    assert num_found > 20
    path.write_bytes(b"")
    with pytest.raises(CorruptCacheError):
        read_all(cache, content)
    path.with_suffix(".rejects.parquet").write_bytes(b"")
    assert cache.counts(content) is None


def test_entries_of_another_code_version_are_not_seen(tmp_path: Path) -> None:
    """Reads of an older encoder mixed with new ones would be two languages in one training."""
    cache, hashes = cache_of(tmp_path, {"a.ohh": random_hands(1, 5)})
    assert ReadsCache(cache.folder, "other").counts(hashes["a.ohh"]) is None


def test_counts_survive(tmp_path: Path) -> None:
    """The totals of a run are sums of what the entries say."""
    cache, hashes = cache_of(tmp_path, {"a.ohh": random_hands(1, 9)})
    counts = cache.counts(hashes["a.ohh"])
    assert isinstance(counts, FileCounts)
    assert counts.encoding.num_hands == 9
    chunks = list(cache.chunks(hashes["a.ohh"]))
    assert counts.encoding.num_reads == sum(len(pairs_of(chunk.skeletons).of_hand) for chunk in chunks) > 0


def test_pruning_spares_what_is_used_or_recent(tmp_path: Path) -> None:
    """A folder that is swapped to and fro must not be encoded each time; a removed one must not fill the disk for ever."""
    cache, hashes = cache_of(tmp_path, {"a.ohh": random_hands(1, 3), "b.ohh": random_hands(2, 3)})
    long_ago = time.time() - reads_cache.UNUSED_SECONDS - 60
    for path in cache.folder.iterdir():
        os.utime(path, (long_ago, long_ago))
    recent = ingest_file(task_of(write_ohh(tmp_path / "c.ohh", random_hands(3, 3)), cache))
    assert cache.prune({hashes["a.ohh"]}) == 2
    assert cache.counts(hashes["a.ohh"]) is not None
    assert cache.counts(hashes["b.ohh"]) is None
    assert open_cache(cache.folder).counts(recent.content) is not None
