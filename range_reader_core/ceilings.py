"""How much of what can be read a model reads: its gain over a blind reader as a share of the best possible reader's gain.

The best possible reader is known only where the players' policies are, as on arena hands. Gains are of the same reads, so the
share's interval is by the same bootstrap over hands. A model that beats the reader that knows everything public has seen
something hidden.

Shares count positions from the villain's first chips on. A seat that folds without any is never asked for, so before that *being
asked for* tells that the villain will play, which a model learns from its reads and no rule of the game says.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from range_reader_core.evaluation import PointScores, ReadScores, ScoredPositions
from range_reader_core.intervals import central_interval, resampled_means
from range_reader_core.masks import has_entered
from range_reader_core.metrics import LOSS, METRICS, MRR
from range_reader_core.tables import Estimate

_Scores = TypeVar("_Scores", ReadScores, PointScores)
LEAST_GAIN_NATS: Final = 1e-6  # of the best reader over the blind one; below it there is nothing to have a share of


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingShare:
    """A model beside one best possible reader."""

    oracle: str
    floor: str
    share_nats: Estimate  # (floor's loss - model's) / (floor's loss - oracle's)
    share_mrr: Estimate  # (model's mrr - floor's) / (oracle's mrr - floor's)
    ahead_nats: Estimate  # the oracle's loss minus the model's; positive: the model is better
    ahead_mrr: Estimate  # the model's mrr minus the oracle's; positive: the model is better


class EnteredScores:
    """An observer of ``evaluate`` that sums what readers score from the villain's first chips on."""

    def __init__(self, num_readers: int, num_reads: int) -> None:
        """Start with nothing counted."""
        self._sums = np.zeros((num_readers, num_reads, len(METRICS)))
        self._counts = np.zeros((num_readers, num_reads), dtype=np.int64)

    def observe(self, scored: ScoredPositions) -> None:
        """Count a batch of a reader's positions in."""
        batch, rows = scored.part.batch, scored.part.rows
        is_in = has_entered(batch.tokens)[rows, scored.part.positions]  # (N,)
        indices = batch.read_index.cpu().numpy()
        sums = scored.columns.new_zeros((len(indices), len(METRICS))).index_add_(0, rows[is_in], scored.columns[is_in])
        self._sums[scored.reader, indices] = sums.cpu().numpy()
        self._counts[scored.reader, indices] = rows[is_in].bincount(minlength=len(indices)).cpu().numpy()

    def of(self, scores: Sequence[ReadScores]) -> tuple[ReadScores, ...]:
        """Return these scores at the positions counted here, without the reads that have none of them.

        Args:
            scores: of all readers of the evaluation that was observed, in its order.
        """
        return tuple(
            replace(
                part,
                metric_sums=sums[counts > 0],
                num_positions=counts[counts > 0],
                stratum=part.stratum[counts > 0],
                hand_index=part.hand_index[counts > 0],
            )
            for part, sums, counts in zip(scores, self._sums, self._counts, strict=True)
        )


def share_of_reads(scores: Sequence[ReadScores], *, floor: str, oracle: str, generator: np.random.Generator) -> CeilingShare:
    """Return the first reader's share over all positions of the scores.

    Args:
        scores: of readers evaluated together, the model first; ``EnteredScores`` leaves the positions that can be compared.
        floor: name of the blind reader.
        oracle: name of the best possible reader.
        generator: draws the hands for the intervals.

    Raises:
        ValueError: no such reader, or the oracle is no better than the floor.
    """
    model, blind, best = (_of(scores, name) for name in (scores[0].reader, floor, oracle))
    sums = np.stack([part.metric_sums for part in (model, blind, best)], axis=1)  # (N, 3, 7)
    return _share(sums, model.num_positions, model.hand_index, floor, oracle, generator)


def share_at_point(
    scores: Sequence[PointScores], point: int, *, floor: str, oracle: str, generator: np.random.Generator
) -> CeilingShare:
    """Return the first reader's share at a number of ``masks.POINTS``; other arguments and errors as ``share_of_reads``."""
    model, blind, best = (_of(scores, name) for name in (scores[0].reader, floor, oracle))
    sums = np.stack([part.metrics[:, point] for part in (model, blind, best)], axis=1)  # (N, 3, 7)
    return _share(sums, np.ones(len(sums), dtype=np.int64), model.hand_index, floor, oracle, generator)


def format_share(share: CeilingShare) -> str:
    """Return a line for people."""
    return (
        f"share of the ceiling ({share.oracle}): {_percent(share.share_nats)} of its nats, {_percent(share.share_mrr)} of its mrr, "
        f"beyond {share.floor}, from the villain's first chips on"
    )


def _of(scores: Sequence[_Scores], name: str) -> _Scores:
    for part in scores:
        if part.reader == name:
            return part
    msg = f"share of the ceiling: there are no scores of {name!r} among {[part.reader for part in scores]}"
    raise ValueError(msg)


def _share(
    sums: npt.NDArray[np.float64],
    counts: npt.NDArray[np.int64],
    hands: npt.NDArray[np.int64],
    floor: str,
    oracle: str,
    generator: np.random.Generator,
) -> CeilingShare:
    """Return the share of sums (N, 3, 7) of the model, the blind reader and the best one."""
    chosen = sums[:, :, [LOSS, MRR]] * [-1.0, 1.0]  # more is better in both
    means = (chosen.sum(axis=0) / counts.sum())[None]  # (1, 3, 2)
    if means[0, 2, 0] - means[0, 1, 0] < LEAST_GAIN_NATS:
        msg = f"share of the ceiling: {oracle!r} reads no better than {floor!r}; were these hands dealt as it thinks?"
        raise ValueError(msg)
    draws = np.zeros((0, 3, 2))
    if len(np.unique(hands)) > 1:
        draws = resampled_means(chosen.reshape(len(chosen), -1), counts, hands, generator=generator).reshape(-1, 3, 2)

    def estimate(of: npt.NDArray[np.float64], over_draws: npt.NDArray[np.float64]) -> Estimate:
        return Estimate(mean=float(of[0]), interval=central_interval(over_draws) if len(over_draws) else None)

    shares = [(part[:, 0] - part[:, 1]) / (part[:, 2] - part[:, 1]) for part in (means, draws)]  # (., 2)
    aheads = [part[:, 0] - part[:, 2] for part in (means, draws)]
    return CeilingShare(
        oracle=oracle,
        floor=floor,
        share_nats=estimate(shares[0][:, 0], shares[1][:, 0]),
        share_mrr=estimate(shares[0][:, 1], shares[1][:, 1]),
        ahead_nats=estimate(aheads[0][:, 0], aheads[1][:, 0]),
        ahead_mrr=estimate(aheads[0][:, 1], aheads[1][:, 1]),
    )


def _percent(estimate: Estimate) -> str:
    spread = "" if estimate.interval is None else f" (95% {estimate.interval.low:.1%} to {estimate.interval.high:.1%})"
    return f"{estimate.mean:.1%}{spread}"
