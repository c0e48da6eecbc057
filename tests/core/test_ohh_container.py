"""Rows 1 to 24 of the case table: containers, encodings, wrappers, ids. Each case is a small file with its verdict."""

import io
import json
from collections.abc import Sequence
from typing import Final

import pytest

from range_reader_core.hand import CanonicalHand
from range_reader_core.ohh import parse_ohh
from range_reader_core.ohh_rejects import Reject
from tests.core.ohh_text import deleted, edited, hand, line, pretty, without

ONE: Final = line(game_number="1")
TWO: Final = line(game_number="2")
NUMBER_ONE: Final = "site/network#1"
NUMBER_TWO: Final = "site/network#2"
BOTH: Final = (NUMBER_ONE, NUMBER_TWO)


def read(data: bytes) -> list[CanonicalHand | Reject]:
    """Return everything a file yields."""
    return list(parse_ohh(io.BytesIO(data), "file.ohh"))


def verdicts(results: Sequence[CanonicalHand | Reject]) -> list[str]:
    """Return hand ids and reject codes in order."""
    return [result.reason.value if isinstance(result, Reject) else result.hand_id for result in results]


def torn(data: bytes, num_bytes: int) -> bytes:
    """Return a record that breaks off."""
    return data[:num_bytes]


IN_A_STRING: Final = ONE.index(b"Holdem") + 3
AFTER_A_COMMA: Final = ONE.index(b'"game_type"')

