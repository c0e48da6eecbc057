"""A hand so far is played by the rules that files are checked by: what they exclude is refused, what is only not over is not."""

import re
from typing import Any

import pytest

from range_reader_pipeline.service import BELIEF_EXAMPLE
from range_reader_pipeline.service_messages import BeliefQuestion, hand_of
from tests.core import hands
from tests.pipeline.test_service import hand_message

BLINDS = BELIEF_EXAMPLE["hand"]["events"][:2]
FLOP = {"kind": "flop", "board": ["2c", "7d", "Ts"]}


def _act(kind: str, seat: int, chips: float = 0.0) -> dict[str, Any]:
    return {"kind": kind, "seat": seat, "chips": chips}


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([_act("raise", 0, 0.1)], "seat 0 puts in 0.1 chips (RAISE) with 2.0 to call"),
        ([_act("call", 0, 1.0)], "with 2.0 to call and 199.0 left behind"),
        ([_act("call", 0, 5.0)], "calls 5.0 chips with 2.0 to call"),
        ([_act("raise", 0, 2.0)], "event 2: seat 0 puts in 2.0 chips as a raise, but the bets so far make it a call"),
        ([_act("bet", 0, 6.0)], "as a bet, but the bets so far make it a raise"),
        ([_act("check", 0)], "seat 0 checks with 2.0 chips to call"),
        ([_act("fold", 0), _act("call", 0, 2.0)], "CALL of seat 0, which has folded"),
        ([_act("raise", 0, 6.0), _act("fold", 1), _act("check", 0)], "seat 0 acts again (CHECK) although nobody raised"),
        ([_act("raise", 0, 200.0), _act("call", 1, 149.0), _act("bet", 1, 0.0)], "seat 1 acts (BET, 0.0 chips) while all-in"),
        ([FLOP], "a flop without any preflop action"),
        ([_act("call", 0, 2.0), FLOP], "the street closes before seat"),
        ([_act("fold", 0), _act("fold", 1), FLOP], "although everyone else has folded"),
        ([_act("fold", 0), _act("fold", 1), _act("check", 2)], "seat 2 acts (CHECK) although everyone else has folded"),
    ],
)
def test_what_no_rule_allows_is_refused_with_the_reason(events: list[dict[str, Any]], reason: str) -> None:
    """Prevents a belief about a hand that cannot be: a client's mistake would look like an answer."""
    question = BELIEF_EXAMPLE | {"hand": BELIEF_EXAMPLE["hand"] | {"events": [*BLINDS, *events]}}
    with pytest.raises(ValueError, match=re.escape(reason)):
        hand_of(BeliefQuestion.model_validate(question))


def test_a_hand_can_be_asked_about_after_each_of_its_events() -> None:
    """The rules that exclude the impossible must not exclude a hand because it is not over."""
    num_asked = 0
    for hand in hands.random_hands(34, 40):
        whole = hand_message(hand)
        for length in range(1, len(hand.events) + 1):
            so_far = whole | {"events": whole["events"][:length]}
            made = hand_of(BeliefQuestion.model_validate({"hand": so_far, "villain": 1, "perspective": 0}))
            assert made.events == hand.events[:length]
            num_asked += 1
    assert num_asked > 200
