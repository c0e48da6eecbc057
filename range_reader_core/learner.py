"""One optimizer step: draw, score, differentiate, check, update. The loop around it is ``training``.

Legend: ``B`` reads, ``T`` positions, ``K`` positions chosen a read, ``N`` chosen positions, ``C`` = 1326 combos.
What a step does is a function of the configuration, the weights and (seed, step); there is no random state to keep. A loss or
gradient that is not finite stops before the update.
"""

import copy
import warnings
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from range_reader_core.baselines import StaticRangeReader
from range_reader_core.batching import (
    Batch,
    DeviceReads,
    batches_per_epoch,
    epoch_batches,
    hide_perspective,
    relabel,
    with_named_suits,
)
from range_reader_core.cards import NUM_RELABELINGS
from range_reader_core.hand_kinds import hand_kinds
from range_reader_core.masks import is_live_combo_at, is_supervised
from range_reader_core.model import RangeReaderModel, init_weights
from range_reader_core.objective import choose_positions, masked_cross_entropy
from range_reader_core.optim import adamw, clip_gradients, gradient_norm, set_learning_rate, update_average
from range_reader_core.peers import Peers
from range_reader_core.reads import Reads
from range_reader_core.train_config import Precision, TrainConfig


class StepLoss(NamedTuple):
    """What one step saw."""

    sum_nats: float
    num_positions: float  # supervised positions that the sum stands for
    num_reads: int