CASES: Final[list[tuple[str, bytes, Sequence[str]]]] = [
    ("1 blank, whitespace-only and repeated separator lines", b"\n\n  \t\n" + ONE + b"\n \n\n\n" + TWO + b"\n\n", BOTH),
    ("1 no final newline", ONE + b"\n\n" + TWO, BOTH),
    ("2 UTF-8 byte order mark", b"\xef\xbb\xbf" + ONE + b"\n\n" + TWO, BOTH),
    ("2 byte order mark in the middle, as joined files have it", ONE + b"\n\n\xef\xbb\xbf" + TWO, BOTH),
    ("3 CRLF", ONE + b"\r\n\r\n" + TWO + b"\r\n", BOTH),
    ("3 CRLF, pretty", pretty(hand(game_number="1")).replace(b"\n", b"\r\n") + b"\r\n\r\n" + TWO, BOTH),
    ("4 UTF-16 with a mark", (ONE + b"\n\n" + TWO).decode().encode("utf-16"), ["FILE_ENCODING"]),
    ("4 UTF-16 without a mark", (ONE + b"\n\n" + TWO).decode().encode("utf-16-le"), ["FILE_ENCODING"]),
    ("4 UTF-32", ONE.decode().encode("utf-32"), ["FILE_ENCODING"]),
    ("4 binary", bytes(range(256)) * 40, ["FILE_ENCODING"]),
    ("5 invalid UTF-8 in one record", ONE.replace(b"Table", b"T\xffble") + b"\n\n" + TWO, ["REC_ENCODING", NUMBER_TWO]),
    ("6 NULs on a line of their own", ONE + b"\n" + bytes(300) + b"\n" + TWO, [NUMBER_ONE, "REC_JSON", NUMBER_TWO]),
    ("6 NULs before a record on its line", ONE + b"\n\n" + bytes(300) + TWO, [NUMBER_ONE, "REC_JSON", NUMBER_TWO]),
    ("6 NULs first in the file", bytes(300) + b"\n" + TWO, ["REC_JSON", NUMBER_TWO]),
    ("6 NULs inside a record", ONE.replace(b"Table", bytes(5)) + b"\n\n" + TWO, ["REC_JSON", NUMBER_TWO]),
    ("7 plain NDJSON", ONE + b"\n" + TWO + b"\n", BOTH),
    ("8 pretty-printed", pretty(hand(game_number="1")) + b"\n\n" + pretty(hand(game_number="2")), BOTH),
    ("8 pretty-printed without blank lines", pretty(hand(game_number="1")) + b"\n" + pretty(hand(game_number="2")), BOTH),
    ("8 blank line inside an object", pretty(hand(game_number="1")).replace(b"[\n", b"[\n\n", 1) + b"\n\n" + TWO, BOTH),
    (
        "8 printed without indentation",
        json.dumps({"ohh": hand(game_number="1")}, indent=0).encode() + b"\n\n" + TWO,
        BOTH,
    ),
    ("9 array on one line", b"[" + ONE + b"," + TWO + b"]", BOTH),
    ("9 array of lines", b"[\n" + ONE + b",\n" + TWO + b"\n]\n", BOTH),
    ("9 pretty-printed array", json.dumps([json.loads(ONE), json.loads(TWO)], indent=2).encode(), BOTH),
    ("10 two objects on a line", ONE + TWO + b"\n", BOTH),
    ("10 two objects on a line, apart", ONE + b" \t" + TWO + b"\n", BOTH),
    (
        "10 two bare objects on a line",
        json.dumps(hand(game_number="1")).encode() + json.dumps(hand(game_number="2")).encode(),
        BOTH,
    ),
    ("11 torn last record", ONE + b"\n\n" + torn(TWO, 400), [NUMBER_ONE, "REC_TRUNCATED"]),
    ("11 torn last record, in a string", ONE + b"\n\n" + torn(TWO, IN_A_STRING), [NUMBER_ONE, "REC_TRUNCATED"]),
    ("11 torn pretty record", ONE + b"\n\n" + torn(pretty(), 700), [NUMBER_ONE, "REC_TRUNCATED"]),
    ("12 torn in the middle", torn(ONE, 400) + b"\n\n" + TWO, ["REC_TRUNCATED", NUMBER_TWO]),
    ("12 torn in a string, next line", torn(ONE, IN_A_STRING) + b"\n" + TWO, ["REC_TRUNCATED", NUMBER_TWO]),
    ("12 torn in a string, same line", torn(ONE, IN_A_STRING) + TWO + b"\n", ["REC_TRUNCATED", NUMBER_TWO]),
    ("12 torn between members, same line", torn(ONE, AFTER_A_COMMA) + TWO + b"\n", ["REC_TRUNCATED", NUMBER_TWO]),
    (
        "12 torn pretty record before a pretty one",
        torn(pretty(), 700) + b"\n\n" + pretty(hand(game_number="2")),
        ["REC_TRUNCATED", NUMBER_TWO],
    ),
    ("12 torn bare record", json.dumps(hand()).encode()[:400] + b"\n" + TWO, ["REC_TRUNCATED", NUMBER_TWO]),
    ("13 empty file", b"", []),
    ("13 only blank lines", b"\n\n\n", []),
    ("14 no wrapper", json.dumps(hand(game_number="1")).encode() + b"\n\n" + TWO, BOTH),
    ("15 tournament summary", b'{"ots":{"site_name":"x"}}\n\n' + TWO, ["REC_NOT_OHH", NUMBER_TWO]),
    ("15 namesake", b'{"version":"1.0","hands":[{"a":1}]}\n\n' + TWO, ["REC_NOT_OHH", NUMBER_TWO]),
    ("15 no object at all", b"Hand #1: seat 1 is the button\n" + TWO, ["REC_JSON", NUMBER_TWO]),
    (
        "16 extra members at every level",
        line(edited(edited(hand(game_number="1"), "_uid", "u"), "players/0/_uid", "u"), flags=["New"]),
        [NUMBER_ONE],
    ),
    ("16 members beside the wrapped hand", ONE[:-1] + b',"_profits":{"a":1},"createdAt":"x"}', [NUMBER_ONE]),
    (
        "17 repeated key in the hand",
        ONE.replace(b'"dealer_seat":1', b'"dealer_seat":1,"dealer_seat":2') + b"\n\n" + TWO,
        ["REC_DUP_KEY", NUMBER_TWO],
    ),
    (
        "17 repeated key in an action",
        ONE.replace(b'"amount":6.0', b'"amount":6.0,"amount":7.0') + b"\n\n" + TWO,
        ["REC_DUP_KEY", NUMBER_TWO],
    ),
    (
        "17 repeated key, another one missing",
        ONE.replace(b'"name":"n","display":"n"', b'"name":"n","name":"n"', 1) + b"\n\n" + TWO,
        ["REC_DUP_KEY", NUMBER_TWO],
    ),
    ("21 game_number as a number", line(game_number=1), [NUMBER_ONE]),
    (
        "22 game_number of 39 digits",
        line(game_number="108005870399229470949375951054598696095"),
        ["site/network#108005870399229470949375951054598696095"],
    ),
    (
        "22 game_number of 39 digits as a number",
        line(game_number=108005870399229470949375951054598696095),
        ["site/network#108005870399229470949375951054598696095"],
    ),
    ("23 missing date", line(without(hand(game_number="1"), "start_date_utc")), [NUMBER_ONE]),
    ("23 null date", line(game_number="1", start_date_utc=None), [NUMBER_ONE]),
    ("23 odd date", line(game_number="1", start_date_utc="0000-00-00T00:00:00"), [NUMBER_ONE]),
    ("24 newer spec_version", line(game_number="1", spec_version="1.9.0"), [NUMBER_ONE]),
    ("24 no spec_version", line(without(hand(game_number="1"), "spec_version")), [NUMBER_ONE]),
]
IN_PIECES: Final = [case for case in CASES if case[2] != ["FILE_ENCODING"]]  # what a file is shows in its first block alone


