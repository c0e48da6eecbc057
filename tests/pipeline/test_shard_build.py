"""From a catalogue to published shards: work done once, and the same bytes after whatever went wrong."""

import errno
import json
import multiprocessing
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from filelock import FileLock

from range_reader_core.hand import CanonicalHand
from range_reader_pipeline import shard_build
from range_reader_pipeline.ingest import open_cache
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.shard_build import BuildResult, NothingToReadError, build_shards
from range_reader_pipeline.shuffle import ShuffleConfig
from tests.core.hands import random_hands, walk
from tests.pipeline.encoded import catalogue_of, folder_bytes, home_with
from tests.pipeline.ohh_writer import ohh_line, write_ohh

CONFIG = ShuffleConfig(reads_per_shard=300)


def build(paths: HomePaths, *, num_workers: int = 1, messages: list[str] | None = None) -> BuildResult:
    on_progress = (lambda _: None) if messages is None else messages.append
    return build_shards(paths, catalogue_of(paths), CONFIG, num_workers=num_workers, on_progress=on_progress)


def three_files() -> dict[str, list[CanonicalHand]]:
    return {f"{seed}.ohh": random_hands(seed, 40) for seed in range(3)}


def test_a_second_build_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Materializing again must cost nothing and change not a byte."""
    paths = home_with(tmp_path, three_files())
    first = build(paths)
    before = folder_bytes(paths.root)
    monkeypatch.setattr(shard_build, "ingest_files", lambda *_: pytest.fail("files were read again"))
    second = build(paths)
    assert (first.is_reused, second.is_reused) == (False, True)
    assert second.manifest == first.manifest
    assert folder_bytes(paths.root) == before


def test_file_names_order_and_workers_do_not_matter(tmp_path: Path) -> None:
    """The same hands must give the same bytes on every machine."""
    files = three_files()
    one = home_with(tmp_path / "one", files)
    two = home_with(tmp_path / "two", {f"x/{9 - int(name[0])}.json": hands for name, hands in files.items()})
    assert build(one).manifest == build(two, num_workers=2).manifest
    assert folder_bytes(one.data.resolve()) == folder_bytes(two.data.resolve())


def test_one_new_file_encodes_one_file(tmp_path: Path) -> None:
    """Adding a day's hands to a year's must take a day's work, and give what a fresh build would."""
    paths = home_with(tmp_path / "grown", three_files())
    build(paths)
    write_ohh(paths.ohh / "new.ohh", random_hands(9, 40))
    grown = build(paths)
    assert grown.num_files_encoded == 1
    fresh = home_with(tmp_path / "fresh", {**three_files(), "new.ohh": random_hands(9, 40)})
    assert build(fresh).manifest == grown.manifest
    assert folder_bytes(fresh.data.resolve()) == folder_bytes(paths.data.resolve())


def test_removing_a_file_removes_its_reads_and_returning_it_costs_nothing(tmp_path: Path) -> None:
    """People take files out to leave them out."""
    paths = home_with(tmp_path, three_files())
    first = build(paths)
    moved = paths.ohh / "2.ohh"
    aside = moved.rename(tmp_path / "2.ohh")
    second = build(paths)
    gone = {hand.hand_id.rpartition("#")[2] for hand in random_hands(2, 40)}
    left = pl.read_parquet(paths.data / "*/*.parquet")["hand_id"].str.split("#").list.last()
    assert set(left) & gone == set()
    assert second.manifest["counts"]["num_files"] == 2
    aside.rename(moved)
    third = build(paths)
    assert third.is_reused
    assert third.manifest == first.manifest


