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

_CPU_ROWS: Final = 512  # 2.7 MB of logits a pass stay near; 256 and 128 took longer (2026-11)
_CPU_NUMBERS: Final = 393_216  # of a stream's vectors in a forward; a quarter of it took 1.2 times as long at width 96 (2026-11)
_CUDA_POSITIONS: Final = 32_768


class Asked(NamedTuple):
    """Positions of some reads at which beliefs are wanted."""

    stream: torch.Tensor  # (B, T) int64 tokens
    values: torch.Tensor  # (B, T) float32, big blinds
    rows: torch.Tensor  # (N,) int64 ascending, the row of the stream that each position belongs to
    positions: torch.Tensor  # (N,) int64
    is_live: torch.Tensor  # (N, C) bool


class Settings(NamedTuple):
    """How a model is asked."""

    num_relabelings: int = NUM_RELABELINGS  # 24, or 1 for a single forward without renaming; the same to a model that names suits
    trunk_dtype: torch.dtype = torch.float32  # or bfloat16 to run the blocks under autocast
    combo_table: tuple[torch.Tensor, torch.Tensor] | None = None  # the model's, where the caller keeps it: less to do a read


_DEFAULT: Final = Settings()


def suit_averaged_logp(model: RangeReaderModel, asked: Asked, settings: Settings = _DEFAULT) -> torch.Tensor:
    """Return the log of probabilities averaged over suit relabelings, float32 (N, C), -inf on dead combos.

    The model is in evaluation mode.

    Raises:
        ValueError: rows do not ascend, a position has no live combo, or ``num_relabelings`` is neither 1 nor 24.
    """
    check_num_relabelings(settings.num_relabelings)
    _check_rows(asked.rows)
    logp = torch.zeros(asked.is_live.shape, device=asked.is_live.device)  # (N, C)
    if not len(asked.rows):
        return logp
    with torch.inference_mode():
        if model.config.names_suits:
            for part, logits in _named_logits(model, asked, settings):
                logp[part] = logits.log_softmax(dim=1)
        else:
            _add_renamed(model, asked, settings, logp)
    if bool(logp[:, 0].isnan().any()):
        _check_live(asked.is_live)
    return logp


def suit_averaged_probabilities(
    model: RangeReaderModel, asked: Asked, settings: Settings, temperature: float = 1.0
) -> npt.NDArray[np.float64]:
    """Return ``exp`` of ``suit_averaged_logp`` at a temperature, float64 (N, C) on the host, each row summing to 1.

    Of a model that names suits a cacheful of positions at a time goes from logits to the answer: arrays of all N positions are
    dearer to make, page by page, than to fill.

    Raises:
        ValueError: as ``suit_averaged_logp``.
    """
    if not model.config.names_suits:
        return normalised(suit_averaged_logp(model, asked, settings).exp_(), temperature)
    check_num_relabelings(settings.num_relabelings)
    _check_rows(asked.rows)
    probabilities = np.empty(asked.is_live.shape)
    answer = torch.from_numpy(probabilities)
    with torch.inference_mode():
        for part, logits in _named_logits(model, asked, settings) if len(asked.rows) else ():
            _normalise(answer[part].copy_(logits.softmax(dim=1)), temperature)
    if np.isnan(probabilities[:, 0]).any():
        _check_live(asked.is_live)
    return probabilities


def normalised(probabilities: torch.Tensor, temperature: float = 1.0) -> npt.NDArray[np.float64]:
    """Return float32 probabilities (N, C) at a temperature as float64 numpy whose rows sum to 1 within rounding of float64."""
    result: npt.NDArray[np.float64] = _normalise(probabilities.double(), temperature).cpu().numpy()
    return result


def check_num_relabelings(num_relabelings: int) -> None:
    """Refuse anything but 1 and 24: the mean over part of the group would depend on the names of the suits.

    Raises:
        ValueError: ``num_relabelings`` is neither.
    """
    if num_relabelings not in {1, NUM_RELABELINGS}:
        msg = f"expected num_relabelings of 1 (single forward) or {NUM_RELABELINGS} (suit-averaged), got {num_relabelings}"
        raise ValueError(msg)


