"""The loop: it learns, two runs are one, it keeps the best, tells what it does and ends with its budget."""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from range_reader_core.checkpoint import load_checkpoint
from range_reader_core.presets import with_poker_sense
from range_reader_core.reads import Reads
from range_reader_core.train_events import CompileFailed, Evaluated, Progress, Started, TrainEvent
from range_reader_core.training import LOG_NAME
from range_reader_core.validation import Validator, choose_reads
from tests.core.training_runs import CPU, SMALL, Ticks, assert_same_run, run, timeless

GOLDEN = Path(__file__).parent.parent / "golden" / "loss_trace.json"
pytestmark = pytest.mark.usefixtures("one_thread")


def test_it_learns_what_there_is_to_learn(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """Everything else can be right while no gradient reaches the weights: here a small model must fit its own reads."""
    few = reads[0].take(np.arange(24))
    config = replace(
        SMALL,
        max_steps=40,
        learning_rate=2e-2,
        model=replace(SMALL.model, dropout=0.0),
        has_random_relabeling=False,
        weight_decay=0.0,
    )
    result = run((few, few), tmp_path, config)
    assert result.history[-1].val_loss_nats < 4.0  # the static range of these reads costs more than 6


@pytest.mark.parametrize("trace", ["train_loss_nats", "train_loss_nats_with_poker_sense"])
def test_the_loss_trace_is_golden(reads: tuple[Reads, Reads], tmp_path: Path, trace: str) -> None:
    """A change that should not alter results must leave every loss where it was; one that should, regenerates the file."""
    model = with_poker_sense(SMALL.model) if trace.endswith("poker_sense") else SMALL.model
    losses = [event.train_loss_nats for event in run(reads, tmp_path, replace(SMALL, model=model, num_evaluations=8)).history]
    golden = json.loads(GOLDEN.read_text())
    # Other libraries of matrix products round otherwise; a changed recipe moves the later losses by far more.
    assert losses == pytest.approx(golden[trace], rel=2e-5)


def test_two_runs_are_equal_and_another_seed_is_not(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """Hidden randomness would make every comparison a lottery."""
    first, second = run(reads, tmp_path / "a"), run(reads, tmp_path / "b")
    assert_same_run(first, second)
    assert timeless(run(reads, tmp_path / "c", replace(SMALL, seed=1))) != timeless(first)


def test_global_randomness_neither_enters_nor_changes(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """Dropout seeds the global generator; a caller's own draws must not notice, nor be noticed."""
    torch.manual_seed(1)
    first = run(reads, tmp_path / "a")
    after = torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(3), after)
    torch.manual_seed(2)
    assert_same_run(first, run(reads, tmp_path / "b"))


def test_the_best_validation_is_what_is_kept(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """By mrr, of the averaged weights, and with the sidecar that tells so."""
    config = replace(SMALL, learning_rate=0.02, max_steps=30, num_evaluations=10, tie_errors=0.0)
    result = run(reads, tmp_path, config)
    mrrs = [event.val_mrr for event in result.history]
    assert len(mrrs) == 10
    assert result.best.val_mrr == max(mrrs)
    assert mrrs.index(max(mrrs)) < 9  # otherwise the last would do
    model, sidecar = load_checkpoint(tmp_path, CPU)
    means = Validator(choose_reads(reads[1], SMALL.eval_reads), CPU).score(model).means
    assert means["mrr"] == pytest.approx(result.best.val_mrr, rel=1e-6)
    assert sidecar.metrics["loss_nats"] == result.best.val_loss_nats
    assert sidecar.step == result.best.step
    assert [event.is_best for event in result.history] == [mrr >= max(mrrs[: i + 1]) for i, mrr in enumerate(mrrs)]
    by_loss = run(reads, tmp_path / "ties", replace(config, tie_errors=1e9))
    assert by_loss.best.val_loss_nats == min(event.val_loss_nats for event in by_loss.history) < result.best.val_loss_nats


def test_events_tell_the_run_and_are_logged(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """The terminal, Dagster and a later reader of the folder rely on them."""
    events: list[TrainEvent] = []
    config = replace(SMALL, report_every_s=1e-9)
    result = run(reads, tmp_path, config, on_event=events.append)
    assert isinstance(events[0], Started)
    assert events[0].num_train_reads == reads[0].num_reads
    assert events[0].num_val_reads == SMALL.eval_reads
    progress = [event for event in events if isinstance(event, Progress)]
    assert [event.step for event in progress] == list(range(1, 9))
    assert all(event.reads_per_s > 0.0 and math.isfinite(event.loss_nats) for event in progress)
    assert max(event.learning_rate for event in progress) == pytest.approx(SMALL.learning_rate, rel=0.05)
    evaluated = tuple(event for event in events if isinstance(event, Evaluated))
    assert evaluated == result.history
    assert [event.step for event in evaluated] == [2, 4, 6, 8]
    # What a validation calls the training loss is the mean over the steps since the one before.
    of_steps = [event.loss_nats for event in progress]
    assert min(of_steps[2:4]) < evaluated[1].train_loss_nats < max(of_steps[2:4])
    lines = [json.loads(line) for line in (tmp_path / LOG_NAME).read_text().splitlines()]
    assert [line.pop("event") for line in lines] == [type(event).__name__ for event in events]
    assert lines[-1] == asdict(events[-1])


def test_a_budget_in_seconds_ends_the_run_and_holds_everything(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """Set-up and validations are paid from it, the last one included, and the rate falls to a tenth by its end."""
    config = replace(SMALL, max_steps=None, budget_seconds=200.0, report_every_s=1e-9)
    events: list[TrainEvent] = []
    result = run(reads, tmp_path, config, on_event=events.append, clock=Ticks(0.5))
    assert 0.9 * 200.0 < result.seconds <= 210.0
    assert len(result.history) == 4
    assert result.history[-1].step == result.num_steps
    rates = [event.learning_rate for event in events if isinstance(event, Progress)]
    assert rates[-1] == pytest.approx(0.1 * config.learning_rate, rel=0.1)


def test_a_budget_too_small_for_a_step_still_leaves_a_checkpoint(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """Nothing to load at the end is worse than a reader that is barely better than its prior."""
    result = run(reads, tmp_path, replace(SMALL, max_steps=None, budget_seconds=1e-3))
    assert result.num_steps == 1
    assert load_checkpoint(tmp_path, CPU)[1].step == 1


def test_compilation_that_fails_is_told_and_done_without(
    reads: tuple[Reads, Reads], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine without a C++ compiler must still train, with the same result."""
    plain = run(reads, tmp_path / "plain")

    def fails(*_: object, **__: object) -> Callable[..., torch.Tensor]:
        def broken(*_: object) -> torch.Tensor:
            msg = "no compiler found\nand a long story"
            raise torch._inductor.exc.InductorError(RuntimeError(msg), None)

        return broken

    monkeypatch.setattr(torch, "compile", fails)
    events: list[TrainEvent] = []
    result = run(reads, tmp_path / "broken", replace(SMALL, is_compiled=True), on_event=events.append)
    assert isinstance(events[0], CompileFailed)
    assert "no compiler found" in events[0].reason
    assert not result.is_compiled
    assert_same_run(plain, result)


@pytest.mark.slow
def test_compiled_blocks_give_the_same_losses(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """Speed must not change what is learned."""
    config = replace(SMALL, model=replace(SMALL.model, dropout=0.0))
    plain = run(reads, tmp_path / "plain", config)
    compiled = run(reads, tmp_path / "compiled", replace(config, is_compiled=True))
    assert compiled.is_compiled
    ours = [event.train_loss_nats for event in compiled.history]
    assert ours == pytest.approx([event.train_loss_nats for event in plain.history], rel=1e-4)
