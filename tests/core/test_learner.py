"""A step: it scores what it should, and never updates on a bad number."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from range_reader_core.batching import Batch
from range_reader_core.learner import Learner, resolve_precision
from range_reader_core.reads import Reads
from range_reader_core.tokens import COMBO_OFFSET
from tests.core.training_runs import CPU, SMALL, run

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_bad_number_stops_before_the_update_and_names_the_step(reads: tuple[Reads, Reads], tmp_path: Path, bad: float) -> None:
    """An update with it would destroy the weights that were good until then."""
    train_reads, val_reads = reads
    learner = Learner(SMALL, train_reads, CPU)
    learner.step(0, 1e-3)
    before = {name: tensor.clone() for name, tensor in learner.model.state_dict().items()}
    learner.reads.values.fill_(bad)
    with pytest.raises(FloatingPointError, match=r"step 1: loss .* stopped before the update"):
        learner.step(1, 1e-3)
    assert all(torch.equal(before[name], tensor) for name, tensor in learner.model.state_dict().items())
    spoilt = replace(train_reads, values=np.full_like(train_reads.values, bad))
    with pytest.raises(FloatingPointError, match="step 0"):
        run((spoilt, val_reads), tmp_path)


def test_a_bad_gradient_stops_although_the_loss_is_fine(reads: tuple[Reads, Reads]) -> None:
    """A gradient can overflow where the loss does not."""
    learner = Learner(SMALL, reads[0], CPU)
    parameter = learner.model.embedding.card
    before = parameter.detach().clone()
    parameter.register_hook(lambda gradient: gradient * torch.inf)
    with pytest.raises(FloatingPointError, match=r"step 0: loss \d.*gradient norm (nan|inf)"):
        learner.step(0, 1e-3)
    assert torch.equal(parameter, before)


def test_reads_without_a_supervised_position_are_an_error(reads: tuple[Reads, Reads]) -> None:
    """A mean over nothing is no loss of zero."""
    train_reads = reads[0]
    first = train_reads.take(np.array([0]))
    stump = replace(first, tokens=first.tokens[:3], values=first.values[:3], offsets=np.array([0, 3]))
    for num in (None, 4):
        with pytest.raises(ValueError, match="has a supervised position"):
            Learner(replace(SMALL, positions_per_read=num), stump, CPU).step(0, 1e-3)


def test_scoring_all_or_some_positions_is_the_same_objective(reads: tuple[Reads, Reads]) -> None:
    """With as many positions as the longest read has, the short cut through the last block must give the same gradients."""
    norms = []
    for num in (None, 96):
        learner = Learner(replace(SMALL, positions_per_read=num, model=replace(SMALL.model, dropout=0.0)), reads[0], CPU)
        with torch.no_grad():
            for parameter in learner.model.parameters():
                parameter.add_(0.1)
        losses = learner.step(0, 1e-3)
        gradients = [parameter.grad.clone() for parameter in learner.model.parameters() if parameter.grad is not None]
        norms.append((losses, gradients))
    (all_loss, all_gradients), (some_loss, some_gradients) = norms
    assert some_loss.sum_nats == pytest.approx(all_loss.sum_nats, rel=1e-5)
    assert some_loss.num_positions == all_loss.num_positions
    for ours, theirs in zip(all_gradients, some_gradients, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5 * max(1.0, float(theirs.abs().max())))


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_so_many_reads_are_learned_without_the_cards_of_the_perspective(
    reads: tuple[Reads, Reads], monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    """A reader that has always seen two cards has no idea what a watcher without any should think."""
    learner = Learner(replace(SMALL, batch_size=64, watcher_share=share), reads[0], CPU)
    real, shown = learner._loss, []

    def loss(batch: Batch, *args: Any) -> tuple[torch.Tensor, torch.Tensor]:
        shown.append((batch.tokens >= COMBO_OFFSET).any(dim=1))
        return real(batch, *args)

    monkeypatch.setattr(learner, "_loss", loss)
    for step in range(5):
        learner.step(step, 1e-3)
    num_reads = sum(len(rows) for rows in shown)
    assert num_reads > 200
    assert 1.0 - float(torch.cat(shown).float().mean()) == pytest.approx(share, abs=0.09)


def test_precision_is_what_was_asked_for_and_else_what_the_hardware_does_fast() -> None:
    """bfloat16 without hardware for it is four times slower than float32."""
    assert resolve_precision("bfloat16", CPU) is torch.bfloat16
    assert resolve_precision("float32", CPU) is torch.float32
    has_tiles = torch.cpu._is_amx_tile_supported()
    assert resolve_precision("auto", CPU) is (torch.bfloat16 if has_tiles else torch.float32)
