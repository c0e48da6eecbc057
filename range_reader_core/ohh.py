"""Bytes of an Open Hand History file -> hands or ``Reject``, one for every record, in file order.

Records are found by ``ohh_records``. The careful way takes them one by one: ``ohh_schema`` (exact, fast) or ``ohh_lenient``
(anything else) decodes them, ``ohh_draft`` and ``ohh_settle`` make hands of them. ``read_ohh`` first offers whole blocks of
lines to ``ohh_plain``, which takes what is ordinary at a third of the cost, and gives the careful way the rest. One bad record
never stops a file and never vanishes. Repeats are not looked for: whoever joins files compares ids and contents.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

import numpy as np

from range_reader_core.hand import CanonicalHand
from range_reader_core.ohh_amounts import AmountMode, added_steps, fitting_modes, is_decided, vote, winner
from range_reader_core.ohh_draft import Draft, draft, hand_id_of
from range_reader_core.ohh_lenient import decode_lenient
from range_reader_core.ohh_plain import read_plain
from range_reader_core.ohh_records import BufferedBytes, Lines, Record, iter_parts, iter_records, rescan
from range_reader_core.ohh_rejects import MAX_HAND_ID, MAX_MESSAGE, Reject, RejectError, RejectReason, excerpt
from range_reader_core.ohh_schema import OhhHand, decode_exact
from range_reader_core.ohh_settle import settle
from range_reader_core.skeletons import NamedSkeletons
from range_reader_core.wording import writable

BATCH_RECORDS: Final = 16
MAX_WAITING: Final = 256  # hands read ahead before a source's reading of amounts is settled
MAX_WAITING_BYTES: Final = 8 * 1024 * 1024
MAX_SOURCES: Final = 1000  # readings remembered; a file that names more sources is asked again
MIN_PLAIN_SHARE: Final = 0.5  # of a block; below it the rest of the file is not offered to ohh_plain

_Read = tuple[Record, Draft | Reject]
_Result = TypeVar("_Result", bound=NamedSkeletons | CanonicalHand | Reject)


def parse_ohh(stream: BufferedBytes, file_name: str) -> Iterator[CanonicalHand | Reject]:
    """Yield every hand of an uncompressed file, and a ``Reject`` for every record that is none.

    A file whose every record is refused ends with a file-level ``Reject`` that counts the reasons. Memory is bounded by
    ``MAX_WAITING`` hands, whatever the file. Raises only what ``stream.read`` raises.
    """
    return _with_verdict(_careful_results(stream, file_name), file_name)


def read_ohh(stream: BufferedBytes, file_name: str) -> Iterator[NamedSkeletons | CanonicalHand | Reject]:
    """Yield the same hands in the same order, ordinary ones as the skeletons they encode to, many at once."""
    return _with_verdict(_mixed_results(stream, file_name), file_name)


def _with_verdict(results: Iterable[_Result], file_name: str) -> Iterator[_Result | Reject]:
    """Pass results on and end with a verdict on the file, should nothing in it be a hand."""
    has_hands = False
    refused: Counter[RejectReason] = Counter()
    for result in results:
        if isinstance(result, Reject):
            refused[result.reason] += 1
        else:
            has_hands = True
        yield result
    if refused and not has_hands and not any(reason.is_file_level for reason in refused):
        table = ", ".join(f"{reason} {count}" for reason, count in refused.most_common())
        message = f"every record was refused; probably not the right kind of file: {table}"
        yield Reject(source=file_name, line=0, hand_id="", reason=RejectReason.FILE_NO_HANDS, message=message, text="")


def _careful_results(stream: BufferedBytes, file_name: str) -> Iterator[CanonicalHand | Reject]:
    careful = _CarefulReader(file_name)
    records = iter_records(stream)
    while batch := list(islice(records, BATCH_RECORDS)):
        yield from careful.take(batch)
    yield from careful.rest()


def _mixed_results(stream: BufferedBytes, file_name: str) -> Iterator[NamedSkeletons | CanonicalHand | Reject]:
    careful = _CarefulReader(file_name)
    batch: list[Record] = []
    for part in iter_parts(stream):
        if isinstance(part, Record):
            batch.append(part)
            if len(batch) == BATCH_RECORDS:
                yield from careful.take(batch)
                batch = []
        else:
            yield from careful.take(batch)
            batch = []
            yield from _read_lines(part, careful)
    yield from careful.take(batch)
    yield from careful.rest()


def _read_lines(lines: Lines, careful: "_CarefulReader") -> Iterator[NamedSkeletons | CanonicalHand | Reject]:
    """Yield the hands of lines in their order: plain ones at once, the odd ones between them the careful way."""
    num_lines = lines.num_objects
    begin = 0
    records: list[Record] = []
    while begin < num_lines and (careful.is_waiting or not careful.modes or not careful.is_plain_tried):
        records = records or lines.records(begin, begin + MAX_WAITING)
        yield from careful.take(records[:BATCH_RECORDS])
        del records[:BATCH_RECORDS]
        begin += BATCH_RECORDS
    if begin >= num_lines:
        return
    plain = read_plain(lines, begin, [source for source, mode in careful.modes.items() if mode is AmountMode.ADDED])
    at = plain.line_index
    is_odd = np.arange(num_lines) >= begin
    is_odd[at] = False
    odd = np.flatnonzero(is_odd).tolist()
    if len(odd) > (1.0 - MIN_PLAIN_SHARE) * (num_lines - begin):
        careful.is_plain_tried = False
    first_odd = odd[0] if odd else 0
    records = lines.records(first_odd, odd[-1] + 1) if odd else []
    num_given = 0
    while odd:
        first = odd[0]
        run = next((place for place in range(1, BATCH_RECORDS) if place == len(odd) or odd[place] != first + place), BATCH_RECORDS)
        num_before = int(np.searchsorted(at, first))
        if num_before > num_given:
            yield plain.hands.take(np.arange(num_given, num_before))
        num_given = num_before
        del odd[:run]
        yield from careful.take(records[first - first_odd : first - first_odd + run])
        if careful.is_waiting:  # a source not met before: what follows has to wait with its hands
            records = lines.records(first + run, num_lines)
            for place in range(0, len(records), BATCH_RECORDS):
                yield from careful.take(records[place : place + BATCH_RECORDS])
            return
    if num_given < len(at):
        yield plain.hands.take(np.arange(num_given, len(at))) if num_given else plain.hands


class _CarefulReader:
    """Reads records one by one, with what it has learned of the file's sources."""

    def __init__(self, file_name: str) -> None:
        self.file_name = file_name
        self.modes: dict[str, AmountMode] = {}
        self.is_plain_tried = True  # whether blocks of lines are worth offering to ohh_plain
        self._queue = _Queue(self.modes, file_name)

    @property
    def is_waiting(self) -> bool:
        """Whether hands are held back."""
        return bool(self._queue.waiting)

    def take(self, batch: list[Record]) -> list[CanonicalHand | Reject]:
        """Return what is settled once these records are read.

        They take each step of the way together: decoding, drafting and settling one hand after the other keeps evicting each
        other's code from the processor's cache (45 us a hand, 34 in batches; 2026-11).
        """
        hands = [decode_exact(record.data) if record.reason is None else None for record in batch]
        reads = [None if hand is None else _draft_exactly(hand) for hand in hands]
        settled: list[CanonicalHand | Reject] = []
        for record, read in zip(batch, reads, strict=True):
            if read is None:
                settled += self._queue.settled(_read_slowly(record, self.file_name))
            elif self._queue.waiting or (mode := self.modes.get(read.source)) is None:
                settled += self._queue.settled([(record, read)])
            else:
                settled.append(_settle(record, read, mode, self.file_name))
        return settled

    def rest(self) -> Iterator[CanonicalHand | Reject]:
        """Return what is still held back."""
        return self._queue.rest()


