"""Ranges for agents cover the live seats, and worlds follow the product of the ranges given that no card is dealt twice."""

import itertools
from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest

from range_reader_core import cards
from range_reader_core.estimator import OpponentRanges, estimate, estimate_session, sample_worlds
from range_reader_core.session import HandSession
from tests.core import hands
from tests.core.readers import random_reader


def _range(**weights: float) -> npt.NDArray[np.float64]:
    """Return a range from the weights of single combos, such as ``AhAd=2``."""
    belief = np.zeros(cards.NUM_COMBOS)
    for name, weight in weights.items():
        belief[cards.combo_index(*hands.parse_hole(name))] = weight
    return belief / belief.sum()


def _ranges(*beliefs: npt.NDArray[np.float64] | None) -> OpponentRanges:
    return OpponentRanges(perspective=None, by_seat=beliefs)


def _enumerated(ranges: OpponentRanges) -> dict[tuple[int, ...], float]:
    """Return the probability of every deal without a conflict, by brute force."""
    beliefs = [belief for belief in ranges.by_seat if belief is not None]
    joint = {}
    for combos in itertools.product(*(np.flatnonzero(belief).tolist() for belief in beliefs)):
        dealt = [card for combo in combos for card in cards.combo_cards(combo)]
        if len(set(dealt)) == len(dealt):
            joint[combos] = float(np.prod([belief[combo] for belief, combo in zip(beliefs, combos, strict=True)]))
    total = sum(joint.values())
    return {combos: weight / total for combos, weight in joint.items()}


ACES = {"AsAh": 1.0, "AsAd": 1.0, "AhAd": 1.0}  # the hero holds the ace of clubs
SMALL_CASES = [
    _ranges(None, _range(AhAd=3, KhKd=1, AhKh=2), _range(AhKd=1, QsQd=1, KhQs=4)),
    _ranges(_range(**ACES, KsKh=5), _range(**ACES, KsQs=2), None, _range(**ACES, QsQh=1, Th9h=1)),
    _ranges(_range(AhKh=1)),
]
CONCENTRATED = _ranges(*(_range(**ACES, **{name: 0.3, "8h7h": 0.1}) for name in ("KsKh", "KdKc", "QsQh", "Th9h")))


@pytest.mark.parametrize("ranges", SMALL_CASES)
def test_worlds_are_exact_draws_from_the_joint_distribution(ranges: OpponentRanges) -> None:
    """Dealing seat after seat would give the last seat too few aces; a CFR agent would solve another game."""
    num_worlds = 40_000
    worlds = sample_worlds(ranges, num_worlds, np.random.default_rng(1))
    assert worlds.is_exact
    assert worlds.seats == ranges.seats
    expected, seen = _enumerated(ranges), Counter(map(tuple, worlds.combos.tolist()))
    assert seen.keys() <= expected.keys()
    for combos, probability in expected.items():
        error = (probability * (1 - probability) / num_worlds) ** 0.5
        assert abs(seen[combos] / num_worlds - probability) <= 4.5 * error + 1e-12


def test_the_joint_distribution_is_not_that_of_dealing_in_turn() -> None:
    """The test above must be able to tell the two apart."""
    expected = _enumerated(SMALL_CASES[1])
    aces = set(np.flatnonzero(_range(**ACES)).tolist())
    first_holds_aces = sum(probability for combos, probability in expected.items() if combos[0] in aces)
    assert abs(first_holds_aces - 3 / 8) > 0.05  # what seat 0 alone is believed to hold


def test_worlds_of_concentrated_ranges_are_resampled_and_close() -> None:
    """Four seats that all seem to hold aces must neither hang an agent nor skew its deals."""
    num_worlds = 2_000
    worlds = sample_worlds(CONCENTRATED, num_worlds, np.random.default_rng(2))
    assert not worlds.is_exact
    expected, seen = _enumerated(CONCENTRATED), Counter(map(tuple, worlds.combos.tolist()))
    assert seen.keys() <= expected.keys()
    for combos, probability in expected.items():
        assert abs(seen[combos] / num_worlds - probability) < 0.04


def test_worlds_of_wide_ranges_hold_no_card_twice() -> None:
    """Nine seats share 18 cards, and most independent draws collide."""
    generator = np.random.default_rng(3)
    wide = [generator.random(cards.NUM_COMBOS) for _ in range(8)]
    worlds = sample_worlds(_ranges(*(belief / belief.sum() for belief in wide)), 200, generator)
    dealt = cards.COMBO_CARDS[worlds.combos].reshape(200, -1)
    assert all(len(set(row)) == 16 for row in dealt.tolist())


def test_worlds_repeat_with_the_generator() -> None:
    """Chance enters through the generator alone."""
    first, second = (sample_worlds(SMALL_CASES[0], 50, np.random.default_rng(5)).combos for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_ranges_that_leave_each_other_nothing_are_refused() -> None:
    """There is no such deal, so there is nothing to return."""
    with pytest.raises(ValueError, match="leave each other nothing"):
        sample_worlds(_ranges(_range(**ACES), _range(**ACES)), 1, np.random.default_rng(0))
    with pytest.raises(ValueError, match="at least one seat"):
        sample_worlds(_ranges(None, None), 1, np.random.default_rng(0))
    with pytest.raises(ValueError, match="seat 1 is no distribution"):
        _ranges(None, np.ones(cards.NUM_COMBOS))


def test_estimate_covers_every_other_live_seat() -> None:
    """A folded seat has no range, and neither has the one that asks."""
    reader, hand = random_reader(), hands.three_way_showdown()
    ranges = estimate(reader, hand, 2)  # seat 1 folded
    assert ranges.seats == (0,)
    assert ranges.by_seat[1] is None
    np.testing.assert_allclose(ranges.by_seat[0], reader.belief(hand, 0, 2), rtol=0, atol=1e-9)
    assert estimate(reader, hand, None).seats == (0, 2)


def test_a_session_estimates_the_same() -> None:
    """Agents that keep a session and agents that ask afresh must get one answer."""
    reader, hand = random_reader(), hands.random_hands(4, 1, num_players=5)[0]
    asked = estimate(reader, hand, 1)
    played = estimate_session(HandSession(reader.model, hand, 1))
    assert asked.seats == played.seats
    for seat in asked.seats:
        np.testing.assert_allclose(asked.by_seat[seat], played.by_seat[seat], rtol=0, atol=1e-6)


def test_worlds_of_an_estimate_avoid_the_cards_in_sight() -> None:
    """A deal that repeats a board card cannot be played out."""
    reader, hand = random_reader(), hands.three_way_showdown()
    worlds = sample_worlds(estimate(reader, hand, 1), 500, np.random.default_rng(0))
    seen = {*hand.board, *(hand.hole_cards[1] or ())}
    assert not seen & set(cards.COMBO_CARDS[worlds.combos].flatten().tolist())
