"""One file becomes its cache entry: every hand or a reason, under the hash of the bytes that were read, or no entry at all."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from range_reader_core.encoder import HandEncoder, pairs_of
from range_reader_core.hand import CanonicalHand
from range_reader_core.ohh import parse_ohh
from range_reader_core.skeletons import joined
from range_reader_pipeline import ingest, streams
from range_reader_pipeline.ingest import FILE_BROKEN, ingest_file, ingest_files, open_cache
from range_reader_pipeline.workers import workers
from tests.core.hands import open_fold, random_hands, walk
from tests.pipeline.encoded import task_of
from tests.pipeline.ohh_writer import ohh_line, write_ohh


def test_an_entry_holds_the_reads_of_its_hands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows shifted between hands and reads would give hands the cards of others; chunks are small to cross their borders."""
    monkeypatch.setattr(ingest, "CHUNK_HANDS", 7)
    hands = [*random_hands(1, 20), walk(), open_fold(), *random_hands(2, 5)]
    path = write_ohh(tmp_path / "a.ohh", hands)
    cache = open_cache(tmp_path / "cache")
    outcome = ingest_file(task_of(path, cache))
    with path.open("rb") as stream:
        parsed = [hand for hand in parse_ohh(stream, "a.ohh") if isinstance(hand, CanonicalHand)]
    expected, counts = HandEncoder().encode_hands(parsed)
    assert outcome.counts is not None
    assert outcome.counts.encoding == counts
    chunks = list(cache.chunks(outcome.content))
    assert len(chunks) > 2
    skeletons = joined([chunk.skeletons for chunk in chunks])
    pairs = pairs_of(skeletons)
    tokens, values, _ = HandEncoder().inputs_of(skeletons, pairs)
    np.testing.assert_array_equal(tokens, expected.tokens)
    np.testing.assert_array_equal(values, expected.values)
    np.testing.assert_array_equal(skeletons.combos[pairs.villain_places(skeletons)], expected.villain_combo)
    ids = [hand_id for chunk in chunks for hand_id in chunk.hand_ids.to_pylist()]
    assert [ids[hand] for hand in pairs.of_hand] == [expected.hand_ids[index] for index in expected.hand_index]
    assert len(cache.id_hashes(outcome.content)) == len(hands)  # hands without reads can be repeats too


def test_refused_records_are_rows_with_line_and_reason(tmp_path: Path) -> None:
    """A hand that vanishes without a trace cannot be missed by anybody."""
    good = random_hands(1, 3)
    lines = [ohh_line(good[0]), '{"ohh": {"torn', ohh_line(good[1]), ohh_line(good[2]).replace('"Holdem"', '"Omaha"')]
    path = tmp_path / "a.ohh"
    path.write_text("\n".join(lines) + "\n")
    cache = open_cache(tmp_path / "cache")
    counts = ingest_file(task_of(path, cache)).counts
    assert counts is not None
    assert (counts.encoding.num_hands, counts.num_rejected, counts.is_failed) == (2, 2, False)
    rows = [row for part in cache.rejects(task_of(path, cache).content) for row in part.to_pylist()]
    assert {row["line"]: row["code"] for row in rows} == {2: "REC_TRUNCATED", 4: "GAME_TYPE"}
    assert sum(counts.by_code.values()) == 2
    assert all(row["message"] and len(row["excerpt"]) <= 200 for row in rows)


@pytest.mark.parametrize("name", ["a.phh", "a.phh.gz", "a.phhs"])
def test_poker_hand_history_goes_to_its_own_parser(tmp_path: Path, name: str) -> None:
    """TOML handed to the JSON parser is a file without a single hand."""
    text = (Path(__file__).parent / "phh_cases" / "straddle.phh").read_text()
    data = (text if name != "a.phhs" else f"[1]\n{text}").encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    counts = ingest_file(task_of(path, open_cache(tmp_path / "cache"))).counts
    assert counts is not None
    assert (counts.encoding.num_hands, counts.num_rejected, counts.is_failed) == (1, 0, False)


def test_the_same_bytes_under_another_suffix_are_read_anew(tmp_path: Path) -> None:
    """A file refused under a wrong name must be read once it has its right one."""
    cache = open_cache(tmp_path / "cache")
    wrong = write_ohh(tmp_path / "a.phh", random_hands(1, 4))
    counts = ingest_file(task_of(wrong, cache)).counts
    assert counts is not None
    assert counts.encoding.num_hands == 0
    right = ingest_file(task_of(wrong.rename(tmp_path / "a.ohh"), cache)).counts
    assert right is not None
    assert right.encoding.num_hands == 4
    packed = ingest_file(task_of((tmp_path / "a.ohh").rename(tmp_path / "a.ohh.gz"), cache)).counts
    assert packed is not None
    assert packed.by_code == {FILE_BROKEN: 1}


