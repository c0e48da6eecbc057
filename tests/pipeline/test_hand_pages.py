"""Claims about what the range page shows of a hand: which steps, with which words, board and baseline."""

import numpy as np
import torch

from range_reader_core import cards
from range_reader_core.encoder import HandEncoder
from range_reader_core.hand import CanonicalHand
from range_reader_core.masks import is_supervised
from range_reader_pipeline.hand_pages import baseline_belief, hand_page, hand_read, stream_steps
from range_reader_pipeline.range_page import HandRead
from tests.core.hands import heads_up_run_out, shown_cards_only, three_way_showdown
from tests.core.readers import random_reader


def _read(hand: CanonicalHand, villain: int, perspective: int | None) -> HandRead:
    read = HandEncoder().encode(hand, villain, perspective)
    trajectory = random_reader().trajectory(hand, villain, perspective)
    hole = hand.hole_cards[villain]
    return hand_read(
        read.tokens,
        read.values,
        [step.position for step in trajectory.steps],
        trajectory.probabilities,
        prior=np.full(cards.NUM_COMBOS, 1 / cards.NUM_COMBOS),
        title="t",
        description="d",
        hand_id=hand.hand_id,
        villain_seat=villain,
        perspective_seat=perspective,
        truth=None if hole is None else cards.combo_index(*hole),
    )


def test_steps_are_what_a_player_would_name() -> None:
    """Prevents a slider with a stop at every token: posts and the cards of a street are one step each."""
    steps = _read(three_way_showdown(), 2, 0).steps
    assert [step.label for step in steps] == [
        "blinds posted",
        "seat 0 raises +3 bb",
        "seat 1 calls 2.5 bb",
        "seat 2 calls 2 bb",
        "flop 2c 7d Ts",
        "seat 1 checks",
        "seat 2 checks",
        "seat 0 bets 4.5 bb",
        "seat 1 folds",
        "seat 2 calls 4.5 bb",
        "turn Kh",
        "seat 2 checks",
        "seat 0 checks",
        "river 3s",
        "seat 2 bets 10 bb",
        "seat 0 calls 10 bb",
    ]
    assert [len(step.board) for step in steps] == [0] * 4 + [3] * 6 + [4] * 3 + [5] * 3
    assert [step.label for step in _read(heads_up_run_out(), 0, 1).steps] == [
        "blinds posted",
        "seat 0 all-in +49.5 bb",
        "seat 1 all-in +29 bb",
        "flop 2c 7d Ts",
        "turn Kh",
        "river 3s",
    ]


def test_a_step_shows_the_belief_of_its_own_position_to_the_villains_fold() -> None:
    """Prevents a grid that is one event ahead of the betting line, and a read of a villain who has gone."""
    hand = three_way_showdown()
    steps = _read(hand, 1, 2).steps
    assert steps[-1].label == "seat 1 folds"
    trajectory = random_reader().trajectory(hand, 1, 2)
    described = {step.description: index for index, step in enumerate(trajectory.steps)}
    for label, description in (
        ("seat 1 calls 2.5 bb", "call@seat1 2.5 bb"),
        ("flop 2c 7d Ts", "board:Ts"),
        ("seat 1 folds", "fold@seat1"),
    ):
        (step,) = (step for step in steps if step.label == label)
        np.testing.assert_array_equal(step.belief, trajectory.probabilities[described[description]])


def test_the_baseline_knows_the_cards_in_sight_and_nothing_else() -> None:
    """Prevents a baseline that looks worse than it is for want of card removal, or better by the villain's cards."""
    read = _read(three_way_showdown(), 2, 0)
    seen = [*read.steps[-1].board, *(read.perspective_cards or ())]
    assert len(seen) == 7
    dead = cards.COMBO_HAS_CARD[:, seen].any(axis=1)
    baseline = read.steps[-1].baseline
    assert (baseline[dead] == 0).all()
    np.testing.assert_allclose(baseline[~dead], 1 / (~dead).sum())
    np.testing.assert_allclose(baseline_belief(np.arange(1326.0), []).sum(), 1.0)
    watched = _read(three_way_showdown(), 2, None)
    assert watched.perspective_cards is None
    assert (watched.steps[0].baseline > 0).all()


def test_streams_of_every_kind_have_steps_only_where_the_villain_is_read() -> None:
    """Prevents a step without a belief, such as a post before the villain's slot."""
    hand = three_way_showdown()
    read = HandEncoder().encode(hand, 1, 0)
    stream = torch.from_numpy(read.tokens.astype(np.int64))[None]
    positions = is_supervised(stream)[0].nonzero()[:, 0].tolist()
    labels = [step.label for step in stream_steps(read.tokens, read.values, positions)]
    later = stream_steps(read.tokens, read.values, positions[5:])
    assert labels[-len(later) :] == [step.label for step in later]
    assert len(later) < len(labels)
    assert stream_steps(read.tokens, read.values, []) == ()


def test_a_page_of_one_hand_says_who_reads_and_what_stands_beside_it() -> None:
    """Prevents a page that calls a uniform range static, or names a truth that nobody knows."""
    hand = shown_cards_only()
    reader = random_reader()
    page = hand_page(hand, reader.trajectory(hand, 1, None), villain=1, perspective=None, prior=None)
    assert "seat 1 read by a watcher" in page
    assert "Uniform range" in page
    assert '"truth":null' in page
    prior = np.arange(1.0, 1327.0)
    assert "Static range" in hand_page(hand, reader.trajectory(hand, 2, 0), villain=2, perspective=0, prior=prior)
