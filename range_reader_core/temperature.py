"""A temperature that makes a reader's probabilities mean what they say, and whether it helps on hands it was not fitted on.

Dividing log-probabilities by a temperature above 1 makes a belief less certain without changing any rank. It is fitted on one
half of the hands and judged on the other; it is worth keeping where the interval of what it saves lies above zero. The loss is
convex in the inverse temperature, so a grid and a parabola find its minimum.

Legend: ``N`` positions, ``C`` = 1326 combos.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from range_reader_core.batching import Batch
from range_reader_core.calibration import COMBO, ReliabilitySums
from range_reader_core.evaluation import NothingToScoreError, ProgressCallback, Reader, ScoredPositions, supervised_batches
from range_reader_core.intervals import central_interval, resampled_means
from range_reader_core.metrics import score_positions
from range_reader_core.reads import Reads
from range_reader_core.tables import TOTAL, Estimate

INVERSE_TEMPERATURES: Final = 2.0 ** (np.arange(-8, 9) / 8)
"""Where the loss is taken, a half to twice; the fitted temperature lies between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemperedReader:
    """Another reader at a temperature; it ranks as that one does.

    Raises:
        ValueError: on construction, when the temperature is not positive and finite.
    """

    reader: Reader
    temperature: float

    def __post_init__(self) -> None:
        """Check the temperature."""
        if not 0 < self.temperature < float("inf"):
            msg = f"{self.reader.name}: expected a positive, finite temperature, got {self.temperature}"
            raise ValueError(msg)

    @property
    def name(self) -> str:
        """What the rows of the tables call this reader."""
        return f"{self.reader.name} at temperature {self.temperature:.3g}"

    def position_logp(self, batch: Batch, rows: torch.Tensor, positions: torch.Tensor, is_live: torch.Tensor) -> torch.Tensor:
        """Return log-probabilities, float32 (N, C), -inf on dead combos."""
        return temper(self.reader.position_logp(batch, rows, positions, is_live), self.temperature)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemperatureFit:
    """A temperature and what it does on hands that did not choose it."""

    temperature: float
    num_fit_hands: int
    num_judged_hands: int
    num_judged_positions: int
    loss_before: Estimate  # nats a position, of the judged hands
    loss_after: Estimate
    saved_nats: Estimate  # before minus after, on the same hands
    error_before: Estimate  # calibration error of combos, see calibration.ReliabilityCurve
    error_after: Estimate

    @property
    def is_helpful(self) -> bool:
        """Whether the interval of what it saves lies above zero."""
        return self.saved_nats.interval is not None and self.saved_nats.interval.low > 0


def temper(logp: torch.Tensor, temperature: float) -> torch.Tensor:
    """Return log-probabilities (N, C) at a temperature, normalised; -inf stays -inf."""
    return (logp / temperature).log_softmax(dim=1)