def test_repeats_and_conflicts_are_counted_and_conflicts_listed(tmp_path: Path) -> None:
    """A hand under a taken id is somebody's data that is not used; they can find out which."""
    hands = random_hands(1, 10)
    conflict = replace(random_hands(2, 1)[0], hand_id=hands[0].hand_id, source=hands[0].source)
    paths = home_with(tmp_path, {"a.ohh": [*hands, hands[3], conflict], "copy.ohh": hands[5:]})
    counts = build(paths).manifest["counts"]
    assert (counts["num_accepted"], counts["num_repeats"], counts["num_conflicts"], counts["num_hands"]) == (17, 6, 1, 10)
    rejects = pl.read_parquet(paths.rejects)
    assert rejects.select("code", "file").rows() == [("DUP_CONFLICT", "a.ohh")]
    assert sum(counts["hands_by_split"].values()) <= 10


def test_rejects_name_file_line_and_reason(tmp_path: Path) -> None:
    """Rejects are data: without the line nobody can look at the hand."""
    paths = home_with(tmp_path, {"good.ohh": random_hands(1, 5)})
    (paths.ohh / "bad.ohh").write_text(f'{ohh_line(random_hands(2, 1)[0])}\n\n{{"ots": {{}}}}\n')
    counts = build(paths).manifest["counts"]
    assert counts["rejected_by_code"] == {"REC_NOT_OHH": 1}
    assert pl.read_parquet(paths.rejects).select("file", "line", "code").rows() == [("bad.ohh", 3, "REC_NOT_OHH")]
    paths.rejects.unlink()
    build(paths)
    assert pl.read_parquet(paths.rejects).height == 1


def test_a_file_that_changes_between_catalogue_and_encoding_is_left_out_and_named(tmp_path: Path) -> None:
    """The shards must say what they were really made from, or the sensor would never look at the file again."""
    paths = home_with(tmp_path, three_files())
    catalogue = catalogue_of(paths)
    write_ohh(paths.ohh / "1.ohh", random_hands(8, 40))
    (paths.ohh / "2.ohh").unlink()
    result = build_shards(paths, catalogue, CONFIG)
    assert result.problems == {"1.ohh": "changed since it was catalogued", "2.ohh": "No such file or directory"}
    assert result.manifest["counts"]["num_files"] == 1
    assert result.manifest["source_version"] != catalogue.version


@pytest.mark.parametrize(
    ("content", "message", "reasons"),
    [
        (
            '{"ohh": {"x": 1}}\n{"no": 1}\n',
            r"not one hand was accepted from 1 file: a\.ohh \(FILE_NO_HANDS: .*`range-reader ingest <file>`",
            True,
        ),
        ("\n\n", "1 file holds no hands", False),
        (ohh_line(walk()) + "\n", "nothing to learn from", False),
    ],
)
def test_nothing_usable_is_an_error_with_reasons(tmp_path: Path, content: str, message: str, reasons: bool) -> None:
    """An empty data set would fail much later, in training, with no hint of why."""
    paths = home_with(tmp_path, {})
    (paths.ohh / "a.ohh").write_text(content)
    with pytest.raises(NothingToReadError, match=message) as caught:
        build(paths)
    assert bool(caught.value.reasons) is reasons
    assert not paths.data.exists()
    assert (pl.read_parquet(paths.rejects)["file"].to_list() if reasons else []) == ["a.ohh"] * (3 if reasons else 0)


def test_a_damaged_cache_entry_is_encoded_again(tmp_path: Path) -> None:
    """A bad sector under the cache must not need a person."""
    paths = home_with(tmp_path / "a", three_files())
    build(paths)
    cache = open_cache(paths.reads_cache)
    for sha256 in build(paths).manifest["inputs"][:2]:
        path = cache.path(sha256)
        sound = path.read_bytes()
        path.write_bytes(sound[:600] + bytes(300) + sound[900:])
    write_ohh(paths.ohh / "new.ohh", random_hands(9, 40))
    messages: list[str] = []
    build(paths, messages=messages)
    assert sum("encoding the file again" in message for message in messages) == 2
    fresh = home_with(tmp_path / "b", {**three_files(), "new.ohh": random_hands(9, 40)})
    build(fresh)
    assert folder_bytes(fresh.data.resolve()) == folder_bytes(paths.data.resolve())


