"""What each switch of a training step is worth by itself: reads a second of the eager reference recipe with that switch alone.

``python -m benchmarks.switches [--home HOME] [--rounds 5] [--seconds 2] [--batch 64] [--threads 1] [--compiled]``. The reference
recipe at ``cpu`` size is padded to 96, makes logits at all positions and attends by the library; each row turns one thing, and is
measured by turns with the untouched recipe, so that a machine that gets busier is unfair to none. Reads are those of the shards
in HOME, else of random legal hands, which are longer. No row but "no dropout", "composed head" and "bfloat16 blocks" changes what
is computed, apart from rounding; positions drawn at random are an unbiased estimate of the loss over all. Seconds are of processor
time, which other programs disturb less than the wall clock.
"""

import argparse
import os
import statistics
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch.nn import functional

from benchmarks.eager_reference import EagerReference, library_attention, on_reference_architecture, reads_per_s
from range_reader_core.batching import Batch
from range_reader_core.encoder import HandEncoder
from range_reader_core.learner import StepLoss
from range_reader_core.masks import is_live_combo_at, is_supervised
from range_reader_core.presets import cpu, reference_cpu
from range_reader_core.reads import Reads
from range_reader_core.train_config import TrainConfig
from tests.core.hands import random_hands

NUM_READS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """The reference recipe with something turned."""

    name: str
    config: TrainConfig
    is_padded: bool = True
    has_library_attention: bool = True
    logits: str = "everywhere"  # "everywhere" | "supervised": the same loss at those alone | "fused": with our loss


class Switched(EagerReference):
    """The eager reference with the switches of an arm."""

    arm: Arm

    def step(self, step: int, learning_rate: float) -> StepLoss:
        """Take a step with the arm's attention."""
        with library_attention() if self.arm.has_library_attention else nullcontext():
            return super(EagerReference, self).step(step, learning_rate)

    def _batch(self, step: int) -> Batch:
        return super()._batch(step) if self.arm.is_padded else super(EagerReference, self)._batch(step)

    def _loss(
        self, batch: Batch, alike: torch.Tensor | None, generator: torch.Generator, step: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if self.arm.logits == "fused":
            return super(EagerReference, self)._loss(batch, alike, generator, step)
        if self.arm.logits == "everywhere":
            return super()._loss(batch, alike, generator, step)
        supervised = is_supervised(batch.tokens)  # (B, T)
        rows, positions = supervised.nonzero(as_tuple=True)
        hidden, _ = self._hidden(batch, None, step)  # (B, T, D)
        logits = self.model.logits(hidden[rows, positions])  # (N, C)
        logits = logits.masked_fill(~is_live_combo_at(batch.tokens, rows, positions), -torch.inf)
        return functional.cross_entropy(logits, batch.targets[rows], reduction="sum"), supervised.sum()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of stepping, a round and row")
    parser.add_argument("--batch", type=int, default=64, help="reads a step, in every row")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compiled", action="store_true", help="measure compiled blocks too; compiling takes minutes")
    parser.add_argument("--only", nargs="*", default=[], metavar="TEXT", help="measure the rows whose names hold one of these")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    reads = _reads(options.home)
    load = os.getloadavg()[0]
    print(
        f"{reads.num_reads:,} reads of {reads.lengths.mean():.1f} positions, batches of {options.batch}, {options.threads} threads"
    )
    print(f"load of the machine {load:.1f}")
    base = learner_of(Arm(name="eager reference", config=replace(reference_cpu(), batch_size=options.batch)), reads)
    print(f"{'':52s}{'reads/s':>9s}{'times the reference':>21s}")
    for arm in arms(is_compiled=options.compiled):
        if options.only and not any(text in arm.name for text in options.only):
            continue
        learner = learner_of(replace(arm, config=replace(arm.config, batch_size=options.batch)), reads)
        if arm.config.is_compiled and (reason := learner.compile()) is not None:
            print(f"{arm.name:52s}{reason}")
            continue
        for warmed in (base, learner):
            warmed.step(0, 1e-4)
        rounds = [(reads_per_s(base, options.seconds), reads_per_s(learner, options.seconds)) for _ in range(options.rounds)]
        ratios = sorted(ours.processor / theirs.processor for theirs, ours in rounds)
        spread = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}..{ratios[-1]:.2f})"
        print(f"{arm.name:52s}{statistics.median(ours.processor for _, ours in rounds):9,.0f}{spread:>21s}", flush=True)


def arms(*, is_compiled: bool) -> Iterator[Arm]:
    """Yield the rows: each switch by itself, then together."""
    eager, ours = reference_cpu(), on_reference_architecture()
    num = ours.positions_per_read
    yield Arm(name="batches of like length", config=eager, is_padded=False)
    yield Arm(name="logits where supervised", config=eager, logits="supervised")
    yield Arm(name="the same, fused masked cross-entropy", config=eager, logits="fused")
    yield Arm(name=f"the same, {num} positions a read", config=replace(eager, positions_per_read=num), logits="fused")
    yield Arm(name="attention written out", config=eager, has_library_attention=False)
    if is_compiled:
        yield Arm(
            name="compiled blocks (attention written out)", config=replace(eager, is_compiled=True), has_library_attention=False
        )
    yield Arm(name="bfloat16 blocks", config=replace(eager, precision="bfloat16"))
    yield Arm(name="no dropout", config=replace(eager, model=replace(eager.model, dropout=0.0)))
    yield Arm(name="composed head", config=replace(eager, model=replace(eager.model, head="composed")))
    together = replace(ours, is_compiled=False)
    all_on = {"is_padded": False, "has_library_attention": False, "logits": "fused"}
    yield Arm(name="together, not compiled, reference architecture", config=together, **all_on)
    if is_compiled:
        yield Arm(name="together, reference architecture", config=replace(ours, is_compiled=True), **all_on)
    yield Arm(name="cpu preset, not compiled", config=replace(cpu(), is_compiled=False), **all_on)
    if is_compiled:
        yield Arm(name="cpu preset", config=replace(cpu(), is_compiled=True), **all_on)


def learner_of(arm: Arm, reads: Reads) -> Switched:
    """Return a learner with the arm's switches."""
    learner = Switched(arm.config, reads, torch.device("cpu"))
    learner.arm = arm
    return learner


def _reads(home: Path | None) -> Reads:
    if home is None:
        return HandEncoder().encode_hands(random_hands(1, 2000, 6))[0]
    from range_reader_pipeline.shards import load_split

    return load_split(home / "data", "train", NUM_READS)


if __name__ == "__main__":
    main()
