"""Hand strength against worked boards, against the definition, and against an independent evaluator where one is installed."""

import importlib.util
from itertools import combinations

import numpy as np
import pytest

from range_reader_core import cards
from range_reader_core.strength import (
    DRAWS,
    NUM_STRENGTHS,
    board_draws,
    board_percentile,
    board_strength,
    hand_strength,
    is_on_board_live,
)

NUM_REFERENCE_HANDS = 20_000
IN_ORDER = [  # from the worst to the best
    "7c 5d 4h 3s 2c",
    "As Kd Qh Jc 9d",
    "2c 2d 3h 4s 5c",
    "Ah Ad Kc Qs Jh",
    "2c 2d 3h 3s 4c",
    "Ah Ad Kc Ks Qd",
    "2c 2d 2h 3s 4c",
    "Ah 2c 3d 4s 5h",
    "2c 3d 4s 5h 6c",
    "Ts Jd Qh Kc Ac",
    "2c 3c 4c 5c 7c",
    "Ah Kh Qh Jh 9h",
    "2c 2d 2h 3s 3c",
    "2c 2d 2h As Ac",
    "Ah Ad Ac Ks Kd",
    "2c 2d 2h 2s 3c",
    "Ah Ad Ac As Kd",
    "Ad 2d 3d 4d 5d",
    "Ts Js Qs Ks As",
]


def _cards(text: str) -> list[int]:
    return [cards.parse_card(name) for name in text.split()]


def _combo(text: str) -> int:
    return cards.combo_index(*_cards(text))


def _boards(rng: np.random.Generator, num: int, size: int) -> np.ndarray:
    return np.argsort(rng.random((num, cards.NUM_CARDS)), axis=1)[:, :size]


def test_hands_of_every_category_come_in_order() -> None:
    """One category out of place, or the wheel read as ace-high, misjudges every board it is on."""
    strengths = hand_strength(np.array([_cards(text) for text in IN_ORDER])).tolist()
    assert strengths == sorted(set(strengths))
    assert strengths[0] == 0
    assert strengths[-1] == NUM_STRENGTHS - 1


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("Kh Kd Ac 5s 4d 3h 2s", "Kh Kd Qc Js 9d 4h 2s"),  # a straight that needs no pair
        ("Ah Ad Kc Ks Qd Qh Js", "Ah Ad Kc Ks Td Th 9s"),  # three pairs: the third gives the kicker
        ("Ah Ad Ac Ks Kd Kh 2s", "Ah Ad Ac Qs Qd Qh Js"),  # two sets are a full house
        ("2h 2d 2c 2s Ad Ah Ac", "2h 2d 2c 2s Kd Kh Kc"),  # quads take the highest kicker, not the other trips
        ("Th 9h 8h 7h 6h Ah 2c", "Ah Kh Qh Jh 8h 3h 2c"),  # a straight flush below a higher flush
    ],
)
def test_the_best_five_of_seven_are_found(better: str, worse: str) -> None:
    """Seven cards hold more than one hand; the wrong five would still look like a hand."""
    strengths = hand_strength(np.array([_cards(better), _cards(worse)]))
    assert strengths[0] > strengths[1]


@pytest.mark.parametrize("size", [6, 7])
def test_more_cards_are_the_best_of_their_fives(size: int) -> None:
    """The tables are built by dropping cards; this is the definition that they must agree with."""
    hands = _boards(np.random.default_rng(1), 3000, size)
    fives = [hand_strength(hands[:, list(chosen)]) for chosen in combinations(range(size), 5)]
    np.testing.assert_array_equal(hand_strength(hands), np.max(fives, axis=0))


@pytest.mark.parametrize("size", [3, 4, 5])
def test_a_board_gives_each_combo_what_its_cards_give(size: int) -> None:
    """The board's short cut (91 pairs of ranks and one suit) must not lose a flush or a card order."""
    boards = _boards(np.random.default_rng(2), 40, size)
    boards[0, :3] = _cards("2h 9h Kh")  # a board with a flush on it for certain
    boards[1, :3] = _cards("Qs Js Ts")
    boards[:2, 3:] = np.array(_cards("4c 4d"))[: size - 3]
    strength = board_strength(boards)
    for board, row in zip(boards, strength, strict=True):
        live = np.flatnonzero(~np.isin(cards.COMBO_CARDS, board).any(axis=1))
        hands = np.concatenate([np.tile(board, (len(live), 1)), cards.COMBO_CARDS[live]], axis=1)
        np.testing.assert_array_equal(row[live], hand_strength(hands))
        assert len(live) == (52 - size) * (51 - size) // 2
        assert (np.delete(row, live) == -1).all()
    np.testing.assert_array_equal(strength >= 0, is_on_board_live(boards))
    lowest, highest = hand_strength(np.array([_cards("2c 3c 4c 5c 7c"), _cards("Ac Kc Qc Jc 9c")]))
    assert ((strength[0] >= lowest) & (strength[0] <= highest)).sum() >= 10 * 9 / 2  # any two of the ten hearts left