def test_a_file_that_changed_since_it_was_catalogued_leaves_no_entry(tmp_path: Path) -> None:
    """An entry of other bytes under this hash would be reused for ever."""
    path = write_ohh(tmp_path / "a.ohh", random_hands(1, 5))
    task = task_of(path, open_cache(tmp_path / "cache"))
    write_ohh(path, random_hands(2, 5))
    outcome = ingest_file(task)
    assert outcome.counts is None
    assert outcome.problem == "changed since it was catalogued"
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_file_that_is_gone_or_unreadable_is_an_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One bad sector or removed file must not stop the other files."""
    path = write_ohh(tmp_path / "a.ohh", random_hands(1, 5))
    task = task_of(path, open_cache(tmp_path / "cache"))

    def broken_disk(self: streams.HashingReader, _: memoryview) -> int:
        self.error = OSError(5, "Input/output error")
        raise self.error

    with monkeypatch.context() as patch:
        patch.setattr(streams.HashingReader, "readinto", broken_disk)
        assert ingest_file(task).problem == "[Errno 5] Input/output error"
    path.unlink()
    assert ingest_file(task).problem == "No such file or directory"


def test_a_cut_off_archive_gives_its_hands_and_counts_as_failed(tmp_path: Path) -> None:
    """Half a download must be reported even though its first half reads well."""
    packed = gzip.compress("".join(ohh_line(hand) + "\n" for hand in random_hands(1, 60)).encode())
    path = tmp_path / "a.ohh.gz"
    path.write_bytes(packed[: len(packed) * 3 // 4])
    counts = ingest_file(task_of(path, open_cache(tmp_path / "cache"))).counts
    assert counts is not None
    assert 10 < counts.encoding.num_hands < 60
    assert counts.is_failed
    assert counts.by_code[FILE_BROKEN] == 1


def test_a_file_of_another_game_is_no_failed_file(tmp_path: Path) -> None:
    """Omaha among hold'em is no damage; a file that is no hand history at all is."""
    lines = [ohh_line(hand).replace('"Holdem"', '"Omaha"') for hand in random_hands(1, 4)]
    cache = open_cache(tmp_path / "cache")
    files = [("a.ohh", "\n".join(lines), False), ("b.ohh", lines[0] + '\n{"x": 1}', True), ("c.ohh", "junk", True)]
    for name, text, is_failed in files:
        path = tmp_path / name
        path.write_text(text)
        counts = ingest_file(task_of(path, cache)).counts
        assert counts is not None
        assert counts.by_code["FILE_NO_HANDS"] == 1
        assert counts.is_failed is is_failed, name


@pytest.mark.timeout(20)
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Opening a pipe that nobody writes to would hold the run for ever."""
    path = write_ohh(tmp_path / "a.ohh", random_hands(1, 2))
    task = task_of(path, open_cache(tmp_path / "cache"))
    path.unlink()
    os.mkfifo(path)
    assert "not a regular file" in ingest_file(task).problem


@pytest.mark.parametrize("content", ["", "\n\n\n"])
def test_an_empty_file_is_an_entry_of_no_hands(tmp_path: Path, content: str) -> None:
    """It would else be read again in every run."""
    (tmp_path / "a.ohh").write_text(content)
    cache = open_cache(tmp_path / "cache")
    outcome = ingest_file(task_of(tmp_path / "a.ohh", cache))
    assert outcome.counts is not None
    assert outcome.counts.encoding.num_hands == 0
    assert list(cache.chunks(outcome.content)) == []


def test_cached_files_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adding one file to a thousand must cost one file."""
    cache = open_cache(tmp_path / "cache")
    tasks = [task_of(write_ohh(tmp_path / f"{seed}.ohh", random_hands(seed, 5)), cache) for seed in range(3)]
    seen: list[str] = []
    with workers(1) as pool:
        ingest_files(tasks[:2], pool)
        done: list[int] = []
        monkeypatch.setattr(ingest, "HashingReader", lambda path: seen.append(path.name) or streams.HashingReader(path))
        outcomes = ingest_files(tasks, pool, lambda count, _: done.append(count))
    assert seen == ["2.ohh"]
    assert done == [3]
    assert [outcome.name for outcome in outcomes] == ["0.ohh", "1.ohh", "2.ohh"]


def test_processes_give_the_same_entries(tmp_path: Path) -> None:
    """A worker process has its own hash seed, locale and order of files."""
    paths = [write_ohh(tmp_path / f"{seed}.ohh", random_hands(seed, 8)) for seed in range(4)]
    one, two = open_cache(tmp_path / "one"), open_cache(tmp_path / "two")
    with workers(1) as pool:
        ingest_files([task_of(path, one) for path in paths], pool)
    with workers(2) as pool:
        ingest_files([task_of(path, two) for path in reversed(paths)], pool)
    names = {path.name for path in (tmp_path / "one").iterdir()}
    assert names == {path.name for path in (tmp_path / "two").iterdir()}
    assert len(names) == 8
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
