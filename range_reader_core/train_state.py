"""All that resuming needs in one file ``last/state.safetensors``: weights, their average, Adam's moments, where the run stands.

One file and one rename, so a kill at any moment leaves either the state before or the state after. No random state is kept:
every step draws from generators seeded by (seed, step) alone.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import torch

from range_reader_core.checkpoint import read_tensors, write_tensors
from range_reader_core.learner import StepLoss
from range_reader_core.model import RangeReaderModel
from range_reader_core.train_events import Evaluated

STATE_NAME: Final = "last/state.safetensors"
_KEY: Final = "standing"
_MOMENTS: Final = ("step", "exp_avg", "exp_avg_sq")


@dataclass(slots=True, kw_only=True)
class Standing:
    """Where a run stands. Mutable: the loop advances it."""

    identity: str
    step: int = 0  # optimizer steps taken
    num_reads_seen: int = 0  # in those steps, repeats counted
    elapsed_s: float = 0.0  # of the budget, over all resumptions
    setup_s: float = 0.0  # of that, spent before first steps
    num_evaluations: int = 0  # due ones that are done
    evaluation_s: float = 0.0  # what the last validation took
    interval_nats: float = 0.0  # training loss summed since the last validation
    interval_positions: float = 0.0  # supervised positions it stands for
    is_finished: bool = False  # the budget is spent and the last validation done
    history: list[Evaluated] = field(default_factory=list)

    def count(self, loss: StepLoss) -> None:
        """Count a step that was taken."""
        self.step += 1
        self.num_reads_seen += loss.num_reads
        self.interval_nats += loss.sum_nats
        self.interval_positions += loss.num_positions

    def record(self, event: Evaluated) -> None:
        """Record a validation; the training loss starts over."""
        self.history.append(event)
        self.interval_nats = self.interval_positions = 0.0


def save_state(
    run_folder: Path, standing: Standing, model: RangeReaderModel, average: RangeReaderModel, optimizer: torch.optim.Optimizer
) -> None:
    """Write the state of a run, replacing the one before.

    Raises:
        OSError: the disk is full or the folder cannot be written.
    """
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"average.{name}": tensor for name, tensor in average.state_dict().items()}
    for name, parameter in model.named_parameters():
        state = optimizer.state.get(parameter, {})
        tensors |= {f"{moment}.{name}": state[moment] for moment in _MOMENTS if moment in state}
    path = run_folder / STATE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tensors(path, tensors, {_KEY: json.dumps(asdict(standing))})


def load_state(
    run_folder: Path, identity: str, model: RangeReaderModel, average: RangeReaderModel, optimizer: torch.optim.Optimizer
) -> Standing | None:
    """Load what ``save_state`` wrote into model, average and optimizer; None where nothing was saved yet.

    Raises:
        ValueError: the folder belongs to another run, or the file is damaged.
    """
    path = run_folder / STATE_NAME
    if not path.exists():
        return None
    tensors, header = read_tensors(path)
    record = json.loads(header[_KEY])
    if record["identity"] != identity:
        msg = f"{run_folder} holds run {record['identity']}, asked to train {identity}; choose another folder or delete this one"
        raise ValueError(msg)
    model.load_state_dict(_part(tensors, "model."))
    average.load_state_dict(_part(tensors, "average."))
    for name, parameter in model.named_parameters():
        moments = {moment: tensors[f"{moment}.{name}"] for moment in _MOMENTS if f"{moment}.{name}" in tensors}
        if moments:
            optimizer.state[parameter] = {moment: tensor.to(parameter.device) for moment, tensor in moments.items()}
    return Standing(**{**record, "history": [Evaluated(**entry) for entry in record["history"]]})


def _part(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
