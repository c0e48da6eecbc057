"""Replay of finished hands: prices worked out by hand, and hands that cannot have happened."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from range_reader_core.hand import CanonicalHand
from range_reader_core.replay import Decision, Fault, ReplayError, cent_slack, play, replay, uncalled_chips
from tests.core.hands import build_hand, heads_up_run_out, open_fold, parse_event, random_hands, three_way_showdown, walk


def test_the_state_before_each_action_is_the_one_worked_out_by_hand() -> None:
    """Price, pot and stacks before an action are what every reader of the betting is given."""
    decisions = replay(three_way_showdown())
    assert [(d.event_index, d.seat, d.street, d.price_chips, d.pot_chips) for d in decisions] == [
        (2, 0, 0, 2.0, 3.0),
        (3, 1, 0, 5.0, 9.0),
        (4, 2, 0, 4.0, 14.0),
        (6, 1, 1, 0.0, 18.0),
        (7, 2, 1, 0.0, 18.0),
        (8, 0, 1, 0.0, 18.0),
        (9, 1, 1, 9.0, 27.0),
        (10, 2, 1, 9.0, 27.0),
        (12, 2, 2, 0.0, 36.0),
        (13, 0, 2, 0.0, 36.0),
        (15, 2, 3, 0.0, 36.0),
        (16, 0, 3, 20.0, 56.0),
    ]
    assert decisions[7] == Decision(
        event_index=10,
        seat=2,
        street=1,
        price_chips=9.0,
        pot_chips=27.0,
        stacks=(185.0, 144.0, 94.0),
        committed=(9.0, 0.0, 0.0),
        is_live=(True, False, True),
    )


@pytest.mark.parametrize("hand", [heads_up_run_out(), open_fold(), walk(), three_way_showdown(), *random_hands(7, 60)])
def test_legal_hands_replay_with_their_chips_conserved(hand: CanonicalHand) -> None:
    """Hands of the tests' own table are legal; chips must neither appear nor vanish at any decision."""
    decisions = replay(hand)
    assert len(decisions) == sum(event.kind.name in {"FOLD", "CHECK", "CALL", "BET", "RAISE"} for event in hand.events)
    for decision in decisions:
        assert decision.pot_chips + sum(decision.stacks) == pytest.approx(sum(hand.stacks))


def changed(index: int, text: str) -> CanonicalHand:
    """Return the three-way hand with one event replaced."""
    hand = three_way_showdown()
    events = list(hand.events)
    events[index] = parse_event(text)
    return replace(hand, events=tuple(events))


@pytest.mark.parametrize(
    ("index", "text", "message"),
    [
        (2, "bet@0 6", "the chips make it"),
        (2, "raise@0 6 all-in", "the chips make it"),
        (4, "call@2 3", "with 4.0 to call"),
        (4, "check@2", "checks with 4.0"),
        (8, "bet@0 195", "has 194.0 left"),
        (10, "call@2 10", "with 9.0 to call"),
        (12, "check@1", "after folding"),
        (13, "check@2", "acts again"),
        (9, "call@1 9", "closes before seat 1"),
    ],
)
def test_an_impossible_event_is_refused_and_named(index: int, text: str, message: str) -> None:
    """A hand built with a mistake must not reach training as if it were one that happened."""
    with pytest.raises(ValueError, match=message):
        replay(changed(index, text))


def test_pots_that_pay_more_than_was_put_in_are_refused() -> None:
    """Chips do not appear from nowhere."""
    hand = three_way_showdown()
    with pytest.raises(ValueError, match="put in"):
        replay(replace(hand, collected=(0.0, 0.0, 76.5)))


def test_a_hand_that_stops_early_is_refused() -> None:
    """Two players in and no river: something is missing."""
    hand = three_way_showdown()
    with pytest.raises(ReplayError, match="3 board cards"):
        replay(replace(hand, events=hand.events[:11], collected=(0.0, 0.0, 0.0)))


def test_one_player_alone_with_chips_need_not_act() -> None:
    """Once everyone else is all in and the price is paid, the board runs out."""
    hand = build_hand(
        ["blind@1 1", "blind@2 2", "raise@0 50 all-in", "fold@1", "call@2 48", "flop 2c 7d Ts", "turn Kh", "river 3s"],
        holes=["AhAd", None, "TdTc"],
        stacks=[50.0, 150.0, 100.0],
    )
    assert len(replay(hand)) == 3


