"""A run that is stopped or killed, whenever that is, goes on to the same end; a folder holds one run."""

import json
import pkgutil
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from range_reader_core.batching import Batch
from range_reader_core.checkpoint import load_checkpoint
from range_reader_core.learner import Learner
from range_reader_core.reads import Reads, save_reads
from range_reader_core.train_events import Evaluated, Progress, Resumed, Started, TrainEvent
from tests.core.training_runs import CPU, SMALL, Stop, Ticks, assert_same_run, run

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("stop_at", [1, 2, 7])
def test_a_stopped_and_resumed_run_equals_an_undisturbed_one(reads: tuple[Reads, Reads], tmp_path: Path, stop_at: int) -> None:
    """Bit for bit: weights, average, moments, order, relabelings, dropout and the loss between validations."""
    config = replace(SMALL, report_every_s=1e-9)
    whole = run(reads, tmp_path / "whole", config)

    def stop(event: TrainEvent) -> None:
        if isinstance(event, Progress) and event.step == stop_at:
            raise Stop

    with pytest.raises(Stop):
        run(reads, tmp_path / "parts", config, on_event=stop)
    events: list[TrainEvent] = []
    resumed = run(reads, tmp_path / "parts", config, on_event=events.append)
    assert isinstance(events[0], Resumed)
    assert events[0].step == stop_at
    assert resumed.was_resumed
    assert not whole.was_resumed
    assert_same_run(whole, resumed)


