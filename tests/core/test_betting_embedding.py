"""What the betting amounts to, as vectors: which facts it takes in, and that none of them is of later positions or hidden cards."""

import numpy as np
import torch

from range_reader_core.batching import DeviceReads
from range_reader_core.betting_embedding import NUM_AMOUNTS, BettingEmbedding, betting_facts
from range_reader_core.embedding import RangeReaderEmbedding
from range_reader_core.encoder import HandEncoder
from range_reader_core.lines import POSITIONS, villain_position, villain_seat
from range_reader_core.tokens import MAX_SEATS
from tests.core import hands
from tests.core.readers import random_model

WIDTH = 24


def _stream(events: list[str], *, villain: int = 1, perspective: int | None = 0) -> tuple[torch.Tensor, torch.Tensor]:
    hand = hands.build_hand(["blind@1 1", "blind@2 2", *events], holes=["AhKd", "2c2d", "9s8s"], stacks=[200.0, 300.0, 400.0])
    read = HandEncoder().encode(hand, villain, perspective)
    return torch.from_numpy(read.tokens.astype(np.int64))[None], torch.from_numpy(read.values)[None]


def _embedding() -> RangeReaderEmbedding:
    return random_model(reads_betting=True).embedding


def _betting(stream: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    embedding = _embedding()
    assert embedding.betting is not None
    facts = embedding.position_facts(stream)
    result: torch.Tensor = embedding.betting(betting_facts(stream, values, facts.seat, facts.relpos, 0))
    return result


def test_positions_do_not_depend_on_what_comes_later() -> None:
    """A total of the whole hand in an input would tell how the hand goes on."""
    reads, _ = HandEncoder().encode_hands(hands.random_hands(6, 20))
    batch = DeviceReads.from_reads(reads, torch.device("cpu")).batch(np.arange(30))
    whole = _betting(batch.tokens, batch.values)
    slots_end = 2 * (batch.tokens < MAX_SEATS).sum(dim=1) + 3  # (B,); before it the stream does not say who reads whom
    num_compared = 0
    for end in range(7, batch.tokens.shape[1], 2):
        is_begun = slots_end <= end
        part = _betting(batch.tokens[is_begun, :end], batch.values[is_begun, :end])
        torch.testing.assert_close(part, whole[is_begun, :end], rtol=0, atol=1e-5)
        num_compared += int(is_begun.sum())
    assert num_compared > 300


def test_the_part_from_a_position_on_equals_the_whole() -> None:
    """A growing stream embeds its new positions alone."""
    embedding = _embedding()
    stream, values = _stream(["raise@0 6", "call@1 5", "call@2 4", "flop 2h 7h Td", "check@1", "bet@2 10"])
    whole = embedding(stream, values)
    torch.testing.assert_close(embedding(stream, values, 11), whole[:, 11:])


def test_what_is_told() -> None:
    """Each fact must reach the vectors: who is read, where it sits, what it faces, for how much."""
    line = ["raise@0 6", "call@1 5", "fold@2", "flop 2h 7h Td", "check@1", "bet@0 10"]
    stream, values = _stream(line)
    usual = _betting(stream, values)[0, -1]
    others = {
        "who is read": _stream(line, villain=2),
        "who reads": _stream(line, perspective=2),
        "the size of the bet": _stream([*line[:-1], "bet@0 40"]),
        "the pot": _stream(["raise@0 16", "call@1 15", *line[2:]]),
        "what is faced": _stream(["raise@0 6", "raise@1 20", "fold@2", "call@0 15", *line[3:]]),
        "the street": _stream([*line[:4], "check@1", "check@0", "turn 3c", "check@1", "bet@0 10"]),
    }
    for name, (stream, values) in others.items():
        assert not torch.allclose(_betting(stream, values)[0, -1], usual, atol=1e-3), name


def test_seats_have_the_positions_of_players() -> None:
    """The row of a seat's position must be the one that the villain's would be."""
    embedding = BettingEmbedding(WIDTH)
    with torch.no_grad():
        for parameter in embedding.parameters():
            parameter.zero_()
        embedding.position.copy_(torch.eye(len(POSITIONS) + 1, WIDTH))
    facts_of = RangeReaderEmbedding(WIDTH).position_facts
    seen: set[int] = set()
    for num_players in (2, 3, 9):
        reads, _ = HandEncoder().encode_hands(hands.random_hands(6, 5, num_players))
        batch = DeviceReads.from_reads(reads, torch.device("cpu")).batch(np.arange(reads.num_reads))
        facts = facts_of(batch.tokens)
        row = embedding(betting_facts(batch.tokens, batch.values, facts.seat, facts.relpos, 0)).argmax(dim=2)  # (B, T)
        is_villain = facts.seat == villain_seat(batch.tokens)[:, None]
        expected = villain_position(batch.tokens)[:, None].expand_as(row)
        assert torch.equal(row[is_villain], expected[is_villain])
        assert (row[facts.seat == MAX_SEATS] == len(POSITIONS)).all()
        seen |= set(row.flatten().tolist())
    assert seen == set(range(len(POSITIONS) + 1))


def test_amounts_stay_small() -> None:
    """All-in confrontations of deep stacks must not saturate what follows."""
    stream, values = _stream(["raise@0 200", "raise@1 299", "call@2 298"])
    assert NUM_AMOUNTS == 6
    assert _betting(stream, values * 50).isfinite().all()
