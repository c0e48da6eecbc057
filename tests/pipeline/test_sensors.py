"""The sensor tick by tick: it loses no arrival, fails where a folder is gone, and reads no file twice."""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest

from range_reader_pipeline import catalogue, sensors
from range_reader_pipeline.assets.encoded_shards import encoded_shards
from range_reader_pipeline.assets.ohh_files import ohh_files
from range_reader_pipeline.checks import checks
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.run_store import RunStore, TrainedOn
from range_reader_pipeline.sensors import ohh_folder
from range_reader_pipeline.storage import read_json
from tests.core.hands import random_hands
from tests.pipeline.encoded import home_with
from tests.pipeline.ohh_writer import write_ohh


@dataclass
class Clock:
    """The sensor's clock, which tests move; files keep the kernel's time."""

    ahead_s: float


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the sensor's clock, a minute ahead, so that files are quiet."""
    made = Clock(60.0)
    real_ns = time.time_ns
    monkeypatch.setattr(sensors, "time", SimpleNamespace(time_ns=lambda: real_ns() + int(made.ahead_s * 1e9)))
    return made


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """Return an instance in memory."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def tick(instance: dg.DagsterInstance, paths: HomePaths) -> dg.RunRequest | str:
    """Evaluate the sensor once, and return its request or its reason for none."""
    home = HomeResource(home=str(paths.root), ohh="" if paths.is_default_ohh else str(paths.ohh))
    with dg.build_sensor_context(instance=instance, resources={"home": home}) as context:
        result = ohh_folder(context)
    return (result.skip_message or "") if isinstance(result, dg.SkipReason) else result  # type: ignore[return-value]  # one of two


def run(instance: dg.DagsterInstance, paths: HomePaths, request: dg.RunRequest) -> None:
    """Do what the daemon does with a request."""
    result = dg.materialize(
        [ohh_files, encoded_shards],
        instance=instance,
        resources={"home": HomeResource(home=str(paths.root))},
        tags={**request.tags, "dagster/sensor_name": "ohh_folder"},
    )
    assert result.success
    manifest = read_json(paths.data_manifest)
    num_reads = manifest["counts"]["reads_by_split"]["train"]
    trained = TrainedOn(run_id="t", data_version=manifest["version"], num_train_reads=num_reads)
    RunStore(paths).remember_trained(trained)


def test_tick_by_tick(tmp_path: Path, instance: dg.DagsterInstance, clock: Clock) -> None:
    """Arrival, change, removal and return, each leading to one run and then to rest."""
    paths = home_with(tmp_path, {})
    assert tick(instance, paths) == f"no hand histories in {paths.ohh}"
    path = write_ohh(paths.ohh / "a.ohh", random_hands(1, 20))
    clock.ahead_s = 5
    assert tick(instance, paths) == "waiting for a.ohh to be quiet for 20 s"
    clock.ahead_s = 60
    for change in (
        lambda: None,
        lambda: write_ohh(paths.ohh / "b.ohh", random_hands(2, 20)),
        lambda: write_ohh(path, random_hands(3, 20)),
        lambda: (paths.ohh / "b.ohh").unlink(),
        lambda: write_ohh(path, random_hands(1, 20)),
    ):
        change()
        request = tick(instance, paths)
        assert isinstance(request, dg.RunRequest), request
        run(instance, paths, request)
        assert "up to date" in str(tick(instance, paths))
    os.utime(path)
    path.rename(paths.ohh / "renamed.ohh")
    assert tick(instance, paths) == "1 file, up to date; trained on them"


@pytest.mark.parametrize("damage", ["{", "[]", "no source", "no counts"])
def test_a_damaged_manifest_is_told_and_the_shards_are_made_again(
    tmp_path: Path, instance: dg.DagsterInstance, clock: Clock, capfd: pytest.CaptureFixture[str], damage: str
) -> None:
    """A tick that fails with a KeyError every half minute never encodes anything again."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 20)})
    first = tick(instance, paths)
    assert isinstance(first, dg.RunRequest)
    run(instance, paths, first)
    manifest = read_json(paths.data_manifest)
    if damage == "no source":
        del manifest["source_version"]
    elif damage == "no counts":
        manifest["counts"] = {"num_reads": 1}
    paths.data_manifest.write_text(json.dumps(manifest) if damage.startswith("no ") else damage)
    request = tick(instance, paths)
    assert isinstance(request, dg.RunRequest), request
    assert request.job_name == sensors.REFRESH
    assert request.run_key != first.run_key
    assert f"{paths.data_manifest} is damaged: materialize encoded_shards" in "".join(capfd.readouterr())
    run(instance, paths, request)
    assert tick(instance, paths) == "1 file, up to date; trained on them"


