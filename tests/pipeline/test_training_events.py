"""Claims about what is shown of a training while it runs."""

from collections.abc import Mapping
from pathlib import Path

import dagster as dg
import pytest

from range_reader_core.train_events import CompileFailed, Evaluated, Progress, Resumed, Started
from range_reader_pipeline.training_events import MAX_OBSERVATIONS, TrainingReporter, telling_where_it_stopped


class FakeLog:
    """Keeps what is logged."""

    def __init__(self) -> None:
        """Start empty."""
        self.lines: list[str] = []
        self.warnings: list[str] = []

    def info(self, msg: str) -> None:
        """Keep a line."""
        self.lines.append(msg)

    def warning(self, msg: str) -> None:
        """Keep a warning."""
        self.warnings.append(msg)


def _progress(step: int, elapsed_s: float, budget_s: float = 1200.0) -> Progress:
    return Progress(step=step, elapsed_s=elapsed_s, budget_s=budget_s, reads_per_s=2500.0, loss_nats=6.6, learning_rate=1e-3)


def _evaluated(step: int, elapsed_s: float, *, val_mrr: float = 0.02, is_best: bool = True) -> Evaluated:
    return Evaluated(
        step=step,
        elapsed_s=elapsed_s,
        train_loss_nats=6.6,
        val_loss_nats=6.55,
        val_mrr=val_mrr,
        val_mrr_error=0.001,
        val_mean_rank=330.0,
        num_positions=99,
        is_best=is_best,
    )


def test_a_line_says_step_speed_loss_kept_mrr_and_time_left() -> None:
    """Prevents a progress line that leaves the person guessing whether it goes well and when it ends."""
    log, seen = FakeLog(), list[Mapping[str, float]]()
    report = TrainingReporter(log, seen.append)
    report(_progress(1234, 60.0))
    assert log.lines == ["step 1,234  2,500 reads/s  loss 6.600 nats  1140 s left"]
    report(_evaluated(1300, 70.0, val_mrr=0.0212))
    report(_evaluated(1400, 75.0, val_mrr=0.0220, is_best=False))
    report(_progress(1500, 80.0))
    assert log.lines[1] == "step 1,300  val mrr 0.0212, kept so far  val loss 6.550 nats  mean rank 330.0"
    assert "kept so far" not in log.lines[2]
    assert "kept val mrr 0.0212" in log.lines[3]


def test_other_events_are_one_line_each() -> None:
    """Prevents silence at the two moments people worry about: the start, and going on after a kill."""
    log = FakeLog()
    report = TrainingReporter(log, lambda _: None)
    report(
        Started(
            device="cpu",
            precision="float32",
            is_compiled=True,
            num_parameters=52_041,
            num_train_reads=10,
            num_val_reads=2,
            setup_s=3.2,
        )
    )
    report(Resumed(step=400, elapsed_s=61.7))
    report(CompileFailed(reason="no compiler"))
    assert "52,041 parameters on cpu in float32, compiled" in log.lines[0]
    assert log.lines[1] == "resumed at step 400, 62 s of the budget already spent"
    assert log.warnings == ["goes on without compilation: no compiler"]


def test_a_night_of_training_sends_at_most_a_hundred_observations_spread_over_it() -> None:
    """Prevents thousands of events, of which Dagster plots the newest hundred: the curve would lose its beginning."""
    seen: list[tuple[float, Mapping[str, float]]] = []
    now = 0.0
    report = TrainingReporter(FakeLog(), lambda values: seen.append((now, values)))
    budget_s = 36_000.0
    for second in range(5, int(budget_s), 5):
        now = float(second)
        report(_progress(second, now, budget_s))
        if second % 100 == 0:
            report(_evaluated(second, now))
    assert 60 <= len(seen) <= MAX_OBSERVATIONS
    assert seen[0][0] < 0.05 * budget_s
    assert seen[-1][0] > 0.9 * budget_s
    assert {name for _, values in seen for name in values} == {
        "live/step",
        "live/reads_per_s",
        "live/loss_nats",
        "live/val_mrr",
        "live/val_loss_nats",
    }


def test_a_run_by_steps_cannot_exceed_the_limit_either() -> None:
    """Prevents a preset that validates often and ends by steps from slipping past a limit that counts time."""
    seen: list[Mapping[str, float]] = []
    report = TrainingReporter(FakeLog(), seen.append)
    for step in range(1000):
        report(_evaluated(step, 10.0 * step))
    assert len(seen) == MAX_OBSERVATIONS


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, dg.DagsterExecutionInterruptedError])
def test_an_interrupt_says_where_it_goes_on_and_passes(interrupt: type[BaseException], tmp_path: Path) -> None:
    """Prevents Terminate from ending as a success, and a person from not knowing what is left."""
    log = FakeLog()
    with pytest.raises(interrupt), telling_where_it_stopped(log, tmp_path):
        raise interrupt
    assert str(tmp_path / "last") in log.warnings[0]
    assert "not been validated" in log.warnings[0]
    (tmp_path / "best.safetensors").touch()
    with pytest.raises(interrupt), telling_where_it_stopped(log, tmp_path):
        raise interrupt
    assert str(tmp_path / "best.safetensors") in log.warnings[1]


def test_other_errors_are_not_called_a_stop(tmp_path: Path) -> None:
    """Prevents a crash from being explained as an interrupt."""
    log = FakeLog()
    with pytest.raises(FloatingPointError), telling_where_it_stopped(log, tmp_path):
        raise FloatingPointError
    assert not log.warnings
