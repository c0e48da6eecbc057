"""PHH notation (``.phh`` one hand, ``.phhs`` many), the academic standard, to ``CanonicalHand`` or ``Reject``.

A record is one TOML table. Files are cut at their ``[1]``, ``[2]`` header lines before TOML sees them, so bad TOML costs its own
hand alone and memory is bounded by one record. What a hand's actions come to is ``phh_play``'s business, PokerKit's in fact;
here fields become a table and a played hand becomes a record. PHH numbers players from the small blind and the button comes
last; ``seats`` turns that into clockwise seats. Results are labels: given winnings and finishing stacks must fit the pot. Not in
the core because PokerKit is a dependency of the pipeline alone.
"""

import re
import tomllib
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, BinaryIO, Final, TypeVar

from pokerkit import HandHistory

from range_reader_core.hand import NO_SEAT, CanonicalHand
from range_reader_core.ohh_draft import Draft
from range_reader_core.ohh_rejects import Reject, RejectError, RejectReason, excerpt
from range_reader_core.ohh_settle import settle
from range_reader_core.ohh_tags import HandTag
from range_reader_core.replay import RELATIVE_SLACK, cent_slack
from range_reader_core.tokens import MAX_SEATS
from range_reader_pipeline.phh_play import AUTOMATIONS, Chips, PlayedHand

MAX_RECORD_BYTES: Final = 1 << 18  # a long annotated hand is a tenth of this
MIN_CHIPS: Final = 1e-6  # a millionth: no currency has less
MAX_CHIPS: Final = 10**15  # float64 still tells single chips apart
MAX_RAKE: Final = 0.15  # of the pot: rake with a jackpot drop; more missing than this means that the chips are wrong
SEATS_NOT_CLOCKWISE: Final = "seats_not_clockwise"  # tag of a hand whose seat numbers were dropped
NO_VENUE: Final = "phh"  # the source of a hand that names no venue
_T = TypeVar("_T")
_HEADER = re.compile(rb"[ \t]*\[[ \t]*[0-9A-Za-z-][0-9A-Za-z_-]*[ \t]*\][ \t]*(?:#.*)?\r?\n?")
_NO_CONTENT = re.compile(rb"(?:[ \t\r\n]++|#[^\n]*+)*+")  # possessive: nothing to try twice
# tomllib keeps every prefix of a dotted key: a key of 100,000 parts would take 40 GB.
_LONG_KEY = re.compile(rb"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){64}""")
_UTF8_BOM: Final = b"\xef\xbb\xbf"
_WIDE_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    line: int  # 1-based line on which it begins, the header's where there is one
    text: bytes
    is_too_large: bool
    is_last: bool


def parse_phh(stream: BinaryIO, file_name: str) -> Iterator[CanonicalHand | Reject]:
    """Yield one hand or one reject per record of a decompressed file, in file order.

    A file that cannot be read at all, or whose every record is refused, ends with a reject whose reason is file-level.
    """
    num_hands = 0
    reasons: Counter[RejectReason] = Counter()
    for section in _iter_sections(stream):
        if section.line == 1 and (section.text.startswith(_WIDE_BOMS) or b"\x00" in section.text):
            error = RejectError(RejectReason.FILE_ENCODING, "expected UTF-8 text, found UTF-16, UTF-32 or binary data")
            yield _reject(section, file_name, error, line=0)
            return
        result = _parse_section(section, file_name)
        if isinstance(result, Reject):
            reasons[result.reason] += 1
        else:
            num_hands += 1
        yield result
    if reasons and not num_hands:
        table = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
        message = f"every record was refused; probably not the right kind of file: {table}"
        yield Reject(source=file_name, line=0, hand_id="", reason=RejectReason.FILE_NO_HANDS, message=message, text="")