def test_the_only_cache_entry_may_be_damaged(tmp_path: Path) -> None:
    """The last repair must be followed by another attempt."""
    paths = home_with(tmp_path / "a", {"a.ohh": random_hands(1, 40)})
    path = open_cache(paths.reads_cache).path(build(paths).manifest["inputs"][0])
    sound = path.read_bytes()
    path.write_bytes(sound[:600] + bytes(300) + sound[900:])
    (paths.data / "train" / "shard_00000.parquet").write_bytes(b"")
    assert not build(paths).is_reused
    assert path.read_bytes() == sound


def test_damaged_shards_are_built_again(tmp_path: Path) -> None:
    """'Nothing changed' must not be said of shards that are no longer whole."""
    paths = home_with(tmp_path, three_files())
    build(paths)
    before = folder_bytes(paths.data.resolve())
    (paths.data / "train" / "shard_00000.parquet").write_bytes(b"")
    result = build(paths)
    assert not result.is_reused
    assert result.num_files_encoded == 0
    assert folder_bytes(paths.data.resolve()) == before


def test_a_full_disk_leaves_the_published_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Running out of space while adding data must not take away what was there."""
    paths = home_with(tmp_path, three_files())
    build(paths)
    before = folder_bytes(paths.data.resolve())
    write_ohh(paths.ohh / "new.ohh", random_hands(9, 40))

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(paths.data_versions))

    with monkeypatch.context() as patch:
        patch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
        with pytest.raises(OSError, match="No space left"):
            build(paths)
    assert folder_bytes(paths.data.resolve()) == before
    assert [entry.name for entry in paths.data_versions.iterdir()] == [paths.data.resolve().name]
    assert not build(paths).is_reused


def test_two_builds_at_once_do_the_work_once(tmp_path: Path) -> None:
    """Two people may press Materialize; the second waits and finds it done."""
    paths = home_with(tmp_path, three_files())
    messages: list[str] = []
    paths.ingest_lock.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(paths.ingest_lock)
    lock.acquire()

    def notice(message: str) -> None:
        messages.append(message)
        lock.release()

    build_shards(paths, catalogue_of(paths), CONFIG, num_workers=1, on_progress=notice)
    assert messages[0] == "another run is encoding for this home; waiting for it"


@pytest.mark.slow
def test_a_killed_build_leaves_no_trace(tmp_path: Path) -> None:
    """Power cuts and the out-of-memory killer come at any moment; the next run must end with the same bytes."""
    files = {f"{seed}.ohh": random_hands(seed, 40) for seed in range(6)}
    undisturbed = home_with(tmp_path / "undisturbed", files)
    build(undisturbed)
    expected = folder_bytes(undisturbed.data.resolve())
    num_killed = attempt = home = 0
    while num_killed < 20:
        paths = home_with(tmp_path / f"disturbed{home}", files)
        told = 1 + attempt % 7  # die after so many messages, and before another is outlived
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.pipeline.build_process", str(paths.root), str(told + 1)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        assert process.stdout is not None
        for _ in range(told):
            process.stdout.readline()
        time.sleep(0.01 * (attempt % 10))
        process.send_signal(signal.SIGKILL)
        process.stdout.close()
        is_killed = process.wait() == -signal.SIGKILL
        assert is_killed or attempt > 0  # of six files there are more than eight messages
        num_killed += is_killed
        attempt += 1
        if not is_killed or attempt % 5 == 0:  # it was done, or five kills in a row: from the beginning
            home += 1
        assert attempt < 60  # whatever the machine's speed: in a home where nothing is done yet none outlives its message
    build(paths, num_workers=2)
    assert folder_bytes(paths.data.resolve()) == expected
    assert not list(paths.root.rglob("*.tmp"))
    assert json.loads(paths.data_manifest.read_text())["counts"]["num_files"] == 6


def test_no_process_is_left_behind(tmp_path: Path) -> None:
    """Orphaned workers would hold memory for as long as the machine runs."""
    paths = home_with(tmp_path, three_files())
    build(paths, num_workers=2)
    assert multiprocessing.active_children() == []
