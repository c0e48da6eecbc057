"""One stream alone is told the same as among others: the cards in sight, the names of the suits, the kinds of hands."""

import numpy as np
import pytest
import torch

from range_reader_core.batching import DeviceReads
from range_reader_core.card_walk import is_read_alone, walk_cards
from range_reader_core.cards import format_card
from range_reader_core.encoder import HandEncoder, as_watched
from range_reader_core.hand_kinds import NO_BOARD, hand_kinds
from range_reader_core.masks import is_live_combo_at, is_supervised
from range_reader_core.suits import name_suits
from range_reader_core.tokens import PAD
from tests.core import hands

BOARD_OF_TWO_SUITS = ["flop 2h 7h Td", "check@1", "turn 3d", "check@1", "river 4h", "check@1"]


def _stream(hole: str, events: list[str], perspective: int | None = 0) -> torch.Tensor:
    hand = hands.build_hand(["blind@1 1", "blind@0 2", "call@1 1", *events], holes=[hole, None], stacks=[200.0, 200.0])
    return torch.from_numpy(HandEncoder().encode(hand, 1, perspective).tokens.astype(np.int64))[None]


def test_a_walk_finds_the_hand_and_the_board_with_their_places() -> None:
    """A card counted one position too early is a card that the model sees before it falls."""
    stream = _stream("AhKd", BOARD_OF_TWO_SUITS)
    walked = walk_cards(stream[0].tolist())
    assert walked.hole is not None
    assert [format_card(card) for card in (*walked.hole, *walked.board)] == ["Kd", "Ah", "2h", "7h", "Td", "3d", "4h"]
    assert [walked.num_board[position] for position in walked.board_at] == [1, 2, 3, 4, 5]
    assert [walked.num_board[position - 1] for position in walked.board_at] == [0, 1, 2, 3, 4]
    watched = walk_cards(_stream("AhKd", [], None)[0].tolist())
    assert watched.hole is None
    assert watched.hole_at == len(watched.num_board)


@pytest.mark.parametrize(("num_players", "is_watched"), [(2, False), (3, True), (6, False), (6, True)])
def test_a_stream_alone_is_told_what_it_is_told_among_others(num_players: int, is_watched: bool) -> None:
    """A hand asked for alone would be read by other names, masks or strengths than the model was trained on."""
    reads, _ = HandEncoder().encode_hands(hands.random_hands(num_players, 40, num_players))
    reads = as_watched(reads) if is_watched else reads
    stream = DeviceReads.from_reads(reads, torch.device("cpu")).batch(np.arange(min(reads.num_reads, 100))).tokens
    assert bool((stream == PAD).any())
    assert _check(stream) > 500


@pytest.mark.parametrize("hole", ["AhKh", "AhAd", "7s7d", "2d5d", "TcTs"])
def test_pairs_and_cards_of_the_boards_suits_too(hole: str) -> None:
    """Suits are alike or not by what the hand and the board share."""
    streams = [_stream(hole, BOARD_OF_TWO_SUITS, perspective) for perspective in (0, None)]
    assert _check(torch.cat(streams)) > 20


def _check(stream: torch.Tensor) -> int:
    """Compare each row of (B, T) alone with itself among the others; returns the number of positions compared."""
    rows, positions = is_supervised(stream).nonzero(as_tuple=True)
    named, relabeling, alike = name_suits(stream)
    kinds, is_live = hand_kinds(named, rows, positions), is_live_combo_at(stream, rows, positions)
    assert not is_read_alone(stream)
    for row in range(len(stream)):
        alone, here = stream[row : row + 1], rows == row
        assert is_read_alone(alone)
        none = torch.zeros(int(here.sum()), dtype=torch.int64)
        found = name_suits(alone)
        assert torch.equal(found.stream, named[row : row + 1])
        assert found.relabeling.tolist() == [int(relabeling[row])]
        assert torch.equal(found.alike, alike[row : row + 1])
        assert torch.equal(is_live_combo_at(alone, none, positions[here]), is_live[here])
        kinds_alone = hand_kinds(found.stream, none, positions[here])
        assert torch.equal(kinds_alone.board == NO_BOARD, kinds.board[here] == NO_BOARD)
        for mine, theirs in zip(kinds_alone.board.tolist(), kinds.board[here].tolist(), strict=True):
            assert mine == NO_BOARD or torch.equal(kinds_alone.kinds[mine], kinds.kinds[theirs])
    return len(rows)