def _iter_sections(stream: BinaryIO) -> Iterator[_Section]:
    """Cut a file at its header lines, holding one record at most; text before the first header is a record of its own."""
    parts: list[bytes] = []
    start, number, size = 1, 0, 0
    is_line_start, has_header = True, False
    while piece := stream.readline(MAX_RECORD_BYTES):
        if number == 0:
            piece = piece.removeprefix(_UTF8_BOM)
        number += is_line_start
        if is_line_start and _HEADER.fullmatch(piece):
            if has_header or not _NO_CONTENT.fullmatch(b"".join(parts)):
                yield _Section(line=start, text=b"".join(parts), is_too_large=size > MAX_RECORD_BYTES, is_last=False)
            parts, start, size, has_header = [], number, 0, True
        else:
            size += len(piece)
            if size <= MAX_RECORD_BYTES:
                parts.append(piece)
        is_line_start = piece.endswith(b"\n")
    if has_header or not _NO_CONTENT.fullmatch(b"".join(parts)):
        yield _Section(line=start, text=b"".join(parts), is_too_large=size > MAX_RECORD_BYTES, is_last=True)


def _parse_section(section: _Section, file_name: str) -> CanonicalHand | Reject:
    """Parse one record; the one place where its errors end."""
    fields: dict[str, Any] = {}
    try:
        fields = _fields(section)
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # PokerKit's advice, as on an open fold
            return _hand(fields)
    except RejectError as err:
        return _reject(section, file_name, err, fields)


def _fields(section: _Section) -> dict[str, Any]:
    """Return the TOML table of a record."""
    if section.is_too_large:
        raise RejectError(RejectReason.REC_TOO_LARGE, f"a record of more than {MAX_RECORD_BYTES} bytes is no hand")
    if _LONG_KEY.search(section.text):
        raise RejectError(RejectReason.REC_TOML, "a dotted key of more than 64 parts")
    try:
        return tomllib.loads(section.text.decode(), parse_float=Decimal)
    except UnicodeDecodeError as err:
        raise RejectError(RejectReason.REC_ENCODING, str(err)) from err
    except (ValueError, ArithmeticError, RecursionError) as err:  # Decimal refuses some exponents, nesting ends the stack
        reason = RejectReason.REC_TRUNCATED if section.is_last else RejectReason.REC_TOML
        if "overwrite a value" in str(err) or "declare" in str(err):
            reason = RejectReason.REC_DUP_KEY
        raise RejectError(reason, f"{type(err).__name__}: {err}") from err


def _reject(
    section: _Section, file_name: str, error: RejectError, fields: Mapping[str, Any] | None = None, *, line: int | None = None
) -> Reject:
    number = _hand_number(fields or {})
    return Reject(
        source=file_name,
        line=section.line if line is None else line,
        hand_id=f"{_source(fields or {})}#{number}" if number else "",
        reason=error.reason,
        message=str(error)[:300],
        text=excerpt(section.text),
    )


def _hand(fields: Mapping[str, Any]) -> CanonicalHand:
    history = _history(fields)
    n = len(history.starting_stacks)
    tags: set[str] = {HandTag.TOURNAMENT} if "level" in fields else set()
    seats = _seat_numbers(fields, n, tags)
    seat_of = [sorted(seats).index(seat) for seat in seats]  # player -> clockwise seat
    played = PlayedHand(history)
    played.play(history.actions)
    steps = [event if event.seat == NO_SEAT else event._replace(seat=seat_of[event.seat]) for event in played.events]
    holes = [played.known_hole(player) for player in range(n)]
    if not any(holes):
        tags.add(HandTag.NO_HOLE_CARDS)
    collected = [float(chips) for chips in _collected(played, fields, tags)]
    drafted = Draft(
        hand_id=_hand_id(fields),
        source=_source(fields),
        seat_numbers=tuple(sorted(seats)),
        button=seat_of[n - 1],
        blinds=(*_blinds(history), float(max(history.antes))),
        stacks=_by_seat([float(chips) for chips in history.starting_stacks], seat_of),
        hole_cards=_by_seat(holes, seat_of),
        label_sources=_by_seat([played.label_source(player) for player in range(n)], seat_of),
        steps=steps,
        pot_chips=None,  # results are checked against PokerKit's exact chips
        added_chips=0.0,
        collected=_by_seat(collected, seat_of),
        top_ups={},
        board=played.board,
        tags=tags | played.tags,
    )
    # PokerKit knows the rules of poker; replay is what the rest of the product means by a hand that adds up.
    return settle(drafted, steps)


