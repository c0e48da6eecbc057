"""What the benchmark of trainings holds out."""

import numpy as np
import pytest

from benchmarks.arm_process import Task, hold_out
from range_reader_core.encoder import HandEncoder
from range_reader_core.partition import TEST_SHARE, VAL_SHARE, hand_hashes, places_of
from tests.core.hands import random_hands

READS = HandEncoder().encode_hands(random_hands(11, 600))[0]


def task(held_out: float) -> Task:
    return Task(
        kind="arm", root="r", data="a/abc", core=0, preset="cpu", minutes=1.0, scored_reads=5, held_out=held_out, held_out_reads=7
    )


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_a_hand_is_held_out_whole(share: float) -> None:
    """A read of a hand that is graded must not be trained on from another seat, nor a hand be lost."""
    kept, held_out = hold_out(READS, share)
    sides = [{part.hand_ids[index] for index in part.hand_index} for part in (kept, held_out)]
    assert not sides[0] & sides[1]
    assert kept.num_reads + held_out.num_reads == READS.num_reads
    everybody = places_of(hand_hashes(READS.hand_ids))
    expected = np.mean(everybody < VAL_SHARE + TEST_SHARE + share)
    assert abs(len(sides[1]) / (len(sides[0]) + len(sides[1])) - expected) < 0.05


def test_what_is_held_out_makes_another_training() -> None:
    """An arm that is on record must not stand for one that saw other hands."""
    assert task(0.0).data_version == "abc"
    assert task(0.0).folder() != task(0.3).folder() != task(0.2).folder()
    assert [scoring.name for scoring in task(0.0).scorings()] == ["val_5", "test_5"]
    assert [(scoring.split, scoring.max_reads) for scoring in task(0.3).scorings()][2:] == [("held-out", 7)]
