"""Claims about arms of a comparison: trained once, gone on with after a stop, scored per read."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from range_reader_core import training
from range_reader_core.baselines import StaticRangeReader
from range_reader_core.checkpoint import load_checkpoint
from range_reader_core.encoder import HandEncoder
from range_reader_core.evaluation import evaluate
from range_reader_core.inference import ModelReader
from range_reader_core.presets import tiny
from range_reader_core.reads import Reads
from range_reader_core.train_events import Evaluated, Resumed, TrainEvent
from range_reader_pipeline import arms
from range_reader_pipeline.arms import (
    ArmRecord,
    Scoring,
    arm_folder,
    finished_arm,
    last_average,
    load_scores,
    run_arm,
    score_baselines,
    with_last,
)
from tests.core.hands import random_hands

CONFIG = replace(tiny(), max_steps=4, num_evaluations=2, eval_reads=20)
SINGLE = Scoring(name="test_30", split="test", max_reads=30, num_relabelings=1)
AVERAGED = Scoring(name="test_5_averaged", split="test", max_reads=5, num_relabelings=24)


@pytest.fixture(scope="module")
def reads() -> dict[str, Reads]:
    """Return reads by split, of different hands."""
    encoder = HandEncoder()
    return {name: encoder.encode_hands(random_hands(seed, 20))[0] for seed, name in enumerate(("train", "val", "test"))}


def _run(
    folder: Path,
    reads: dict[str, Reads],
    *scorings: Scoring,
    on_event: Callable[[TrainEvent], None] = lambda _: None,
) -> ArmRecord:
    return run_arm(folder, "x", CONFIG, reads, scorings, data_version="d1", device="cpu", on_event=on_event, log=lambda _: None)


def test_an_arm_is_trained_once_and_scored_per_read(
    reads: dict[str, Reads], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prevents a killed comparison from starting over, and means that cannot be compared hand by hand."""
    record = _run(tmp_path / "a", reads, SINGLE)
    assert record.num_steps == 4
    assert 3 * CONFIG.batch_size < record.num_reads_seen <= 4 * CONFIG.batch_size  # one batch of an epoch is smaller
    assert record.peak_bytes > 50e6
    monkeypatch.setattr(training, "train", lambda *_, **__: pytest.fail("trained again"))
    assert _run(tmp_path / "a", reads, SINGLE) == record == finished_arm(tmp_path / "a", [SINGLE])
    (scores,) = load_scores(tmp_path / "a", SINGLE.name).values()
    assert scores.metric_sums.shape == (30, 7)
    assert np.array_equal(scores.hand_index, reads["test"].hand_index[:30])


def test_another_scoring_of_a_finished_arm_trains_nothing(reads: dict[str, Reads], tmp_path: Path) -> None:
    """Prevents a question asked later from costing another training."""
    first = _run(tmp_path / "a", reads, SINGLE)
    assert finished_arm(tmp_path / "a", [SINGLE, AVERAGED]) is None
    events: list[TrainEvent] = []
    again = _run(tmp_path / "a", reads, SINGLE, AVERAGED, on_event=events.append)
    assert [type(event) for event in events] == [Resumed]
    assert replace(again, peak_bytes=0, setup_s=0.0) == replace(first, peak_bytes=0, setup_s=0.0)
    assert len(load_scores(tmp_path / "a", AVERAGED.name)["model"].num_positions) == 5


def test_the_last_weights_are_scored_beside_the_kept_ones(
    reads: dict[str, Reads], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prevents a comparison of recipes that is one of lucky validations."""
    monkeypatch.setattr(training, "is_better", lambda candidate, best, *_: best is None)
    scorings = with_last([SINGLE])
    folder = tmp_path / "a"
    arguments = {"data_version": "d1", "device": "cpu", "on_event": lambda _: None, "log": lambda _: None}
    record = run_arm(folder, "x", CONFIG, reads, scorings, **arguments)  # type: ignore[arg-type]
    assert (record.best_step, record.num_steps) == (2, 4)
    kept, last = (load_scores(folder, scoring.name)["model"].metric_sums for scoring in scorings)
    assert not np.allclose(kept, last)
    model, _ = load_checkpoint(folder, torch.device("cpu"))
    model.load_state_dict(last_average(folder))
    (expected,) = evaluate([ModelReader(model=model, num_relabelings=1)], reads["test"].take(np.arange(30)))
    assert np.allclose(last, expected.metric_sums)


def test_a_stopped_arm_goes_on_and_ends_as_if_undisturbed(reads: dict[str, Reads], tmp_path: Path) -> None:
    """Prevents a kill from costing an arm, or from changing what it shows."""
    _run(tmp_path / "whole", reads, SINGLE)

    def stop(event: TrainEvent) -> None:
        if isinstance(event, Evaluated):
            raise KeyboardInterrupt

    # The folder's name is the identity of the run, so the parts must be called alike.
    folder = tmp_path / "parts" / "whole"
    with pytest.raises(KeyboardInterrupt):
        _run(folder, reads, SINGLE, on_event=stop)
    assert finished_arm(folder, [SINGLE]) is None
    _run(folder, reads, SINGLE)
    ours, theirs = (load_scores(path, SINGLE.name)["model"].metric_sums for path in (folder, tmp_path / "whole"))
    assert np.array_equal(ours, theirs)


def test_the_folder_is_named_by_what_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents results of another configuration, data or code from being taken for these."""
    usual = arm_folder(tmp_path, "x", CONFIG, "d1")
    assert usual == arm_folder(tmp_path, "x", replace(CONFIG, report_every_s=1.0), "d1")
    others = {
        arm_folder(tmp_path, "x", replace(CONFIG, seed=1), "d1"),
        arm_folder(tmp_path, "x", replace(CONFIG, learning_rate=1e-4), "d1"),
        arm_folder(tmp_path, "x", CONFIG, "d2"),
    }
    monkeypatch.setattr(arms, "core_version", lambda: "other code")
    others.add(arm_folder(tmp_path, "x", CONFIG, "d1"))
    assert len(others | {usual}) == 5


@pytest.mark.slow
def test_baselines_are_scored_on_the_same_reads(reads: dict[str, Reads], tmp_path: Path) -> None:
    """Prevents a floor measured on other hands than the arms."""
    names = score_baselines(tmp_path, reads, [SINGLE], has_trackers=False, device="cpu")
    assert names == ("static range", "uniform over live combos")
    assert score_baselines(tmp_path, reads, [SINGLE], has_trackers=True, device="cpu")[2:] == (
        "position and line",
        "position, line and strength",
    )
    (expected,) = evaluate([StaticRangeReader.fit(reads["train"])], reads["test"].take(np.arange(30)))
    assert np.allclose(load_scores(tmp_path, SINGLE.name)["static range"].metric_sums, expected.metric_sums)
