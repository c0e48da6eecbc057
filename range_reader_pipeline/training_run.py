"""One training from shards to kept checkpoint: lock, identity, resume or reuse, verdict, one row in ``results.tsv``.

What decides is val mrr on the first ``VAL_READS`` val reads, one forward each, measured here on the saved weights in the same way
for every run, whatever its configuration validated on. A killed process loses at most what the loop had not saved; every step
after training can be repeated, so the next materialization picks up wherever this one ended.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import dagster as dg

from range_reader_core.wording import counted
from range_reader_pipeline.config import KEPT, SCRATCH, WARM_START_RATE, TrainingConfig, core_train_config, init_from, preset_name
from range_reader_pipeline.examination import Examination, examined, flaws
from range_reader_pipeline.grading import STATIC, grade_strata, readers
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.plots import CurvePoint
from range_reader_pipeline.provenance import file_sha256, git_commit
from range_reader_pipeline.results_log import ResultRow, RunStatus, append_result, read_results
from range_reader_pipeline.run_store import WEIGHTS_NAME, FinishedRun, RunStore, TrainedOn, judge, training_identity
from range_reader_pipeline.spare_cores import SpareCores
from range_reader_pipeline.storage import link_target, read_json
from range_reader_pipeline.training_events import Log, TrainingReporter, telling_where_it_stopped, validations

if TYPE_CHECKING:
    from range_reader_core.peers import Peers
    from range_reader_core.reads import Reads
    from range_reader_core.train_config import TrainConfig
    from range_reader_core.train_events import TrainEvent
    from range_reader_core.training import TrainResult

TRAINING_VERSION: Final = "2"  # raise it when the same configuration and data would train to something else
VAL_READS: Final = 4096
TEMPERATURE_READS: Final = 8192  # val reads whose hands fit the temperature and judge it, half each
TEMPERATURE_SEED: Final = 20_240_607
_NOT_DECIDING: Final = ("report_every_s", "save_every_s")  # fields that do not change what comes out


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOutcome:
    """What a materialization of the checkpoint has to show."""

    run: FinishedRun  # of the configuration and data asked for
    kept: FinishedRun | None  # what ``checkpoint`` points to now; None where the first run is unfit to be kept
    found: Examination  # of the run
    status: RunStatus
    is_reused: bool  # nothing was trained
    was_resumed: bool
    num_train_reads: int | None  # None where reused
    reads_per_s: float | None  # while training, None where reused
    curve: tuple[CurvePoint, ...]


def train_or_reuse(
    paths: HomePaths,
    config: TrainingConfig,
    *,
    owner: str,
    log: Log,
    observe: Callable[[Mapping[str, float]], None],
    on_session: "Callable[[Session | None], Peers | None]" = lambda _: None,
) -> TrainingOutcome:
    """Train what is configured on the published shards, or find it trained, and keep the better checkpoint.

    Args:
        paths: the home.
        config: what a person set.
        owner: tells whoever waits for the lock who holds it.
        log: where progress goes.
        observe: receives live numbers, a bounded number of times.
        on_session: told what is about to be trained, None where nothing is; returns with whom, alone by default.

    Raises:
        ValueError: there are no shards, nothing to validate on, or a setting that cannot be used.
        OSError: the home cannot be written.
    """
    from range_reader_core.inference import choose_device

    has_gpu = choose_device(config.device).type == "cuda"
    core_config = core_train_config(config, has_gpu=has_gpu)
    store = RunStore(paths)
    with store.locked(owner, lambda other: log.warning(f"waiting for another training to end ({other})")):
        data_version = published_version(paths)
        previous = store.kept()
        kept_folder = link_target(paths.checkpoint)
        if kept_folder is not None and (damage := store.damage(kept_folder)):
            log.warning(f"{damage}, and what is trained now is kept without having been compared with it")
        start = _starting_point(paths, config, core_config, previous, log)
        if start is not None and config.learning_rate is None:
            core_config = replace(core_config, learning_rate=WARM_START_RATE * core_config.learning_rate)
        deciding = {name: value for name, value in asdict(core_config).items() if name not in _NOT_DECIDING}

        def identity_from(init_weights: str) -> str:
            return training_identity(deciding, data_version=data_version, code_version=TRAINING_VERSION, init_weights=init_weights)

        identity = identity_from(start.weights_sha256 if start else "")
        if start is not None and not config.retrain and start.identity == identity_from(start.init_weights):
            identity = start.identity  # the kept run is the very warm start that is asked for
        folder = store.run_folder(identity, is_retrain=config.retrain)
        run = store.finished(folder)
        if damage := store.damage(folder):
            log.warning(f"{damage} and is trained again")
        session = None
        if run is not None:
            log.info(f"run {run.run_id} has already finished on these shards; nothing to train")
            on_session(None)
        else:
            preset = preset_name(config, has_gpu=has_gpu)
            session = Session(paths, folder, identity, data_version, preset, core_config, config.device, start)
            run = session.train(log, observe, on_session(session))
            store.finish(run)
        found = examined(paths, run, previous, device=config.device, log=log.info)
        unfit = flaws(run, found)
        status = judge(run, previous, is_flawed=bool(unfit), is_worse=_is_worse(run, found))
        if run.init_run and status is RunStatus.DISCARD and found.mrr_lead is not None and previous is not None:
            log.warning(
                f"having begun with kept weights, it now reads the val hands worse than the kept run (mrr {found.mrr_lead:+.4f}): "
                f"run {previous.run_id} stays"
            )
        kept = run if status is RunStatus.KEEP else previous
        if kept is not None:
            store.keep(kept)
        store.remember_trained(_trained_on(paths, run))
        _remember(paths.results, run, status, unfit)
        if removed := store.prune():
            log.info(f"removed {counted(len(removed), 'run')} on shards that are gone; the results stay in {paths.results.name}")
    return TrainingOutcome(
        run=run,
        kept=kept,
        found=found,
        status=status,
        is_reused=session is None,
        was_resumed=session is not None and session.was_resumed,
        num_train_reads=session.num_train_reads if session else None,
        reads_per_s=session.reads_per_s if session else None,
        curve=validations(folder),
    )


@dataclass(slots=True)
class Session:
    """The training of one run in this process."""

    paths: HomePaths
    folder: Path
    identity: str
    data_version: str
    preset: str
    config: "TrainConfig"
    device: str
    start: FinishedRun | None  # whose weights it begins with
    was_resumed: bool = False
    num_train_reads: int = 0
    reads_per_s: float = 0.0

    def train(self, log: Log, observe: Callable[[Mapping[str, float]], None], peers: "Peers | None") -> FinishedRun:
        """Train, temper and measure; alone or as the one that writes."""
        from range_reader_pipeline.shards import load_split

        cores = SpareCores()
        data_folder = self.paths.data_versions / self.data_version
        train_reads, val_reads = load_split(data_folder, "train"), load_split(data_folder, "val")
        self.num_train_reads = train_reads.num_reads
        for split, reads in (("train", train_reads), ("val", val_reads)):
            if not reads.num_reads:
                msg = (
                    f"the shards hold {counted(train_reads.num_reads, 'read')} to train on and {val_reads.num_reads} to choose the "
                    f"checkpoint by, so there is nothing in {split}: one hand in twenty goes to val, so add hands (a thousand "
                    "is a start) and run again"
                )
                raise ValueError(msg)
        if self.start is not None:
            log.info(f"begins with the weights of run {self.start.run_id}")
        log.info(f"run {self.folder.name}: preset {self.preset} on data version {self.data_version}")
        try:
            with telling_where_it_stopped(log, self.folder):
                reporter: Callable[[TrainEvent], None] = TrainingReporter(log, observe)
                if peers is None:
                    cores.look()
                    reporter = cores.looking_at_reports(reporter, is_by_clock=self.config.max_steps is None)
                result = self.train_weights(train_reads, val_reads, reporter, peers)
        except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError):
            raise
        except BaseException as error:
            append_result(self.paths.results, self._crashed(error))
            raise
        temperature = self._temper(val_reads, log)
        self.was_resumed = result.was_resumed
        self.reads_per_s = result.num_reads_seen / result.seconds
        run = self._measured(result.best.step, result.num_steps, result.seconds, train_reads, val_reads, log)
        return replace(run, temperature=temperature)

    def train_weights(
        self, train_reads: "Reads", val_reads: "Reads", on_event: "Callable[[TrainEvent], None]", peers: "Peers | None"
    ) -> "TrainResult":
        """Train to the end of the budget; every process that trains along calls this."""
        from range_reader_core.inference import choose_device
        from range_reader_core.training import train

        return train(
            self.config,
            train_reads,
            val_reads,
            self.folder,
            device=choose_device(self.device),
            identity=self.folder.name,
            on_event=on_event,
            data_manifest_hash=self.data_version,
            git_commit=git_commit(),
            init_from=self.paths.runs / self.start.run_id / WEIGHTS_NAME if self.start else None,
            peers=peers,
        )

    def _temper(self, val_reads: "Reads", log: Log) -> float:
        """Return the temperature that is now in the checkpoint: 1 unless another loses less on hands that did not choose it."""
        import numpy as np

        from range_reader_core.checkpoint import load_checkpoint, save_checkpoint
        from range_reader_core.evaluation import NothingToScoreError
        from range_reader_core.inference import ModelReader, choose_device
        from range_reader_core.temperature import fit_temperature

        device = choose_device(self.device)
        model, sidecar = load_checkpoint(self.folder / WEIGHTS_NAME, device)
        reads = val_reads.take(np.arange(min(TEMPERATURE_READS, val_reads.num_reads)))
        reader = ModelReader(model=model, num_relabelings=1)
        try:
            fit = fit_temperature(reader, reads, generator=np.random.default_rng(TEMPERATURE_SEED), device=device)
        except NothingToScoreError as error:
            log.info(f"no temperature fitted: {error}")
            return sidecar.temperature
        saved, interval = fit.saved_nats.mean, fit.saved_nats.interval
        spread = f" (95% {interval.low:+.4f} to {interval.high:+.4f})" if interval else ""
        log.info(
            f"temperature {fit.temperature:.3f} saves {saved:+.4f} nats{spread} on {fit.num_judged_hands:,} val hands that it was "
            f"not fitted on: {'used' if fit.is_helpful else 'not used'}"
        )
        tempered = replace(sidecar, temperature=fit.temperature if fit.is_helpful else 1.0)
        save_checkpoint(self.folder / WEIGHTS_NAME, model, tempered)
        return tempered.temperature

    def _measured(
        self, best_step: int, num_steps: int, seconds: float, train_reads: "Reads", val_reads: "Reads", log: Log
    ) -> FinishedRun:
        """Return the finished run with what its weights score on the val reads that all runs are compared on."""
        import numpy as np

        from range_reader_core.baselines import StaticRangeReader

        compared = val_reads.take(np.arange(min(VAL_READS, val_reads.num_reads)))
        counts = tuple(StaticRangeReader.fit(train_reads).class_counts.tolist())
        all_readers = readers(self.folder, counts, num_relabelings=1, device=self.device)
        table = grade_strata(all_readers, compared, device=self.device, log=log.info)
        scores, lead = table.row(all_readers[0].name).scores, table.lead(STATIC)
        return FinishedRun(
            run_id=self.folder.name,
            identity=self.identity,
            data_version=self.data_version,
            preset=self.preset,
            weights_sha256=file_sha256(self.folder / WEIGHTS_NAME),
            best_step=best_step,
            num_steps=num_steps,
            seconds=seconds,
            val_reads=compared.num_reads,
            val_mrr=scores["mrr"].mean,
            val_loss_nats=scores["loss_nats"].mean,
            val_mean_rank=scores["mean_rank"].mean,
            nats_below_static_range=lead.loss_nats.mean,
            mrr_above_static_range=lead.mrr.mean,
            static_class_counts=counts,
            init_run=self.start.run_id if self.start else "",
            init_weights=self.start.weights_sha256 if self.start else "",
        )

    def _crashed(self, error: BaseException) -> ResultRow:
        return ResultRow(
            time=_now(),
            run_id=self.folder.name,
            git_commit=git_commit(),
            data_version=self.data_version,
            preset=self.preset,
            minutes=0.0,
            split="val",
            mrr=None,
            loss_nats=None,
            mean_rank=None,
            nats_below_static_range=None,
            status=RunStatus.CRASH,
            note=f"{type(error).__name__}: {error}",
        )


def _starting_point(
    paths: HomePaths, config: TrainingConfig, core_config: "TrainConfig", kept: FinishedRun | None, log: Log
) -> FinishedRun | None:
    """Return the run whose weights to begin with, None to begin with random ones.

    Raises:
        ValueError: ``init_from`` asks for a checkpoint that is not there or does not fit.
    """
    from range_reader_core.warm_start import IncompatibleCheckpointError, check_fits

    asked = init_from(config)
    if asked == SCRATCH:
        return None
    if kept is None:
        if asked == KEPT:
            msg = "init_from is kept, but nothing is kept yet: train with init_from scratch first, or set it to kept_or_scratch"
            raise ValueError(msg)
        log.info("nothing is kept yet: begins with random weights")
        return None
    try:
        check_fits(paths.runs / kept.run_id / WEIGHTS_NAME, core_config.model)
    except IncompatibleCheckpointError as error:
        if asked == KEPT:
            msg = f"init_from: {error}; set it to scratch or kept_or_scratch, or train the preset of the kept run ({kept.preset})"
            raise ValueError(msg) from error
        log.warning(f"begins with random weights: {error}")
        return None
    return kept


def _is_worse(run: FinishedRun, found: Examination) -> bool:
    """Tell whether a run reads the same val hands worse than the kept one: by more than chance, or at all if it began with it."""
    return found.is_worse or (bool(run.init_run) and found.mrr_lead is not None and found.mrr_lead < 0.0)


def published_version(paths: HomePaths) -> str:
    """Return the version of the published shards.

    Raises:
        ValueError: there are none.
    """
    from range_reader_pipeline.publication import published  # brings pyarrow along

    manifest = published(paths)
    if manifest is None:
        msg = f"{paths.data} holds no shards; materialize encoded_shards first (or run all assets)"
        raise ValueError(msg)
    return str(manifest["version"])


def _trained_on(paths: HomePaths, run: FinishedRun) -> TrainedOn:
    manifest = read_json(paths.data_versions / run.data_version / "manifest.json")
    num_train_reads = int(manifest["counts"]["reads_by_split"]["train"]) if isinstance(manifest, dict) else 0
    return TrainedOn(run_id=run.run_id, data_version=run.data_version, num_train_reads=num_train_reads)


def _remember(results: Path, run: FinishedRun, status: RunStatus, unfit: tuple[str, ...]) -> None:
    """Append the run's row unless it is there: a kill may have come between the verdict and the row."""
    if any(row.run_id == run.run_id and row.status is not RunStatus.CRASH for row in read_results(results)):
        return
    append_result(
        results,
        ResultRow(
            time=_now(),
            run_id=run.run_id,
            git_commit=git_commit(),
            data_version=run.data_version,
            preset=run.preset,
            minutes=run.seconds / 60.0,
            split="val",
            mrr=run.val_mrr,
            loss_nats=run.val_loss_nats,
            mean_rank=run.val_mean_rank,
            nats_below_static_range=run.nats_below_static_range,
            status=status,
            note=f"best at step {run.best_step} of {run.num_steps}; one forward, first {run.val_reads} val reads"
            + "".join(f"; unfit to be kept: {flaw}" for flaw in unfit)
            + (f"; began with run {run.init_run}" if run.init_run else ""),
        ),
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
