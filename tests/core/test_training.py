"""The loop: it learns, it stops and resumes without a trace, it keeps the best, and it never updates on a bad number."""

import json
import math
import pkgutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from range_reader_core.batching import Batch
from range_reader_core.checkpoint import load_checkpoint
from range_reader_core.encoder import HandEncoder
from range_reader_core.learner import Learner, resolve_precision
from range_reader_core.model import ModelConfig
from range_reader_core.presets import PRESETS, cpu, preset, reference, reference_cpu, tiny, with_poker_sense
from range_reader_core.reads import Reads, save_reads
from range_reader_core.tokens import COMBO_OFFSET
from range_reader_core.train_config import TrainConfig
from range_reader_core.train_events import CompileFailed, Evaluated, Progress, Resumed, Started, TrainEvent
from range_reader_core.training import LOG_NAME, TrainResult, train
from range_reader_core.validation import Validator, choose_reads
from tests.core.hands import random_hands

CPU = torch.device("cpu")
GOLDEN = Path(__file__).parent.parent / "golden" / "loss_trace.json"
SMALL = replace(
    tiny(),
    model=ModelConfig(num_layers=2, width=16, num_heads=2, dropout=0.1, head="composed"),
    batch_size=8,
    max_steps=8,
    num_evaluations=4,
    eval_reads=12,
    has_random_relabeling=True,
)


@pytest.fixture(scope="module")
def reads() -> tuple[Reads, Reads]:
    """Return train and val reads of different hands."""
    encoder = HandEncoder()
    return encoder.encode_hands(random_hands(1, 40))[0], encoder.encode_hands(random_hands(2, 10))[0]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Sums of matrix products depend on how many threads share them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Ticks:
    """A clock that moves by a fixed time at each look."""

    def __init__(self, tick_s: float) -> None:
        """Start at zero."""
        self.now, self.tick_s = 0.0, tick_s

    def __call__(self) -> float:
        """Return the time."""
        self.now += self.tick_s
        return self.now


class Stop(BaseException):
    """Stands for Ctrl-C and for Dagster's interrupt."""


def run(
    reads: tuple[Reads, Reads],
    folder: Path,
    config: TrainConfig = SMALL,
    *,
    on_event: Callable[[TrainEvent], None] = lambda _: None,
    identity: str = "run-1",
    clock: Callable[[], float] = time.monotonic,
) -> TrainResult:
    return train(config, *reads, folder, device=CPU, identity=identity, on_event=on_event, clock=clock)


def timeless(result: TrainResult) -> list[dict[str, object]]:
    """Return the history without its times."""
    return [{**asdict(event), "elapsed_s": None} for event in result.history]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_checkpoint(folder, CPU)[0].state_dict()


def assert_same_run(first: TrainResult, second: TrainResult) -> None:
    """Both runs have the same history and the same best weights, bit for bit."""
    assert timeless(first) == timeless(second)
    ours, theirs = weights(first.checkpoint), weights(second.checkpoint)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert first.num_reads_seen == second.num_reads_seen


