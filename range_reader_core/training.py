"""The training loop: a budget of steps, validations of the weight average, best and last, resume.

The budget is wall-clock seconds, everything included and counted across resumptions, or a number of steps. A run in steps that
was stopped and resumed equals an undisturbed one, bit for bit on a CPU. ``best.safetensors`` and ``last/`` are each replaced
by one rename, so a kill at any moment leaves both usable. A step itself lies in ``learner``, presets in ``presets``.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import torch

from range_reader_core.checkpoint import BEST_NAME, CheckpointSidecar, read_sidecar, save_checkpoint
from range_reader_core.learner import Learner, StepLoss
from range_reader_core.optim import learning_rate_factor
from range_reader_core.peers import Peers
from range_reader_core.reads import Reads
from range_reader_core.train_config import TrainConfig
from range_reader_core.train_events import CompileFailed, Evaluated, Progress, Resumed, Started, TrainEvent
from range_reader_core.train_state import Standing, load_state, save_state
from range_reader_core.validation import Validator, choose_reads, is_better
from range_reader_core.warm_start import starting_weights

LOG_NAME: Final = "train_log.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainResult:
    """What a finished training has to show. The weights lie in ``checkpoint`` with their sidecar beside them."""

    checkpoint: Path
    best: Evaluated  # the validation whose weights were kept, see validation.is_better
    history: tuple[Evaluated, ...]  # every validation
    num_steps: int
    num_reads_seen: int  # reads in those steps, repeats counted
    seconds: float  # of the budget, over all resumptions
    was_resumed: bool
    is_compiled: bool
    precision: str  # "float32" | "bfloat16"


def train(
    config: TrainConfig,
    train_reads: Reads,
    val_reads: Reads,
    run_folder: Path,
    *,
    device: torch.device,
    identity: str,
    on_event: Callable[[TrainEvent], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    data_manifest_hash: str = "",
    git_commit: str = "",
    init_from: Path | None = None,
    peers: Peers | None = None,
) -> TrainResult:
    """Train a reader to the end of its budget and return what came of it; continues from ``run_folder`` where it can.

    Args:
        config: how to train.
        train_reads: what to learn from.
        val_reads: what chooses the checkpoint.
        run_folder: receives ``best.safetensors``, ``best.json``, ``last/`` and ``train_log.jsonl``.
        device: where to train.
        identity: hash of configuration and data; a folder that holds another run is refused.
        on_event: called at every event, between steps; what it raises stops the run with its state saved.
        clock: seconds, monotonic.
        data_manifest_hash: of the shards the reads come from, for the sidecar.
        git_commit: of the running code, for the sidecar.
        init_from: a checkpoint whose weights the run begins with, instead of random ones; its hash belongs into ``identity``.
        peers: this process's place among those that train together; alone by default. All see the same reads and folder.

    Raises:
        ValueError: there is nothing to train on or to validate with, the folder holds another run, or ``init_from`` does not fit.
        FloatingPointError: loss or gradient was not finite at a step, which is named; no update was made with it.
        OSError: the folder cannot be written.
    """
    started_at = clock()
    learner = Learner(config, train_reads, device, peers)
    validator = Validator(choose_reads(val_reads, config.eval_reads), device, learner.precision)
    run_folder.mkdir(parents=True, exist_ok=True)
    saved = load_state(run_folder, identity, learner.model, learner.average, learner.optimizer)
    if saved is None and init_from is not None:
        learner.start_from(starting_weights(init_from, config.model))
    learner.peers.wait()  # nobody writes before everybody has read
    sidecar = CheckpointSidecar(
        model=config.model,
        identity=identity,
        data_manifest_hash=data_manifest_hash,
        git_commit=git_commit,
        train_config=asdict(config),
    )
    run = _Run(config, learner, validator, run_folder, saved or Standing(identity=identity), sidecar, on_event, clock, started_at)
    try:
        run.advance(was_resumed=saved is not None)
    except BaseException:
        # A signal can come between an update and its count; then the state saved before is the run's.
        if not learner.is_updating:
            run.save()
        raise
    return run.result(was_resumed=saved is not None)


class _Interval:
    """Steps since the last report."""

    def __init__(self, now: float) -> None:
        self.since = now  # moved forward by time that is not spent on steps
        self.sum_nats = self.num_positions = 0.0
        self.num_reads = 0

    def add(self, loss: StepLoss) -> None:
        self.sum_nats += loss.sum_nats
        self.num_positions += loss.num_positions
        self.num_reads += loss.num_reads


class _Run:
    """One training in one process."""

    def __init__(
        self,
        config: TrainConfig,
        learner: Learner,
        validator: Validator,
        run_folder: Path,
        standing: Standing,
        sidecar: CheckpointSidecar,
        on_event: Callable[[TrainEvent], None],
        clock: Callable[[], float],
        started_at: float,
    ) -> None:
        self.config, self.learner, self.validator, self.run_folder = config, learner, validator, run_folder
        self.standing, self.sidecar, self.on_event, self.clock = standing, sidecar, on_event, clock
        self.started_at = self.saved_at = started_at
        self.elapsed_before_s = standing.elapsed_s
        self.best = self._best_on_disk()

    def advance(self, *, was_resumed: bool) -> None:
        """Train to the end of the budget."""
        standing, config = self.standing, self.config
        if was_resumed:
            self._tell(Resumed(step=standing.step, elapsed_s=self.elapsed_s()))
        if standing.is_finished:
            return
        self._set_up()
        interval = _Interval(self.clock())
        while True:
            # What is due comes before the next step, so a run that was stopped between the two does it when it resumes.
            paused_at = self.clock()
            progress = self.learner.peers.agree(self.progress(), self.learner.device)
            is_over = progress >= 1.0 and standing.step > 0
            if standing.step and (int(progress * config.num_evaluations) > standing.num_evaluations or is_over):
                self._evaluate(progress)
            elif paused_at - self.saved_at >= config.save_every_s:
                self.save()
            if is_over:
                break
            interval.since += self.clock() - paused_at
            factor = learning_rate_factor(progress, warmup=config.warmup_fraction, final=config.final_fraction)
            loss = self.learner.step(standing.step, config.learning_rate * factor)
            standing.count(loss)
            self.learner.settle()
            interval.add(loss)
            if self.clock() - interval.since >= config.report_every_s:
                self._report(interval, config.learning_rate * factor)
                interval = _Interval(self.clock())
        standing.is_finished = True
        self.save()
        self._follow()

    def elapsed_s(self) -> float:
        """Return the seconds of the budget spent, over all resumptions."""
        return self.elapsed_before_s + self.clock() - self.started_at

    def progress(self) -> float:
        """Return the spent fraction of the budget. Set-up is no progress, and room is kept for the last validation."""
        if self.config.max_steps is not None:
            return self.standing.step / self.config.max_steps
        left = self.config.budget_seconds - self.standing.setup_s - self.standing.evaluation_s
        spent = self.elapsed_s() - self.standing.setup_s
        return 1.0 if left <= 0.0 else max(spent, 0.0) / left

    def save(self) -> None:
        """Save what resuming needs; one of those that train together does."""
        if not self.learner.peers.is_writer:
            return
        self.standing.elapsed_s = self.elapsed_s()
        save_state(self.run_folder, self.standing, self.learner.model, self.learner.average, self.learner.optimizer)
        self.saved_at = self.clock()

    def result(self, *, was_resumed: bool) -> TrainResult:
        """Return what a finished run has to show."""
        assert self.best is not None  # a run ends with a validation, and the first one is the best so far
        return TrainResult(
            checkpoint=self.run_folder / BEST_NAME,
            best=self.best,
            history=tuple(self.standing.history),
            num_steps=self.standing.step,
            num_reads_seen=self.standing.num_reads_seen,
            seconds=self.standing.elapsed_s,
            was_resumed=was_resumed,
            is_compiled=self.learner.is_compiled,
            precision=_name(self.learner.precision),
        )

    def _set_up(self) -> None:
        if self.config.is_compiled and (reason := self.learner.compile()) is not None:
            self._tell(CompileFailed(reason=reason))
        setup_s = self.clock() - self.started_at
        self.standing.setup_s += setup_s
        self._tell(
            Started(
                device=str(self.learner.device),
                precision=_name(self.learner.precision),
                is_compiled=self.learner.is_compiled,
                num_parameters=self.learner.model.num_parameters(),
                num_train_reads=self.learner.reads.num_reads,
                num_val_reads=self.validator.reads.num_reads,
                setup_s=setup_s,
            )
        )

    def _report(self, interval: _Interval, learning_rate: float) -> None:
        self._tell(
            Progress(
                step=self.standing.step,
                elapsed_s=self.elapsed_s(),
                budget_s=self.config.budget_seconds,
                reads_per_s=interval.num_reads / max(self.clock() - interval.since, 1e-9),
                loss_nats=interval.sum_nats / interval.num_positions,
                learning_rate=learning_rate,
            )
        )

    def _evaluate(self, progress: float) -> None:
        """Score the weight average, keep it if it is the best, save, tell. Does nothing where this step was scored already."""
        if not self.learner.peers.is_writer or (self.standing.history and self.standing.history[-1].step == self.standing.step):
            return
        paused_at, standing = self.clock(), self.standing
        scored = self.validator.score(self.learner.average)
        standing.num_evaluations = int(progress * self.config.num_evaluations)
        standing.evaluation_s = self.clock() - paused_at
        event = Evaluated(
            step=standing.step,
            elapsed_s=self.elapsed_s(),
            train_loss_nats=standing.interval_nats / standing.interval_positions,
            val_loss_nats=scored.means["loss_nats"],
            val_mrr=scored.means["mrr"],
            val_mrr_error=scored.mrr_error,
            val_mean_rank=scored.means["mean_rank"],
            num_positions=scored.num_positions,
            is_best=False,
        )
        if is_better(event, self.best, standing.history, self.config.tie_errors):
            event = self.best = replace(event, is_best=True)
            save_checkpoint(self.run_folder / BEST_NAME, self.learner.average, self.sidecar.scored(event, scored.means))
        standing.record(event)
        self.save()
        self._tell(event)

    def _best_on_disk(self) -> Evaluated | None:
        """Return the validation behind ``best.safetensors``: after a kill it may be newer than ``last/``."""
        path = self.run_folder / BEST_NAME
        if not path.exists():
            return None
        sidecar = read_sidecar(path)
        if sidecar.identity != self.standing.identity or sidecar.validation is None:
            msg = (
                f"{self.run_folder} holds the checkpoint of run {sidecar.identity!r}, asked to train {self.standing.identity!r}; "
                "choose another folder or delete this one"
            )
            raise ValueError(msg)
        return sidecar.validation

    def _follow(self) -> None:
        """Take over what the process that validates and writes has found, once all are done."""
        self.learner.peers.wait()
        if not self.learner.peers.is_writer:
            learner = self.learner
            found = load_state(self.run_folder, self.standing.identity, learner.model, learner.average, learner.optimizer)
            assert found is not None  # it has just been written
            self.standing, self.best = found, self._best_on_disk()

    def _tell(self, event: TrainEvent) -> None:
        if not self.learner.peers.is_writer:
            return
        with (self.run_folder / LOG_NAME).open("a", encoding="utf-8") as log:
            log.write(json.dumps({"event": type(event).__name__, **asdict(event)}) + "\n")
        self.on_event(event)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
