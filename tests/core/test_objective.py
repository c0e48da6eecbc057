"""The fused masked cross-entropy against the plain one, and the unbiasedness of scoring a few positions."""

import math

import pytest
import torch

from range_reader_core.heads import Readout
from range_reader_core.objective import CPU_ROWS, choose_positions, masked_cross_entropy

C, E = 17, 5


def readout(num: int, *, num_tables: int = 1, seed: int = 0) -> Readout:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((num, E), (num_tables, C, E), (C,))
    parts = [torch.randn(shape, generator=generator, requires_grad=True) for shape in shapes]
    return Readout(*parts, None if num_tables == 1 else torch.randint(num_tables, (num,), generator=generator))


def case(num: int, *, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return targets, live combos and weights of ``num`` positions; every target is live."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(C, (num,), generator=generator)
    is_live = torch.rand(num, C, generator=generator) < 0.6
    is_live[torch.arange(num), targets] = True
    return targets, is_live, torch.rand(num, generator=generator) + 0.5


def plain(out: Readout, targets: torch.Tensor, is_live: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    table = torch.zeros(len(targets), dtype=torch.int64) if out.alike is None else out.alike
    scores = (out.query.unsqueeze(1) * out.combo_vectors[table]).sum(dim=2)  # (N, C)
    logits = (scores + out.combo_bias).masked_fill(~is_live, -torch.inf)
    return (torch.nn.functional.cross_entropy(logits, targets, reduction="none") * weights).sum()


@pytest.mark.parametrize("num_tables", [1, 3])
@pytest.mark.parametrize("num", [1, 7, CPU_ROWS, CPU_ROWS + 3])
def test_loss_and_gradients_equal_the_plain_ones(num: int, num_tables: int) -> None:
    """The gradient is written by hand; an error in it would look like a hard problem."""
    targets, is_live, weights = case(num)
    fused_out, plain_out = readout(num, num_tables=num_tables), readout(num, num_tables=num_tables)
    fused = masked_cross_entropy(fused_out, targets, is_live, weights)
    expected = plain(plain_out, targets, is_live, weights)
    (fused * 0.25).backward()
    (expected * 0.25).backward()
    assert fused.item() == pytest.approx(expected.item(), rel=1e-5)
    for ours, theirs in zip(fused_out[:3], plain_out[:3], strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        assert torch.allclose(ours.grad, theirs.grad, atol=1e-4 * max(1.0, float(theirs.grad.abs().max())))


def test_logits_are_those_of_each_rows_table() -> None:
    """Rows are put together by table for speed; each must get its own back."""
    out = readout(9, num_tables=4)
    assert out.alike is not None
    expected = [out.combo_vectors[kind] @ query + out.combo_bias for query, kind in zip(out.query, out.alike, strict=True)]
    torch.testing.assert_close(out.logits(), torch.stack(expected))


def test_equal_scores_cost_the_log_of_the_live_combos() -> None:
    """The value by hand: a reader that knows nothing pays ln(live)."""
    out = Readout(torch.zeros(2, E), torch.zeros(1, C, E), torch.zeros(C))
    is_live = torch.ones(2, C, dtype=torch.bool)
    is_live[1, 3:] = False
    loss = masked_cross_entropy(out, torch.tensor([16, 2]), is_live, torch.tensor([1.0, 2.0]))
    assert float(loss) == pytest.approx(math.log(C) + 2 * math.log(3), rel=1e-6)


def test_dead_combos_get_no_gradient() -> None:
    """Probability must never be spent on, or taken from, a card in sight."""
    out = readout(3)
    targets, is_live, weights = case(3)
    is_live[:, 4] = False
    targets = torch.where(targets == 4, 5, targets)
    is_live[:, 5] = True
    masked_cross_entropy(out, targets, is_live, weights).backward()
    assert out.combo_bias.grad is not None
    assert out.combo_bias.grad[4] == 0.0
    assert out.combo_bias.grad[5] != 0.0


def test_a_dead_target_is_named_unless_it_has_no_weight() -> None:
    """It is a bug upstream; an infinite loss names no row."""
    targets, is_live, weights = case(3)
    is_live[1, targets[1]] = False
    with pytest.raises(ValueError, match=r"rows \[1\]"):
        masked_cross_entropy(readout(3), targets, is_live, weights)
    weights[1] = 0.0
    out = readout(3)
    loss = masked_cross_entropy(out, targets, is_live, weights)
    loss.backward()
    keep = torch.tensor([0, 2])
    kept = Readout(out.query[keep], out.combo_vectors, out.combo_bias)
    assert float(loss.detach()) == pytest.approx(float(plain(kept, targets[keep], is_live[keep], weights[keep]).detach()), rel=1e-5)
    assert out.query.grad is not None
    assert (out.query.grad[1] == 0.0).all()


def test_shapes_must_agree() -> None:
    """Broadcasting would silently score other positions."""
    targets, is_live, weights = case(3)
    with pytest.raises(ValueError, match="3 queries"):
        masked_cross_entropy(readout(4), targets, is_live, weights)
    with pytest.raises(ValueError, match="3 queries"):
        masked_cross_entropy(readout(3), targets, is_live, weights[:1])


def test_chosen_positions_are_supervised_different_and_weighted_to_the_whole() -> None:
    """Each stands for the ones left out, so the weights of a read add up to its supervised positions exactly."""
    is_supervised = torch.zeros(4, 11, dtype=torch.bool)
    is_supervised[0, 2:11] = True  # nine, of which three are chosen
    is_supervised[1, 5:7] = True  # two: fewer than three
    is_supervised[2, 4:7] = True  # exactly three
    chosen = choose_positions(is_supervised, 3, torch.Generator().manual_seed(0))
    assert chosen.num_supervised == 14
    assert chosen.weights.sum(dim=1).tolist() == pytest.approx([9.0, 2.0, 3.0, 0.0])
    for row in range(3):
        real = chosen.positions[row][chosen.weights[row] > 0.0].tolist()
        assert len(set(real)) == len(real) == min(3, int(is_supervised[row].sum()))
        assert all(bool(is_supervised[row, position]) for position in real)
        assert is_supervised[row][chosen.positions[row]].all()


def test_choosing_is_unbiased() -> None:
    """A bias towards early or late positions would be another objective."""
    generator = torch.Generator().manual_seed(0)
    num_draws = 20_000
    is_supervised = torch.rand(5, 13, generator=generator) < 0.7
    nats = torch.rand(5, 13, generator=generator)
    chosen = choose_positions(is_supervised.repeat(num_draws, 1), 4, generator)
    rows = torch.arange(5).repeat(num_draws).unsqueeze(1).expand_as(chosen.positions)
    total = (nats[rows, chosen.positions] * chosen.weights).sum(dtype=torch.float64)
    expected = nats[is_supervised].sum().item()
    assert total.item() / num_draws == pytest.approx(expected, rel=3e-3)
    # Each position in expectation once: 0.03 is four standard errors of its frequency.
    times = torch.zeros(5, 13).index_put((rows, chosen.positions), chosen.weights, accumulate=True)
    assert torch.allclose(times / num_draws, is_supervised.float(), atol=0.03)


def test_asking_for_more_positions_than_there_are_takes_all() -> None:
    """Then the estimate is the objective itself."""
    is_supervised = torch.tensor([[False, True, True, False, True]])
    chosen = choose_positions(is_supervised, 9, torch.Generator().manual_seed(0))
    assert sorted(chosen.positions[chosen.weights > 0.0].tolist()) == [1, 2, 4]
    assert chosen.weights[chosen.weights > 0.0].tolist() == [1.0, 1.0, 1.0]


def test_the_draw_is_the_generators() -> None:
    """Resuming relies on it."""
    is_supervised = torch.ones(3, 40, dtype=torch.bool)
    first, second, third = (choose_positions(is_supervised, 4, torch.Generator().manual_seed(s)).positions for s in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
