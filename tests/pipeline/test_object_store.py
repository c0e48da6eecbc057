"""What a listing makes of a store's objects, and what a person is told who gave a URL that leads nowhere."""

import threading
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import known_implementations

from range_reader_pipeline.catalogue import FileStatus
from range_reader_pipeline.object_store import MAX_NAME_BYTES, StoreError, check_url, list_store
from range_reader_pipeline.paths import home_paths
from range_reader_pipeline.preflight import check_folders
from tests.pipeline.buckets import KINDS, Bucket, bucket_of


@pytest.mark.parametrize("kind", KINDS)
def test_only_hand_histories_below_the_url_are_listed(kind: str, tmp_path: Path) -> None:
    """A stray object would be fetched for nothing; one of the neighbour prefix hands2 would be somebody else's."""
    bucket = bucket_of(kind, tmp_path)
    for name in ("a.ohh", "sub/b.JSON.zst", "c.phhs.gz", "notes.txt", ".hidden.ohh", ".git/d.ohh"):
        bucket.write(name, name.encode())
    Bucket(f"{bucket.url}2").write("e.ohh", b"e")
    found = list_store(bucket.url)
    assert list(found.files) == ["a.ohh", "c.phhs.gz", "sub/b.JSON.zst"]
    assert [stored.size_bytes for stored in found.files.values()] == [5, 9, 14]
    assert all(abs(time.time_ns() - stored.mtime_ns) < 60e9 for stored in found.files.values())
    assert found.num_ignored == 3
    assert not found.refused


def test_names_that_lead_out_or_fit_no_folder_are_refused_with_a_reason(tmp_path: Path) -> None:
    """Whoever may write to the bucket must not thereby write to the disk, and no hands may vanish without a word."""
    bucket = bucket_of("memory", tmp_path)
    out, bad = FileStatus.OUTSIDE, FileStatus.IRREGULAR
    expected = {
        "../evil.ohh": out,
        "sub/../../evil.ohh": out,
        "/etc/evil.ohh": out,
        "./evil.ohh": bad,
        "sub//evil.ohh": bad,
        "nul\0.ohh": bad,
        "x" * MAX_NAME_BYTES + ".ohh": bad,
        "a.ohh/below.ohh": bad,
        "surrogate\udc80.ohh": bad,
    }
    for name in (*expected, "a.ohh"):
        bucket.write_raw(name)
    found = list_store(bucket.url)
    assert list(found.files) == ["a.ohh"]
    told = {entry.name: entry for entry in found.refused}
    assert {name: entry.status for name, entry in told.items()} == {
        name.encode("utf-8", "backslashreplace").decode(): status for name, status in expected.items()
    }
    assert told["../evil.ohh"].reason == "a name that leads out of the folder"
    assert told["a.ohh/below.ohh"].reason == "a folder cannot hold both it and a.ohh"


