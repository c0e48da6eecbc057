"""The shuffle: the same bytes whatever the order, the workers or the runs, every read once, and where its key says."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from range_reader_core.encoder import pairs_of
from range_reader_core.partition import SPLITS, hand_hashes, read_keys, split_of
from range_reader_core.reads import Reads
from range_reader_pipeline import runs
from range_reader_pipeline import shuffle as shuffling
from range_reader_pipeline.ingest import ingest_file, open_cache
from range_reader_pipeline.reads_cache import CorruptCacheError, ReadsCache
from range_reader_pipeline.repeats import find_repeats
from range_reader_pipeline.shards import load_split
from range_reader_pipeline.shuffle import ShuffleConfig, ShuffleResult, num_shards, shuffle
from range_reader_pipeline.workers import Workers, workers
from tests.core.hands import random_hands, shown_cards_only
from tests.core.ohh_hands import write_ohh
from tests.pipeline.encoded import cache_of, folder_bytes, task_of

CONFIG = ShuffleConfig(seed=3, reads_per_shard=200)


def run_shuffle(
    cache: ReadsCache, contents: Sequence[str], folder: Path, *, config: ShuffleConfig = CONFIG, num_workers: int = 1
) -> ShuffleResult:
    with workers(num_workers) as pool:
        repeats = find_repeats(cache, contents)
        return shuffle(cache, contents, repeats, folder, scratch=folder.with_suffix(".tmp"), config=config, workers=pool)


def keys_of(reads: Reads, seed: int) -> np.ndarray:
    return read_keys(seed, hand_hashes(reads.hand_ids), reads.hand_index, reads.villain_seat, reads.perspective_seat)


def labels_of(reads: Reads) -> list[tuple[str, int, int]]:
    ids = [reads.hand_ids[index] for index in reads.hand_index]
    return list(zip(ids, reads.villain_seat.tolist(), reads.perspective_seat.tolist(), strict=True))


def test_order_workers_and_runs_leave_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data that differ between machines make every comparison of models void."""
    hands = random_hands(1, 60)
    files = {"a.ohh": hands[:30], "b.ohh": hands[20:45], "c.ohh": hands[45:]}  # a and b overlap
    cache, hashes = cache_of(tmp_path, files)
    order = sorted(hashes.values())
    first = run_shuffle(cache, order, tmp_path / "first")
    monkeypatch.setattr(shuffling, "RUN_READS", 50)
    assert run_shuffle(cache, order[::-1], tmp_path / "second") == first
    assert run_shuffle(cache, order, tmp_path / "third", num_workers=2) == first
    bytes_of_first = folder_bytes(tmp_path / "first")
    assert len(bytes_of_first) == len(first.shards) > 4
    assert folder_bytes(tmp_path / "second") == folder_bytes(tmp_path / "third") == bytes_of_first
    assert not (tmp_path / "first.tmp").exists()


def test_every_read_is_in_its_place_once(tmp_path: Path) -> None:
    """A read that is lost or doubled, on the wrong side, or out of order breaks what the design promises."""
    hands = random_hands(1, 150, num_players=3)
    cache, hashes = cache_of(tmp_path, {"a.ohh": hands[:80], "b.ohh": hands[60:]})
    result = run_shuffle(cache, list(hashes.values()), tmp_path / "data")
    alone, lone_hashes = cache_of(tmp_path / "alone", {"all.ohh": hands})
    expected = [len(pairs_of(chunk.skeletons).of_hand) for chunk in alone.chunks(lone_hashes["all.ohh"])]
    seen: list[tuple[str, int, int]] = []
    num_hands = {}
    for split in SPLITS:
        reads = load_split(tmp_path / "data", split)
        assert all(split_of(hand_id) == split for hand_id in reads.hand_ids)
        keys = keys_of(reads, CONFIG.seed)
        assert (keys[1:] > keys[:-1]).all()
        seen += labels_of(reads)
        num_hands[split] = len(set(reads.hand_ids))
    assert len(seen) == len(set(seen)) == sum(expected) > 300
    assert result.num_hands == num_hands
    train = [shard for shard in result.shards if shard.split == "train"]
    assert len(train) == num_shards(sum(shard.num_reads for shard in train), CONFIG.reads_per_shard) > 1


