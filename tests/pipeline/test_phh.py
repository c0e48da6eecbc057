"""PHH notation: every case file, every code, damaged containers, PokerKit's own writing, and hostile bytes."""

import io
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pokerkit import Automation, HandHistory, Mode, NoLimitTexasHoldem, State

from range_reader_core.hand import CanonicalHand, LabelSource
from range_reader_core.ohh_rejects import Reject, RejectReason
from range_reader_core.replay import replay
from range_reader_pipeline.phh import MAX_RECORD_BYTES, parse_phh
from tests.core.hands import parse_event, parse_hole, random_hands, shown_cards_only, three_way_showdown
from tests.pipeline.phh_writer import write_phhs

CASES = Path(__file__).parent / "phh_cases"

BASE = """variant = 'NT'
antes = [0, 0, 0]
blinds_or_straddles = [1, 2, 0]
min_bet = 2
starting_stacks = [200, 150, 100]
actions = ['d dh p1 AhAd', 'd dh p2 9c8c', 'd dh p3 ????', 'p3 cbr 6', 'p1 f', 'p2 cc', 'd db 2c7dTs', 'p2 cc', 'p3 cbr 8', 'p2 f']
venue = 'Brook'
hand = 12
seats = [4, 5, 1]
winnings = [0, 0, 13]
"""


