"""The lockstep engine against PokerKit, which shares no code with it, on hands of every shape and on odd stacks and antes."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from range_reader_core.arena.deal import Seating, TableSettings, posts
from range_reader_core.hand import EventKind
from tests.core.arena.pokerkit_table import differences
from tests.core.arena.random_players import random_hands, random_play

SHAPES = {
    "deep": TableSettings(max_players=10),
    "antes and straddles": TableSettings(max_players=6, ante=10, straddle_share=0.3),
    "crumbs": TableSettings(max_players=6, small_blind=37, ante=13, straddle_share=0.5, min_stack_bb=0.02, max_stack_bb=4.0),
    "short": TableSettings(max_players=10, min_stack_bb=1.0, max_stack_bb=15.0),
    "heads-up": TableSettings(max_players=2, ante=20, min_stack_bb=0.1, max_stack_bb=30.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_pokerkit_pays_the_same_hands_the_same(shape: str) -> None:
    """Stacks, pots and winners: 400 hands of each of five shapes. One wrong price or pot would be learned as if it were poker."""
    hands = random_hands(SHAPES[shape], 400, seed=11)
    assert [line for table in range(400) for line in differences(hands, table)] == []
    kinds = Counter(hands.events.kind.tolist())
    assert min(kinds[kind] for kind in (EventKind.CHECK, EventKind.CALL, EventKind.RAISE, EventKind.RIVER)) > 20
    if SHAPES[shape].max_players > 2:
        assert ((hands.settlement.pots > 0).sum(axis=1) > 1).sum() > 20  # side pots


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    stacks=st.lists(st.integers(1, 400), min_size=2, max_size=6),
    ante=st.integers(0, 25),
    small_blind=st.integers(0, 20),
    has_straddle=st.booleans(),
    button=st.integers(0, 5),
    seed=st.integers(0, 2**32 - 1),
)
def test_pokerkit_agrees_on_odd_stacks_and_antes(
    stacks: list[int], ante: int, small_blind: int, has_straddle: bool, button: int, seed: int
) -> None:
    """Posts that bust a player, blinds that nobody can cover and crumbs behind are where engines go wrong."""
    table = TableSettings(max_players=6, small_blind=small_blind, big_blind=20, ante=ante)
    seating = one_table(table, stacks, button=button % len(stacks), has_straddle=has_straddle)
    assume(not pokerkit_opens_elsewhere(seating))
    hands = random_play(table, seating, np.random.default_rng(seed), raise_share=0.5)
    assert differences(hands, 0) == []


@pytest.mark.parametrize("has_straddle", [False, True])
def test_left_of_the_last_blind_opens_though_nobody_could_pay_one(has_straddle: bool) -> None:
    """Who opens goes by the place of the blinds, not by their payment: an ante that empties the big blind moves nobody's turn."""
    stacks = [3, 3, 1, 1, 3] if has_straddle else [3, 3, 1, 3]  # button, no small blind, big blind, (straddle,) first to act
    table = TableSettings(max_players=6, small_blind=0, big_blind=20, ante=1)
    seating = one_table(table, stacks, button=0, has_straddle=has_straddle)
    assert not seating.blinds.any()
    assert pokerkit_opens_elsewhere(seating)
    hands = random_play(table, seating, np.random.default_rng(0), raise_share=0.0)
    acting = hands.events.seat[~np.isin(hands.events.kind, [EventKind.POST_ANTE, EventKind.POST_BLIND])]
    assert acting[:3].tolist() == [len(stacks) - 1, 0, 1]
    with pytest.raises(AssertionError, match="PokerKit expects 0"):  # once it agrees, it can judge these tables too
        differences(hands, 0)


@pytest.mark.parametrize("shape", SHAPES)
def test_chips_are_conserved(shape: str) -> None:
    """Whatever is put in is paid out, and no stack goes negative."""
    hands = random_hands(SHAPES[shape], 300, seed=5)
    assert (hands.settlement.stacks.sum(axis=1) == hands.seating.stacks.sum(axis=1)).all()
    assert (hands.settlement.stacks >= 0).all()
    assert (hands.settlement.wins.sum(axis=2) == hands.settlement.pots).all()


def test_a_hand_is_the_same_in_any_company() -> None:
    """Tables in lockstep must not touch one another."""
    table = TableSettings(max_players=6, ante=10)
    seating = one_table(table, [300, 4000, 900, 2500], button=2, has_straddle=False)
    alone = random_play(table, seating, np.random.default_rng(3))
    columns = {name: np.repeat(getattr(seating, name), 2, axis=0) for name in Seating.__slots__}
    both = random_play(table, Seating(**columns), _Same(3))
    assert both.events.offsets.tolist() == [0, len(alone.events.kind), 2 * len(alone.events.kind)]
    for name in ("kind", "seat", "chips", "is_all_in"):
        first, second = np.split(getattr(both.events, name), 2)
        assert (first == second).all()
        assert (first == getattr(alone.events, name)).all()


def test_the_referee_sees_a_wrong_chip() -> None:
    """A referee that cannot disagree proves nothing."""
    hands = random_hands(SHAPES["deep"], 50, seed=2)
    wrong = dataclasses.replace(hands.settlement, stacks=hands.settlement.stacks + np.eye(50, 10, dtype=np.int64))
    assert differences(dataclasses.replace(hands, settlement=wrong), 0) != []
    wrong = dataclasses.replace(hands.settlement, pots=hands.settlement.pots * 2)
    table = int(np.flatnonzero(hands.is_live.sum(axis=1) > 1)[0])
    assert differences(dataclasses.replace(hands, settlement=wrong), table) != []
    index = int(np.flatnonzero(hands.events.kind == EventKind.CALL)[0])
    chips = hands.events.chips.copy()
    chips[index] += 1
    table = int(np.searchsorted(hands.events.offsets, index, side="right")) - 1
    with pytest.raises(AssertionError):
        differences(dataclasses.replace(hands, events=dataclasses.replace(hands.events, chips=chips)), table)


def one_table(table: TableSettings, stacks: list[int], *, button: int, has_straddle: bool) -> Seating:
    """Return one table."""
    padded = np.zeros((1, 10), dtype=np.int64)
    padded[0, : len(stacks)] = stacks
    size = np.array([len(stacks)])
    return posts(table, padded, size, np.array([button]), np.array([has_straddle]) & (size > 2))


def pokerkit_opens_elsewhere(seating: Seating) -> bool:
    """Return whether PokerKit may let the small blind open where the rules say: whoever sits left of the last blind or straddle.

    It looks for the largest forced bet that was paid, of equal ones the last player's, and opens to the left of that. So it misses
    the big blind where no blind was paid, because antes emptied whoever owes one and there is no small blind, and heads-up where
    both were paid alike, because the button is the last player there. It matters only where the small blind has chips to act with.
    """
    paid = seating.blinds[0]
    small, big, _ = seating.blind_seats[0]
    can_act = seating.stacks[0, small] > seating.antes[0, small] + paid[small]
    is_misled = not paid.any() or (seating.num_players[0] == 2 and paid[small] == paid[big])
    return bool(can_act and is_misled)


class _Same:
    """Draws the same for both tables."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def random(self, shape: tuple[int, ...]) -> np.ndarray:
        if shape[0] == 2:  # the decks
            return np.repeat(self._generator.random((1, *shape[1:])), 2, axis=0)
        draws = self._generator.random((shape[0], 1))
        assert shape[1] in (1, 2)
        return np.repeat(draws, shape[1], axis=1)
