"""Putting a finished run and the readers it must beat before the same reads, in one pass for everything that is reported.

Baselines range from a blind guess over the static range of the run's training villains to what a hand-history tracker counts;
what is quoted is the lead over the best of them. Bootstrap draws are seeded: the same weights and reads give the same report.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import dagster as dg
from dagster._core.definitions.data_version import DATA_VERSION_TAG

from range_reader_core.wording import counted
from range_reader_pipeline.arena_ceiling import deal_on_record, oracles
from range_reader_pipeline.config import GradingConfig, max_reads
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.run_store import WEIGHTS_NAME, FinishedRun, RunStore
from range_reader_pipeline.spare_cores import SpareCores
from range_reader_pipeline.tracker_cache import TRACKERS_VERSION, trackers

if TYPE_CHECKING:
    from range_reader_core.calibration import ReliabilityCurve
    from range_reader_core.ceilings import CeilingShare
    from range_reader_core.evaluation import Reader
    from range_reader_core.inference import ModelReader
    from range_reader_core.reads import Reads
    from range_reader_core.strata import FailureRow, WorstRead
    from range_reader_core.tables import SharpeningTable, StratifiedTable

MODEL: Final = "model"
UNIFORM: Final = "uniform over live combos"
STATIC: Final = "static range"
WATCHER_READS: Final = 2000
BOOTSTRAP_SEED: Final = 20_240_607
REPORT_EVERY_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a report is about."""

    paths: HomePaths
    run: FinishedRun
    data_folder: Path  # of the version graded on
    reads: "Reads"
    num_relabelings: int
    device: str
    made_from: dict[str, str]  # everything the report depends on
    note: str  # the same in a few words

    def readers(self, log: Callable[[str], None]) -> "list[Reader]":
        """Return the model and the readers it must beat, the model first; counts what has not been counted for these shards.

        Raises:
            ValueError: the checkpoint is of another vocabulary or damaged, or the device cannot be used.
        """
        folder = self.paths.runs / self.run.run_id
        first = readers(folder, self.run.static_class_counts, num_relabelings=self.num_relabelings, device=self.device)
        return [*first, *trackers(self.data_folder, self.paths.trackers, log)]

    def oracles(self, log: Callable[[str], None]) -> "list[Reader]":
        """Return the best possible readers, where these are hands of the arena: styles known, then unknown; else none."""
        return list(oracles(self.paths, self.reads, log))


@dataclass(frozen=True, slots=True, kw_only=True)
class Grades:
    """Everything that one pass over the reads tells."""

    table: "StratifiedTable"
    calibration: "tuple[ReliabilityCurve, ...]"  # of the model
    failures: "tuple[FailureRow, ...]"
    worst: "tuple[WorstRead, ...]"
    watcher: "StratifiedTable"  # the model and the baselines without anybody's cards, on a sample
    cards_are_worth: "StratifiedTable"  # the model with the perspective's cards, and without, on the same sample
    shares: "tuple[CeilingShare, ...]"  # of each oracle


def subject(paths: HomePaths, config: GradingConfig, *, num_relabelings: int) -> Subject:
    """Return the kept checkpoint and the reads to grade it on.

    Raises:
        ValueError: there is no kept checkpoint or no shards, or a setting that cannot be used.
    """
    from range_reader_core.suit_averaging import check_num_relabelings
    from range_reader_pipeline.shards import load_split

    check_num_relabelings(num_relabelings)
    run = RunStore(paths).kept()
    if run is None:
        msg = f"{paths.checkpoint} does not exist yet; materialize checkpoint first (or run all assets)"
        raise ValueError(msg)
    data_folder = paths.data.resolve()  # one version throughout
    reads = load_split(data_folder, config.split, max_reads(config))
    averaging = "single forward" if num_relabelings == 1 else f"suit-averaged over {num_relabelings} relabelings"
    return Subject(
        paths=paths,
        run=run,
        data_folder=data_folder,
        reads=reads,
        num_relabelings=num_relabelings,
        device=config.device,
        made_from={
            "run": run.run_id,
            "weights": run.weights_sha256,
            "trained on data version": run.data_version,
            "graded on data version": data_folder.name,
            "split": f"{config.split}, {reads.num_reads} reads",
            "relabelings": str(num_relabelings),
            "baselines": f"trackers {TRACKERS_VERSION}",
            "arena": deal_on_record(paths),
        },
        note=f"{config.split} split, {averaging}",
    )


