"""The local copy of a bucket: what is in it, what is fetched for that, and that nothing is lost on the way."""

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from fsspec.implementations.memory import MemoryFileSystem

from range_reader_pipeline import mirror as mirror_file
from range_reader_pipeline.catalogue import FileStatus
from range_reader_pipeline.mirror import Mirrored, mirror
from range_reader_pipeline.object_store import StoreError, fetch
from range_reader_pipeline.paths import HomePaths, home_paths
from tests.pipeline.buckets import KINDS, Bucket, bucket_of, home_on
from tests.pipeline.encoded import folder_bytes


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the last parts of the keys that are fetched, as they are."""
    keys: list[str] = []

    def counting(url: str, key: str, target: Path, on_bytes: Callable[[int], None]) -> None:
        keys.append(key.rpartition("/")[2])
        fetch(url, key, target, on_bytes)

    monkeypatch.setattr(mirror_file, "fetch", counting)
    return keys


def counts(result: Mirrored) -> tuple[int, int, int]:
    return result.num_fetched, result.num_bytes, result.num_removed


@pytest.mark.parametrize("kind", KINDS)
def test_the_copy_follows_the_bucket_and_only_changes_are_fetched(kind: str, tmp_path: Path, fetched: list[str]) -> None:
    """A bucket of gigabytes must not be fetched for one new object, and what is gone must not be trained on."""
    bucket = bucket_of(kind, tmp_path)
    paths = home_on(tmp_path, bucket)
    for name in ("a.ohh", "sub/b.jsonl", "sub/deep/c.phh.gz", "notes.txt"):
        bucket.write(name, name.encode())
    assert counts(mirror(paths)) == (3, 33, 0)
    assert folder_bytes(paths.ohh) == {name: name.encode() for name in ("a.ohh", "sub/b.jsonl", "sub/deep/c.phh.gz")}
    fetched.clear()
    again = mirror(paths)
    assert counts(again) == (0, 0, 0)
    assert again.listing.num_ignored == 1
    bucket.write("a.ohh", b"changed")
    bucket.write("new.ohh", b"new")
    bucket.remove("sub/deep/c.phh.gz")
    result = mirror(paths)
    assert counts(result) == (2, 10, 1)
    assert sorted(fetched) == ["a.ohh", "new.ohh"]
    assert folder_bytes(paths.ohh) == {"a.ohh": b"changed", "new.ohh": b"new", "sub/b.jsonl": b"sub/b.jsonl"}
    assert [entry.name for entry in result.listing.entries] == ["a.ohh", "new.ohh", "sub/b.jsonl"]
    assert not (paths.ohh / "sub" / "deep").exists()


def test_a_change_that_keeps_the_size_is_fetched(tmp_path: Path, fetched: list[str]) -> None:
    """Sizes alone would miss a corrected card."""
    bucket = bucket_of("memory", tmp_path)
    paths = home_on(tmp_path, bucket)
    bucket.write("a.ohh", b"one")
    mirror(paths)
    bucket.write("a.ohh", b"two")
    assert mirror(paths).num_fetched == 1
    assert folder_bytes(paths.ohh) == {"a.ohh": b"two"}


def test_an_object_whose_tag_stays_is_not_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket that was copied over itself has new times and the same contents."""
    bucket = bucket_of("memory", tmp_path)
    paths = home_on(tmp_path, bucket)
    find = MemoryFileSystem.find

    def tagged(*args: Any, **options: Any) -> Any:
        return {key: {**info, "ETag": f"tag{info['size']}"} for key, info in find(*args, **options).items()}

    monkeypatch.setattr(MemoryFileSystem, "find", tagged)
    bucket.write("a.ohh", b"one")
    assert mirror(paths).num_fetched == 1
    bucket.write("a.ohh", b"one")
    assert mirror(paths).num_fetched == 0
    bucket.write("a.ohh", b"three")
    assert mirror(paths).num_fetched == 1


