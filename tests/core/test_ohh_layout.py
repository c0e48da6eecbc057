"""What C takes apart is what the structs say, to the bit, and what it is unsure of it leaves."""

import random
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from range_reader_core import ohh_tables
from range_reader_core.ohh_records import Lines
from range_reader_core.ohh_tables import OhhTables, tables_of
from tests.core.hands import random_hands
from tests.core.ohh_hands import write_ohh
from tests.core.ohh_text import hand, line

_ohh_layout = pytest.importorskip("range_reader_core._ohh_layout", reason="no C compiler when the package was installed")

GOOD = line(
    hand(
        [
            ("Preflop", "", ["1 Post SB 1", "2 Post BB 2", "0 Raise 6", "1 Raise 19", "2 Fold", "0 Call 13"]),
            ("Flop", "2c 7d Ts", ["1 Bet 10", "0 Fold"]),
        ]
    )
)


def compact(text: bytes) -> bytes:
    return text.replace(b'": ', b'":').replace(b", ", b",")


def lines_of(texts: list[bytes]) -> Lines:
    lengths = np.array([len(text) + 1 for text in texts], dtype=np.int64)
    ends = np.cumsum(lengths) - 1
    joined = b"".join(text + b"\n" for text in texts)
    return Lines(1, memoryview(joined), len(texts), ends - lengths + 1, ends, has_escapes=b"\\" in joined)


def num_fitting(text: bytes) -> int:
    """Return whether a line fits, having put it right before the end of its memory."""
    begin, end = np.zeros(1, dtype=np.int64), np.array([len(text)], dtype=np.int64)
    taken: int = _ohh_layout.take_apart(memoryview(text), begin.data, end.data, 0)[0]
    return taken


def by_structs(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> OhhTables:
    with monkeypatch.context() as patch:
        patch.setattr(ohh_tables, "_ohh_layout", None)
        return tables_of(lines, 0)


def assert_same(ours: OhhTables, theirs: OhhTables) -> None:
    for field in fields(OhhTables):
        one, other = getattr(ours, field.name), getattr(theirs, field.name)
        if isinstance(one, list):
            assert one == other, field.name
        else:
            assert (one.dtype, one.shape) == (other.dtype, other.shape), field.name
            assert one.tobytes() == other.tobytes(), field.name  # to the bit: 0.0 is not -0.0


def mutated(seed: int, count: int) -> Iterator[bytes]:
    """Yield hands with a byte or a few changed, many of which are still hands."""
    rng = random.Random(seed)  # noqa: S311
    pieces = [*(bytes([code]) for code in b'"{}],: \\\r\x00\xff019.-e'), b"null", b""]
    for played in random_hands(seed, count):
        text = bytearray(compact(write_ohh(played).strip()))
        for _ in range(rng.choice([0, 1, 1, 2])):
            place = rng.randrange(len(text))
            text[place : place + rng.choice([0, 1, 1, 1, 4])] = rng.choice(pieces)
        yield bytes(text)


def test_damaged_hands_come_out_as_the_structs_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte read as another number, or a torn line taken, would be a wrong hand that nothing notices."""
    texts = list(mutated(3, 1500))
    fitting = [text for text in texts if num_fitting(text)]
    assert 400 < len(fitting) < 1300
    assert_same(tables_of(lines_of(fitting), 0), by_structs(lines_of(fitting), monkeypatch))
    assert_same(tables_of(lines_of(texts), 0), by_structs(lines_of(texts), monkeypatch))


def test_whole_hands_fit() -> None:
    """Taking nothing apart would pass every comparison."""
    texts = [compact(write_ohh(played).strip()) for played in random_hands(4, 200)]
    lines = lines_of(texts)
    assert _ohh_layout.take_apart(lines.text, lines.starts.data, lines.ends.data, 0)[0] == 200
    assert num_fitting(texts[0] + b"\r") == 1


def test_no_beginning_of_a_hand_fits() -> None:
    """A file cut off anywhere must not be read beyond its end, nor as a hand."""
    text = compact(GOOD)
    assert num_fitting(text) == 1
    for length in range(len(text)):
        assert num_fitting(text[:length]) == 0


@pytest.mark.parametrize(
    ("number", "is_read"),
    [
        (b"0", True),
        (b"0.1", True),
        (b"1938.2673", True),
        (b"0.30000000000000004", True),
        (b"900719925474.0991", True),
        (b"9007199254740.993", True),
        (b"0.000000000000000001", True),
        (b"90071992547409.930012345678901", True),
        (b"0.1000000000000000055511151231257827021181583404541015625", False),  # longer than any writer's
        (b"1000000000000000", True),
        (b"1000000000000001", False),  # beyond what chips may be
        (b"99999999999999999999", False),
        (b"01", False),
        (b"00.5", False),
        (b"1.", False),
        (b".5", False),
        (b"-0.0", False),
        (b"-1", False),
        (b"1e2", False),
        (b"1.5E1", False),
        (b"+1", False),
        (b"NaN", False),
        (b"", False),
    ],
)
def test_chips_are_rounded_as_python_rounds_them(number: bytes, is_read: bool) -> None:
    """A stack that differs in the last bit makes other inputs of the same hand."""
    text = compact(GOOD)
    begin = text.index(b'"starting_stack":') + len(b'"starting_stack":')
    changed = text[:begin] + number + text[text.index(b",", begin) :]
    assert num_fitting(changed) == is_read
    if is_read:
        assert tables_of(lines_of([changed]), 0).stacks[0] == float(number)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"seat":1,', b'"seat":1,"seat":1,'),  # a repeated key
        (b'"seat":1,', b'"seat":01,'),
        (b'"seat":1,', b'"seat":1.0,'),
        (b'"seat":1,', b'"seat":9999999999999999999,'),
        (b'"Fold"', b'"Folds"'),
        (b'"Fold"', b'"fold"'),
        (b'"Flop"', b'"Fourth"'),
        (b'["2c","7d","Ts"]', b'["2c","7d","Tx"]'),
        (b'["2c","7d","Ts"]', b'["2c","7d",]'),
        (b'["2c","7d","Ts"]', b'["2c","7d","10s"]'),
        (b'"amount":6', b'"amount":"6'),
        (b'"Holdem"', b'"Hold\\u0065m"'),
        (b'"Holdem"', b'"Hold\xc3\xa9m"'),
        (b'"Holdem"', b'"Hold\nem"'),
        (b'"tournament":false', b'"tournament":0'),
        (b'{"ohh":{', b'{"ohh":{"more":1,'),
    ],
)
def test_what_differs_in_any_way_is_left(old: bytes, new: bytes) -> None:
    """This way must not decide what a strange line means."""
    text = compact(GOOD)
    assert old in text
    assert num_fitting(text.replace(old, new, 1)) == 0


@pytest.mark.parametrize(
    ("starts", "ends", "begin", "message"),
    [
        ([0], [10**6], 0, "outside of the text"),
        ([-1], [5], 0, "outside of the text"),
        ([6], [5], 0, "outside of the text"),
        ([0, 1], [5], 0, "differ in number"),
        ([0], [5], 2, "begin lies beyond"),
    ],
)
def test_impossible_places_are_refused(starts: Any, ends: Any, begin: int, message: str) -> None:
    """In C they would be read all the same."""
    places = [np.array(column, dtype=np.int64).data for column in (starts, ends)]
    with pytest.raises(ValueError, match=message):
        _ohh_layout.take_apart(memoryview(b"{}" * 10), *places, begin)