def warn_if_unrecorded(context: dg.AssetExecutionContext, run: FinishedRun) -> None:
    """Warn where the kept checkpoint is not the one whose materialization Dagster has recorded last."""
    event = context.instance.get_latest_materialization_event(dg.AssetKey("checkpoint"))
    materialization = event.asset_materialization if event else None
    recorded = (materialization.tags or {}).get(DATA_VERSION_TAG) if materialization else None
    if recorded != run.weights_version:
        context.log.warning(
            f"the kept checkpoint has data version {run.weights_version}, Dagster's last record of checkpoint says {recorded}: it "
            "was made in another home or by another Dagster instance; materialize checkpoint here to have it on record"
        )


def readers(run_folder: Path, static_class_counts: Sequence[float], *, num_relabelings: int, device: str) -> "list[Reader]":
    """Return the model and the readers it must beat, the model first.

    Args:
        run_folder: where the checkpoint lies.
        static_class_counts: (169,) training villains by starting hand.
        num_relabelings: 24 averages the model over suits, 1 is a single forward.
        device: "auto", "cpu" or "cuda".

    Raises:
        ValueError: the checkpoint is of another vocabulary or damaged, or the device cannot be used.
    """
    import numpy as np

    from range_reader_core.baselines import LiveUniformReader, StaticRangeReader

    return [
        model_reader(run_folder, num_relabelings=num_relabelings, device=device),
        LiveUniformReader(),
        StaticRangeReader(class_counts=np.array(static_class_counts)),
    ]


def model_reader(run_folder: Path, *, num_relabelings: int, device: str) -> "ModelReader":
    """Return the model at its temperature; arguments and errors as ``readers``."""
    from range_reader_core.checkpoint import load_checkpoint
    from range_reader_core.inference import ModelReader, choose_device

    model, sidecar = load_checkpoint(run_folder / WEIGHTS_NAME, choose_device(device))
    return ModelReader(model=model, num_relabelings=num_relabelings, temperature=sidecar.temperature, name=MODEL)


def grade_strata(all_readers: "list[Reader]", reads: "Reads", *, device: str, log: Callable[[str], None]) -> "StratifiedTable":
    """Return scores over all supervised positions, by what became of the villain.

    Raises:
        ValueError: there are no supervised positions.
    """
    import numpy as np

    from range_reader_core.evaluation import evaluate
    from range_reader_core.inference import choose_device
    from range_reader_core.tables import stratified_table

    scores = evaluate(all_readers, reads, device=choose_device(device), on_progress=Progress(log, reads))
    return stratified_table(scores, generator=np.random.default_rng(BOOTSTRAP_SEED))


def grade(
    subject: Subject, all_readers: "list[Reader]", *, log: Callable[[str], None], best_readers: "Sequence[Reader]" = ()
) -> Grades:
    """Return what the readers score, where the model fails and whether it means what it says, from one pass over the reads.

    Args:
        subject: whose reads are scored.
        all_readers: the model first.
        log: where progress goes.
        best_readers: what none of them can pass, if that is known.

    Raises:
        NothingToScoreError: there are no supervised positions.
    """
    import numpy as np

    from range_reader_core.calibration import ReliabilitySums
    from range_reader_core.ceilings import EnteredScores, share_of_reads
    from range_reader_core.evaluation import ScoredPositions, evaluate
    from range_reader_core.inference import choose_device
    from range_reader_core.strata import StreetScores, failure_table, read_groups, worst_reads
    from range_reader_core.tables import stratified_table

    reads, generator = subject.reads, np.random.default_rng(BOOTSTRAP_SEED)
    by_street = StreetScores([reader.name for reader in all_readers], reads)
    reliability = ReliabilitySums(all_readers[0].name, reads, generator=np.random.default_rng(BOOTSTRAP_SEED))
    entered = EnteredScores(len(all_readers) + len(best_readers), reads.num_reads) if best_readers else None

    def observe(scored: ScoredPositions) -> None:
        if entered is not None:
            entered.observe(scored)
        if scored.reader < len(all_readers):
            by_street.observe(scored)
            reliability.observe(scored)

    scores = evaluate(
        [*all_readers, *best_readers],
        reads,
        device=choose_device(subject.device),
        on_progress=Progress(log, reads),
        observers=[observe],
    )
    names = [reader.name for reader in best_readers]
    comparable = scores if entered is None else entered.of(scores)
    groups = read_groups(reads)
    watcher, cards_are_worth = _grade_watcher(subject, all_readers, log)
    return Grades(
        table=stratified_table(scores, generator=generator, ceilings=names),
        calibration=reliability.curves(generator=np.random.default_rng(BOOTSTRAP_SEED)),
        failures=failure_table(by_street, reads, groups, generator=np.random.default_rng(BOOTSTRAP_SEED)),
        worst=worst_reads(by_street, reads, groups),
        watcher=watcher,
        cards_are_worth=cards_are_worth,
        shares=tuple(
            share_of_reads(comparable, floor=UNIFORM, oracle=name, generator=np.random.default_rng(BOOTSTRAP_SEED))
            for name in names
        ),
    )


