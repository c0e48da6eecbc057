"""How strong every combo is on a board: the rank of the best five of 5 to 7 cards, percentiles and draws.

Table-driven and vectorised over boards: which ranks a hand holds decides its value unless it is a flush, and a board has at most
one suit of three cards, so a board costs 91 look-ups and a copy to the 1326 combos. The values are the 7462 classes of five
cards, 0 the worst. Nothing here knows hands, seats or betting. A combo's percentile is taken among the combos that the board
leaves, as its holder sees it, so it is the same from every perspective.

Legend: ``G`` boards, ``N`` hands, ``C`` = 1326 combos.
"""

import functools
from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt

from range_reader_core import cards

NUM_STRENGTHS: Final = 7462
DRAWS: Final = ("none", "gutshot", "open-ended", "flush draw")
"""What one more card may make of a combo, the least first; a combo with two draws counts as the greater."""

_NUM_RANKS: Final = len(cards.RANKS)
_NUM_PAIRS: Final = _NUM_RANKS * (_NUM_RANKS + 1) // 2  # unordered pairs of ranks
_HOLE_CARDS: Final = 2
_BOARD_SIZES: Final = (3, 4, 5)
_HAND_SIZES: Final = (5, 6, 7)
_FLUSH_CARDS: Final = 5
_DEAD: Final = -1
_BOARDS_AT_ONCE: Final = 64  # 0.7 MB a temporary


def hand_strength(hands: npt.NDArray[np.int64]) -> npt.NDArray[np.int16]:
    """Return the class of the best five cards of each hand, (N,) in 0..7461, the greater the better.

    Args:
        hands: (N, 5), (N, 6) or (N, 7) different cards 0..51 a row, in any order.

    Raises:
        ValueError: another shape, or a row with a card twice or outside 0..51.
    """
    if hands.ndim != 2 or hands.shape[1] not in _HAND_SIZES:
        msg = f"hand_strength: expected (N, 5), (N, 6) or (N, 7) cards, got {hands.shape}"
        raise ValueError(msg)
    _check_distinct(hands, "hand_strength")
    ranks = hands // 4
    board, pair = _multiset_index(ranks[:, _HOLE_CARDS:]), _multiset_index(ranks[:, :_HOLE_CARDS])
    strength = _rank_table(hands.shape[1] - _HOLE_CARDS)[board, pair]  # (N,)
    for suit in range(4):
        mask = np.where(hands % 4 == suit, 1 << ranks, 0).sum(axis=1)  # (N,) cards differ, so the sum is the union
        strength = np.maximum(strength, _flush_table()[mask])
    return strength


