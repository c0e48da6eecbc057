"""Reliability of known forecasts by hand, its groups, its blocks, and what chance alone would show."""

import numpy as np
import pytest
import torch

from range_reader_core import cards
from range_reader_core.baselines import LiveUniformReader
from range_reader_core.batching import Batch
from range_reader_core.calibration import COMBO, FORECASTS, OPPONENTS, ReliabilityCurve, ReliabilitySums, format_calibration
from range_reader_core.encoder import HandEncoder
from range_reader_core.evaluation import NothingToScoreError, Reader, evaluate
from range_reader_core.lines import num_opponents
from range_reader_core.masks import STREETS, is_supervised, street_at
from range_reader_core.metrics import TOP_KS
from range_reader_core.reads import Reads
from range_reader_core.tables import TOTAL
from tests.core import hands


class HintReader:
    """Gives the truth ``boast`` and shares the rest; with ``honesty`` below 1 it names a wrong combo in every other hand."""

    name = "hint"

    def __init__(self, boast: float, *, is_honest: bool) -> None:
        """Remember how to answer."""
        self._boast = boast
        self._is_honest = is_honest

    def position_logp(self, batch: Batch, rows: torch.Tensor, positions: torch.Tensor, is_live: torch.Tensor) -> torch.Tensor:
        """Return log-probabilities, float32."""
        named = batch.targets[rows]
        if not self._is_honest:
            wrong = (is_live.long().cumsum(1) == 7).long().argmax(dim=1)  # the seventh live combo
            named = torch.where(batch.read_index[rows] % 2 == 0, named, wrong)
        rest = (1 - self._boast) / (is_live.sum(dim=1, keepdim=True) - 1)
        probability = rest.expand(is_live.shape).scatter(1, named[:, None], self._boast)
        return probability.masked_fill(~is_live, 0.0).float().log()


def _reads(num_hands: int = 24) -> Reads:
    return HandEncoder().encode_hands(hands.random_hands(6, num_hands, num_players=3))[0]


def _curves(reader: Reader, reads: Reads, *, batch_reads: int = 64) -> dict[tuple[str, str], ReliabilityCurve]:
    sums = ReliabilitySums(reader.name, reads, generator=np.random.default_rng(0))
    evaluate([reader], reads, batch_reads=batch_reads, observers=[sums.observe])
    curves = sums.curves(generator=np.random.default_rng(1))
    return {(curve.forecast, curve.group): curve for curve in curves}