@pytest.mark.parametrize("damage", ["cut", "touched", "gone", "linked", "no index", "broken index", "index of another url"])
def test_a_copy_that_was_tampered_with_is_mended(damage: str, tmp_path: Path) -> None:
    """The copy is a cache: whatever happened to it, the next run has the bucket's bytes."""
    bucket = bucket_of("memory", tmp_path)
    paths = home_on(tmp_path, bucket)
    bucket.write("a.ohh", b"aaaa")
    bucket.write("b.ohh", b"bb")
    mirror(paths)
    path = paths.ohh / "a.ohh"
    if damage == "cut":
        path.write_bytes(b"aa")
    elif damage == "touched":
        path.write_bytes(b"evil")
    elif damage in ("gone", "linked"):
        path.unlink()
        if damage == "linked":
            (tmp_path / "other.ohh").write_bytes(b"aaaa")
            path.symlink_to(tmp_path / "other.ohh")
    elif damage == "no index":
        paths.mirror_index.unlink()
    else:
        paths.mirror_index.write_text("{" if damage == "broken index" else '{"url": "s3://other", "files": {}}')
    (paths.ohh / "stray.ohh").write_text("x")
    (paths.ohh / "sub").mkdir()
    (paths.ohh / "sub" / ".b.ohh.1.tmp").write_text("unfinished")
    assert mirror(paths).num_fetched == (2 if "index" in damage else 1)
    assert folder_bytes(paths.ohh) == {"a.ohh": b"aaaa", "b.ohh": b"bb"}
    assert sorted(path.name for path in paths.ohh.iterdir()) == ["a.ohh", "b.ohh"]
    assert mirror(paths).num_fetched == 0


def test_names_that_lead_out_of_the_folder_are_left_out(tmp_path: Path) -> None:
    """Whoever may write to the bucket must not thereby write to the disk."""
    bucket = bucket_of("memory", tmp_path)
    paths = home_on(tmp_path, bucket)
    for name in ("a.ohh", "../evil.ohh", "../../../../evil.ohh", f"/{tmp_path}/evil.ohh"):
        bucket.write_raw(name)
    before = folder_bytes(tmp_path)
    result = mirror(paths)
    new = folder_bytes(tmp_path).keys() - before.keys()
    assert new == {f"{paths.mirror.relative_to(tmp_path)}/{name}" for name in ("hands/a.ohh", "index.json", "mirror.lock")}
    assert [entry.status for entry in result.listing.entries] == [FileStatus.OUTSIDE] * 3 + [FileStatus.PENDING]


@pytest.mark.parametrize("lost", ["unreachable", "empty"])
def test_a_store_that_is_out_of_reach_or_lists_nothing_changes_nothing(
    lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An expired key or a moved prefix is not an emptied bucket, as an unmounted disk is not an emptied folder."""
    bucket = bucket_of("memory", tmp_path)
    paths = home_on(tmp_path, bucket)
    bucket.write("a.ohh", b"a")
    mirror(paths)
    before = folder_bytes(paths.root)
    if lost == "empty":
        bucket.remove("a.ohh")
        told = rf"lists no hand histories any more, after 1 file before.*remove {paths.mirror}"
    else:
        monkeypatch.setattr(MemoryFileSystem, "find", lambda *_, **__: {}["no network"])
        told = "cannot be listed: KeyError: 'no network'"
    with pytest.raises(StoreError, match=told):
        mirror(paths)
    assert folder_bytes(paths.root) == before


def test_an_object_that_changes_or_goes_meanwhile_is_left_for_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One object in motion must neither stop the others nor be read half."""
    bucket = bucket_of("memory", tmp_path)
    paths = home_on(tmp_path, bucket)
    for name in ("a.ohh", "b.ohh", "c.ohh"):
        bucket.write(name, b"1")
    mirror(paths)
    for name in ("a.ohh", "b.ohh", "c.ohh"):
        bucket.write(name, b"22")

    def meanwhile(url: str, key: str, target: Path, on_bytes: Callable[[int], None]) -> None:
        if key.endswith("a.ohh"):
            bucket.write("a.ohh", b"333")
        elif key.endswith("b.ohh"):
            bucket.remove("b.ohh")
        fetch(url, key, target, on_bytes)

    with monkeypatch.context() as patch:
        patch.setattr(mirror_file, "fetch", meanwhile)
        result = mirror(paths)
    assert counts(result) == (1, 2, 0)
    assert folder_bytes(paths.ohh) == {"c.ohh": b"22"}
    changed, gone, _ = result.listing.entries
    assert (changed.name, changed.status) == ("a.ohh", FileStatus.CHANGING)
    assert changed.reason == "listed with 2 bytes and came with 3: changed meanwhile, or unpacked on the way"
    assert (gone.name, gone.reason) == ("b.ohh", "removed after it was listed")
    assert mirror(paths).num_fetched == 1
    assert folder_bytes(paths.ohh) == {"a.ohh": b"333", "c.ohh": b"22"}


def test_a_failing_fetch_is_told_and_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fetched: list[str]) -> None:
    """A network that breaks off at the thousandth object must not cost the other 999."""
    bucket = bucket_of("memory", tmp_path)
    paths = home_on(tmp_path, bucket)
    for index in range(6):
        bucket.write(f"{index}.ohh", b"%d" % index)
    monkeypatch.setattr(mirror_file, "NUM_FETCHES", 1)
    get_file = MemoryFileSystem.get_file

    def failing(self: MemoryFileSystem, key: str, target: str, **options: Any) -> None:
        if key.endswith("3.ohh"):
            Path(target).write_bytes(b"half")
            msg = "connection reset"
            raise RuntimeError(msg)
        get_file(self, key, target, **options)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "get_file", failing)
        with pytest.raises(
            StoreError, match=r"3\.ohh cannot be fetched from .*: RuntimeError: connection reset.*run again to go on"
        ):
            mirror(paths)
    assert sorted(folder_bytes(paths.ohh)) == ["0.ohh", "1.ohh", "2.ohh"]
    fetched.clear()
    assert counts(mirror(paths)) == (3, 3, 0)
    assert fetched == ["3.ohh", "4.ohh", "5.ohh"]
    assert folder_bytes(paths.ohh) == {f"{index}.ohh": b"%d" % index for index in range(6)}


