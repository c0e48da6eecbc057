"""Input made to exhaust memory, time or the stack: bounded work, a reject, and the hand after it is still read."""

import io
import tracemalloc
from collections.abc import Callable
from typing import Final

import pytest

from range_reader_core.hand import CanonicalHand
from range_reader_core.ohh import parse_ohh
from range_reader_core.ohh_rejects import Reject
from tests.core.ohh_text import hand, line

GOOD: Final = b"\n\n" + line()
MANY: Final = 8_000
MAX_BYTES: Final = 64 * 1024  # of a record, in the tests of large files

HOSTILE: Final[list[tuple[str, bytes]]] = [
    ("open braces", b"{" * MANY),
    ("an open brace a line", b"{\n" * MANY),
    ("nested objects and arrays", b'{"a":[' * MANY),
    ("nested objects and arrays by line", b'{"a":[\n' * MANY),
    ("wrappers in wrappers", b'{"ohh":[' * MANY),
    ("wrappers that hide the next in a string", b'{"ohh""' * MANY),
    ("wrappers that look like strings to each other", b'{"ohh"\\"' * 32_000),
    ("quotes", b'{"' + b'"' * MANY),
    ("backslashes", b'{"a":"' + b"\\" * MANY),
    ("closing braces", b"}" * MANY),
    ("brackets", b"[" * MANY),
    ("NULs", bytes(MANY)),
    ("arrays too deep for any decoder", b'{"ohh":' + b"[" * MANY + b"]" * MANY + b"}"),
    ("objects too deep for any decoder", b'{"a":' * MANY + b"1" + b"}" * MANY),
    ("a number of many digits", b'{"ohh":{"game_number":' + b"9" * MANY + b"}}"),
    ("an exponent out of range", line().replace(b'"starting_stack":200.0', b'"starting_stack":1e999')),
    ("sums that overflow", line(hand(stacks={0: 1e308, 1: 1e308, 2: 1e308}))),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("data", [case[1] for case in HOSTILE], ids=[case[0] for case in HOSTILE])
def test_hostile_text_costs_only_itself(data: bytes) -> None:
    """One poisoned record must not take the file, the process or an afternoon."""
    *rejects, last = parse_ohh(io.BytesIO(data + GOOD), "file.ohh")
    assert isinstance(last, CanonicalHand)
    assert all(isinstance(found, Reject) for found in rejects)
    assert len(rejects) <= len(data)


class Endless(io.RawIOBase):
    """A stream that repeats a piece and then ends with a good record, without ever holding it all."""

    def __init__(self, begin: bytes, piece: bytes, num_pieces: int, end: bytes) -> None:
        """Repeat ``piece`` between a beginning and an end."""
        super().__init__()
        self.parts = iter([begin, *[piece] * num_pieces, end])
        self.rest = b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # RawIOBase types a WriteableBuffer
        """Fill the buffer."""
        if not self.rest:
            self.rest = next(self.parts, b"")
        taken = self.rest[: len(buffer)]
        self.rest = self.rest[len(taken) :]
        buffer[: len(taken)] = taken
        return len(taken)


LARGE: Final[list[tuple[str, Callable[[], Endless], str]]] = [
    ("a single line in one string", lambda: Endless(b'{"ohh":{"a":"', b"x" * 65536, 64, GOOD), "REC_TOO_LARGE"),
    ("a single line of braces", lambda: Endless(b'{"ohh":', (b'{"a":"' + b"x" * 990 + b'","b":') * 66, 64, GOOD), "REC_TOO_LARGE"),
    ("stray bytes without a line end", lambda: Endless(b"", b"x" * 65536, 64, GOOD), "REC_JSON"),
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("make", "code"), [case[1:] for case in LARGE], ids=[case[0] for case in LARGE])
def test_a_line_larger_than_memory_is_skipped_in_bounded_memory(
    make: Callable[[], Endless], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten gigabytes without a line end are one reject, whatever the machine has."""
    monkeypatch.setattr("range_reader_core.ohh_records.MAX_RECORD_BYTES", MAX_BYTES)
    monkeypatch.setattr("range_reader_core.ohh_records.CHUNK_BYTES", MAX_BYTES // 4)
    monkeypatch.setattr("range_reader_core.ohh_records.BLOCK_BYTES", MAX_BYTES)
    stream = io.BufferedReader(make())
    tracemalloc.start()
    results = list(parse_ohh(stream, "file.ohh"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(results[-1], CanonicalHand)
    assert {found.reason.value for found in results if isinstance(found, Reject)} == {code}
    assert len(results) == 2
    assert peak < 10 * MAX_BYTES


def test_whole_records_behind_many_torn_ones_on_a_line_are_found() -> None:
    """Looking again at torn text is limited, but not below what a crash can leave."""
    torn = line()[:500]
    results = list(parse_ohh(io.BytesIO(torn * 50 + GOOD.strip() + b"\n" + line()), "file.ohh"))
    assert [type(found) for found in results] == [*[Reject] * 50, CanonicalHand, CanonicalHand]


def test_an_array_larger_than_a_record_is_read_object_by_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service's export may be one line of all its hands."""
    monkeypatch.setattr("range_reader_core.ohh_records.MAX_RECORD_BYTES", MAX_BYTES)
    monkeypatch.setattr("range_reader_core.ohh_records.CHUNK_BYTES", MAX_BYTES // 4)
    record = line()
    count = 3 * MAX_BYTES // len(record)
    results = list(parse_ohh(io.BytesIO(b"[" + b",".join([record] * count) + b"]"), "file.ohh"))
    assert sum(isinstance(found, CanonicalHand) for found in results) == len(results) == count


def test_forgotten_sources_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept per source must not grow with a file that names a new one in every record."""
    monkeypatch.setattr("range_reader_core.ohh.MAX_SOURCES", 10)
    data = b"\n".join(line(site_name=f"s{index}", game_number="1") for index in [*range(150), *range(150)])
    results = list(parse_ohh(io.BytesIO(data), "file.ohh"))
    assert all(isinstance(found, CanonicalHand) for found in results)
    assert len(results) == 300