def test_links_and_pipes_of_a_file_url_are_not_followed(tmp_path: Path) -> None:
    """A link in a folder that others write to must not make the pipeline read what it was not given."""
    bucket = bucket_of("file", tmp_path)
    bucket.write("a.ohh", b"a")
    (tmp_path / "secret.ohh").write_text("s")
    (tmp_path / "bucket" / "hands" / "link.ohh").symlink_to(tmp_path / "secret.ohh")
    found = list_store(bucket.url)
    assert list(found.files) == ["a.ohh"]
    assert [(entry.name, entry.reason) for entry in found.refused] == [("link.ohh", "not a regular file")]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://example.com/hands", "a web server does not list its files"),
        ("s3://", "expected one bucket and a folder in it"),
        ("simplecache::s3://bucket/hands", "expected one bucket"),
        ("s4://bucket/hands", "no kind of store is called s4; expected a folder, or a URL such as s3://bucket/hands"),
        (
            "nostore://bucket/hands",
            r"nostore:// needs a package that is not installed here: .*pip install -c requirements.lock no_such_package",
        ),
    ],
)
def test_a_url_that_cannot_be_read_says_what_to_do(url: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told before a run begins, and without asking the network."""
    monkeypatch.setitem(known_implementations, "nostore", {"class": "no_such_package.Store", "err": "Install it"})
    with pytest.raises(StoreError, match=told):
        check_url(url)
    if "::" not in url:  # which is no URL to the paths, but a folder that is not there
        with pytest.raises(ValueError, match=told):
            check_folders(home_paths(home=str(tmp_path / "home"), ohh=url, environment={}))


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    """URLs go into logs, metadata and manifests."""
    with pytest.raises(StoreError, match="holds a password") as caught:
        check_url("sftp://me:hunter2@host/hands")
    assert "hunter2" not in str(caught.value)
    assert check_url("file://me@host/hands") == "file"  # abfs://container@account is how Azure's are written


def test_a_url_of_one_object_says_to_give_its_folder(tmp_path: Path) -> None:
    """It would else look like an empty bucket."""
    bucket = bucket_of("memory", tmp_path)
    bucket.write("a.ohh", b"a")
    with pytest.raises(StoreError, match=r"a\.ohh is one file: give the folder"):
        list_store(f"{bucket.url}/a.ohh")


def test_what_a_library_raises_is_told_as_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store's library has exceptions of its own, most of them no OSError."""
    bucket = bucket_of("memory", tmp_path)

    def refuse(*_: object, **__: object) -> None:
        msg = "Unable to locate credentials"
        raise KeyError(msg)

    monkeypatch.setattr(MemoryFileSystem, "find", refuse)
    with pytest.raises(StoreError, match=r"bucket/hands cannot be listed: KeyError: 'Unable to locate credentials'.*environment"):
        list_store(bucket.url)


def test_a_store_that_hangs_is_given_up_on_and_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick every half minute would else leave a thread behind every half minute."""
    bucket = bucket_of("memory", tmp_path)
    bucket.write("a.ohh", b"a")
    answers, asked = threading.Event(), []
    find = MemoryFileSystem.find

    def slow(*args: Any, **options: Any) -> Any:
        asked.append(args)
        answers.wait(60)
        return find(*args, **options)

    monkeypatch.setattr(MemoryFileSystem, "find", slow)
    with pytest.raises(StoreError, match=r"has not answered within 0\.05 s"):
        list_store(bucket.url, timeout_s=0.05)
    with pytest.raises(StoreError, match="has not answered an earlier listing yet"):
        list_store(bucket.url, timeout_s=0.05)
    assert len(asked) == 1
    answers.set()
    deadline_s = time.monotonic() + 30
    while time.monotonic() < deadline_s:
        try:
            found = list_store(bucket.url, timeout_s=30)
            break
        except StoreError:  # the first listing is just coming back
            time.sleep(0.01)
    assert list(found.files) == ["a.ohh"]


def test_times_and_tags_are_taken_as_stores_give_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 gives datetimes and ETags, GCS text and hashes, disks seconds; a store that gives neither would hide every change."""
    moment = datetime(2026, 11, 30, 12, 0, 0, 250_000, tzinfo=UTC)
    nanoseconds = int(moment.timestamp()) * 1_000_000_000 + 250_000_000
    infos: dict[str, dict[str, Any]] = {
        "s3": {"ETag": '"abc"', "LastModified": moment},
        "gcs": {"md5Hash": "h", "etag": "e", "updated": "2026-11-30T12:00:00.250Z"},
        "azure": {"etag": "0x8", "last_modified": moment.astimezone(timezone(timedelta(hours=2)))},
        "disk": {"mtime": moment.timestamp()},
        "naive": {"modified": moment.replace(tzinfo=None)},
    }
    keys = {f"/bucket/hands/{name}.ohh": {"size": 1, "type": "file", **info} for name, info in infos.items()}
    monkeypatch.setattr(MemoryFileSystem, "find", lambda *_, **__: keys)
    found = list_store("memory://bucket/hands")
    assert {stored.mtime_ns for stored in found.files.values()} == {nanoseconds}
    assert {name: stored.token for name, stored in found.files.items()} == {
        "s3.ohh": 'ETag "abc"',
        "gcs.ohh": "md5Hash h",
        "azure.ohh": "etag 0x8",
        "disk.ohh": f"mtime {nanoseconds}",
        "naive.ohh": f"mtime {nanoseconds}",
    }
    keys["/bucket/hands/bare.ohh"] = {"size": 1, "type": "file"}
    with pytest.raises(StoreError, match="neither when its files changed nor what they hold"):
        list_store("memory://bucket/hands")
