"""Training runs on disk: ``runs/<identity>/`` and the pointer ``checkpoint`` to the run that is kept.

A run's identity is the hash of everything that decides its outcome: configuration, data version, training code
version. The same identity again means the same run, so it is resumed while unfinished and reused once finished. A run
counts as finished when ``finished.json`` lies in its folder, which is written last and holds the hash of the weights;
the hash is checked whenever the run is read, so nobody evaluates a file other than the one that was measured.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.provenance import file_sha256
from range_reader_pipeline.results_log import RunStatus
from range_reader_pipeline.storage import link_target, point_link, read_json, write_json

WEIGHTS_NAME: Final = "best.safetensors"
FINISHED_NAME: Final = "finished.json"
KEPT_ASIDE: Final = 3  # runs on shards that are gone
LAST_NAME: Final = "last"
TRAINED_NAME: Final = "trained.json"
WAIT_REPORT_S: Final = 30.0


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
    val_reads: int  # the first so many val reads were scored, one forward each: equal for all runs on the same data
    val_mrr: float
    val_loss_nats: float
    val_mean_rank: float
    nats_below_static_range: float  # the static range's loss on the same positions minus ours
    mrr_above_static_range: float
    temperature: float = 1.0  # of the beliefs; fitted where that helps on val hands that it was not fitted on
    static_class_counts: tuple[float, ...]  # (169,) training villains by starting hand: the static range to compare with
    init_run: str = ""  # the run whose weights this one began with; empty: from scratch
    init_weights: str = ""  # their hash

    @property
    def weights_version(self) -> str:
        """The short form of the weights' hash, which Dagster shows as the data version."""
        return self.weights_sha256[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedOn:
    """What the newest finished run learnt from: whether to train again is decided by how much there is now."""

    run_id: str
    data_version: str
    num_train_reads: int


@dataclass(frozen=True, slots=True)
class RunStore:
    """The runs of one RANGE_READER_HOME."""

    paths: HomePaths

    @contextmanager
    def locked(self, owner: str, on_wait: Callable[[str], None]) -> Iterator[None]:
        """Hold the training lock of this home, waiting for as long as another process holds it.

        The operating system drops the lock when its holder dies, so nothing has to be cleaned up after a kill.

        Args:
            owner: tells others who holds it.
            on_wait: called with who is waited for, at once and then every ``WAIT_REPORT_S``.
        """
        self.paths.runs.mkdir(parents=True, exist_ok=True)
        holder = self.paths.runs / ".training.owner"
        lock = FileLock(self.paths.runs / ".training.lock")
        for timeout_s in chain((0.0,), repeat(WAIT_REPORT_S)):
            try:
                lock.acquire(timeout=timeout_s)
                break
            except Timeout:
                on_wait(holder.read_text(encoding="utf-8") if holder.exists() else "an unknown process")
        try:
            holder.write_text(owner, encoding="utf-8")
            yield
        finally:
            holder.unlink(missing_ok=True)
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
        write_json(self.paths.runs / run.run_id / FINISHED_NAME, asdict(run))

    def finished(self, folder: Path) -> FinishedRun | None:
        """Return the record of a finished run, None where the run is not finished.

        Raises:
            ValueError: the weights are missing or not those that were recorded.
        """
        record = read_json(folder / FINISHED_NAME)
        if record is None:
            return None
        if not (folder / WEIGHTS_NAME).is_file():
            msg = (
                f"{folder / WEIGHTS_NAME} is missing although the run has finished: put it back, or delete the folder and "
                "materialize checkpoint again"
            )
            raise ValueError(msg)
        try:
            run = FinishedRun(**{**record, "static_class_counts": tuple(record["static_class_counts"])})
        except (KeyError, TypeError) as error:
            msg = (
                f"{folder / FINISHED_NAME} is damaged or of another version ({error}): delete the folder and materialize "
                "checkpoint again"
            )
            raise ValueError(msg) from error
        seen = file_sha256(folder / WEIGHTS_NAME)
        if seen != run.weights_sha256:
            msg = (
                f"{folder / WEIGHTS_NAME} has hash {seen[:16]}, but the run recorded {run.weights_sha256[:16]}; "
                "the file was replaced or damaged: delete the folder and materialize checkpoint again"
            )
            raise ValueError(msg)
        return run

    def damage(self, folder: Path) -> str:
        """Return in words that the record of a finished run cannot be read, so that the run counts as unfinished; else nothing."""
        path = folder / FINISHED_NAME
        if not path.exists() or read_json(path) is not None:
            return ""
        return f"{path} is damaged, so that nobody knows what run {folder.name} scored: it counts as unfinished"

    def kept(self) -> FinishedRun | None:
        """Return the kept run, None before the first one.

        Raises:
            ValueError: the weights are not those that were recorded.
        """
        folder = link_target(self.paths.checkpoint)
        return None if folder is None else self.finished(folder)

    def kept_data_version(self) -> str | None:
        """Return the data version that the kept run was trained on, without reading its weights; None before the first run."""
        folder = link_target(self.paths.checkpoint)
        record = None if folder is None else read_json(folder / FINISHED_NAME)
        return str(record["data_version"]) if isinstance(record, dict) and "data_version" in record else None

    def last_trained(self) -> TrainedOn | None:
        """Return what the newest finished run was trained on, kept or not; None before the first."""
        record = read_json(self.paths.runs / TRAINED_NAME)
        return TrainedOn(**record) if isinstance(record, dict) else None

    def prune(self) -> list[str]:
        """Remove runs that nothing can use again, and return their names: unkept ones on shards that are no longer there.

        The newest ``KEPT_ASIDE`` of them stay, for whoever wants to look. What a finished run would have gone on from, three times
        its weights, goes too. Only the holder of the training lock may call it.
        """
        kept = link_target(self.paths.checkpoint)
        useless: list[tuple[float, Path]] = []
        for folder in self.paths.runs.iterdir():
            record = read_json(folder / FINISHED_NAME) if folder.is_dir() else None
            if isinstance(record, dict):
                shutil.rmtree(folder / LAST_NAME, ignore_errors=True)
            if not isinstance(record, dict) or (kept is not None and folder.name == kept.name):
                continue
            if not (self.paths.data_versions / str(record["data_version"])).exists():
                useless.append(((folder / FINISHED_NAME).stat().st_mtime, folder))
        removed = [folder for _, folder in sorted(useless, reverse=True)[KEPT_ASIDE:]]
        for folder in removed:
            shutil.rmtree(folder, ignore_errors=True)
        return [folder.name for folder in removed]

    def remember_trained(self, trained: TrainedOn) -> None:
        """Record what the newest finished run was trained on."""
        write_json(self.paths.runs / TRAINED_NAME, asdict(trained))

    def keep(self, run: FinishedRun) -> None:
        """Point ``checkpoint`` at a finished run, in one step."""
        point_link(self.paths.checkpoint, self.paths.runs / run.run_id)

    def _attempt_folder(self, identity: str, attempt: int) -> Path:
        return self.paths.runs / (identity if attempt == 1 else f"{identity}.{attempt}")


def training_identity(config: Mapping[str, object], *, data_version: str, code_version: str, init_weights: str = "") -> str:
    """Return the 16 hex digits that name a run with this configuration, data, training code and hash of first weights."""
    parts = {"config": config, "data": data_version, "code": code_version, **({"init": init_weights} if init_weights else {})}
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def judge(candidate: FinishedRun, kept: FinishedRun | None, *, is_flawed: bool = False, is_worse: bool = False) -> RunStatus:
    """Decide whether a finished run replaces the kept one.

    On the same data the higher val mrr wins, a tie included. Recorded scores on different data do not compare, and a reader of
    the newest hands is what is wanted, so a run on another data version is kept unless it reads those hands worse.

    Args:
        candidate: the finished run.
        kept: the run that is kept now.
        is_flawed: whether the examination found it unfit to be kept at all.
        is_worse: whether it reads the same val hands worse than the kept one, by more than chance.
    """
    if is_flawed:
        return RunStatus.DISCARD
    if kept is None:
        return RunStatus.KEEP
    if kept.data_version != candidate.data_version:
        return RunStatus.DISCARD if is_worse else RunStatus.KEEP
    return RunStatus.KEEP if candidate.val_mrr >= kept.val_mrr else RunStatus.DISCARD