def _named_logits(model: RangeReaderModel, asked: Asked, settings: Settings) -> Iterator[tuple[slice, torch.Tensor]]:
    """Yield every stretch of the N positions with its logits (n, C) from a model that names suits, -inf on dead combos."""
    by_row = _by_row(asked, model.config.width)
    stream, relabeling, alike = name_suits(by_row.stream)
    back = relabelings_on(stream.device)[1]
    kinds = hand_kinds(stream, asked.rows, asked.positions) if model.config.reads_hands else None
    combo_table = model.combo_table() if settings.combo_table is None else settings.combo_table
    for row in torch.split(torch.arange(len(stream), device=stream.device), by_row.num_streams):
        hidden = _hidden(model, by_row, stream[row], row, settings)  # (n, D)
        first = int(by_row.first[row[0]])
        for start in range(0, len(hidden), by_row.num_rows):
            chosen = hidden[start : start + by_row.num_rows]
            part = slice(first + start, first + start + len(chosen))
            rows = asked.rows[part]
            of_kind = model.kind_scores(chosen, None if kinds is None else kinds.take(part))
            named = Readout(model.query(chosen), *combo_table, alike[rows, asked.positions[part]], of_kind).logits()
            logits = _named_back(named, relabeling[rows], back)
            yield part, logits.masked_fill_(~asked.is_live[part], -torch.inf)


def _named_back(logits: torch.Tensor, relabeling: torch.Tensor, back: torch.Tensor) -> torch.Tensor:
    """Return logits (n, C) in the names from before the relabelings (n,) of their streams."""
    if not logits.is_cuda:
        # Rows of a hand share their order of combos; an order a row would be twice as much to read as the logits themselves.
        named_back = torch.empty_like(logits)
        for number, run in _runs(relabeling, len(logits)):
            torch.index_select(logits[run], 1, back[number], out=named_back[run])
        return named_back
    return logits.gather(1, back[relabeling])


def _add_renamed(model: RangeReaderModel, asked: Asked, settings: Settings, total: torch.Tensor) -> None:
    """Fill zeros (N, C) with the log-probabilities of a model that does not name suits."""
    by_row = _by_row(asked, model.config.width)
    is_dead = ~asked.is_live  # (N, C)
    stream = by_row.stream
    is_averaged = settings.num_relabelings > 1
    if is_averaged:
        is_read = torch.arange(stream.shape[1], device=stream.device) <= by_row.positions.amax(dim=1, keepdim=True)  # (B, T)
        is_fixing = stabiliser(torch.where(is_read, stream, PAD))  # (B, 24)
        is_chosen = representatives(is_fixing)  # (B, 24)
    else:
        is_chosen = torch.arange(NUM_RELABELINGS, device=stream.device).eq(0).expand(len(stream), -1)
    share = (1.0 / is_chosen.sum(dim=1))[asked.rows].unsqueeze(1)  # (N, 1)
    pairs = is_chosen.T.nonzero()  # (renamed reads, 2): relabeling, row; by relabeling first
    perm_action, perm_combo = relabelings_on(stream.device)
    (combo_vectors,), combo_bias = model.combo_table() if settings.combo_table is None else settings.combo_table
    for relabelings, row in (part.unbind(dim=1) for part in torch.split(pairs, by_row.num_streams)):
        renamed = perm_action[relabelings.unsqueeze(1), stream[row]]  # (G, T)
        query = model.query(_hidden(model, by_row, renamed, row, settings))  # (n, E)
        number = _numbers(by_row, row)  # (n,)
        # Naming the combo vectors back costs 1326 rows; naming the answers back would cost n columns of 1326.
        for relabeling, part in _runs(relabelings.repeat_interleave(by_row.num[row]), by_row.num_rows):
            back = perm_combo[relabeling]
            logits = torch.addmm(combo_bias[back], query[part], combo_vectors[back].T)
            logits.masked_fill_(is_dead[number[part]], -torch.inf)  # (n, C)
            if is_averaged:
                total.index_add_(0, number[part], logits.softmax(dim=1).mul_(share[number[part]]))
            else:
                total[number[part]] = logits.log_softmax(dim=1)
    if is_averaged:
        total.copy_(average_over_stabiliser(total, is_fixing[asked.rows]).log_())


