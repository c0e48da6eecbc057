"""Claims about trainings that begin with the weights of an earlier one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from range_reader_core.checkpoint import load_checkpoint
from range_reader_core.encoder import HandEncoder
from range_reader_core.learner import Learner
from range_reader_core.model import ModelConfig
from range_reader_core.presets import tiny
from range_reader_core.reads import Reads
from range_reader_core.train_config import TrainConfig
from range_reader_core.train_events import Evaluated, TrainEvent
from range_reader_core.training import TrainResult, train
from range_reader_core.warm_start import IncompatibleCheckpointError, starting_weights
from tests.core.hands import random_hands

CPU = torch.device("cpu")
SMALL = replace(
    tiny(),
    model=ModelConfig(num_layers=2, width=16, num_heads=2, dropout=0.1, head="composed"),
    batch_size=8,
    max_steps=6,
    num_evaluations=3,
    eval_reads=12,
)


@pytest.fixture(scope="module")
def reads() -> tuple[Reads, Reads]:
    """Return train and val reads of different hands."""
    encoder = HandEncoder()
    return encoder.encode_hands(random_hands(1, 40))[0], encoder.encode_hands(random_hands(2, 10))[0]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Sums of matrix products depend on how many threads share them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def checkpoint(reads: tuple[Reads, Reads], tmp_path: Path) -> Path:
    """Return the checkpoint of a short training."""
    return _train(reads, tmp_path / "first").checkpoint


def _train(
    reads: tuple[Reads, Reads], folder: Path, config: TrainConfig = SMALL, init_from: Path | None = None, **kwargs: object
) -> TrainResult:
    return train(config, *reads, folder, device=CPU, identity="x", init_from=init_from, **kwargs)  # type: ignore[arg-type]


def test_a_run_begins_with_the_weights_it_is_given(reads: tuple[Reads, Reads], checkpoint: Path, tmp_path: Path) -> None:
    """Prevents a warm start that starts cold: model and average must both begin there, and the first losses be those of the end."""
    weights = load_checkpoint(checkpoint, CPU)[0].state_dict()
    learner = Learner(SMALL, reads[0], CPU)
    learner.start_from(starting_weights(checkpoint, SMALL.model))
    for model in (learner.model, learner.average):
        assert all(torch.equal(weights[name], tensor) for name, tensor in model.state_dict().items())
    frozen = replace(SMALL, learning_rate=1e-12, weight_decay=0.0, max_steps=1, num_evaluations=1)
    warm = _train(reads, tmp_path / "warm", frozen, checkpoint)
    before = load_checkpoint(checkpoint, CPU)[1].validation
    assert before is not None
    assert warm.best.val_loss_nats == pytest.approx(before.val_loss_nats, rel=1e-6)


def test_a_stopped_warm_start_goes_on_instead_of_beginning_again(
    reads: tuple[Reads, Reads], checkpoint: Path, tmp_path: Path
) -> None:
    """Prevents a kill from throwing away the steps since the start."""
    whole = _train(reads, tmp_path / "whole", init_from=checkpoint)

    def stop(event: TrainEvent) -> None:
        if isinstance(event, Evaluated):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _train(reads, tmp_path / "parts", init_from=checkpoint, on_event=stop)
    resumed = _train(reads, tmp_path / "parts", init_from=checkpoint)
    assert resumed.was_resumed
    ours, theirs = (load_checkpoint(run.checkpoint, CPU)[0].state_dict() for run in (whole, resumed))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert [event.val_loss_nats for event in whole.history] == [event.val_loss_nats for event in resumed.history]


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
        _train(reads, tmp_path / "other", other, checkpoint)


def test_dropout_may_differ(reads: tuple[Reads, Reads], checkpoint: Path, tmp_path: Path) -> None:
    """Prevents a change of the recipe from costing the weights."""
    config = replace(SMALL, model=replace(SMALL.model, dropout=0.0))
    assert _train(reads, tmp_path / "other", config, checkpoint).num_steps == 6


def test_a_checkpoint_that_is_not_there_is_said(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """Prevents a training from scratch under the name of a warm start."""
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        _train(reads, tmp_path / "x", init_from=tmp_path / "absent.safetensors")
