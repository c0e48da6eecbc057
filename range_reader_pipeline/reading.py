"""The kept checkpoint of a home as a reader. Which one is kept is decided by val mrr when a run ends, never by a file's age."""

from pathlib import Path
from typing import TYPE_CHECKING

from range_reader_core.inference import RangeReader
from range_reader_pipeline.paths import home_paths
from range_reader_pipeline.run_store import FINISHED_NAME, WEIGHTS_NAME, RunStore
from range_reader_pipeline.storage import read_json

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def static_prior(folder_or_file: Path) -> "npt.NDArray[np.float64] | None":
    """Return the static range (1326,) of a checkpoint's training villains, None where no finished run is recorded beside it."""
    import numpy as np

    from range_reader_core.baselines import StaticRangeReader
    from range_reader_core.checkpoint import checkpoint_file

    record = read_json(checkpoint_file(folder_or_file).parent / FINISHED_NAME)
    if not isinstance(record, dict) or "static_class_counts" not in record:
        return None
    prior: npt.NDArray[np.float64] = np.exp(StaticRangeReader(class_counts=np.array(record["static_class_counts"])).combo_logp())
    return prior


def latest_reader(home: str | None = None, device: str = "auto") -> RangeReader:
    """Return a reader of the best run that a home keeps, after checking that its weights are those that were measured.

    Args:
        home: as ``home_paths``.
        device: "auto", "cpu" or "cuda".

    Raises:
        FileNotFoundError: nothing is kept yet.
        ValueError: the weights are not those that were recorded or of another vocabulary, or the device cannot be used.
    """
    paths = home_paths(home=home)
    run = RunStore(paths).kept()
    if run is None:
        msg = f"{paths.checkpoint} does not exist yet; materialize checkpoint first, or run `range-reader run`"
        raise FileNotFoundError(msg)
    return RangeReader.load(paths.runs / run.run_id / WEIGHTS_NAME, device=device)
