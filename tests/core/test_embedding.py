"""What the embedding derives from tokens, the features of a chip amount, and its size."""

import math

import numpy as np
import pytest
import torch

from range_reader_core import cards, tokens
from range_reader_core.batching import DeviceReads
from range_reader_core.embedding import NO_SEAT_ROW, RangeReaderEmbedding, phi
from range_reader_core.encoder import HandEncoder
from range_reader_core.model import ModelConfig, RangeReaderModel
from range_reader_core.tokens import BaseAction
from tests.core.hands import build_hand, random_hands, three_way_showdown
from tests.core.readers import random_model

# token of each position, seat, place relative to the button, players still in. Seat 2 reads seat 0; the button is seat 1.
FACTS = """
    <bos>            - - 3
    sit@seat0        0 2 3
    sit@seat1        1 0 3
    sit@seat2        2 1 3
    is_button@seat1  1 0 3
    <preflop>        - - 3
    predict_hole@seat0 0 2 3
    hide_hole@seat1  1 0 3
    hole:ThTd        2 1 3
    post_blind@seat2 2 1 3
    post_blind@seat0 0 2 3
    call@seat1       1 0 3
    fold@seat2       2 1 2
    raise@seat0      0 2 2
    fold@seat1       1 0 1
"""


def embedding(width: int) -> RangeReaderEmbedding:
    return RangeReaderModel(ModelConfig(num_layers=1, width=width, num_heads=1)).embedding


def test_every_position_knows_its_seat_its_place_and_who_is_left() -> None:
    """A feature off by one position or one seat would mislead the model without ever failing."""
    hand = build_hand(
        ["blind@2 1", "blind@0 2", "call@1 2", "fold@2", "raise@0 8", "fold@1"],
        holes=["AhAd", "9c8c", "TdTh"],
        stacks=[200.0, 150.0, 100.0],
        button=1,
        ranking=[0, 1, 2],
    )
    read = HandEncoder().encode(hand, villain=0, perspective=2)
    rows = [line.split() for line in FACTS.split("\n") if line.strip()]
    assert [tokens.describe(int(token)) for token in read.tokens] == [row[0] for row in rows]
    facts = embedding(4).position_facts(torch.from_numpy(read.tokens.astype("int64")).unsqueeze(0))
    nobody = {"-": NO_SEAT_ROW}
    assert facts.seat[0].tolist() == [nobody.get(row[1]) or int(row[1]) for row in rows]
    assert facts.relpos[0].tolist() == [nobody.get(row[2]) or int(row[2]) for row in rows]
    assert facts.num_live[0].tolist() == [int(row[3]) for row in rows]
    assert facts.num_players[0].tolist() == [3] * len(rows)


def test_the_tables_hold_201600_numbers_at_width_640() -> None:
    """The reference counts them; another number means another embedding."""
    assert sum(parameter.numel() for parameter in embedding(640).parameters()) == 201_600


def test_phi_of_an_amount_by_hand() -> None:
    """The order and the frequencies are part of what a checkpoint means."""
    u = math.log(41.0)
    expected = [u, u * u, math.sin(u), math.cos(u), math.sin(2 * u), math.cos(2 * u), math.sin(4 * u), math.cos(4 * u)]
    assert phi(torch.tensor([40.0]))[0].tolist() == pytest.approx(expected, abs=1e-5)
    assert phi(torch.tensor(0.0)).tolist() == [0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("action", list(BaseAction))
def test_only_actions_that_carry_chips_see_the_amount(action: BaseAction) -> None:
    """``phi(0)`` is not zero, so a check or a fold must not pass through the projection of amounts."""
    module = embedding(6)
    token = torch.tensor([[tokens.seat_token(BaseAction.SIT, 0), tokens.seat_token(action, 1)]])
    small, large = (module(token, torch.tensor([[1.0, value]]))[0, 1] for value in (2.0, 50.0))
    assert torch.equal(small, large) is (action not in tokens.CHIP_ACTIONS)


def test_a_hole_combo_is_the_sum_of_its_cards_ranks_and_shape() -> None:
    """The composition is what shares examples between combos; the names here are independent of the index arithmetic."""
    module = embedding(6)
    vectors = module.combo_vectors()
    for name, shape in (("AhAd", cards.SHAPE_PAIR), ("KsQs", cards.SHAPE_SUITED), ("7h2c", cards.SHAPE_OFFSUIT)):
        first, second = cards.parse_card(name[:2]), cards.parse_card(name[2:])
        expected = module.card[first] + module.card[second] + module.combo_type[shape]
        expected = expected + module.card_rank[cards.RANKS.index(name[0])] + module.card_rank[cards.RANKS.index(name[2])]
        assert torch.allclose(vectors[cards.combo_index(first, second)], expected, atol=1e-6)


def test_the_visible_combo_carries_the_seat_of_its_slot() -> None:
    """Without it the model would have to count slots to know who it is."""
    module = embedding(6)
    hand = three_way_showdown()
    read = HandEncoder().encode(hand, villain=2, perspective=1)
    stream, values = torch.from_numpy(read.tokens.astype("int64")).unsqueeze(0), torch.from_numpy(read.values).unsqueeze(0)
    slot = 5 + 1 + 1  # bos, three sits, button, preflop; then the slot of seat 1
    before = module(stream, values)[0, slot].clone()
    with torch.no_grad():
        module.seat[1] += 1.0
        module.relpos[1] += 1.0
    assert torch.allclose(module(stream, values)[0, slot], before + 2.0, atol=1e-5)


def test_reading_takes_shortcuts_to_the_same_vectors() -> None:
    """Without gradients few combos are composed one by one, and a growing stream is embedded from where it grew."""
    embed = embedding(24)
    read = HandEncoder().encode(three_way_showdown(), 0, 2)
    stream, values = torch.from_numpy(read.tokens.astype("int64"))[None], torch.from_numpy(read.values)[None]
    with torch.enable_grad():
        expected = embed(stream, values).detach()
    with torch.no_grad():
        torch.testing.assert_close(embed(stream, values), expected, rtol=0, atol=1e-6)
        for first in (9, 17, stream.shape[1] - 1):  # the slots end at 9
            torch.testing.assert_close(embed(stream, values, first), expected[:, first:], rtol=0, atol=1e-6)


@pytest.mark.parametrize(("reads_betting", "num_reads"), [(True, 1), (True, 30), (False, 3), (False, 30)])
def test_a_position_is_embedded_alike_in_training_and_in_use(reads_betting: bool, num_reads: int) -> None:
    """Without gradients all tables are summed in one pass, and of a few reads the facts are walked."""
    embedding = random_model(reads_betting=reads_betting).embedding
    reads, _ = HandEncoder().encode_hands(random_hands(8, 20, 4))
    batch = DeviceReads.from_reads(reads, torch.device("cpu")).batch(np.arange(num_reads))
    assert bool((batch.tokens >= tokens.COMBO_OFFSET).any())
    trained = embedding(batch.tokens, batch.values)
    for first in (0, 12):
        with torch.no_grad():
            used = embedding(batch.tokens, batch.values, first)
        torch.testing.assert_close(used, trained.detach()[:, first:], rtol=1e-5, atol=1e-5)
