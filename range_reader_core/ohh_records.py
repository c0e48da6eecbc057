"""Bytes of a file -> the JSON objects in it, in bounded memory, whatever separates them.

Writers use blank lines, no blank lines, pretty printing, arrays, several objects a line; crashes leave torn objects and
NULs. ``iter_parts`` yields each object's bytes without decoding it, or a refusal for what is no object, and finds the
next good one. Where every line is an object of its own, or blank, lines are passed on by the megabyte at a glance; should one
not decode after all, ``rescan`` looks closer. Only braces and strings matter here; whether an object is a hand is not known.
"""

import io
import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from range_reader_core.ohh_rejects import MAX_EXCERPT, RejectReason

MAX_RECORD_BYTES: Final = 4 * 1024 * 1024  # a hand takes 2-20 KB
CHUNK_BYTES: Final = 1024 * 1024
HEAD_BYTES: Final = 4096
FIRST_BYTES: Final = 64 * 1024  # a file no longer than that needs no block of memory
PIECE_BYTES: Final = 256 * 1024  # looked at a time, so that it stays in the processor's cache
BLOCK_BYTES: Final = 4 * 1024 * 1024  # read at a time: enough hands to make work on whole arrays worthwhile


class BufferedBytes(Protocol):
    """What is asked of an input stream; ``io.BytesIO`` and ``io.BufferedReader`` are such."""

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes."""

    def readline(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, to the end of the line at most."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer from its beginning and return how many bytes that are; 0 at the end."""


