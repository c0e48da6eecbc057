"""A hand walked in plain Python tells the same as the tensors of a batch."""

import numpy as np
import pytest
import torch

from range_reader_core.batching import DeviceReads
from range_reader_core.betting_embedding import betting_facts
from range_reader_core.betting_walk import WalkedFacts, walk
from range_reader_core.embedding import RangeReaderEmbedding
from range_reader_core.encoder import HandEncoder, as_watched
from range_reader_core.lines import villain_seat
from range_reader_core.tokens import PAD
from tests.core import hands

WIDTH = 4


def _of_batch(stream: torch.Tensor, values: torch.Tensor) -> list[WalkedFacts]:
    places = RangeReaderEmbedding(WIDTH).position_facts(stream)
    *betting, amounts = betting_facts(stream, values, places.seat, places.relpos, 0)
    rows = torch.stack([column.expand_as(stream) for column in (*places, *betting)], dim=2)  # (B, T, 9)
    return [
        WalkedFacts([tuple(row) for row in of_read], [tuple(row) for row in amounts_of_read])
        for of_read, amounts_of_read in zip(rows.tolist(), amounts.tolist(), strict=True)
    ]


def _check(stream: torch.Tensor, values: torch.Tensor) -> int:
    """Compare every position of (B, T); returns how many there are."""
    for row, expected in enumerate(_of_batch(stream, values)):
        walked = walk(stream[row].tolist(), values[row].tolist()).facts()
        assert walked.rows == expected.rows
        np.testing.assert_allclose(walked.amounts, expected.amounts, rtol=1e-5, atol=1e-5)
    return stream.numel()


@pytest.mark.parametrize(("num_players", "is_watched"), [(2, False), (3, True), (6, False), (9, True)])
def test_a_walk_tells_what_a_batch_tells_at_every_position(num_players: int, is_watched: bool) -> None:
    """One hand read alone would be read by other facts than the model was trained on."""
    reads, _ = HandEncoder().encode_hands(hands.random_hands(num_players, 25, num_players))
    reads = as_watched(reads) if is_watched else reads
    batch = DeviceReads.from_reads(reads, torch.device("cpu")).batch(np.arange(min(reads.num_reads, 120)))
    assert bool((batch.tokens == PAD).any())
    assert _check(batch.tokens, batch.values) > 500


def test_antes_all_ins_and_raises_of_every_size() -> None:
    """An ante pays no price, an all-in raises only where it raises the price, and a re-raised street has its own situation."""
    hand = hands.build_hand(
        [
            *["ante@0 1", "ante@1 1", "ante@2 1", "blind@1 1", "blind@2 2"],
            *["call@0 2", "raise@1 9", "call@2 8 all-in", "raise@0 38", "call@1 30"],
            *["flop 2h 7h Td", "check@1", "bet@0 40", "raise@1 90 all-in", "call@0 50", "turn 3c", "river 4c"],
        ],
        holes=["AhKd", "2c2d", None],
        stacks=[200.0, 131.0, 11.0],
    )
    num_compared = 0
    for villain, perspective in ((0, 1), (1, 0), (2, 0), (0, None)):
        read = HandEncoder().encode(hand, villain, perspective)
        num_compared += _check(torch.from_numpy(read.tokens.astype(np.int64))[None], torch.from_numpy(read.values)[None])
    assert num_compared > 100


def test_one_walk_serves_every_villain() -> None:
    """A session walks a hand once; facts about a seat that the tokens do not name must be that seat's."""
    hand = hands.random_hands(4, 1, 6)[0]
    reads = [HandEncoder().encode(hand, villain, 0) for villain in range(1, 6)]
    walked = walk(reads[0].tokens.tolist(), reads[0].values.tolist())
    for read in reads:
        stream = torch.from_numpy(read.tokens.astype(np.int64))[None]
        (expected,) = _of_batch(stream, torch.from_numpy(read.values)[None])
        of_villain = walked.facts(7, int(villain_seat(stream)), 30)
        assert of_villain.rows == expected.rows[7:30]
        np.testing.assert_allclose(of_villain.amounts, expected.amounts[7:30], rtol=1e-5, atol=1e-5)