def fit_temperature(
    reader: Reader,
    reads: Reads,
    *,
    generator: np.random.Generator,
    device: torch.device | str = "cpu",
    on_progress: ProgressCallback | None = None,
) -> TemperatureFit:
    """Return the temperature that loses least on half of the hands, judged on the other half.

    Args:
        reader: whom to temper.
        reads: validation reads; the test split is for reports alone.
        generator: deals the hands into halves and draws those of the intervals.
        device: where the reader's weights lie.
        on_progress: told of every batch of either half.

    Raises:
        NothingToScoreError: a half holds fewer than two hands, or no supervised position.
    """
    hands = generator.permutation(np.unique(reads.hand_index))
    if len(hands) < 4:
        msg = f"fit_temperature: expected at least 4 hands, two to fit and two to judge, got {len(hands)}"
        raise NothingToScoreError(msg)
    is_fit = np.isin(reads.hand_index, hands[: len(hands) // 2])
    temperature = _least_loss(reader, reads.take(np.flatnonzero(is_fit)), device, on_progress)
    judged = reads.take(np.flatnonzero(~is_fit))
    before = ReliabilitySums(reader.name, judged, generator=generator)
    after = ReliabilitySums(reader.name, judged, generator=generator)
    sums = np.zeros((judged.num_reads, 2))
    counts = np.zeros(judged.num_reads, dtype=np.int64)
    for part in supervised_batches(judged, device=device, on_progress=on_progress):
        with torch.no_grad():
            logp = reader.position_logp(part.batch, part.rows, part.positions, part.is_live)
            tempered = temper(logp, temperature)
            columns = score_positions(logp, part.targets, part.is_live).columns()  # ranks are the same at any temperature
            before.observe(ScoredPositions(reader=0, part=part, logp=logp, columns=columns))
            after.observe(ScoredPositions(reader=0, part=part, logp=tempered, columns=columns))
        truth = part.targets[:, None]
        losses = -torch.cat([logp.gather(1, truth), tempered.gather(1, truth)], dim=1).double()  # (N, 2)
        index = part.batch.read_index.cpu().numpy()
        sums[index] = losses.new_zeros((len(index), 2)).index_add_(0, part.rows, losses).cpu().numpy()
        counts[index] = part.rows.bincount(minlength=len(index)).cpu().numpy()
    has_positions = counts > 0
    sums, counts, judged_hands = sums[has_positions], counts[has_positions], judged.hand_index[has_positions]
    resamples = resampled_means(sums, counts, judged_hands, generator=generator)  # (R, 2)
    means = sums.sum(axis=0) / counts.sum()
    return TemperatureFit(
        temperature=temperature,
        num_fit_hands=len(hands) // 2,
        num_judged_hands=len(np.unique(judged_hands)),
        num_judged_positions=int(counts.sum()),
        loss_before=_estimate(means[0], resamples[:, 0]),
        loss_after=_estimate(means[1], resamples[:, 1]),
        saved_nats=_estimate(means[0] - means[1], resamples[:, 0] - resamples[:, 1]),
        error_before=_error(before, generator),
        error_after=_error(after, generator),
    )


def _least_loss(reader: Reader, reads: Reads, device: torch.device | str, on_progress: ProgressCallback | None) -> float:
    """Return the temperature of the least mean loss."""
    losses = np.zeros(len(INVERSE_TEMPERATURES))
    num_positions = 0
    for part in supervised_batches(reads, device=device, on_progress=on_progress):
        with torch.no_grad():
            logp = reader.position_logp(part.batch, part.rows, part.positions, part.is_live)
            truth = logp.gather(1, part.targets[:, None])[:, 0].double()
            for index, inverse in enumerate(INVERSE_TEMPERATURES.tolist()):
                losses[index] += float(((logp * inverse).logsumexp(dim=1).double() - truth * inverse).sum())
        num_positions += len(part.rows)
    if num_positions == 0:
        msg = f"fit_temperature: none of {reads.num_reads} reads has a supervised position"
        raise NothingToScoreError(msg)
    return 1.0 / _minimum(INVERSE_TEMPERATURES, losses / num_positions)


def _minimum(places: npt.NDArray[np.float64], values: npt.NDArray[np.float64]) -> float:
    """Return where the parabola through the least value and its neighbours is least; an end where the least value is an end."""
    least = int(values.argmin())
    if least in {0, len(places) - 1}:
        return float(places[least])
    near = slice(least - 1, least + 2)
    square, slope, _ = np.polyfit(places[near] - places[least], values[near], 2)
    return float(places[least] - slope / (2 * square))


def _estimate(mean: float, resamples: npt.NDArray[np.float64]) -> Estimate:
    return Estimate(mean=float(mean), interval=central_interval(resamples))


def _error(sums: ReliabilitySums, generator: np.random.Generator) -> Estimate:
    curves = sums.curves(generator=generator)
    return next(curve.error for curve in curves if (curve.forecast, curve.group) == (COMBO, TOTAL))
