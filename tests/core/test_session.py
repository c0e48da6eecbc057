"""A session answers what a full forward would answer, event by event, and refuses what cannot happen."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from range_reader_core import cards
from range_reader_core.checkpoint import CheckpointSidecar
from range_reader_core.hand import CanonicalHand, Event, EventKind
from range_reader_core.inference import RangeReader, ReadRequest
from range_reader_core.session import HandSession, hand_so_far, live_seats
from tests.core import hands
from tests.core.readers import open_session, random_model, random_reader

TOLERANCE = 1e-4


def _check_every_step(
    reader: RangeReader, hand: CanonicalHand, perspective: int | None, num_relabelings: int = 1, every: int = 1
) -> int:
    """Compare a session with full forwards wherever both answer; returns the number of beliefs compared."""
    villains = [seat for seat in range(hand.num_players) if seat != perspective]
    requests = [ReadRequest(hand=hand, villain=villain, perspective=perspective) for villain in villains]
    full = dict(zip(villains, reader.trajectories(requests, num_relabelings), strict=True))
    session = open_session(reader, hand, perspective, num_relabelings)
    length = 2 * hand.num_players + 3  # positions through the hole slots
    num_compared = 0
    for index, event in enumerate(hand.events):
        session.observe(event)
        length += 1 + len(event.board)
        if index % every or length > 96:
            continue
        beliefs = session.beliefs()
        assert set(beliefs) == set(live_seats(session.hand)) - {perspective}
        for villain, belief in beliefs.items():
            steps = {step.position: number for number, step in enumerate(full[villain].steps)}
            np.testing.assert_allclose(belief, full[villain].probabilities[steps[length - 1]], rtol=0, atol=TOLERANCE)
            num_compared += 1
    return num_compared


def test_a_session_equals_the_full_forward_at_every_step() -> None:
    """A cache that drifts from the model would give agents another reader than the one that was graded."""
    reader = random_reader()
    num_compared = sum(_check_every_step(reader, hand, perspective=0) for hand in hands.random_hands(21, 8))
    assert num_compared > 150


@pytest.mark.slow
def test_a_session_equals_the_full_forward_in_500_hands() -> None:
    """The same over enough hands to meet every table size, all-in run-outs and long betting."""
    reader = random_reader()
    num_compared = 0
    for number, hand in enumerate(hands.random_hands(22, 500)):
        num_compared += _check_every_step(reader, hand, perspective=number % hand.num_players)
    assert num_compared > 15_000


@pytest.mark.parametrize("num_relabelings", [1, 24])
def test_a_session_reads_at_the_temperature_of_the_checkpoint(num_relabelings: int) -> None:
    """An agent that asks a session must not be surer than one that asks for a belief."""
    model = random_model()
    reader = RangeReader(model, CheckpointSidecar(model=model.config, temperature=1.7), torch.device("cpu"))
    hand = hands.random_hands(29, 1, num_players=3)[0]
    assert _check_every_step(reader, hand, perspective=0, num_relabelings=num_relabelings) > 5


def test_a_session_averages_over_suits_like_belief() -> None:
    """Rows multiply when cards fall; taking a row's past from the wrong one shows only in some suits."""
    reader = random_reader()
    num_compared = 0
    for hand in hands.random_hands(23, 3, num_players=4):
        for perspective in (None, 1):
            num_compared += _check_every_step(reader, hand, perspective, num_relabelings=24)
    assert num_compared > 60


@pytest.mark.parametrize("every", [3, 100])
def test_what_is_asked_rarely_is_caught_up_with(every: int) -> None:
    """Events are forwarded when beliefs are asked for; many at once, over a board deal or a fold, must give the same."""
    reader = random_reader()
    for hand in hands.random_hands(24, 2, num_players=5):
        for num_relabelings in (1, 24):
            assert _check_every_step(reader, hand, perspective=1, num_relabelings=num_relabelings, every=every)


def test_rotary_models_and_flat_heads_are_read_alike() -> None:
    """Positions of new tokens count from the start of the stream, not of the pass."""
    reader = random_reader(random_model(head="flat", rope=True))
    assert sum(_check_every_step(reader, hand, perspective=0) for hand in hands.random_hands(25, 4))


def test_a_session_can_begin_in_the_middle_of_a_hand() -> None:
    """An agent that sits down to a hand history reads its past in one go."""
    reader, hand = random_reader(), hands.three_way_showdown()
    session = HandSession(reader.model, replace(hand, events=hand.events[:-1]), 2, num_relabelings=24)
    session.observe(hand.events[-1])
    beliefs = session.beliefs()
    assert set(beliefs) == {0}
    np.testing.assert_allclose(beliefs[0], reader.belief(hand, 0, 2), rtol=0, atol=1e-6)


def test_beyond_the_longest_stream_the_read_stays_and_dead_cards_still_go() -> None:
    """A stream is cut at 96 positions, yet an agent must never be told of a combo that lies on the table."""
    reader = random_reader()
    session = reader.session(stacks=[1e6, 1e6], button=0, big_blind=2.0, hero=0, hero_cards=(0, 5))
    for index in range(90):
        session.observe(Event(EventKind.RAISE, index % 2, 2.0))
    session.observe(Event(EventKind.FLOP, board=(8, 20, 33)))
    before = session.beliefs()[1]
    session.observe(Event(EventKind.CHECK, 1))
    session.observe(Event(EventKind.TURN, board=(50,)))
    belief = session.beliefs()[1]
    is_dead = cards.COMBO_HAS_CARD[:, [0, 5, 8, 20, 33, 50]].any(axis=1)
    assert (belief[is_dead] == 0.0).all()
    kept = np.where(is_dead, 0.0, before)
    np.testing.assert_allclose(belief, kept / kept.sum(), rtol=0, atol=1e-6)


def test_refused_events_leave_the_session_as_it_was() -> None:
    """A service that answers 400 must not have half an event in its cache."""
    reader = random_reader()
    session = reader.session(stacks=[100.0] * 3, button=0, big_blind=2.0, hero=0, hero_cards=(51, 47))
    with pytest.raises(ValueError, match="nothing happened after the hole cards"):
        session.beliefs()
    for text in ("blind@1 1", "blind@2 2", "raise@0 5", "fold@1"):
        session.observe(hands.parse_event(text))
    before = session.beliefs()
    for event, reason in (
        (Event(EventKind.CALL, 1, 4.0), "which has folded"),
        (Event(EventKind.CALL, 3, 4.0), "names seat 3"),
        (Event(EventKind.CALL, 2, float("nan")), "nan chips"),
        (Event(EventKind.TURN, board=(3,)), "TURN deals"),
        (Event(EventKind.FLOP, board=(3, 9, 51)), "a card appears twice"),
    ):
        with pytest.raises(ValueError, match=reason):
            session.observe(event)
    after = session.beliefs()
    assert set(after) == {2}
    np.testing.assert_array_equal(after[2], before[2])


def test_impossible_hands_are_refused() -> None:
    """A hero without cards or a seat that is not there must not come back as numbers."""
    reader = random_reader()
    with pytest.raises(ValueError, match="cards of perspective seat 1 are unknown"):
        reader.session(stacks=[100.0] * 3, button=0, big_blind=2.0, hero=1)
    with pytest.raises(ValueError, match=r"hole cards of seats \[3\]"):
        hand_so_far(stacks=[100.0] * 3, button=0, big_blind=2.0, hole_cards={3: (0, 1)})
    with pytest.raises(ValueError, match="num_relabelings"):
        reader.session(stacks=[100.0] * 3, button=0, big_blind=2.0, num_relabelings=7)
