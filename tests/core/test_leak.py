"""The leak rule: deal the hidden seats other live cards and encode again; inputs are bit-identical, only targets change."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from range_reader_core.encoder import HandEncoder, augment_hand
from range_reader_core.hand import LabelSource
from range_reader_core.redeal import deal_again
from tests.core.hands import random_hand, random_hands

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=150, deadline=None)
@given(seed=SEEDS, num_players=st.integers(2, 16), deal=SEEDS)
def test_one_read_does_not_depend_on_hidden_cards(seed: int, num_players: int, deal: int) -> None:
    """A hidden card in an input is a model that wins in the lab and knows nothing at the table."""
    rng = np.random.default_rng(deal)
    hand = random_hand(np.random.default_rng(seed), num_players, hand_id="tests#leak")
    villain, perspective = (int(seat) for seat in rng.choice(num_players, 2, replace=False))
    encoder = HandEncoder()
    expected = encoder.encode(hand, villain, perspective)
    other = encoder.encode(deal_again(hand, perspective, rng), villain, perspective)
    assert other.tokens.tobytes() == expected.tokens.tobytes()
    assert other.values.tobytes() == expected.values.tobytes()
    nothing_seen = encoder.encode(hand, villain, None)
    other = encoder.encode(deal_again(hand, None, rng), villain, None)
    assert other.tokens.tobytes() == nothing_seen.tokens.tobytes()
    assert other.values.tobytes() == nothing_seen.values.tobytes()


def test_the_reads_of_many_hands_do_not_depend_on_hidden_cards() -> None:
    """The same for the path that makes the shards, which gathers visible combos for whole files at once."""
    rng = np.random.default_rng(11)
    hands = random_hands(11, 120)
    encoder = HandEncoder()
    reads, _ = encoder.encode_hands(hands)
    num_compared = num_other_targets = 0
    for seat in range(max(hand.num_players for hand in hands)):
        again = [deal_again(hand, seat, rng) if seat < hand.num_players else hand for hand in hands]
        other, _ = encoder.encode_hands(again)
        assert np.array_equal(other.offsets, reads.offsets), "who is read does not depend on cards"
        for index in np.flatnonzero(reads.perspective_seat == seat).tolist():
            assert other.read(index)[0].tobytes() == reads.read(index)[0].tobytes()
            assert other.read(index)[1].tobytes() == reads.read(index)[1].tobytes()
            num_compared += 1
            num_other_targets += int(other.villain_combo[index] != reads.villain_combo[index])
    assert num_compared == reads.num_reads > 500
    assert num_other_targets > 0.98 * num_compared, "the deal was another one"


def test_results_and_shows_are_no_inputs() -> None:
    """Who won and who showed comes after the last decision."""
    rng = np.random.default_rng(12)
    encoder = HandEncoder()
    num_compared = 0
    for hand in random_hands(12, 60):
        again = replace(
            hand,
            collected=tuple(rng.permutation(hand.collected).tolist()),
            label_sources=(LabelSource.SHOWN,) * hand.num_players,
            content_hash="other",
            tags=frozenset({"other"}),
        )
        for villain, perspective in augment_hand(hand):
            expected, other = encoder.encode(hand, villain, perspective), encoder.encode(again, villain, perspective)
            assert other.tokens.tobytes() == expected.tokens.tobytes()
            assert other.values.tobytes() == expected.values.tobytes()
            num_compared += 1
    assert num_compared > 100
