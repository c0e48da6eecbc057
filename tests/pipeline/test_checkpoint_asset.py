"""Claims about training as an asset: kept, reused, resumed, stopped, crashed."""

import dataclasses
from typing import Any

import dagster as dg
import pytest

from range_reader_core import training
from range_reader_core.checkpoint import read_sidecar
from range_reader_core.intervals import Interval
from range_reader_core.tables import Estimate
from range_reader_core.train_events import Progress
from range_reader_pipeline import shards, training_run
from range_reader_pipeline.config import TrainingConfig
from range_reader_pipeline.results_log import RunStatus, read_results
from range_reader_pipeline.run_store import RunStore
from range_reader_pipeline.training_run import TrainingOutcome, train_or_reuse
from tests.pipeline.test_training_events import FakeLog
from tests.pipeline.trained import Chain


def _train(chain: Chain, log: FakeLog | None = None, **config: Any) -> TrainingOutcome:
    asked = TrainingConfig(**{"preset": "tiny", "device": "cpu", "max_steps": 3, "num_evaluations": 1, **config})
    return train_or_reuse(chain.paths, asked, owner="a test", log=log or FakeLog(), observe=lambda _: None)


def test_metadata_tells_how_good_how_long_and_from_what(trained: Chain) -> None:
    """Prevents a materialization whose page has to be completed from log files."""
    metadata = trained.metadata("checkpoint")
    numbers = ("val_mrr", "val_loss_nats", "nats_below_static_range", "training_s", "reads_per_s", "weights_bytes", "num_steps")
    for name in numbers:
        assert isinstance(metadata[name], int | float), name
    assert metadata["data_version"] == trained.paths.data.resolve().name
    assert metadata["weights"] == str(trained.paths.checkpoint.resolve() / "best.safetensors")
    assert metadata["status"] == "keep"
    assert not metadata["reused"]
    assert not metadata["was_resumed"]
    assert "data:image/png;base64," in metadata["curve"]


def test_data_version_is_the_hash_of_the_kept_weights(trained: Chain) -> None:
    """Prevents a retrained checkpoint that looks unchanged, and reports that look stale when it was discarded."""
    (materialization,) = trained.result.asset_materializations_for_node("checkpoint")
    kept = RunStore(trained.paths).kept()
    assert kept is not None
    assert materialization.tags is not None
    assert materialization.tags["dagster/data_version"] == kept.weights_version


def test_live_curves_are_observed_and_few(trained: Chain) -> None:
    """Prevents a page that shows nothing until the training has ended, or thousands of events."""
    seen = [event for event in trained.result.all_events if event.event_type is dg.DagsterEventType.ASSET_OBSERVATION]
    names = {name for event in seen for name in event.asset_observation_data.asset_observation.metadata}
    assert {"live/val_mrr", "live/val_loss_nats"} <= names
    assert len(seen) <= 100


