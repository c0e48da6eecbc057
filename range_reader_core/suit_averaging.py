"""Log-probabilities of a model at chosen positions: exact for one that names suits, else averaged over their names or single.

A model that names suits (``suits``) is indifferent to what they are called, so one forward is all there is. Any other model may
be averaged over the 24 ways to name suits: the stream is renamed, read, and the answer is named back. For one that treats suits
alike this changes nothing; for a trained one it takes out noise. What is averaged is probabilities. Renamings that a read cannot
tell apart are read once (``orbits``), and the renamed streams of all reads are forwarded together, a cacheful at a time.

Legend: ``B`` reads, ``T`` positions, ``Q`` asked positions a read, ``N`` asked positions in all, ``G`` renamed reads of a pass,
``C`` = 1326 combos.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from range_reader_core.cards import NUM_RELABELINGS
from range_reader_core.hand_kinds import hand_kinds
from range_reader_core.heads import Readout
from range_reader_core.model import RangeReaderModel
from range_reader_core.orbits import average_over_stabiliser, representatives, stabiliser
from range_reader_core.suits import name_suits, relabelings_on
from range_reader_core.tokens import PAD

_CPU_ROWS: Final = 512  # 2.7 MB of logits a pass stay in the cache
_CPU_POSITIONS: Final = 1024  # of a forward, for the same reason
_CUDA_POSITIONS: Final = 32_768


def suit_averaged_logp(
    model: RangeReaderModel,
    stream: torch.Tensor,
    values: torch.Tensor,
    rows: torch.Tensor,
    positions: torch.Tensor,
    is_live: torch.Tensor,
    *,
    num_relabelings: int = NUM_RELABELINGS,
    trunk_dtype: torch.dtype = torch.float32,
    combo_table: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """Return the log of probabilities averaged over suit relabelings, float32 (N, C), -inf on dead combos.

    Args:
        model: in evaluation mode.
        stream: (B, T) int64 tokens.
        values: (B, T) float32, big blinds.
        rows: (N,) int64 ascending, the row of the stream that each position belongs to.
        positions: (N,) int64.
        is_live: (N, C) bool.
        num_relabelings: 24, or 1 for a single forward without renaming; the same to a model that names suits.
        trunk_dtype: float32, or bfloat16 to run the blocks under autocast.
        combo_table: the model's, where the caller keeps it; a sixth of the time of a single forward on a CPU.

    Raises:
        ValueError: rows do not ascend, a position has no live combo, or ``num_relabelings`` is neither 1 nor 24.
    """
    check_num_relabelings(num_relabelings)
    _check_positions(rows, is_live)
    total = torch.zeros(is_live.shape, device=is_live.device)  # (N, C)
    if not len(rows):
        return total
    if model.config.names_suits:
        return _named_logp(model, stream, values, rows, positions, is_live, trunk_dtype, combo_table)
    is_dead = ~is_live  # (N, C)
    asked = _by_row(rows, positions, len(stream))
    last = asked.positions.amax(dim=1)  # (B,)
    width = int(last.max()) + 1
    stream, values = stream[:, :width], values[:, :width]
    is_averaged = num_relabelings > 1
    if is_averaged:
        is_read = torch.arange(width, device=stream.device) <= last.unsqueeze(1)  # (B, T)
        is_fixing = stabiliser(torch.where(is_read, stream, PAD))  # (B, 24)
        is_chosen = representatives(is_fixing)  # (B, 24)
    else:
        is_chosen = torch.arange(NUM_RELABELINGS, device=stream.device).eq(0).expand(len(stream), -1)
    share = (1.0 / is_chosen.sum(dim=1))[rows].unsqueeze(1)  # (N, 1)
    is_cpu = stream.device.type == "cpu"
    num_rows = _CPU_ROWS if is_cpu else len(rows)
    num_streams = max(1, (_CPU_POSITIONS if is_cpu else _CUDA_POSITIONS) // width)
    pairs = is_chosen.T.nonzero()  # (renamed reads, 2): relabeling, row; by relabeling first
    perm_action, perm_combo = relabelings_on(stream.device)
    with torch.inference_mode():
        (combo_vectors,), combo_bias = model.combo_table() if combo_table is None else combo_table
        for relabelings, row in (part.unbind(dim=1) for part in torch.split(pairs, num_streams)):
            renamed = perm_action[relabelings.unsqueeze(1), stream[row]]  # (G, T)
            with torch.autocast(stream.device.type, torch.bfloat16, enabled=trunk_dtype == torch.bfloat16):
                hidden = model.hidden_at(renamed, values[row], asked.positions[row])  # (G, Q, D)
            number, place = _answers(asked, row)  # (n,) each
            query = model.query(hidden.flatten(0, 1)[place])  # (n, E)
            # Naming the combo vectors back costs 1326 rows; naming the answers back would cost n columns of 1326.
            for relabeling, part in _runs(relabelings.repeat_interleave(asked.num[row]), num_rows):
                back = perm_combo[relabeling]
                logits = torch.addmm(combo_bias[back], query[part], combo_vectors[back].T)
                logits.masked_fill_(is_dead[number[part]], -torch.inf)  # (n, C)
                if is_averaged:
                    total.index_add_(0, number[part], logits.softmax(dim=1).mul_(share[number[part]]))
                else:
                    total[number[part]] = logits.log_softmax(dim=1)
    return average_over_stabiliser(total, is_fixing[rows]).log() if is_averaged else total


def normalised(probabilities: torch.Tensor, temperature: float = 1.0) -> npt.NDArray[np.float64]:
    """Return float32 probabilities (N, C) at a temperature as float64 numpy whose rows sum to 1 within rounding of float64."""
    exact = probabilities.double()
    if temperature != 1.0:
        exact.pow_(1.0 / temperature)
    result: npt.NDArray[np.float64] = exact.div_(exact.sum(dim=1, keepdim=True)).cpu().numpy()
    return result


def check_num_relabelings(num_relabelings: int) -> None:
    """Refuse anything but 1 and 24: the mean over part of the group would depend on the names of the suits.

    Raises:
        ValueError: ``num_relabelings`` is neither.
    """
    if num_relabelings not in {1, NUM_RELABELINGS}:
        msg = f"expected num_relabelings of 1 (single forward) or {NUM_RELABELINGS} (suit-averaged), got {num_relabelings}"
        raise ValueError(msg)


def _named_logp(
    model: RangeReaderModel,
    stream: torch.Tensor,
    values: torch.Tensor,
    rows: torch.Tensor,
    positions: torch.Tensor,
    is_live: torch.Tensor,
    trunk_dtype: torch.dtype,
    combo_table: tuple[torch.Tensor, torch.Tensor] | None,
) -> torch.Tensor:
    """Return log-probabilities (N, C) of a model that names suits; arguments as ``suit_averaged_logp``."""
    asked = _by_row(rows, positions, len(stream))
    width = int(positions.max()) + 1
    stream, values = stream[:, :width], values[:, :width]
    stream, relabeling, alike = name_suits(stream)
    back = relabelings_on(stream.device)[1]
    kinds = hand_kinds(stream, rows, positions) if model.config.reads_hands else None
    is_cpu = stream.device.type == "cpu"
    num_streams = max(1, (_CPU_POSITIONS if is_cpu else _CUDA_POSITIONS) // width)
    num_rows = _CPU_ROWS if is_cpu else len(rows)
    logp = torch.empty(is_live.shape, device=is_live.device)  # (N, C)
    with torch.inference_mode():
        combo_table = model.combo_table() if combo_table is None else combo_table
        for row in torch.split(torch.arange(len(stream), device=stream.device), num_streams):
            with torch.autocast(stream.device.type, torch.bfloat16, enabled=trunk_dtype == torch.bfloat16):
                hidden = model.hidden_at(stream[row], values[row], asked.positions[row])  # (G, Q, D)
            number, place = _answers(asked, row)  # (n,) each
            hidden = hidden.flatten(0, 1)[place].float()  # (n, D)
            for part, chosen in zip(torch.split(number, num_rows), torch.split(hidden, num_rows), strict=True):
                of_kind = model.kind_scores(chosen, None if kinds is None else kinds.take(part))
                logits = Readout(model.query(chosen), *combo_table, alike[rows[part], positions[part]], of_kind).logits()
                logits = logits.gather(1, back[relabeling[rows[part]]])  # named as asked
                logp[part] = logits.masked_fill_(~is_live[part], -torch.inf).log_softmax(dim=1)
    return logp


class _Asked(NamedTuple):
    """The asked positions, row by row."""

    positions: torch.Tensor  # (B, Q) int64, short rows filled with 0
    first: torch.Tensor  # (B,) int64, where a row's positions begin among the N
    num: torch.Tensor  # (B,) int64, how many it has


def _by_row(rows: torch.Tensor, positions: torch.Tensor, num_rows: int) -> _Asked:
    count = rows.bincount(minlength=num_rows)  # (B,)
    first = count.cumsum(0) - count
    width = int(count.max())
    slots = rows * width + torch.arange(len(rows), device=rows.device) - first[rows]  # (N,)
    asked = positions.new_zeros(num_rows * width)
    asked[slots] = positions
    return _Asked(asked.view(num_rows, width), first, count)


def _answers(asked: _Asked, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return, for reads ``row`` (G,), which of the N positions they answer and where those lie among (G * Q,) hidden vectors."""
    column = torch.arange(asked.positions.shape[1], device=row.device)
    is_real = column < asked.num[row].unsqueeze(1)  # (G, Q)
    return (asked.first[row].unsqueeze(1) + column)[is_real], is_real.flatten().nonzero()[:, 0]


def _runs(relabelings: torch.Tensor, longest: int) -> Iterator[tuple[int, slice]]:
    """Yield each relabeling of ascending (n,) with the stretch that it fills, at most ``longest`` at a time."""
    values, counts = torch.unique_consecutive(relabelings, return_counts=True)
    end = 0
    for relabeling, count in zip(values.tolist(), counts.tolist(), strict=True):
        start, end = end, end + count
        for first in range(start, end, longest):
            yield relabeling, slice(first, min(first + longest, end))


def _check_positions(rows: torch.Tensor, is_live: torch.Tensor) -> None:
    if bool((rows[1:] < rows[:-1]).any()):
        msg = "expected ascending rows; order the positions by the read that they belong to"
        raise ValueError(msg)
    is_dead = ~is_live.any(dim=1)
    if bool(is_dead.any()):
        msg = f"no combo is live at positions {is_dead.nonzero()[:5, 0].tolist()} (first five)"
        raise ValueError(msg)
