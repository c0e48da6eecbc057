"""Claims about the examination of finished runs and the checks made from it: each is seen red on the fault it is there for."""

import dataclasses
import shutil
from collections.abc import Callable

import dagster as dg
import pytest
import torch

from range_reader_core.checkpoint import read_tensors, write_tensors
from range_reader_pipeline import model_checks
from range_reader_pipeline.examination import EXAMINATION_NAME, Examination, examine, examined, flaws, in_fresh_process
from range_reader_pipeline.provenance import file_sha256
from range_reader_pipeline.results_log import RunStatus, read_results
from range_reader_pipeline.run_store import WEIGHTS_NAME, FinishedRun, RunStore, judge
from range_reader_pipeline.storage import read_json
from range_reader_pipeline.training_run import Session
from tests.core.hands import random_hands
from tests.pipeline.ohh_writer import write_ohh
from tests.pipeline.trained import Chain

Damage = Callable[[dict[str, torch.Tensor]], None]


def kept_run(chain: Chain) -> FinishedRun:
    kept = RunStore(chain.paths).kept()
    assert kept is not None
    return kept


def damaged(chain: Chain, run: FinishedRun, damage: Damage) -> FinishedRun:
    """Change a run's weights, and its record as if they were what was saved."""
    path = chain.paths.runs / run.run_id / WEIGHTS_NAME
    tensors, header = read_tensors(path)
    damage(tensors)
    write_tensors(path, tensors, header)
    changed = dataclasses.replace(run, weights_sha256=file_sha256(path))
    RunStore(chain.paths).finish(changed)
    return changed


def beside(chain: Chain, name: str) -> FinishedRun:
    """Return a copy of the kept run under another name."""
    kept = kept_run(chain)
    shutil.copytree(chain.paths.runs / kept.run_id, chain.paths.runs / name)
    (chain.paths.runs / name / EXAMINATION_NAME).unlink()
    run = dataclasses.replace(kept, run_id=name)
    RunStore(chain.paths).finish(run)
    return run


def not_a_number(tensors: dict[str, torch.Tensor]) -> None:
    next(iter(tensors.values())).view(-1)[0] = float("nan")


def confidently_wrong(tensors: dict[str, torch.Tensor]) -> None:
    tensors["head.to_query"].mul_(-20.0)


def find(chain: Chain, run: FinishedRun, other: FinishedRun | None = None) -> Examination:
    return examined(chain.paths, run, other, device="cpu", log=lambda _: None)


def results(run: FinishedRun, found: Examination) -> dict[str, dg.AssetCheckResult]:
    return {result.check_name or "": result for result in model_checks.run_checks(run, found)}


def failed(chain: Chain) -> set[str]:
    return {check.check_name for check in chain.result.get_asset_check_evaluations() if not check.passed}


def test_a_sound_run_passes_and_every_result_says_why(trained: Chain) -> None:
    """A check that fails on good models is switched off by the second person who sees it."""
    evaluations = {check.check_name: check for check in trained.result.get_asset_check_evaluations()}
    names = {spec.name for spec in model_checks.SPECS}
    assert names <= set(evaluations)
    assert all(evaluations[name].passed for name in names)
    assert {"beats_static_range", "beats_best_baseline", "calibrated", "sharpens"} <= set(evaluations)
    for name in (*names, "beats_static_range", "beats_best_baseline", "calibrated", "sharpens"):
        assert evaluations[name].description
        assert "threshold" in evaluations[name].metadata


@pytest.mark.slow
def test_a_fresh_process_reproduces_the_recorded_scores(own_copy: Chain) -> None:
    """The one test that starts the interpreter that every training of a user starts."""
    run = kept_run(own_copy)
    record = own_copy.paths.runs / run.run_id / EXAMINATION_NAME
    before = read_json(record)
    record.unlink()
    in_fresh_process(own_copy.paths, run, None, "cpu")
    after = read_json(record)
    assert after["val_mrr"] == pytest.approx(run.val_mrr, abs=1e-6)
    assert after["num_val_reads"] == before["num_val_reads"] > 0
    assert not flaws(run, find(own_copy, run))


