"""The readers that ignore the betting: what they learn, what card removal leaves of it, and what they refuse."""

import math

import numpy as np
import pytest
import torch

from range_reader_core import cards
from range_reader_core.baselines import LiveUniformReader, StaticRangeReader
from range_reader_core.batching import Batch
from range_reader_core.encoder import HandEncoder
from range_reader_core.metrics import live_floor, score_positions
from range_reader_core.reads import Reads
from tests.core import hands

BATCH = Batch(
    tokens=torch.zeros((1, 1), dtype=torch.int64),
    values=torch.zeros((1, 1)),
    targets=torch.zeros(1, dtype=torch.int64),
    read_index=torch.zeros(1, dtype=torch.int64),
)
ROWS = torch.zeros(3, dtype=torch.int64)


def _is_live(*dead_cards: str) -> torch.Tensor:
    dead = [cards.parse_card(name) for name in dead_cards]
    return torch.from_numpy(~cards.COMBO_HAS_CARD[:, dead].any(axis=1))


def _three_positions() -> torch.Tensor:
    return torch.stack([_is_live(), _is_live("As", "Kd"), _is_live("As", "Kd", "2c", "7d", "Ts")])


def _reads() -> Reads:
    return HandEncoder().encode_hands([hands.three_way_showdown(), hands.heads_up_run_out()])[0]


def test_uniform_reader_scores_the_live_floor() -> None:
    """The row printed as the honest floor must be the floor, position by position."""
    is_live = _three_positions()
    logp = LiveUniformReader().position_logp(BATCH, ROWS, ROWS, is_live)
    truth = torch.tensor([cards.combo_index(cards.parse_card("Ah"), cards.parse_card("Kh"))] * 3)
    scored = score_positions(logp, truth, is_live).columns().numpy()
    np.testing.assert_allclose(scored, live_floor(np.array([1326, 1225, 1081])), rtol=0, atol=1e-12)


def test_a_villain_counts_once_a_hand() -> None:
    """Counting reads would weigh a six-handed villain five times a heads-up one for the same evidence."""
    reads = _reads()
    assert reads.num_reads == 8  # three villains seen from two seats each, two villains seen from one
    counts = StaticRangeReader.fit(reads).class_counts
    expected = {"AA": 2.0, "98s": 1.0, "TT": 1.0, "KK": 1.0}
    assert {cards.CLASS_NAMES[i]: counts[i] for i in np.flatnonzero(counts)} == expected


def test_counts_are_spread_over_the_combos_of_a_class_and_smoothed() -> None:
    """A class of twelve combos has its count shared by twelve; a class never seen must stay possible."""
    counts = np.zeros(cards.NUM_CLASSES)
    counts[cards.CLASS_NAMES.index("AKo")] = 100.0
    prior = np.exp(StaticRangeReader(class_counts=counts, smoothing_counts=13.26).combo_logp())
    seen = cards.combo_index(cards.parse_card("Ah"), cards.parse_card("Kd"))
    unseen = cards.combo_index(cards.parse_card("Ah"), cards.parse_card("Kh"))
    assert prior[seen] == pytest.approx((100 / 12 + 0.01) / 113.26)
    assert prior[unseen] == pytest.approx(0.01 / 113.26)
    assert prior.sum() == pytest.approx(1.0)


def test_card_removal_takes_combos_and_renormalises() -> None:
    """A baseline that ignores visible cards is weaker than it should be and flatters the model."""
    reader = StaticRangeReader.fit(_reads())
    is_live = _three_positions()
    logp = reader.position_logp(BATCH, ROWS, ROWS, is_live)
    assert torch.equal(logp == -torch.inf, ~is_live)
    torch.testing.assert_close(logp.exp().sum(dim=1), torch.ones(3), rtol=0, atol=1e-5)
    prior = reader.combo_logp()
    aces = [cards.combo_index(cards.parse_card(a), cards.parse_card(b)) for a, b in (("Ac", "Ad"), ("Ad", "Ah"))]
    live = is_live[1].numpy()
    assert logp[1, aces[0]].item() == pytest.approx(prior[aces[0]] - math.log(np.exp(prior[live]).sum()), abs=1e-5)
    assert logp[1, aces[0]] == logp[1, aces[1]]  # ties of a class stay exact, or ranks would depend on rounding


def test_nothing_to_learn_from_is_refused() -> None:
    """A static range of nothing is the uniform one under a name that promises more."""
    with pytest.raises(ValueError, match="no training reads"):
        StaticRangeReader.fit(_reads().take(np.zeros(0, dtype=np.int64)))


@pytest.mark.parametrize("counts", [np.zeros(168), np.full(169, -1.0), np.full(169, np.nan)])
def test_broken_counts_are_refused(counts: np.ndarray) -> None:
    """A NaN count would make every probability NaN far from its cause."""
    with pytest.raises(ValueError, match="169 finite counts"):
        StaticRangeReader(class_counts=counts)


def test_smoothing_must_leave_every_combo_possible() -> None:
    """Without smoothing one unseen class makes the mean loss infinite."""
    with pytest.raises(ValueError, match="smoothing_counts must be positive"):
        StaticRangeReader(class_counts=np.ones(169), smoothing_counts=0.0)