def test_the_first_failure_is_told_and_not_that_others_were_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a person can act on is why it broke off, and what came through beside it is kept."""
    bucket = bucket_of("memory", tmp_path)
    paths = home_on(tmp_path, bucket)
    for index in range(4):
        bucket.write(f"{index}.ohh", b"%d" % index)
    get_file, failed = MemoryFileSystem.get_file, threading.Event()

    def failing(self: MemoryFileSystem, key: str, target: str, **options: Any) -> None:
        if key.endswith("1.ohh"):
            failed.set()
            msg = "connection reset"
            raise RuntimeError(msg)
        if key.endswith("0.ohh"):  # in the middle of a long transfer
            failed.wait(10.0)
            for _ in range(1000):
                options["callback"].relative_update(1)
                threading.Event().wait(0.01)
        get_file(self, key, target, **options)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "get_file", failing)
        with pytest.raises(StoreError, match=r"^1\.ohh cannot be fetched"):
            mirror(paths)
    assert "0.ohh" not in folder_bytes(paths.ohh)
    present = len(folder_bytes(paths.ohh))
    assert counts(mirror(paths)) == (4 - present, 4 - present, 0)


def test_a_full_disk_is_no_fault_of_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a person must do is free space, not look at credentials."""
    bucket = bucket_of("memory", tmp_path)
    bucket.write("a.ohh", b"a")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(MemoryFileSystem, "get_file", full)
    with pytest.raises(OSError, match="No space left"):
        mirror(home_on(tmp_path, bucket))


