"""Many reads as flat arrays: the form in which data sits in memory, on a device and in a file.

A read is one (villain, perspective) pair of one hand. Tokens of all reads are concatenated; ``offsets`` marks where
each begins, so there is no padding anywhere but in a batch. Only ``tokens`` and ``values`` may be fed to a model;
everything else is a label or describes the hand.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from range_reader_core import cards
from range_reader_core.tokens import COMBO_OFFSET, MAX_SEATS, VOCABULARY_HASH, BaseAction

_DTYPES: Final = {
    "tokens": np.uint16,
    "values": np.float32,
    "offsets": np.int64,
    "villain_combo": np.uint16,
    "villain_seat": np.uint8,
    "perspective_seat": np.uint8,
    "num_players": np.uint8,
    "hand_index": np.int64,
    "source_index": np.int64,
    "is_label_shown": np.bool_,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """``N`` reads over ``P`` positions in all; reads of one hand may be apart.

    Raises:
        ValueError: on construction, when shapes or dtypes are not as below.
    """

    tokens: npt.NDArray[np.uint16]  # (P,) vocabulary ids
    values: npt.NDArray[np.float32]  # (P,) big blinds this action adds; the stack at a sit
    offsets: npt.NDArray[np.int64]  # (N + 1,) read i is tokens[offsets[i]:offsets[i + 1]]
    villain_combo: npt.NDArray[np.uint16]  # (N,) the target
    villain_seat: npt.NDArray[np.uint8]  # (N,)
    perspective_seat: npt.NDArray[np.uint8]  # (N,)
    num_players: npt.NDArray[np.uint8]  # (N,)
    hand_index: npt.NDArray[np.int64]  # (N,) into hand_ids
    hand_ids: tuple[str, ...]
    source_index: npt.NDArray[np.int64]  # (N,) into sources
    sources: tuple[str, ...]
    is_label_shown: npt.NDArray[np.bool_]  # (N,) True: the villain's cards are known only because they were shown

    @property
    def num_reads(self) -> int:
        """Number of reads ``N``."""
        return len(self.villain_combo)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Positions of each read, shape (N,)."""
        return np.diff(self.offsets)

    def __post_init__(self) -> None:
        """Check shapes and dtypes."""
        for name, dtype in _DTYPES.items():
            column = getattr(self, name)
            if column.dtype != dtype or column.ndim != 1:
                msg = f"reads: expected {name} to be flat {np.dtype(dtype)}, got shape {column.shape} of {column.dtype}"
                raise ValueError(msg)
        n = len(self.villain_combo)
        per_read = (
            self.villain_seat,
            self.perspective_seat,
            self.num_players,
            self.hand_index,
            self.source_index,
            self.is_label_shown,
        )
        if any(len(column) != n for column in per_read) or len(self.offsets) != n + 1:
            msg = f"reads: per-read columns differ in length; expected {n} and {n + 1} offsets, got {len(self.offsets)}"
            raise ValueError(msg)
        if len(self.tokens) != len(self.values) or self.offsets[0] != 0 or self.offsets[-1] != len(self.tokens):
            msg = f"reads: offsets end at {self.offsets[-1]} but there are {len(self.tokens)} tokens and {len(self.values)} values"
            raise ValueError(msg)

    def read(self, index: int) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.float32]]:
        """Return the tokens and values of one read, each of shape (T,)."""
        span = slice(self.offsets[index], self.offsets[index + 1])
        return self.tokens[span], self.values[span]

    def take(self, indices: npt.NDArray[np.int64]) -> "Reads":
        """Return the reads at ``indices``, (M,) numbers of those here, in that order."""
        positions, offsets = ragged_positions(self.offsets, indices)
        return Reads(
            tokens=self.tokens[positions],
            values=self.values[positions],
            offsets=offsets,
            villain_combo=self.villain_combo[indices],
            villain_seat=self.villain_seat[indices],
            perspective_seat=self.perspective_seat[indices],
            num_players=self.num_players[indices],
            hand_index=self.hand_index[indices],
            hand_ids=self.hand_ids,
            source_index=self.source_index[indices],
            sources=self.sources,
            is_label_shown=self.is_label_shown[indices],
        )


def as_watcher(reads: Reads, limit: int) -> tuple[Reads, Reads]:
    """Return the first read of each hand and villain, at most ``limit``, as given and with the perspective's cards hidden.

    Without its cards every perspective of a villain sees the same, so one a villain is all there is.
    """
    _, first = np.unique(reads.hand_index * MAX_SEATS + reads.villain_seat, return_index=True)
    seeing = reads.take(np.sort(first)[:limit])
    hidden = int(BaseAction.HIDE_HOLE) * MAX_SEATS + seeing.perspective_seat.astype(np.uint16)  # (N,)
    per_token = np.repeat(hidden, seeing.lengths)
    return seeing, replace(seeing, tokens=np.where(seeing.tokens >= COMBO_OFFSET, per_token, seeing.tokens))


