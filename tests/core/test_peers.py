"""Claims about processes that train together: the gradient of the whole batch, one writer, the same end."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from range_reader_core.encoder import HandEncoder
from range_reader_core.learner import Learner
from range_reader_core.peers import Peers
from range_reader_core.reads import Reads, save_reads
from tests.core.hands import random_hands
from tests.core.training_runs import CPU, SMALL, run, weights

# Nothing is drawn at random in a step, so that one process and two must agree up to rounding.
EXACT = replace(
    SMALL,
    model=replace(SMALL.model, dropout=0.0),
    batch_size=9,
    max_steps=12,
    num_evaluations=3,
    positions_per_read=None,
    has_random_relabeling=False,
    watcher_share=0.0,
    report_every_s=1e-9,
)
NOISY = replace(EXACT, positions_per_read=4, has_random_relabeling=True, watcher_share=0.1, max_steps=40)
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def reads() -> tuple[Reads, Reads]:
    """Return train and val reads of different hands; epochs end with a batch of a single read."""
    encoder = HandEncoder()
    train_reads, val_reads = encoder.encode_hands(random_hands(1, 12))[0], encoder.encode_hands(random_hands(2, 8))[0]
    return train_reads.take(np.arange(73)), val_reads


def test_shares_are_a_partition_and_a_small_batch_is_everybodys() -> None:
    """Prevents reads that nobody or several train on, and a process without any."""
    batch = np.arange(10, 21)
    shares = [Peers(rank=rank, size=3).share(batch) for rank in range(3)]
    assert sorted(np.concatenate(shares)) == batch.tolist()
    assert max(len(part) for part in shares) - min(len(part) for part in shares) <= 1
    assert Peers(rank=2, size=3).share(batch[:2]).tolist() == [10, 11]
    assert Peers().share(batch).tolist() == batch.tolist()


def test_a_place_outside_is_refused() -> None:
    """Prevents a share that is empty for ever."""
    with pytest.raises(ValueError, match=r"rank in 0\.\.1"):
        Peers(rank=2, size=2)


def test_alone_nothing_is_sent() -> None:
    """Prevents a training in one process from needing a process group."""
    assert Peers.connected() == Peers()
    tensor = torch.ones(3)
    Peers().add_up([tensor])
    assert tensor.tolist() == [1.0, 1.0, 1.0]
    assert Peers().agree(0.5, CPU) == 0.5
    Peers().wait()


def test_gradients_of_shares_add_up_to_that_of_the_batch(reads: tuple[Reads, Reads], monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents a mean of means: shares hold different numbers of positions."""
    whole = Learner(EXACT, reads[0], CPU)
    alone = whole.step(0, 1e-3)
    parts = [Learner(EXACT, reads[0], CPU, Peers(rank=rank, size=2)) for rank in range(2)]
    sent: list[list[torch.Tensor]] = []
    monkeypatch.setattr(Peers, "add_up", lambda _, tensors: sent.append([tensor.clone() for tensor in tensors]))
    for part in parts:
        part.step(0, 0.0)
    totals = [sum(pair) for pair in zip(*sent, strict=True)]
    sum_nats, count, *gradients = totals
    assert float(sum_nats) == pytest.approx(alone.sum_nats, rel=1e-5)
    assert float(count) == alone.num_positions
    assert float(sent[0][1]) != float(sent[1][1])
    for gradient, parameter in zip(gradients, whole.model.parameters(), strict=True):
        assert parameter.grad is not None
        assert torch.allclose(torch.as_tensor(gradient) / count, parameter.grad, atol=1e-6)


TRAIN = """
import sys
from pathlib import Path
import torch
from range_reader_core.peers import Peers
from range_reader_core.reads import load_reads
from range_reader_core.train_events import Progress
from tests.core import test_peers
from tests.core.training_runs import run

torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
folder, name, stop_at = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
peers = Peers.connected()
assert peers.size == 2

def listen(event):
    assert peers.is_writer
    if isinstance(event, Progress) and event.step == stop_at:
        raise SystemExit(3)

reads = load_reads(folder / "train.npz"), load_reads(folder / "val.npz")
result = run(reads, folder / name, getattr(test_peers, name), peers=peers, on_event=listen)
(folder / f"{name}-{peers.rank}.txt").write_text(f"{result.num_steps} {result.num_reads_seen} {result.best.val_loss_nats!r}")
torch.distributed.destroy_process_group()
"""


def _two(reads: tuple[Reads, Reads], folder: Path, name: str, *, stop_at: int = 0) -> int:
    """Train with two processes that torchrun starts; returns its exit code."""
    save_reads(folder / "train.npz", reads[0])
    save_reads(folder / "val.npz", reads[1])
    script = folder / "train.py"
    script.write_text(TRAIN)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    root = Path(__file__).parent.parent.parent
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)}
    done = subprocess.run(
        [*torchrun, str(script), str(folder), name, str(stop_at)], env=environment, capture_output=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr.decode()
    return done.returncode


@pytest.mark.slow
def test_two_processes_train_to_what_one_does(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """Prevents several GPUs from learning something else than one: same steps, same reads, same losses, one writer."""
    alone = run(reads, tmp_path / "alone", EXACT)
    assert _two(reads, tmp_path, "EXACT") == 0
    told = [(tmp_path / f"EXACT-{rank}.txt").read_text().split() for rank in range(2)]
    assert told[0] == told[1]
    assert told[0][:2] == [str(alone.num_steps), str(alone.num_reads_seen)]
    ours, theirs = weights(tmp_path / "alone"), weights(tmp_path / "EXACT")
    for name, tensor in ours.items():
        assert torch.allclose(tensor, theirs[name], atol=2e-4), name
    assert float(told[0][2]) == pytest.approx(alone.best.val_loss_nats, abs=1e-4)


@pytest.mark.slow
def test_with_all_that_is_random_two_processes_end_within_noise(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """Prevents shares that all draw the same positions, or that are weighed by chance."""
    seeds = [run(reads, tmp_path / f"alone{seed}", replace(NOISY, seed=seed)).best.val_loss_nats for seed in range(4)]
    assert _two(reads, tmp_path, "NOISY") == 0
    together = float((tmp_path / "NOISY-0.txt").read_text().split()[2])
    assert abs(together - np.mean(seeds)) < 4 * np.std(seeds, ddof=1) + 0.01


@pytest.mark.slow
def test_two_processes_go_on_where_they_were_stopped(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """Prevents a stop from splitting the processes, or from losing what was done."""
    alone = run(reads, tmp_path / "alone", EXACT)
    assert _two(reads, tmp_path, "EXACT", stop_at=6) == 1
    assert not (tmp_path / "EXACT-0.txt").exists()
    assert _two(reads, tmp_path, "EXACT") == 0
    told = (tmp_path / "EXACT-1.txt").read_text().split()
    assert told[:2] == [str(alone.num_steps), str(alone.num_reads_seen)]
    assert float(told[2]) == pytest.approx(alone.best.val_loss_nats, abs=1e-4)