def test_it_learns_what_there_is_to_learn(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """Everything else can be right while no gradient reaches the weights: here a small model must fit its own reads."""
    few = reads[0].take(np.arange(24))
    config = replace(
        SMALL,
        max_steps=40,
        learning_rate=2e-2,
        model=replace(SMALL.model, dropout=0.0),
        has_random_relabeling=False,
        weight_decay=0.0,
    )
    result = run((few, few), tmp_path, config)
    assert result.history[-1].val_loss_nats < 4.0  # the static range of these reads costs more than 6


@pytest.mark.parametrize("trace", ["train_loss_nats", "train_loss_nats_with_poker_sense"])
def test_the_loss_trace_is_golden(reads: tuple[Reads, Reads], tmp_path: Path, trace: str) -> None:
    """A change that should not alter results must leave every loss where it was; one that should, regenerates the file."""
    model = with_poker_sense(SMALL.model) if trace.endswith("poker_sense") else SMALL.model
    losses = [event.train_loss_nats for event in run(reads, tmp_path, replace(SMALL, model=model, num_evaluations=8)).history]
    golden = json.loads(GOLDEN.read_text())
    # Other libraries of matrix products round otherwise; a changed recipe moves the later losses by far more.
    assert losses == pytest.approx(golden[trace], rel=2e-5)


def test_two_runs_are_equal_and_another_seed_is_not(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """Hidden randomness would make every comparison a lottery."""
    first, second = run(reads, tmp_path / "a"), run(reads, tmp_path / "b")
    assert_same_run(first, second)
    assert timeless(run(reads, tmp_path / "c", replace(SMALL, seed=1))) != timeless(first)


def test_global_randomness_neither_enters_nor_changes(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """Dropout seeds the global generator; a caller's own draws must not notice, nor be noticed."""
    torch.manual_seed(1)
    first = run(reads, tmp_path / "a")
    after = torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(3), after)
    torch.manual_seed(2)
    assert_same_run(first, run(reads, tmp_path / "b"))


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
        process.stdout.readline()  # the child says so when it has taken this many steps, and goes on
        process.send_signal(signal.SIGKILL)
        num_kills += process.wait() == -signal.SIGKILL
        process.stdout.close()
        if (folder / "best.safetensors").exists():
            load_checkpoint(folder, CPU)
    assert num_kills == 4
    resumed = run(reads, folder, config)
    assert resumed.was_resumed
    ours, theirs = weights(whole.checkpoint), weights(resumed.checkpoint)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert [entry["val_loss_nats"] for entry in timeless(whole)] == [entry["val_loss_nats"] for entry in timeless(resumed)]


KILLED = """
import sys
from dataclasses import replace
from pathlib import Path
import torch
from range_reader_core.reads import load_reads
from range_reader_core.train_events import Progress
from tests.core.test_training import SMALL, run

torch.set_num_threads(1)
data, folder, after = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])

def tell(event):
    if isinstance(event, Progress) and event.step == after:
        print("now", flush=True)

config = replace(SMALL, max_steps=40, num_evaluations=20, save_every_s=1e-6, report_every_s=1e-9)
run((load_reads(data / "train.npz"), load_reads(data / "val.npz")), folder, config, on_event=tell)
"""


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


def test_the_best_validation_is_what_is_kept(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """By mrr, of the averaged weights, and with the sidecar that tells so."""
    config = replace(SMALL, learning_rate=0.02, max_steps=30, num_evaluations=10, tie_errors=0.0)
    result = run(reads, tmp_path, config)
    mrrs = [event.val_mrr for event in result.history]
    assert len(mrrs) == 10
    assert result.best.val_mrr == max(mrrs)
    assert mrrs.index(max(mrrs)) < 9  # otherwise the last would do
    model, sidecar = load_checkpoint(tmp_path, CPU)
    means = Validator(choose_reads(reads[1], SMALL.eval_reads), CPU).score(model).means
    assert means["mrr"] == pytest.approx(result.best.val_mrr, rel=1e-6)
    assert sidecar.metrics["loss_nats"] == result.best.val_loss_nats
    assert sidecar.step == result.best.step
    assert [event.is_best for event in result.history] == [mrr >= max(mrrs[: i + 1]) for i, mrr in enumerate(mrrs)]
    by_loss = run(reads, tmp_path / "ties", replace(config, tie_errors=1e9))
    assert by_loss.best.val_loss_nats == min(event.val_loss_nats for event in by_loss.history) < result.best.val_loss_nats


def test_events_tell_the_run_and_are_logged(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """The terminal, Dagster and a later reader of the folder rely on them."""
    events: list[TrainEvent] = []
    config = replace(SMALL, report_every_s=1e-9)
    result = run(reads, tmp_path, config, on_event=events.append)
    assert isinstance(events[0], Started)
    assert events[0].num_train_reads == reads[0].num_reads
    assert events[0].num_val_reads == SMALL.eval_reads
    progress = [event for event in events if isinstance(event, Progress)]
    assert [event.step for event in progress] == list(range(1, 9))
    assert all(event.reads_per_s > 0.0 and math.isfinite(event.loss_nats) for event in progress)
    assert max(event.learning_rate for event in progress) == pytest.approx(SMALL.learning_rate, rel=0.05)
    evaluated = tuple(event for event in events if isinstance(event, Evaluated))
    assert evaluated == result.history
    assert [event.step for event in evaluated] == [2, 4, 6, 8]
    # What a validation calls the training loss is the mean over the steps since the one before.
    of_steps = [event.loss_nats for event in progress]
    assert min(of_steps[2:4]) < evaluated[1].train_loss_nats < max(of_steps[2:4])
    lines = [json.loads(line) for line in (tmp_path / LOG_NAME).read_text().splitlines()]
    assert [line.pop("event") for line in lines] == [type(event).__name__ for event in events]
    assert lines[-1] == asdict(events[-1])


def test_a_budget_in_seconds_ends_the_run_and_holds_everything(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """Set-up and validations are paid from it, the last one included, and the rate falls to a tenth by its end."""
    config = replace(SMALL, max_steps=None, budget_seconds=200.0, report_every_s=1e-9)
    events: list[TrainEvent] = []
    result = run(reads, tmp_path, config, on_event=events.append, clock=Ticks(0.5))
    assert 0.9 * 200.0 < result.seconds <= 210.0
    assert len(result.history) == 4
    assert result.history[-1].step == result.num_steps
    rates = [event.learning_rate for event in events if isinstance(event, Progress)]
    assert rates[-1] == pytest.approx(0.1 * config.learning_rate, rel=0.1)


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


def test_a_budget_too_small_for_a_step_still_leaves_a_checkpoint(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """Nothing to load at the end is worse than a reader that is barely better than its prior."""
    result = run(reads, tmp_path, replace(SMALL, max_steps=None, budget_seconds=1e-3))
    assert result.num_steps == 1
    assert load_checkpoint(tmp_path, CPU)[1].step == 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_bad_number_stops_before_the_update_and_names_the_step(reads: tuple[Reads, Reads], tmp_path: Path, bad: float) -> None:
    """An update with it would destroy the weights that were good until then."""
    train_reads, val_reads = reads
    learner = Learner(SMALL, train_reads, CPU)
    learner.step(0, 1e-3)
    before = {name: tensor.clone() for name, tensor in learner.model.state_dict().items()}
    learner.reads.values.fill_(bad)
    with pytest.raises(FloatingPointError, match=r"step 1: loss .* stopped before the update"):
        learner.step(1, 1e-3)
    assert all(torch.equal(before[name], tensor) for name, tensor in learner.model.state_dict().items())
    spoilt = replace(train_reads, values=np.full_like(train_reads.values, bad))
    with pytest.raises(FloatingPointError, match="step 0"):
        run((spoilt, val_reads), tmp_path)


def test_a_bad_gradient_stops_although_the_loss_is_fine(reads: tuple[Reads, Reads]) -> None:
    """A gradient can overflow where the loss does not."""
    learner = Learner(SMALL, reads[0], CPU)
    parameter = learner.model.embedding.card
    before = parameter.detach().clone()
    parameter.register_hook(lambda gradient: gradient * torch.inf)
    with pytest.raises(FloatingPointError, match=r"step 0: loss \d.*gradient norm (nan|inf)"):
        learner.step(0, 1e-3)
    assert torch.equal(parameter, before)


def test_reads_without_a_supervised_position_are_an_error(reads: tuple[Reads, Reads]) -> None:
    """A mean over nothing is no loss of zero."""
    train_reads = reads[0]
    first = train_reads.take(np.array([0]))
    stump = replace(first, tokens=first.tokens[:3], values=first.values[:3], offsets=np.array([0, 3]))
    for num in (None, 4):
        with pytest.raises(ValueError, match="has a supervised position"):
            Learner(replace(SMALL, positions_per_read=num), stump, CPU).step(0, 1e-3)


def test_scoring_all_or_some_positions_is_the_same_objective(reads: tuple[Reads, Reads]) -> None:
    """With as many positions as the longest read has, the short cut through the last block must give the same gradients."""
    norms = []
    for num in (None, 96):
        learner = Learner(replace(SMALL, positions_per_read=num, model=replace(SMALL.model, dropout=0.0)), reads[0], CPU)
        with torch.no_grad():
            for parameter in learner.model.parameters():
                parameter.add_(0.1)
        losses = learner.step(0, 1e-3)
        gradients = [parameter.grad.clone() for parameter in learner.model.parameters() if parameter.grad is not None]
        norms.append((losses, gradients))
    (all_loss, all_gradients), (some_loss, some_gradients) = norms
    assert some_loss.sum_nats == pytest.approx(all_loss.sum_nats, rel=1e-5)
    assert some_loss.num_positions == all_loss.num_positions
    for ours, theirs in zip(all_gradients, some_gradients, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5 * max(1.0, float(theirs.abs().max())))


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_so_many_reads_are_learned_without_the_cards_of_the_perspective(
    reads: tuple[Reads, Reads], monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    """A reader that has always seen two cards has no idea what a watcher without any should think."""
    learner = Learner(replace(SMALL, batch_size=64, watcher_share=share), reads[0], CPU)
    real, shown = learner._loss, []

    def loss(batch: Batch, *args: Any) -> tuple[torch.Tensor, torch.Tensor]:
        shown.append((batch.tokens >= COMBO_OFFSET).any(dim=1))
        return real(batch, *args)

    monkeypatch.setattr(learner, "_loss", loss)
    for step in range(5):
        learner.step(step, 1e-3)
    num_reads = sum(len(rows) for rows in shown)
    assert num_reads > 200
    assert 1.0 - float(torch.cat(shown).float().mean()) == pytest.approx(share, abs=0.09)


SHORT = replace(SMALL, max_steps=4, num_evaluations=2)
CHANGES: dict[str, object] = {
    "model": replace(SMALL.model, num_layers=1),
    "batch_size": 9,
    "max_steps": 5,
    "learning_rate": 1e-3,
    "warmup_fraction": 0.5,
    "final_fraction": 0.9,
    "beta1": 0.5,
    "beta2": 0.5,
    "weight_decay": 5.0,
    "max_gradient_norm": 1e-3,
    "average_decay": 0.5,
    "positions_per_read": 2,
    "has_random_relabeling": False,
    "watcher_share": 0.5,
    "starts_at_static_range": False,
    "precision": "bfloat16",
    "eval_reads": 11,
    "num_evaluations": 4,
    "seed": 1,
}
# These change how the run goes and not what it computes; each has a test of its own.
ELSEWHERE = {"tie_errors", "budget_seconds", "is_compiled", "save_every_s", "report_every_s"}


def test_every_field_of_the_config_has_an_effect(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """A field that nobody reads is a lie."""
    assert {field.name for field in fields(TrainConfig)} == set(CHANGES) | ELSEWHERE
    usual = timeless(run(reads, tmp_path / "usual", SHORT))
    for name, value in CHANGES.items():
        changed = replace(SHORT, **{name: value})  # type: ignore[arg-type]
        assert timeless(run(reads, tmp_path / name, changed)) != usual, name


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


def test_compilation_that_fails_is_told_and_done_without(
    reads: tuple[Reads, Reads], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine without a C++ compiler must still train, with the same result."""
    plain = run(reads, tmp_path / "plain")

    def fails(*_: object, **__: object) -> Callable[..., torch.Tensor]:
        def broken(*_: object) -> torch.Tensor:
            msg = "no compiler found\nand a long story"
            raise torch._inductor.exc.InductorError(RuntimeError(msg), None)

        return broken

    monkeypatch.setattr(torch, "compile", fails)
    events: list[TrainEvent] = []
    result = run(reads, tmp_path / "broken", replace(SMALL, is_compiled=True), on_event=events.append)
    assert isinstance(events[0], CompileFailed)
    assert "no compiler found" in events[0].reason
    assert not result.is_compiled
    assert_same_run(plain, result)


@pytest.mark.slow
def test_compiled_blocks_give_the_same_losses(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """Speed must not change what is learned."""
    config = replace(SMALL, model=replace(SMALL.model, dropout=0.0))
    plain = run(reads, tmp_path / "plain", config)
    compiled = run(reads, tmp_path / "compiled", replace(config, is_compiled=True))
    assert compiled.is_compiled
    ours = [event.train_loss_nats for event in compiled.history]
    assert ours == pytest.approx([event.train_loss_nats for event in plain.history], rel=1e-4)


def test_precision_is_what_was_asked_for_and_else_what_the_hardware_does_fast() -> None:
    """bfloat16 without hardware for it is four times slower than float32."""
    assert resolve_precision("bfloat16", CPU) is torch.bfloat16
    assert resolve_precision("float32", CPU) is torch.float32
    has_tiles = torch.cpu._is_amx_tile_supported()
    assert resolve_precision("auto", CPU) is (torch.bfloat16 if has_tiles else torch.float32)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("batch_size", 0),
        ("budget_seconds", 0.0),
        ("max_steps", 0),
        ("learning_rate", float("nan")),
        ("warmup_fraction", 1.0),
        ("final_fraction", 1.5),
        ("beta1", -0.1),
        ("beta2", 1.0),
        ("weight_decay", -1.0),
        ("average_decay", 1.0),
        ("positions_per_read", 0),
        ("watcher_share", 1.1),
        ("precision", "float16"),
        ("seed", -1),
    ],
)
def test_a_value_outside_its_range_is_refused(field: str, value: object) -> None:
    """It would train on, and to nothing."""
    with pytest.raises(ValueError, match="training: expected"):
        replace(SMALL, **{field: value})  # type: ignore[arg-type]


def test_presets_by_name() -> None:
    """The names are what people type."""
    assert {name: preset(name) for name in PRESETS} == {name: make() for name, make in PRESETS.items()}
    with pytest.raises(ValueError, match="choose one of tiny, cpu, base, reference"):
        preset("huge")


def test_the_reference_is_the_design_to_the_letter() -> None:
    """Every claimed gain is against it."""
    config = reference()
    assert (config.model.num_layers, config.model.width, config.model.num_heads, config.model.dropout) == (10, 640, 10, 0.15)
    assert (config.model.head, config.model.rope, config.model.mlp_ratio) == ("flat", False, 4)
    assert (config.beta1, config.beta2, config.learning_rate, config.weight_decay) == (0.9, 0.95, 6e-4, 0.20)
    assert (config.final_fraction, config.average_decay, config.budget_seconds) == (0.1, 0.99, 35 * 60)
    assert config.positions_per_read is None
    assert config.has_random_relabeling
    assert not config.starts_at_static_range
    assert config.watcher_share == 0.0
    size, ours = cpu().model, reference_cpu()
    assert (ours.model.num_layers, ours.model.width, ours.model.num_heads) == (size.num_layers, size.width, size.num_heads)
    assert replace(ours, model=config.model, budget_seconds=config.budget_seconds) == config
