"""Decoder blocks: pre-norm RMSNorm without scale, causal attention with normalised queries and keys, ReLU^2 MLP, no biases.

Legend: ``B`` reads, ``T`` positions (keys), ``Q`` positions that ask (queries), ``D`` width, ``H`` heads, ``E`` = D / H.
Every block is causal, so right padding never changes a real position. A block can be asked for some positions only: the
last one needs to answer just where logits are wanted, while its keys and values still come from the whole stream.
"""

from typing import Final, NamedTuple

import torch
from torch import nn
from torch.nn import functional

NORM_EPS: Final = 1e-6
ROPE_BASE: Final = 10_000.0


def rms_norm(x: torch.Tensor) -> torch.Tensor:
    """Return ``x`` scaled to root mean square 1 along its last dimension."""
    if x.device.type == "cpu" and not torch.is_grad_enabled() and x.dtype == torch.float32:
        # The library squares into memory of its own first: 0.6 of its time at widths of 32 and 96 (torch 2.13, 2026-11).
        square_sum: torch.Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_()
        return x * square_sum.div_(x.shape[-1]).add_(NORM_EPS).rsqrt_()
    return functional.rms_norm(x, (x.shape[-1],), eps=NORM_EPS)


def rotate(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Return heads (B, H, T, E) rotated by their positions (B, T) or (1, T): the rotary encoding of the RoPE arm."""
    half = x.shape[-1] // 2
    exponent = torch.arange(half, device=x.device, dtype=torch.float32) / half
    angle = positions.unsqueeze(-1) * ROPE_BASE**-exponent  # (B, T, E / 2)
    cos, sin = angle.cos().to(x.dtype).unsqueeze(1), angle.sin().to(x.dtype).unsqueeze(1)  # (B, 1, T, E / 2)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


class LayerCache(NamedTuple):
    """Keys and values of a layer, with room for ``M`` positions; what lies beyond the stream so far is undefined."""

    keys: torch.Tensor  # (B, H, M, E), normalised and rotated
    values: torch.Tensor  # (B, H, M, E)


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
            is_visible_key = (everywhere.unsqueeze(1) <= here.unsqueeze(-1)).unsqueeze(1)  # (1 or B, 1, Q, T)
            # Training keeps the written-out one, which the compiler can fuse with what is around it. Not compiled, the library's is
            # faster forward and backward, 1.2 to 2 times from 18 to 96 positions (torch 2.13, 2026-11); before 2.13 its backward
            # was by far the slower.
            attention = attend if torch.is_grad_enabled() else functional.scaled_dot_product_attention
            mixed = attention(q, k, v, is_visible_key)
        return functional.linear(mixed.transpose(1, 2).flatten(2), self.out)  # (B, H, Q, E) -> (B, Q, D)

    def extend(self, x: torch.Tensor, num_asked: int, first: int, cache: LayerCache) -> torch.Tensor:
        """Return what the last ``num_asked`` of ``S`` new positions gather, (B, num_asked, D); the cache gains all ``S``.

        Args:
            x: (B, S, D) normalised vectors of the new positions.
            num_asked: 1..S.
            first: where the first new position stands in the stream.
            cache: of the stream before it.
        """
        num_new = x.shape[1]
        end = first + num_new
        positions = torch.arange(first, end, device=x.device)  # (S,)
        asked = positions[num_new - num_asked :]
        q = rms_norm(self._heads(functional.linear(x[:, num_new - num_asked :], self.query)))  # (B, H, num_asked, E)
        key, value = functional.linear(x, self.key_value).chunk(2, dim=-1)
        k = rms_norm(self._heads(key))  # (B, H, S, E)
        if self.is_rotary:
            q, k = rotate(q, asked.unsqueeze(0)), rotate(k, positions.unsqueeze(0))
        cache.keys[:, :, first:end], cache.values[:, :, first:end] = k, self._heads(value)
        is_visible_key = None  # the last position sees everything
        if num_asked > 1:
            is_visible_key = torch.arange(end, device=x.device) <= asked.unsqueeze(-1)  # (num_asked, end)
        mixed = functional.scaled_dot_product_attention(q, cache.keys[:, :, :end], cache.values[:, :, :end], is_visible_key)
        return functional.linear(mixed.transpose(1, 2).flatten(2), self.out)  # (B, num_asked, D)

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)  # (B, T, D) -> (B, H, T, E)


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_visible_key: torch.Tensor) -> torch.Tensor:
    """Return attention (B, H, Q, E) written out, for training on a CPU; ``is_visible_key`` broadcasts to (B, H, Q, T)."""
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
        hidden = functional.linear(x, self.expand).relu_()
        return functional.linear(hidden.square() if hidden.requires_grad else hidden.square_(), self.out)


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

    def extend(self, x: torch.Tensor, num_asked: int, first: int, cache: LayerCache) -> torch.Tensor:
        """Return the last ``num_asked`` of new positions (B, S, D) after this block; as ``Attention.extend``, without dropout."""
        x, normed = x[:, x.shape[1] - num_asked :], rms_norm(x)
        x = x + self.attention.extend(normed, num_asked, first, cache)
        return x.add(self.mlp(rms_norm(x)))

    def _drop(self, x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(x, self.dropout, self.training) if self.dropout else x