def test_a_forecast_that_comes_true_as_often_as_it_says_has_no_error_in_its_bin() -> None:
    """Half of the reads get what was promised with 0.5: promised and happened must agree in that bin."""
    reads = _reads()
    even = reads.take(np.arange(reads.num_reads // 2 * 2))
    curve = _curves(HintReader(0.5, is_honest=False), even)[COMBO, TOTAL]
    top = curve.bins[-1]
    assert top.low <= 0.5 < top.high
    assert top.promised == pytest.approx(0.5, abs=1e-6)
    assert top.num_forecasts == curve.num_positions
    assert 0.3 < top.happened.mean < 0.7
    assert top.happened.interval is not None
    assert top.happened.interval.low <= top.happened.mean <= top.happened.interval.high


def test_the_error_is_the_mass_promised_wrongly() -> None:
    """By hand: 0.2 on a truth that always happens leaves 0.8 too little there and 0.8 too much elsewhere."""
    curves = _curves(HintReader(0.2, is_honest=True), _reads())
    curve = curves[COMBO, TOTAL]
    assert curve.error.mean == pytest.approx(1.6, abs=1e-5)
    for k in TOP_KS:
        num_live = (52 - 2) * 51 / 2  # about; the mass of the others depends on it
        promised = 0.2 + 0.8 * (k - 1) / num_live
        assert curves[f"top{k}", TOTAL].error.mean == pytest.approx(1 - promised, abs=0.02)
        assert curves[f"top{k}", TOTAL].bins[0].happened.mean == 1.0


def test_a_uniform_belief_is_reliable() -> None:
    """Its error must be of the size that chance makes, or the error measures something else."""
    reads = _reads(60)
    curves = _curves(LiveUniformReader(), reads)
    curve = curves[COMBO, TOTAL]
    assert sum(part.num_forecasts for part in curve.bins) > 1000 * curve.num_positions
    assert sum(part.promised * part.num_forecasts for part in curve.bins) == pytest.approx(curve.num_positions, rel=1e-6)
    assert sum(part.happened.mean * part.num_forecasts for part in curve.bins) == pytest.approx(curve.num_positions, rel=1e-9)
    assert curve.chance_error is not None
    assert curve.error.interval is not None
    assert curve.error.mean < 1e-5
    assert curve.error.interval.high < 1e-5
    top = curves["top128", TOTAL]
    assert top.bins[0].happened.mean == pytest.approx(top.bins[0].promised, abs=1e-6)  # ties share a rank, so exactly


def test_groups_hold_the_positions_of_their_street_and_opponents() -> None:
    """A position in the wrong group hides where a reader is overconfident."""
    reads = _reads()
    curves = _curves(LiveUniformReader(), reads)
    stream = torch.from_numpy(hands.pad_tokens(reads))
    is_read = is_supervised(stream)
    streets, opponents = street_at(stream)[is_read], num_opponents(stream)[is_read]
    for index, name in enumerate(STREETS):
        assert curves[COMBO, name].num_positions == int((streets == index).sum())
    for index, name in enumerate(OPPONENTS[:3]):
        assert curves[COMBO, name].num_positions == int((opponents == index).sum())
    assert (COMBO, OPPONENTS[4]) not in curves  # three-handed tables have no such position
    assert {forecast for forecast, _ in curves} == set(FORECASTS)
    assert curves[COMBO, TOTAL].num_positions == int(is_read.sum())


def test_sums_do_not_depend_on_batches_and_records_are_flat() -> None:
    """Batches are cut by length; their size must not show."""
    reads = _reads()
    one, other = (_curves(HintReader(0.3, is_honest=False), reads, batch_reads=size) for size in (5, 64))
    assert one.keys() == other.keys()
    for key, curve in one.items():
        assert curve.error.mean == pytest.approx(other[key].error.mean, abs=1e-9)
    records = one[COMBO, TOTAL].records()
    assert len(records) == len(one[COMBO, TOTAL].bins)
    assert {type(value) for value in records[-1].values()} <= {str, int, float, type(None)}


def test_other_readers_are_passed_over() -> None:
    """Sums of two readers mixed belong to neither."""
    reads = _reads(6)
    sums = ReliabilitySums("second", reads, generator=np.random.default_rng(0), reader=1)
    evaluate([HintReader(0.2, is_honest=True), LiveUniformReader()], reads, observers=[sums.observe])
    curves = sums.curves(generator=np.random.default_rng(0))
    assert curves[0].num_positions == int(is_supervised(torch.from_numpy(hands.pad_tokens(reads))).sum())
    assert max(part.high for part in curves[0].bins) < 2e-3


def test_a_bin_with_few_truths_has_no_interval_and_one_hand_no_spread() -> None:
    """Two truths of a million resample to nothing, and one hand says nothing about others."""
    reads = HandEncoder().encode_hands([hands.three_way_showdown()])[0]
    curves = _curves(LiveUniformReader(), reads)
    curve = curves[COMBO, TOTAL]
    assert curve.error.interval is None
    assert curve.chance_error is None
    assert all(part.happened.interval is None for part in curve.bins)


def test_nothing_counted_is_refused() -> None:
    """No positions is no calibration, not a perfect one."""
    sums = ReliabilitySums("none", _reads(3), generator=np.random.default_rng(0))
    with pytest.raises(NothingToScoreError, match="no position was scored"):
        sums.curves(generator=np.random.default_rng(0))


def test_dead_combos_make_no_forecast() -> None:
    """Counting impossible combos as right forecasts of zero flatters every reader."""
    reads = HandEncoder().encode_hands([hands.heads_up_run_out()])[0]
    curves = _curves(LiveUniformReader(), reads)
    river = curves[COMBO, "river"]
    # The last two positions of both reads: the river mark still shows four board cards, then five and two hole cards.
    assert sum(part.num_forecasts for part in river.bins) == 2 * (46 * 45 // 2 + 45 * 44 // 2)
    assert cards.NUM_COMBOS > 46 * 45 // 2


def test_text_has_a_row_a_group_with_what_was_promised_and_what_happened() -> None:
    """A boaster must be seen through in the table that people read."""
    by_key = _curves(HintReader(0.5, is_honest=False), _reads())
    text = format_calibration(list(by_key.values()), note="some reads")
    header, *rows = text.splitlines()[3:]
    groups = list(dict.fromkeys(curve.group for curve in by_key.values()))
    assert [row[: len(group)] for row, group in zip(rows[1:], groups, strict=True)] == groups
    assert header.split()[-4:] == [f"top{k}" for k in TOP_KS]
    top = by_key["top16", TOTAL]
    assert f"{top.promised:.3f} > {top.happened:.3f}" in rows[1]
    num = sum(part.num_forecasts for part in top.bins)
    assert top.promised == pytest.approx(sum(part.promised * part.num_forecasts for part in top.bins) / num)
    assert "calibration of hint (some reads)" in text