def test_an_examination_that_dies_says_why(own_copy: Chain) -> None:
    """A traceback that was swallowed would leave nothing to act on."""
    run = dataclasses.replace(kept_run(own_copy), run_id="nobody")
    with pytest.raises(RuntimeError, match="nobody is no finished run"):
        in_fresh_process(own_copy.paths, run, None, "cpu")


def test_weights_that_are_no_numbers_block_and_the_kept_reader_stays(own_copy: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every belief of such a reader is nonsense; the earlier one must go on being read."""
    before = kept_run(own_copy)
    sabotage(monkeypatch, own_copy, not_a_number)
    again = own_copy.again("train_and_evaluate", raise_on_error=False, seed=3)
    assert {"weights_are_finite", "reproduces_its_scores"} <= failed(again)
    assert not again.result.success
    assert not again.result.asset_materializations_for_node("sharpening_report")
    assert kept_run(own_copy).run_id == before.run_id
    row = read_results(own_copy.paths.results)[-1]
    assert row.status is RunStatus.DISCARD
    assert "not finite" in row.note


@pytest.mark.slow
def test_without_an_earlier_reader_nothing_is_kept_and_it_is_said(own_copy: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first model that is broken must not become what others load."""
    shutil.rmtree(own_copy.paths.runs)
    own_copy.paths.checkpoint.unlink()
    sabotage(monkeypatch, own_copy, not_a_number)
    again = own_copy.again("train_and_evaluate", raise_on_error=False, seed=3)
    assert not again.result.success
    assert "weights_are_finite" in failed(again)
    (failure,) = [e for e in again.result.all_events if e.is_step_failure]
    assert not own_copy.paths.checkpoint.exists()
    assert failure.step_key == "checkpoint"


def test_scores_that_do_not_come_out_again_block(own_copy: Chain) -> None:
    """A report would be about another reader than the one that is on record."""
    run = dataclasses.replace(kept_run(own_copy), val_mrr=0.9)
    RunStore(own_copy.paths).finish(run)
    found = find(own_copy, run)
    result = results(run, found)["reproduces_its_scores"]
    assert not result.passed
    assert result.severity is dg.AssetCheckSeverity.ERROR
    assert "retrain: true" in (result.description or "")
    assert flaws(run, found)
    assert judge(run, None, is_flawed=True) is RunStatus.DISCARD


def test_a_file_that_does_not_load_blocks(own_copy: Chain) -> None:
    """Half a file, or one of another vocabulary."""
    run = kept_run(own_copy)
    path = own_copy.paths.runs / run.run_id / WEIGHTS_NAME
    path.write_bytes(path.read_bytes()[:1000])
    run = dataclasses.replace(run, weights_sha256=file_sha256(path))
    examine(own_copy.paths, run, None, "cpu")
    found = find(own_copy, run)
    assert "does not load" in " ".join(flaws(run, found))
    assert not results(run, found)["reproduces_its_scores"].passed


@pytest.mark.slow
def test_a_reader_that_got_worse_on_new_data_is_kept_aside(own_copy: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """New files with broken cards must not replace a good reader by a bad one overnight."""
    hands = own_copy.paths.root.parent / "hands"
    shutil.copytree(own_copy.paths.ohh, hands)
    chain = dataclasses.replace(own_copy, paths=dataclasses.replace(own_copy.paths, ohh=hands))
    before = kept_run(chain)
    write_ohh(hands / "new.ohh", random_hands(5, 60, num_players=4))
    assert chain.again("refresh_dataset").result.success
    sabotage(monkeypatch, chain, confidently_wrong)
    again = chain.again("train_and_evaluate")
    assert "not_worse_than_kept" in failed(again)
    assert again.result.success  # the reports are of the kept reader, and right
    assert kept_run(chain).run_id == before.run_id
    assert again.metadata("checkpoint")["status"] == "discard"


def test_the_same_reader_is_not_worse_than_itself(own_copy: Chain) -> None:
    """Chance must not count as a regression."""
    twin = beside(own_copy, "twin")
    found = find(own_copy, twin, kept_run(own_copy))
    assert found.compared_with == kept_run(own_copy).run_id
    assert (found.mrr_lead, found.num_val_gone, found.num_val_new) == (0.0, 0, 0)
    assert results(twin, found)["not_worse_than_kept"].passed


@pytest.mark.slow
def test_val_reads_that_vanished_warn_and_new_ones_do_not(own_copy: Chain) -> None:
    """Scores over time are compared by people; files that were taken away change what is compared."""
    hands = own_copy.paths.root.parent / "hands"
    shutil.copytree(own_copy.paths.ohh, hands)
    chain = dataclasses.replace(own_copy, paths=dataclasses.replace(own_copy.paths, ohh=hands))
    write_ohh(hands / "new.ohh", random_hands(5, 100, num_players=4))
    grown = chain.again("everything")
    assert "val_reads_unchanged" not in failed(grown)
    (hands / "a.ohh").unlink()
    shrunk = chain.again("everything")
    assert "val_reads_unchanged" in failed(shrunk)
    (check,) = [c for c in shrunk.result.get_asset_check_evaluations() if c.check_name == "val_reads_unchanged"]
    assert check.severity is dg.AssetCheckSeverity.WARN
    assert check.metadata["gone"].value > 0


def test_an_examination_is_held_once_for_a_pair(own_copy: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pressing Materialize again must not cost a minute of grading for what is on record."""
    run = kept_run(own_copy)
    monkeypatch.setattr("range_reader_pipeline.examination.in_fresh_process", lambda *_: pytest.fail("examined again"))
    assert find(own_copy, run, run).run_id == run.run_id


@pytest.mark.parametrize(
    ("low", "passes"), [(0.01, True), (-0.01, False), (0.0, False)], ids=["beyond chance", "within chance", "at the edge"]
)
def test_what_is_within_chance_warns(low: float, passes: bool) -> None:
    """A lead that chance explains is no lead."""
    numbers = {"nats_below_static_range": 0.02, "nats_below_static_range_low": low, "nats_below_static_range_high": 0.05}
    numbers |= {"mrr_gained": 0.02, "mrr_gained_low": low, "mrr_gained_high": 0.05, "calibration_error": 0.01}
    numbers |= {"nats_ahead_of_best_baseline": 0.02, "nats_ahead_low": low, "nats_ahead_high": 0.05}
    beats, best, *_ = model_checks.stratified_checks({**numbers, "best_baseline": "strength"})
    (sharpens,) = model_checks.sharpening_checks(numbers)
    assert best.check_name == "beats_best_baseline"
    assert "+0.0200 nats ahead of strength" in (best.description or "")
    assert ("train longer (TRAIN_MINUTES) and on more hands" in (best.description or "")) is not passes
    assert (best.metadata["nats_ahead_low"].value, best.metadata["nats_ahead_high"].value) == (low, 0.05)
    for result in (beats, best, sharpens):
        assert result.passed is passes
        assert result.severity is dg.AssetCheckSeverity.WARN
        assert ("within chance" in (result.description or "")) is not passes


def test_a_reader_behind_the_best_baseline_is_said_to_be_behind() -> None:
    """Half a nat behind a tracker's counts is not within chance."""
    numbers = {"nats_below_static_range": 0.1, "calibration_error": 0.0, "best_baseline": "line"}
    numbers |= {"nats_ahead_of_best_baseline": -0.5, "nats_ahead_low": -0.6, "nats_ahead_high": -0.4}
    _, result, *_ = model_checks.stratified_checks(numbers)
    assert not result.passed
    assert "That is behind: train longer" in (result.description or "")


def test_no_chance_level_is_told_where_none_was_measured() -> None:
    """A zero that nobody measured would say that any error is real."""
    numbers = {"nats_below_static_range": 0.1, "calibration_error": 0.02, "calibration_error_low": 0.01}
    _, _, result, _ = model_checks.stratified_checks(numbers)
    assert result.passed
    assert "chance" not in (result.description or "")
    assert "calibration_error_by_chance" not in result.metadata


@pytest.mark.parametrize(("low", "passes"), [(0.0, True), (0.04, True), (0.06, False)])
def test_probabilities_that_do_not_mean_what_they_say_warn(low: float, passes: bool) -> None:
    """Whoever multiplies these probabilities by chips must know."""
    numbers = {"calibration_error": low + 0.02, "calibration_error_low": low, "calibration_error_by_chance": 0.01}
    _, _, result, _ = model_checks.stratified_checks({**numbers, "nats_below_static_range": 0.0})
    assert result.passed is passes
    assert ("by chance alone 0.010" in (result.description or "")) is passes
    assert ("Take ranks" in (result.description or "")) is not passes


def test_one_hand_or_none_is_no_evidence() -> None:
    """A check that passes where nothing was measured cannot fail."""
    one = {"mrr_gained": 0.3, "nats_below_static_range": 0.3, "nats_ahead_of_best_baseline": 0.3, "calibration_error": 0.0}
    for numbers in (one, None):
        results = [
            *model_checks.sharpening_checks(numbers),
            *model_checks.stratified_checks(numbers, "no villain in the split")[:3],
        ]
        assert [result.passed for result in results] == [False] * 4
    assert all("Add hands" in (result.description or "") for result in results)
    assert "no villain in the split" in (results[1].description or "")


@pytest.mark.parametrize(
    ("nats_low", "mrr_low", "passes"),
    [(-0.1, -0.01, True), (0.0, 0.0, True), (0.001, -0.01, False), (-0.1, 0.0001, False), (None, None, True)],
)
def test_a_reader_above_the_oracle_warns(nats_low: float | None, mrr_low: float | None, passes: bool) -> None:
    """Who reads better than everything public allows has seen something hidden. Without an oracle nothing can be said."""
    numbers = {"nats_below_static_range": 0.0, "calibration_error": 0.0}
    if nats_low is not None and mrr_low is not None:
        numbers |= {"nats_above_oracle": nats_low + 0.05, "nats_above_oracle_low": nats_low}
        numbers |= {"mrr_above_oracle": mrr_low + 0.05, "mrr_above_oracle_low": mrr_low}
    *_, result = model_checks.stratified_checks(numbers)
    assert result.passed is passes
    assert result.severity is dg.AssetCheckSeverity.WARN
    assert ("look for what leaks" in (result.description or "")) is not passes


@pytest.mark.slow
def test_a_wrong_reader_does_not_beat_the_static_range(own_copy: Chain) -> None:
    """The same through the asset, on a reader that was made bad."""
    damaged(own_copy, kept_run(own_copy), confidently_wrong)
    (own_copy.paths.runs / kept_run(own_copy).run_id / EXAMINATION_NAME).unlink()
    definitions = own_copy.again("train_and_evaluate", raise_on_error=False)
    assert "reproduces_its_scores" in failed(definitions)
    run = kept_run(own_copy)
    honest = dataclasses.replace(run, **measured(own_copy, run))
    RunStore(own_copy.paths).finish(honest)
    assert {"beats_static_range", "sharpens"} <= failed(own_copy.again("train_and_evaluate"))


def measured(chain: Chain, run: FinishedRun) -> dict[str, float]:
    found = find(chain, run)
    assert found.val_mrr is not None
    assert found.val_loss_nats is not None
    return {"val_mrr": found.val_mrr, "val_loss_nats": found.val_loss_nats}


def sabotage(monkeypatch: pytest.MonkeyPatch, chain: Chain, damage: Damage) -> None:
    """Let the next training end with damaged weights and honest records of what they score, where they score anything."""
    original = Session.train

    def train(self: Session, *args: object) -> FinishedRun:
        run = original(self, *args)  # type: ignore[arg-type]
        run = damaged(chain, run, damage)
        examine(chain.paths, run, None, "cpu")
        found = find(chain, run)
        (chain.paths.runs / run.run_id / EXAMINATION_NAME).unlink()
        return dataclasses.replace(run, **measured_or_not(found))

    monkeypatch.setattr(Session, "train", train)


def measured_or_not(found: Examination) -> dict[str, float]:
    if found.val_mrr is None or found.val_loss_nats is None:
        return {}
    return {"val_mrr": found.val_mrr, "val_loss_nats": found.val_loss_nats}
