"""Checkpoints: weights as safetensors, everything else as JSON, never a pickle.

The sidecar lies twice: inside the weight file's header, which is what loading believes, and beside it as ``<name>.json`` for
people and tools. One rename puts both weights and header in place, so a kill at any moment leaves a consistent checkpoint.
A checkpoint of another vocabulary or format is refused: equal sizes prove nothing about the meaning of an id.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Final

import safetensors
import safetensors.torch
import torch

from range_reader_core.model import ModelConfig, RangeReaderModel
from range_reader_core.tokens import VOCABULARY_HASH
from range_reader_core.train_events import Evaluated

FORMAT_VERSION: Final = 1
BEST_NAME: Final = "best.safetensors"
_SIDECAR_KEY: Final = "sidecar"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSidecar:
    """Where weights come from and what they scored."""

    model: ModelConfig
    step: int = 0  # optimizer steps behind the weights
    metrics: Mapping[str, float] = field(default_factory=dict)  # val means that chose them, by name in metrics.METRICS
    validation: Evaluated | None = None  # the same validation as an event of its run
    temperature: float = 1.0  # log-probabilities are divided by it; above 1 is less certain, ranks stay
    identity: str = ""  # hash of configuration and data of the run
    data_manifest_hash: str = ""  # of the shards trained on
    git_commit: str = ""  # of the code that trained, as the caller knows it
    train_config: Mapping[str, object] = field(default_factory=dict)  # plain JSON, for the record
    vocabulary_hash: str = VOCABULARY_HASH
    format_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        """Check the temperature."""
        if not 0.0 < self.temperature < float("inf"):
            msg = f"checkpoint: expected a positive, finite temperature, got {self.temperature}"
            raise ValueError(msg)

    def scored(self, validation: Evaluated, metrics: Mapping[str, float]) -> "CheckpointSidecar":
        """Return the sidecar of weights with this validation."""
        return replace(self, step=validation.step, validation=validation, metrics=dict(metrics))

    def to_json(self) -> str:
        """Return the sidecar as JSON text."""
        return json.dumps(asdict(self), indent=1, sort_keys=True)


def sidecar_path(path: Path) -> Path:
    """Return where the readable copy of a weight file's sidecar lies."""
    return path.with_suffix(".json")


def save_checkpoint(path: Path, model: RangeReaderModel, sidecar: CheckpointSidecar) -> None:
    """Write weights and sidecar to ``path`` (``.safetensors``) and its JSON copy beside it, each aside and then renamed.

    Raises:
        OSError: the disk is full or the folder cannot be written.
        ValueError: the sidecar describes another model.
    """
    if sidecar.model != model.config:
        msg = f"checkpoint: the sidecar describes {sidecar.model}, the model is {model.config}"
        raise ValueError(msg)
    text = sidecar.to_json()
    write_tensors(path, model.state_dict(), {_SIDECAR_KEY: text})
    write_text(sidecar_path(path), text + "\n")


def load_checkpoint(folder_or_file: Path, device: torch.device) -> tuple[RangeReaderModel, CheckpointSidecar]:
    """Return the model, in evaluation mode on ``device``, and its sidecar.

    Args:
        folder_or_file: a ``.safetensors`` file, or a folder that holds ``best.safetensors``.
        device: where the weights go.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: the file is damaged, or of another vocabulary or format.
    """
    path = checkpoint_file(folder_or_file)
    sidecar = read_sidecar(path)
    tensors, _ = read_tensors(path)
    model = RangeReaderModel(sidecar.model)
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    seen = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if expected != seen:
        differing = sorted({*expected.items()} ^ {*seen.items()})[:4]
        msg = f"{path}: the weights do not fit the model that the file describes, first differences {differing}; train again"
        raise ValueError(msg)
    model.load_state_dict(tensors)
    return model.to(device).eval(), sidecar


def read_sidecar(folder_or_file: Path) -> CheckpointSidecar:
    """Return what the weight file's header says of it; arguments and errors as ``load_checkpoint``."""
    path = checkpoint_file(folder_or_file)
    text = _header(path).get(_SIDECAR_KEY)
    if text is None:
        msg = f"{path} is not a range-reader checkpoint: its header holds no sidecar"
        raise ValueError(msg)
    record = json.loads(text)
    version, vocabulary = record.get("format_version"), record.get("vocabulary_hash")
    if version != FORMAT_VERSION:
        msg = f"{path}: checkpoint format {version}, this code reads {FORMAT_VERSION}; train again, or use the code that wrote it"
        raise ValueError(msg)
    if vocabulary != VOCABULARY_HASH:
        msg = (
            f"{path}: trained with vocabulary {vocabulary}, this code uses {VOCABULARY_HASH}, so its ids mean something else; "
            "encode the hands again and train again, or use the code that wrote it"
        )
        raise ValueError(msg)
    unknown = set(record) - {f.name for f in fields(CheckpointSidecar)} | set(record["model"]) - {
        f.name for f in fields(ModelConfig)
    }
    if unknown:
        msg = f"{path}: the sidecar holds fields that this code does not know: {sorted(unknown)}; use the code that wrote it"
        raise ValueError(msg)
    validation = record["validation"]
    return CheckpointSidecar(
        **{
            **record,
            "model": ModelConfig(**record["model"]),
            "validation": None if validation is None else Evaluated(**validation),
        }
    )


def checkpoint_file(folder_or_file: Path) -> Path:
    """Return the weight file that a path names.

    Raises:
        FileNotFoundError: there is none.
    """
    path = folder_or_file / BEST_NAME if folder_or_file.is_dir() else folder_or_file
    if not path.is_file():
        msg = f"no checkpoint at {path}; train one first, or point at a folder that holds {BEST_NAME}"
        raise FileNotFoundError(msg)
    return path


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor], header: Mapping[str, str]) -> None:
    """Write tensors of any shape and device, by name, and header strings as one safetensors file, aside and then renamed.

    Raises:
        OSError: the disk is full or the folder cannot be written.
    """
    aside = path.with_name(path.name + ".tmp")
    on_host = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        aside.touch()
        mode = aside.stat().st_mode  # safetensors writes for the owner alone; the user's umask decides here
        safetensors.torch.save_file(on_host, aside, metadata=dict(header))
        aside.chmod(mode)
    except safetensors.SafetensorError as error:
        aside.unlink(missing_ok=True)
        msg = f"could not write {path} ({error}); check free space and permissions"
        raise OSError(msg) from error
    aside.replace(path)


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Return the tensors, on the host, and the header strings of what ``write_tensors`` wrote.

    Raises:
        ValueError: the file is damaged or no safetensors file.
    """
    header = _header(path)
    return safetensors.torch.load_file(path), header


def write_text(path: Path, text: str) -> None:
    """Write text aside as UTF-8, then rename.

    Raises:
        OSError: the disk is full or the folder cannot be written.
    """
    aside = path.with_name(path.name + ".tmp")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def _header(path: Path) -> dict[str, str]:
    try:
        with safetensors.safe_open(path, framework="pt") as stored:
            return dict(stored.metadata() or {})
    except safetensors.SafetensorError as error:
        msg = (
            f"{path} is damaged or no safetensors file ({error}); point at a checkpoint's folder or its {BEST_NAME}; if this is "
            "one, copy it again or train again"
        )
        raise ValueError(msg) from error
