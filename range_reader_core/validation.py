"""Choosing the checkpoint: which val reads are scored while training, how, and which of two validations is kept.

Legend: ``B`` reads, ``T`` positions, ``N`` supervised positions, ``C`` = 1326 combos.
The same villain read from five perspectives is nearly one observation, so one read a hand and villain is scored, and errors are
over hands. The highest mrr is kept, but mrr moves by chance: on rs_poker the best of 15 validations was an early one whose
loss was 0.14 nats behind (2026-11). Validations within the noise of the highest mrr therefore count as equal, and the lowest loss
among them is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from range_reader_core.batching import DeviceReads, with_named_suits
from range_reader_core.hand_kinds import hand_kinds
from range_reader_core.masks import is_live_combo_at, is_supervised
from range_reader_core.metrics import METRICS, MRR, score_positions
from range_reader_core.model import RangeReaderModel
from range_reader_core.reads import Reads
from range_reader_core.tokens import MAX_SEATS
from range_reader_core.train_events import Evaluated

BATCH_READS: Final = 256
"""Reads scored at once: about 4000 positions, 20 MB of logits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """What a model scored on the val reads, one forward each."""

    means: dict[str, float]  # over all supervised positions, by name in metrics.METRICS
    mrr_error: float  # standard error of the mean mrr over hands
    num_positions: int


def choose_reads(reads: Reads, limit: int) -> Reads:
    """Return the reads to validate with: the first of each hand and villain in the given order, at most ``limit``."""
    _, first = np.unique(reads.hand_index * MAX_SEATS + reads.villain_seat, return_index=True)
    return reads.take(np.sort(first)[:limit])


class Validator:
    """Val reads on a device, and the precision they are scored in."""

    def __init__(self, reads: Reads, device: torch.device, precision: torch.dtype = torch.float32) -> None:
        """Copy the reads to the device.

        Raises:
            ValueError: there is no read.
        """
        self.reads = DeviceReads.from_reads(reads, device)
        self.hand_index = reads.hand_index
        self.precision = precision

    def score(self, model: RangeReaderModel) -> Validation:
        """Return what a model scores.

        Raises:
            ValueError: no position is supervised.
        """
        num_reads = self.reads.num_reads
        sums, counts = np.zeros((num_reads, len(METRICS))), np.zeros(num_reads)
        order = np.argsort(self.reads.lengths, kind="stable")
        with torch.inference_mode():
            for start in range(0, num_reads, BATCH_READS):
                indices = order[start : start + BATCH_READS]
                batch, alike = self.reads.batch(indices), None
                if model.config.names_suits:
                    batch, alike = with_named_suits(batch)
                rows, positions = is_supervised(batch.tokens).nonzero(as_tuple=True)  # (N,) each
                x, begin = model.enter(batch.tokens, batch.values)
                with torch.autocast(x.device.type, self.precision, enabled=self.precision != torch.float32):
                    hidden = model.trunk(x)[rows, positions - begin[rows]]  # (B, T', D) -> (N, D)
                kinds = hand_kinds(batch.tokens, rows, positions) if model.config.reads_hands else None
                logits = model.logits(hidden, None if alike is None else alike[rows, positions], kinds)  # (N, C)
                is_live = is_live_combo_at(batch.tokens, rows, positions)  # (N, C)
                columns = score_positions(logits, batch.targets[rows], is_live).columns()  # (N, 7)
                of_read = columns.new_zeros((len(indices), len(METRICS))).index_add_(0, rows, columns)
                sums[indices] = of_read.cpu().numpy()
                counts[indices] = rows.bincount(minlength=len(indices)).cpu().numpy()
        count = counts.sum()
        if not count:
            msg = f"none of {num_reads} val reads has a supervised position; give hands with actions after the hole cards"
            raise ValueError(msg)
        means = sums.sum(axis=0) / count
        # The standard error of a ratio of sums over hands, which are independent; positions of a hand are not.
        _, hand = np.unique(self.hand_index, return_inverse=True)
        deviation = np.bincount(hand, weights=sums[:, MRR] - means[MRR] * counts)
        return Validation(
            means={name: float(mean) for name, mean in zip(METRICS, means, strict=True)},
            mrr_error=float(np.sqrt((deviation**2).sum()) / count),
            num_positions=int(count),
        )


def is_better(candidate: Evaluated, best: Evaluated | None, history: Sequence[Evaluated], tie_errors: float) -> bool:
    """Return whether a validation replaces the kept one.

    Args:
        candidate: the newest validation.
        best: the kept one, None before the first.
        history: all earlier ones of the run.
        tie_errors: within so many standard errors of the highest mrr, validations count as equal; with 0 only mrr counts.
    """
    if best is None:
        return True
    highest = max(event.val_mrr for event in (*history, best, candidate))
    least = highest - tie_errors * candidate.val_mrr_error
    if candidate.val_mrr < least:
        return False
    # Equality replaces: a resumed run that repeats the validation behind the kept weights ends up where it was.
    return best.val_mrr < least or candidate.val_loss_nats <= best.val_loss_nats