def board_strength(boards: npt.NDArray[np.int64]) -> npt.NDArray[np.int16]:
    """Return the strength of every combo on each board, (G, 1326) in 0..7461; -1 where the combo holds a board card.

    Args:
        boards: (G, 3), (G, 4) or (G, 5) different cards 0..51 a row, in any order.

    Raises:
        ValueError: another shape, or a row with a card twice or outside 0..51.
    """
    _check_boards(boards)
    table = _rank_table(boards.shape[1])[_multiset_index(boards // 4)]  # (G, 91)
    strength = table[:, _COMBO_PAIR]  # (G, C)
    suit_masks = _suit_masks(boards)  # (G, 4)
    board, suit = np.nonzero(_POPCOUNT[suit_masks] >= _FLUSH_CARDS - _HOLE_CARDS)  # at most one suit a board
    flush = _flush_table()[suit_masks[board, suit][:, None] | _COMBO_SUIT_MASK[suit]]
    strength[board] = np.maximum(strength[board], flush)
    strength[~is_on_board_live(boards)] = _DEAD
    return strength


def is_on_board_live(boards: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which combos hold no card of each board, (G, 1326); arguments as ``board_strength``."""
    is_on_board = np.zeros((len(boards), cards.NUM_CARDS), dtype=np.bool_)
    is_on_board[np.arange(len(boards))[:, None], boards] = True
    return ~(is_on_board[:, cards.COMBO_CARDS[:, 0]] | is_on_board[:, cards.COMBO_CARDS[:, 1]])


def board_percentile(boards: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Return the share of the combos that each combo beats on each board, (G, 1326) in (0, 1); NaN where it holds a board card.

    Equal combos, itself included, count half, so the mean over the live combos of a board is 1/2.

    Args:
        boards: as ``board_strength``.

    Raises:
        ValueError: as ``board_strength``.
    """
    _check_boards(boards)
    percentile = np.empty((len(boards), cards.NUM_COMBOS), dtype=np.float32)
    for start in range(0, len(boards), _BOARDS_AT_ONCE):
        strength = board_strength(boards[start : start + _BOARDS_AT_ONCE])  # (g, C)
        percentile[start : start + len(strength)] = _midpoints(strength)
    return percentile


def board_draws(boards: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Return the draw of every combo on each board, (G, 1326) into ``DRAWS``; none once the board is full.

    A straight draw is a rank that would complete a straight for the combo and not for the board alone (a gutshot is one such
    rank, open-ended two or more); who has a straight draws to none. A flush draw is four cards of a suit, at least one of them
    the combo's. Combos that hold a board card get an answer too, without a meaning.

    Args:
        boards: as ``board_strength``.

    Raises:
        ValueError: as ``board_strength``.
    """
    _check_boards(boards)
    if boards.shape[1] == max(_BOARD_SIZES):
        return np.zeros((len(boards), cards.NUM_COMBOS), dtype=np.uint8)
    rank_mask = np.bitwise_or.reduce(1 << boards // 4, axis=1)  # (G,)
    outs = _straight_outs()
    out_ranks = outs[rank_mask[:, None] | _COMBO_RANK_MASK] & ~outs[rank_mask][:, None]  # (G, C)
    draw: npt.NDArray[np.uint8] = np.minimum(_POPCOUNT[out_ranks], DRAWS.index("open-ended")).astype(np.uint8)
    num_of_suit = _POPCOUNT[_suit_masks(boards)]  # (G, 4)
    for suit in range(4):
        held = _POPCOUNT[_COMBO_SUIT_MASK[suit]]  # (C,) 0..2
        is_draw = (held > 0) & (held + num_of_suit[:, suit, None] == _FLUSH_CARDS - 1)
        draw[is_draw] = DRAWS.index("flush draw")
    return draw


def _check_boards(boards: npt.NDArray[np.int64]) -> None:
    if boards.ndim != 2 or boards.shape[1] not in _BOARD_SIZES:
        msg = f"expected boards (G, 3), (G, 4) or (G, 5), got {boards.shape}"
        raise ValueError(msg)
    _check_distinct(boards, "boards")


def _check_distinct(rows: npt.NDArray[np.int64], what: str) -> None:
    ordered = np.sort(rows, axis=1)
    is_bad = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1) | (ordered[:, 0] < 0) | (ordered[:, -1] >= cards.NUM_CARDS)
    if is_bad.any():
        first = int(np.flatnonzero(is_bad)[0])
        msg = f"{what}: row {first} repeats a card or has one outside 0..{cards.NUM_CARDS - 1}: {rows[first].tolist()}"
        raise ValueError(msg)


def _midpoints(strength: npt.NDArray[np.int16]) -> npt.NDArray[np.float64]:
    """Return the mid-rank of each strength among the live ones of its row over their number, (g, C); NaN for the dead."""
    order = np.argsort(strength, axis=1, kind="stable")  # of 16-bit numbers this is a radix sort
    ordered = np.take_along_axis(strength, order, axis=1)
    place = np.arange(ordered.shape[1])
    is_step = ordered[:, 1:] != ordered[:, :-1]
    first = np.zeros(ordered.shape, dtype=np.int64)  # of the run of equal strengths
    first[:, 1:] = np.maximum.accumulate(np.where(is_step, place[1:], 0), axis=1)
    last = np.full(ordered.shape, place[-1])
    last[:, :-1] = np.minimum.accumulate(np.where(is_step, place[:-1], place[-1])[:, ::-1], axis=1)[:, ::-1]
    num_dead = (ordered == _DEAD).sum(axis=1, keepdims=True)
    midpoint = ((first + last + 1) / 2 - num_dead) / (ordered.shape[1] - num_dead)
    result = np.empty(ordered.shape)
    np.put_along_axis(result, order, np.where(ordered == _DEAD, np.nan, midpoint), axis=1)
    return result


def _suit_masks(boards: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the ranks on each board of each suit, one bit a rank, (G, 4)."""
    is_suit = boards[:, None, :] % 4 == np.arange(4)[:, None]  # (G, 4, n)
    masks: npt.NDArray[np.int64] = np.where(is_suit, 1 << boards[:, None, :] // 4, 0).sum(axis=2)
    return masks


def _multiset_index(ranks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Number the unordered ranks (N, k) of each row densely: the combinatorial number of rank i + i, ascending."""
    ordered = np.sort(ranks, axis=1)
    index = np.zeros(len(ranks), dtype=np.int64)
    for place in range(ranks.shape[1]):
        index += _BINOMIAL[ordered[:, place] + place, place + 1]
    return index


def _multisets(size: int) -> npt.NDArray[np.int64]:
    """Return every unordered choice of ``size`` ranks with repetition, ascending in a row, in the order of their index."""
    chosen = np.array(list(combinations(range(_NUM_RANKS + size - 1), size)), dtype=np.int64)
    rows = chosen - np.arange(size)
    ordered = np.empty_like(rows)
    ordered[_multiset_index(rows)] = rows
    return ordered


@functools.cache
def _rank_table(num_board_cards: int) -> npt.NDArray[np.int16]:
    """Return the strength, flushes apart, of each board's ranks with each pair of hole ranks, (multisets, 91)."""
    size = num_board_cards + _HOLE_CARDS
    boards, pairs = _multisets(num_board_cards), _multisets(_HOLE_CARDS)
    hands = np.concatenate(
        [np.repeat(boards, len(pairs), axis=0), np.tile(pairs, (len(boards), 1))],
        axis=1,
    )
    return _best_of_ranks(size)[_multiset_index(hands)].reshape(len(boards), _NUM_PAIRS)


@functools.cache
def _best_of_ranks(size: int) -> npt.NDArray[np.int16]:
    """Return the strength of the best five of ``size`` ranks by multiset index, flushes apart: the best after dropping one."""
    if size == _FLUSH_CARDS:
        return _five_card_classes()[0]
    hands = _multisets(size)
    smaller = _best_of_ranks(size - 1)
    dropped = [smaller[_multiset_index(np.delete(hands, place, axis=1))] for place in range(size)]
    best: npt.NDArray[np.int16] = np.max(dropped, axis=0)
    return best


@functools.cache
def _flush_table() -> npt.NDArray[np.int16]:
    """Return the strength of a flush by the ranks of its suit, (8192,) by bit mask; -1 for fewer than five or more than seven."""
    table = np.full(1 << _NUM_RANKS, _DEAD, dtype=np.int16)
    masks, classes = _five_card_classes()[1:]
    table[masks] = classes
    for size in _HAND_SIZES[1:]:
        larger = np.flatnonzero(size == _POPCOUNT)
        for bit in range(_NUM_RANKS):
            table[larger] = np.maximum(table[larger], np.where(larger >> bit & 1, table[larger & ~(1 << bit)], _DEAD))
    return table


@functools.cache
def _five_card_classes() -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int64], npt.NDArray[np.int16]]:
    """Order the 7462 classes of five cards.

    Returns:
        The class of each multiset of five ranks (five of a kind, which no deck holds, as 0), the 1287 masks of five ranks of a
        suit, and the class of each of these.
    """
    hands = _multisets(_FLUSH_CARDS)
    plain = _showdown_keys(hands, is_flush=False)
    is_possible = hands[:, 0] != hands[:, -1]
    suited = hands[(np.diff(hands, axis=1) > 0).all(axis=1)]
    flush = _showdown_keys(suited, is_flush=True)
    order = np.unique(np.concatenate([plain[is_possible], flush]))
    assert len(order) == NUM_STRENGTHS
    classes = np.where(is_possible, np.searchsorted(order, plain), 0).astype(np.int16)
    return classes, (1 << suited).sum(axis=1), np.searchsorted(order, flush).astype(np.int16)


def _showdown_keys(hands: npt.NDArray[np.int64], *, is_flush: bool) -> npt.NDArray[np.int64]:
    """Return a number per hand of five ascending ranks (N, 5) that orders them as at a showdown."""
    counts = (hands[:, :, None] == np.arange(_NUM_RANKS)).sum(axis=1)  # (N, 13)
    by_count = np.sort(counts, axis=1)[:, ::-1]
    most, second = by_count[:, 0], by_count[:, 1]
    is_wheel = (hands == [0, 1, 2, 3, _NUM_RANKS - 1]).all(axis=1)
    is_straight = is_wheel | ((most == 1) & (hands[:, -1] - hands[:, 0] == _FLUSH_CARDS - 1))
    category = np.select(
        [most >= 4, (most == 3) & (second == 2), most == 3, (most == 2) & (second == 2), most == 2], [7, 6, 3, 2, 1], 0
    )
    of_straight, of_others = (8, 5) if is_flush else (4, category)
    category = np.where(is_straight, of_straight, of_others)
    # Ranks that come more often count first, then higher ranks; in a wheel the ace is low.
    weight = counts.astype(np.int64) * _NUM_RANKS + np.arange(_NUM_RANKS)
    order = np.argsort(-np.where(counts > 0, weight, -1), axis=1)[:, :_FLUSH_CARDS]  # (N, 5)
    tie_break = np.where(np.take_along_axis(counts, order, axis=1) > 0, order, 0)
    tie_break[is_wheel] = [3, 2, 1, 0, 0]
    key = category.astype(np.int64)
    for column in tie_break.T:
        key = key * _NUM_RANKS + column
    return key


@functools.cache
def _straight_outs() -> npt.NDArray[np.int64]:
    """Return, by the ranks held (8192,) as bits, the ranks that would complete a straight, as bits; none for a straight."""
    every = np.arange(1 << _NUM_RANKS)
    ranks_of_straight = [sum(1 << (low + step) % _NUM_RANKS for step in range(5)) for low in range(-1, _NUM_RANKS - 4)]
    outs = np.zeros(len(every), dtype=np.int64)
    is_made = np.zeros(len(every), dtype=np.bool_)
    for straight in ranks_of_straight:
        missing = straight & ~every
        is_made |= missing == 0
        outs |= np.where(_POPCOUNT[missing] == 1, missing, 0)
    outs[is_made] = 0
    return outs


def _binomials() -> npt.NDArray[np.int64]:
    """Return C(n, k) for n up to 19 and k up to 7."""
    size = _NUM_RANKS + max(_HAND_SIZES)
    table = np.zeros((size, max(_HAND_SIZES) + 1), dtype=np.int64)
    table[:, 0] = 1
    for n in range(1, size):
        table[n, 1:] = table[n - 1, 1:] + table[n - 1, :-1]
    return table


def _combo_suit_mask() -> npt.NDArray[np.int64]:
    is_suit = np.arange(4)[:, None, None] == cards.COMBO_CARDS % 4  # (4, C, 2)
    masks: npt.NDArray[np.int64] = np.where(is_suit, 1 << cards.COMBO_CARDS // 4, 0).sum(axis=2)
    return masks


_BINOMIAL: Final = _binomials()
_POPCOUNT: Final = (np.arange(1 << _NUM_RANKS)[:, None] >> np.arange(_NUM_RANKS) & 1).sum(axis=1)  # (8192,)
_COMBO_PAIR: Final = _multiset_index(cards.COMBO_CARDS // 4)  # (C,) 0..90
_COMBO_RANK_MASK: Final = np.bitwise_or.reduce(1 << cards.COMBO_CARDS // 4, axis=1)  # (C,) one bit a rank
_COMBO_SUIT_MASK: Final = _combo_suit_mask()  # (4, C) the ranks a combo holds of each suit, one bit a rank
