"""Short trainings of a small model, and what two of them are compared by."""

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import torch

from range_reader_core.checkpoint import load_checkpoint
from range_reader_core.model import ModelConfig
from range_reader_core.peers import Peers
from range_reader_core.presets import tiny
from range_reader_core.reads import Reads
from range_reader_core.train_config import TrainConfig
from range_reader_core.train_events import TrainEvent
from range_reader_core.training import TrainResult, train

CPU = torch.device("cpu")
SMALL = replace(
    tiny(),
    model=ModelConfig(num_layers=2, width=16, num_heads=2, dropout=0.1, head="composed"),
    batch_size=8,
    max_steps=8,
    num_evaluations=4,
    eval_reads=12,
    precision="float32",  # the same on every machine
    has_random_relabeling=True,
)


class Ticks:
    """A clock that moves by a fixed time at each look."""

    def __init__(self, tick_s: float) -> None:
        """Start at zero; the tick is in seconds."""
        self.now, self.tick_s = 0.0, tick_s

    def __call__(self) -> float:
        """Return the time."""
        self.now += self.tick_s
        return self.now


class Stop(BaseException):
    """Stands for Ctrl-C and for Dagster's interrupt."""


def run(
    reads: tuple[Reads, Reads],
    folder: Path,
    config: TrainConfig = SMALL,
    *,
    on_event: Callable[[TrainEvent], None] = lambda _: None,
    identity: str = "run-1",
    clock: Callable[[], float] = time.monotonic,
    init_from: Path | None = None,
    peers: Peers | None = None,
) -> TrainResult:
    """Return what came of a training on the CPU."""
    return train(
        config, *reads, folder, device=CPU, identity=identity, on_event=on_event, clock=clock, init_from=init_from, peers=peers
    )


def timeless(result: TrainResult) -> list[dict[str, object]]:
    """Return the history without its times."""
    return [{**asdict(event), "elapsed_s": None} for event in result.history]


def weights(checkpoint: Path) -> dict[str, torch.Tensor]:
    """Return the weights of a checkpoint, or of the best one of a run's folder."""
    return load_checkpoint(checkpoint, CPU)[0].state_dict()


def assert_same_run(first: TrainResult, second: TrainResult) -> None:
    """Both runs have the same history and the same best weights, bit for bit."""
    assert timeless(first) == timeless(second)
    ours, theirs = weights(first.checkpoint), weights(second.checkpoint)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert first.num_reads_seen == second.num_reads_seen
