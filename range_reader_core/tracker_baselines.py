"""The readers a player could build from a tracker's tables: what a model must beat to have learned more than counting.

``LineReader`` gives the starting hands that training villains held in this position after this preflop line. ``StrengthReader``
takes that range on after the flop and weighs every combo, decision by decision, by how often a hand of its strength on that
board acted so. Both take the visible cards out. Counts are of training reads; how far narrow counts lean on broad ones is chosen
on validation reads, because it depends on how much there was to count.

Legend: ``B`` reads, ``T`` positions, ``N`` chosen positions, ``E`` decisions after the flop, ``C`` = 1326 combos.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, TypeVar

import numpy as np
import torch

from range_reader_core import cards
from range_reader_core.batching import Batch
from range_reader_core.evaluation import Reader, supervised_batches
from range_reader_core.lines import Betting, read_betting
from range_reader_core.reads import Reads
from range_reader_core.tracker_counts import ActionCounts, LineCounts, decisions_after_flop, preflop_line

LINE_SMOOTHINGS: Final = (100.0, 300.0, 1000.0, 3000.0, 10_000.0)
"""Villains of the broader range that a line's range may start with; ``fit_trackers`` chooses among them."""
ACTION_SMOOTHINGS: Final = (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
"""Decisions of the broader frequencies that those of one kind of hand may start with."""
TUNING_READS: Final = 2000
"""Validation reads that choose the smoothing: enough to tell the candidates apart, which differ by a few thousandths of a nat."""

_R = TypeVar("_R", bound=Reader)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineReader:
    """The range of the villain's position and preflop line, card removal at each position.

    Raises:
        ValueError: on construction, when the smoothing is not positive.
    """

    name: ClassVar[str] = "position and line"

    lines: LineCounts
    smoothing_counts: float  # > 0: villains of the broader range that each narrower one starts with

    def __post_init__(self) -> None:
        """Check that every combo stays possible."""
        _check_smoothing(self.name, self.smoothing_counts)

    def position_logp(
        self,
        batch: Batch,
        rows: torch.Tensor,
        positions: torch.Tensor,
        is_live: torch.Tensor,
    ) -> torch.Tensor:
        """Return log-probabilities over the combos left at each position, float32 (N, C), -inf on dead combos."""
        betting = read_betting(batch.tokens, batch.values)
        logp = _line_logp(self.lines, self.smoothing_counts, batch, betting, rows, positions)
        return logp.masked_fill_(~is_live, -torch.inf).log_softmax(dim=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StrengthReader:
    """The range of position and line, weighed after the flop by how often hands of each strength act as the villain did.

    A decision counts from its own position on. Decisions are weighed as if independent given the hand, as counting must.

    Raises:
        ValueError: on construction, when a smoothing is not positive.
    """

    name: ClassVar[str] = "position, line and strength"

    lines: LineCounts
    actions: ActionCounts
    line_smoothing_counts: float  # as LineReader
    action_smoothing_counts: float  # > 0: decisions of the broader frequencies that each narrower one starts with

    def __post_init__(self) -> None:
        """Check that every combo stays possible."""
        _check_smoothing(self.name, self.line_smoothing_counts)
        _check_smoothing(self.name, self.action_smoothing_counts)

    def position_logp(
        self,
        batch: Batch,
        rows: torch.Tensor,
        positions: torch.Tensor,
        is_live: torch.Tensor,
    ) -> torch.Tensor:
        """Return log-probabilities over the combos left at each position, float32 (N, C), -inf on dead combos."""
        betting = read_betting(batch.tokens, batch.values)
        logp = _line_logp(self.lines, self.line_smoothing_counts, batch, betting, rows, positions)
        num_taken, evidence = self._evidence(batch, betting)  # (B, T) and (B, D + 1, C)
        logp += evidence[rows, num_taken[rows, positions]]
        return logp.masked_fill_(~is_live, -torch.inf).log_softmax(dim=1)

    def _evidence(self, batch: Batch, betting: Betting) -> tuple[torch.Tensor, torch.Tensor]:
        """Return how many decisions each villain has taken after the flop by each position, and what each number of them says.

        The second is (B, D + 1, C) float32: log-probabilities of the decisions so far given each combo, 0 before the first.
        """
        device = batch.tokens.device
        num_taken = (betting.is_villain & (betting.street > 0)).long().cumsum(1)  # (B, T)
        evidence = torch.zeros((len(num_taken), int(num_taken.max()) + 1, cards.NUM_COMBOS), device=device)
        decisions = decisions_after_flop(batch, betting)
        table = self.actions.logp(self.action_smoothing_counts)[decisions.context, decisions.action]  # (E, kinds)
        said = np.take_along_axis(table, decisions.combo_kinds(), axis=1)  # (E, C)
        row, position = torch.from_numpy(decisions.row).to(device), torch.from_numpy(decisions.position).to(device)
        evidence[row, num_taken[row, position]] = torch.from_numpy(said).to(device, torch.float32)
        return num_taken, evidence.cumsum(1)


def fit_trackers(
    train_reads: Reads, val_reads: Reads, *, num_tuning_reads: int = TUNING_READS
) -> tuple[LineReader, StrengthReader]:
    """Return both readers with counts of training reads and the smoothing that loses least on validation reads.

    Args:
        train_reads: what is counted.
        val_reads: their first ``num_tuning_reads`` choose the smoothing; shards are shuffled, so the first are as good as any.
        num_tuning_reads: at least 1.

    Raises:
        ValueError: there are no training or no validation reads.
    """
    tuning_reads = val_reads.take(np.arange(min(num_tuning_reads, val_reads.num_reads)))
    lines, actions = LineCounts.fit(train_reads), ActionCounts.fit(train_reads)
    line_reader = _least_loss([LineReader(lines=lines, smoothing_counts=count) for count in LINE_SMOOTHINGS], tuning_reads)
    first = StrengthReader(
        lines=lines,
        actions=actions,
        line_smoothing_counts=line_reader.smoothing_counts,
        action_smoothing_counts=ACTION_SMOOTHINGS[0],
    )
    candidates = [replace(first, action_smoothing_counts=count) for count in ACTION_SMOOTHINGS]
    return line_reader, _least_loss(candidates, tuning_reads)


def _least_loss(readers: Sequence[_R], reads: Reads) -> _R:
    losses = np.zeros(len(readers))
    for part in supervised_batches(reads):
        targets = part.targets[:, None]
        for index, reader in enumerate(readers):
            logp = reader.position_logp(part.batch, part.rows, part.positions, part.is_live)
            losses[index] -= float(logp.gather(1, targets).double().sum())
    return readers[int(losses.argmin())]


def _line_logp(
    lines: LineCounts, smoothing_counts: float, batch: Batch, betting: Betting, rows: torch.Tensor, positions: torch.Tensor
) -> torch.Tensor:
    """Return the log-probabilities of the line at each position before any card is seen, float32 (N, C)."""
    line, inverse = torch.unique(preflop_line(batch, betting)[rows, positions], return_inverse=True)
    logp = torch.from_numpy(lines.combo_logp(line.cpu().numpy(), smoothing_counts))  # (K, C)
    return logp.to(inverse.device, torch.float32)[inverse]


def _check_smoothing(name: str, smoothing_counts: float) -> None:
    if not 0 < smoothing_counts < float("inf"):
        msg = f"{name}: smoothing counts must be positive and finite, got {smoothing_counts}"
        raise ValueError(msg)
