"""AdamW with decay on matrices alone, the learning rate as a function of the budget spent, and the weight average.

Progress is a fraction of the budget, in seconds of wall-clock or in steps; which of them is ``training``'s business. Nothing here
reads a clock or keeps state beyond the optimizer's own.
"""

import math

import torch
from torch import nn


def adamw(model: nn.Module, *, learning_rate: float, betas: tuple[float, float], weight_decay: float) -> torch.optim.AdamW:
    """Return fused AdamW over all parameters; those of fewer than two dimensions are not decayed."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=learning_rate, betas=betas, fused=True)


def learning_rate_factor(progress: float, *, warmup: float, final: float) -> float:
    """Return what the peak learning rate is multiplied by after a fraction ``progress`` of the budget.

    Linear from 0 to 1 over the first ``warmup`` of the budget, then a cosine to ``final``, which it keeps past the end.

    Raises:
        ValueError: a fraction is outside its range.
    """
    if not (progress >= 0.0 and 0.0 <= warmup < 1.0 and 0.0 <= final <= 1.0):
        msg = f"expected progress >= 0, 0 <= warmup < 1, 0 <= final <= 1; got {progress}, {warmup}, {final}"
        raise ValueError(msg)
    if progress < warmup:
        return progress / warmup
    done = min((progress - warmup) / (1.0 - warmup), 1.0)
    return final + (1.0 - final) * 0.5 * (1.0 + math.cos(math.pi * done))


def set_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Set the rate of every group."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate


@torch.no_grad()
def update_average(average: nn.Module, model: nn.Module, decay: float) -> None:
    """Move the exponential moving average one step towards the model: ``average = decay * average + (1 - decay) * model``."""
    torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 1.0 - decay)


def gradient_norm(model: nn.Module) -> torch.Tensor:
    """Return the Euclidean norm of all gradients, a scalar; it is finite exactly when every gradient is."""
    return nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])


@torch.no_grad()
def clip_gradients(model: nn.Module, norm: float, max_norm: float) -> None:
    """Scale all gradients such that their known norm is at most ``max_norm``."""
    if norm > max_norm:
        torch._foreach_mul_([p.grad for p in model.parameters() if p.grad is not None], max_norm / norm)
