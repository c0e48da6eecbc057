"""Putting a finished run and the readers that ignore the betting before the same reads.

The static range is that of the villains the run was trained on, as the run recorded it, so a report needs no training data and
compares the model with what it could have known. Bootstrap draws are seeded: the same weights and reads give the same table.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import dagster as dg
from dagster._core.definitions.data_version import DATA_VERSION_TAG

from range_reader_pipeline.config import GradingConfig, max_reads
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.run_store import WEIGHTS_NAME, FinishedRun, RunStore

if TYPE_CHECKING:
    from range_reader_core.evaluation import Reader
    from range_reader_core.reads import Reads
    from range_reader_core.tables import SharpeningTable, StratifiedTable

MODEL: Final = "model"
UNIFORM: Final = "uniform over live combos"
STATIC: Final = "static range"
BOOTSTRAP_SEED: Final = 20_240_607
REPORT_EVERY_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a report is about."""

    run: FinishedRun
    reads: "Reads"
    readers: "list[Reader]"  # the model first
    made_from: dict[str, str]  # everything the report depends on
    note: str  # the same in a few words


def subject(paths: HomePaths, config: GradingConfig, *, num_relabelings: int) -> Subject:
    """Return the kept checkpoint, the readers to compare it with, and the reads to grade them on.

    Raises:
        ValueError: there is no kept checkpoint or no shards, or a setting that cannot be used.
    """
    from range_reader_pipeline.shards import load_split

    run = RunStore(paths).kept()
    if run is None:
        msg = f"{paths.checkpoint} does not exist yet; materialize checkpoint first (or run all five assets)"
        raise ValueError(msg)
    data_folder = paths.data.resolve()  # one version throughout
    reads = load_split(data_folder, config.split, max_reads(config))
    averaging = "single forward" if num_relabelings == 1 else f"suit-averaged over {num_relabelings} relabelings"
    return Subject(
        run=run,
        reads=reads,
        readers=readers(paths.runs / run.run_id, run.static_class_counts, num_relabelings=num_relabelings, device=config.device),
        made_from={
            "run": run.run_id,
            "weights": run.weights_sha256,
            "trained on data version": run.data_version,
            "graded on data version": data_folder.name,
            "split": f"{config.split}, {reads.num_reads} reads",
            "relabelings": str(num_relabelings),
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
    from range_reader_core.checkpoint import load_checkpoint
    from range_reader_core.inference import ModelReader, choose_device

    model, _ = load_checkpoint(run_folder / WEIGHTS_NAME, choose_device(device))
    return [
        ModelReader(model=model, num_relabelings=num_relabelings, name=MODEL),
        LiveUniformReader(),
        StaticRangeReader(class_counts=np.array(static_class_counts)),
    ]


def grade_strata(all_readers: "list[Reader]", reads: "Reads", *, device: str, log: Callable[[str], None]) -> "StratifiedTable":
    """Return scores over all supervised positions, by what became of the villain.

    Raises:
        ValueError: there are no supervised positions.
    """
    import numpy as np

    from range_reader_core.evaluation import evaluate
    from range_reader_core.inference import choose_device
    from range_reader_core.tables import stratified_table

    scores = evaluate(all_readers, reads, device=choose_device(device), on_progress=_Progress(log))
    return stratified_table(scores, generator=np.random.default_rng(BOOTSTRAP_SEED))


def grade_sharpening(all_readers: "list[Reader]", reads: "Reads", *, device: str, log: Callable[[str], None]) -> "SharpeningTable":
    """Return scores of showdown villains at the end of each street and of the hand.

    Raises:
        ValueError: no villain came to a showdown.
    """
    import numpy as np

    from range_reader_core.evaluation import evaluate_points
    from range_reader_core.inference import choose_device
    from range_reader_core.tables import sharpening_table

    scores = evaluate_points(all_readers, reads, device=choose_device(device), on_progress=_Progress(log))
    return sharpening_table(scores, generator=np.random.default_rng(BOOTSTRAP_SEED))


class _Progress:
    """Logs how far an evaluation is, every few seconds."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._begin_s = self._last_s = time.monotonic()

    def __call__(self, num_done: int, num_reads: int) -> None:
        now_s = time.monotonic()
        if now_s - self._last_s >= REPORT_EVERY_S:
            self._last_s = now_s
            self._log(f"{num_done:,} of {num_reads:,} reads graded, {num_done / (now_s - self._begin_s):,.0f} reads/s")
