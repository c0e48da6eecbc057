"""How well a belief over the 1326 combos ranks the truth: scores per position, their sums, and the two floors.

Only combos that are still possible compete; a dead combo has no rank. Ties are averaged over all orders of the tied
combos, so a reader that knows nothing scores exactly the floor instead of what the order of the combos happens to give.
Scores add up in float64 as (sum, count) and are divided once, after all batches. Which positions count, and what the
strata are, is decided elsewhere (``masks``, ``evaluation``). Tensor legend: ``N`` positions, ``C`` = 1326 combos.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from range_reader_core import cards

TOP_KS: Final = (16, 32, 64, 128)
METRICS: Final = ("loss_nats", "mrr", "mean_rank", "top16", "top32", "top64", "top128")
"""What the mean of each score is called, in the order of every metric axis."""
LOSS: Final = METRICS.index("loss_nats")
MRR: Final = METRICS.index("mrr")
MEAN_RANK: Final = METRICS.index("mean_rank")

_CPU_ROWS: Final = 256  # 1.3 MB of float32 per pass stays in cache; 4096 rows took 3 times as long per row (2026-11)


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionScores:
    """Scores of ``N`` positions; every field is a float64 tensor of shape (N,)."""

    loss_nats: torch.Tensor  # -ln P(truth), over the live combos
    reciprocal_rank: torch.Tensor  # expected 1 / rank when ties are broken at random
    rank: torch.Tensor  # expected rank, 1 is best
    top16: torch.Tensor  # probability of a rank of at most 16 when ties are broken at random
    top32: torch.Tensor
    top64: torch.Tensor
    top128: torch.Tensor

    def columns(self) -> torch.Tensor:
        """Return the scores side by side, float64 of shape (N, 7) in the order of ``METRICS``."""
        return torch.stack(
            (self.loss_nats, self.reciprocal_rank, self.rank, self.top16, self.top32, self.top64, self.top128), dim=1
        )


class MetricSums:
    """Running (sum, count) of position scores, float64 on the host."""

    def __init__(self) -> None:
        """Start with nothing counted."""
        self.sums: npt.NDArray[np.float64] = np.zeros(len(METRICS))  # in the order of METRICS
        self.count = 0

    def add(self, scores: PositionScores) -> None:
        """Count the positions of one batch in."""
        self.sums = self.sums + scores.columns().sum(dim=0).cpu().numpy()
        self.count += len(scores.loss_nats)

    def means(self) -> dict[str, float]:
        """Return the mean of each metric by its name in ``METRICS``.

        Raises:
            ValueError: nothing was counted.
        """
        if self.count == 0:
            msg = "no supervised position was scored, so there is no metric to report; give reads with actions after the hole cards"
            raise ValueError(msg)
        return {name: float(total) / self.count for name, total in zip(METRICS, self.sums, strict=True)}


def score_positions(scores: torch.Tensor, targets: torch.Tensor, is_live: torch.Tensor) -> PositionScores:
    """Return the tie-averaged scores of each position.

    Args:
        scores: (N, C) log-probabilities or any logits; they are normalised over the live combos.
        targets: (N,) int64, the true combo.
        is_live: (N, C) bool, the combos that may still be the truth.

    Raises:
        ValueError: on a wrong shape or dtype, a target that is not live, or a live score that is NaN or +inf; names the rows.
    """
    num = len(targets)
    if scores.shape != (num, cards.NUM_COMBOS) or is_live.shape != scores.shape or is_live.dtype != torch.bool:
        msg = (
            f"score_positions: expected scores (N, {cards.NUM_COMBOS}), targets (N,) and bool is_live (N, {cards.NUM_COMBOS}), "
            f"got {tuple(scores.shape)}, {tuple(targets.shape)} and {is_live.dtype} {tuple(is_live.shape)}"
        )
        raise ValueError(msg)
    is_target_live = is_live.gather(1, targets[:, None])[:, 0]  # (N,)
    if not bool(is_target_live.all()):
        rows = (~is_target_live).nonzero()[:5, 0].tolist()
        msg = f"score_positions: the true combo is not live at rows {rows} (first five), combos {targets[rows].tolist()}"
        raise ValueError(msg)
    step = _CPU_ROWS if scores.device.type == "cpu" else max(num, 1)
    parts = [_compare(scores[i : i + step], targets[i : i + step], is_live[i : i + step]) for i in range(0, num, step)]
    loss, better, equal = torch.cat(parts, dim=1) if parts else scores.new_zeros((3, 0), dtype=torch.float64)
    if not bool(loss.isfinite().all()):
        rows = (loss.isnan() | (loss == -torch.inf)).nonzero()[:5, 0].tolist()
        if rows:  # +inf stands: it is what a reader pays that gave the truth no probability
            msg = f"score_positions: a live combo's score is NaN or +inf at rows {rows} (first five)"
            raise ValueError(msg)
    harmonic = torch.from_numpy(HARMONIC).to(scores.device)
    first = better.long()
    reciprocal = (harmonic[first + equal.long()] - harmonic[first]) / equal
    top = {f"top{k}": ((k - better) / equal).clamp(0.0, 1.0) for k in TOP_KS}
    return PositionScores(loss_nats=loss, reciprocal_rank=reciprocal, rank=better + (equal + 1) / 2, **top)


def uniform_floor() -> dict[str, float]:
    """Return what a uniform guess over all 1326 combos scores, by name in ``METRICS``."""
    return dict(zip(METRICS, live_floor(np.array([cards.NUM_COMBOS]))[0].tolist(), strict=True))


def live_floor(num_live: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return what a uniform guess over the live combos scores at each position.

    Args:
        num_live: (N,) live combos, 1..1326.

    Returns:
        (N, 7) in the order of ``METRICS``.

    Raises:
        ValueError: a count is outside 1..1326.
    """
    if len(num_live) and not (num_live.min() >= 1 and num_live.max() <= cards.NUM_COMBOS):
        msg = f"live_floor: expected 1..{cards.NUM_COMBOS} live combos, got {num_live.min()}..{num_live.max()}"
        raise ValueError(msg)
    top = [np.minimum(k / num_live, 1.0) for k in TOP_KS]
    return np.stack([np.log(num_live), HARMONIC[num_live] / num_live, (num_live + 1) / 2, *top], axis=1)


