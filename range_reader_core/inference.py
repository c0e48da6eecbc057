"""A trained model as a reader: suit-averaged log-probabilities for scoring, beliefs about one hand for people and programs.

Suits are labels, so a belief may be averaged over the 24 ways to name them: the stream is renamed, read, and the answer is
named back. For a model that treats suits alike this changes nothing; for a trained one it takes out noise. What is averaged
is probabilities. Inside, beliefs are log-probabilities; probabilities leave through ``RangeReader`` alone, as float64 numpy.
Legend: ``B`` reads, ``T`` positions, ``Q`` asked positions a read, ``N`` asked positions in all, ``S`` steps, ``C`` = 1326.
"""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import torch

from range_reader_core import cards, tokens
from range_reader_core.batching import Batch
from range_reader_core.checkpoint import CheckpointSidecar, load_checkpoint
from range_reader_core.encoder import EncodedRead, HandEncoder
from range_reader_core.hand import CanonicalHand
from range_reader_core.masks import STREETS, is_live_combo_at, is_supervised, street_at
from range_reader_core.model import RangeReaderModel, Readout

_CPU_ROWS: Final = 512  # 2.7 MB of logits a pass stay in the cache


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReader:
    """A model that answers as ``evaluation.Reader`` does.

    Raises:
        ValueError: on construction, when the model is in training mode or ``num_relabelings`` is neither 1 nor 24.
    """

    model: RangeReaderModel
    num_relabelings: int = cards.NUM_RELABELINGS  # 24: suit-averaged; 1: a single forward
    trunk_dtype: torch.dtype | None = None  # of the blocks; None: bfloat16 on a GPU that has it, else float32
    name: str = "model"

    def __post_init__(self) -> None:
        """Check that answers will be reproducible."""
        _check_num_relabelings(self.num_relabelings)
        if self.model.training:
            msg = "the model is in training mode, so dropout would change its answers; call model.eval() first"
            raise ValueError(msg)

    def position_logp(self, batch: Batch, rows: torch.Tensor, positions: torch.Tensor, is_live: torch.Tensor) -> torch.Tensor:
        """Return log-probabilities (N, C) float32, -inf on dead combos; see ``suit_averaged_logp``."""
        is_fast = batch.tokens.is_cuda and torch.cuda.is_bf16_supported(including_emulation=False)
        return suit_averaged_logp(
            self.model,
            batch.tokens,
            batch.values,
            rows,
            positions,
            is_live,
            num_relabelings=self.num_relabelings,
            trunk_dtype=self.trunk_dtype or (torch.bfloat16 if is_fast else torch.float32),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One moment at which a villain is read."""

    position: int  # in the stream
    street: str  # of masks.STREETS
    description: str  # what has just happened, such as "raise@seat3 12 bb" or "board:Ts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """The belief about one villain after each thing that happened."""

    steps: tuple[Step, ...]
    probabilities: npt.NDArray[np.float64]  # (S, C), each row sums to 1 and gives dead combos nothing

    def last_steps(self) -> dict[str, int]:
        """Return the last step of each street that was reached, by street."""
        return {step.street: index for index, step in enumerate(self.steps)}


class RangeReader:
    """Reads hands with a checkpoint: P(villain's hole cards | public record, the perspective's cards).

    Seats are the hand's seat indices 0..n-1. The perspective's cards must be known, the villain's need not be.
    """

    def __init__(self, model: RangeReaderModel, sidecar: CheckpointSidecar, device: torch.device) -> None:
        """Read with a model in evaluation mode that lies on ``device``; ``load`` is the usual way here."""
        self.model = model
        self.sidecar = sidecar
        self.device = device
        self._encoder = HandEncoder(max_positions=model.config.max_positions)

    @classmethod
    def load(cls, folder: Path | str, device: str = "auto") -> Self:
        """Return a reader of the checkpoint in a folder, or of a ``.safetensors`` file.

        Args:
            folder: where the checkpoint lies.
            device: "auto" (CUDA where there is one), "cpu" or "cuda".

        Raises:
            FileNotFoundError: there is no checkpoint.
            ValueError: the checkpoint is damaged or of another vocabulary, or the device cannot be used.
        """
        chosen = choose_device(device)
        model, sidecar = load_checkpoint(Path(folder), chosen)
        return cls(model, sidecar, chosen)

    def belief(
        self,
        hand: CanonicalHand,
        villain: int,
        perspective: int,
        step: int | None = None,
        num_relabelings: int = cards.NUM_RELABELINGS,
    ) -> npt.NDArray[np.float64]:
        """Return the probability of each combo, float64 (1326,), summing to 1 with nothing on dead cards.

        Args:
            hand: the hand so far, or all of it.
            villain: the seat to read.
            perspective: the seat that reads.
            step: 0 is the first step after the villain's hole slot, as in ``trajectory``; None is the last.
            num_relabelings: 24 averages over suits, 1 is a single forward.

        Raises:
            ValueError: a seat is not in the hand, both are the same, the perspective's cards are unknown, or there is no such step.
        """
        read = self._encoder.encode(hand, villain, perspective)
        positions = self._positions(hand, read)
        if step is not None and not 0 <= step < len(positions):
            msg = f"hand {hand.hand_id}: expected a step in 0..{len(positions) - 1}, got {step}"
            raise ValueError(msg)
        chosen = positions[-1:] if step is None else positions[step : step + 1]
        probabilities: npt.NDArray[np.float64] = self._probabilities(read, chosen, num_relabelings)[0]
        return probabilities

    def trajectory(
        self, hand: CanonicalHand, villain: int, perspective: int, num_relabelings: int = cards.NUM_RELABELINGS
    ) -> Trajectory:
        """Return the belief at every step, to the villain's fold or the end of the hand; arguments and errors as ``belief``."""
        read = self._encoder.encode(hand, villain, perspective)
        positions = self._positions(hand, read)
        streets = street_at(self._stream(read))[0].tolist()
        steps = tuple(
            Step(position=at, street=STREETS[streets[at]], description=_describe(int(read.tokens[at]), float(read.values[at])))
            for at in positions.tolist()
        )
        return Trajectory(steps=steps, probabilities=self._probabilities(read, positions, num_relabelings))

    def _stream(self, read: EncodedRead) -> torch.Tensor:
        return torch.from_numpy(read.tokens.astype(np.int64))[None].to(self.device)  # (1, T)

    def _positions(self, hand: CanonicalHand, read: EncodedRead) -> torch.Tensor:
        positions = is_supervised(self._stream(read))[0].nonzero()[:, 0]  # (S,)
        if not len(positions):
            msg = f"hand {hand.hand_id}: nothing happens after the hole cards, so there is nothing to read"
            raise ValueError(msg)
        return positions

    def _probabilities(self, read: EncodedRead, positions: torch.Tensor, num_relabelings: int) -> npt.NDArray[np.float64]:
        stream = self._stream(read)
        values = torch.from_numpy(read.values)[None].to(self.device)  # (1, T)
        rows = torch.zeros_like(positions)
        is_live = is_live_combo_at(stream, rows, positions)  # (S, C)
        logp = suit_averaged_logp(self.model, stream, values, rows, positions, is_live, num_relabelings=num_relabelings)
        probabilities = logp.double().exp()
        normalised: npt.NDArray[np.float64] = (probabilities / probabilities.sum(dim=1, keepdim=True)).cpu().numpy()
        return normalised


def suit_averaged_logp(
    model: RangeReaderModel,
    stream: torch.Tensor,
    values: torch.Tensor,
    rows: torch.Tensor,
    positions: torch.Tensor,
    is_live: torch.Tensor,
    *,
    num_relabelings: int = cards.NUM_RELABELINGS,
    trunk_dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """Return the log of probabilities averaged over suit relabelings, float32 (N, C), -inf on dead combos.

    Args:
        model: in evaluation mode.
        stream: (B, T) int64 tokens.
        values: (B, T) float32, big blinds.
        rows: (N,) int64 ascending, the row of the stream that each position belongs to.
        positions: (N,) int64.
        is_live: (N, C) bool.
        num_relabelings: 24, or 1 for a single forward without renaming.
        trunk_dtype: float32, or bfloat16 to run the blocks under autocast.

    Raises:
        ValueError: rows do not ascend, a position has no live combo, or ``num_relabelings`` is neither 1 nor 24.
    """
    _check_num_relabelings(num_relabelings)
    _check_positions(rows, is_live)
    asked, slots = _by_row(rows, positions, len(stream))  # (B, Q) and (N,)
    perm_action, perm_combo = _relabelings_on(stream.device)
    removal = torch.zeros_like(is_live, dtype=torch.float32).masked_fill_(~is_live, -torch.inf)  # (N, C)
    total = torch.zeros_like(removal)
    step = _CPU_ROWS if stream.device.type == "cpu" else max(len(rows), 1)
    with torch.no_grad():
        for relabeling in range(num_relabelings):
            with torch.autocast(stream.device.type, torch.bfloat16, enabled=trunk_dtype == torch.bfloat16):
                hidden = model.hidden_at(perm_action[relabeling][stream], values, asked)  # (B, Q, D)
            readout = model.readout(hidden.flatten(0, 1)[slots])  # of N positions
            # Naming the combo vectors back costs 1326 rows; naming the answers back would cost N columns of 1326.
            back = perm_combo[relabeling]
            vectors, bias = readout.combo_vectors[back], readout.combo_bias[back]
            for start in range(0, len(rows), step):
                part = slice(start, start + step)
                logits = Readout(readout.query[part], vectors, bias).logits() + removal[part]  # (n, C)
                if num_relabelings == 1:
                    total[part] = logits.log_softmax(dim=1)
                else:
                    total[part] += logits.softmax(dim=1)
    return total if num_relabelings == 1 else (total / num_relabelings).log()


def choose_device(device: str) -> torch.device:
    """Return the device that "auto" (CUDA where there is one), "cpu" or "cuda" names.

    Raises:
        ValueError: the name is none of these, or CUDA is asked for and absent.
    """
    if device not in {"auto", "cpu", "cuda"}:
        msg = f"expected device 'auto', 'cpu' or 'cuda', got {device!r}"
        raise ValueError(msg)
    if device == "cuda" and not torch.cuda.is_available():
        msg = (
            "device 'cuda' was asked for, but torch finds no CUDA device; use 'auto' or 'cpu', or install a CUDA build of torch "
            "and check the driver with nvidia-smi"
        )
        raise ValueError(msg)
    return torch.device("cuda" if device == "cuda" or (device == "auto" and torch.cuda.is_available()) else "cpu")


def top_combos(probabilities: npt.NDArray[np.float64], num: int) -> tuple[tuple[int, float], ...]:
    """Return the most probable combos of (1326,) probabilities with their probability, at most ``num``, the best first.

    Equal ones come in the order of their numbers; impossible ones never do.
    """
    order = np.argsort(-probabilities, kind="stable")[:num]
    return tuple((int(combo), float(probabilities[combo])) for combo in order if probabilities[combo] > 0)


def _describe(token: int, value: float) -> str:
    text = tokens.describe(token)
    return f"{text} {value:g} bb" if value else text


def _check_num_relabelings(num_relabelings: int) -> None:
    if num_relabelings not in {1, cards.NUM_RELABELINGS}:
        msg = f"expected num_relabelings of 1 (single forward) or {cards.NUM_RELABELINGS} (suit-averaged), got {num_relabelings}"
        raise ValueError(msg)


def _check_positions(rows: torch.Tensor, is_live: torch.Tensor) -> None:
    if bool((rows[1:] < rows[:-1]).any()):
        msg = "expected ascending rows; order the positions by the read that they belong to"
        raise ValueError(msg)
    is_dead = ~is_live.any(dim=1)
    if bool(is_dead.any()):
        msg = f"no combo is live at positions {is_dead.nonzero()[:5, 0].tolist()} (first five)"
        raise ValueError(msg)


def _by_row(rows: torch.Tensor, positions: torch.Tensor, num_rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return positions side by side per row (B, Q), short rows filled with 0, and where each lies in the flat form (N,)."""
    per_row = rows.bincount(minlength=num_rows)  # (B,)
    width = int(per_row.max()) if len(rows) else 1
    first = per_row.cumsum(0) - per_row  # (B,)
    slots = rows * width + torch.arange(len(rows), device=rows.device) - first[rows]  # (N,)
    asked = positions.new_zeros(num_rows * width)
    asked[slots] = positions
    return asked.view(num_rows, width), slots


@functools.cache
def _relabelings_on(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(tokens.PERM_ACTION).to(device), torch.from_numpy(tokens.PERM_COMBO).to(device)
