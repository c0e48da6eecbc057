"""Claims about the yardstick: it is slower for how it computes, not for what."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks import eager_reference
from benchmarks.eager_reference import (
    EagerReference,
    library_attention,
    measure_speeds,
    on_reference_architecture,
    trained_eagerly,
)
from range_reader_core import blocks, training
from range_reader_core.encoder import HandEncoder
from range_reader_core.learner import Learner
from range_reader_core.model import ModelConfig
from range_reader_core.presets import reference_cpu
from range_reader_core.reads import Reads
from tests.core.hands import random_hands
from tests.core.training_runs import run

CPU = torch.device("cpu")
SMALL = replace(
    reference_cpu(), model=ModelConfig(num_layers=2, width=16, num_heads=2, dropout=0.0), batch_size=12, precision="float32"
)


@pytest.fixture(scope="module")
def reads() -> Reads:
    """Return a few reads."""
    return HandEncoder().encode_hands(random_hands(5, 12))[0]


def test_it_computes_the_loss_and_gradients_that_ours_computes(reads: Reads) -> None:
    """A ratio of speeds between two objectives would say nothing."""
    slow, fast = EagerReference(SMALL, reads, CPU), Learner(SMALL, reads, CPU)
    for learner in (slow, fast):
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in learner.model.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    padded = slow._batch(0)
    assert padded.tokens.shape == (12, 96)
    slow._batch = lambda step: padded  # type: ignore[method-assign]
    fast._batch = lambda step: fast.reads.batch(padded.read_index.numpy())  # type: ignore[method-assign]
    theirs, ours = slow.step(0, 0.0), fast.step(0, 0.0)
    assert ours.sum_nats == pytest.approx(theirs.sum_nats, rel=1e-5)
    assert ours.num_positions == theirs.num_positions
    num_compared = 0
    for mine, other in zip(fast.model.parameters(), slow.model.parameters(), strict=True):
        assert mine.grad is not None
        assert other.grad is not None
        assert torch.allclose(mine.grad, other.grad, atol=1e-5 * max(1.0, float(other.grad.abs().max())))
        num_compared += 1
    assert num_compared > 10


def test_the_library_attends_only_inside() -> None:
    """A patch that stays would slow down what it is compared with."""
    before = blocks.attend
    with library_attention():
        assert blocks.attend is not before
    assert blocks.attend is before


def test_ours_on_the_reference_architecture_differs_in_switches_alone() -> None:
    """A smaller model or an easier objective would make any code fast."""
    ours, theirs = on_reference_architecture(), reference_cpu()
    assert replace(ours, positions_per_read=None, is_compiled=False) == theirs


def test_both_speeds_are_of_reads_that_were_stepped_through(reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count that is forgotten makes any ratio."""
    monkeypatch.setattr(eager_reference, "reference_cpu", lambda: SMALL)
    monkeypatch.setattr(eager_reference, "cpu", lambda: replace(SMALL, positions_per_read=4))
    said: list[str] = []
    speed = measure_speeds(reads, num_rounds=2, round_s=0.01, say=said.append)
    assert speed["reference_reads_per_processor_s"] > 1.0
    assert speed["ours_reads_per_s"] > 1.0
    assert speed["least_ratio"] <= speed["ratio"] <= speed["greatest_ratio"]
    assert len(said) == 3


def test_a_training_takes_the_slow_steps_only_when_asked(reads: Reads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An arm that is called eager and runs in our engine would be compared under a wrong name."""
    steps: list[int] = []
    real = EagerReference.step

    def step(self: EagerReference, number: int, rate: float):  # type: ignore[no-untyped-def]
        steps.append(number)
        return real(self, number, rate)

    monkeypatch.setattr(EagerReference, "step", step)
    config = replace(SMALL, max_steps=3, num_evaluations=1, eval_reads=8)
    with trained_eagerly():
        assert run((reads, reads), tmp_path / "eager", config).num_steps == 3
    assert steps == [0, 1, 2]
    run((reads, reads), tmp_path / "ours", config)
    assert len(steps) == 3
    assert training.Learner is Learner
