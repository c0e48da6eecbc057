"""Kinds of hands: what they say of a board, which board each position has, and that scoring them is exact and causal."""

import numpy as np
import pytest
import torch

from range_reader_core import cards
from range_reader_core.batching import DeviceReads, with_named_suits
from range_reader_core.encoder import HandEncoder
from range_reader_core.hand_kinds import NO_BOARD, NUM_DRAWS, NUM_KINDS, NUM_STRENGTHS, _KnownBoards, board_kinds, hand_kinds
from range_reader_core.masks import is_live_combo_at, is_supervised
from range_reader_core.objective import masked_cross_entropy
from range_reader_core.strength import DRAWS, is_on_board_live
from tests.core import hands
from tests.core.readers import random_model

FLOP = "2h 7h Td"


def _combo(text: str) -> int:
    return cards.combo_index(cards.parse_card(text[:2]), cards.parse_card(text[2:]))


def _board(text: str) -> np.ndarray:
    return np.array([[cards.parse_card(card) for card in text.split()]])


def test_kinds_tell_strength_and_draw_apart() -> None:
    """By hand: a set is among the best, a flush draw is a draw, nothing is nothing."""
    strength, draw = np.divmod(board_kinds(_board(FLOP))[0], NUM_DRAWS)
    assert strength[_combo("TsTc")] == NUM_STRENGTHS - 1
    assert strength[_combo("3c4s")] < 2
    assert strength[_combo("TsAc")] > strength[_combo("7sAc")] > strength[_combo("KcAc")] > strength[_combo("3s5c")]
    assert DRAWS[draw[_combo("AhKh")]] == "flush draw"
    assert DRAWS[draw[_combo("8s9s")]] == "open-ended"
    assert DRAWS[draw[_combo("TsTc")]] == "none"
    assert (np.divmod(board_kinds(_board(FLOP + " 3c 4s"))[0], NUM_DRAWS)[1] == 0).all()


def test_every_live_combo_has_a_kind_and_strengths_are_shared_out() -> None:
    """A kind out of range would read another combo's score."""
    kinds = board_kinds(_board(FLOP))[0]
    assert kinds.min() >= 0
    assert kinds.max() < NUM_KINDS
    share = np.bincount(kinds[is_on_board_live(_board(FLOP))[0]] // NUM_DRAWS, minlength=NUM_STRENGTHS) / 1176
    assert share[-1] < 0.03
    assert share[:8].sum() > 0.5


def test_each_position_has_the_board_that_is_in_sight() -> None:
    """A turn card in the kinds of the flop would tell the future; inside a flop nothing can be evaluated yet."""
    reads, _ = HandEncoder().encode_hands(hands.random_hands(4, 30))
    batch = DeviceReads.from_reads(reads, torch.device("cpu")).batch(np.arange(40))
    rows, positions = is_supervised(batch.tokens).nonzero(as_tuple=True)
    found = hand_kinds(batch.tokens, rows, positions)
    num_seen = 0
    for index, (row, position) in enumerate(zip(rows.tolist(), positions.tolist(), strict=True)):
        board = [token - 208 for token in batch.tokens[row, : position + 1].tolist() if 208 <= token < 260]
        if len(board) < 3:
            assert found.board[index] == NO_BOARD
        else:
            np.testing.assert_array_equal(found.kinds[found.board[index]].numpy(), board_kinds(np.array([board]))[0])
            num_seen += 1
    assert num_seen > 100


def test_no_board_no_kinds() -> None:
    """Most batches of a tight table hold a read that ends before the flop; some hold nothing else."""
    found = hand_kinds(torch.full((2, 5), 261), torch.tensor([0, 1]), torch.tensor([4, 4]))
    assert found.kinds.shape == (0, cards.NUM_COMBOS)
    assert found.board.tolist() == [NO_BOARD, NO_BOARD]


def test_the_fused_loss_equals_the_plain_one() -> None:
    """Gradients of the kinds' scores are written by hand too."""
    model = random_model(names_suits=True, reads_hands=True)
    reads, _ = HandEncoder().encode_hands(hands.random_hands(4, 12))
    batch, alike = with_named_suits(DeviceReads.from_reads(reads, torch.device("cpu")).batch(np.arange(20)))
    rows, positions = is_supervised(batch.tokens).nonzero(as_tuple=True)
    kinds, is_live = hand_kinds(batch.tokens, rows, positions), is_live_combo_at(batch.tokens, rows, positions)
    weights = torch.rand(len(rows), generator=torch.Generator().manual_seed(1))
    losses, gradients = [], []
    for is_fused in (True, False):
        model.zero_grad()
        hidden = model.hidden(batch.tokens, batch.values)[rows, positions]
        readout = model.readout(hidden, alike[rows, positions], kinds)
        if is_fused:
            loss = masked_cross_entropy(readout, batch.targets[rows], is_live, weights)
        else:
            logits = readout.logits().masked_fill(~is_live, -torch.inf)
            loss = (torch.nn.functional.cross_entropy(logits, batch.targets[rows], reduction="none") * weights).sum()
        loss.backward()
        losses.append(loss.item())
        gradients.append(
            {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}
        )
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    fused, plain = gradients
    assert "head.kinds.both" in fused
    for name, gradient in plain.items():
        assert torch.allclose(fused[name], gradient, atol=1e-4 * max(1.0, float(gradient.abs().max()))), name


def test_kinds_must_be_told_where_they_are_read() -> None:
    """A head that silently leaves them out would be trained on one thing and used as another."""
    reads_hands, does_not = random_model(names_suits=True, reads_hands=True), random_model(names_suits=True)
    hidden, alike = torch.zeros(2, 24), torch.tensor([0, 7])
    kinds = hand_kinds(torch.full((2, 5), 261), torch.tensor([0, 1]), torch.tensor([4, 4]))
    for model, given in ((reads_hands, None), (does_not, kinds)):
        with pytest.raises(ValueError, match="kinds of hands"):
            model.logits(hidden, alike, given)


def test_boards_met_before_are_the_same_boards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that two boards share, or a store that is emptied in the middle, would give one board the kinds of another."""
    monkeypatch.setattr("range_reader_core.hand_kinds._MOST_KNOWN", 12)
    known = _KnownBoards()
    generator = np.random.default_rng(0)
    boards = np.array([generator.choice(52, 5, replace=False) for _ in range(40)])
    for _ in range(6):
        chosen = boards[generator.choice(40, 6, replace=False)].copy()
        chosen[:2, 3:] = -1
        chosen[2:4, 4:] = -1
        keys = (np.sort(chosen, axis=1) + 1) @ 53 ** np.arange(5)
        for row, board in zip(known.kinds(keys, chosen), chosen, strict=True):
            np.testing.assert_array_equal(row, board_kinds(board[board >= 0][None])[0])
