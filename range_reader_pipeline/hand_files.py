"""Single hands and refused records of a file, for looking at: nothing here writes."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from range_reader_core.hand import CanonicalHand
from range_reader_core.ohh_rejects import Reject, RejectReason
from range_reader_core.wording import counted
from range_reader_pipeline.notations import parse_hands
from range_reader_pipeline.streams import HashingReader, PlainStream

MAX_REJECTS: Final = 20  # kept of a file, which may hold millions


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContents:
    """What one file of hand histories holds."""

    num_hands: int
    num_by_code: dict[RejectReason, int]  # refusals of records, and of the file
    first_rejects: tuple[Reject, ...]  # at most ``MAX_REJECTS``
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
    num_by_code: Counter[RejectReason] = Counter()
    rejects: list[Reject] = []
    problem = None
    try:
        for parsed in parse_file(path):
            if isinstance(parsed, Reject):
                num_by_code[parsed.reason] += 1
                if len(rejects) < MAX_REJECTS:
                    rejects.append(parsed)
            else:
                num_hands += 1
    except ValueError as error:
        problem = str(error)
    return FileContents(num_hands=num_hands, num_by_code=num_by_code, first_rejects=tuple(rejects), problem=problem)
