"""Temperatures: found where beliefs were sharpened, judged on other hands, and without effect on ranks."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from range_reader_core.baselines import LiveUniformReader, StaticRangeReader
from range_reader_core.batching import Batch
from range_reader_core.encoder import HandEncoder
from range_reader_core.evaluation import NothingToScoreError, evaluate
from range_reader_core.masks import is_live_combo_at, is_supervised
from range_reader_core.metrics import LOSS, MEAN_RANK
from range_reader_core.reads import Reads
from range_reader_core.temperature import TemperedReader, fit_temperature, temper
from range_reader_core.tokens import PAD
from tests.core import hands


class NoisyReader:
    """A reader whose belief is the law that truths are drawn from, sharpened: its right temperature is known."""

    name = "noisy"

    def __init__(self, sharpness: float) -> None:
        """Remember by how much the belief is too sharp."""
        self._sharpness = sharpness

    def position_logp(self, batch: Batch, rows: torch.Tensor, positions: torch.Tensor, is_live: torch.Tensor) -> torch.Tensor:
        """Return log-probabilities, float32 (N, C)."""
        law = torch.linspace(0.0, 8.0, 1326).expand(is_live.shape).masked_fill(~is_live, -torch.inf)
        return temper(law, 1 / self._sharpness)


def _reads(num_hands: int = 600) -> Reads:
    """Heads-up reads whose true combos are drawn from the law of ``NoisyReader`` at sharpness 1."""
    reads = HandEncoder().encode_hands(hands.random_hands(8, num_hands, num_players=2))[0]
    stream = torch.from_numpy(hands.pad_tokens(reads))
    last = (stream != PAD).sum(1) - 1
    live = is_live_combo_at(stream, torch.arange(len(stream)), last)
    law = torch.linspace(0.0, 8.0, 1326).expand(live.shape).masked_fill(~live, -torch.inf).softmax(dim=1)
    quantiles = np.random.default_rng(3).permutation((np.arange(len(stream)) + 0.5) / len(stream))  # less noise than free draws
    drawn = torch.searchsorted(law.double().cumsum(1), torch.from_numpy(quantiles)[:, None])[:, 0]
    return replace(reads, villain_combo=drawn.numpy().astype(np.uint16))


def test_a_belief_made_too_sharp_is_found_out() -> None:
    """Truths come from the law, the belief is the law to the power 1.6: the temperature that repairs it is 1.6."""
    fit = fit_temperature(NoisyReader(1.6), _reads(), generator=np.random.default_rng(0))
    assert fit.temperature == pytest.approx(1.6, rel=0.2)
    assert fit.is_helpful
    assert fit.saved_nats.mean == pytest.approx(fit.loss_before.mean - fit.loss_after.mean)
    assert fit.error_after.mean < fit.error_before.mean


def test_a_belief_that_is_right_keeps_its_temperature() -> None:
    """A temperature adopted for noise makes the next data set worse."""
    fit = fit_temperature(NoisyReader(1.0), _reads(), generator=np.random.default_rng(0))
    assert fit.temperature == pytest.approx(1.0, rel=0.2)
    assert abs(fit.saved_nats.mean) < 0.01


def test_no_read_is_both_fitted_on_and_judged() -> None:
    """A temperature judged on the hands that chose it always seems to help."""
    reads = _reads(40)
    seen: list[tuple[int, ...]] = []

    class RecordingReader(LiveUniformReader):
        def position_logp(self, batch: Batch, rows: torch.Tensor, positions: torch.Tensor, is_live: torch.Tensor) -> torch.Tensor:
            seen.extend(tuple(row[row != PAD].tolist()) for row in batch.tokens)
            return super().position_logp(batch, rows, positions, is_live)

    fit_temperature(RecordingReader(), reads, generator=np.random.default_rng(0))
    assert len(set(seen)) == len(seen) == reads.num_reads


def test_halves_follow_the_generator() -> None:
    """A report made twice must say the same."""
    reads = _reads(40)
    fits = [fit_temperature(NoisyReader(1.3), reads, generator=np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert fits[0] == fits[1]
    assert fits[0].temperature != fits[2].temperature
    assert {fit.num_fit_hands for fit in fits} == {len(np.unique(reads.hand_index)) // 2}


def test_ranks_are_those_of_the_reader() -> None:
    """A temperature may change what is promised and never the order."""
    reads = HandEncoder().encode_hands(hands.random_hands(9, 12, num_players=4))[0]
    static = StaticRangeReader.fit(reads)
    tempered = TemperedReader(reader=static, temperature=1.7)
    before, after = evaluate([static, tempered], reads)
    np.testing.assert_allclose(before.metric_sums[:, MEAN_RANK], after.metric_sums[:, MEAN_RANK])
    assert not np.allclose(before.metric_sums[:, LOSS], after.metric_sums[:, LOSS])
    assert tempered.name == "static range at temperature 1.7"


def test_temperature_one_changes_nothing_and_dead_combos_stay_dead() -> None:
    """The tempered belief is still one over the live combos."""
    reads = HandEncoder().encode_hands([hands.three_way_showdown()])[0]
    stream = torch.from_numpy(hands.pad_tokens(reads))
    rows, positions = is_supervised(stream).nonzero(as_tuple=True)
    is_live = is_live_combo_at(stream, rows, positions)
    logp = torch.where(is_live, torch.linspace(-9, -5, 1326), -torch.inf).log_softmax(dim=1)
    torch.testing.assert_close(temper(logp, 1.0), logp)
    hot = temper(logp, 3.0)
    assert torch.equal(hot == -torch.inf, ~is_live)
    torch.testing.assert_close(hot.exp().sum(dim=1), torch.ones(len(rows)))


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf"), float("nan")])
def test_impossible_temperatures_are_refused(temperature: float) -> None:
    """Dividing by zero makes every belief NaN far from its cause."""
    with pytest.raises(ValueError, match="positive, finite temperature"):
        TemperedReader(reader=LiveUniformReader(), temperature=temperature)


def test_too_few_hands_are_refused() -> None:
    """A half of one hand has no interval to decide by."""
    reads = HandEncoder().encode_hands(hands.random_hands(9, 3, num_players=2))[0]
    with pytest.raises(NothingToScoreError, match="at least 4 hands"):
        fit_temperature(LiveUniformReader(), reads, generator=np.random.default_rng(0))
