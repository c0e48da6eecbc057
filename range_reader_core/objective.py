"""The training objective: which supervised positions a step scores, and their masked cross-entropy.

Legend: ``B`` reads, ``T`` positions, ``K`` positions chosen a read, ``N`` chosen positions, ``C`` = 1326 combos, ``E`` query width.
The objective is the mean cross-entropy over all supervised positions of a batch, dead combos excluded. Scoring a few random
positions a read instead of all is an unbiased estimate of the same number, because each stands for the ones left out.
The loss is fused with the product of queries and combo vectors: one block of logits at a time is turned into its own
gradient in place, so no float32 (N, C) array exists even once.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import torch

from range_reader_core.hand_kinds import HandKinds
from range_reader_core.heads import Readout

CPU_ROWS: Final = 256  # 1.3 MB of logits, so that the passes over them stay in the cache
CUDA_ROWS: Final = 16_384


class ChosenPositions(NamedTuple):
    """Positions a step scores. Weights of a batch add up, in expectation, to its number of supervised positions."""

    positions: torch.Tensor  # (B, K) int64
    weights: torch.Tensor  # (B, K) float32, 0 where a read has fewer than K supervised positions
    num_supervised: torch.Tensor  # () int64, supervised positions of the batch


def choose_positions(is_supervised: torch.Tensor, num_positions: int, generator: torch.Generator) -> ChosenPositions:
    """Return ``num_positions`` random supervised positions of each read of (B, T), without repeats, and their weights.

    A position is weighted by how many of its read it stands for, so the weighted sum has the sum over all supervised positions
    as its expectation. A read with fewer than ``num_positions`` is scored at all of them.
    """
    device = is_supervised.device
    keys = torch.rand(is_supervised.shape, generator=generator, device=device) * is_supervised + is_supervised  # 1..2, else 0
    positions = keys.topk(min(num_positions, is_supervised.shape[1]), dim=1).indices  # (B, K)
    num_of_read = is_supervised.sum(dim=1, keepdim=True)  # (B, 1)
    is_real = torch.arange(positions.shape[1], device=device) < num_of_read  # (B, K): topk puts supervised ones first
    weights = is_real * num_of_read / num_of_read.clamp(min=1, max=num_positions)
    # A weightless entry repeats the first position: an unsupervised one may have no defined answer.
    positions = torch.where(is_real, positions, positions[:, :1])
    return ChosenPositions(positions, weights.float(), num_of_read.sum())


def masked_cross_entropy(readout: Readout, targets: torch.Tensor, is_live: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the weighted sum of cross-entropies in nats, a float32 scalar that can be differentiated once.

    Args:
        readout: queries of ``N`` positions, combo vectors and biases, float32.
        targets: (N,) int64, the true combos.
        is_live: (N, C) bool, the combos that may still be the truth.
        weights: (N,) float32.

    Raises:
        ValueError: shapes disagree, or on a CPU a weighted target is not live; names the rows. On a GPU a dead target makes
            the loss infinite, which ``training`` stops at.
    """
    num = len(targets)
    if readout.query.shape[0] != num or is_live.shape != (num, len(readout.combo_bias)) or weights.shape != (num,):
        msg = (
            f"masked_cross_entropy: expected {num} queries, masks and weights, got {tuple(readout.query.shape)}, "
            f"{tuple(is_live.shape)} and {tuple(weights.shape)}"
        )
        raise ValueError(msg)
    if targets.device.type == "cpu":
        is_target_live = is_live.gather(1, targets.unsqueeze(1)).squeeze(1) | (weights == 0)
        if not bool(is_target_live.all()):
            rows = (~is_target_live).nonzero().flatten()[:5].tolist()
            msg = f"masked_cross_entropy: the true combo is not live at rows {rows} (first five), combos {targets[rows].tolist()}"
            raise ValueError(msg)
    query, of_kind = readout.query, readout.of_kind
    order, runs = readout.runs()
    if readout.alike is not None:
        query, targets, is_live, weights = query[order], targets[order], is_live[order], weights[order]
        of_kind = None if of_kind is None else of_kind.take(order)
    scores, kinds = (None, None) if of_kind is None else of_kind
    loss: torch.Tensor = _FusedCrossEntropy.apply(  # type: ignore[no-untyped-call]  # torch stub
        query, readout.combo_vectors, readout.combo_bias, scores, kinds, targets, is_live, weights, runs
    )
    return loss


class _FusedCrossEntropy(torch.autograd.Function):
    """Computes the gradient along with the loss, block by block of rows; backward only scales it."""

    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        combo_vectors: torch.Tensor,
        combo_bias: torch.Tensor,
        scores: torch.Tensor | None,
        kinds: HandKinds | None,
        targets: torch.Tensor,
        is_live: torch.Tensor,
        weights: torch.Tensor,
        runs: list[tuple[int, slice]],
    ) -> torch.Tensor:
        rows = CPU_ROWS if query.device.type == "cpu" else CUDA_ROWS
        d_query = torch.empty_like(query)
        d_vectors = torch.zeros_like(combo_vectors)
        d_scores = None if scores is None else torch.zeros_like(scores)
        d_bias = torch.zeros_like(combo_bias)
        total = query.new_zeros((), dtype=torch.float64)
        for table, block in _blocks(runs, rows):
            vectors = combo_vectors[table]  # (C, E)
            q, target, weight = query[block], targets[block].unsqueeze(1), weights[block].unsqueeze(1)
            logits = torch.addmm(combo_bias, q, vectors.T)  # (n, C)
            if scores is not None and kinds is not None:
                rows_with_board, kind = kinds.with_board(block)  # (n',) and (n', C)
                logits.index_add_(0, rows_with_board, scores[block][rows_with_board].gather(1, kind))
            logits.masked_fill_(~is_live[block], -torch.inf)
            best = logits.amax(dim=1, keepdim=True)  # (n, 1)
            of_target = logits.gather(1, target)
            # The exponential is the costly pass, and it is made once: e / sum(e) is the probability, d loss / d logit + 1[target].
            gradient = logits.sub_(best).exp_()
            partition = gradient.sum(dim=1, keepdim=True)
            # A weightless row may have a dead target; 0 * inf must not spoil the sum.
            nats = torch.where(weight == 0, 0.0, partition.log() + best - of_target)
            total += (nats * weight).sum(dtype=torch.float64)
            gradient.mul_(weight / partition).scatter_add_(1, target, -weight)
            torch.mm(gradient, vectors, out=d_query[block])
            d_vectors[table].addmm_(gradient.T, q)
            if d_scores is not None:
                of_kind = d_scores.new_zeros(len(rows_with_board), d_scores.shape[1])
                d_scores[block][rows_with_board] = of_kind.scatter_add_(1, kind, gradient[rows_with_board])
            d_bias += gradient.sum(dim=0)
        ctx.save_for_backward(d_query, d_vectors, d_bias, d_scores)
        return total.float()

    @staticmethod
    def backward(ctx: Any, d_loss: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        d_query, d_vectors, d_bias, d_scores = ctx.saved_tensors
        return (
            d_query * d_loss,
            d_vectors * d_loss,
            d_bias * d_loss,
            None if d_scores is None else d_scores * d_loss,
            None,
            None,
            None,
            None,
            None,
        )


def _blocks(runs: list[tuple[int, slice]], num_rows: int) -> Iterator[tuple[int, slice]]:
    """Yield the rows that share a table of combo vectors, with the table, at most ``num_rows`` at a time."""
    for table, run in runs:
        for start in range(run.start, run.stop, num_rows):
            yield table, slice(start, min(start + num_rows, run.stop))
