"""Which side a hand is on, and where a read lies in the shuffle: stable hashes, with no state and no order.

Both come from one 128-bit hash of the hand id: its first word decides the side, its second, with the seed and the two seats, the
place in the shuffle. So a million ids are hashed once, and a side is no range of keys. Nothing depends on which files were read
first or by how many workers: a new file adds rows without moving the others. Every read of a hand falls on one side.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

SPLITS: Final = ("train", "val", "test")
VAL_SHARE: Final = 0.05
TEST_SHARE: Final = 0.05
HASH_BYTES: Final = 16


def hand_hashes(hand_ids: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Return the hashes of hand ids as pairs of words, shape (H, 2). Equal hashes are equal ids, for all that will ever be seen."""
    blake2b = hashlib.blake2b
    joined = b"".join([blake2b(hand_id.encode(), digest_size=HASH_BYTES).digest() for hand_id in hand_ids])
    return np.frombuffer(joined, dtype="<u8").reshape(-1, 2)


def places_of(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Return where hands lie in 0..1 (H,), uniform, for (H, 2) hashes of ids: val comes first, then test, then the rest."""
    places: npt.NDArray[np.float64] = hashes[:, 0] / 2.0**64
    return places


def splits_of(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """Return the side that all reads of a hand are on, as an index into ``SPLITS``, for (H, 2) hashes of ids."""
    place = places_of(hashes)
    side = np.full(len(hashes), SPLITS.index("train"), dtype=np.uint8)
    side[place < VAL_SHARE + TEST_SHARE] = SPLITS.index("test")
    side[place < VAL_SHARE] = SPLITS.index("val")
    return side


def split_of(hand_id: str) -> str:
    """Return the side that all reads of one hand are on."""
    return SPLITS[splits_of(hand_hashes([hand_id]))[0]]


def read_keys(
    seed: int,
    hashes: npt.NDArray[np.uint64],
    hand_index: npt.NDArray[np.int64],
    villain: npt.NDArray[np.uint8],
    perspective: npt.NDArray[np.uint8],
) -> npt.NDArray[np.uint64]:
    """Return a uniform key per read, a function of (seed, hand id, villain, perspective) and nothing else.

    Args:
        seed: of the shuffle, 0..2**64-1.
        hashes: (H, 2) of the hand ids.
        hand_index: (N,) into ``hashes``.
        villain: (N,) seats.
        perspective: (N,) seats.

    Raises:
        ValueError: the seed is out of range, or the columns differ in length.
    """
    if not 0 <= seed < 2**64:
        msg = f"expected a seed in 0..2**64-1, got {seed}"
        raise ValueError(msg)
    if not len(hand_index) == len(villain) == len(perspective):
        msg = f"read_keys: columns differ in length: {len(hand_index)}, {len(villain)}, {len(perspective)}"
        raise ValueError(msg)
    of_hand = _splitmix64(hashes[:, 1] ^ _splitmix64(np.array([seed], dtype=np.uint64)))
    seats = villain.astype(np.uint64) << np.uint64(8) | perspective.astype(np.uint64)
    return _splitmix64(_splitmix64(seats) ^ of_hand[hand_index])


def _splitmix64(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the splitmix64 generator's output for each state: a bijection that mixes every bit (wraps around by design)."""
    mixed = state + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: npt.NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
    return result