def test_strength_does_not_depend_on_suit_names_or_card_order() -> None:
    """A baseline that prefers a suit would be beaten for no reason."""
    rng = np.random.default_rng(3)
    boards = _boards(rng, 10, 4)
    strength = board_strength(boards)
    for relabeling in range(1, cards.NUM_RELABELINGS):
        perm = cards.PERM_CARD[relabeling]
        moved = np.sort(perm[cards.COMBO_CARDS], axis=1)
        combo = moved[:, 1] * (moved[:, 1] - 1) // 2 + moved[:, 0]
        np.testing.assert_array_equal(board_strength(rng.permuted(perm[boards], axis=1))[:, combo], strength)


def test_percentiles_are_shares_of_the_live_combos_beaten_with_ties_halved() -> None:
    """A percentile over dead combos, or one that breaks ties by combo number, cuts the buckets in the wrong place."""
    boards = np.array([_cards("2c 7d Ts Kh 3s"), _cards("Ts Js Qs Ks As")])
    percentile = board_percentile(boards)
    strength = board_strength(boards)
    for row, values in zip(strength, percentile, strict=True):
        live = row[row >= 0]
        for combo in (_combo("Ah Ad"), _combo("Kc Kd"), _combo("4h 2d"), _combo("9c 8c")):
            below, equal = (live < row[combo]).sum(), (live == row[combo]).sum()
            assert values[combo] == pytest.approx((below + equal / 2) / len(live), abs=1e-6)
        assert np.nanmean(values) == pytest.approx(0.5, abs=1e-6)
        np.testing.assert_array_equal(np.isnan(values), row < 0)
    # Three kings are the nuts: three combos share the top 3 of 1081. Nobody beats a royal flush on the board.
    assert percentile[0, _combo("Kc Kd")] == pytest.approx(1 - 1.5 / 1081, abs=1e-6)
    np.testing.assert_array_equal(percentile[1][strength[1] >= 0], np.float32(0.5))


def test_percentiles_of_many_boards_are_those_of_each() -> None:
    """Boards are taken in passes; a pass boundary must not show."""
    boards = _boards(np.random.default_rng(4), 130, 5)
    many = board_percentile(boards)
    for index in (0, 63, 64, 129):
        np.testing.assert_array_equal(board_percentile(boards[index : index + 1])[0], many[index])


@pytest.mark.parametrize(
    ("board", "combo", "draw"),
    [
        ("9c 8d 2h", "Js Ts", "open-ended"),
        ("9c 8d 2h", "Qs Ts", "gutshot"),
        ("9c 8d 2h", "Qs Js", "gutshot"),
        ("9c 8d 2h", "Ks 3s", "none"),
        ("9c 8c 2h", "Kc 3c", "flush draw"),
        ("9c 8c 2h", "Jc Tc", "flush draw"),  # counts as the greater draw
        ("9c 8c 2c", "Kc 3d", "flush draw"),  # one card of the suit will do
        ("9c 8c 2c", "Kc 3c", "none"),  # has the flush
        ("9c 8d 7h", "Js Ts", "none"),  # has the straight
        ("4c 3d 2h", "As 9d", "gutshot"),  # only a five makes the wheel
        ("Kc Qd Jh", "As 9d", "gutshot"),  # a ten, which both straights need
        ("Jc 9d 7h", "Ts 3d", "gutshot"),
        ("Jc 9d 7h Ks", "Ts 5d", "open-ended"),  # an eight or a queen
        ("Jc Td 9h 8s", "2c 3d", "none"),  # the board's own draw is everybody's
        ("9c 8c 2c Kc", "2d 3d", "none"),
    ],
)
def test_draws_are_what_one_more_card_makes_of_the_combo(board: str, combo: str, draw: str) -> None:
    """A made hand is no draw, and what the board draws to says nothing about the combo."""
    assert DRAWS[board_draws(np.array([_cards(board)]))[0, _combo(combo)]] == draw


def test_no_draw_is_left_on_the_river() -> None:
    """A missed flush draw on the river is a weak hand, not a draw."""
    assert not board_draws(np.array([_cards("9c 8c 2h Kd 3s")])).any()


@pytest.mark.parametrize("board", [[0, 1], [0, 1, 1], [0, 1, 52], [-1, 0, 1], [0, 1, 2, 3, 4, 5]])
def test_impossible_boards_are_refused(board: list[int]) -> None:
    """A padded board would silently rank another one."""
    with pytest.raises(ValueError, match="boards"):
        board_strength(np.array([board]))


@pytest.mark.parametrize("hand", [[0, 1, 2, 3], [0, 1, 2, 3, 3], [0, 1, 2, 3, 52]])
def test_impossible_hands_are_refused(hand: list[int]) -> None:
    """As for boards."""
    with pytest.raises(ValueError, match="hand_strength"):
        hand_strength(np.array([hand]))


@pytest.mark.skipif(importlib.util.find_spec("phevaluator") is None, reason="phevaluator is not installed")
@pytest.mark.parametrize("size", [5, 6, 7])
def test_classes_agree_with_an_independent_evaluator(size: int) -> None:
    """Every other test here was written by who wrote the tables; ``benchmarks/strength.py`` takes a million hands."""
    from phevaluator import evaluate_cards

    hands = _boards(np.random.default_rng(size), NUM_REFERENCE_HANDS // 2, size)
    reference = np.array([NUM_STRENGTHS - evaluate_cards(*hand) for hand in hands.tolist()])
    np.testing.assert_array_equal(hand_strength(hands), reference)
