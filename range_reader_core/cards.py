"""Cards, combos, classes and the 24 suit relabelings, each with its one fixed order.

A card is ``rank * 4 + suit`` (rank 0 is the deuce, suits in the order of ``SUITS``), so ``card // 4`` is its rank.
A combo is an unordered pair of cards ``lo < hi`` numbered ``hi * (hi - 1) / 2 + lo``. A class is one of the 169
strategically distinct starting hands before the flop. Nothing here knows tokens, hands or files; ``ORDER_HASH``
pins every order, and checkpoints store it because equal sizes prove nothing.
"""

import hashlib
from itertools import permutations
from typing import Final

import numpy as np
import numpy.typing as npt

RANKS: Final = "23456789TJQKA"
SUITS: Final = "cdhs"
NUM_CARDS: Final = 52
NUM_COMBOS: Final = 1326
NUM_CLASSES: Final = 169
NUM_RELABELINGS: Final = 24

SHAPE_PAIR: Final = 0
SHAPE_SUITED: Final = 1
SHAPE_OFFSUIT: Final = 2


def parse_card(text: str) -> int:
    """Return the card 0..51 that a two-character name such as ``"Ts"`` denotes.

    Raises:
        ValueError: the text is not a rank of ``RANKS`` followed by a suit of ``SUITS``.
    """
    card = CARD_BY_NAME.get(text)
    if card is None:
        msg = f"expected a card such as 'Ts' (ranks {RANKS}, suits {SUITS}), got {text!r}"
        raise ValueError(msg)
    return card


def format_card(card: int) -> str:
    """Return the two-character name of a card, rank first."""
    return CARD_NAMES[card]


def combo_index(first: int, second: int) -> int:
    """Return the combo 0..1325 of two different cards, in either order.

    Raises:
        ValueError: the cards are equal or outside 0..51.
    """
    lo, hi = (first, second) if first < second else (second, first)
    if not 0 <= lo < hi < NUM_CARDS:
        msg = f"expected two different cards in 0..51, got {first} and {second}"
        raise ValueError(msg)
    return hi * (hi - 1) // 2 + lo


def combo_cards(combo: int) -> tuple[int, int]:
    """Return the two cards of a combo, the lower first."""
    lo, hi = COMBO_CARDS[combo]
    return int(lo), int(hi)


def format_combo(combo: int) -> str:
    """Return a combo's name with the higher card first, such as ``"AhKd"``."""
    lo, hi = combo_cards(combo)
    return CARD_NAMES[hi] + CARD_NAMES[lo]


def relabel_card(card: int, relabeling: int) -> int:
    """Return the card after one of the 24 suit relabelings."""
    return int(PERM_CARD[relabeling, card])


def _combo_cards() -> npt.NDArray[np.int64]:
    pairs = [(lo, hi) for hi in range(NUM_CARDS) for lo in range(hi)]
    return np.array(pairs, dtype=np.int64)  # (1326, 2)


def _class_names() -> tuple[str, ...]:
    """Name the 169 classes in the row-major order of the usual 13x13 grid: aces first, suited above the diagonal."""
    order = range(len(RANKS) - 1, -1, -1)
    names = []
    for row in order:
        for col in order:
            hi, lo = max(row, col), min(row, col)
            suffix = "" if row == col else ("s" if row > col else "o")
            names.append(RANKS[hi] + RANKS[lo] + suffix)
    return tuple(names)


def _combo_shape() -> npt.NDArray[np.int64]:
    lo, hi = COMBO_CARDS[:, 0], COMBO_CARDS[:, 1]
    is_pair = lo // 4 == hi // 4
    is_suited = lo % 4 == hi % 4
    return np.where(is_pair, SHAPE_PAIR, np.where(is_suited, SHAPE_SUITED, SHAPE_OFFSUIT)).astype(np.int64)


def _combo_class() -> npt.NDArray[np.int64]:
    # In the grid a suited hand has its higher rank as the row; ranks count down from the ace.
    hi_row = len(RANKS) - 1 - COMBO_CARDS[:, 1] // 4
    lo_row = len(RANKS) - 1 - COMBO_CARDS[:, 0] // 4
    is_suited = COMBO_SHAPE == SHAPE_SUITED
    row = np.where(is_suited, hi_row, lo_row)
    col = np.where(is_suited, lo_row, hi_row)
    return (row * len(RANKS) + col).astype(np.int64)


def _combo_has_card() -> npt.NDArray[np.bool_]:
    has = np.zeros((NUM_COMBOS, NUM_CARDS), dtype=np.bool_)
    has[np.arange(NUM_COMBOS)[:, None], COMBO_CARDS] = True
    return has


def _perm_card() -> npt.NDArray[np.int64]:
    cards = np.arange(NUM_CARDS)
    return (cards // 4)[None, :] * 4 + SUIT_RELABELINGS[:, cards % 4]  # (24, 52)


def _order_hash() -> str:
    text = "|".join([*CARD_NAMES, *(format_combo(c) for c in range(NUM_COMBOS)), *CLASS_NAMES, str(SUIT_RELABELINGS.tolist())])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


CARD_NAMES: Final = tuple(rank + suit for rank in RANKS for suit in SUITS)
CARD_BY_NAME: Final = {name: card for card, name in enumerate(CARD_NAMES)}
COMBO_CARDS: Final = _combo_cards()  # (1326, 2), lo < hi
COMBO_SHAPE: Final = _combo_shape()  # (1326,), SHAPE_PAIR | SHAPE_SUITED | SHAPE_OFFSUIT
CLASS_NAMES: Final = _class_names()  # 169 names
COMBO_CLASS: Final = _combo_class()  # (1326,), index into CLASS_NAMES
COMBO_HAS_CARD: Final = _combo_has_card()  # (1326, 52)
SUIT_RELABELINGS: Final = np.array(list(permutations(range(4))), dtype=np.int64)  # (24, 4): old suit -> new suit, identity first
PERM_CARD: Final = _perm_card()  # (24, 52): old card -> new card
ORDER_HASH: Final = _order_hash()
