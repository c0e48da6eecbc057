"""Sides and shuffle keys: stable, uniform, and independent of order."""

import numpy as np
import pytest

from range_reader_core.encoder import HandEncoder
from range_reader_core.partition import SPLITS, hand_hashes, read_keys, split_of, splits_of
from tests.core.hands import random_hands

IDS = [f"tests/hands#{number}" for number in range(20_000)]
HASHES = hand_hashes(IDS)


def test_sides_are_pinned() -> None:
    """A hand that changed sides between versions would train a model on what grades it."""
    assert [number for number in range(200) if split_of(f"tests#{number}") == "val"] == [76, 122, 148]
    assert [number for number in range(200) if split_of(f"tests#{number}") == "test"] == [11, 40, 68, 79, 81, 115, 124, 142, 180]


def test_five_percent_are_val_and_five_percent_test() -> None:
    """A share that drifts starves a report. Five standard deviations at 20,000 hands are under 0.011."""
    sides = splits_of(HASHES)
    assert [SPLITS[side] for side in sides[:200]] == [split_of(hand_id) for hand_id in IDS[:200]]
    for side, share in (("train", 0.9), ("val", 0.05), ("test", 0.05)):
        assert abs(np.mean(sides == SPLITS.index(side)) - share) < 0.011


def test_keys_are_pinned() -> None:
    """Shards of the same hands and seed are the same bytes on every machine and version."""
    seats = np.array([0, 1, 15], dtype=np.uint8)
    keys = read_keys(7, hand_hashes(["tests#1", "tests#2"]), np.array([0, 0, 1]), seats, seats[::-1].copy())
    assert keys.tolist() == [9436773568547660696, 8613200092799138718, 14732260568974037951]
    assert keys.dtype == np.uint64


def test_a_key_depends_on_its_own_read_alone() -> None:
    """Other files, another order, another number of workers: the same key."""
    reads, _ = HandEncoder().encode_hands(random_hands(1, 100))
    keys = read_keys(3, hand_hashes(reads.hand_ids), reads.hand_index, reads.villain_seat, reads.perspective_seat)
    assert len(np.unique(keys)) == reads.num_reads > 500
    order = np.random.default_rng(0).permutation(reads.num_reads)
    other = reads.take(order)
    other_ids = other.hand_ids[::-1]
    other_index = len(other_ids) - 1 - other.hand_index
    assert np.array_equal(
        read_keys(3, hand_hashes(other_ids), other_index, other.villain_seat, other.perspective_seat), keys[order]
    )


def test_another_seed_is_another_shuffle() -> None:
    """A seed nobody reads is a lie."""
    index, seats = np.arange(len(IDS)), np.zeros(len(IDS), dtype=np.uint8)
    first, second = (np.argsort(read_keys(seed, HASHES, index, seats, seats)) for seed in (0, 1))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.035  # five standard deviations


@pytest.mark.parametrize("shift", [0, 29, 59], ids=["low bits", "middle bits", "high bits"])
def test_keys_are_uniform_over_hands_and_seats(shift: int) -> None:
    """A shard is chosen by the key's bits; a lopsided bit makes lopsided shards."""
    villain, perspective = np.divmod(np.arange(len(IDS) * 6) % 6, 3)
    keys = read_keys(5, HASHES, np.repeat(np.arange(len(IDS)), 6), villain.astype(np.uint8), perspective.astype(np.uint8))
    counts = np.bincount((keys >> np.uint64(shift)).astype(np.int64) & 31, minlength=32)
    expected = len(keys) / 32
    assert np.sum((counts - expected) ** 2 / expected) < 61.1  # 0.1% point of chi-square with 31 degrees of freedom


def test_keys_do_not_depend_on_the_side() -> None:
    """Were the two hashes one, a side would be a range of keys, and its shards lopsided."""
    seats = np.zeros(len(IDS), dtype=np.uint8)
    places = read_keys(0, HASHES, np.arange(len(IDS)), seats, seats) / 2**64
    is_val = splits_of(HASHES) == SPLITS.index("val")
    assert abs(places[is_val].mean() - 0.5) < 5 * 0.289 / np.sqrt(is_val.sum())


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range_is_refused(seed: int) -> None:
    """Better a message than an OverflowError from the hash."""
    with pytest.raises(ValueError, match="seed"):
        read_keys(seed, hand_hashes([]), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint8), np.zeros(0, dtype=np.uint8))


def test_columns_of_different_length_are_refused() -> None:
    """A column of length one would broadcast."""
    with pytest.raises(ValueError, match="differ in length"):
        read_keys(0, hand_hashes(["a"]), np.zeros(2, dtype=np.int64), np.zeros(1, dtype=np.uint8), np.zeros(2, dtype=np.uint8))
