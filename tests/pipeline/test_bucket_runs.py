"""Hand histories in a bucket through the catalogue, the shards and the sensor: the same as from a folder."""

import errno
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test
from fsspec.implementations.memory import MemoryFileSystem

from range_reader_pipeline import sensors
from range_reader_pipeline.arena_folder import will_deal
from range_reader_pipeline.assets.arena_hands import arena_hands
from range_reader_pipeline.assets.encoded_shards import encoded_shards
from range_reader_pipeline.assets.ohh_files import ohh_files
from range_reader_pipeline.catalogue import Catalogue, FileStatus, read_catalogue
from range_reader_pipeline.data_config import OhhFilesConfig
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.run_store import RunStore, TrainedOn
from range_reader_pipeline.sensors import ohh_folder
from range_reader_pipeline.storage import read_json
from tests.core.hands import random_hands
from tests.pipeline.buckets import KINDS, Bucket, bucket_of, home_on
from tests.pipeline.encoded import folder_bytes, home_with

HANDS = {"a.ohh": random_hands(1, 20), "sub/b.ohh": random_hands(2, 20), "copy.ohh": random_hands(1, 20)}


def home_of(paths: HomePaths) -> HomeResource:
    """Return the resource as the command line makes it."""
    return HomeResource(home=str(paths.root), ohh=paths.ohh_source)


def catalogued(paths: HomePaths, **config: object) -> dict[str, Any]:
    """Materialize the catalogue, and return its metadata."""
    result = ohh_files(dg.build_asset_context(), OhhFilesConfig(**config), home_of(paths))  # type: ignore[arg-type]  # fields of it
    assert isinstance(result, dg.MaterializeResult)
    return {name: entry.value for name, entry in (result.metadata or {}).items() if isinstance(entry, dg.MetadataValue)}


def encode(paths: HomePaths, instance: dg.DagsterInstance | None = None, tags: dict[str, str] | None = None) -> None:
    """Materialize catalogue and shards as a run of the sensor would, all but the training."""
    result = dg.materialize(
        [arena_hands, ohh_files, encoded_shards],
        instance=instance,
        resources={"home": home_of(paths)},
        tags={**(tags or {}), "dagster/sensor_name": "ohh_folder"},
    )
    assert result.success
    manifest = read_json(paths.data_manifest)
    num_reads = manifest["counts"]["reads_by_split"]["train"]
    RunStore(paths).remember_trained(TrainedOn(run_id="t", data_version=manifest["version"], num_train_reads=num_reads))


def contents(catalogue: Catalogue) -> list[tuple[str, int, str, FileStatus]]:
    return [(entry.name, entry.size_bytes, entry.sha256, entry.status) for entry in catalogue.entries]


@pytest.mark.parametrize("kind", KINDS)
def test_a_bucket_gives_the_catalogue_and_the_shards_of_the_folder(kind: str, tmp_path: Path) -> None:
    """Where files come from must not show in anything that is trained on."""
    local = home_with(tmp_path / "local", HANDS)
    bucket = bucket_of(kind, tmp_path)
    for name, hands in HANDS.items():
        bucket.write_hands(name, hands)
    for folder in (local.ohh / "notes.txt", None):
        folder.write_text("x") if folder else bucket.write("notes.txt", b"x")
    remote = home_on(tmp_path, bucket)
    encode(local)
    encode(remote)
    theirs, ours = read_catalogue(local.ohh_files), read_catalogue(remote.ohh_files)
    assert contents(ours) == contents(theirs)
    assert (ours.version, ours.num_ignored) == (theirs.version, theirs.num_ignored)
    shards = folder_bytes(local.data.resolve())
    assert len(shards) > 3
    assert folder_bytes(remote.data.resolve()) == shards
    assert folder_bytes(remote.catalogue)["rejects.parquet"] == folder_bytes(local.catalogue)["rejects.parquet"]


def test_metadata_and_log_say_where_files_come_from_and_how_many_were_fetched(tmp_path: Path) -> None:
    """A run that fetches everything each time would be seen nowhere else."""
    bucket = bucket_of("memory", tmp_path)
    paths = home_on(tmp_path, bucket)
    bucket.write_hands("a.ohh", HANDS["a.ohh"])
    bucket.write_raw("../out.ohh")
    first, second = catalogued(paths, settle_seconds=3600.0), catalogued(paths)  # what is in a bucket is whole
    bucket.remove("a.ohh")
    bucket.write_hands("b.ohh", HANDS["sub/b.ohh"])
    third = catalogued(paths)
    size = (paths.ohh / "b.ohh").stat().st_size
    assert [made["url"] for made in (first, second, third)] == [bucket.url] * 3
    assert [made["files_fetched"] for made in (first, second, third)] == [1, 0, 1]
    assert [made["files_removed"] for made in (first, second, third)] == [0, 0, 1]
    assert third["megabytes_fetched"] == round(size / 1e6, 3)
    assert (first["files"], first["left_out"], second["reused"]) == (1, 1, True)
    (out,) = first["left_out_files"].records
    assert out.data["reason"] == "a name that leads out of the folder"


def test_what_is_wrong_with_a_bucket_is_a_failure_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A traceback of a store's library helps nobody."""
    bucket = bucket_of("memory", tmp_path)
    paths = home_on(tmp_path, bucket)
    with pytest.raises(dg.Failure, match=f"no hand histories found in {bucket.url} "):
        catalogued(paths)
    with pytest.raises(dg.Failure, match="a URL is given where the server is started"):
        catalogued(paths, folder="s3://somebody/elses")
    bucket.write("a.ohh", b"a")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "get_file", full)
        with pytest.raises(dg.Failure, match="the disk is full: free some space"):
            catalogued(paths)
    monkeypatch.setattr(MemoryFileSystem, "find", lambda *_, **__: {}["no network"])
    with pytest.raises(dg.Failure, match=r"cannot be listed: KeyError: 'no network'.*docs/scale\.md"):
        catalogued(paths)