class _Queue:
    """Holds hands back, in file order, while the reading of their source's amounts is open."""

    def __init__(self, modes: dict[str, AmountMode], file_name: str) -> None:
        self.modes = modes
        self.file_name = file_name
        self.votes: dict[str, Counter[AmountMode]] = {}
        self.waiting: list[_Read] = []
        self.num_bytes = 0

    def settled(self, reads: Iterable[_Read]) -> Iterator[CanonicalHand | Reject]:
        """Take what was read and yield what is settled now."""
        for record, read in reads:
            self.waiting.append((record, read))
            self.num_bytes += len(record.data)
            if not isinstance(read, Reject) and read.source not in self.modes:
                votes = self.votes.setdefault(read.source, Counter())
                vote(votes, read)
                if is_decided(votes):
                    self.modes[read.source] = winner(votes)
            is_full = len(self.waiting) >= MAX_WAITING or self.num_bytes >= MAX_WAITING_BYTES
            if is_full or self.votes.keys() <= self.modes.keys():
                yield from self.rest()

    def rest(self) -> Iterator[CanonicalHand | Reject]:
        """Settle every open source by its votes and yield all that waits."""
        for source, votes in self.votes.items():
            self.modes.setdefault(source, winner(votes))
        for record, read in self.waiting:
            yield read if isinstance(read, Reject) else _settle(record, read, self.modes[read.source], self.file_name)
        self.waiting.clear()
        self.num_bytes = 0
        if len(self.votes) > MAX_SOURCES:
            self.votes.clear()
            self.modes.clear()


