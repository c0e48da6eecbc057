"""Every hand counts once, and which occurrence counts depends on contents alone."""

from dataclasses import replace
from pathlib import Path

import pytest

from range_reader_pipeline.reads_cache import CorruptCacheError
from range_reader_pipeline.repeats import EarlyIds, find_repeats
from tests.core.hands import random_hands
from tests.pipeline.encoded import cache_of


def test_the_first_occurrence_wins_and_the_others_are_told_apart(tmp_path: Path) -> None:
    """A re-import must not double the weight of its hands, and another hand under a taken id must not pass for a re-import."""
    hands = random_hands(1, 6)
    impostor = replace(random_hands(2, 1)[0], hand_id=hands[0].hand_id, source=hands[0].source)
    files = {"a.ohh": hands[:4], "b.ohh": [impostor, hands[5], hands[2]], "c.ohh": [hands[4], hands[4]]}
    cache, hashes = cache_of(tmp_path, files)
    repeats = find_repeats(cache, list(hashes.values()))
    first = min("ab", key=lambda name: hashes[f"{name}.ohh"])
    loser = "b" if first == "a" else "a"
    rows = {"a": (0, 2), "b": (0, 2)}[loser]  # where the losing file holds hand 0's id, and hand 2
    assert {sha: list(found) for sha, found in repeats.conflict_rows.items()} == {hashes[f"{loser}.ohh"]: [rows[0]]}
    assert {sha: list(found) for sha, found in repeats.repeat_rows.items()} == {
        hashes[f"{loser}.ohh"]: [rows[1]],
        hashes["c.ohh"]: [1],
    }
    assert (repeats.num_repeats, repeats.num_conflicts) == (2, 1)
    assert repeats.dropped_rows(hashes[f"{loser}.ohh"]).tolist() == [0, 2]
    assert repeats.dropped_rows(hashes[f"{first}.ohh"]).tolist() == []


def test_the_order_of_files_does_not_matter(tmp_path: Path) -> None:
    """Directory order differs between machines; the shards must not."""
    hands = random_hands(1, 12)
    cache, hashes = cache_of(tmp_path, {"a.ohh": hands[:8], "b.ohh": hands[4:], "c.ohh": hands[2:10]})
    found = [find_repeats(cache, order) for order in (sorted(hashes.values()), sorted(hashes.values(), reverse=True))]
    assert found[0].num_repeats == 12
    for sha256 in hashes.values():
        assert found[0].dropped_rows(sha256).tolist() == found[1].dropped_rows(sha256).tolist()


def test_nothing_repeated_drops_nothing(tmp_path: Path) -> None:
    """The usual case, and no hands at all."""
    cache, hashes = cache_of(tmp_path, {"a.ohh": random_hands(1, 5), "b.ohh": random_hands(2, 5), "none.ohh": []})
    repeats = find_repeats(cache, list(hashes.values()))
    assert (repeats.num_repeats, repeats.num_conflicts, repeats.repeat_rows) == (0, 0, {})
    assert find_repeats(cache, []).num_repeats == 0


def test_ids_that_were_read_early_decide_the_same(tmp_path: Path) -> None:
    """They are read while workers encode, some of them or all, and must not change what is dropped."""
    hands = random_hands(1, 12)
    cache, hashes = cache_of(tmp_path, {"a.ohh": hands[:8], "b.ohh": hands[4:], "c.ohh": hands[2:10]})
    contents = list(hashes.values())
    late = find_repeats(cache, contents)
    for num_early in (1, 3):
        early = EarlyIds()
        for content in contents[:num_early]:
            early.read(cache, content)
        found = find_repeats(cache, contents, early)
        assert found.num_repeats == late.num_repeats == 12
        assert all(found.dropped_rows(content).tolist() == late.dropped_rows(content).tolist() for content in contents)


def test_an_entry_damaged_when_read_early_is_told_when_it_is_needed(tmp_path: Path) -> None:
    """There it is encoded again; earlier nobody could."""
    cache, hashes = cache_of(tmp_path, {"a.ohh": random_hands(1, 8)})
    (content,) = hashes.values()
    path = cache.path(content)
    sound = path.read_bytes()
    path.write_bytes(sound[:500] + bytes(200) + sound[700:])
    early = EarlyIds()
    early.read(cache, content)
    with pytest.raises(CorruptCacheError):
        find_repeats(cache, [content], early)
    path.write_bytes(sound)
    assert find_repeats(cache, [content], early).num_repeats == 0
