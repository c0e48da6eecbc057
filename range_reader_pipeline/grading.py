"""Putting a finished run and the readers that ignore the betting before the same reads.

The static range is that of the villains the run was trained on, as the run recorded it, so a report needs no training data and
compares the model with what it could have known. Bootstrap draws are seeded: the same weights and reads give the same table.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

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


def kept_run(store: RunStore) -> FinishedRun:
    """Return the kept run.

    Raises:
        ValueError: there is none yet, or its weights are not those that were recorded.
    """
    run = store.kept()
    if run is None:
        msg = f"{store.paths.checkpoint} does not exist yet; materialize checkpoint first (or run all five assets)"
        raise ValueError(msg)
    return run


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
