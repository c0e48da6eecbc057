"""The reference recipe's step as one would write it first, and how many reads a second ours does on the same architecture.

Batches are padded to the longest stream there can be, attention is the library's, logits are made at all positions, the loss is
``torch.nn.functional.cross_entropy`` over those that count. Nothing is compiled. The objective is ours: same model, same
relabelings, same mask, and on equal batches the same loss (tested).
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from torch.nn import functional

from range_reader_core import blocks, training
from range_reader_core.batching import Batch
from range_reader_core.learner import Learner
from range_reader_core.masks import is_live_combo, is_supervised
from range_reader_core.presets import cpu, reference_cpu
from range_reader_core.reads import Reads
from range_reader_core.train_config import TrainConfig

IGNORED = -100


class Rate(NamedTuple):
    """Reads a second: of the wall clock, and of this process's processor time, which other programs disturb less."""

    wall: float
    processor: float


class EagerReference(Learner):
    """A learner without any of the switches."""

    def step(self, step: int, learning_rate: float):  # type: ignore[no-untyped-def]  # as Learner.step
        """Take a step as ``Learner.step`` does, with the library's attention."""
        with library_attention():
            return super().step(step, learning_rate)

    def _batch(self, step: int) -> Batch:
        num_reads, size = self.reads.num_reads, min(self.config.batch_size, self.reads.num_reads)
        chosen = np.random.default_rng([self.config.seed, step]).choice(num_reads, size, replace=False)
        self._num_reads = size
        return self.reads.batch(chosen, width_multiple=self.config.model.max_positions)

    def _loss(
        self, batch: Batch, alike: torch.Tensor | None, generator: torch.Generator, step: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        assert alike is None  # the reference names no suits
        supervised = is_supervised(batch.tokens)  # (B, T)
        hidden, _ = self._hidden(batch, None, step)  # (B, T, D)
        logits = self.model.logits(hidden.flatten(0, 1))  # (B * T, C)
        logits = logits.masked_fill(~is_live_combo(batch.tokens).flatten(0, 1), -torch.inf)
        targets = torch.where(supervised, batch.targets.unsqueeze(1), IGNORED).flatten()  # (B * T,)
        return functional.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="sum"), supervised.sum()


@contextmanager
def library_attention() -> Iterator[None]:
    """Let blocks attend by ``scaled_dot_product_attention`` in training too."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_visible_key: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    with patch.object(blocks, "attend", attend):
        yield


@contextmanager
def trained_eagerly() -> Iterator[None]:
    """Let trainings take their steps as one would write them first."""
    with patch.object(training, "Learner", EagerReference):
        yield


def on_reference_architecture() -> TrainConfig:
    """Return the reference recipe at ``cpu`` size with the default's switches that leave architecture and objective alone."""
    ours = cpu()
    return replace(reference_cpu(), positions_per_read=ours.positions_per_read, is_compiled=ours.is_compiled)


def measure_speeds(
    reads: Reads, *, num_rounds: int, round_s: float, say: Callable[[str], None] = lambda _: None
) -> dict[str, float | int | bool]:
    """Return reads a second of both by turns: medians, and the median, least and greatest ratio of a round."""
    device = torch.device("cpu")
    slow = EagerReference(reference_cpu(), reads, device)
    fast = Learner(on_reference_architecture(), reads, device)
    begin = time.perf_counter()
    is_compiled = fast.config.is_compiled and fast.compile() is None
    setup_s = time.perf_counter() - begin
    say(f"compiled in {setup_s:.0f} s" if is_compiled else "not compiled")
    for learner in (slow, fast):
        learner.step(0, 1e-4)
    rounds: list[tuple[Rate, Rate]] = []
    for number in range(1, num_rounds + 1):
        rounds.append((reads_per_s(slow, round_s), reads_per_s(fast, round_s)))
        theirs, ours = rounds[-1]
        say(f"round {number} of {num_rounds}: reference {theirs.wall:,.1f} reads/s, ours {ours.wall:,.1f}")
    ratios = [ours.processor / theirs.processor for theirs, ours in rounds]
    return {
        "reference_reads_per_s": statistics.median(theirs.wall for theirs, _ in rounds),
        "ours_reads_per_s": statistics.median(ours.wall for _, ours in rounds),
        "reference_reads_per_processor_s": statistics.median(theirs.processor for theirs, _ in rounds),
        "ours_reads_per_processor_s": statistics.median(ours.processor for _, ours in rounds),
        "wall_ratio": statistics.median(ours.wall / theirs.wall for theirs, ours in rounds),
        "ratio": statistics.median(ratios),
        "least_ratio": min(ratios),
        "greatest_ratio": max(ratios),
        "num_rounds": num_rounds,
        "is_compiled": is_compiled,
        "setup_s": setup_s,
        "batch_size": slow.config.batch_size,
    }


def reads_per_s(learner: Learner, seconds: float) -> Rate:
    """Return how many reads a learner steps through, for at least so many seconds of processor time."""
    num_steps = num_reads = 0
    wall, processor = time.perf_counter(), time.process_time()
    while (used := time.process_time() - processor) < seconds:
        num_steps += 1
        num_reads += learner.step(num_steps, 1e-4).num_reads
    return Rate(num_reads / (time.perf_counter() - wall), num_reads / used)