def test_how_long_a_change_has_waited_outlasts_the_ticks(tmp_path: Path, clock: Clock) -> None:
    """Files may be replaced at every tick; the wait is counted from its first tick, and forgotten once it is over."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 20)})
    with dg.build_sensor_context(
        instance=dg.DagsterInstance.ephemeral(), resources={"home": HomeResource(home=str(paths.root))}
    ) as context:
        clock.ahead_s = 5
        assert isinstance(ohh_folder(context), dg.SkipReason)
        since = context.cursor
        assert since is not None
        assert since.isdecimal()
        clock.ahead_s = 10
        assert isinstance(ohh_folder(context), dg.SkipReason)
        assert context.cursor == since
        clock.ahead_s = 60
        assert isinstance(ohh_folder(context), dg.RunRequest)
        assert context.cursor == ""


def test_what_lands_in_the_middle_of_a_run_is_seen_after_it(tmp_path: Path, instance: dg.DagsterInstance, clock: Clock) -> None:
    """Edge-triggered automation lost exactly this."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 20)})
    request = tick(instance, paths)
    assert isinstance(request, dg.RunRequest)
    home = {"home": HomeResource(home=str(paths.root))}
    tags = {**request.tags, "dagster/sensor_name": "ohh_folder"}
    dg.materialize([ohh_files], instance=instance, resources=home, tags=tags)
    write_ohh(paths.ohh / "late.ohh", random_hands(2, 20))
    dg.materialize([encoded_shards, ohh_files], selection=[encoded_shards], instance=instance, resources=home, tags=tags)
    late = tick(instance, paths)
    assert isinstance(late, dg.RunRequest)
    assert late.run_key != request.run_key


def test_lost_shards_are_made_again(tmp_path: Path, instance: dg.DagsterInstance, clock: Clock) -> None:
    """Dagster's records say 'made' long after somebody has emptied the home."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 20)})
    request = tick(instance, paths)
    assert isinstance(request, dg.RunRequest)
    run(instance, paths, request)
    paths.data.unlink()
    assert isinstance(tick(instance, paths), dg.RunRequest)


def test_a_vanished_folder_fails_the_tick(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    """An unmounted disk is not an emptied folder; silence would hide it for weeks."""
    paths = replace(home_with(tmp_path, {}), ohh=tmp_path / "unmounted")
    with pytest.raises(FileNotFoundError, match="is gone; the shards are left as they are"):
        tick(instance, paths)


def test_a_home_that_is_not_there_yet_waits(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    """The UI is often opened before anything was run; a red sensor would frighten for nothing."""
    paths = HomePaths(tmp_path / "new", tmp_path / "new" / "ohh")
    assert "no hand histories" in str(tick(instance, paths))


def test_a_home_filled_from_elsewhere_waits_and_one_that_lost_its_own_folder_fails(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    """`make run OHH=...` and then `make ui` without it must not show a red sensor; losing a folder that was read must."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 5)})
    elsewhere = tmp_path / "elsewhere"
    paths.ohh.rename(elsewhere)
    home = HomeResource(home=str(paths.root), ohh=str(elsewhere))
    assert dg.materialize([ohh_files, encoded_shards], instance=instance, resources={"home": home}).success
    assert "no hand histories" in str(tick(instance, paths))
    elsewhere.rename(paths.ohh)
    run(instance, paths, dg.RunRequest())
    paths.ohh.rename(elsewhere)
    with pytest.raises(FileNotFoundError, match="is gone"):
        tick(instance, paths)


def test_the_request_runs_the_whole_chain_with_valid_config(tmp_path: Path, instance: dg.DagsterInstance, clock: Clock) -> None:
    """A run config that does not fit the job would fail every run of the sensor, and of nobody else."""
    from range_reader_pipeline.definitions import build_definitions

    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 5)})
    request = tick(instance, paths)
    assert isinstance(request, dg.RunRequest)
    job = build_definitions().resolve_job_def(request.job_name or "")
    assert dg.validate_run_config(job, request.run_config)
    assert {"ohh_files", "encoded_shards", "checkpoint"} <= {node.name for node in job.nodes}


