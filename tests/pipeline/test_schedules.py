"""Claims about the nightly training."""

from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from range_reader_pipeline.paths import HomePaths, home_paths
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.schedules import nightly_training
from range_reader_pipeline.storage import write_json
from tests.pipeline.trained import Chain

NEW = {"version": "new", "source_version": "s", "counts": {"reads_by_split": {"train": 7}}, "shards": []}


def _tick(paths: HomePaths) -> dg.RunRequest | dg.SkipReason:
    with dg.build_schedule_context(
        scheduled_execution_time=datetime(2026, 1, 2, 3, tzinfo=UTC), resources={"home": HomeResource(home=str(paths.root))}
    ) as context:
        tick = nightly_training(context)
    assert isinstance(tick, dg.RunRequest | dg.SkipReason)
    return tick


@pytest.fixture(autouse=True)
def _nightly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANGE_READER_RETRAIN", "nightly")


def test_nothing_is_trained_at_night_unless_somebody_asks(own_copy: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents a laptop from training every night because somebody looked at the UI once."""
    write_json(own_copy.paths.data_manifest, NEW)
    for policy in ("", "10%", "at-once", "never"):
        monkeypatch.setenv("RANGE_READER_RETRAIN", policy)
        tick = _tick(own_copy.paths)
        assert isinstance(tick, dg.SkipReason)
        assert "RANGE_READER_RETRAIN=nightly" in str(tick.skip_message)


def test_without_shards_it_says_what_to_do(tmp_path: Path) -> None:
    """Prevents a failed run every night on an empty home."""
    tick = _tick(home_paths(home=str(tmp_path), environment={}))
    assert isinstance(tick, dg.SkipReason)
    assert "materialize encoded_shards" in str(tick.skip_message)


def test_a_night_without_new_data_is_skipped(trained: Chain) -> None:
    """Prevents training the same thing again every night."""
    tick = _tick(trained.paths)
    assert isinstance(tick, dg.SkipReason)
    assert "newest" in str(tick.skip_message)


def test_new_data_is_trained_on_once_a_night(own_copy: Chain) -> None:
    """Prevents data that changed from waiting for somebody to notice, and two runs for one night."""
    version = own_copy.paths.data.resolve()
    manifest = own_copy.paths.data_manifest
    write_json(manifest, NEW)
    tick, again = _tick(own_copy.paths), _tick(own_copy.paths)
    assert isinstance(tick, dg.RunRequest)
    assert isinstance(again, dg.RunRequest)
    assert tick.run_key == again.run_key == "2026-01-02:new"
    assert version == own_copy.paths.data.resolve()


def test_shards_without_a_training_are_trained_on(own_copy: Chain) -> None:
    """Prevents the first night from being skipped for want of a training to compare with."""
    (own_copy.paths.runs / "trained.json").unlink()
    assert isinstance(_tick(own_copy.paths), dg.RunRequest)


@pytest.mark.parametrize("text", ["{", "[]", '{"version": "new"}', '{"version": "n", "source_version": "s", "counts": 3}'])
def test_a_damaged_manifest_is_named_with_what_to_do(own_copy: Chain, text: str) -> None:
    """Prevents a tick that fails with a KeyError every night."""
    own_copy.paths.data_manifest.write_text(text)
    tick = _tick(own_copy.paths)
    assert isinstance(tick, dg.SkipReason)
    assert f"{own_copy.paths.data_manifest} is damaged: materialize encoded_shards" in str(tick.skip_message)
