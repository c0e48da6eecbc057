"""Hands that occur more than once, in one file or in several: which occurrence counts.

The first occurrence wins: the file with the smallest content, and within it the first in the file. A later one with the same
content is a repeat (a re-import, a seeded re-run); one with other content under the same id is a conflict, because ids are
not to be trusted. Both are dropped and counted, so every hand counts once whatever files it came in. Ids are compared by
128-bit hashes: about 50 bytes a hand in memory while the decision is taken.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from range_reader_pipeline.reads_cache import CorruptCacheError, ReadsCache


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """Which hands of which files are dropped. Files without any are not in the tables."""

    repeat_rows: dict[str, npt.NDArray[np.int64]]  # by content: rows of hands that are in the data already
    conflict_rows: dict[str, npt.NDArray[np.int64]]  # by content: rows of other hands under a taken id

    def dropped_rows(self, content: str) -> npt.NDArray[np.int64]:
        """Return the rows of a file's hands that are dropped, ascending."""
        none = np.zeros(0, dtype=np.int64)
        return np.sort(np.concatenate([self.repeat_rows.get(content, none), self.conflict_rows.get(content, none)]))

    @property
    def num_repeats(self) -> int:
        """Number of hands dropped as repeats."""
        return sum(len(rows) for rows in self.repeat_rows.values())

    @property
    def num_conflicts(self) -> int:
        """Number of hands dropped as conflicts."""
        return sum(len(rows) for rows in self.conflict_rows.values())


class EarlyIds:
    """Hashes of ids that were read when nobody waited for them: while workers encode other files."""

    def __init__(self) -> None:
        """Begin with none."""
        self._found: dict[str, npt.NDArray[np.uint64]] = {}

    def read(self, cache: ReadsCache, content: str) -> None:
        """Read those of an entry. An entry that cannot be read is left to whoever needs it."""
        with suppress(CorruptCacheError):
            self._found[content] = cache.id_hashes(content)

    def take(self, cache: ReadsCache, content: str) -> npt.NDArray[np.uint64]:
        """Return the (H, 2) hashes of an entry, once from here and from the cache otherwise.

        Raises:
            CorruptCacheError: the entry cannot be read.
        """
        found = self._found.pop(content, None)
        return cache.id_hashes(content) if found is None else found


def find_repeats(cache: ReadsCache, contents: Sequence[str], early: EarlyIds | None = None) -> Repeats:
    """Return the hands to drop from the entries of these files, whatever order they are named in.

    Args:
        cache: of the entries.
        contents: of the files.
        early: what was read of them before.

    Raises:
        CorruptCacheError: an entry cannot be read.
    """
    ordered = sorted(set(contents))
    early = early or EarlyIds()
    parts = [early.take(cache, content) for content in ordered]
    ids = np.concatenate([np.zeros((0, 2), dtype=np.uint64), *parts])
    starts = np.cumsum([0, *(len(part) for part in parts)])
    del parts

    words = np.sort(ids[:, 0])
    if not (words[1:] == words[:-1]).any():  # as a rule; the sort of one word costs a tenth of what follows
        return Repeats(repeat_rows={}, conflict_rows={})
    order = np.lexsort((ids[:, 1], ids[:, 0]))  # stable: hands of one id stay in the order of files and rows
    ids = ids[order]
    is_later = np.zeros(len(order), dtype=np.bool_)
    is_later[1:] = (ids[1:] == ids[:-1]).all(axis=1)
    first = np.maximum.accumulate(np.where(is_later, 0, np.arange(len(order))))
    later_rows, first_rows = order[is_later], order[first[is_later]]
    digests = _digests(cache, ordered, starts, np.union1d(later_rows, first_rows))
    is_same = np.array([digests[a] == digests[b] for a, b in zip(later_rows, first_rows, strict=True)], dtype=np.bool_)
    return Repeats(
        repeat_rows=_by_file(later_rows[is_same], starts, ordered),
        conflict_rows=_by_file(later_rows[~is_same], starts, ordered),
    )


def _digests(
    cache: ReadsCache, contents: Sequence[str], starts: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
) -> dict[int, int]:
    """Return the digests of some hands, by global row."""
    found: dict[int, int] = {}
    for content, local in _by_file(rows, starts, contents).items():
        digests = cache.hands_column(content, "digest").take(pa.array(local)).to_pylist()
        start = int(starts[contents.index(content)])
        found.update(zip((local + start).tolist(), digests, strict=True))
    return found


def _by_file(
    rows: npt.NDArray[np.int64], starts: npt.NDArray[np.int64], contents: Sequence[str]
) -> dict[str, npt.NDArray[np.int64]]:
    """Return global rows as ascending rows of their files."""
    rows = np.sort(rows)
    files = np.searchsorted(starts, rows, side="right") - 1
    return {contents[file]: rows[files == file] - starts[file] for file in np.unique(files)}