def _compare(scores: torch.Tensor, targets: torch.Tensor, is_live: torch.Tensor) -> torch.Tensor:
    """Return loss, number of better combos and number of equal combos (the truth among them): float64 (3, n)."""
    live_scores = scores.float().masked_fill(~is_live, -torch.inf)  # (n, C)
    truth = live_scores.gather(1, targets[:, None])  # (n, 1)
    best = live_scores.amax(dim=1, keepdim=True)  # (n, 1)
    probabilities = live_scores.softmax(dim=1)  # (n, C)
    # sum / max is the partition function relative to the best score; it is an exact integer when all scores are equal.
    partition = probabilities.sum(dim=1, dtype=torch.float64) / probabilities.amax(dim=1).double()
    loss = partition.log() + (best.double() - truth.double())[:, 0]
    # Counting in float32 is exact up to 2**24 and 3 times faster on a CPU than summing bools (2026-11).
    flags = torch.empty_like(live_scores)
    better = torch.gt(live_scores, truth, out=flags).sum(dim=1)  # (n,)
    equal = torch.eq(live_scores, truth, out=flags).sum(dim=1)  # (n,)
    is_ruled_out = truth[:, 0] == -torch.inf
    if bool(is_ruled_out.any()):  # the dead combos compare equal to such a truth and must not share its rank
        equal = torch.where(is_ruled_out, equal - (~is_live).sum(dim=1), equal)
    return torch.stack((loss, better.double(), equal.double()))


HARMONIC: Final = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, cards.NUM_COMBOS + 1))])
"""(1327,) float64, ``HARMONIC[n]`` = 1 + 1/2 + ... + 1/n."""