def _history(fields: Mapping[str, Any]) -> HandHistory:
    """Return PokerKit's record of a hand, its fields checked.

    Nothing else of the file reaches it: a field named as one of its settings (``divmod``) would be taken for that setting.
    """
    variant = fields.get("variant")
    if variant != "NT":
        is_holdem = variant == "FT"
        reason = RejectReason.BET_TYPE if is_holdem else RejectReason.GAME_TYPE if variant else RejectReason.TYPE
        seen = variant[:40] if isinstance(variant, str) else type(variant).__name__
        raise RejectError(reason, f"expected variant 'NT', no-limit hold'em, got {seen!r}")
    stacks = _numbers(fields, "starting_stacks")
    n = len(stacks)
    if n < 2:
        raise RejectError(RejectReason.PLAYERS, f"expected at least two starting stacks, got {n}")
    if n > MAX_SEATS:
        raise RejectError(RejectReason.TOO_MANY, f"expected at most {MAX_SEATS} players, got {n}")
    if any(chips <= 0 for chips in stacks):
        raise RejectError(RejectReason.BAD_NUMBER, f"expected positive starting stacks, got {min(stacks)}")
    antes, blinds = _numbers(fields, "antes", n), _numbers(fields, "blinds_or_straddles", n)
    if any(chips < 0 for chips in antes):
        raise RejectError(RejectReason.BAD_NUMBER, f"expected antes of at least 0, got {min(antes)}")
    min_bet = _number(fields.get("min_bet"), "min_bet")
    if min_bet <= 0:
        raise RejectError(RejectReason.NO_BLINDS, f"expected a positive min_bet, got {min_bet}")
    actions = fields.get("actions")
    if not isinstance(actions, list) or not all(isinstance(action, str) for action in actions):
        raise RejectError(RejectReason.TYPE, "expected actions to be a list of strings")
    # PokerKit types amounts as int, but reads and computes with Decimal as well. ante_trimming_status stays out: it says who may
    # win a short ante, and where a writer sets it with a big blind ante, PokerKit would hand that ante back.
    numbers: dict[str, Any] = {"antes": antes, "blinds_or_straddles": blinds, "min_bet": min_bet, "starting_stacks": stacks}
    return HandHistory(variant="NT", actions=actions, automations=AUTOMATIONS, **numbers)


def _numbers(fields: Mapping[str, Any], name: str, count: int | None = None) -> list[Chips]:
    values = fields.get(name)
    if not isinstance(values, list):
        raise RejectError(RejectReason.TYPE, f"expected {name} to be a list of numbers, got {type(values).__name__}")
    if count is not None and len(values) != count:
        raise RejectError(RejectReason.TYPE, f"expected {name} to hold {count} numbers, one a player, got {len(values)}")
    return [_number(value, name) for value in values]


def _number(value: Any, name: str) -> Chips:
    # A hexadecimal integer may be too long to print: messages name the type of a value before its size is known.
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise RejectError(RejectReason.TYPE, f"expected a number in {name}, got {type(value).__name__}")
    if isinstance(value, Decimal) and not value.is_finite():
        raise RejectError(RejectReason.BAD_NUMBER, f"expected a finite number in {name}, got {value}")
    if value and (-MIN_CHIPS < value < MIN_CHIPS or not -MAX_CHIPS <= value <= MAX_CHIPS):
        raise RejectError(RejectReason.BAD_NUMBER, f"expected 0 or {MIN_CHIPS}..{MAX_CHIPS} chips in {name}")
    return value