def test_a_second_tick_reads_no_file_again(
    tmp_path: Path, instance: dg.DagsterInstance, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tick that read ten thousand files would overrun its deadline and be killed, and with it every arrival."""
    paths = home_with(tmp_path, {})
    for index in range(300):
        (paths.ohh / f"{index}.ohh").write_text(f"{index}\n")
    clock.ahead_s = 60.0
    first = tick(instance, paths)
    assert isinstance(first, dg.RunRequest)
    monkeypatch.setattr(catalogue, "_hashed", lambda _, entry: pytest.fail(f"{entry.name} was read again"))
    second = tick(instance, paths)
    assert isinstance(second, dg.RunRequest)
    assert second.tags == first.tags


@pytest.mark.parametrize("text", ["grown", "0.1", "0%", "-5%", "x%", "daily", "nan%"])
def test_a_policy_that_is_none_fails_the_tick(
    text: str, tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A typing error must not mean never."""
    monkeypatch.setenv("RANGE_READER_RETRAIN", text)
    with pytest.raises(ValueError, match="expected at-once, nightly, never or a share such as 10%"):
        tick(instance, home_with(tmp_path, {}))


def test_data_that_grew_enough_are_trained_on_tick_by_tick(tmp_path: Path, instance: dg.DagsterInstance, clock: Clock) -> None:
    """The same through the sensor itself, from files to the request for a training and to rest."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 60)})
    request = tick(instance, paths)
    assert isinstance(request, dg.RunRequest)
    assert request.job_name == sensors.EVERYTHING
    run(instance, paths, request)
    write_ohh(paths.ohh / "b.ohh", random_hands(2, 30))
    request = tick(instance, paths)
    assert isinstance(request, dg.RunRequest)
    assert request.job_name == sensors.REFRESH
    trained = RunStore(paths).last_trained()
    assert trained is not None
    run(instance, paths, request)
    RunStore(paths).remember_trained(trained)  # this run did not train
    training = tick(instance, paths)
    assert isinstance(training, dg.RunRequest)
    assert training.job_name == sensors.TRAIN
    manifest = read_json(paths.data_manifest)
    assert training.tags["range_reader/data_version"] == manifest["version"]
    RunStore(paths).remember_trained(replace(trained, data_version=manifest["version"]))
    assert tick(instance, paths) == "2 files, up to date; trained on them"


def test_shards_that_failed_a_check_are_not_trained_on(tmp_path: Path, instance: dg.DagsterInstance, clock: Clock) -> None:
    """A check that blocks would else hold for one run only: the training that comes later is a run of its own."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 60)})
    first = tick(instance, paths)
    assert isinstance(first, dg.RunRequest)
    run(instance, paths, first)
    trained = RunStore(paths).last_trained()
    assert trained is not None
    write_ohh(paths.ohh / "b.ohh", random_hands(2, 60))
    (paths.ohh / "cut.ohh").write_bytes(b"\xff\xfe" + "no hands".encode("utf-16-le"))
    request = tick(instance, paths)
    assert isinstance(request, dg.RunRequest)
    assert request.job_name == sensors.REFRESH
    result = dg.materialize(
        [ohh_files, encoded_shards, *checks],
        instance=instance,
        resources={"home": HomeResource(home=str(paths.root))},
        tags={**request.tags, "dagster/sensor_name": "ohh_folder"},
        raise_on_error=False,
    )
    assert not result.success
    RunStore(paths).remember_trained(trained)
    assert "a check of these shards failed: look at encoded_shards" in str(tick(instance, paths))
    (paths.ohh / "cut.ohh").unlink()
    request = tick(instance, paths)
    assert isinstance(request, dg.RunRequest)
    run(instance, paths, request)
    RunStore(paths).remember_trained(trained)
    training = tick(instance, paths)
    assert isinstance(training, dg.RunRequest)
    assert training.job_name == sensors.TRAIN


def test_a_request_that_never_became_a_run_is_made_again(tmp_path: Path, instance: dg.DagsterInstance, clock: Clock) -> None:
    """A restart between tick and run loses the request and no arrival; the same key keeps it from running twice."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 20)})
    first, second = tick(instance, paths), tick(instance, paths)
    assert isinstance(first, dg.RunRequest)
    assert isinstance(second, dg.RunRequest)
    assert first.run_key == second.run_key
