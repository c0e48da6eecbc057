"""Which side a hand is on, and where a read lies in the shuffle: stable hashes, with no state and no order.

Both depend on the hand id alone (and, for the shuffle, the seed and the two seats), never on which files were read first or
by how many workers, so a new file adds rows without moving the others. Every read of a hand falls on one side.
"""

import hashlib
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

Split = Literal["train", "val", "test"]

VAL_SHARE: Final = 0.05
TEST_SHARE: Final = 0.05
_SPLIT_SALT: Final = b"split"
_KEY_SALT: Final = b"shuffle"


def split_of(hand_id: str) -> Split:
    """Return the side that all reads of a hand are on."""
    place = _hash64(hand_id, salt=_SPLIT_SALT) / 2**64
    if place < VAL_SHARE:
        return "val"
    return "test" if place < VAL_SHARE + TEST_SHARE else "train"


def read_keys(
    seed: int,
    hand_ids: Sequence[str],
    hand_index: npt.NDArray[np.int64],
    villain: npt.NDArray[np.uint8],
    perspective: npt.NDArray[np.uint8],
) -> npt.NDArray[np.uint64]:
    """Return a uniform key per read, a function of (seed, hand id, villain, perspective) and nothing else.

    Args:
        seed: of the shuffle, 0..2**64-1.
        hand_ids: distinct ids.
        hand_index: (N,) into ``hand_ids``.
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
    key = seed.to_bytes(8, "little")
    of_hand = np.array([_hash64(hand_id, salt=_KEY_SALT, key=key) for hand_id in hand_ids], dtype=np.uint64)
    seats = villain.astype(np.uint64) << np.uint64(8) | perspective.astype(np.uint64)
    return _splitmix64(_splitmix64(seats) ^ of_hand[hand_index])


def _hash64(text: str, *, salt: bytes, key: bytes = b"") -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, salt=salt, key=key).digest(), "little")


def _splitmix64(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the splitmix64 generator's output for each state: a bijection that mixes every bit (wraps around by design)."""
    mixed = state + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: npt.NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
    return result
