"""What a training step costs: reads a second of the reference recipe, and of each switch that makes it faster, one after the other.

``python -m benchmarks.switches [--preset cpu] [--reads FILE.npz] [--seconds 10] [--threads 1] [--device cpu] [--compiled]``.
Without a file of ``save_reads`` the reads are those of random legal hands, which are longer than real ones. Speeds are given by
the wall clock and by the process's own processor time, which other programs disturb less. No switch changes the objective: fewer
positions are an unbiased estimate of it, and all else is the same arithmetic.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from range_reader_core.batching import Batch
from range_reader_core.encoder import HandEncoder
from range_reader_core.learner import Learner
from range_reader_core.presets import preset, reference
from range_reader_core.reads import load_reads
from range_reader_core.train_config import TrainConfig
from tests.core.hands import random_hands


class PaddedLearner(Learner):
    """Batches as the reference makes them: in random order, as wide as the longest stream there can be."""

    def _batch(self, step: int) -> Batch:
        num_reads, size = self.reads.num_reads, self.config.batch_size
        start = step * size % max(num_reads - size, 1)
        order = np.random.default_rng(0).permutation(num_reads)
        return self.reads.batch(order[start : start + size], width_multiple=self.config.model.max_positions)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="cpu")
    parser.add_argument("--reads", type=Path)
    parser.add_argument("--seconds", type=float, default=10.0, help="of stepping, for each line")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compiled", action="store_true", help="measure compiled blocks too; compiling takes a minute")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    reads = load_reads(options.reads) if options.reads else HandEncoder().encode_hands(random_hands(1, 2000, 6))[0]
    print(f"{reads.num_reads:,} reads of {reads.lengths.mean():.1f} positions, {options.device}, {options.threads} thread(s)")
    print(f"{'':44s}reads/s   reads per processor second   ms a step")
    device = torch.device(options.device)
    for name, kind, config in arms(preset(options.preset), is_compiled=options.compiled):
        learner = kind(config, reads, device)
        if config.is_compiled and (reason := learner.compile()) is not None:
            print(f"{name:44s}{reason}")
            continue
        wall, processor, step_ms = speed(learner, options.seconds)
        print(f"{name:44s}{wall:7,.0f}   {processor:26,.0f}   {step_ms:9.1f}")


def arms(config: TrainConfig, *, is_compiled: bool) -> Iterator[tuple[str, type[Learner], TrainConfig]]:
    """Yield name, learner and configuration of what is measured; each adds one switch to the one before."""
    flat = replace(config.model, head="flat", dropout=reference().model.dropout)
    arm = replace(config, model=flat, positions_per_read=None, is_compiled=False)
    yield "reference recipe, padded to the longest", PaddedLearner, arm
    yield "+ batches of like length", Learner, arm
    arm = replace(arm, positions_per_read=config.positions_per_read)
    yield f"+ {config.positions_per_read} positions a read", Learner, arm
    arm = replace(arm, model=replace(arm.model, dropout=config.model.dropout))
    yield f"+ dropout {config.model.dropout}", Learner, arm
    arm = replace(arm, model=config.model)
    yield f"+ {config.model.head} head", Learner, arm
    if is_compiled:
        yield "+ compiled blocks", Learner, replace(arm, is_compiled=True)


def speed(learner: Learner, seconds: float) -> tuple[float, float, float]:
    """Return reads by the second of wall clock and of processor time, and milliseconds a step."""
    for step in range(2):
        learner.step(step, 1e-4)
    num_steps, num_reads = 0, 0
    wall, processor = time.perf_counter(), time.process_time()
    while time.perf_counter() - wall < seconds:
        num_reads += learner.step(num_steps, 1e-4).num_reads
        num_steps += 1
        if learner.device.type == "cuda":
            torch.cuda.synchronize(learner.device)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return num_reads / wall, num_reads / processor, 1000.0 * wall / num_steps


if __name__ == "__main__":
    main()
