"""The kept checkpoint of a home as a reader. Which one is kept is decided by val mrr when a run ends, never by a file's age."""

from range_reader_core.inference import RangeReader
from range_reader_pipeline.paths import home_paths
from range_reader_pipeline.run_store import WEIGHTS_NAME, RunStore


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