def test_a_killed_mirror_is_gone_on_with(tmp_path: Path, fetched: list[str]) -> None:
    """SIGKILL in the middle of a file: the next one fetches what is missing and leaves no half of anything."""
    bucket = bucket_of("file", tmp_path)
    paths = home_on(tmp_path, bucket)
    for index in range(5):
        bucket.write(f"sub/{index}.ohh", b"%d" % index * 1000)
    code = f"""
import os, signal
from pathlib import Path
from range_reader_pipeline import mirror as file
from range_reader_pipeline.object_store import fetch
from range_reader_pipeline.paths import home_paths

def killed(url, key, target, on_bytes):
    if key.endswith("3.ohh"):
        target.write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    fetch(url, key, target, on_bytes)

file.fetch, file.NUM_FETCHES, file.SAVE_EVERY_S = killed, 1, 0.0
file.mirror(home_paths(home={str(paths.root)!r}, ohh={bucket.url!r}, environment={{}}))
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, env={**os.environ}, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    unfinished = [path.name for path in paths.ohh.rglob(".*.tmp")]
    assert len(unfinished) == 1
    assert unfinished[0].startswith(".3.ohh.")
    mirror(paths)
    assert {"3.ohh", "4.ohh"} <= set(fetched)
    assert len(fetched) <= 3  # one that arrived just before the kill may not be in the index yet
    assert folder_bytes(paths.ohh) == {f"sub/{index}.ohh": b"%d" % index * 1000 for index in range(5)}


def test_an_interrupted_mirror_stops_its_fetches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """*Terminate* must not wait for gigabytes to arrive, and what did arrive is kept."""
    bucket = bucket_of("memory", tmp_path)
    paths = home_on(tmp_path, bucket)
    for index in range(100):
        bucket.write(f"{index:02}.ohh", b"x" * (index + 1))
    begun = []

    def slow(url: str, key: str, target: Path, on_bytes: Callable[[int], None]) -> None:
        begun.append(key)
        fetch(url, key, target, on_bytes)
        for _ in range(1000):
            if len(begun) > 20:
                threading.Event().wait(0.02)
            on_bytes(0)

    def interrupt(text: str) -> None:
        if text.startswith("fetched"):
            raise KeyboardInterrupt

    monkeypatch.setattr(mirror_file, "fetch", slow)
    monkeypatch.setattr(mirror_file, "SAY_EVERY_S", 0.1)
    with pytest.raises(KeyboardInterrupt):
        mirror(paths, interrupt)
    assert len(begun) < 100
    assert not list(paths.ohh.rglob(".*.tmp"))
    monkeypatch.setattr(mirror_file, "fetch", fetch)
    assert 0 < mirror(paths).num_fetched <= 100
    assert len(folder_bytes(paths.ohh)) == 100


def test_two_at_once_fetch_once(tmp_path: Path, fetched: list[str]) -> None:
    """`make run` beside `make ui`: one waits and finds everything there."""
    bucket = bucket_of("memory", tmp_path)
    paths = home_on(tmp_path, bucket)
    for index in range(30):
        bucket.write(f"{index}.ohh", b"x")
    told: list[str] = []
    paths.mirror.mkdir(parents=True)
    with FileLock(paths.mirror_lock):
        threads = [threading.Thread(target=mirror, args=(paths, told.append)) for _ in range(2)]
        for thread in threads:
            thread.start()
        while len(told) < 2:
            threading.Event().wait(0.01)
        assert told == ["another run is fetching hand histories for this home; waiting for it"] * 2
        assert not fetched
    for thread in threads:
        thread.join()
    assert len(fetched) == 30
    assert len(folder_bytes(paths.ohh)) == 30


def test_progress_is_told_in_files_and_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half an hour without a word looks like a hang."""
    bucket = bucket_of("memory", tmp_path)
    for index in range(3):
        bucket.write(f"{index}.ohh", b"x" * 1_000_000)
    monkeypatch.setattr(mirror_file, "SAY_EVERY_S", 0.0)
    told: list[str] = []
    paths = home_on(tmp_path, bucket)
    mirror(paths, told.append)
    assert told[0] == f"3 files to fetch from {bucket.url}, 3.0 MB"
    assert told[-1] == "fetched 3 of 3 files, 3.0 MB"
    told.clear()
    mirror(paths, told.append)
    assert told == []


def test_each_url_has_a_copy_of_its_own_inside_the_home(tmp_path: Path) -> None:
    """Two runs on two buckets must not take each other's files away, and nothing is written outside the home."""

    def of(url: str) -> HomePaths:
        return home_paths(home=str(tmp_path), environment={"RANGE_READER_OHH": url})

    first = of("S3://bucket/hands/")
    assert first == of("s3://bucket/hands")
    assert first.ohh_url == first.ohh_source == "s3://bucket/hands"
    assert not first.is_default_ohh
    assert first.ohh.is_relative_to(first.mirror)
    assert first.mirror.is_relative_to(tmp_path / "cache")
    assert of("s3://bucket/Hands").ohh != first.ohh
    assert Bucket(first.ohh_source).url == home_paths(home=str(tmp_path), ohh=first.ohh_source, environment={}).ohh_url
