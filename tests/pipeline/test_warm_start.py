"""Claims about trainings that begin with the kept checkpoint: what is refused, what is kept, what is not trained twice."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from range_reader_pipeline import training_run
from range_reader_pipeline.config import WARM_START_RATE, TrainingConfig
from range_reader_pipeline.examination import Examination
from range_reader_pipeline.results_log import RunStatus, read_results
from range_reader_pipeline.run_store import FinishedRun, RunStore, training_identity
from range_reader_pipeline.training_run import TrainingOutcome, train_or_reuse
from tests.core.hands import random_hands
from tests.pipeline.ohh_writer import write_ohh
from tests.pipeline.test_training_events import FakeLog
from tests.pipeline.trained import Chain


def _train(chain: Chain, log: FakeLog | None = None, **config: Any) -> TrainingOutcome:
    settings = {"preset": "tiny", "device": "cpu", "max_steps": 3, "num_evaluations": 1, "init_from": "kept", **config}
    return train_or_reuse(chain.paths, TrainingConfig(**settings), owner="a test", log=log or FakeLog(), observe=lambda _: None)


def _kept(chain: Chain) -> FinishedRun:
    kept = RunStore(chain.paths).kept()
    assert kept is not None
    return kept


@pytest.fixture
def grown(own_copy: Chain, tmp_path: Path) -> Chain:
    """Return the trained home with more hands on disk than the kept run was trained on."""
    ohh = tmp_path / "more"
    write_ohh(ohh / "c.ohh", random_hands(3, 120, num_players=4))
    paths = dataclasses.replace(own_copy.paths, ohh=ohh)
    chain = dataclasses.replace(own_copy, paths=paths)
    chain.again("refresh_dataset")
    assert paths.data.resolve().name != _kept(chain).data_version
    return chain


def test_a_warm_start_on_grown_data_is_compared_on_the_same_val_hands(grown: Chain) -> None:
    """Prevents a retraining from replacing a better reader because their numbers are of different hands."""
    before, log = _kept(grown), FakeLog()
    outcome = _train(grown, log)
    assert (outcome.run.init_run, outcome.run.init_weights) == (before.run_id, before.weights_sha256)
    assert any(f"begins with the weights of run {before.run_id}" in line for line in log.lines)
    assert outcome.found.compared_with == before.run_id
    assert outcome.found.mrr_lead is not None
    assert (outcome.status is RunStatus.KEEP) == (outcome.found.mrr_lead >= 0.0 and not outcome.found.is_worse)
    assert f"began with run {before.run_id}" in read_results(grown.paths.results)[-1].note


def _with_lead(monkeypatch: pytest.MonkeyPatch, lead: float) -> None:
    """Let every examination find this lead in mrr, well within chance."""
    real = training_run.examined

    def examined(*args: Any, **kwargs: Any) -> Examination:
        found = real(*args, **kwargs)
        return dataclasses.replace(
            found, mrr_lead=lead, mrr_lead_low=lead - 1.0, mrr_lead_high=lead + 1.0, loss_lead=0.0, loss_lead_high=1.0
        )

    monkeypatch.setattr(training_run, "examined", examined)


def test_a_warm_start_that_reads_worse_leaves_the_kept_one(grown: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents a scheduled retraining from shipping something worse overnight, be it by little."""
    _with_lead(monkeypatch, -1e-6)
    before, log = _kept(grown), FakeLog()
    outcome = _train(grown, log)
    assert outcome.status is RunStatus.DISCARD
    assert outcome.kept == _kept(grown) == before
    assert any(f"run {before.run_id} stays" in line for line in log.warnings)
    again = _train(grown)  # the next night
    assert again.is_reused
    assert again.run == outcome.run


def test_a_warm_start_that_unlearns_what_it_was_given_is_found_out(grown: Chain) -> None:
    """Prevents a guard that decides right but never sees the loss: here the weights are really spoilt, by too high a rate."""
    before, weights = _kept(grown), (grown.paths.checkpoint / "best.safetensors").read_bytes()
    outcome = _train(grown, learning_rate=1.0)
    assert outcome.run.init_run == before.run_id
    assert outcome.found.mrr_lead is not None
    assert outcome.found.mrr_lead < 0.0
    assert outcome.status is RunStatus.DISCARD
    assert outcome.kept == _kept(grown) == before
    assert (grown.paths.checkpoint / "best.safetensors").read_bytes() == weights


@pytest.mark.slow
def test_a_kept_warm_start_is_not_trained_again_on_the_same_data(grown: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents a chain of warm starts, each from the last, on data that has not changed."""
    _with_lead(monkeypatch, 1e-6)
    first = _train(grown)
    assert first.status is RunStatus.KEEP
    again = _train(grown)
    assert again.is_reused
    assert again.run == first.run
    assert not _train(grown, retrain=True).is_reused


@pytest.mark.slow
def test_trained_weights_are_trained_on_at_a_lower_rate_unless_one_is_set(own_copy: Chain) -> None:
    """Prevents the peak rate of a fresh start from undoing what was learned."""
    warm, cold, asked = (_train(own_copy, seed=5, **extra) for extra in ({}, {"init_from": "scratch"}, {"learning_rate": 0.01}))
    rates = [_rate(own_copy, outcome) for outcome in (warm, cold, asked)]
    assert rates == pytest.approx([WARM_START_RATE * rates[1], rates[1], 0.01])


def _rate(chain: Chain, outcome: TrainingOutcome) -> float:
    from range_reader_core.checkpoint import read_sidecar

    return float(str(read_sidecar(chain.paths.runs / outcome.run.run_id).train_config["learning_rate"]))


@pytest.mark.slow
def test_another_model_is_refused_or_begun_afresh_as_asked(own_copy: Chain) -> None:
    """Prevents a change of preset from failing deep inside, and from being trained silently from scratch."""
    kept = _kept(own_copy)
    with pytest.raises(ValueError, match=r"holds another model.*width 32 instead of .*set it to scratch or kept_or_scratch"):
        _train(own_copy, preset="cpu")
    log = FakeLog()
    outcome = _train(own_copy, log, preset="cpu", init_from="kept_or_scratch", batch_size=4)
    assert outcome.run.init_run == ""
    assert any("begins with random weights" in line and "width 32" in line for line in log.warnings)
    assert kept.preset == "tiny"


@pytest.mark.slow
def test_without_anything_kept_it_is_refused_or_begun_afresh_as_asked(own_copy: Chain) -> None:
    """Prevents the first scheduled training from failing for want of a second."""
    own_copy.paths.checkpoint.unlink()
    with pytest.raises(ValueError, match="nothing is kept yet"):
        _train(own_copy)
    log = FakeLog()
    assert _train(own_copy, log, init_from="kept_or_scratch", seed=8).run.init_run == ""
    assert any("nothing is kept yet" in line for line in log.lines)


def test_the_first_weights_are_part_of_the_identity_and_scratch_changes_none() -> None:
    """Prevents a run from being reused that began with other weights, and finished runs from losing their names."""
    plain = training_identity({"a": 1}, data_version="d", code_version="1")
    assert training_identity({"a": 1}, data_version="d", code_version="1", init_weights="") == plain
    warm = {training_identity({"a": 1}, data_version="d", code_version="1", init_weights=text) for text in ("w1", "w2")}
    assert len(warm | {plain}) == 3