@pytest.mark.parametrize("path", sorted(CASES.glob("*.phh")), ids=lambda path: path.stem)
def test_a_case_file_reads_as_its_comments_say(path: Path) -> None:
    """Each case is a way of writing a hand that a reader can get wrong without any error."""
    with path.open("rb") as stream:
        (hand,) = parse_phh(stream, path.name)
    assert isinstance(hand, CanonicalHand), hand
    expected = dict(line[2:].split(": ", 1) for line in path.read_text().splitlines() if line.startswith("# ") and ": " in line)
    assert expected["verdict"] == "accept"
    assert hand.button == int(expected["button"])
    assert hand.events == tuple(parse_event(text) for text in expected["events"].split(" | "))
    known = [text.split() for text in expected["holes"].split(",")]
    assert hand.hole_cards == tuple(None if text == ["-"] else parse_hole(text[0]) for text in known)
    assert hand.label_sources == tuple(None if text == ["-"] else LabelSource(text[1]) for text in known)
    assert hand.collected == tuple(map(float, expected["collected"].split()))
    assert hand.tags == frozenset(expected.get("tags", "").split())
    if "seats" in expected:
        assert hand.seat_numbers == tuple(map(int, expected["seats"].split()))
    if "blinds" in expected:
        assert (hand.small_blind, hand.big_blind) == tuple(map(float, expected["blinds"].split()))
    assert hand.ante == float(expected.get("ante", "0"))
    assert hand.hand_id.startswith(expected.get("hand_id", "phh#sha256:"))
    assert replay(hand)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("'NT'", "'FT'", RejectReason.BET_TYPE),
        ("'NT'", "'PO'", RejectReason.GAME_TYPE),
        ("'NT'", "'NS'", RejectReason.GAME_TYPE),
        ("variant = 'NT'\n", "", RejectReason.TYPE),
        ("min_bet = 2\n", "", RejectReason.TYPE),
        ("min_bet = 2", "min_bet = 0", RejectReason.NO_BLINDS),
        ("[1, 2, 0]", "[0, 0, 0]", RejectReason.NO_BLINDS),
        ("min_bet = 2", "min_bet = '2'", RejectReason.TYPE),
        ("[0, 0, 0]", "[0, 0]", RejectReason.TYPE),
        ("[0, 0, 0]", "[0, -1, 0]", RejectReason.BAD_NUMBER),
        ("[0, 0, 0]", "0", RejectReason.TYPE),
        ("[200, 150, 100]", "[200]", RejectReason.PLAYERS),
        ("[200, 150, 100]", "[200, 150, inf]", RejectReason.BAD_NUMBER),
        ("[200, 150, 100]", "[200, 150, nan]", RejectReason.BAD_NUMBER),
        ("[200, 150, 100]", "[200, 150, 0]", RejectReason.BAD_NUMBER),
        ("[200, 150, 100]", "[200, 150, true]", RejectReason.TYPE),
        ("[200, 150, 100]", "[200, 150, 1e308]", RejectReason.BAD_NUMBER),
        ("[200, 150, 100]", "[200, 150, 1e-40]", RejectReason.BAD_NUMBER),
        ("[200, 150, 100]", f"[200, 150, 0x{'f' * 5000}]", RejectReason.BAD_NUMBER),
        ("[200, 150, 100]", f"[{', '.join(['200'] * 17)}]", RejectReason.TOO_MANY),
        ("actions = [", "actions = [3, ", RejectReason.TYPE),
        ("'p3 cbr 6'", "'p3 cbr 101'", RejectReason.ILLEGAL_ACTION),
        ("'p3 cbr 6'", "'p3 cbr 3'", RejectReason.ILLEGAL_ACTION),
        ("'p3 cbr 6'", "'p1 cbr 6'", RejectReason.ILLEGAL_ACTION),
        ("'p3 cbr 6'", "'p3 cbr -6'", RejectReason.BAD_NUMBER),
        ("'p3 cbr 6'", "'p3 cbr six'", RejectReason.BAD_NUMBER),
        ("'p3 cbr 6'", "'p3 jumps'", RejectReason.UNKNOWN_ACTION),
        ("'p3 cbr 6'", "'p0 cbr 6'", RejectReason.UNKNOWN_ACTION),
        ("'p3 cbr 6'", "'p9 cbr 6'", RejectReason.PLAYERS),
        ("'p2 cc', 'd db", "'d db", RejectReason.ILLEGAL_ACTION),
        ("'d db 2c7dTs', 'p2 cc', 'p3 cbr 8', 'p2 f'", "'d db 2c7dTs'", RejectReason.INCOMPLETE),
        ("'p3 cbr 8', 'p2 f'", "'p3 cc', 'd db Kh', 'p2 cc', 'p3 cc'", RejectReason.INCOMPLETE),
        ("p1 AhAd", "p1 Ah9c", RejectReason.DUP_CARD),
        ("2c7dTs", "2c7dAh", RejectReason.DUP_CARD),
        ("2c7dTs", "2c7d??", RejectReason.BAD_CARD),
        ("2c7dTs", "2c7d1s", RejectReason.BAD_CARD),
        ("2c7dTs", "2c7dT", RejectReason.BAD_CARD),
        ("2c7dTs", "2c7dTsKh", RejectReason.ILLEGAL_ACTION),
        ("p1 AhAd", "p1 AhAdAs", RejectReason.GAME_TYPE),
        ("'p2 f']", "'p2 f', 'p2 sm AsKs']", RejectReason.BAD_CARD),
        ("[4, 5, 1]", "[4, 4, 1]", RejectReason.SEATS),
        ("[4, 5, 1]", "[4, 5]", RejectReason.TYPE),
        ("[4, 5, 1]", f"[4, 5, 0x{'f' * 5000}]", RejectReason.TYPE),
        ("[0, 0, 13]", "[0, 0, 40]", RejectReason.POT_MISMATCH),
        ("[0, 0, 13]", "[0, 0, 4]", RejectReason.POT_MISMATCH),
        ("[0, 0, 13]", "[0, 13, 0]", RejectReason.WINNER),
        ("[0, 0, 13]", "[0, 0, 13]\nfinishing_stacks = [199, 144, 90]", RejectReason.POT_MISMATCH),
        ("[0, 0, 13]", "[0, 0, 13]\nfinishing_stacks = [199, 157, 94]", RejectReason.POT_MISMATCH),
        ("min_bet = 2\n", "min_bet = 2\nmin_bet = 3\n", RejectReason.REC_DUP_KEY),
        ("min_bet = 2\n", "min_bet = \n", RejectReason.REC_TRUNCATED),
        ("min_bet = 2\n", f"min_bet = 2\n_deep = {'[' * 5000}\n", RejectReason.REC_TRUNCATED),
        ("min_bet = 2\n", f"min_bet = 2\n{'a.' * 100_000}a = 1\n", RejectReason.REC_TOML),
        ("min_bet = 2\n", f"min_bet = 2\n{'#' * 100_000}\nx\n", RejectReason.REC_TRUNCATED),
        ("min_bet = 2\n", "min_bet = 2\n_number = 1e999999999999999999999\n", RejectReason.REC_TRUNCATED),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_code(old: str, new: str, reason: RejectReason) -> None:
    """A hand that does not add up must cost one row in the table of rejects, not a crash and not a wrong label."""
    assert old in BASE
    first, last = parse_phh(io.BytesIO(BASE.replace(old, new, 1).encode()), "case.phh")
    assert isinstance(first, Reject)
    assert isinstance(last, Reject)
    assert (first.reason, first.line, first.source) == (reason, 1, "case.phh"), first
    assert first.text.startswith("variant =") or reason is RejectReason.TYPE
    assert last.reason is RejectReason.FILE_NO_HANDS