def test_a_stop_during_a_validation_or_before_the_first_step_is_no_loss(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """The callback may raise at any event."""
    whole = run(reads, tmp_path / "whole")
    for kind in (Started, Evaluated):

        def stop(event: TrainEvent, kind: type[TrainEvent] = kind) -> None:
            if isinstance(event, kind):
                raise Stop

        folder = tmp_path / kind.__name__
        with pytest.raises(Stop):
            run(reads, folder, on_event=stop)
        assert_same_run(whole, run(reads, folder))


@pytest.mark.parametrize("where", ["torch.optim.AdamW.step", "range_reader_core.train_state.Standing.count"])
def test_an_update_that_is_not_counted_is_not_saved(
    reads: tuple[Reads, Reads], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Half an update, or weights one step ahead of their count, are no state of the run: what was saved before must stay."""
    whole = run(reads, tmp_path / "whole")
    owner, _, name = where.rpartition(".")
    real = getattr(pkgutil.resolve_name(owner), name)
    calls = []

    def interrupted(self: object, *args: object) -> None:
        calls.append(1)
        if name == "step":
            real(self, *args)
        if len(calls) == 6:
            raise KeyboardInterrupt
        if name == "count":
            real(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(where, interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(reads, tmp_path / "parts")
    events: list[TrainEvent] = []
    resumed = run(reads, tmp_path / "parts", on_event=events.append)
    assert isinstance(events[0], Resumed)
    assert events[0].step == 4  # the validation before
    assert_same_run(whole, resumed)


def test_whatever_a_kill_leaves_on_the_disk_is_loaded_and_gone_on_from(
    reads: tuple[Reads, Reads], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL can come anywhere between two renames, with a file half written: each of those moments is tried."""
    config = replace(SMALL, max_steps=4, num_evaluations=2)
    folder, killed = tmp_path / "run", []
    real = Path.replace

    def replace_or_die(aside: Path, path: Path) -> Path:
        left = tmp_path / f"killed-{len(killed)}"
        shutil.copytree(folder, left)
        torn = left / aside.relative_to(folder)
        torn.write_bytes(torn.read_bytes()[:100])
        killed.append(left)
        return real(aside, path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace_or_die)
        whole = run(reads, folder, config)
    of_history = [replace(event, elapsed_s=0.0) for event in whole.history]
    steps = []
    for left in killed:
        if (left / "best.safetensors").exists():
            kept = load_checkpoint(left, CPU)[1].validation
            assert kept is not None
            assert replace(kept, elapsed_s=0.0) in of_history
            steps.append(kept.step)
        assert_same_run(whole, run(reads, left, config))
    assert len(killed) > len(steps) >= 6
    assert set(steps) == {event.step for event in whole.history if event.is_best}


def test_a_bad_number_in_the_middle_leaves_best_and_last_as_they_were(
    reads: tuple[Reads, Reads], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was learned before it must neither be lost nor be spoilt, and the run must go on once the cause is gone."""
    whole = run(reads, tmp_path / "whole")
    real = Learner._loss

    def loss(self: Learner, batch: Batch, alike: torch.Tensor | None, generator: torch.Generator, step: int) -> Any:
        sum_nats, count = real(self, batch, alike, generator, step)
        return sum_nats * (float("nan") if step == 5 else 1.0), count

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "_loss", loss)
        for _ in range(2):  # the second time it resumes right before the bad step
            with pytest.raises(FloatingPointError, match="step 5: loss nan nats"):
                run(reads, tmp_path / "parts")
    validation = load_checkpoint(tmp_path / "parts", CPU)[1].validation
    assert validation is not None
    assert validation.step <= 4
    events: list[TrainEvent] = []
    resumed = run(reads, tmp_path / "parts", on_event=events.append)
    assert isinstance(events[0], Resumed)
    assert events[0].step == 5
    assert_same_run(whole, resumed)


@pytest.mark.slow
def test_a_killed_process_resumes_to_the_same_end(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """SIGKILL leaves no time to save: best and last must be usable whenever it comes."""
    config = replace(SMALL, max_steps=40, num_evaluations=20, save_every_s=1e-6)
    whole = run(reads, tmp_path / "whole", config)
    save_reads(tmp_path / "train.npz", reads[0])
    save_reads(tmp_path / "val.npz", reads[1])
    folder = tmp_path / "parts"
    num_kills = 0
    for after in (4, 9, 17, 30):
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path), str(folder), str(after)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()  # the child says so when it has taken this many steps, and goes on for five
        process.send_signal(signal.SIGKILL)
        num_kills += process.wait() == -signal.SIGKILL
        process.stdout.close()
        if (folder / "best.safetensors").exists():
            load_checkpoint(folder, CPU)
    assert num_kills == 4
    resumed = run(reads, folder, config)
    assert resumed.was_resumed
    assert_same_run(whole, resumed)


KILLED = """
import signal
import sys
from dataclasses import replace
from pathlib import Path
import torch
from range_reader_core.reads import load_reads
from range_reader_core.train_events import Progress
from tests.core.training_runs import SMALL, run

torch.set_num_threads(1)
data, folder, after = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])

def tell(event):
    if isinstance(event, Progress) and event.step == after:
        print("now", flush=True)
    if isinstance(event, Progress) and event.step == after + 5:
        signal.pause()  # however late the kill comes

config = replace(SMALL, max_steps=40, num_evaluations=20, save_every_s=1e-6, report_every_s=1e-9)
run((load_reads(data / "train.npz"), load_reads(data / "val.npz")), folder, config, on_event=tell)
"""


def test_a_best_newer_than_last_is_kept(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """A kill between the two leaves best ahead of last; the repeated validation ends up at the same place."""
    whole = run(reads, tmp_path)
    (tmp_path / "last" / "state.safetensors").unlink()
    (tmp_path / "best.json").unlink()
    again = run(reads, tmp_path)
    assert not again.was_resumed
    assert again.best.val_mrr == whole.best.val_mrr
    assert load_checkpoint(tmp_path, CPU)[1].validation == again.best
    assert json.loads((tmp_path / "best.json").read_text())["step"] == again.best.step


def test_last_is_saved_as_often_as_asked(reads: tuple[Reads, Reads], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It bounds what a kill can cost."""
    saved_at: list[int] = []

    def note(_folder: Path, standing: object, *_: object) -> None:
        saved_at.append(standing.step)  # type: ignore[attr-defined]

    monkeypatch.setattr("range_reader_core.training.save_state", note)
    run(reads, tmp_path / "often", replace(SMALL, save_every_s=1e-9, num_evaluations=1))
    assert set(range(1, 9)) <= set(saved_at)
    saved_at.clear()
    run(reads, tmp_path / "seldom", replace(SMALL, save_every_s=1e9, num_evaluations=2))
    assert sorted(set(saved_at)) == [4, 8]


def test_a_budget_counts_across_resumptions(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """Being killed must not buy time."""
    config = replace(SMALL, max_steps=None, budget_seconds=200.0, report_every_s=1e-9)

    def stop(event: TrainEvent) -> None:
        if isinstance(event, Progress) and event.elapsed_s > 120.0:
            raise Stop

    with pytest.raises(Stop):
        run(reads, tmp_path, config, on_event=stop, clock=Ticks(0.5))
    clock = Ticks(0.5)
    result = run(reads, tmp_path, config, clock=clock)
    assert clock.now < 95.0
    assert 0.9 * 200.0 < result.seconds <= 210.0


def test_a_finished_run_is_not_trained_again(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """Materializing twice must not move the weights."""
    first = run(reads, tmp_path)
    before = (tmp_path / "best.safetensors").read_bytes()
    events: list[TrainEvent] = []
    second = run(reads, tmp_path, on_event=events.append)
    assert [type(event) for event in events] == [Resumed]
    assert second.history == first.history
    assert (tmp_path / "best.safetensors").read_bytes() == before


def test_a_folder_of_another_run_is_refused(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """Continuing it would mix two configurations; overwriting it would lose a checkpoint."""
    run(reads, tmp_path)
    with pytest.raises(ValueError, match="choose another folder"):
        run(reads, tmp_path, identity="run-2")
    (tmp_path / "last" / "state.safetensors").unlink()
    with pytest.raises(ValueError, match="choose another folder"):
        run(reads, tmp_path, identity="run-2")
