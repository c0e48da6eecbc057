"""PokerKit replays hands to the same prices and stacks as ``replay``: two state machines that share no code."""

import dataclasses

import pytest

from range_reader_core.hand import CanonicalHand, EventKind
from range_reader_core.replay import replay
from tests.core.hands import build_hand, heads_up_run_out, open_fold, random_hands, three_way_showdown, walk
from tests.core.pokerkit_referee import OutsideRulesError, differences, replay_in_pokerkit


@pytest.mark.parametrize("num_players", [2, 3, 4, 6, 9, 16])
def test_pokerkit_agrees_with_replay_on_random_hands(num_players: int) -> None:
    """A price or a stack that is off by one action at some table size would be learned as if it were poker."""
    outside: list[str] = []
    hands = random_hands(17, 40, num_players)
    for hand in hands:
        try:
            judged = replay_in_pokerkit(hand)
        except OutsideRulesError as error:
            outside.append(str(error))
        else:
            assert differences(hand, replay(hand), judged) == []
    assert all("no reason to complete, bet, or raise" in message for message in outside)  # a raise that nobody can answer
    assert len(outside) <= 0.1 * len(hands)


@pytest.mark.parametrize(
    "hand",
    [
        three_way_showdown(),
        heads_up_run_out(),
        open_fold(),
        walk(),
        build_hand(
            [
                "ante@0 1",
                "ante@1 1",
                "ante@2 1",
                "blind@1 1",
                "blind@2 2",
                "blind@0 4",
                "call@1 3",
                "fold@2",
                "check@0",
                "flop 2c 7d Ts",
                "check@1",
                "bet@0 8",
                "raise@1 20",
                "fold@0",
            ],
            holes=[None, None, None],
            stacks=[100, 100, 100],
            hand_id="tests#button-straddle",
        ),
        build_hand(
            [
                "ante@3 1",
                "blind@1 1",
                "blind@2 2",
                "blind@3 2",
                "check@3",
                "fold@0",
                "call@1 1",
                "check@2",
                "flop 2c 7d Ts",
                "check@1",
                "check@2",
                "check@3",
                "turn Kh",
                "bet@1 2",
                "fold@2",
                "fold@3",
            ],
            holes=[None] * 4,
            stacks=[100, 100, 100, 100],
            hand_id="tests#extra-blind-and-dead-post",
        ),
        build_hand(
            [
                "blind@1 1",
                "blind@2 2",
                "raise@3 10 all-in",
                "call@0 10",
                "raise@1 49 all-in",
                "fold@2",
                "call@0 40",
                "flop 2c 7d Ts",
                "turn Kh",
                "river 3s",
            ],
            holes=[None] * 4,
            stacks=[200, 50, 200, 10],
            hand_id="tests#side-pot",
        ),
        build_hand(
            ["ante@1 2", "blind@0 1", "blind@1 2", "raise@0 5", "call@1 4", "flop 2c 7d Ts", "bet@1 92 all-in", "fold@0"],
            holes=[None, None],
            stacks=[80, 100],
            hand_id="tests#big-blind-ante",
        ),
    ],
    ids=lambda hand: hand.hand_id,
)
def test_pokerkit_agrees_on_hands_that_bend_the_order(hand: CanonicalHand) -> None:
    """Straddles, dead money, posts out of turn and side pots change who acts and what it costs."""
    assert differences(hand, replay(hand), replay_in_pokerkit(hand)) == []


def _altered(hand: CanonicalHand, kind: EventKind, chips: float) -> CanonicalHand:
    """Return the hand with the first event of a kind changed to add other chips."""
    index = next(index for index, event in enumerate(hand.events) if event.kind is kind)
    events = [*hand.events[:index], hand.events[index]._replace(chips=chips), *hand.events[index + 1 :]]
    return dataclasses.replace(hand, events=tuple(events))


def test_the_referee_sees_a_wrong_chip() -> None:
    """A referee that cannot disagree proves nothing."""
    hand = three_way_showdown()
    decisions, judged = replay(hand), replay_in_pokerkit(hand)
    assert differences(_altered(hand, EventKind.CALL, 4.0), decisions, judged) != []
    assert differences(hand, [*decisions[:3], decisions[3]._replace(price_chips=0.5), *decisions[4:]], judged) != []
    assert differences(hand, decisions[:-1], judged) != []
    with pytest.raises(OutsideRulesError, match="maximum"):
        replay_in_pokerkit(_altered(hand, EventKind.RAISE, 600.0))


def test_the_referee_refuses_another_order_of_play() -> None:
    """Turn order is PokerKit's to judge; a hand out of order must not pass as judged."""
    hand = three_way_showdown()
    events = list(hand.events)
    events[2], events[3] = events[3], events[2]
    with pytest.raises(OutsideRulesError, match="expects"):
        replay_in_pokerkit(dataclasses.replace(hand, events=tuple(events)))