class _ByRow(NamedTuple):
    """The asked positions, row by row, and how much of it is forwarded at a time."""

    stream: torch.Tensor  # (B, T) int64, through the last asked position
    values: torch.Tensor  # (B, T) float32
    positions: torch.Tensor  # (B, Q) int64, short rows filled with 0
    first: torch.Tensor  # (B,) int64, where a row's positions begin among the N
    num: torch.Tensor  # (B,) int64, how many it has
    num_streams: int  # of a forward
    num_rows: int  # of logits at a time


def _by_row(asked: Asked, model_width: int) -> _ByRow:
    rows, stream = asked.rows, asked.stream
    count = rows.bincount(minlength=len(stream))  # (B,)
    first = count.cumsum(0) - count
    most = int(count.max())
    slots = rows * most + torch.arange(len(rows), device=rows.device) - first[rows]  # (N,)
    positions = rows.new_zeros(len(stream) * most)
    positions[slots] = asked.positions
    width = int(asked.positions.max()) + 1
    is_cpu = stream.device.type == "cpu"
    return _ByRow(
        stream=stream[:, :width],
        values=asked.values[:, :width],
        positions=positions.view(len(stream), most),
        first=first,
        num=count,
        num_streams=max(1, (_CPU_NUMBERS // model_width if is_cpu else _CUDA_POSITIONS) // width),
        num_rows=_CPU_ROWS if is_cpu else len(rows),
    )


def _hidden(model: RangeReaderModel, by_row: _ByRow, stream: torch.Tensor, row: torch.Tensor, settings: Settings) -> torch.Tensor:
    """Return hidden vectors (n, D) float32 at all asked positions of renamed reads (G, T) of rows (G,), one after the other."""
    with torch.autocast(stream.device.type, torch.bfloat16, enabled=settings.trunk_dtype == torch.bfloat16):
        hidden = model.hidden_at(stream, by_row.values[row], by_row.positions[row])  # (G, Q, D)
    return hidden.flatten(0, 1)[_is_asked(by_row, row).flatten()].float()


def _numbers(by_row: _ByRow, row: torch.Tensor) -> torch.Tensor:
    """Return which of the N positions those of ``_hidden`` are, (n,)."""
    column = torch.arange(by_row.positions.shape[1], device=row.device)
    return (by_row.first[row].unsqueeze(1) + column)[_is_asked(by_row, row)]


def _is_asked(by_row: _ByRow, row: torch.Tensor) -> torch.Tensor:
    """Return which columns of the rows' positions are asked and no filling, (G, Q)."""
    return torch.arange(by_row.positions.shape[1], device=row.device) < by_row.num[row].unsqueeze(1)


def _runs(relabelings: torch.Tensor, longest: int) -> Iterator[tuple[int, slice]]:
    """Yield each relabeling of (n,) with the stretch that it fills, at most ``longest`` at a time."""
    values, counts = torch.unique_consecutive(relabelings, return_counts=True)
    end = 0
    for relabeling, count in zip(values.tolist(), counts.tolist(), strict=True):
        start, end = end, end + count
        for first in range(start, end, longest):
            yield relabeling, slice(first, min(first + longest, end))


def _normalise(probabilities: torch.Tensor, temperature: float) -> torch.Tensor:
    """Take float64 probabilities (N, C) to a temperature and make their rows sum to 1, in place."""
    if temperature != 1.0:
        probabilities.pow_(1.0 / temperature)
    return probabilities.div_(probabilities.sum(dim=1, keepdim=True))


def _check_rows(rows: torch.Tensor) -> None:
    if bool((rows[1:] < rows[:-1]).any()):
        msg = "expected ascending rows; order the positions by the read that they belong to"
        raise ValueError(msg)


def _check_live(is_live: torch.Tensor) -> None:
    is_dead = ~is_live.any(dim=1)
    if bool(is_dead.any()):
        msg = f"no combo is live at positions {is_dead.nonzero()[:5, 0].tolist()} (first five)"
        raise ValueError(msg)