class Learner:
    """Model, weight average and optimizer on a device, and the reads they learn from."""

    def __init__(self, config: TrainConfig, reads: Reads, device: torch.device, peers: Peers | None = None) -> None:
        """Draw the first weights and copy the reads to the device. Processes that train together draw the same weights."""
        self.config, self.device, self.peers = config, device, peers or Peers()
        self.precision = resolve_precision(config.precision, device)
        self.reads = DeviceReads.from_reads(reads, device)
        model = RangeReaderModel(config.model)
        init_weights(model, torch.Generator().manual_seed(_mix(config.seed)))
        if config.starts_at_static_range:
            model.head.start_at(torch.from_numpy(StaticRangeReader.fit(reads).combo_logp()))
        self.model = model.to(device).train()
        self.average = copy.deepcopy(self.model).eval().requires_grad_(requires_grad=False)
        self.optimizer = adamw(
            self.model,
            learning_rate=config.learning_rate,
            betas=(config.beta1, config.beta2),
            weight_decay=config.weight_decay,
        )
        self.is_updating = False  # an update has begun and its step is not counted: no state of the run, see ``settle``
        self.is_compiled = False
        self._trunk: Callable[..., torch.Tensor] = self.model.trunk
        self._epoch = -1
        self._num_reads = 0  # of the last batch, all processes together
        self._order: list[npt.NDArray[np.int64]] = []

    def start_from(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Put weights by name in the place of the drawn ones, before the first step."""
        self.model.load_state_dict(weights)
        self.average.load_state_dict(weights)

    def step(self, step: int, learning_rate: float) -> StepLoss:
        """Take optimizer step number ``step`` and return its loss before the update.

        Raises:
            FloatingPointError: loss or gradient is not finite; no update was made.
            ValueError: no position of the batch is supervised.
        """
        self.optimizer.zero_grad(set_to_none=True)
        batch, sum_nats, count = self._backward(step)
        self._add_up(sum_nats, count)
        norm = gradient_norm(self.model)
        nats, num_positions, size = torch.stack([sum_nats, count, norm]).tolist()  # the one wait for the device
        if not num_positions:
            msg = f"step {step}: none of the reads {batch.read_index[:5].tolist()} (first five) has a supervised position"
            raise ValueError(msg)
        if not np.isfinite(nats) or not np.isfinite(size):
            reads = batch.read_index[:5].tolist()
            msg = (
                f"step {step}: loss {nats / num_positions} nats, gradient norm {size}; stopped before the update. Lower the "
                f"learning rate, or look for a dead target or a bad amount among the batch, which begins with reads {reads}"
            )
            raise FloatingPointError(msg)
        if self.config.max_gradient_norm is not None:
            clip_gradients(self.model, size, self.config.max_gradient_norm)
        set_learning_rate(self.optimizer, learning_rate)
        self.is_updating = True
        self.optimizer.step()
        update_average(self.average, self.model, self.config.average_decay)
        return StepLoss(nats, num_positions, self._num_reads)

    def settle(self) -> None:
        """Tell that the last step has been counted, so that weights and count agree again."""
        self.is_updating = False

    def compile(self) -> str | None:
        """Compile the blocks by running one step without its update; returns why that is not to be had, None if it is.

        The embedding stays out: its compiled backward adds up in an order that changes from run to run.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the compiler's remarks about its own ways
                self._trunk = torch.compile(self.model.trunk, dynamic=True)
                self._backward(0)
        except (torch._dynamo.exc.TorchDynamoException, torch._inductor.exc.InductorError, OSError) as error:  # noqa: SLF001
            self._trunk = self.model.trunk
            return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
        finally:
            self.optimizer.zero_grad(set_to_none=True)
        self.is_compiled = True
        return None

    def _backward(self, step: int) -> tuple[Batch, torch.Tensor, torch.Tensor]:
        """Leave the gradients of a step; returns its batch, the summed loss in nats and the positions it stands for."""
        own = (self.config.seed, step) if self.peers.is_writer else (self.config.seed, step, 0, self.peers.rank)
        generator = torch.Generator(self.device).manual_seed(_mix(*own))
        batch = self._batch(step)
        if self.config.watcher_share:
            is_hidden = torch.rand(batch.targets.shape, generator=generator, device=self.device) < self.config.watcher_share
            batch = hide_perspective(batch, is_hidden)
        if self.config.has_random_relabeling:
            relabeling = torch.randint(NUM_RELABELINGS, batch.targets.shape, generator=generator, device=self.device)
            batch = relabel(batch, relabeling)
        alike = None
        if self.config.model.names_suits:
            batch, alike = with_named_suits(batch)
        sum_nats, count = self._loss(batch, alike, generator, step)
        (sum_nats / count.clamp(min=1)).backward()  # type: ignore[no-untyped-call]  # torch stub
        return batch, sum_nats.detach(), count.float()

    def _add_up(self, sum_nats: torch.Tensor, count: torch.Tensor) -> None:
        """Make loss, count and gradients those of the whole batch, where others hold the rest of it."""
        if self.peers.size == 1:
            return
        gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in self.model.parameters()]
        torch._foreach_mul_(gradients, count)  # of the own sum, not of the own mean
        self.peers.add_up([sum_nats, count, *gradients])
        torch._foreach_div_(gradients, count.clamp(min=1.0))
        for parameter, gradient in zip(self.model.parameters(), gradients, strict=True):
            parameter.grad = gradient

    def _batch(self, step: int) -> Batch:
        epoch, index = divmod(step, batches_per_epoch(self.reads.num_reads, self.config.batch_size))
        if epoch != self._epoch:
            self._order = epoch_batches(self.reads.lengths, batch_size=self.config.batch_size, seed=self.config.seed, epoch=epoch)
            self._epoch = epoch
        self._num_reads = len(self._order[index])
        return self.reads.batch(self.peers.share(self._order[index]))

    def _loss(
        self, batch: Batch, alike: torch.Tensor | None, generator: torch.Generator, step: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the summed loss in nats and the number of positions it stands for."""
        supervised = is_supervised(batch.tokens)  # (B, T)
        if self.config.positions_per_read is None:
            rows, positions = supervised.nonzero(as_tuple=True)  # (N,) each
            weights = torch.ones(len(rows), device=self.device)
            hidden, start = self._hidden(batch, None, step)
            hidden = hidden[rows, positions - start[rows]]  # (B, T', D) -> (N, D)
        else:
            chosen = choose_positions(supervised, self.config.positions_per_read, generator)
            rows = torch.arange(len(batch.targets), device=self.device).repeat_interleave(chosen.positions.shape[1])  # (N,)
            positions, weights = chosen.positions.flatten(), chosen.weights.flatten()  # (B, K) -> (N,)
            hidden = self._hidden(batch, chosen.positions, step)[0].flatten(0, 1)  # (B, K, D) -> (N, D)
        is_live = is_live_combo_at(batch.tokens, rows, positions)  # (N, C)
        kinds = hand_kinds(batch.tokens, rows, positions) if self.config.model.reads_hands else None
        readout = self.model.readout(hidden, None if alike is None else alike[rows, positions], kinds)
        nats = masked_cross_entropy(readout, batch.targets[rows], is_live, weights)
        return nats, supervised.sum()

    def _hidden(self, batch: Batch, positions: torch.Tensor | None, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return hidden vectors, blocks in the configured precision, and where in the stream the blocks begin, (B,).

        Vectors are all that the blocks give, (B, T', D), or those at the positions (B, K).
        """
        has_dropout = self.config.model.dropout > 0.0
        devices = [self.device] if self.device.type == "cuda" else []
        # Dropout takes no generator, so the global one is seeded for this forward and put back after it.
        with torch.random.fork_rng(devices, enabled=has_dropout):
            if has_dropout:
                torch.manual_seed(_mix(self.config.seed, step, 1, *(() if self.peers.is_writer else (self.peers.rank,))))
            x, start = self.model.enter(batch.tokens, batch.values)  # (B, T', D)
            if positions is not None:
                positions = (positions - start.unsqueeze(1)).clamp(min=0)
            with torch.autocast(self.device.type, self.precision, enabled=self.precision != torch.float32):
                return self._trunk(x, positions), start


def resolve_precision(precision: Precision, device: torch.device) -> torch.dtype:
    """Return the dtype that the blocks run in. A CPU without matrix tiles multiplies bfloat16 four times slower than float32."""
    if precision != "auto":
        return torch.bfloat16 if precision == "bfloat16" else torch.float32
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float32
    return torch.bfloat16 if torch.cpu._is_amx_tile_supported() else torch.float32  # noqa: SLF001 - no public name


def _mix(*numbers: int) -> int:
    """Return a 63-bit seed that depends on every number."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