def faults(texts: Sequence[str], stacks: Sequence[float] = (100.0, 100.0)) -> Fault:
    """Return why a sequence of events is refused."""
    with pytest.raises(ReplayError) as caught:
        play(stacks, [parse_event(text) for text in texts], big_blind=2.0, slack_chips=0.0)
    return caught.value.fault


def test_faults_are_told_apart() -> None:
    """The reject codes of the parser are these faults."""
    assert faults(["blind@0 1", "blind@1 2", "call@0 9", "check@1"]) is Fault.ILLEGAL_ACTION
    assert faults(["blind@0 1", "blind@1 2", "raise@0 200"]) is Fault.OVERSPEND
    assert faults(["blind@0 1", "blind@1 2", "call@0 1"]) is Fault.INCOMPLETE
    assert faults(["ante@0 1", "ante@1 1", "flop 2c 7d Ts"]) is Fault.BOMB_POT
    assert faults(["blind@0 1", "blind@1 2", "fold@0", "check@1"]) is Fault.ILLEGAL_ACTION
    assert faults(["blind@0 1", "blind@1 2", "fold@0", "fold@1"]) is Fault.ILLEGAL_ACTION


def test_labels_follow_from_the_chips() -> None:
    """A writer's name for a wager is a hint: the opening wager of a street is a bet, more than the price is a raise."""
    steps = ["blind@0 1", "blind@1 2", "bet@0 5", "raise@1 4", "flop 2c 7d Ts", "raise@1 5", "bet@0 10", "fold@1"]
    played = play([100.0, 100.0], [parse_event(text) for text in steps], big_blind=2.0, slack_chips=0.0)
    assert [event.kind.name for event in played.events[2:]] == ["RAISE", "CALL", "FLOP", "BET", "RAISE", "FOLD"]
    assert played.oddities == {"relabeled"}


def test_a_completed_short_blind_reopens_the_action_only_for_those_who_put_in_less() -> None:
    """The big blind has 1.5 chips: who called that has to answer a full 2."""
    steps = ["blind@1 1", "blind@2 1.5 all-in", "call@0 1.5", "call@1 1"]
    end = ["flop 2c 7d Ts", "check@1", "check@0", "turn Kh", "check@1", "check@0", "river 3s", "check@1", "check@0"]
    stacks = [100.0, 100.0, 1.5]
    full = [parse_event(text) for text in [*steps, "call@0 0.5", *end]]
    assert len(play(stacks, full, big_blind=2.0, slack_chips=0.0).events) == len(full)
    with pytest.raises(ReplayError, match="closes before seat 0"):
        play(stacks, [parse_event(text) for text in [*steps, *end]], big_blind=2.0, slack_chips=0.0)


def test_a_raise_is_measured_by_the_last_one() -> None:
    """Three more chips are under the minimum once somebody has raised by four."""
    start = ["blind@1 1", "blind@2 2", "raise@0 6"]
    stacks = [100.0, 100.0, 100.0]
    for last, oddities in (("raise@1 9", set()), ("raise@1 8", {"under_min_raise"})):
        steps = [parse_event(text) for text in [*start, last, "fold@2", "fold@0"]]
        assert play(stacks, steps, big_blind=2.0, slack_chips=0.0).oddities == oddities


def test_a_live_post_after_an_action_has_to_be_answered() -> None:
    """Exporters write a straddle down when they see it; who called the big blind before it still owes the difference."""
    steps = ["blind@1 1", "blind@2 2", "call@3 2", "blind@0 4", "call@1 3", "call@2 2", "call@3 2", "check@0"]
    end = [text for deal in ("flop 2c 7d Ts", "turn Kh", "river 3s") for text in (deal, "check@1", "check@2", "check@3", "check@0")]
    played = play([100.0] * 4, [parse_event(text) for text in [*steps, *end]], big_blind=2.0, slack_chips=0.0)
    assert played.gross_chips == 16.0


def test_uncalled_chips_are_what_nobody_matched() -> None:
    """Highest less second highest, street by street."""
    assert uncalled_chips([[1.0, 2.0, 6.0], [0.0, 0.0, 0.0], [5.0, 5.0, 3.0]]) == 4.0


def test_only_whole_cents_earn_the_tolerance_of_cents() -> None:
    """Float32 chips must not be forgiven half a cent in a pot of three."""
    assert cent_slack([0.01, 1.1, 290.3, 0.07]) == 0.005
    assert cent_slack([0.01, 1.125]) == 0.0
