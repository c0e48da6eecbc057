"""Bytes of an Open Hand History file -> ``CanonicalHand`` or ``Reject``, one for every record, in file order.

Three layers meet here: ``ohh_records`` finds objects, ``ohh_schema`` (exact, fast) or ``ohh_lenient`` (anything else)
decodes them, ``ohh_draft`` and ``ohh_settle`` make hands of them. One bad record never stops a file and never vanishes.
Repeats are not looked for: whoever joins files compares ``hand_id`` and ``content_hash``.
"""

from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO, Final

from range_reader_core.hand import CanonicalHand
from range_reader_core.ohh_amounts import AmountMode, added_steps, fitting_modes, is_decided, vote, winner
from range_reader_core.ohh_draft import Draft, draft, hand_id_of
from range_reader_core.ohh_lenient import decode_lenient
from range_reader_core.ohh_records import Record, iter_records, rescan
from range_reader_core.ohh_rejects import Reject, RejectError, RejectReason, excerpt
from range_reader_core.ohh_schema import decode_exact
from range_reader_core.ohh_settle import settle

MAX_WAITING: Final = 256  # hands read ahead before a source's reading of amounts is settled
MAX_WAITING_BYTES: Final = 8 * 1024 * 1024


def parse_ohh(stream: BinaryIO, file_name: str) -> Iterator[CanonicalHand | Reject]:
    """Yield every hand of an uncompressed file, and a ``Reject`` for every record that is none.

    A file whose every record is refused ends with a file-level ``Reject`` that counts the reasons. Memory is bounded by
    ``MAX_WAITING`` hands, whatever the file. Raises only what ``stream.read`` raises.
    """
    num_hands = 0
    reasons: Counter[RejectReason] = Counter()
    for result in _results(stream, file_name):
        if isinstance(result, Reject):
            reasons[result.reason] += 1
        else:
            num_hands += 1
        yield result
    if not num_hands and reasons and not any(reason.is_file_level for reason in reasons):
        table = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
        message = f"every record was refused; probably not the right kind of file: {table}"
        yield Reject(source=file_name, line=0, hand_id="", reason=RejectReason.FILE_NO_HANDS, message=message, text="")


_Waiting = tuple[Record, Draft] | Reject


def _results(stream: BinaryIO, file_name: str) -> Iterator[CanonicalHand | Reject]:
    """Yield results in file order, holding hands back while the reading of their source's amounts is open."""
    modes: dict[str, AmountMode] = {}
    votes: dict[str, Counter[AmountMode]] = {}
    waiting: list[_Waiting] = []
    num_bytes = 0
    for record, read in _drafts(stream, file_name):
        if isinstance(read, Reject):
            if waiting:
                waiting.append(read)
            else:
                yield read
            continue
        mode = modes.get(read.source)
        if mode is not None and not waiting:
            yield _settle(record, read, mode, file_name)
            continue
        waiting.append((record, read))
        num_bytes += len(record.data)
        if mode is None:
            source_votes = votes.setdefault(read.source, Counter())
            vote(source_votes, read)
            if is_decided(source_votes):
                modes[read.source] = winner(source_votes)
        is_full = len(waiting) >= MAX_WAITING or num_bytes >= MAX_WAITING_BYTES
        if is_full or votes.keys() <= modes.keys():
            modes |= {source: winner(counted) for source, counted in votes.items() if source not in modes}
            yield from _release(waiting, modes, file_name)
            waiting.clear()
            num_bytes = 0
    modes |= {source: winner(counted) for source, counted in votes.items() if source not in modes}
    yield from _release(waiting, modes, file_name)


def _release(waiting: list[_Waiting], modes: dict[str, AmountMode], file_name: str) -> Iterator[CanonicalHand | Reject]:
    for item in waiting:
        if isinstance(item, Reject):
            yield item
        else:
            record, read = item
            yield _settle(record, read, modes[read.source], file_name)


def _drafts(stream: BinaryIO, file_name: str) -> Iterator[tuple[Record, Draft | Reject]]:
    """Yield a draft or a refusal for each record."""
    for record in iter_records(stream):
        if record.reason is None:
            hand = decode_exact(record.data)
            if hand is not None:
                try:
                    yield record, draft(hand, set())
                except RejectError as error:
                    yield record, _reject(record, error, hand_id_of(hand), file_name)
                continue
        yield from _slow_drafts(record, file_name)


def _slow_drafts(record: Record, file_name: str) -> Iterator[tuple[Record, Draft | Reject]]:
    for part in rescan(record) if record.reason is None else (record,):
        if part.reason is not None:
            yield part, _reject(part, RejectError(part.reason, _CONTAINER_MESSAGES[part.reason]), "", file_name)
            continue
        hand_id = ""
        try:
            hand, tags = decode_lenient(part.data)
            hand_id = hand_id_of(hand)
            read = draft(hand, tags)
        except RejectError as error:
            yield part, _reject(part, error, hand_id, file_name)
        else:
            yield part, read


def _settle(record: Record, read: Draft, mode: AmountMode, file_name: str) -> CanonicalHand | Reject:
    try:
        return settle(read, read.steps if mode is AmountMode.ADDED else added_steps(read.steps, mode))
    except RejectError as error:
        others = [other for other in fitting_modes(read) if other is not mode]
        if others:
            message = f"amounts add up only as {others[0].value}, but the file's are {mode.value} ({error})"
            error = RejectError(RejectReason.AMOUNT_MODE, message)
        return _reject(record, error, read.hand_id, file_name)


def _reject(record: Record, error: RejectError, hand_id: str, file_name: str) -> Reject:
    text = excerpt(record.data)
    return Reject(source=file_name, line=record.line, hand_id=hand_id, reason=error.reason, message=str(error), text=text)


_CONTAINER_MESSAGES: Final = {
    RejectReason.FILE_ENCODING: "expected UTF-8 text, found UTF-16, UTF-32 or binary data",
    RejectReason.REC_JSON: "expected a JSON object, found stray bytes",
    RejectReason.REC_TRUNCATED: "the object breaks off before its last brace",
    RejectReason.REC_TOO_LARGE: "the object is longer than any hand can be",
}