def test_a_bad_hand_in_a_file_costs_only_itself() -> None:
    """TOML has no second chance: one stray quote in one of a million hands must not lose the others."""
    good = [f"[{number}]\n{BASE.replace('hand = 12', f'hand = {number}')}" for number in range(1, 6)]
    torn = good[2][:200] + "\n\n"
    data = "".join([good[0], good[1], torn, good[3], good[4][:-30]]).encode()
    results = list(parse_phh(io.BytesIO(data), "many.phhs"))
    assert [result.hand_id for result in results if isinstance(result, CanonicalHand)] == ["Brook#1", "Brook#2", "Brook#4"]
    rejects = [result for result in results if isinstance(result, Reject)]
    assert [(reject.reason, reject.line) for reject in rejects] == [(RejectReason.REC_TOML, 23), (RejectReason.REC_TRUNCATED, 42)]


@pytest.mark.parametrize(
    "rewrite",
    [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("[1]", "# two hands\n\n[1] # the first"),
        lambda text: text.replace("[2]", " [ second-hand ]"),
        lambda text: text.replace("[1]\n", ""),
    ],
    ids=["plain", "crlf", "bom", "no_last_newline", "comments", "named_section", "no_first_header"],
)
def test_a_container_reads_the_same_however_it_is_written(rewrite: object) -> None:
    """Editors and converters differ in line ends, marks and headers, never in the hands."""
    assert callable(rewrite)
    text = f"[1]\n{BASE}\n\n[2]\n{BASE.replace('hand = 12', 'hand = 13')}"
    expected = list(parse_phh(io.BytesIO(text.encode()), "many.phhs"))
    assert [hand.hand_id for hand in expected] == ["Brook#12", "Brook#13"]
    assert list(parse_phh(io.BytesIO(rewrite(text).encode()), "many.phhs")) == expected


def test_bytes_that_are_no_text_are_refused_where_they_stand() -> None:
    """A file of another encoding is one refusal; a bad byte inside a hand is that hand's."""
    (whole,) = parse_phh(io.BytesIO(BASE.encode("utf-16")), "wide.phh")
    assert isinstance(whole, Reject)
    assert (whole.reason, whole.line) == (RejectReason.FILE_ENCODING, 0)
    data = b"[1]\n" + BASE.encode().replace(b"Brook", b"Br\xffok") + b"[2]\n" + BASE.encode()
    bad, good = parse_phh(io.BytesIO(data), "many.phhs")
    assert isinstance(bad, Reject)
    assert bad.reason is RejectReason.REC_ENCODING
    assert isinstance(good, CanonicalHand)


@pytest.mark.parametrize("data", [b"", b"\n\n", b"# no hands tonight\n", b"\xef\xbb\xbf"])
def test_a_file_without_hands_is_no_error(data: bytes) -> None:
    """An empty session file must not fail the catalogue."""
    assert list(parse_phh(io.BytesIO(data), "empty.phhs")) == []


def test_an_endless_line_takes_bounded_memory() -> None:
    """A file of one line must not take its own size in memory before it is refused."""
    size = 256 * MAX_RECORD_BYTES

    class Endless(io.RawIOBase):
        left = size

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
            count = min(len(buffer), self.left)
            buffer[:count] = b"x" * count
            self.left -= count
            return count

    tracemalloc.start()
    first, last = parse_phh(io.BufferedReader(Endless()), "endless.phhs")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(first, Reject)
    assert isinstance(last, Reject)
    assert first.reason is RejectReason.REC_TOO_LARGE
    assert last.reason is RejectReason.FILE_NO_HANDS
    assert peak < 16 * MAX_RECORD_BYTES


@pytest.mark.parametrize("num_players", [None, 2, 10, 16])
def test_hands_survive_the_round_trip(num_players: int | None) -> None:
    """Seats, cards, labels, order and amounts are the training data: a shift by one seat would teach nonsense quietly."""
    hands = [*random_hands(7, 60 if num_players is None else 20, num_players), three_way_showdown(), shown_cards_only()]
    results = list(parse_phh(io.BytesIO(write_phhs(hands)), "hands.phhs"))
    assert len(results) == len(hands)
    num_equal = 0
    for hand, result in zip(hands, results, strict=True):
        if isinstance(result, Reject):
            assert "no reason to complete, bet, or raise" in result.message  # PokerKit allows no raise that nobody can answer
            continue
        for field in ("hand_id", "seat_numbers", "button", "small_blind", "big_blind", "stacks", "hole_cards", "label_sources"):
            assert getattr(result, field) == getattr(hand, field), (hand.hand_id, field)
        assert result.events == hand.events
        replay(result)
        num_equal += 1
    assert num_equal >= 0.95 * len(hands)


