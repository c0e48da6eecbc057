"""Training runs on disk: ``runs/<identity>/`` and the pointer ``checkpoint`` to the run that is kept.

A run's identity is the hash of everything that decides its outcome: configuration, data version, training code
version. The same identity again means the same run, so it is resumed while unfinished and reused once finished. A run
counts as finished when ``finished.json`` lies in its folder, which is written last and holds the hash of the weights;
the hash is checked whenever the run is read, so nobody evaluates a file other than the one that was measured.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from range_reader_pipeline.results_log import RunStatus

WEIGHTS_NAME: Final = "best.safetensors"
FINISHED_NAME: Final = "finished.json"
LOCK_WAIT_S: Final = 60.0  # a terminated training may still be saving; measured saves take a few seconds


class TrainingIsRunningError(RuntimeError):
    """Another process holds the training lock of this home."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """What is remembered of a finished training run."""

    run_id: str  # folder name under runs/
    identity: str  # hash of configuration, data version and training code version
    data_version: str  # of the shards trained on
    preset: str
    weights_sha256: str  # of best.safetensors
    best_step: int
    num_steps: int
    seconds: float  # wall clock spent training, over all resumptions
    val_mrr: float
    val_loss_nats: float
    val_mean_rank: float
    static_loss_nats: float  # of the training villains' static range on the same val positions
    static_mrr: float


@dataclass(frozen=True, slots=True)
class RunStore:
    """The runs of one RANGE_READER_HOME."""

    home: Path

    @property
    def runs_folder(self) -> Path:
        """Where the runs lie."""
        return self.home / "runs"

    @property
    def kept_pointer(self) -> Path:
        """The symbolic link to the kept run."""
        return self.home / "checkpoint"

    @contextmanager
    def locked(self, owner: str) -> Iterator[None]:
        """Hold the training lock of this home; ``owner`` says to others who holds it.

        Raises:
            TrainingIsRunningError: another process still holds it after ``LOCK_WAIT_S``.
        """
        self.runs_folder.mkdir(parents=True, exist_ok=True)
        holder = self.runs_folder / ".training.owner"
        lock = FileLock(self.runs_folder / ".training.lock")
        try:
            lock.acquire(timeout=LOCK_WAIT_S)
        except Timeout as error:
            who = holder.read_text(encoding="utf-8") if holder.exists() else "an unknown process"
            msg = f"a training already runs in {self.home} ({who}); wait for it or stop it, then materialize again"
            raise TrainingIsRunningError(msg) from error
        try:
            holder.write_text(owner, encoding="utf-8")
            yield
        finally:
            lock.release()

    def run_folder(self, identity: str, *, is_retrain: bool) -> Path:
        """Return the folder in which to train ``identity``: the newest attempt, or with ``is_retrain`` one after a finished one.

        Attempts after the first are called ``<identity>.2``, ``<identity>.3`` and so on.
        """
        attempt = 1
        while self._attempt_folder(identity, attempt + 1).exists():
            attempt += 1
        newest = self._attempt_folder(identity, attempt)
        if is_retrain and (newest / FINISHED_NAME).exists():
            return self._attempt_folder(identity, attempt + 1)
        return newest

    def finish(self, run: FinishedRun) -> None:
        """Record that a run is finished; from here on it is reused and may be kept."""
        folder = self.runs_folder / run.run_id
        aside = folder / (FINISHED_NAME + ".tmp")
        aside.write_text(json.dumps(asdict(run), indent=1) + "\n", encoding="utf-8")
        aside.replace(folder / FINISHED_NAME)

    def finished(self, folder: Path) -> FinishedRun | None:
        """Return the record of a finished run, None where the run is not finished.

        Raises:
            ValueError: the weights are not those that were recorded.
        """
        record = folder / FINISHED_NAME
        if not record.exists():
            return None
        run = FinishedRun(**json.loads(record.read_text(encoding="utf-8")))
        seen = file_sha256(folder / WEIGHTS_NAME)
        if seen != run.weights_sha256:
            msg = (
                f"{folder / WEIGHTS_NAME} has hash {seen[:16]}, but the run recorded {run.weights_sha256[:16]}; "
                "the file was replaced or damaged: delete the folder and materialize checkpoint again"
            )
            raise ValueError(msg)
        return run

    def kept(self) -> FinishedRun | None:
        """Return the kept run, None before the first one.

        Raises:
            ValueError: the weights are not those that were recorded.
        """
        if not self.kept_pointer.exists():
            return None
        return self.finished(self.kept_pointer.resolve())

    def keep(self, run: FinishedRun) -> None:
        """Point ``checkpoint`` at a finished run, in one step."""
        aside = self.kept_pointer.with_name(self.kept_pointer.name + ".tmp")
        aside.unlink(missing_ok=True)
        aside.symlink_to(Path(self.runs_folder.name) / run.run_id)
        aside.replace(self.kept_pointer)

    def _attempt_folder(self, identity: str, attempt: int) -> Path:
        return self.runs_folder / (identity if attempt == 1 else f"{identity}.{attempt}")


def training_identity(config: Mapping[str, object], *, data_version: str, code_version: str) -> str:
    """Return the 16 hex digits that name a run with this configuration, data and training code."""
    text = json.dumps({"config": config, "data": data_version, "code": code_version}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def judge(candidate: FinishedRun, kept: FinishedRun | None) -> RunStatus:
    """Decide whether a finished run replaces the kept one.

    On the same data the higher val mrr wins, a tie included. Scores on different data do not compare, and a reader of
    the newest hands is what is wanted, so a run on another data version is always kept.
    """
    if kept is None or kept.data_version != candidate.data_version:
        return RunStatus.KEEP
    return RunStatus.KEEP if candidate.val_mrr >= kept.val_mrr else RunStatus.DISCARD


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file's bytes as hex digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
