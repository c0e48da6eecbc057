"""The betting read from tokens: positions, prices, raises that are called all-in, and what moves them not."""

import numpy as np
import pytest
import torch

from range_reader_core import cards, tokens
from range_reader_core.batching import Batch, DeviceReads
from range_reader_core.encoder import HandEncoder
from range_reader_core.hand import CanonicalHand, EventKind
from range_reader_core.lines import (
    POSITIONS,
    SITUATIONS,
    Betting,
    board_cards,
    effective_stack_bb,
    num_opponents,
    read_betting,
    table_size,
    villain_position,
    villain_seat,
)
from range_reader_core.replay import replay
from tests.core import hands


def _read(hand: CanonicalHand, villain: int) -> tuple[torch.Tensor, torch.Tensor]:
    read = HandEncoder().encode(hand, villain, None)
    return torch.from_numpy(read.tokens.astype(np.int64))[None], torch.from_numpy(read.values)[None]


def _betting(hand: CanonicalHand, villain: int) -> tuple[list[str], Betting]:
    stream, values = _read(hand, villain)
    return [tokens.describe(token) for token in stream[0].tolist()], read_betting(stream, values)


def _batch(num_hands: int = 30) -> Batch:
    reads = HandEncoder().encode_hands(hands.random_hands(11, num_hands))[0]
    return DeviceReads.from_reads(reads, torch.device("cpu")).batch(np.arange(reads.num_reads))


@pytest.mark.parametrize(
    ("num_players", "button", "expected"),
    [
        (2, 1, ["blind heads-up", "button heads-up"]),
        (3, 0, ["button", "small blind", "big blind"]),
        (4, 3, ["small blind", "big blind", "cutoff", "button"]),
        (7, 6, ["small blind", "big blind", "early", "lojack", "hijack", "cutoff", "button"]),
        (9, 1, ["cutoff", "button", "small blind", "big blind", "early", "early", "early", "lojack", "hijack"]),
    ],
)
def test_positions_are_counted_from_the_button(num_players: int, button: int, expected: list[str]) -> None:
    """A cutoff of nine acts like a cutoff of four; a count from the left would mix it with early seats."""
    hand = hands.build_hand([], holes=[None] * num_players, stacks=[100.0] * num_players, button=button)
    seen = [POSITIONS[int(villain_position(_read(hand, seat)[0])[0])] for seat in range(num_players)]
    assert seen == expected


def test_a_worked_hand() -> None:
    """Prices, pots and situations of a hand that a person can follow."""
    names, betting = _betting(hands.three_way_showdown(), villain=0)  # blinds 1 and 2, so half of each amount in big blinds
    at = {name: index for index, name in enumerate(names)}
    raise_, call = at["raise@seat0"], at["call@seat1"]
    assert SITUATIONS[int(betting.situation_faced[0, raise_])] == "unopened"
    assert SITUATIONS[int(betting.situation[0, raise_])] == "raised"
    assert [float(column[0, raise_]) for column in (betting.pot_bb, betting.to_call_bb, betting.added_bb)] == [1.5, 1.0, 3.0]
    assert [float(column[0, call]) for column in (betting.pot_bb, betting.to_call_bb, betting.added_bb)] == [4.5, 2.5, 2.5]
    assert [names[i] for i in betting.is_aggressive[0].nonzero()[:, 0].tolist()] == ["raise@seat0", "bet@seat0", "bet@seat2"]
    assert [names[i] for i in betting.is_villain[0].nonzero()[:, 0].tolist()] == [
        "raise@seat0",
        "bet@seat0",
        "check@seat0",
        "call@seat0",
    ]
    assert betting.has_initiative[0].nonzero()[:, 0].tolist() == list(range(at["<flop>"], len(names)))
    river_call = len(names) - 1
    assert float(betting.to_call_bb[0, river_call]) == 10.0
    assert int(betting.num_raises[0, river_call]) == 1
    assert int(betting.street[0, river_call]) == 3
    assert not betting.is_check_raise.any()


def test_an_all_in_is_a_raise_only_if_it_raises_the_price() -> None:
    """A short all-in call counted as a 3-bet puts weak hands into the range of 3-bettors."""
    hand = hands.build_hand(
        ["blind@1 1", "blind@2 2", "raise@0 10", "call@1 4 all-in", "raise@2 98 all-in", "call@0 90 all-in"],
        holes=[None] * 3,
        stacks=[100.0, 5.0, 100.0],
    )
    names, betting = _betting(hand, villain=0)
    aggressive = betting.is_aggressive[0].nonzero()[:, 0].tolist()
    assert [names[i] for i in aggressive] == ["raise@seat0", "all_in@seat2"]
    assert [SITUATIONS[int(betting.situation_faced[0, i])] for i in aggressive] == ["unopened", "raised"]
    assert SITUATIONS[int(betting.situation_faced[0, -1])] == "3-bet"


def test_an_ante_is_in_the_pot_and_pays_no_price() -> None:
    """An ante taken for a bet lowers what a caller owes."""
    hand = hands.build_hand(
        ["ante@0 0.5", "ante@1 0.5", "blind@0 1", "blind@1 2", "call@0 1", "check@1"], holes=[None] * 2, stacks=[50.0, 50.0]
    )
    names, betting = _betting(hand, villain=1)
    limp = names.index("call@seat0")
    assert [float(column[0, limp]) for column in (betting.pot_bb, betting.to_call_bb)] == [2.0, 0.5]
    assert SITUATIONS[int(betting.situation_faced[0, limp])] == "unopened"
    assert SITUATIONS[int(betting.situation_faced[0, limp + 1])] == "limped"