@pytest.mark.parametrize(("data", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_container_gets_the_verdict_of_its_row(data: bytes, expected: Sequence[str]) -> None:
    """One bad record must neither stop a file nor take its neighbours along."""
    found = verdicts(read(data))
    assert [verdict for verdict in found if verdict != "FILE_NO_HANDS"] == list(expected)


@pytest.mark.parametrize("chunk_bytes", [16, 301])
@pytest.mark.parametrize(("data", "expected"), [case[1:] for case in IN_PIECES], ids=[case[0] for case in IN_PIECES])
def test_where_a_block_of_input_ends_changes_nothing(
    data: bytes, expected: Sequence[str], chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line longer than the buffer arrives in pieces; a brace or string at a seam must not be read twice or missed."""
    monkeypatch.setattr("range_reader_core.ohh_records.CHUNK_BYTES", chunk_bytes)
    found = verdicts(read(data))
    assert [verdict for verdict in found if verdict != "FILE_NO_HANDS"] == list(expected)


def test_row_18_a_repeat_has_the_same_id_and_content_whatever_its_date_and_names() -> None:
    """A re-import with another clock must be recognised as a repeat."""
    again = line(edited(hand(game_number="1"), "players/0/name", "other"), start_date_utc=None, table_name="elsewhere")
    first, second = read(ONE + b"\n\n" + again)
    assert isinstance(first, CanonicalHand)
    assert isinstance(second, CanonicalHand)
    assert (first.hand_id, first.content_hash) == (second.hand_id, second.content_hash)


@pytest.mark.parametrize(
    "changed",
    [
        edited(hand(), "players/2/starting_stack", 101.0),
        edited(hand(), "rounds/0/actions/0/cards", ["Ah", "Kc"]),
        edited(hand(), "rounds/1/cards", ["2c", "7d", "Tc"]),
        edited(edited(hand(), "rounds/3/actions/0/amount", 21.0), "pots/0/amount", 51.0),
        edited(hand(), "dealer_seat", 3),
    ],
    ids=["stack", "hole card", "board card", "bet", "button"],
)
def test_row_19_a_conflict_has_the_same_id_and_another_content(changed: dict[str, object]) -> None:
    """Ids are not trusted: two different hands under one id must be told from a repeat."""
    first, second = read(line() + b"\n\n" + line(changed))
    assert isinstance(first, CanonicalHand)
    assert isinstance(second, CanonicalHand), second
    assert first.hand_id == second.hand_id
    assert first.content_hash != second.content_hash


@pytest.mark.parametrize("record", [hand(game_number=""), deleted(hand(), "game_number"), hand(game_number=None)])
def test_row_20_without_a_game_number_the_content_is_the_id(record: dict[str, object]) -> None:
    """Hands without a number must not all become one hand."""
    (found,) = read(line(record))
    assert isinstance(found, CanonicalHand)
    assert found.hand_id == f"site/network#sha256:{found.content_hash}"


def test_rejects_tell_where_they_stand() -> None:
    """Someone has to find the record again."""
    bad = line(game_number="9", game_type="Omaha")
    results = read(ONE + b"\n\n" + bad + b"\n\n" + torn(pretty(), 300) + b"\n\n" + TWO)
    rejects = [result for result in results if isinstance(result, Reject)]
    assert [(reject.source, reject.line, reject.hand_id, reject.reason.value) for reject in rejects] == [
        ("file.ohh", 3, "site/network#9", "GAME_TYPE"),
        ("file.ohh", 5, "", "REC_TRUNCATED"),
    ]
    assert rejects[0].text == bad[:200].decode()
    assert "Omaha" in rejects[0].message


def test_row_82_a_file_without_one_good_hand_fails_with_its_codes() -> None:
    """Probably the wrong folder: a person has to hear of the file, not of a thousand records."""
    results = read(line(game_type="Omaha") + b"\n" + line(game_type="Stud") + b'\n{"ots":{}}\n')
    assert verdicts(results) == ["GAME_TYPE", "GAME_TYPE", "REC_NOT_OHH", "FILE_NO_HANDS"]
    last = results[-1]
    assert isinstance(last, Reject)
    assert last.reason.is_file_level
    assert last.line == 0
    assert "GAME_TYPE 2" in last.message


def test_row_83_one_good_hand_keeps_a_file() -> None:
    """Whether too many were refused is for whoever counts them."""
    assert verdicts(read(line(game_type="Omaha") + b"\n" + ONE)) == ["GAME_TYPE", NUMBER_ONE]
