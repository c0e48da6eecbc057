"""A trained model as a reader: log-probabilities for scoring, beliefs about hands for people and programs.

Beliefs are averaged over the names of the suits unless a single forward is asked for (``suit_averaging``). Inside they are
log-probabilities; probabilities leave through ``RangeReader`` alone, as float64 numpy, at the checkpoint's temperature. Many
requests are answered together, whatever their hands, villains and perspectives; a hand that unfolds is read event by event in a
``session``.

Legend: ``B`` reads, ``T`` positions, ``N`` asked positions in all, ``R`` requests, ``S`` steps, ``C`` = 1326 combos.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch

from range_reader_core import cards, tokens
from range_reader_core.batching import Batch
from range_reader_core.checkpoint import CheckpointSidecar, load_checkpoint
from range_reader_core.encoder import EncodedRead, HandEncoder
from range_reader_core.hand import CanonicalHand
from range_reader_core.masks import STREETS, is_live_combo_at, is_supervised, street_at
from range_reader_core.model import RangeReaderModel
from range_reader_core.session import HandSession, hand_so_far
from range_reader_core.suit_averaging import Asked, Settings, check_num_relabelings, suit_averaged_logp, suit_averaged_probabilities
from range_reader_core.temperature import temper

_BATCH_READS: Final = 64  # requests encoded and padded together; a trajectory of each is some 15 MB of answers


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReader:
    """A model that answers as ``evaluation.Reader`` does.

    Raises:
        ValueError: on construction, when the model is in training mode or ``num_relabelings`` is neither 1 nor 24.
    """

    model: RangeReaderModel
    num_relabelings: int = cards.NUM_RELABELINGS  # 24: suit-averaged; 1: a single forward
    temperature: float = 1.0  # as the checkpoint's sidecar has it
    trunk_dtype: torch.dtype | None = None  # of the blocks; None: bfloat16 on a GPU that has it, else float32
    name: str = "model"

    def __post_init__(self) -> None:
        """Check that answers will be reproducible."""
        check_num_relabelings(self.num_relabelings)
        if self.model.training:
            msg = "the model is in training mode, so dropout would change its answers; call model.eval() first"
            raise ValueError(msg)

    def position_logp(self, batch: Batch, rows: torch.Tensor, positions: torch.Tensor, is_live: torch.Tensor) -> torch.Tensor:
        """Return log-probabilities (N, C) float32, -inf on dead combos; see ``suit_averaged_logp``."""
        is_fast = batch.tokens.is_cuda and torch.cuda.is_bf16_supported(including_emulation=False)
        asked = Asked(batch.tokens, batch.values, rows, positions, is_live)
        trunk_dtype = self.trunk_dtype or (torch.bfloat16 if is_fast else torch.float32)
        logp = suit_averaged_logp(self.model, asked, Settings(self.num_relabelings, trunk_dtype))
        return logp if self.temperature == 1.0 else temper(logp, self.temperature)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """One question: who is read, by whom, and when."""

    hand: CanonicalHand  # the hand so far, or all of it
    villain: int  # the seat to read; its cards need not be known
    perspective: int | None  # the seat that reads, whose cards are known; None for a watcher who sees no cards
    step: int | None = None  # counted as in a trajectory; None is the last


class _RequestBatch(NamedTuple):
    """Requests encoded and padded, on the host."""

    numbers: list[int]  # where each stands among all requests
    requests: list[ReadRequest]
    reads: list[EncodedRead]
    stream: torch.Tensor  # (B, T) int64
    values: torch.Tensor  # (B, T) float32
    rows: torch.Tensor  # (N,) int64 ascending, of every supervised position
    positions: torch.Tensor  # (N,) int64
    num_steps: torch.Tensor  # (B,) int64, supervised positions a read


class RangeReader:
    """Reads hands with a checkpoint: P(villain's hole cards | public record, the perspective's cards).

    Seats are the hand's seat indices 0..n-1. The perspective's cards must be known, the villain's need not be.
    """

    def __init__(self, model: RangeReaderModel, sidecar: CheckpointSidecar, device: torch.device) -> None:
        """Read with a model in evaluation mode that lies on ``device`` and does not change; ``load`` is the usual way here."""
        self.model = model
        self.sidecar = sidecar
        self.device = device
        with torch.no_grad():
            self._combo_table = model.combo_table()
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
        perspective: int | None,
        step: int | None = None,
        num_relabelings: int = cards.NUM_RELABELINGS,
    ) -> npt.NDArray[np.float64]:
        """Return the probability of each combo, float64 (1326,), summing to 1 with nothing on dead cards.

        Args:
            hand: the hand so far, or all of it.
            villain: the seat to read.
            perspective: the seat that reads; None for a watcher who sees no cards.
            step: 0 is the first step after the villain's hole slot, as in ``trajectory``; None is the last.
            num_relabelings: 24 averages over suits, 1 is a single forward.

        Raises:
            ValueError: a seat is not in the hand, both are the same, the perspective's cards are unknown, or there is no such step.
        """
        request = ReadRequest(hand=hand, villain=villain, perspective=perspective, step=step)
        belief: npt.NDArray[np.float64] = self.beliefs([request], num_relabelings)[0]
        return belief

    def beliefs(self, requests: Sequence[ReadRequest], num_relabelings: int = cards.NUM_RELABELINGS) -> npt.NDArray[np.float64]:
        """Return ``belief`` of each request, (R, C); hands, villains and perspectives are read together.

        Raises:
            ValueError: as ``belief``, naming the hand; or there is no request.
        """
        beliefs = np.empty((len(requests), cards.NUM_COMBOS))
        for batch in self._batches(requests):
            asked = torch.tensor([_asked_step(*pair) for pair in zip(batch.requests, batch.num_steps.tolist(), strict=True)])
            chosen = batch.num_steps.cumsum(0) - batch.num_steps + asked  # (B,) into the supervised positions
            beliefs[batch.numbers] = self._probabilities(batch, batch.rows[chosen], batch.positions[chosen], num_relabelings)
        return beliefs

    def trajectory(
        self, hand: CanonicalHand, villain: int, perspective: int | None, num_relabelings: int = cards.NUM_RELABELINGS
    ) -> Trajectory:
        """Return the belief at every step, to the villain's fold or the end of the hand; arguments and errors as ``belief``."""
        return self.trajectories([ReadRequest(hand=hand, villain=villain, perspective=perspective)], num_relabelings)[0]

    def trajectories(self, requests: Sequence[ReadRequest], num_relabelings: int = cards.NUM_RELABELINGS) -> tuple[Trajectory, ...]:
        """Return ``trajectory`` of each request; hands, villains and perspectives are read together.

        An answer holds 10 kB a step, so a large corpus comes in parts.

        Raises:
            ValueError: as ``belief``, naming the hand; there is no request, or one asks for a step.
        """
        trajectories: dict[int, Trajectory] = {}
        for batch in self._batches(requests):
            if any(request.step is not None for request in batch.requests):
                msg = "a trajectory holds every step; leave the step of its request out"
                raise ValueError(msg)
            probabilities = self._probabilities(batch, batch.rows, batch.positions, num_relabelings)
            lengths = batch.num_steps.tolist()
            answers = np.split(probabilities, np.cumsum(lengths)[:-1])
            positions = torch.split(batch.positions, lengths)
            streets = street_at(batch.stream).tolist()
            for row, number in enumerate(batch.numbers):
                steps = _steps(batch.reads[row], positions[row].tolist(), streets[row])
                trajectories[number] = Trajectory(steps=steps, probabilities=answers[row])
        return tuple(trajectories[number] for number in range(len(requests)))

    def session(
        self,
        *,
        stacks: Sequence[float],
        button: int,
        big_blind: float,
        hero: int | None = None,
        hero_cards: tuple[int, int] | None = None,
        num_relabelings: int = 1,
    ) -> HandSession:
        """Return a session that reads a hand while it is played; tell it what happens with ``observe``.

        Args:
            stacks: chips of each seat before any post, clockwise.
            button: seat 0..n-1.
            big_blind: chips.
            hero: the seat that reads; None for a watcher who sees no cards.
            hero_cards: the two cards of the hero, None without one.
            num_relabelings: 1 is a single forward, 24 averages over suits at up to 24 times the cost.

        Raises:
            ValueError: what no hand can have, or a hero without cards.
        """
        known = {} if hero is None or hero_cards is None else {hero: hero_cards}
        hand = hand_so_far(stacks=stacks, button=button, big_blind=big_blind, hole_cards=known)
        return HandSession(
            self.model,
            hand,
            hero,
            num_relabelings=num_relabelings,
            temperature=self.sidecar.temperature,
            combo_table=self._combo_table,
        )

    def _batches(self, requests: Sequence[ReadRequest]) -> Iterator[_RequestBatch]:
        """Yield the requests encoded, alike in length within a batch."""
        if not requests:
            msg = "expected at least one request"
            raise ValueError(msg)
        reads = [self._encoder.encode(request.hand, request.villain, request.perspective) for request in requests]
        order = sorted(range(len(reads)), key=lambda number: len(reads[number].tokens))
        for start in range(0, len(order), _BATCH_READS):
            numbers = order[start : start + _BATCH_READS]
            yield _request_batch(numbers, [requests[number] for number in numbers], [reads[number] for number in numbers])

    def _probabilities(
        self, batch: _RequestBatch, rows: torch.Tensor, positions: torch.Tensor, num_relabelings: int
    ) -> npt.NDArray[np.float64]:
        is_live = is_live_combo_at(batch.stream, rows, positions)  # (N, C)
        asked = Asked(*(tensor.to(self.device) for tensor in (batch.stream, batch.values, rows, positions, is_live)))
        settings = Settings(num_relabelings, combo_table=self._combo_table)
        return suit_averaged_probabilities(self.model, asked, settings, self.sidecar.temperature)


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