def test_a_check_raise_is_a_check_and_a_raise_on_one_street() -> None:
    """A check on the flop and a bet on the turn is no check-raise."""
    events = ["blind@0 1", "blind@1 2", "call@0 1", "check@1", "flop 2c 7d Ts", "check@1", "bet@0 2"]
    raised = hands.build_hand([*events, "raise@1 8", "fold@0"], holes=[None] * 2, stacks=[50.0, 50.0])
    later = hands.build_hand([*events, "call@1 2", "turn Kh", "bet@1 4", "fold@0"], holes=[None] * 2, stacks=[50.0, 50.0])
    names, betting = _betting(raised, villain=1)
    assert [names[i] for i in betting.is_check_raise[0].nonzero()[:, 0].tolist()] == ["raise@seat1"]
    assert not _betting(raised, villain=0)[1].is_check_raise.any()
    assert not _betting(later, villain=1)[1].is_check_raise.any()


def test_prices_and_pots_are_those_of_the_replay() -> None:
    """The replay conserves chips hand by hand; the tensors must say the same of random hands of every size."""
    num_seen = 0
    for hand in hands.random_hands(7, 40):
        _, betting = _betting(hand, villain=0)
        shown = betting.is_decision[0].nonzero()[:, 0]
        decisions = replay(hand)[: len(shown)]  # a long hand is cut in the stream
        for position, decision in zip(shown[: len(decisions)].tolist(), decisions, strict=True):
            assert float(betting.to_call_bb[0, position]) == pytest.approx(decision.price_chips / hand.big_blind, abs=1e-4)
            assert float(betting.pot_bb[0, position]) == pytest.approx(decision.pot_chips / hand.big_blind, abs=1e-4)
            num_seen += 1
    assert num_seen > 200


def test_opponents_are_live_seats_other_than_the_villain() -> None:
    """The villain's own fold takes no opponent away."""
    stream, _ = _read(hands.three_way_showdown(), villain=1)
    names = [tokens.describe(token) for token in stream[0].tolist()]
    opponents = num_opponents(stream)[0].tolist()
    assert opponents[names.index("fold@seat1")] == 2
    assert num_opponents(_read(hands.three_way_showdown(), villain=0)[0])[0, -1] == 1
    assert opponents[0] == 2


def test_boards_and_stacks_come_from_the_stream() -> None:
    """A board in another order puts the turn into the flop."""
    stream, values = _read(hands.three_way_showdown(), villain=1)
    assert [cards.format_card(card) for card in board_cards(stream)[0].tolist()] == ["2c", "7d", "Ts", "Kh", "3s"]
    assert board_cards(_read(hands.walk(), villain=1)[0])[0].tolist() == [-1] * 5
    assert float(effective_stack_bb(stream, values)[0]) == 75.0
    assert float(effective_stack_bb(*_read(hands.three_way_showdown(), villain=0))[0]) == 75.0
    assert int(table_size(stream)[0]) == 3
    assert int(villain_seat(stream)[0]) == 1


def test_padding_and_suit_names_change_nothing() -> None:
    """State that leaks in from padding or from cards would depend on the batch."""
    batch = _batch()
    alone = read_betting(batch.tokens, batch.values)
    padded = read_betting(
        torch.nn.functional.pad(batch.tokens, (0, 7), value=tokens.PAD), torch.nn.functional.pad(batch.values, (0, 7))
    )
    renamed = read_betting(torch.from_numpy(tokens.PERM_ACTION)[5][batch.tokens], batch.values)
    names = [name for name in Betting.__slots__ if name != "action"]
    assert len(names) > 8
    for name in names:
        state = getattr(alone, name)
        assert torch.equal(getattr(padded, name)[:, :-7], state)
        assert torch.equal(getattr(renamed, name), state)
    assert alone.is_aggressive.any()


def test_nothing_is_read_from_later_tokens() -> None:
    """A baseline that sees the future is not beaten by anything."""
    batch = _batch()
    whole = read_betting(batch.tokens, batch.values)
    for cut in (20, 30):
        part = read_betting(batch.tokens[:, :cut].contiguous(), batch.values[:, :cut].contiguous())
        for name in Betting.__slots__:
            assert torch.equal(getattr(part, name), getattr(whole, name)[:, :cut])


def test_values_of_another_shape_are_refused() -> None:
    """Values of another batch would broadcast."""
    stream, values = _read(hands.walk(), villain=1)
    with pytest.raises(ValueError, match="read_betting"):
        read_betting(stream, values[:, :-1])


def test_every_voluntary_kind_is_a_decision() -> None:
    """A kind left out would never be counted."""
    batch = _batch()
    betting = read_betting(batch.tokens, batch.values)
    seen = {tokens.BaseAction(action).name for action in betting.action[betting.is_decision].unique().tolist()}
    assert seen == {EventKind(kind).name for kind in range(EventKind.FOLD, EventKind.FLOP)} | {"ALL_IN"}