def test_a_shard_is_a_range_of_keys(tmp_path: Path) -> None:
    """What a shard holds must not depend on how many reads there are besides."""
    cache, hashes = cache_of(tmp_path, {"a.ohh": random_hands(1, 80)})
    result = run_shuffle(cache, list(hashes.values()), tmp_path / "data")
    train = load_split(tmp_path / "data", "train")
    sizes = [shard.num_reads for shard in result.shards if shard.split == "train"]
    place = np.repeat(np.arange(len(sizes)), sizes)
    np.testing.assert_array_equal(keys_of(train, CONFIG.seed) >> np.uint64(64 - int(np.log2(len(sizes)))), place)
    assert len(sizes) > 2


def test_a_new_file_leaves_the_order_of_the_others(tmp_path: Path) -> None:
    """The first reads of a small training must stay a sample of the same shuffle when data are added."""
    hands = random_hands(1, 60)
    cache, hashes = cache_of(tmp_path, {"a.ohh": hands[:40], "b.ohh": hands[40:]})
    run_shuffle(cache, [hashes["a.ohh"]], tmp_path / "before")
    run_shuffle(cache, list(hashes.values()), tmp_path / "after")
    old = {hand.hand_id.replace("#", f"/{('even', 'odd')[hand.num_players % 2]}#") for hand in hands[:40]}
    for split in SPLITS:
        before = labels_of(load_split(tmp_path / "before", split))
        after = labels_of(load_split(tmp_path / "after", split))
        assert [label for label in after if label[0] in old] == before


def test_another_seed_moves_reads_but_no_hand_across_the_split(tmp_path: Path) -> None:
    """Choosing a seed must not choose the test set."""
    cache, hashes = cache_of(tmp_path, {"a.ohh": random_hands(1, 60)})
    run_shuffle(cache, list(hashes.values()), tmp_path / "one", config=ShuffleConfig(seed=1))
    run_shuffle(cache, list(hashes.values()), tmp_path / "two", config=ShuffleConfig(seed=2))
    one, two = (labels_of(load_split(tmp_path / name, "train")) for name in ("one", "two"))
    assert one != two
    assert sorted(one) == sorted(two)


def test_colliding_keys_are_ordered_by_what_they_are_keys_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a hundred million reads two share a key once in four thousand builds; the bytes must not show which came first."""
    monkeypatch.setattr(runs, "read_keys", lambda seed, ids, index, *_: np.zeros(len(index), dtype=np.uint64))
    hands = random_hands(1, 30)
    cache, hashes = cache_of(tmp_path, {"a.ohh": hands[:15], "b.ohh": hands[15:]})
    config = ShuffleConfig(reads_per_shard=1 << 20)
    run_shuffle(cache, list(hashes.values()), tmp_path / "data", config=config)
    labels = labels_of(load_split(tmp_path / "data", "train"))
    assert labels == sorted(labels)
    assert len(labels) > 50


def test_what_a_shard_says_of_itself_is_so(tmp_path: Path) -> None:
    """The picture and the tables of the asset are drawn from it."""
    cache, hashes = cache_of(tmp_path, {"a.ohh": random_hands(1, 80)})
    result = run_shuffle(cache, list(hashes.values()), tmp_path / "data")
    reads = load_split(tmp_path / "data", "train")
    shards = [shard for shard in result.shards if shard.split == "train"]
    assert sum(shard.num_positions for shard in shards) == len(reads.tokens)
    by_size: dict[int, int] = {}
    streets = set()
    for shard in shards:
        assert sum(shard.reads_by_source.values()) == sum(shard.reads_by_size_and_street.values()) == shard.num_reads
        for key, count in shard.reads_by_size_and_street.items():
            size, street = key.split(" ")
            by_size[int(size)] = by_size.get(int(size), 0) + count
            streets.add(street)
    assert by_size == {int(size): int(count) for size, count in zip(*np.unique(reads.num_players, return_counts=True), strict=True)}
    assert streets == {"preflop", "flop", "turn", "river"}


def test_no_reads_at_all_is_one_empty_shard_a_split(tmp_path: Path) -> None:
    """A dozen hands may leave val empty; whoever loads it must find a split without reads, not a missing folder."""
    cache, hashes = cache_of(tmp_path, {"a.ohh": []})
    result = run_shuffle(cache, list(hashes.values()), tmp_path / "data")
    assert [(shard.split, shard.num_reads) for shard in result.shards] == [(split, 0) for split in SPLITS]
    assert load_split(tmp_path / "data", "val").num_reads == 0


def test_a_damaged_entry_stops_the_shuffle_even_from_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has to come back from the process in one piece, or the entry could not be repaired."""
    monkeypatch.setattr(shuffling, "RUN_READS", 1)  # a task per file, so that processes are used
    hands = random_hands(1, 40)
    cache, hashes = cache_of(tmp_path, {"a.ohh": hands[:20], "b.ohh": hands[20:]})
    path = cache.path(hashes["b.ohh"])
    path.write_bytes(path.read_bytes()[:500] + bytes(200) + path.read_bytes()[700:])
    with pytest.raises(CorruptCacheError) as caught:
        run_shuffle(cache, list(hashes.values()), tmp_path / "data", num_workers=2)
    assert caught.value.content == hashes["b.ohh"]
    assert not (tmp_path / "data.tmp").exists()


