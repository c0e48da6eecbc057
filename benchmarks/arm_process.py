"""A process of ``benchmarks.train``: pins itself to one core and trains and scores one arm, or measures speeds, or baselines.

It says how it goes in lines on its output, leaves its results as files, and ends when its parent is gone.
"""

import json
import os
import sys
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.eager_reference import measure_speeds, trained_eagerly
from range_reader_core.partition import TEST_SHARE, VAL_SHARE, hand_hashes, places_of
from range_reader_core.presets import preset
from range_reader_core.reads import Reads
from range_reader_core.train_config import TrainConfig
from range_reader_core.train_events import CompileFailed, Evaluated, Resumed, Started, TrainEvent
from range_reader_core.validation import choose_reads
from range_reader_pipeline.arms import BASELINES, Scoring, arm_folder, run_arm, score_baselines, with_last
from range_reader_pipeline.shards import load_split
from range_reader_pipeline.storage import write_json

SPEED_NAME = "speed.json"
SPEED_READS = 50_000
HELD_OUT = "held-out"
REFERENCE = "reference_cpu"
EAGER = "reference_eager"  # the same recipe, padded and eager, without our engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a process is for; travels as JSON."""

    kind: str  # "arm" | "baselines" | "speed"
    root: str  # folder of the results
    data: str  # folder of a data version
    core: int
    preset: str = ""
    seed: int = 0
    minutes: float = 0.0
    scored_reads: int = 0
    averaged_reads: int = 0  # 0: no suit-averaged scores
    held_out: float = 0.0  # share of all hands that is taken from the training ones and graded
    held_out_reads: int = 0
    speed_rounds: int = 0
    speed_round_s: float = 0.0

    @property
    def label(self) -> str:
        """Return how lines of this process begin."""
        return f"{self.preset} seed {self.seed}" if self.kind == "arm" else self.kind

    def config(self) -> TrainConfig:
        """Return the configuration of the arm."""
        name = REFERENCE if self.preset == EAGER else self.preset
        return replace(preset(name), budget_seconds=60.0 * self.minutes, max_steps=None, seed=self.seed)

    def folder(self) -> Path:
        """Return the arm's folder."""
        return arm_folder(Path(self.root), self.preset, self.config(), self.data_version)

    @property
    def data_version(self) -> str:
        """Return what is trained on: the version of the data, and what was held out of it."""
        name = Path(self.data).name
        return f"{name}-less-{self.held_out:g}" if self.held_out else name

    def scorings(self) -> list[Scoring]:
        """Return what is scored; the names carry the numbers, so another number is another scoring."""
        scorings = [
            Scoring(name=f"{split}_{self.scored_reads}", split=split, max_reads=self.scored_reads, num_relabelings=1)
            for split in ("val", "test")
        ]
        if self.held_out:
            name = f"{HELD_OUT}_{self.held_out_reads}"
            scorings.append(Scoring(name=name, split=HELD_OUT, max_reads=self.held_out_reads, num_relabelings=1))
        if self.averaged_reads:
            name = f"test_{self.averaged_reads}_averaged"
            scorings.append(Scoring(name=name, split="test", max_reads=self.averaged_reads, num_relabelings=24))
        return scorings


def main() -> None:
    """Do the task given as JSON in the first argument."""
    task = Task(**json.loads(sys.argv[1]))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {task.core})
    torch.set_num_threads(1)
    parent = os.getppid()

    def say(text: str) -> None:
        print(f"  {time.strftime('%H:%M:%S')}  {task.label}, core {task.core}: {text}", flush=True)

    def listen(event: TrainEvent) -> None:
        if os.getppid() != parent:
            sys.exit("the benchmark is gone; the arm's state is saved")
        match event:
            case Started():
                say(f"{event.num_parameters:,} parameters, compiled {event.is_compiled}, set up in {event.setup_s:.0f} s")
            case Resumed() | CompileFailed():
                say(str(event))
            case Evaluated():
                minutes = event.elapsed_s / 60.0
                say(f"{minutes:.1f} min, step {event.step:,}, val {event.val_loss_nats:.4f} nats, mrr {event.val_mrr:.4f}")

    folder, root = Path(task.data), Path(task.root)
    if task.kind == "speed":
        few = load_split(folder, "train", SPEED_READS)
        write_json(root / SPEED_NAME, measure_speeds(few, num_rounds=task.speed_rounds, round_s=task.speed_round_s, say=say))
        return
    reads = {split: load_split(folder, split) for split in ("train", "val", "test")}
    if task.held_out:
        reads["train"], held_out = hold_out(reads["train"], task.held_out)
        reads[HELD_OUT] = choose_reads(held_out, held_out.num_reads)
    if task.kind == BASELINES:
        score_baselines(root / BASELINES, reads, task.scorings(), has_trackers=True, device="cpu")
        return
    config = replace(task.config(), report_every_s=5.0)
    with trained_eagerly() if task.preset == EAGER else nullcontext():
        record = run_arm(
            task.folder(),
            task.preset,
            config,
            reads,
            with_last(task.scorings()),
            data_version=task.data_version,
            device="cpu",
            on_event=listen,
            log=say,
        )
    say(f"done: {record.num_steps:,} steps, {record.reads_per_s:,.0f} reads/s, peak {record.peak_bytes / 1e9:.2f} GB")


def hold_out(reads: Reads, share: float) -> tuple[Reads, Reads]:
    """Return training reads without a share of all hands, and the reads of these hands, which their hashes choose."""
    place = places_of(hand_hashes(reads.hand_ids))[reads.hand_index]
    is_held_out = place < VAL_SHARE + TEST_SHARE + share
    return reads.take(np.flatnonzero(~is_held_out)), reads.take(np.flatnonzero(is_held_out))


def as_argument(task: Task) -> str:
    """Return a task as the argument of its process."""
    return json.dumps(asdict(task))


if __name__ == "__main__":
    main()
