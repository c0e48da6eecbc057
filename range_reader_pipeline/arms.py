"""One arm of a comparison: a configuration trained on given reads and scored on others, kept as files so that nothing runs twice.

An arm's folder is named by everything that decides its outcome: configuration with seed, data version, source of the core. A
killed arm goes on where its training was saved; a finished one is read back. Scores are kept per read, so that arms are
compared later on the same hands (``comparison``). Nothing here keeps or replaces the checkpoint of a home.
"""

import hashlib
import json
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import range_reader_core
from range_reader_pipeline.storage import read_json, write_json

if TYPE_CHECKING:
    import torch

    from range_reader_core.evaluation import Reader, ReadScores
    from range_reader_core.reads import Reads
    from range_reader_core.train_config import TrainConfig
    from range_reader_core.train_events import TrainEvent

RECORD_NAME: Final = "arm.json"
BASELINES: Final = "baselines"
_NOT_DECIDING: Final = ("report_every_s", "save_every_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """What an arm is scored on."""

    name: str  # unique among the scorings of an arm
    split: str  # "val" | "test"
    max_reads: int  # the first so many of the split, a uniform sample
    num_relabelings: int  # 1: a single forward; 24: suit-averaged
    weights: str = "kept"  # "kept": of the validation that was chosen; "last": the average at the end of training


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRecord:
    """What is remembered of a finished arm beside its scores."""

    name: str
    seed: int
    data_version: str
    num_train_reads: int
    num_parameters: int
    num_steps: int
    num_reads_seen: int
    best_step: int
    best_val_mrr: float  # of the validation that chose the weights
    seconds: float  # of the budget, over all resumptions
    setup_s: float  # of that, before first steps, compilation included
    is_compiled: bool
    precision: str
    peak_bytes: int  # resident memory at the end of training, its peak over the whole process

    @property
    def reads_per_s(self) -> float:
        """Reads trained on by the second of the budget, set-up and validations included."""
        return self.num_reads_seen / self.seconds


def core_version() -> str:
    """Return a hash of the core's source: other code may train to something else."""
    digest = hashlib.sha256()
    for path in sorted(Path(range_reader_core.__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def arm_folder(root: Path, name: str, config: "TrainConfig", data_version: str) -> Path:
    """Return the folder of an arm under the folder of a comparison."""
    deciding = {field: value for field, value in asdict(config).items() if field not in _NOT_DECIDING}
    text = json.dumps({"config": deciding, "data": data_version, "code": core_version()}, sort_keys=True, default=str)
    return root / f"{name}-{config.seed}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def finished_arm(folder: Path, scorings: Sequence[Scoring]) -> ArmRecord | None:
    """Return the record of an arm that is trained and scored so, None where it is not."""
    record = read_json(folder / RECORD_NAME)
    return None if record is None or not is_scored(folder, scorings) else ArmRecord(**record)


def with_last(scorings: Sequence[Scoring]) -> list[Scoring]:
    """Return the scorings of the kept weights, and the same of the last ones, whichever validation was kept."""
    return [*scorings, *(replace(scoring, name=f"{scoring.name}_last", weights="last") for scoring in scorings)]


def is_scored(folder: Path, scorings: Sequence[Scoring]) -> bool:
    """Return whether every scoring's file is there."""
    return all(_scores_file(folder, scoring.name).exists() for scoring in scorings)


def run_arm(
    folder: Path,
    name: str,
    config: "TrainConfig",
    reads: Mapping[str, "Reads"],
    scorings: Sequence[Scoring],
    *,
    data_version: str,
    device: str,
    on_event: Callable[["TrainEvent"], None],
    log: Callable[[str], None],
) -> ArmRecord:
    """Train and score an arm, or go on with it, or find it finished.

    Args:
        folder: the arm's, from ``arm_folder``.
        name: of the arm.
        config: how it is trained, seed included.
        reads: by split; "train", "val" and those that are scored.
        scorings: what to score the kept weights on.
        data_version: of the shards the reads come from.
        device: "auto", "cpu" or "cuda".
        on_event: receives the events of training.
        log: receives lines while scoring.

    Raises:
        ValueError: nothing to train or validate on, or no supervised position to score.
        FloatingPointError: loss or gradient was not finite.
        OSError: the folder cannot be written.
    """
    from range_reader_core.checkpoint import load_checkpoint
    from range_reader_core.inference import ModelReader, choose_device
    from range_reader_core.train_events import Started
    from range_reader_core.training import train

    if (found := finished_arm(folder, scorings)) is not None:
        return found
    num_parameters, setup_s = 0, 0.0

    def listen(event: "TrainEvent") -> None:
        nonlocal num_parameters, setup_s
        if isinstance(event, Started):
            num_parameters, setup_s = event.num_parameters, setup_s + event.setup_s
        on_event(event)

    on = choose_device(device)
    result = train(config, reads["train"], reads["val"], folder, device=on, identity=folder.name, on_event=listen)
    peak_bytes = peak_memory_bytes()
    for scoring in scorings:
        if is_scored(folder, [scoring]):
            continue
        model, _ = load_checkpoint(result.checkpoint, on)
        log(f"scoring {scoring.name} on {scoring.max_reads:,} reads at most")
        if scoring.weights == "last":
            model.load_state_dict(last_average(folder))
        score([ModelReader(model=model, num_relabelings=scoring.num_relabelings)], folder, scoring, reads, device=device)
    model, sidecar = load_checkpoint(result.checkpoint, on)
    record = ArmRecord(
        name=name,
        seed=config.seed,
        data_version=data_version,
        num_train_reads=reads["train"].num_reads,
        num_parameters=num_parameters or sum(parameter.numel() for parameter in model.parameters()),
        num_steps=result.num_steps,
        num_reads_seen=result.num_reads_seen,
        best_step=sidecar.step,
        best_val_mrr=result.best.val_mrr,
        seconds=result.seconds,
        setup_s=setup_s,
        is_compiled=result.is_compiled,
        precision=result.precision,
        peak_bytes=peak_bytes,
    )
    if (earlier := read_json(folder / RECORD_NAME)) is not None:
        return ArmRecord(**earlier)  # only scores were added
    write_json(folder / RECORD_NAME, asdict(record))
    return record


def score_baselines(
    folder: Path, reads: Mapping[str, "Reads"], scorings: Sequence[Scoring], *, has_trackers: bool, device: str
) -> tuple[str, ...]:
    """Score the readers without a network on what arms are scored on, once; returns their names, the static range first."""
    found = read_json(folder / RECORD_NAME)
    if isinstance(found, dict) and found["has_trackers"] >= has_trackers and is_scored(folder, scorings):
        return tuple(found["readers"])
    from range_reader_core.baselines import LiveUniformReader, StaticRangeReader
    from range_reader_core.tracker_baselines import fit_trackers

    readers: list[Reader] = [StaticRangeReader.fit(reads["train"]), LiveUniformReader()]
    if has_trackers:
        readers += fit_trackers(reads["train"], reads["val"])
    folder.mkdir(parents=True, exist_ok=True)
    for scoring in scorings:
        score(readers, folder, scoring, reads, device=device)
    names = [reader.name for reader in readers]
    write_json(folder / RECORD_NAME, {"readers": names, "has_trackers": has_trackers})
    return tuple(names)


def score(readers: Sequence["Reader"], folder: Path, scoring: Scoring, reads: Mapping[str, "Reads"], *, device: str) -> None:
    """Score readers and keep the sums of every read."""
    from range_reader_core.evaluation import evaluate
    from range_reader_core.inference import choose_device

    split = reads[scoring.split]
    few = split.take(np.arange(min(scoring.max_reads, split.num_reads)))
    scores = evaluate(readers, few, device=choose_device(device))
    arrays: dict[str, Any] = {f"sums {one.reader}": one.metric_sums for one in scores}
    first = scores[0]
    arrays |= {"num_positions": first.num_positions, "stratum": first.stratum, "hand_index": first.hand_index}
    aside = folder / f".{scoring.name}.npz.tmp"
    with aside.open("wb") as stream:
        np.savez(stream, **arrays)
    aside.replace(_scores_file(folder, scoring.name))


def load_scores(folder: Path, scoring_name: str) -> dict[str, "ReadScores"]:
    """Return what ``score`` kept, by reader."""
    from range_reader_core.evaluation import ReadScores

    with np.load(_scores_file(folder, scoring_name), allow_pickle=False) as stored:
        shared = {name: stored[name] for name in ("num_positions", "stratum", "hand_index")}
        names = [key.removeprefix("sums ") for key in stored.files if key.startswith("sums ")]
        return {name: ReadScores(reader=name, metric_sums=stored[f"sums {name}"], **shared) for name in names}


def last_average(folder: Path) -> "dict[str, torch.Tensor]":
    """Return the weight average at the end of a training, by name."""
    from range_reader_core.checkpoint import read_tensors
    from range_reader_core.train_state import STATE_NAME

    tensors, _ = read_tensors(folder / STATE_NAME)
    return {name.removeprefix("average."): tensor for name, tensor in tensors.items() if name.startswith("average.")}


def peak_memory_bytes() -> int:
    """Return the peak of this process's resident memory."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _scores_file(folder: Path, scoring_name: str) -> Path:
    return folder / f"{scoring_name}.npz"
