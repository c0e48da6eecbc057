"""Which parameters decay, the learning rate over the budget, the weight average, gradients."""

import pytest
import torch
from torch import nn

from range_reader_core.model import ModelConfig, RangeReaderModel
from range_reader_core.optim import adamw, clip_gradients, gradient_norm, learning_rate_factor, set_learning_rate, update_average


def test_decay_touches_parameters_of_two_or_more_dimensions_alone() -> None:
    """A bias started at the static range would be pulled back to uniform."""
    model = RangeReaderModel(ModelConfig(num_layers=1, width=6, num_heads=1, head="composed"))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0)
            parameter.grad = torch.zeros_like(parameter)
    optimizer = adamw(model, learning_rate=0.5, betas=(0.9, 0.95), weight_decay=0.2)
    optimizer.step()
    moved = {name: parameter.detach().flatten()[0].item() for name, parameter in model.named_parameters()}
    assert moved.pop("head.class_bias") == 1.0
    assert all(value == pytest.approx(0.9) for value in moved.values())


def test_the_first_step_is_adams() -> None:
    """With fresh moments Adam moves by the rate against the gradient's sign, and betas reach it."""
    layer = nn.Linear(2, 1, bias=False)
    optimizer = adamw(layer, learning_rate=0.1, betas=(0.9, 0.95), weight_decay=0.0)
    assert optimizer.param_groups[0]["betas"] == (0.9, 0.95)
    before = layer.weight.detach().clone()
    layer.weight.grad = torch.tensor([[3.0, -0.01]])
    optimizer.step()
    assert torch.allclose(layer.weight.detach() - before, torch.tensor([[-0.1, 0.1]]), atol=1e-4)
    set_learning_rate(optimizer, 0.0)
    before = layer.weight.detach().clone()
    optimizer.step()
    assert torch.equal(layer.weight.detach(), before)


@pytest.mark.parametrize(("progress", "factor"), [(0.0, 0.0), (0.01, 0.5), (0.02, 1.0), (0.51, 0.55), (1.0, 0.1), (7.0, 0.1)])
def test_the_rate_warms_up_and_falls_to_a_tenth(progress: float, factor: float) -> None:
    """By hand: half way between warm-up and end the cosine is half way between 1 and 0.1."""
    assert learning_rate_factor(progress, warmup=0.02, final=0.1) == pytest.approx(factor)


def test_no_warmup_starts_at_the_peak() -> None:
    """Zero over zero must not appear."""
    assert learning_rate_factor(0.0, warmup=0.0, final=0.1) == 1.0


@pytest.mark.parametrize(
    ("progress", "warmup", "final"), [(-0.1, 0.1, 0.1), (float("nan"), 0.1, 0.1), (0.0, 1.0, 0.1), (0.0, 0.1, 1.1)]
)
def test_a_fraction_outside_its_range_is_refused(progress: float, warmup: float, final: float) -> None:
    """A clock that runs backwards shows here first."""
    with pytest.raises(ValueError, match="expected progress"):
        learning_rate_factor(progress, warmup=warmup, final=final)


def test_the_average_moves_by_its_share() -> None:
    """0.99 * 1 + 0.01 * 2 by hand, for every parameter."""
    average, model = nn.Linear(3, 2), nn.Linear(3, 2)
    with torch.no_grad():
        for a, b in zip(average.parameters(), model.parameters(), strict=True):
            a.fill_(1.0)
            b.fill_(2.0)
    update_average(average, model, 0.99)
    assert all(torch.allclose(a, torch.tensor(1.01)) for a in average.parameters())


def test_gradients_are_measured_and_clipped_together() -> None:
    """Clipping each tensor alone would turn the direction."""
    layer = nn.Linear(2, 1)
    layer.weight.grad, layer.bias.grad = torch.tensor([[2.0, 3.0]]), torch.tensor([6.0])
    assert float(gradient_norm(layer)) == pytest.approx(7.0)
    clip_gradients(layer, 7.0, 8.0)
    assert layer.bias.grad.tolist() == [6.0]
    clip_gradients(layer, 7.0, 3.5)
    assert layer.weight.grad.tolist() == [[1.0, 1.5]]
    assert layer.bias.grad.tolist() == [3.0]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_one_bad_gradient_makes_the_norm_not_finite(bad: float) -> None:
    """That is what stops the run."""
    layer = nn.Linear(2, 1)
    layer.weight.grad, layer.bias.grad = torch.tensor([[2.0, bad]]), torch.tensor([6.0])
    assert not gradient_norm(layer).isfinite()
