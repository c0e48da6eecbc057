"""The examination that a finished run has to pass before ``checkpoint`` may point at it, held in a fresh process.

A fresh process, because what it shows is that the file on disk is the reader: it loads without the code that trained it, its
weights are finite, and it scores on the val reads what the run recorded. The kept checkpoint is graded beside it on the same reads,
so that the two are compared on equal terms even where the data have grown. The findings lie in the run's folder; what follows
from them is decided by ``flaws`` and ``run_store.judge``.

``python -m range_reader_pipeline.examination HOME RUN OTHER DEVICE`` examines by hand ("-" for no other run).
"""

import hashlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from range_reader_pipeline.paths import HomePaths, home_paths
from range_reader_pipeline.run_store import WEIGHTS_NAME, FinishedRun, RunStore
from range_reader_pipeline.storage import read_json, write_json, written_aside

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from range_reader_core.reads import Reads

EXAMINATION_NAME: Final = "examination.json"
VAL_READS_NAME: Final = "val_reads.npy"  # a hash of every val read that was there, to tell later what has changed
TOLERANCE: Final = 1e-3  # of mrr and of nats; another number of threads adds up in another order
KEPT: Final = "kept before"
_NO_RUN: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What was found."""

    run_id: str
    weights_sha256: str
    data_version: str  # whose val reads were graded
    compared_with: str  # run that was kept at the time, "" where there was none or it was this one
    load_problem: str  # why the checkpoint does not load, "" if it does
    non_finite: tuple[str, ...]  # names of tensors that hold a number that is none
    val_mrr: float | None  # of the file as it is on disk; None where it could not be graded
    val_loss_nats: float | None
    mrr_lead: float | None  # over the other run, on the same reads
    mrr_lead_low: float | None  # 95% interval, by bootstrap over hands; None where there are too few
    mrr_lead_high: float | None
    loss_lead: float | None  # nats below the other run's loss
    loss_lead_high: float | None
    num_val_reads: int  # in the whole split
    num_val_gone: int | None  # of the other run's val reads, those that are there no more; None where they are not known
    num_val_new: int | None  # val reads that the other run did not have

    @property
    def is_worse(self) -> bool:
        """Whether it reads worse than the other run by more than chance: in mrr, or in loss where mrr is no better."""
        is_lower = self.mrr_lead_high is not None and self.mrr_lead_high < 0.0
        has_more_loss = self.loss_lead_high is not None and self.loss_lead_high < 0.0
        return is_lower or (has_more_loss and self.mrr_lead is not None and self.mrr_lead <= 0.0)


def flaws(run: FinishedRun, found: Examination) -> tuple[str, ...]:
    """Return what makes a run unfit to be kept, whatever there is to compare it with."""
    listed = []
    if found.load_problem:
        listed.append(f"its checkpoint does not load in a fresh process: {found.load_problem}")
    if found.non_finite:
        listed.append(f"weights are not finite in {', '.join(found.non_finite[:3])}")
    if found.val_mrr is not None and found.val_loss_nats is not None and not reproduces(run, found):
        listed.append(
            f"a fresh process measures val mrr {found.val_mrr:.4f} and {found.val_loss_nats:.3f} nats, the run recorded "
            f"{run.val_mrr:.4f} and {run.val_loss_nats:.3f}"
        )
    return tuple(listed)


def reproduces(run: FinishedRun, found: Examination) -> bool:
    """Tell whether the file scores what the run recorded."""
    if found.val_mrr is None or found.val_loss_nats is None:
        return False
    return abs(found.val_mrr - run.val_mrr) <= TOLERANCE and abs(found.val_loss_nats - run.val_loss_nats) <= TOLERANCE


def examined(
    paths: HomePaths, run: FinishedRun, other: FinishedRun | None, *, device: str, log: Callable[[str], None]
) -> Examination:
    """Return the findings on a run beside the one that is kept now: those on record, else new ones.

    Args:
        paths: the home.
        run: the finished run.
        other: what is kept now; None where there is nothing.
        device: "auto", "cpu" or "cuda".
        log: told that an examination begins.

    Raises:
        RuntimeError: the examining process ended without a result.
    """
    rival = None if other is None or other.run_id == run.run_id else other
    on_record = _on_record(paths, run)
    if on_record is not None and (rival is None or on_record.compared_with == rival.run_id):
        return on_record
    log("examining the checkpoint in a fresh process" + (f", beside the kept run {rival.run_id}" if rival else ""))
    in_fresh_process(paths, run, rival, device)
    found = _on_record(paths, run)
    if found is None:
        msg = f"the examination of run {run.run_id} left no result; materialize checkpoint again"
        raise RuntimeError(msg)
    return found


def in_fresh_process(paths: HomePaths, run: FinishedRun, other: FinishedRun | None, device: str) -> None:
    """Examine in a new interpreter.

    Raises:
        RuntimeError: it failed; the last lines that it wrote are in the message.
    """
    command = [sys.executable, "-m", __name__, str(paths.root), run.run_id, other.run_id if other else _NO_RUN, device]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own module and names
    if done.returncode:
        msg = f"the examination of run {run.run_id} failed: {done.stderr.strip()[-2000:]}"
        raise RuntimeError(msg)


def examine(paths: HomePaths, run: FinishedRun, other: FinishedRun | None, device: str) -> None:
    """Examine a run in this process and write down what is found."""
    import numpy as np

    from range_reader_pipeline.shards import load_split

    folder = paths.runs / run.run_id
    val_reads = load_split(paths.data_versions / run.data_version, "val")
    hashes = read_hashes(val_reads)
    before = _val_hashes(paths.runs / other.run_id) if other else None
    scores = _Scores()
    try:
        scores = _grade(paths, run, other, val_reads.take(np.arange(run.val_reads)), device)
        load_problem = ""
    except (ValueError, FileNotFoundError) as error:
        load_problem = str(error)
    found = Examination(
        run_id=run.run_id,
        weights_sha256=run.weights_sha256,
        data_version=run.data_version,
        compared_with=other.run_id if other else "",
        load_problem=load_problem,
        non_finite=scores.non_finite,
        val_mrr=scores.mrr,
        val_loss_nats=scores.loss_nats,
        mrr_lead=scores.lead,
        mrr_lead_low=scores.lead_low,
        mrr_lead_high=scores.lead_high,
        loss_lead=scores.loss_lead,
        loss_lead_high=scores.loss_lead_high,
        num_val_reads=val_reads.num_reads,
        num_val_gone=None if before is None else int((~np.isin(before, hashes)).sum()),
        num_val_new=None if before is None else int((~np.isin(hashes, before)).sum()),
    )
    with written_aside(folder / VAL_READS_NAME) as aside, aside.open("wb") as stream:
        np.save(stream, hashes, allow_pickle=False)
    write_json(folder / EXAMINATION_NAME, asdict(found))


def read_hashes(reads: "Reads") -> "npt.NDArray[np.uint64]":
    """Return a hash of each read's hand, seats, inputs and target, sorted."""
    import numpy as np

    hashes = np.empty(reads.num_reads, dtype=np.uint64)
    for index in range(reads.num_reads):
        tokens, values = reads.read(index)
        name = reads.hand_ids[reads.hand_index[index]].encode()
        seats = (reads.villain_seat[index], reads.perspective_seat[index], reads.villain_combo[index])
        digest = hashlib.blake2b(name + repr([int(number) for number in seats]).encode(), digest_size=8)
        digest.update(tokens.tobytes())
        digest.update(values.tobytes())
        hashes[index] = int.from_bytes(digest.digest(), "little")
    return np.sort(hashes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scores:
    non_finite: tuple[str, ...] = ()
    mrr: float | None = None
    loss_nats: float | None = None
    lead: float | None = None
    lead_low: float | None = None
    lead_high: float | None = None
    loss_lead: float | None = None
    loss_lead_high: float | None = None


def _grade(paths: HomePaths, run: FinishedRun, other: FinishedRun | None, reads: "Reads", device: str) -> _Scores:
    from range_reader_core.checkpoint import load_checkpoint
    from range_reader_core.inference import ModelReader, choose_device
    from range_reader_pipeline import grading

    target = choose_device(device)
    weights = paths.runs / run.run_id / WEIGHTS_NAME
    model, _ = load_checkpoint(weights, target)
    non_finite = tuple(name for name, tensor in model.state_dict().items() if not bool(tensor.isfinite().all()))
    if non_finite:
        return _Scores(non_finite=non_finite)
    readers = grading.readers(weights.parent, run.static_class_counts, num_relabelings=1, device=device)
    if other is not None:
        kept, _ = load_checkpoint(paths.runs / other.run_id / WEIGHTS_NAME, target)
        readers.append(ModelReader(model=kept, num_relabelings=1, name=KEPT))
    table = grading.grade_strata(readers, reads, device=device, log=lambda _: None)
    scores = table.row(readers[0].name).scores
    measured = _Scores(mrr=scores["mrr"].mean, loss_nats=scores["loss_nats"].mean)
    if other is None:
        return measured
    lead = table.lead(KEPT)
    return replace(
        measured,
        lead=lead.mrr.mean,
        lead_low=lead.mrr.interval.low if lead.mrr.interval else None,
        lead_high=lead.mrr.interval.high if lead.mrr.interval else None,
        loss_lead=lead.loss_nats.mean,
        loss_lead_high=lead.loss_nats.interval.high if lead.loss_nats.interval else None,
    )


def _on_record(paths: HomePaths, run: FinishedRun) -> Examination | None:
    record = read_json(paths.runs / run.run_id / EXAMINATION_NAME)
    if not isinstance(record, dict) or record.get("weights_sha256") != run.weights_sha256:
        return None
    return Examination(**{**record, "non_finite": tuple(record["non_finite"])})


def _val_hashes(folder: Path) -> "npt.NDArray[np.uint64] | None":
    import numpy as np

    path = folder / VAL_READS_NAME
    return np.load(path, allow_pickle=False) if path.exists() else None


def main(arguments: list[str]) -> None:
    """Examine what the command line names."""
    root, run_id, other_id, device = arguments
    paths = home_paths(home=root)
    store = RunStore(paths)
    run = store.finished(paths.runs / run_id)
    other = None if other_id == _NO_RUN else store.finished(paths.runs / other_id)
    if run is None:
        sys.exit(f"{paths.runs / run_id} is no finished run")
    examine(paths, run, other, device)


if __name__ == "__main__":
    main(sys.argv[1:])