def test_the_arena_deals_nothing_beside_a_bucket(tmp_path: Path) -> None:
    """Dealt hands are for those who have none."""
    bucket = bucket_of("memory", tmp_path)
    paths = home_on(tmp_path, bucket)
    assert not will_deal(paths)
    assert not (paths.root / "ohh").exists()


# The sensor.


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """Return an instance in memory."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def ahead_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return how far the sensor's clock is ahead: a minute, so that objects are quiet."""
    made = [60.0]
    real_ns = time.time_ns
    monkeypatch.setattr(sensors, "time", SimpleNamespace(time_ns=lambda: real_ns() + int(made[0] * 1e9)))
    return made


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    return bucket_of("memory", tmp_path)


def tick(instance: dg.DagsterInstance, paths: HomePaths) -> dg.RunRequest | str:
    """Evaluate the sensor once, and return its request or its reason for none."""
    with dg.build_sensor_context(instance=instance, resources={"home": home_of(paths)}) as context:
        result = ohh_folder(context)
    return (result.skip_message or "") if isinstance(result, dg.SkipReason) else result  # type: ignore[return-value]  # one of two


def test_objects_start_runs_as_files_do(tmp_path: Path, instance: dg.DagsterInstance, ahead_s: list[float], bucket: Bucket) -> None:
    """Arrival, change and removal, each leading to one run and then to rest; a tick fetches nothing."""
    paths = home_on(tmp_path, bucket)
    assert tick(instance, paths) == f"no hand histories in {bucket.url}; the next tick asks again"
    bucket.write_hands("a.ohh", HANDS["a.ohh"])
    ahead_s[0] = 5.0
    assert tick(instance, paths) == "waiting for a.ohh to be quiet for 20 s"
    ahead_s[0] = 60.0
    for change in (
        lambda: None,
        lambda: bucket.write_hands("sub/b.ohh", HANDS["sub/b.ohh"]),
        lambda: bucket.write_hands("a.ohh", random_hands(3, 20)),
        lambda: bucket.remove("sub/b.ohh"),
    ):
        change()
        before = folder_bytes(paths.root / "cache")
        request = tick(instance, paths)
        assert isinstance(request, dg.RunRequest), request
        assert folder_bytes(paths.root / "cache") == before
        encode(paths, instance, dict(request.tags))
        assert "up to date" in str(tick(instance, paths))
    bucket.write("a.ohh", (paths.ohh / "a.ohh").read_bytes())  # the same again
    request = tick(instance, paths)
    assert isinstance(request, dg.RunRequest)  # what is in an object is known once it was fetched
    encode(paths, instance, dict(request.tags))
    assert tick(instance, paths) == "1 file, up to date; trained on them"


def test_a_run_that_has_fetched_and_not_encoded_yet_is_not_asked_for_again(
    tmp_path: Path, instance: dg.DagsterInstance, ahead_s: list[float], bucket: Bucket
) -> None:
    """Once fetched, the same objects look otherwise to the sensor; the run at work on them must still be known as theirs."""
    paths = home_on(tmp_path, bucket)
    bucket.write_hands("a.ohh", HANDS["a.ohh"])
    request = tick(instance, paths)
    assert isinstance(request, dg.RunRequest)
    tags = {**request.tags, "dagster/sensor_name": "ohh_folder"}
    create_run_for_test(instance, job_name=request.job_name or "", status=dg.DagsterRunStatus.STARTED, tags=tags)
    catalogued(paths)
    assert tick(instance, paths) == "1 file, changed; a run for this state is under way"


@pytest.mark.parametrize("fault", ["fails", "hangs", "empty"])
def test_a_store_out_of_reach_is_a_reason_and_no_error(
    fault: str,
    tmp_path: Path,
    instance: dg.DagsterInstance,
    ahead_s: list[float],
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A network that is away for an hour must leave no red sensor and no run, and the shards as they are."""
    paths = home_on(tmp_path, bucket)
    bucket.write_hands("a.ohh", HANDS["a.ohh"])
    request = tick(instance, paths)
    assert isinstance(request, dg.RunRequest)
    encode(paths, instance, dict(request.tags))
    before = folder_bytes(paths.data.resolve())
    answers = threading.Event()
    with monkeypatch.context() as patch:
        if fault == "empty":
            patch.setattr(MemoryFileSystem, "find", lambda *_, **__: {})
            told = "lists no hand histories any more, after 1 file before"
        elif fault == "fails":
            patch.setattr(MemoryFileSystem, "find", lambda *_, **__: {}["no network"])
            told = "cannot be listed: KeyError: 'no network'"
        else:
            find = MemoryFileSystem.find
            patch.setattr(MemoryFileSystem, "find", lambda *a, **o: (answers.wait(60), find(*a, **o))[1])
            patch.setattr(sensors, "STORE_TIMEOUT_S", 0.05)
            told = "has not answered within 0.05 s"
        reason = tick(instance, paths)
        assert told in str(reason)
        assert str(reason).endswith("; the next tick asks again")
    answers.set()
    for _ in range(1000):
        if "an earlier listing" not in (reason := str(tick(instance, paths))):
            break
        time.sleep(0.01)
    assert reason == "1 file, up to date; trained on them"
    assert folder_bytes(paths.data.resolve()) == before
