"""Readers that ignore the betting: what a model must beat to have read anything.

Each answers the same question as a model, log-probabilities over the combos at given positions, and is scored by the
same code. Another baseline is another class with a ``name`` and a ``position_logp``. They may use anything that is
known before the hand is played and the cards visible at the position; what they learn, they learn from training reads.
Tensor legend: ``N`` positions, ``C`` = 1326 combos.
"""

from dataclasses import dataclass
from typing import ClassVar, Final, Self

import numpy as np
import numpy.typing as npt
import torch

from range_reader_core import cards
from range_reader_core.batching import Batch
from range_reader_core.reads import Reads
from range_reader_core.tokens import MAX_SEATS

SMOOTHING_COUNTS: Final = float(cards.NUM_CLASSES)
"""Pseudo-counts of a static range, spread over the combos in proportion to how often they are dealt: one per class on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveUniformReader:
    """Every combo that the visible cards leave possible is equally likely: the honest floor."""

    name: ClassVar[str] = "uniform over live combos"

    def position_logp(
        self,
        batch: Batch,
        rows: torch.Tensor,
        positions: torch.Tensor,
        is_live: torch.Tensor,
    ) -> torch.Tensor:
        """Return log-probabilities, float32 (N, C), -inf on dead combos."""
        num_live = is_live.sum(dim=1, keepdim=True)  # (N, 1)
        return torch.where(is_live, -num_live.float().log(), -torch.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticRangeReader:
    """The starting hands with which training villains put chips in, whatever they did: 169 classes, card removal at each position.

    Raises:
        ValueError: on construction, when there are not 169 finite counts >= 0 or the smoothing is not positive.
    """

    name: ClassVar[str] = "static range"

    class_counts: npt.NDArray[np.float64]  # (169,) villains seen with each class, in the order of cards.CLASS_NAMES
    smoothing_counts: float = SMOOTHING_COUNTS  # > 0, so that no live combo is impossible

    def __post_init__(self) -> None:
        """Check the counts."""
        if self.class_counts.shape != (cards.NUM_CLASSES,) or not (np.isfinite(self.class_counts) & (self.class_counts >= 0)).all():
            msg = f"static range: expected {cards.NUM_CLASSES} finite counts >= 0, got an array of shape {self.class_counts.shape}"
            raise ValueError(msg)
        if not self.smoothing_counts > 0:
            msg = f"static range: smoothing_counts must be positive, got {self.smoothing_counts}"
            raise ValueError(msg)

    @classmethod
    def fit(cls, reads: Reads, smoothing_counts: float = SMOOTHING_COUNTS) -> Self:
        """Return the static range of the villains of training reads.

        A villain counts once a hand, not once a read: the same cards seen from five perspectives are one observation.

        Raises:
            ValueError: there are no reads.
        """
        if reads.num_reads == 0:
            msg = "static range: no training reads to count; encode some hands into the train split first"
            raise ValueError(msg)
        hand_villain = reads.hand_index * MAX_SEATS + reads.villain_seat
        _, first = np.unique(hand_villain, return_index=True)
        classes = cards.COMBO_CLASS[reads.villain_combo[first].astype(np.int64)]
        counts = np.bincount(classes, minlength=cards.NUM_CLASSES).astype(np.float64)
        return cls(class_counts=counts, smoothing_counts=smoothing_counts)

    def combo_logp(self) -> npt.NDArray[np.float64]:
        """Return the log-probability of each combo before any card is seen, float64 (1326,)."""
        class_sizes = np.bincount(cards.COMBO_CLASS, minlength=cards.NUM_CLASSES)
        counts = self.class_counts + self.smoothing_counts * class_sizes / cards.NUM_COMBOS  # (169,)
        logp: npt.NDArray[np.float64] = np.log(counts / class_sizes / counts.sum())[cards.COMBO_CLASS]
        return logp

    def position_logp(
        self,
        batch: Batch,
        rows: torch.Tensor,
        positions: torch.Tensor,
        is_live: torch.Tensor,
    ) -> torch.Tensor:
        """Return log-probabilities over the combos left at each position, float32 (N, C), -inf on dead combos."""
        prior = torch.from_numpy(self.combo_logp()).to(is_live.device, torch.float32)  # (C,)
        return prior.expand(is_live.shape).masked_fill(~is_live, -torch.inf).log_softmax(dim=1)