def ragged_positions(
    offsets: npt.NDArray[np.int64], indices: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where the chosen rows of a ragged array lie, and the offsets of the gathered result.

    Args:
        offsets: (N + 1,) row starts of the flat array.
        indices: (K,) rows to gather, in the order wanted.

    Returns:
        Flat positions of shape (sum of the chosen lengths,) and new offsets of shape (K + 1,).
    """
    lengths = (offsets[1:] - offsets[:-1])[indices]
    new_offsets = np.zeros(len(indices) + 1, dtype=np.int64)
    np.cumsum(lengths, out=new_offsets[1:])
    shift = offsets[:-1][indices] - new_offsets[:-1]
    return np.arange(new_offsets[-1], dtype=np.int64) + np.repeat(shift, lengths), new_offsets


def concatenate(parts: Sequence[Reads]) -> Reads:
    """Return all reads of the parts, in order. Hand ids and sources that parts share become one entry.

    Raises:
        ValueError: there is no part.
    """
    if not parts:
        msg = "concatenate: expected at least one part"
        raise ValueError(msg)
    hand_ids: dict[str, int] = {}
    sources: dict[str, int] = {}
    hand_index, source_index, lengths = [], [], []
    for part in parts:
        hand_map = np.array([hand_ids.setdefault(text, len(hand_ids)) for text in part.hand_ids], dtype=np.int64)
        source_map = np.array([sources.setdefault(text, len(sources)) for text in part.sources], dtype=np.int64)
        hand_index.append(hand_map[part.hand_index])
        source_index.append(source_map[part.source_index])
        lengths.append(part.lengths)
    return Reads(
        tokens=np.concatenate([part.tokens for part in parts]),
        values=np.concatenate([part.values for part in parts]),
        offsets=np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.concatenate(lengths))]),
        villain_combo=np.concatenate([part.villain_combo for part in parts]),
        villain_seat=np.concatenate([part.villain_seat for part in parts]),
        perspective_seat=np.concatenate([part.perspective_seat for part in parts]),
        num_players=np.concatenate([part.num_players for part in parts]),
        hand_index=np.concatenate(hand_index),
        hand_ids=tuple(hand_ids),
        source_index=np.concatenate(source_index),
        sources=tuple(sources),
        is_label_shown=np.concatenate([part.is_label_shown for part in parts]),
    )


def save_reads(path: Path, reads: Reads) -> None:
    """Write reads to an uncompressed ``.npz`` without pickled objects, aside and then renamed."""
    aside = path.with_name(path.name + ".tmp")
    with aside.open("wb") as stream:
        np.savez(
            stream,
            vocabulary_hash=np.array(VOCABULARY_HASH),
            tokens=reads.tokens,
            values=reads.values,
            offsets=reads.offsets,
            villain_combo=reads.villain_combo,
            villain_seat=reads.villain_seat,
            perspective_seat=reads.perspective_seat,
            num_players=reads.num_players,
            hand_index=reads.hand_index,
            hand_ids=np.array(reads.hand_ids, dtype=np.str_),
            source_index=reads.source_index,
            sources=np.array(reads.sources, dtype=np.str_),
            is_label_shown=reads.is_label_shown,
        )
    aside.replace(path)


def load_reads(path: Path) -> Reads:
    """Read what ``save_reads`` wrote.

    Raises:
        ValueError: the file was written with another vocabulary, or a target is no combo.
    """
    with np.load(path, allow_pickle=False) as stored:
        seen = str(stored["vocabulary_hash"])
        if seen != VOCABULARY_HASH:
            msg = f"{path}: reads use vocabulary {seen}, this code uses {VOCABULARY_HASH}; encode them again"
            raise ValueError(msg)
        reads = Reads(
            tokens=stored["tokens"],
            values=stored["values"],
            offsets=stored["offsets"],
            villain_combo=stored["villain_combo"],
            villain_seat=stored["villain_seat"],
            perspective_seat=stored["perspective_seat"],
            num_players=stored["num_players"],
            hand_index=stored["hand_index"],
            hand_ids=tuple(str(text) for text in stored["hand_ids"]),
            source_index=stored["source_index"],
            sources=tuple(str(text) for text in stored["sources"]),
            is_label_shown=stored["is_label_shown"],
        )
    if reads.num_reads and int(reads.villain_combo.max()) >= cards.NUM_COMBOS:
        msg = f"{path}: a target is outside 0..{cards.NUM_COMBOS - 1}"
        raise ValueError(msg)
    return reads
