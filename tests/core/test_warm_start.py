"""Claims about trainings that begin with the weights of an earlier one."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from range_reader_core.checkpoint import read_sidecar
from range_reader_core.learner import Learner
from range_reader_core.reads import Reads
from range_reader_core.train_events import Evaluated, TrainEvent
from range_reader_core.warm_start import IncompatibleCheckpointError, starting_weights
from tests.core.training_runs import CPU, SMALL, Stop, assert_same_run, run, weights

SHORT = replace(SMALL, max_steps=6, num_evaluations=3)
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def checkpoint(reads: tuple[Reads, Reads], tmp_path: Path) -> Path:
    """Return the checkpoint of a short training."""
    return run(reads, tmp_path / "first", SHORT).checkpoint


def test_a_run_begins_with_the_weights_it_is_given(reads: tuple[Reads, Reads], checkpoint: Path, tmp_path: Path) -> None:
    """Prevents a warm start that starts cold: model and average must both begin there, and the first losses be those of the end."""
    given = weights(checkpoint)
    learner = Learner(SMALL, reads[0], CPU)
    learner.start_from(starting_weights(checkpoint, SMALL.model))
    for model in (learner.model, learner.average):
        assert all(torch.equal(given[name], tensor) for name, tensor in model.state_dict().items())
    frozen = replace(SMALL, learning_rate=1e-12, weight_decay=0.0, max_steps=1, num_evaluations=1)
    warm = run(reads, tmp_path / "warm", frozen, init_from=checkpoint)
    before = read_sidecar(checkpoint).validation
    assert before is not None
    assert warm.best.val_loss_nats == pytest.approx(before.val_loss_nats, rel=1e-6)


def test_a_stopped_warm_start_goes_on_instead_of_beginning_again(
    reads: tuple[Reads, Reads], checkpoint: Path, tmp_path: Path
) -> None:
    """Prevents a kill from throwing away the steps since the start."""
    whole = run(reads, tmp_path / "whole", SHORT, init_from=checkpoint)

    def stop(event: TrainEvent) -> None:
        if isinstance(event, Evaluated):
            raise Stop

    with pytest.raises(Stop):
        run(reads, tmp_path / "parts", SHORT, init_from=checkpoint, on_event=stop)
    resumed = run(reads, tmp_path / "parts", SHORT, init_from=checkpoint)
    assert resumed.was_resumed
    assert_same_run(whole, resumed)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"width": 32}, "width 16 instead of 32"),
        ({"num_layers": 3}, "num_layers 2 instead of 3"),
        ({"rope": True}, "rope False instead of True"),  # equal shapes, another meaning
    ],
)
def test_a_model_that_differs_is_refused_with_what_differs(
    reads: tuple[Reads, Reads], checkpoint: Path, tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    """Prevents a shape error from deep inside, and weights that mean something else from being trained on."""
    other = replace(SMALL, model=replace(SMALL.model, **change))  # type: ignore[arg-type]
    with pytest.raises(IncompatibleCheckpointError, match=reason):
        run(reads, tmp_path / "other", other, init_from=checkpoint)


def test_dropout_may_differ(reads: tuple[Reads, Reads], checkpoint: Path, tmp_path: Path) -> None:
    """Prevents a change of the recipe from costing the weights."""
    config = replace(SHORT, model=replace(SMALL.model, dropout=0.0))
    assert run(reads, tmp_path / "other", config, init_from=checkpoint).num_steps == 6


def test_a_checkpoint_that_is_not_there_is_said(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """Prevents a training from scratch under the name of a warm start."""
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        run(reads, tmp_path / "x", init_from=tmp_path / "absent.safetensors")