class Record(NamedTuple):
    """One object, or what stands where one should be."""

    line: int  # 1-based line on which it begins
    data: bytes  # the object; of a refused one, its beginning
    reason: RejectReason | None = None  # None: the braces match


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a file, each of which is an object or blank. To be used before the next part is asked for: memory is reused."""

    first: int  # 1-based number of the first line
    text: memoryview
    num_lines: int  # blank ones included
    starts: npt.NDArray[np.int64]  # of the lines that are not blank
    ends: npt.NDArray[np.int64]  # of the same, without the ends of the lines
    has_escapes: bool  # whether there is a backslash anywhere

    @property
    def num_objects(self) -> int:
        """Number of lines that are not blank."""
        return len(self.starts)

    def records(self, begin: int, end: int) -> list[Record]:
        """Return some of the objects as records, ends of lines included."""
        starts, ends = self.starts[begin:end].tolist(), self.ends[begin:end].tolist()
        if not starts:
            return []
        codes = np.frombuffer(self.text, dtype=np.uint8)
        number = self.first + int(np.count_nonzero(codes[: starts[0]] == _NEWLINE))
        numbers = number + np.searchsorted(np.flatnonzero(codes[starts[0] : ends[-1]] == _NEWLINE) + starts[0], starts)
        return [
            Record(number, bytes(self.text[start : end + 1]))
            for number, start, end in zip(numbers.tolist(), starts, ends, strict=True)
        ]


def iter_records(stream: BufferedBytes) -> Iterator[Record]:
    """Yield the objects of a file in order. A file that is no UTF-8 text yields one file-level refusal and nothing else."""
    for part in iter_parts(stream):
        if isinstance(part, Lines):
            yield from part.records(0, part.num_objects)
        else:
            yield part


def iter_parts(stream: BufferedBytes) -> Iterator[Lines | Record]:
    """Yield the same objects, many at once where each has a line of its own."""
    head = stream.read(HEAD_BYTES)
    if _is_no_text(head):
        yield Record(0, head[:MAX_EXCERPT], RejectReason.FILE_ENCODING)
        return
    head = head.removeprefix(b"\xef\xbb\xbf")
    scanner = _Scanner()
    number = 1
    block = _Block()
    while text := block.read(stream, head):
        head = b""
        lines = _lines(text, number)
        if lines is None:
            number = yield from _read_lines(io.BytesIO(text).readline, number, scanner, until_idle=False)
            number = yield from _read_lines(stream.readline, number, scanner, until_idle=True)
        else:
            yield lines
            number += lines.num_lines
    yield from scanner.finish()


class _Block:
    """Memory for a piece of a file that ends with a line, used again and again: fresh pages cost as much as parsing them."""

    def __init__(self) -> None:
        self._memory = bytearray()
        self._limit = 0

    def read(self, stream: BufferedBytes, head: bytes) -> memoryview:
        """Return ``head`` and what follows of the stream, to the end of a line unless that is far; empty at the end."""
        if not self._memory:
            first = stream.read(FIRST_BYTES)
            head += first
            is_short = len(first) < FIRST_BYTES
            self._limit = len(head) if is_short else max(BLOCK_BYTES, len(head))
            self._memory = bytearray(self._limit + (FIRST_BYTES if is_short else CHUNK_BYTES))
        view = memoryview(self._memory)
        view[: len(head)] = head
        filled = len(head)
        while filled < self._limit and (count := stream.readinto(view[filled : self._limit])):
            filled += count
        if filled and self._memory[filled - 1] != _NEWLINE:
            line = stream.readline(CHUNK_BYTES)
            if len(line) > len(self._memory) - filled:  # the file seemed short, and has grown
                return memoryview(bytes(view[:filled]) + line)
            view[filled : filled + len(line)] = line
            filled += len(line)
        return view[:filled]


def _lines(text: memoryview, number: int) -> Lines | None:
    """Return a text whose every line is an object to all appearances, or blank; else None."""
    if bytes(text[:1]) not in _PLAIN_STARTS:
        return None
    codes = np.frombuffer(text, dtype=np.uint8)
    pieces = range(0, len(codes), PIECE_BYTES)
    ends = np.concatenate([np.flatnonzero(codes[first : first + PIECE_BYTES] == _NEWLINE) + first for first in pieces])
    num_lines = len(ends)
    if codes[-1] != _NEWLINE:
        ends = np.append(ends, len(codes))
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts
    is_blank = (lengths == 0) | ((lengths == 1) & (codes[starts] == _RETURN))
    starts, ends = starts[~is_blank], ends[~is_blank]
    if not len(starts):
        return Lines(number, text, num_lines, starts, ends, has_escapes=False)
    if int((ends - starts).min()) < _LEAST_OBJECT or int((ends - starts).max()) >= CHUNK_BYTES:
        return None
    last = ends - 1 - (codes[ends - 1] == _RETURN)
    is_object = (codes[starts] == _OPEN) & (codes[starts + 1] == _QUOTE) & (codes[last] == _CLOSE) & (codes[last - 1] == _CLOSE)
    if not is_object.all():
        return None
    return Lines(number, text, num_lines, starts, ends, has_escapes=_has_escapes(text))


def _has_escapes(text: memoryview) -> bool:
    memory = text.obj  # whose search is several times as fast as comparing arrays
    assert isinstance(memory, bytes | bytearray)
    return memory.find(b"\\", 0, len(text)) >= 0


def _read_lines(
    read_line: Callable[[int], bytes], number: int, scanner: "_Scanner", *, until_idle: bool
) -> Generator[Record, None, int]:
    """Yield the objects of lines, to the end or until none is pending, and return the number of the next line."""
    is_idle = scanner.is_idle
    while not (until_idle and is_idle) and (line := read_line(CHUNK_BYTES)):
        if is_idle and line.startswith(b'{"') and line.endswith((b"}}\n", b"}}\r\n", b"}}")):
            yield Record(number, line)
            number += 1
        elif is_idle and line == b"\n":
            number += 1
        else:
            lines = _printed_lines(line, read_line) if is_idle and line.rstrip() == b"{" else [line]
            if len(lines) > 1 and lines[-1].rstrip() == b"}":
                yield Record(number, b"".join(lines))
                number += len(lines)
                continue
            for piece in lines:
                yield from scanner.feed(piece, number)
                number += piece.endswith(b"\n")
            is_idle = scanner.is_idle
    return number


def _printed_lines(line: bytes, read_line: Callable[[int], bytes]) -> list[bytes]:
    """Return the lines of an object printed on many, from its first to the next that begins with a brace."""
    lines = [line]
    num_bytes = 0
    while num_bytes < MAX_RECORD_BYTES and (line := read_line(CHUNK_BYTES)):
        lines.append(line)
        num_bytes += len(line)
        if line.startswith((b"}", b"{")):
            break
    return lines


def rescan(record: Record) -> Iterator[Record]:
    """Yield the objects inside what ``iter_records`` took for one, or the record itself if it is one object."""
    scanner = _Scanner()
    yield from scanner.feed(record.data, record.line)
    yield from scanner.finish()


class _Scanner:
    """Finds objects in text that arrives in pieces.

    ``text`` is what is not yet decided; at ``depth`` 0 it begins between objects, else with the brace of an unfinished one.
    """

    def __init__(self) -> None:
        self.text = bytearray()
        self.line = 1  # line number of text[0]
        self.position = 0  # everything before it is scanned
        self.depth = 0  # open braces at position
        self.is_lost = False  # after damage, already reported: skip to something that surely begins an object
        self.junk = b""  # beginning of the stray bytes since the last object
        self.junk_line = 0
        self.may_look_again = _MAX_TORN_BYTES  # bytes; grows with what arrives, so that work stays in proportion to it

    @property
    def is_idle(self) -> bool:
        """Whether nothing is pending, so that a line can be judged by itself."""
        return not (self.text or self.junk or self.is_lost)

    def feed(self, piece: bytes, line: int) -> Iterator[Record]:
        """Take the next piece of line ``line`` and yield what it completes."""
        if not self.text:
            self.line = line
        self.text += piece
        self.may_look_again = min(self.may_look_again + _TIMES_LOOKED_AGAIN * len(piece), _TIMES_LOOKED_AGAIN * _MAX_TORN_BYTES)
        yield from self._scan(is_end=False)
        if len(self.text) > MAX_RECORD_BYTES:
            yield Record(self.line, bytes(self.text[:MAX_EXCERPT]), RejectReason.REC_TOO_LARGE)
            self._get_lost(len(self.text))

    def finish(self) -> Iterator[Record]:
        """Yield what remains at the end of the file."""
        yield from self._scan(is_end=True)
        yield from self._flush_junk()

    def _scan(self, *, is_end: bool) -> Iterator[Record]:
        text = self.text
        while text:
            if not self.depth:
                if not self._seek_start():
                    return
                yield from self._flush_junk()
            token = _TOKEN.search(text, self.position)
            if token is None:
                self.position = len(text)
                if not is_end:
                    return
                yield from self._tear(len(text))
                continue
            start, end = token.span()
            if text[start] == _QUOTE:
                if end < len(text) and text[end] == _QUOTE:
                    self.position = end + 1
                elif end == len(text) and not is_end:
                    self.position = start
                    return
                else:
                    yield from self._tear(end)
            elif text[start] == _CLOSE:
                self.position = end
                self.depth -= 1
                if not self.depth:
                    yield Record(self.line, bytes(text[:end]))
                    self._drop(end)
            elif len(text) - start < _MIN_LOOKAHEAD and not is_end:
                self.position = start
                return
            elif _is_new_object(text, start):
                yield from self._tear(start)
            else:
                self.position = end
                self.depth += 1

    def _seek_start(self) -> bool:
        """Drop what precedes the next object; whether one begins."""
        text = self.text
        found = (_SURE_START if self.is_lost else _ANY_START).search(text)
        end = found.start() if found else len(text)
        if not self.is_lost and (stray := bytes(text[:end]).strip(_SEPARATORS)):
            if not self.junk:
                self.junk_line = self.line
            self.junk = (self.junk + stray)[:MAX_EXCERPT]
        self._drop(end)
        if found is None:
            return False
        self.is_lost = False
        self.depth = self.position = 1
        return True

    def _tear(self, end: int) -> Iterator[Record]:
        """Report the object that breaks off at ``end`` and go on with one that hides in it, or after it.

        When a torn object and a whole one share a line, the whole one lies inside what looks like strings.
        """
        yield Record(self.line, bytes(self.text[: min(end, MAX_EXCERPT)]), RejectReason.REC_TRUNCATED)
        hidden = _WRAPPER.search(self.text, 1, end) if end <= _MAX_TORN_BYTES else None
        begin = hidden.start() if hidden and end - hidden.start() <= self.may_look_again else end
        self.may_look_again -= end - begin
        self._get_lost(begin)

    def _get_lost(self, num_bytes: int) -> None:
        self._drop(num_bytes)
        self.depth = 0
        self.is_lost = True

    def _drop(self, num_bytes: int) -> None:
        self.line += self.text.count(b"\n", 0, num_bytes)
        del self.text[:num_bytes]
        self.position = 0

    def _flush_junk(self) -> Iterator[Record]:
        if self.junk:
            yield Record(self.junk_line, self.junk, RejectReason.REC_JSON)
            self.junk = b""


_PLAIN_STARTS: Final = (b"{", b"\r", b"\n")
_LEAST_OBJECT: Final = 4  # {"}}, which the decoder refuses
_RETURN: Final = ord("\r")
_OPEN: Final = ord("{")
_MAX_TORN_BYTES: Final = 256 * 1024  # looking twice at the same bytes has to end somewhere
_TIMES_LOOKED_AGAIN: Final = 4  # at a byte, on average
_MIN_LOOKAHEAD: Final = 16  # enough to see whether a brace opens a wrapper
_QUOTE: Final = ord('"')
_CLOSE: Final = ord("}")
_SEPARATORS: Final = b" \t\r\n,[]\xef\xbb\xbf"
_TOKEN: Final = re.compile(rb'[{}]|"[^"\\\n]*(?:\\[^\n][^"\\\n]*)*')  # a brace, or a string without its closing quote
_WRAPPER: Final = re.compile(rb'\{\s*"ohh"')
_ANY_START: Final = re.compile(rb"\{")
_SURE_START: Final = re.compile(rb'^\{|\{\s*"ohh"', re.MULTILINE)


def _is_new_object(text: bytearray, start: int) -> bool:
    """Whether a brace inside an object begins another one, so that the first must be torn."""
    if _WRAPPER.match(text, start):
        return True
    if text[start - 1] != _NEWLINE:
        return False
    before = text[max(0, start - 64) : start]
    return before.endswith(b"\n\n") or not before.rstrip().endswith((b"[", b":", b","))


_NEWLINE: Final = ord("\n")


def _is_no_text(head: bytes) -> bool:
    """Whether the beginning of a file shows UTF-16, UTF-32 or binary data; NULs around JSON are a crash's padding."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
        return True
    sample = head.strip(b"\x00")
    if b'{"' in sample or b"{\n" in sample or b"{\r\n" in sample:
        return False
    num_control = len(sample) - len(sample.translate(None, _CONTROL))
    return num_control > len(sample) // 100


_CONTROL: Final = bytes(set(range(32)) - set(b"\t\n\r\f"))