def _asked_step(request: ReadRequest, num_steps: int) -> int:
    """Return the step that a request asks for, counted from 0."""
    if request.step is None:
        return num_steps - 1
    if not 0 <= request.step < num_steps:
        msg = f"hand {request.hand.hand_id}: expected a step in 0..{num_steps - 1}, got {request.step}"
        raise ValueError(msg)
    return request.step


def _request_batch(numbers: list[int], requests: list[ReadRequest], reads: list[EncodedRead]) -> _RequestBatch:
    width = max(len(read.tokens) for read in reads)
    stream = np.full((len(reads), width), tokens.PAD, dtype=np.int64)
    values = np.zeros((len(reads), width), dtype=np.float32)
    for row, read in enumerate(reads):
        stream[row, : len(read.tokens)] = read.tokens
        values[row, : len(read.tokens)] = read.values
    on_host = torch.from_numpy(stream)
    supervised = is_supervised(on_host)  # (B, T)
    rows, positions = supervised.nonzero(as_tuple=True)
    count = supervised.sum(dim=1)
    if not bool(count.all()):
        request = requests[int(count.argmin())]
        msg = f"hand {request.hand.hand_id}: nothing happens after the hole cards, so there is nothing to read"
        raise ValueError(msg)
    return _RequestBatch(numbers, requests, reads, on_host, torch.from_numpy(values), rows, positions, count)


def _steps(read: EncodedRead, positions: list[int], street_at_position: list[int]) -> tuple[Step, ...]:
    """Return the steps at positions of a read, of which the street is told at every position."""
    stream, values = read.tokens.tolist(), read.values.tolist()
    return tuple(
        Step(position=at, street=STREETS[street_at_position[at]], description=_describe(stream[at], values[at])) for at in positions
    )


def _describe(token: int, value_bb: float) -> str:
    text = tokens.DESCRIPTIONS[token]
    return f"{text} {value_bb:g} bb" if value_bb else text