def _grade_watcher(
    subject: Subject, all_readers: "list[Reader]", log: Callable[[str], None]
) -> "tuple[StratifiedTable, StratifiedTable]":
    """Return the readers' scores where nobody's cards are seen, and the model's with and without the perspective's cards."""
    from dataclasses import replace

    import numpy as np

    from range_reader_core.evaluation import evaluate
    from range_reader_core.inference import choose_device
    from range_reader_core.reads import as_watcher
    from range_reader_core.tables import stratified_table

    seeing, blind = as_watcher(subject.reads, WATCHER_READS)
    log(f"grading {counted(blind.num_reads, 'read')} as a watcher sees them, who knows nobody's cards")
    device = choose_device(subject.device)
    (with_cards,) = evaluate(all_readers[:1], seeing, device=device, on_progress=Progress(log, seeing))
    without = evaluate(all_readers, blind, device=device, on_progress=Progress(log, blind))
    as_one = [replace(with_cards, reader="with cards"), replace(without[0], reader="without cards")]
    return (
        stratified_table(without, generator=np.random.default_rng(BOOTSTRAP_SEED)),
        stratified_table(as_one, generator=np.random.default_rng(BOOTSTRAP_SEED)),
    )


def grade_sharpening(
    all_readers: "list[Reader]",
    reads: "Reads",
    *,
    device: str,
    log: Callable[[str], None],
    best_readers: "Sequence[Reader]" = (),
) -> "tuple[SharpeningTable, tuple[CeilingShare, ...]]":
    """Return scores of showdown villains at the end of each street and of the hand, and the model's shares of the ceilings there.

    Raises:
        ValueError: no villain came to a showdown.
    """
    import numpy as np

    from range_reader_core.ceilings import share_at_point
    from range_reader_core.evaluation import evaluate_points
    from range_reader_core.inference import choose_device
    from range_reader_core.masks import POINTS
    from range_reader_core.tables import sharpening_table

    scores = evaluate_points([*all_readers, *best_readers], reads, device=choose_device(device), on_progress=Progress(log))
    names, last = [reader.name for reader in best_readers], len(POINTS) - 1
    shares = tuple(
        share_at_point(scores, last, floor=UNIFORM, oracle=name, generator=np.random.default_rng(BOOTSTRAP_SEED)) for name in names
    )
    return sharpening_table(scores, generator=np.random.default_rng(BOOTSTRAP_SEED), ceilings=names), shares


class Progress:
    """Logs how far an evaluation is, at what rate lately, and how long the rest will take, every few seconds.

    Looks as often at how many cores there are to spare.
    """

    def __init__(self, log: Callable[[str], None], reads: "Reads | None" = None) -> None:
        """Start the clock.

        Args:
            log: where lines go.
            reads: all that will be scored, shortest first; None where they are not known beforehand.
        """
        import numpy as np

        self._log = log
        # A long read costs more than a short one, and the short ones come first.
        self._work = None if reads is None else np.cumsum(np.sort(reads.lengths))
        self._last_s = time.monotonic()
        self._last_reads, self._last_work = 0, 0.0
        self._cores = SpareCores()

    def __call__(self, num_done: int, num_reads: int) -> None:
        """Take note that so many of the reads are done."""
        now_s = time.monotonic()
        seconds = now_s - self._last_s
        if seconds < REPORT_EVERY_S:
            return
        self._cores.look()
        work, all_work = float(num_done), float(num_reads)
        if self._work is not None:
            work, all_work = float(self._work[num_done - 1]), float(self._work[-1])
        left_s = seconds * (all_work - work) / (work - self._last_work)
        rate = (num_done - self._last_reads) / seconds
        self._log(f"{num_done:,} of {num_reads:,} reads graded, {rate:,.0f} reads/s, {left_s:,.0f} s left")
        self._last_s, self._last_reads, self._last_work = now_s, num_done, work
