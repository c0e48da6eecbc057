"""Claims about the progress of a grading."""

import numpy as np
import pytest

from range_reader_core.encoder import HandEncoder
from range_reader_pipeline import grading
from tests.core.hands import random_hands


def test_progress_tells_the_present_rate_and_the_time_left_by_the_length_of_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents "half done" for minutes: short reads come first, so half of the reads is less than half of the work."""
    clock, lines = [0.0], list[str]()
    monkeypatch.setattr(grading.time, "monotonic", lambda: clock[0])
    reads = HandEncoder().encode_hands(random_hands(3, 40, 4))[0]
    work = np.cumsum(np.sort(reads.lengths))
    half = reads.num_reads // 2
    progress = grading.Progress(lines.append, reads)
    clock[0] = 5.0
    progress(1, reads.num_reads)
    assert not lines
    clock[0] = 20.0
    progress(half, reads.num_reads)
    left_s = 20.0 * (work[-1] - work[half - 1]) / work[half - 1]
    assert left_s > 20.5
    assert lines == [f"{half} of {reads.num_reads} reads graded, {half / 20:.0f} reads/s, {left_s:.0f} s left"]
    clock[0] = 120.0
    progress(half + 50, reads.num_reads)
    assert "0 reads/s" in lines[1]
    assert float(lines[1].split(", ")[-1].split()[0]) > 100.0


def test_without_the_reads_progress_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents an estimate from lengths of reads that are not scored."""
    clock, lines = [0.0], list[str]()
    monkeypatch.setattr(grading.time, "monotonic", lambda: clock[0])
    progress = grading.Progress(lines.append)
    clock[0] = 10.0
    progress(1000, 5000)
    assert lines == ["1,000 of 5,000 reads graded, 100 reads/s, 40 s left"]
