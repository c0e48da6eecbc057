"""Single hands and refused records of a file, for looking at: nothing here writes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from range_reader_core.hand import CanonicalHand
from range_reader_core.ohh_rejects import Reject
from range_reader_core.wording import counted
from range_reader_pipeline.notations import parse_hands
from range_reader_pipeline.streams import HashingReader, PlainStream


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContents:
    """What one file of hand histories holds."""

    num_hands: int
    rejects: tuple[Reject, ...]
    problem: str | None  # why the file ended early


def parse_file(path: Path) -> Iterator[CanonicalHand | Reject]:
    """Yield every hand of a file, compressed or not, and a ``Reject`` for every record that is none.

    Raises:
        OSError: the file cannot be read.
        ValueError: its compressed stream is damaged; what came before was delivered.
    """
    stream = PlainStream(HashingReader(path), path.name)
    try:
        yield from parse_hands(stream, path.name)
        if stream.problem is not None:
            raise ValueError(stream.problem)
    finally:
        stream.close()


def find_hand(path: Path, index: int) -> CanonicalHand:
    """Return a hand of a file; refused records do not count.

    Args:
        path: the file.
        index: of the hand among those that can be read, from 0.

    Raises:
        OSError: the file cannot be read.
        ValueError: it holds no such hand, or breaks off before it.
    """
    num_hands = 0
    try:
        for parsed in parse_file(path):
            if isinstance(parsed, Reject):
                continue
            if num_hands == index:
                return parsed
            num_hands += 1
    except ValueError as error:
        msg = f"{path}: {error}; before that it holds {counted(num_hands, 'readable hand')}"
        raise ValueError(msg) from error
    expected = "index 0" if num_hands == 1 else f"an index in 0..{num_hands - 1}"
    msg = f"{path} holds {counted(num_hands, 'readable hand')}, so expected {expected}, got {index}"
    if not num_hands:
        msg = f"{path} holds no hand that can be read; `range-reader ingest {path}` says why"
    raise ValueError(msg)


def contents(path: Path) -> FileContents:
    """Return what a file holds.

    Raises:
        OSError: the file cannot be read.
    """
    num_hands = 0
    rejects: list[Reject] = []
    problem = None
    try:
        for parsed in parse_file(path):
            if isinstance(parsed, Reject):
                rejects.append(parsed)
            else:
                num_hands += 1
    except ValueError as error:
        problem = str(error)
    return FileContents(num_hands=num_hands, rejects=tuple(rejects), problem=problem)
