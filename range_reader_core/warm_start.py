"""Weights of an earlier checkpoint as the start of a new training, refused where they would mean something else.

What decides is the configuration of the model, not the shapes alone: two readers of equal shapes may name suits or positions
differently. Dropout may differ, because it is no part of what the weights mean.
"""

from dataclasses import fields
from pathlib import Path
from typing import Final

import torch

from range_reader_core.checkpoint import load_checkpoint, read_sidecar
from range_reader_core.model import ModelConfig

_MAY_DIFFER: Final = frozenset({"dropout"})


class IncompatibleCheckpointError(ValueError):
    """A checkpoint's weights do not fit the model that is to be trained."""


def check_fits(checkpoint: Path, model: ModelConfig) -> None:
    """Check that a model can start from a checkpoint.

    Raises:
        IncompatibleCheckpointError: it cannot; says in which fields the two models differ.
        FileNotFoundError: there is no checkpoint.
        ValueError: the file is damaged, or of another vocabulary or format.
    """
    stored = read_sidecar(checkpoint).model
    differing = [
        f"{field.name} {getattr(stored, field.name)!r} instead of {getattr(model, field.name)!r}"
        for field in fields(ModelConfig)
        if field.name not in _MAY_DIFFER and getattr(stored, field.name) != getattr(model, field.name)
    ]
    if differing:
        msg = f"{checkpoint} holds another model than the one to train: {', '.join(differing)}"
        raise IncompatibleCheckpointError(msg)


def starting_weights(checkpoint: Path, model: ModelConfig) -> dict[str, torch.Tensor]:
    """Return the weights of a checkpoint that fits, on the host, by name and in the shapes of the model.

    Raises:
        IncompatibleCheckpointError: it does not fit; says in which fields the two models differ.
        FileNotFoundError: there is no checkpoint.
        ValueError: the file is damaged, or of another vocabulary or format.
    """
    check_fits(checkpoint, model)
    return load_checkpoint(checkpoint, torch.device("cpu"))[0].state_dict()