@pytest.mark.slow
def test_a_temperature_is_kept_only_where_it_helps_on_hands_it_was_not_fitted_on(
    own_copy: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prevents a checkpoint that is less certain than it should be because of the noise of some val hands."""
    from range_reader_core import temperature

    real, log = temperature.fit_temperature, FakeLog()
    outcome = _train(own_copy, log)
    (line,) = (text for text in log.lines if text.startswith("temperature"))
    assert line.endswith(": used" if outcome.run.temperature != 1.0 else ": not used")
    for interval, expected in ((Interval(low=0.001, high=0.002), 1.5), (Interval(low=-0.001, high=0.002), 1.0)):

        def found(*args: Any, interval: Interval = interval, **kwargs: Any) -> Any:
            saved = Estimate(mean=0.0015, interval=interval)
            return dataclasses.replace(real(*args, **kwargs), temperature=1.5, saved_nats=saved)

        monkeypatch.setattr(temperature, "fit_temperature", found)
        run = _train(own_copy, retrain=True).run
        assert run.temperature == expected
        assert read_sidecar(own_copy.paths.runs / run.run_id).temperature == expected


def test_a_run_leaves_one_row(trained: Chain) -> None:
    """Prevents results that nobody can compare later."""
    (row,) = read_results(trained.paths.results)
    kept = RunStore(trained.paths).kept()
    assert kept is not None
    assert (row.run_id, row.data_version, row.preset, row.split, row.status) == (
        kept.run_id,
        kept.data_version,
        "tiny",
        "val",
        "keep",
    )
    assert row.mrr == pytest.approx(kept.val_mrr, rel=1e-4)


def test_a_worse_run_is_remembered_and_not_kept(own_copy: Chain) -> None:
    """Prevents an unlucky training from replacing a better reader."""
    store = RunStore(own_copy.paths)
    kept = store.kept()
    assert kept is not None
    store.finish(dataclasses.replace(kept, val_mrr=1.0))  # nothing can be better
    outcome = _train(own_copy)
    assert outcome.status is RunStatus.DISCARD
    assert outcome.kept.run_id == kept.run_id == own_copy.paths.checkpoint.resolve().name
    assert [row.status for row in read_results(own_copy.paths.results)] == [RunStatus.KEEP, RunStatus.DISCARD]


def test_a_damaged_record_of_a_run_is_told_before_it_is_trained_again(own_copy: Chain) -> None:
    """Prevents twenty minutes of training, and a kept run replaced unseen, for a reason that nobody hears."""
    kept = RunStore(own_copy.paths).kept()
    assert kept is not None
    record = own_copy.paths.runs / kept.run_id / "finished.json"
    record.write_text("{")
    log = FakeLog()
    outcome = _train(own_copy, log=log)
    assert f"{record} is damaged" in log.warnings[0]
    assert "without having been compared with it" in log.warnings[0]
    assert outcome.status is RunStatus.KEEP
    outcome = _train(own_copy, log=(log := FakeLog()))
    assert outcome.is_reused
    assert not log.warnings
    (own_copy.paths.runs / outcome.run.run_id / "finished.json").write_text("")
    outcome = _train(own_copy, log=(log := FakeLog()))
    assert not outcome.is_reused
    assert "is damaged" in log.warnings[-1]
    assert "is trained again" in log.warnings[-1]


def test_the_same_again_is_reused_and_retrain_trains_beside_it(own_copy: Chain) -> None:
    """Prevents twenty minutes spent on what is there, and `retrain` from overwriting it."""
    first = _train(own_copy)
    assert not first.is_reused
    assert _train(own_copy).is_reused
    again = _train(own_copy, retrain=True)
    assert not again.is_reused
    assert again.run.run_id == f"{first.run.run_id}.2"
    assert again.run.val_mrr == first.run.val_mrr  # same seed, data and steps
    assert len(read_results(own_copy.paths.results)) == 3


@pytest.mark.parametrize(
    "interrupt", [KeyboardInterrupt, pytest.param(dg.DagsterExecutionInterruptedError, marks=pytest.mark.slow)]
)
def test_a_stopped_training_goes_on_and_ends_as_if_undisturbed(
    own_copy: Chain, monkeypatch: pytest.MonkeyPatch, interrupt: type[BaseException]
) -> None:
    """Prevents Terminate or Ctrl-C from costing the training, or from leaving a row as if it had crashed."""
    undisturbed = _train(own_copy)
    with monkeypatch.context() as patch:
        stop_after = _stopping_after(2, interrupt)
        patch.setattr(training, "train", stop_after)
        log = FakeLog()
        with pytest.raises(interrupt):
            _train(own_copy, log, retrain=True)
        assert any("go on from" in line for line in log.warnings)
    resumed = _train(own_copy)
    assert resumed.was_resumed
    assert resumed.run.run_id == f"{undisturbed.run.run_id}.2"
    assert resumed.run.val_mrr == undisturbed.run.val_mrr
    assert [row.status for row in read_results(own_copy.paths.results)].count(RunStatus.CRASH) == 0


def _stopping_after(num_steps: int, interrupt: type[BaseException]) -> Any:
    """Return ``train`` with a signal arriving after so many steps."""
    original = training.train

    def train(config: Any, *args: Any, on_event: Any, **kwargs: Any) -> Any:
        def stop(event: Any) -> None:
            if isinstance(event, Progress) and event.step >= num_steps:
                raise interrupt
            on_event(event)

        return original(dataclasses.replace(config, report_every_s=1e-9), *args, on_event=stop, **kwargs)

    return train


def test_a_crash_is_a_row_and_passes_on(own_copy: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents failed experiments from vanishing, and a crash from ending as a success."""

    def crash(*_: Any, **__: Any) -> None:
        msg = "loss is not finite at step 7"
        raise FloatingPointError(msg)

    monkeypatch.setattr(training, "train", crash)
    with pytest.raises(FloatingPointError):
        _train(own_copy)
    row = read_results(own_copy.paths.results)[-1]
    assert row.status is RunStatus.CRASH
    assert row.mrr is None
    assert "not finite at step 7" in row.note


def test_a_kill_between_verdict_and_row_loses_neither(own_copy: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents a finished run without a row, or with two, after a kill in the last moment."""
    with monkeypatch.context() as patch:

        def kill(*_: Any) -> None:
            raise SystemExit

        patch.setattr(training_run, "_remember", kill)
        with pytest.raises(SystemExit):
            _train(own_copy)
    outcome = _train(own_copy)
    assert outcome.is_reused
    rows = [row for row in read_results(own_copy.paths.results) if row.run_id == outcome.run.run_id]
    assert len(rows) == 1


def test_a_torn_log_costs_a_point_of_the_curve_and_no_run(own_copy: Chain) -> None:
    """A power cut in the middle of a line must not block the checkpoint for ever."""
    first = _train(own_copy)
    log = own_copy.paths.runs / first.run.run_id / training.LOG_NAME
    log.write_text(log.read_text() + '{"event": "Eval')
    assert _train(own_copy).curve == first.curve
    log.unlink()
    assert _train(own_copy).curve == ()


def test_too_few_hands_to_choose_by_is_said_before_training(own_copy: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents a message about an empty read for somebody with a dozen hands."""
    load = shards.load_split
    monkeypatch.setattr(shards, "load_split", lambda folder, split: load(folder, split, 0 if split == "val" else None))
    with pytest.raises(ValueError, match=r"nothing in val.*add hands"):
        _train(own_copy, seed=99)


def test_without_shards_it_says_what_to_do(own_copy: Chain) -> None:
    """Prevents a stack trace about parquet for somebody who pressed the wrong button first."""
    own_copy.paths.data.unlink()
    with pytest.raises(ValueError, match="materialize encoded_shards first"):
        _train(own_copy)


def test_cuda_asked_for_and_absent_is_said(own_copy: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents a night on the CPU for somebody who asked for the GPU."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ValueError, match="no CUDA device"):
        _train(own_copy, device="cuda")


def test_the_asset_fails_visibly_in_dagster_and_the_kept_checkpoint_stays(own_copy: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents an exception in training from leaving the pointer on half a run."""
    before = own_copy.paths.checkpoint.resolve()
    monkeypatch.setattr(training, "train", lambda *_, **__: 1 / 0)
    failed = own_copy.again("train_and_evaluate", raise_on_error=False, seed=9)
    assert not failed.result.success
    assert own_copy.paths.checkpoint.resolve() == before
