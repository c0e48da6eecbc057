"""Card, combo and class orders, and the 24 suit relabelings on cards."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from range_reader_core import cards


def test_order_hash_is_pinned() -> None:
    """Old checkpoints and shards would be misread if a card, combo, class or relabeling were renumbered."""
    assert cards.ORDER_HASH == "9f095e6e4b71f99b"


def test_cards_round_trip_and_rank_is_the_quotient() -> None:
    """A suit-major card would silently give every embedding the wrong rank."""
    for card in range(cards.NUM_CARDS):
        name = cards.format_card(card)
        assert cards.parse_card(name) == card
        assert name[0] == "23456789TJQKA"[card // 4]
        assert name[1] == "cdhs"[card % 4]


@pytest.mark.parametrize("text", ["", "T", "10h", "th", "TS", "4sX", "??"])
def test_a_malformed_card_is_refused(text: str) -> None:
    """rs-poker accepts trailing junk; here it would become a wrong card."""
    with pytest.raises(ValueError, match="expected a card"):
        cards.parse_card(text)


def test_combos_number_all_pairs_once_in_either_order() -> None:
    """Two numberings of combos would make targets and masks disagree."""
    pairs = list(combinations(range(cards.NUM_CARDS), 2))
    assert {cards.combo_index(lo, hi) for lo, hi in pairs} == set(range(cards.NUM_COMBOS))
    for lo, hi in pairs:
        combo = cards.combo_index(lo, hi)
        assert combo == cards.combo_index(hi, lo)
        assert cards.combo_cards(combo) == (lo, hi)
        assert set(np.flatnonzero(cards.COMBO_HAS_CARD[combo])) == {lo, hi}


@pytest.mark.parametrize(("first", "second"), [(3, 3), (-1, 4), (0, 52)])
def test_a_pair_that_is_no_combo_is_refused(first: int, second: int) -> None:
    """An out-of-range card must not wrap around into another combo."""
    with pytest.raises(ValueError, match="two different cards"):
        cards.combo_index(first, second)


def test_classes_have_the_known_sizes_and_names() -> None:
    """The static range is fitted over classes; a misfiled combo would bias it."""
    sizes = Counter(cards.CLASS_NAMES[index] for index in cards.COMBO_CLASS)
    assert len(sizes) == cards.NUM_CLASSES
    for name, size in sizes.items():
        assert size == {"s": 4, "o": 12}.get(name[2:], 6), name
    for text, name in {"AhKh": "AKs", "KdAh": "AKo", "7c7s": "77", "2h7d": "72o"}.items():
        combo = cards.combo_index(cards.parse_card(text[:2]), cards.parse_card(text[2:]))
        assert cards.CLASS_NAMES[cards.COMBO_CLASS[combo]] == name


def test_shapes_agree_with_names() -> None:
    """The shape row of the embedding must be that of the combo."""
    by_suffix = {"": cards.SHAPE_PAIR, "s": cards.SHAPE_SUITED, "o": cards.SHAPE_OFFSUIT}
    for combo in range(cards.NUM_COMBOS):
        assert cards.COMBO_SHAPE[combo] == by_suffix[cards.CLASS_NAMES[cards.COMBO_CLASS[combo]][2:]]


def test_relabelings_are_all_permutations_of_the_suits_and_keep_ranks() -> None:
    """A relabeling that moved a rank would train on hands that were never played."""
    assert len({tuple(row) for row in cards.SUIT_RELABELINGS.tolist()}) == 24
    assert np.array_equal(cards.SUIT_RELABELINGS[0], np.arange(4))
    for relabeling in range(cards.NUM_RELABELINGS):
        moved = cards.PERM_CARD[relabeling]
        assert np.array_equal(np.sort(moved), np.arange(cards.NUM_CARDS))
        assert np.array_equal(moved // 4, np.arange(cards.NUM_CARDS) // 4)
        assert [cards.relabel_card(card, relabeling) for card in range(cards.NUM_CARDS)] == moved.tolist()
