"""Checkpoints come back as they were written, and nothing else comes back at all."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch

from range_reader_core import checkpoint
from range_reader_core.checkpoint import BEST_NAME, CheckpointSidecar, load_checkpoint, read_sidecar, save_checkpoint
from range_reader_core.model import ModelConfig, RangeReaderModel
from range_reader_core.train_events import Evaluated

CPU = torch.device("cpu")
CONFIG = ModelConfig(num_layers=1, width=8, num_heads=2, head="composed")
VALIDATION = Evaluated(
    step=12,
    elapsed_s=3.5,
    train_loss_nats=6.9,
    val_loss_nats=6.8,
    val_mrr=0.016,
    val_mrr_error=0.001,
    val_mean_rank=330.0,
    num_positions=900,
    is_best=True,
)
SIDECAR = CheckpointSidecar(
    temperature=1.25,
    model=CONFIG,
    step=12,
    metrics={"mrr": 0.016},
    validation=VALIDATION,
    identity="run-1",
    data_manifest_hash="abc",
    git_commit="0123",
    train_config={"seed": 3},
)


def stirred() -> RangeReaderModel:
    model = RangeReaderModel(CONFIG)
    with torch.no_grad():
        for index, parameter in enumerate(model.parameters()):
            parameter.normal_(generator=torch.Generator().manual_seed(index))
    return model


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    """Weights bit by bit, and every field of the sidecar."""
    model = stirred()
    save_checkpoint(tmp_path / BEST_NAME, model, SIDECAR)
    for path in (tmp_path, tmp_path / BEST_NAME):
        loaded, sidecar = load_checkpoint(path, CPU)
        assert sidecar == SIDECAR
        assert not loaded.training
        assert all(torch.equal(a, b) for a, b in zip(loaded.parameters(), model.parameters(), strict=True))
    assert json.loads((tmp_path / "best.json").read_text()) == json.loads(SIDECAR.to_json())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.json", BEST_NAME]


def test_the_weight_file_alone_is_a_checkpoint(tmp_path: Path) -> None:
    """A kill between the two renames, or a person who copies one file, leaves no JSON or an older one."""
    save_checkpoint(tmp_path / BEST_NAME, stirred(), SIDECAR)
    (tmp_path / "best.json").write_text('{"step": 999}')
    assert load_checkpoint(tmp_path, CPU)[1].step == 12
    (tmp_path / "best.json").unlink()
    assert load_checkpoint(tmp_path, CPU)[1].step == 12


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("vocabulary_hash", "feedfeedfeedfeed", "trained with vocabulary feedfeedfeedfeed"),
        ("format_version", 99, "checkpoint format 99"),
    ],
)
def test_another_vocabulary_or_format_is_refused(tmp_path: Path, field: str, value: object, message: str) -> None:
    """Its 1596 ids would mean something else, at equal sizes."""
    save_checkpoint(tmp_path / BEST_NAME, stirred(), replace(SIDECAR, **{field: value}))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message) as caught:
        load_checkpoint(tmp_path, CPU)
    assert "train again" in str(caught.value)


def test_a_sidecar_of_another_model_is_not_written(tmp_path: Path) -> None:
    """It could never be loaded."""
    with pytest.raises(ValueError, match="the sidecar describes"):
        save_checkpoint(tmp_path / BEST_NAME, stirred(), replace(SIDECAR, model=replace(CONFIG, num_layers=2)))
    assert not list(tmp_path.iterdir())


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """Loading what fits and leaving the rest as drawn gives a reader that looks alive."""
    weights = stirred().state_dict()
    weights.pop("head.shape")
    safetensors.torch.save_file(weights, tmp_path / BEST_NAME, metadata={"sidecar": SIDECAR.to_json()})
    with pytest.raises(ValueError, match=r"head\.shape"):
        load_checkpoint(tmp_path, CPU)


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    """Unpickling a stranger's file runs the stranger's code."""
    with (tmp_path / BEST_NAME).open("wb") as stream:
        pickle.dump(Bomb(tmp_path / "went off"), stream)
    with pytest.raises(ValueError, match="damaged or no safetensors file"):
        load_checkpoint(tmp_path, CPU)
    assert not (tmp_path / "went off").exists()


class Bomb:
    """Leaves a file behind when unpickled."""

    def __init__(self, trace: Path) -> None:
        """Leave the trace at this path."""
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        """Return the call that unpickling makes."""
        return Path.touch, (self.trace,)


@pytest.mark.parametrize("kept", [0, 7, 2000])
def test_a_damaged_file_is_named(tmp_path: Path, kept: int) -> None:
    """A copy that was cut short must not end in a stack of library errors."""
    save_checkpoint(tmp_path / BEST_NAME, stirred(), SIDECAR)
    whole = (tmp_path / BEST_NAME).read_bytes()
    (tmp_path / BEST_NAME).write_bytes(whole[:kept])
    with pytest.raises(ValueError, match=r"best\.safetensors is damaged"):
        load_checkpoint(tmp_path, CPU)


def test_a_stranger_safetensors_file_is_no_checkpoint(tmp_path: Path) -> None:
    """It holds weights, but of what?"""
    safetensors.torch.save_file({"a": torch.zeros(2)}, tmp_path / BEST_NAME)
    with pytest.raises(ValueError, match="no sidecar"):
        read_sidecar(tmp_path)


@pytest.mark.parametrize("place", [(), ("model",)])
def test_unknown_fields_are_refused(tmp_path: Path, place: tuple[str, ...]) -> None:
    """Written by newer code, they may change what the weights mean."""
    record = json.loads(SIDECAR.to_json())
    (record[place[0]] if place else record)["tempo"] = 2.0
    safetensors.torch.save_file(stirred().state_dict(), tmp_path / BEST_NAME, metadata={"sidecar": json.dumps(record)})
    with pytest.raises(ValueError, match="tempo"):
        read_sidecar(tmp_path)


def test_a_checkpoint_from_before_a_switch_of_the_model_was_there_still_loads(tmp_path: Path) -> None:
    """Its model did without, so the weights mean what they meant."""
    save_checkpoint(tmp_path / BEST_NAME, stirred(), SIDECAR)
    record = json.loads(SIDECAR.to_json())
    for switch in ("names_suits", "reads_betting", "reads_hands", "folds_opening"):
        assert record["model"].pop(switch) is False
    safetensors.torch.save_file(stirred().state_dict(), tmp_path / BEST_NAME, metadata={"sidecar": json.dumps(record)})
    model, sidecar = load_checkpoint(tmp_path, CPU)
    assert sidecar == SIDECAR
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(model.parameters(), stirred().parameters(), strict=True))


def test_a_file_that_is_no_checkpoint_is_not_to_be_deleted(tmp_path: Path) -> None:
    """A slip of the completion key must not end with the advice to delete the README."""
    (tmp_path / "README.md").write_text("# a text")
    with pytest.raises(ValueError, match="point at a checkpoint's folder") as refused:
        read_sidecar(tmp_path / "README.md")
    assert "delete" not in str(refused.value)


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf"), float("nan")])
def test_impossible_temperatures_are_refused(temperature: float) -> None:
    """A belief divided by nothing is no belief."""
    with pytest.raises(ValueError, match="temperature"):
        replace(SIDECAR, temperature=temperature)


def test_a_missing_checkpoint_says_what_to_do(tmp_path: Path) -> None:
    """The first thing a newcomer gets wrong is the folder."""
    with pytest.raises(FileNotFoundError, match="train one first"):
        load_checkpoint(tmp_path, CPU)


def test_a_write_that_fails_keeps_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk must not cost the best checkpoint."""
    save_checkpoint(tmp_path / BEST_NAME, stirred(), SIDECAR)

    def full(*_: object, **__: object) -> None:
        msg = "I/O error: No space left on device (os error 28)"
        raise checkpoint.safetensors.SafetensorError(msg)

    monkeypatch.setattr(checkpoint.safetensors.torch, "save_file", full)
    with pytest.raises(OSError, match=r"could not write .*No space left"):
        save_checkpoint(tmp_path / BEST_NAME, stirred(), replace(SIDECAR, step=13))
    assert load_checkpoint(tmp_path, CPU)[1].step == 12
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.json", BEST_NAME]


def test_others_may_read_the_file(tmp_path: Path) -> None:
    """The library writes for the owner alone; a checkpoint follows the user's umask like any other file."""
    save_checkpoint(tmp_path / BEST_NAME, stirred(), SIDECAR)
    assert (tmp_path / BEST_NAME).stat().st_mode == (tmp_path / "best.json").stat().st_mode