class NotingWorkers(Workers):
    """Does everything here, as one would, and notes what it was given."""

    def __init__(self, count: int) -> None:
        """Pretend to be so many."""
        super().__init__(count)
        self.given: list[Sequence[Any]] = []

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any], on_done: Any = None) -> list[Any]:
        """Return the results."""
        self.given.append(tasks)
        return [function(task) for task in tasks]


def test_runs_are_of_one_size_whatever_the_files(tmp_path: Path) -> None:
    """Two workers are as fast as the one that has more to do."""
    hands = random_hands(1, 96)
    sizes = (40, 24, 8, 8, 8, 8)
    ends = np.cumsum(sizes).tolist()
    cache, hashes = cache_of(tmp_path, {f"{end}.ohh": hands[end - size : end] for end, size in zip(ends, sizes, strict=True)})
    contents = list(hashes.values())
    pool = NotingWorkers(2)
    repeats = find_repeats(cache, contents)
    shuffle(cache, contents, repeats, tmp_path / "data", scratch=tmp_path / "tmp", config=CONFIG, workers=pool)
    run_tasks = pool.given[0]
    assert sorted(content for task in run_tasks for content in task.contents) == sorted(contents)
    counts = {content: cache.counts(content) for content in contents}
    num_reads = [sum(found.encoding.num_reads for content in task.contents if (found := counts[content])) for task in run_tasks]
    assert len(num_reads) == 2
    assert max(num_reads) < 1.2 * min(num_reads)


def test_shard_counts_are_powers_of_two() -> None:
    """Doubling splits each shard in two and leaves the order."""
    assert [num_shards(reads, 100) for reads in (0, 1, 100, 101, 200, 201, 401, 800)] == [1, 1, 1, 2, 2, 4, 8, 8]


@pytest.mark.parametrize("config", [{"seed": -1}, {"seed": 2**64}, {"reads_per_shard": 0}])
def test_impossible_configs_are_refused(config: dict[str, int]) -> None:
    """Found before hours of work, not after."""
    with pytest.raises(ValueError, match="must be"):
        ShuffleConfig(**config)


def test_labels_that_were_dealt_can_be_asked_for_alone(tmp_path: Path) -> None:
    """Shown hands are a biased sample; somebody who wants none of them as targets must get none, and lose nothing else."""
    path = tmp_path / "a.ohh"
    played = [shown_cards_only(), *random_hands(1, 30)]
    path.write_bytes(b"".join(write_ohh(hand) for hand in played))
    cache = open_cache(tmp_path / "cache")
    content = ingest_file(task_of(path, cache)).content
    run_shuffle(cache, [content], tmp_path / "all")
    run_shuffle(cache, [content], tmp_path / "dealt", config=replace(CONFIG, labels="dealt"))
    num_shown = 0
    for split in SPLITS:
        every, dealt = load_split(tmp_path / "all", split), load_split(tmp_path / "dealt", split)
        num_shown += int(every.is_label_shown.sum())
        expected = [label for label, is_shown in zip(labels_of(every), every.is_label_shown, strict=True) if not is_shown]
        assert labels_of(dealt) == expected
    assert num_shown > 0
    with pytest.raises(ValueError, match="labels must be one of all, dealt"):
        replace(CONFIG, labels="shown")