def _seat_numbers(fields: Mapping[str, Any], n: int, tags: set[str]) -> list[int]:
    """Return each player's seat number; the order of the players is the truth, so numbers that contradict it are dropped."""
    seats = fields.get("seats")
    if seats is None:
        return list(range(1, n + 1))
    if not isinstance(seats, list) or len(seats) != n or not all(type(seat) is int and 0 <= seat < 1000 for seat in seats):
        raise RejectError(RejectReason.TYPE, f"expected seats to hold {n} small whole numbers, got another {type(seats).__name__}")
    if len(set(seats)) != n:
        raise RejectError(RejectReason.SEATS, f"expected different seats, got {seats}")
    first = seats.index(min(seats))
    if seats[first:] + seats[:first] != sorted(seats):
        tags.add(SEATS_NOT_CLOCKWISE)
        return list(range(1, n + 1))
    return seats


def _blinds(history: HandHistory) -> tuple[float, float]:
    """Return the nominal small and big blind in chips. A missing small blind is 0; a hand of antes alone has its smallest bet."""
    first, second = (abs(float(chips)) for chips in (history.blinds_or_straddles or [])[:2])
    big = max(first, second)
    return (min(first, second), big) if big > 0 else (0.0, float(history.min_bet or 0))


def _collected(played: PlayedHand, fields: Mapping[str, Any], tags: set[str]) -> list[Chips]:
    """Return what each player won from the pots, as the file says or as the folds leave it; zeros where neither tells.

    Raises:
        RejectError: a stated result cannot come of the chips that were put in.
    """
    n = played.num_players
    gross = sum(played.contributed)
    net = gross - sum(played.uncalled)
    claims: list[list[Chips]] = []
    if "winnings" in fields:
        stated = _numbers(fields, "winnings", n)
        if any(stated):  # converted logs whose payouts were not understood hold zeros
            claims.append(stated)
    if "finishing_stacks" in fields:
        finishing = _numbers(fields, "finishing_stacks", n)
        claims.append([finishing[i] - played.left[i] - played.uncalled[i] for i in range(n)])
    # A source that rounds to cents may be half of one off.
    amounts = [float(chips) for chips in [*played.contributed, *(chips for claim in claims for chips in claim)]]
    slack = max(RELATIVE_SLACK * float(gross), cent_slack(amounts))
    for claim in claims:
        total = float(sum(claim))
        if min(claim) < -slack or total > float(gross) + slack or total < (1 - MAX_RAKE) * float(net) - slack:
            said = ", ".join(str(chips) for chips in claim)
            raise RejectError(RejectReason.POT_MISMATCH, f"players win {said} of a pot of {net} ({gross} with the uncalled bet)")
    if len(claims) == 2 and any(
        abs(float(claims[0][i]) - float(claims[1][i])) > slack + float(played.uncalled[i]) for i in range(n)
    ):
        raise RejectError(RejectReason.POT_MISMATCH, "winnings and finishing_stacks contradict each other")
    if claims:
        return [chips if float(chips) > slack else 0 for chips in claims[0]]
    winnings = played.pot_winnings()
    if winnings is None:
        tags.add(HandTag.NO_POTS)
        return [0] * n
    return winnings


def _source(fields: Mapping[str, Any]) -> str:
    venue = fields.get("venue")
    return venue[:100] if isinstance(venue, str) and venue else NO_VENUE


def _hand_number(fields: Mapping[str, Any]) -> str | None:
    hand = fields.get("hand")
    if isinstance(hand, int) and abs(hand) >= 1 << 128:
        return None  # too long to print
    return str(hand)[:100] if isinstance(hand, str | int) and hand != "" else None


def _hand_id(fields: Mapping[str, Any]) -> str:
    """Return ``venue#hand``, or "" where that would not be unique: at no venue, or in a live event's count from 1."""
    number, source = _hand_number(fields), _source(fields)
    is_unique = number is not None and source != NO_VENUE and "event" not in fields
    return f"{source}#{number}" if is_unique else ""


def _by_seat(values: Sequence[_T], seat_of: Sequence[int]) -> list[_T]:
    """Reorder one value a player into one a seat."""
    ordered = list(values)
    for player, seat in enumerate(seat_of):
        ordered[seat] = values[player]
    return ordered
