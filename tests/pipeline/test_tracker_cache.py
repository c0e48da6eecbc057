"""Claims about the counts behind the tracker baselines."""

from pathlib import Path

import numpy as np

from range_reader_core.evaluation import evaluate
from range_reader_pipeline.shards import load_split
from range_reader_pipeline.tracker_cache import trackers
from tests.pipeline.trained import Chain


def test_counts_are_made_once_and_answer_the_same_from_disk(trained: Chain, tmp_path: Path) -> None:
    """Prevents counting half a million reads for each report, and counts that change on the way through a file."""
    folder, messages = trained.paths.data.resolve(), list[str]()
    fitted = trackers(folder, tmp_path, messages.append)
    assert len(messages) == 1
    stored = trackers(folder, tmp_path, messages.append)
    assert len(messages) == 1
    reads = load_split(folder, "test")
    for before, after in zip(evaluate(fitted, reads), evaluate(stored, reads), strict=True):
        assert before.reader == after.reader
        assert np.array_equal(before.metric_sums, after.metric_sums)


def test_a_damaged_file_is_counted_again_and_other_versions_go(trained: Chain, tmp_path: Path) -> None:
    """Prevents a run that stops at a torn file, and a cache that grows with every new hand history."""
    folder, messages = trained.paths.data.resolve(), list[str]()
    (tmp_path / "older.1.npz").write_bytes(b"")
    trackers(folder, tmp_path, messages.append)
    (path,) = tmp_path.glob("*.npz")
    whole = path.read_bytes()
    for damaged in (b"", b"no zip", whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        trackers(folder, tmp_path, messages.append)
        assert path.read_bytes() != damaged
    assert len(messages) == 4
