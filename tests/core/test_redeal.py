"""Dealing again changes the hidden cards that are known, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from range_reader_core.encoder import HandEncoder
from range_reader_core.redeal import count_leaks, deal_again
from tests.core.hands import random_hands


def test_a_second_deal_is_a_legal_one_of_the_same_hand() -> None:
    """A card twice, or another board, would make the leak check compare what cannot happen."""
    rng = np.random.default_rng(3)
    num_moved = 0
    for hand in random_hands(3, 50):
        hidden = replace(hand, hole_cards=(None, *hand.hole_cards[1:]), label_sources=(None, *hand.label_sources[1:]))
        again = deal_again(hidden, 1, rng)
        dealt = [card for hole in again.hole_cards if hole for card in hole]
        assert len({*dealt, *again.board}) == len(dealt) + len(again.board)
        assert (again.hole_cards[0], again.hole_cards[1]) == (None, hand.hole_cards[1])
        assert (again.events, again.board) == (hand.events, hand.board)
        num_moved += again.hole_cards[2:] != hand.hole_cards[2:]
    assert num_moved > 20
    with pytest.raises(ValueError, match="cannot be kept"):
        deal_again(hidden, 0, rng)


def test_reads_that_are_not_stored_or_not_alike_are_not_counted_as_compared() -> None:
    """A check that compared nothing must not look as if it had."""
    hands = random_hands(4, 10)
    nothing = count_leaks(hands, lambda _: None, np.random.default_rng(4))
    assert (nothing.num_compared, nothing.num_not_alike) == (0, 0)
    unlike = count_leaks(hands, lambda _: (b"", b""), np.random.default_rng(4))
    reads, _ = HandEncoder().encode_hands(hands)
    assert (unlike.num_compared, unlike.num_not_alike, unlike.leaks) == (0, reads.num_reads, ())
