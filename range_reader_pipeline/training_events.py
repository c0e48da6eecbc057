"""From the training loop's events to what a person sees: log lines, live curves, and where the state lies after an interrupt.

Dagster's plots use only the newest hundred or so observations, and each costs some ten milliseconds, so a run sends at most
``MAX_OBSERVATIONS``. Their names begin with ``live/``, because a name shared with the materialization would join the two lines.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import dagster as dg

from range_reader_core.wording import counted
from range_reader_pipeline.plots import CurvePoint

if TYPE_CHECKING:
    from range_reader_core.train_events import Evaluated, Progress, TrainEvent

MAX_OBSERVATIONS: Final = 100
_SHARE_OF_BUDGET: Final = 1 / 45  # between two observations of one kind


class Log(Protocol):
    """What is needed of a Dagster log."""

    def info(self, msg: str) -> None:
        """Log a line."""

    def warning(self, msg: str) -> None:
        """Log a line that asks for attention."""


class TrainingReporter:
    """Receives the events of one training."""

    def __init__(self, log: Log, observe: Callable[[Mapping[str, float]], None]) -> None:
        """Report to a log, and through ``observe`` to the live plots."""
        self._log = log
        self._observe = observe
        self._num_observations = 0
        self._last_s: dict[str, float] = {}  # when each kind of event was last observed
        self._budget_s = 0.0
        self._kept_mrr = 0.0

    def __call__(self, event: "TrainEvent") -> None:
        """Report one event."""
        from range_reader_core import train_events as events

        match event:
            case events.Started():
                compiled = ", compiled" if event.is_compiled else ""
                self._log.info(
                    f"{event.num_parameters:,} parameters on {event.device} in {event.precision}{compiled}; "
                    f"{counted(event.num_train_reads, 'read')} to learn from, {event.num_val_reads:,} of val to choose by "
                    "(the scores at the end are over those val reads that all runs are compared on, so they differ a little); "
                    f"set up in {event.setup_s:.0f} s"
                )
            case events.Resumed():
                self._log.info(f"resumed at step {event.step:,}, {event.elapsed_s:.0f} s of the budget already spent")
            case events.CompileFailed():
                self._log.warning(f"goes on without compilation: {event.reason}")
            case events.Progress():
                self._progress(event)
            case events.Evaluated():
                self._evaluated(event)

    def _progress(self, event: "Progress") -> None:
        self._budget_s = event.budget_s
        best = f"  kept val mrr {self._kept_mrr:.4f}" if self._kept_mrr else ""
        left_s = event.budget_s - event.elapsed_s
        left = f"  {left_s:.0f} s left" if left_s > 0 else ""
        self._log.info(f"step {event.step:,}  {event.reads_per_s:,.0f} reads/s  loss {event.loss_nats:.3f} nats{best}{left}")
        values = {"live/step": event.step, "live/reads_per_s": event.reads_per_s, "live/loss_nats": event.loss_nats}
        self._observe_sparingly("progress", event.elapsed_s, values)

    def _evaluated(self, event: "Evaluated") -> None:
        if event.is_best:
            self._kept_mrr = event.val_mrr
        best = ", kept so far" if event.is_best else ""
        self._log.info(
            f"step {event.step:,}  val mrr {event.val_mrr:.4f}{best}  val loss {event.val_loss_nats:.3f} nats  "
            f"mean rank {event.val_mean_rank:.1f}"
        )
        values = {"live/val_mrr": event.val_mrr, "live/val_loss_nats": event.val_loss_nats}
        self._observe_sparingly("validation", event.elapsed_s, values)

    def _observe_sparingly(self, kind: str, elapsed_s: float, values: Mapping[str, float]) -> None:
        is_early = kind in self._last_s and elapsed_s - self._last_s[kind] < self._budget_s * _SHARE_OF_BUDGET
        if is_early or self._num_observations >= MAX_OBSERVATIONS:
            return
        self._last_s[kind] = elapsed_s
        self._num_observations += 1
        self._observe(values)


@contextmanager
def telling_where_it_stopped(log: Log, run_folder: Path, *, asset: str = "checkpoint") -> Iterator[None]:
    """Say on an interrupt (Terminate, Ctrl-C) where the state was saved, and let it pass: the run must still end as canceled."""
    try:
        yield
    except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError):
        best = run_folder / "best.safetensors"
        usable = f"; the best checkpoint so far is {best}" if best.exists() else "; it had not been validated yet"
        log.warning(f"stopped: materialize {asset} again to go on from {run_folder / 'last'}{usable}")
        raise


def validations(folder: Path) -> tuple[CurvePoint, ...]:
    """Return the validations of a run. After a kill the log may hold one twice; the later one counts."""
    from range_reader_core.training import LOG_NAME

    points: dict[int, CurvePoint] = {}
    log = folder / LOG_NAME
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else ():
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue  # torn by a power cut or a full disk; the picture lacks a point
        if event["event"] == "Evaluated":
            points[event["step"]] = CurvePoint(
                minutes=event["elapsed_s"] / 60.0,
                train_loss_nats=event["train_loss_nats"],
                val_loss_nats=event["val_loss_nats"],
                val_mrr=event["val_mrr"],
                is_best=event["is_best"],
            )
    return tuple(points[step] for step in sorted(points))