def test_showdown_lines_change_labels_alone() -> None:
    """What is shown at the end must not reach the record of the betting, which becomes the model's input."""
    text = (CASES / "all_in_shown_mid_hand.phh").read_text()
    (shown,) = parse_phh(io.BytesIO(text.encode()), "shown.phh")
    (hidden,) = parse_phh(io.BytesIO(text.replace("'p1 sm AhAd', 'p3 sm TdTc', ", "").encode()), "hidden.phh")
    (other,) = parse_phh(io.BytesIO(text.replace("p3 sm TdTc", "p3 sm 6d6c").encode()), "other.phh")
    assert isinstance(shown, CanonicalHand)
    assert isinstance(hidden, CanonicalHand)
    assert isinstance(other, CanonicalHand)
    assert shown.events == hidden.events == other.events
    assert hidden.hole_cards[2] is None
    assert shown.hole_cards[2] != other.hole_cards[2]


def test_what_pokerkit_writes_is_read_to_its_own_stacks() -> None:
    """Antes, straddles, posts and side pots of PokerKit's making, any table size: the chips left must be its own."""
    rng = np.random.default_rng(11)
    tables = [_played_at_random(rng, int(rng.integers(2, 11))) for _ in range(60)]
    data = HandHistory.dumps_all(history for history, _ in tables).encode()
    results = list(parse_phh(io.BytesIO(data), "pokerkit.phhs"))
    seen: Counter[str] = Counter()
    for (history, state), hand in zip(tables, results, strict=True):
        assert isinstance(hand, CanonicalHand), hand
        put_in = [0.0] * hand.num_players
        for event in hand.events:
            if event.seat >= 0:
                put_in[event.seat] += event.chips
        # Nobody has been paid yet, but what nobody matched is back: at most one seat differs, by the uncalled bet.
        ours = [stack - chips for stack, chips in zip(hand.stacks, put_in, strict=True)]
        differences = [float(theirs) - mine for theirs, mine in zip(state.stacks, ours, strict=True)]
        assert min(differences) >= 0
        assert sum(difference > 0 for difference in differences) <= 1
        assert hand.board == tuple(card for event in hand.events for card in event.board)
        assert len(replay(hand)) == sum(text.split()[1] in ("f", "cc", "cbr") for text in history.actions)
        seen.update(hand.tags)
        seen["all-in"] += any(event.is_all_in for event in hand.events)
        seen["showdown"] += "no_pots" in hand.tags
    assert min(seen[what] for what in ("extra_post", "all-in", "showdown")) > 5, seen


def _played_at_random(rng: np.random.Generator, n: int) -> tuple[HandHistory, State]:
    """Return a hand of random legal actions as PokerKit records it, and PokerKit's state before anyone is paid."""
    blinds = [1, 2] + [0] * (n - 2)
    if n > 3 and rng.random() < 0.5:
        blinds[2] = int(rng.choice([4, -2]))
    game = NoLimitTexasHoldem(
        (
            Automation.ANTE_POSTING,
            Automation.BLIND_OR_STRADDLE_POSTING,
            Automation.BET_COLLECTION,
            Automation.HOLE_DEALING,
            Automation.BOARD_DEALING,
            Automation.CARD_BURNING,
            Automation.RUNOUT_COUNT_SELECTION,
            Automation.HOLE_CARDS_SHOWING_OR_MUCKING,
        ),
        False,
        int(rng.choice([0, 1])),
        blinds,
        2,
        mode=Mode.CASH_GAME,
    )
    stacks = [Decimal(int(chips)) / 4 for chips in rng.integers(8, 800, n)]
    state = game(stacks, n)
    while state.actor_index is not None:
        choice = rng.random()
        if choice < 0.25 and state.can_complete_bet_or_raise_to():
            least = state.min_completion_betting_or_raising_to_amount
            most = state.max_completion_betting_or_raising_to_amount
            assert least is not None
            assert most is not None
            state.complete_bet_or_raise_to(most if rng.random() < 0.3 else min(most, least + int(rng.integers(20))))
        elif choice < 0.4 and state.checking_or_calling_amount:
            state.fold()
        else:
            state.check_or_call()
    return HandHistory.from_game_state(game, state), state


def _mutations() -> Iterator[bytes]:
    yield from (b"[", b"]", b"'", b"\n", b"\x00", b"\xff", b"9", b"-", b"e9", b"??", b"p", b" sm ", b"#", b"=", b"inf", b"d db ")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(list(_mutations()))), min_size=1, max_size=6))
def test_no_mutation_of_a_file_crashes_the_reader(cuts: list[tuple[float, int, bytes]]) -> None:
    """Files come from strangers: each record of a damaged one is a hand that adds up or a reject, and never an exception."""
    data = b"[1]\n" + BASE.encode() + b"\n[2]\n" + (CASES / "all_in_shown_mid_hand.phh").read_bytes()
    for place, length, inserted in cuts:
        start = int(place * len(data))
        data = data[:start] + inserted + data[start + length :]
    for result in parse_phh(io.BytesIO(data), "mutated.phhs"):
        if isinstance(result, CanonicalHand):
            replay(result)
        else:
            assert len(result.text) <= 200
            assert result.message
