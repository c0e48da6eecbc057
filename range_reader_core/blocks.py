"""Decoder blocks: pre-norm RMSNorm without scale, causal attention with normalised queries and keys, ReLU^2 MLP, no biases.

Legend: ``B`` reads, ``T`` positions (keys), ``Q`` positions that ask (queries), ``D`` width, ``H`` heads, ``E`` = D / H.
Every block is causal, so right padding never changes a real position. A block can be asked for some positions only: the
last one needs to answer just where logits are wanted, while its keys and values still come from the whole stream.
"""

from typing import Final

import torch
from torch import nn
from torch.nn import functional

NORM_EPS: Final = 1e-6
ROPE_BASE: Final = 10_000.0


def rms_norm(x: torch.Tensor) -> torch.Tensor:
    """Return ``x`` scaled to root mean square 1 along its last dimension."""
    return functional.rms_norm(x, (x.shape[-1],), eps=NORM_EPS)


def rotate(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Return heads (B, H, T, E) rotated by their positions (B, T) or (1, T): the rotary encoding of the RoPE arm."""
    half = x.shape[-1] // 2
    exponent = torch.arange(half, device=x.device, dtype=torch.float32) / half
    angle = positions.unsqueeze(-1) * ROPE_BASE**-exponent  # (B, T, E / 2)
    cos, sin = angle.cos().to(x.dtype).unsqueeze(1), angle.sin().to(x.dtype).unsqueeze(1)  # (B, 1, T, E / 2)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


class Attention(nn.Module):
    """Causal self-attention. Queries and keys are normalised per head, which bounds the scores without a learned scale."""

    def __init__(self, width: int, num_heads: int, *, is_rotary: bool) -> None:
        """Leave the weights unset; ``init_weights`` sets them."""
        super().__init__()
        self.num_heads = num_heads
        self.is_rotary = is_rotary
        self.query = nn.Parameter(torch.empty(width, width))
        self.key_value = nn.Parameter(torch.empty(2 * width, width))
        self.out = nn.Parameter(torch.empty(width, width))

    def forward(self, x: torch.Tensor, asked: torch.Tensor, positions: torch.Tensor | None) -> torch.Tensor:
        """Return what the asking positions gather from the stream.

        Args:
            x: (B, T, D) normalised stream.
            asked: (B, Q, D) normalised vectors of the asking positions.
            positions: (B, Q) where they stand in the stream; None when they are all of it, in order.
        """
        q = self._heads(functional.linear(asked, self.query))  # (B, H, Q, E)
        key, value = functional.linear(x, self.key_value).chunk(2, dim=-1)
        k, v = self._heads(key), self._heads(value)  # (B, H, T, E)
        q, k = rms_norm(q), rms_norm(k)
        everywhere = torch.arange(x.shape[1], device=x.device).unsqueeze(0)  # (1, T)
        here = everywhere if positions is None else positions
        if self.is_rotary:
            q, k = rotate(q, here), rotate(k, everywhere)
        if x.is_cuda and positions is None:
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            is_visible_key = everywhere.unsqueeze(1) <= here.unsqueeze(-1)  # (1 or B, Q, T)
            mixed = attend(q, k, v, is_visible_key.unsqueeze(1))
        return functional.linear(mixed.transpose(1, 2).flatten(2), self.out)  # (B, H, Q, E) -> (B, Q, D)

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)  # (B, T, D) -> (B, H, T, E)


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_visible_key: torch.Tensor) -> torch.Tensor:
    """Return attention (B, H, Q, E) written out. On a CPU its backward is much faster than the library's at T < 100."""
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)  # (B, H, Q, T)
    weights = scores.masked_fill(~is_visible_key, -torch.inf).softmax(dim=-1)
    mixed: torch.Tensor = weights @ v
    return mixed


class FeedForward(nn.Module):
    """The ReLU^2 MLP."""

    def __init__(self, width: int, hidden_width: int) -> None:
        """Leave the weights unset; ``init_weights`` sets them."""
        super().__init__()
        self.expand = nn.Parameter(torch.empty(hidden_width, width))
        self.out = nn.Parameter(torch.empty(width, hidden_width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (B, T, D) -> (B, T, D)."""
        return functional.linear(functional.linear(x, self.expand).relu().square(), self.out)


class Block(nn.Module):
    """One decoder block: attention and MLP, each added to the stream after dropout."""

    def __init__(self, width: int, num_heads: int, mlp_ratio: int, dropout: float, *, is_rotary: bool) -> None:
        """Leave the weights unset; ``init_weights`` sets them."""
        super().__init__()
        self.attention = Attention(width, num_heads, is_rotary=is_rotary)
        self.mlp = FeedForward(width, mlp_ratio * width)
        self.dropout = dropout

    def forward(self, x: torch.Tensor, positions: torch.Tensor | None = None) -> torch.Tensor:
        """Return the stream after this block: (B, T, D), or (B, Q, D) at the asked positions (B, Q) alone."""
        normed = rms_norm(x)
        if positions is None:
            asked = normed
        else:
            index = positions.unsqueeze(-1).expand(-1, -1, x.shape[-1])  # (B, Q, D)
            x, asked = x.gather(1, index), normed.gather(1, index)
        x = x + self._drop(self.attention(normed, asked, positions))
        return x + self._drop(self.mlp(rms_norm(x)))

    def _drop(self, x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(x, self.dropout, self.training) if self.dropout else x
