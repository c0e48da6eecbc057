"""CanonicalHand refuses what cannot be a hand, naming it."""

from dataclasses import replace
from typing import Any

import pytest

from range_reader_core.hand import NO_SEAT, CanonicalHand, Event, EventKind, LabelSource
from tests.core.hands import random_hands, three_way_showdown

FLOP = Event(EventKind.FLOP, board=(0, 1, 2))


def test_the_board_lists_all_streets_in_order() -> None:
    """Card removal counts on every board card."""
    assert three_way_showdown().board == (0, 21, 35, 46, 7)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stacks": (100.0,)}, "2..16 players"),
        ({"stacks": (100.0,) * 17}, "2..16 players"),
        ({"stacks": (100.0,) * 4}, "differ in length"),
        ({"collected": (76.0,)}, "differ in length"),
        ({"button": 3}, "button 3"),
        ({"button": NO_SEAT}, "button -1"),
        ({"big_blind": 0.0}, "big blind must be positive"),
        ({"big_blind": float("nan")}, "big blind must be positive"),
        ({"hole_cards": ((1, 0), (4, 5), (8, 9))}, "lower card first"),
        ({"hole_cards": (None, (4, 5), (8, 9))}, "label source"),
        ({"label_sources": (LabelSource.DEALT, None, LabelSource.DEALT)}, "label source"),
        ({"hole_cards": ((0, 6), (4, 5), (8, 9))}, "appears twice"),  # 0 is on the board
        ({"hole_cards": ((6, 8), (4, 5), (8, 9))}, "appears twice"),
        ({"hole_cards": ((6, 52), (4, 5), (8, 9))}, "outside 0..51"),
        ({"events": (Event(EventKind.FOLD, 3),)}, "names seat 3"),
        ({"events": (Event(EventKind.FOLD),)}, "names seat -1"),
        ({"events": (Event(EventKind.FLOP),)}, "names seat -1"),
        ({"events": (Event(EventKind.FOLD, 0, board=(1,)),)}, "FOLD deals"),
        ({"events": (Event(EventKind.FLOP, board=(0, 1)),)}, "FLOP deals"),
        ({"events": (Event(EventKind.FLOP, board=(2, 1, 0)),)}, "not ascending"),
        ({"events": (FLOP, FLOP)}, "onto 3 cards"),
        ({"events": (Event(EventKind.TURN, board=(3,)), FLOP)}, "TURN deals"),
        ({"events": (FLOP, Event(EventKind.RIVER, board=(3,)))}, "RIVER deals"),
    ],
)
def test_an_inconsistent_hand_is_refused(changes: dict[str, Any], message: str) -> None:
    """A half-valid record would fail later, far from the row that caused it, or not at all."""
    with pytest.raises(ValueError, match=message) as raised:
        replace(three_way_showdown(), **changes)
    assert "tests#three-way" in str(raised.value)


def test_random_hands_conserve_chips_and_repeat_from_their_seed() -> None:
    """Other tests build on these hands; an illegal one would test nothing real."""
    hands = random_hands(1, 300)
    assert hands == random_hands(1, 300)
    assert {hand.num_players for hand in hands} == set(range(2, 10))
    assert {len(hand.board) for hand in hands} == {0, 3, 4, 5}
    for hand in hands:
        _assert_legal(hand)


def _assert_legal(hand: CanonicalHand) -> None:
    stacks = list(hand.stacks)
    street = [0.0] * hand.num_players
    folded: set[int] = set()
    for event in hand.events:
        if event.board:
            street = [0.0] * hand.num_players
            continue
        price = max(street) - street[event.seat]
        assert event.seat not in folded
        stacks[event.seat] -= event.chips
        assert stacks[event.seat] >= 0
        assert event.is_all_in == (stacks[event.seat] == 0 and event.chips > 0)
        if event.kind is not EventKind.POST_ANTE:
            street[event.seat] += event.chips
        match event.kind:
            case EventKind.FOLD:
                folded.add(event.seat)
            case EventKind.CHECK:
                assert price == event.chips == 0
            case EventKind.CALL:
                assert 0 < event.chips <= price
                assert event.chips == price or event.is_all_in
            case EventKind.BET:
                assert event.chips == max(street) == sum(street)
                assert event.chips >= hand.big_blind
            case EventKind.RAISE:
                assert event.chips > price
    assert sum(hand.collected) == pytest.approx(sum(hand.stacks) - sum(stacks), abs=1e-9)
    assert all(hand.collected[seat] == 0 for seat in folded)