def _draft_exactly(hand: OhhHand) -> Draft | None:
    """Return the draft of a record in the exact layout, None where a closer look is needed."""
    try:
        return draft(hand, set())
    except RejectError:
        return None


def _read_slowly(record: Record, file_name: str) -> Iterator[_Read]:
    """Yield a draft or a refusal for each object in a record; what is no JSON as a whole may hold several."""
    read = _read_part(record, file_name)
    if record.reason is None and isinstance(read, Reject) and read.reason is RejectReason.REC_JSON:
        for part in rescan(record):
            yield part, _read_part(part, file_name)
    else:
        yield record, read


def _read_part(part: Record, file_name: str) -> Draft | Reject:
    if part.reason is not None:
        return _reject(part, RejectError(part.reason, _CONTAINER_MESSAGES[part.reason]), "", file_name)
    hand_id = ""
    try:
        hand, tags = decode_lenient(part.data)
        hand_id = hand_id_of(hand)
        return draft(hand, tags)
    except RejectError as error:
        return _reject(part, error, hand_id, file_name)


def _settle(record: Record, read: Draft, mode: AmountMode, file_name: str) -> CanonicalHand | Reject:
    try:
        return settle(read, read.steps if mode is AmountMode.ADDED else added_steps(read.steps, mode))
    except RejectError as error:
        others = fitting_modes(read) if error.reason in _MONEY_REASONS else []
        if others:
            message = f"amounts add up only as {others[0].value}, but the file's are {mode.value} ({error})"
            error = RejectError(RejectReason.AMOUNT_MODE, message)
        return _reject(record, error, read.hand_id, file_name)


def _reject(record: Record, error: RejectError, hand_id: str, file_name: str) -> Reject:
    text = excerpt(record.data)
    message = writable(str(error))[:MAX_MESSAGE]
    return Reject(
        source=file_name, line=record.line, hand_id=hand_id[:MAX_HAND_ID], reason=error.reason, message=message, text=text
    )


_MONEY_REASONS: Final = frozenset({RejectReason.ILLEGAL_ACTION, RejectReason.OVERSPEND, RejectReason.POT_MISMATCH})
_CONTAINER_MESSAGES: Final = {
    RejectReason.FILE_ENCODING: "expected UTF-8 text, found UTF-16, UTF-32 or binary data",
    RejectReason.REC_JSON: "expected a JSON object, found stray bytes",
    RejectReason.REC_TRUNCATED: "the object breaks off before its last brace",
    RejectReason.REC_TOO_LARGE: "the object is longer than any hand can be",
}
