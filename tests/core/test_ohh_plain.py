"""The fast way and the careful way read the same: same hands to the last bit, same order, same refusals."""

import io
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from range_reader_core import ohh_records, ohh_tables
from range_reader_core.cards import CARD_NAMES
from range_reader_core.hand import CanonicalHand
from range_reader_core.ohh import parse_ohh, read_ohh
from range_reader_core.ohh_actions import CODES
from range_reader_core.ohh_rejects import Reject, RejectReason
from range_reader_core.skeletons import NamedSkeletons, Skeletons, named_joined, skeletons_of
from tests.core.hands import random_hands
from tests.core.ohh_hands import legal_hands, write_ohh
from tests.core.ohh_text import hand, line, pretty

# Fits one reading of amounts alone, so that enough of them settle a source.
CLEAR: Final = hand(
    [
        ("Preflop", "", ["1 Post SB 1", "2 Post BB 2", "0 Raise 6", "1 Raise 19", "2 Fold", "0 Raise 40", "1 Call 26"]),
        ("Flop", "2c 7d Ts", ["1 Bet 10", "0 Fold"]),
    ]
)
PROLOGUE: Final = [line(CLEAR, game_number=f"clear{index}") for index in range(16)]


@pytest.fixture(autouse=True, params=["in C", "by structs"])
def lines_are_taken_apart(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have to read alike, since not every machine has a compiler."""
    if request.param == "by structs":
        monkeypatch.setattr(ohh_tables, "_ohh_layout", None)
    elif ohh_tables._ohh_layout is None:
        pytest.skip("there was no C compiler when the package was installed")


def read_both_ways(data: bytes) -> tuple[NamedSkeletons, list[Reject], int]:
    """Return hands, refusals and how many hands came the fast way, having compared the two ways."""
    parts: list[NamedSkeletons] = []
    single: list[CanonicalHand] = []
    refused: list[Reject] = []
    num_fast = 0
    for found in read_ohh(io.BytesIO(data), "file.ohh"):
        if isinstance(found, Reject):
            refused.append(found)
        elif isinstance(found, CanonicalHand):
            single.append(found)
        else:
            parts += [skeletons_of(single), found]
            single = []
            num_fast += found.num_hands
    seen = named_joined([*parts, skeletons_of(single)])
    results = list(parse_ohh(io.BytesIO(data), "file.ohh"))
    expected = skeletons_of([found for found in results if isinstance(found, CanonicalHand)])
    assert refused == [found for found in results if isinstance(found, Reject)]
    assert seen.hand_ids == expected.hand_ids
    assert named_sources(seen) == named_sources(expected)
    np.testing.assert_array_equal(seen.digests, expected.digests)
    for field in fields(Skeletons):
        ours, theirs = getattr(seen.skeletons, field.name), getattr(expected.skeletons, field.name)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs, err_msg=field.name)
    return seen, refused, num_fast


def named_sources(hands: NamedSkeletons) -> list[str]:
    return [hands.sources[index] for index in hands.source_index]


def hands_of(seed: int, count: int) -> list[CanonicalHand]:
    """Return random hands of the source that the prologue settles."""
    hands = random_hands(seed, count)
    return [replace(one, hand_id=f"site/network#{index}", source="site/network") for index, one in enumerate(hands)]


def file_of(lines: Sequence[bytes]) -> bytes:
    return b"\n\n".join([*PROLOGUE, *lines]) + b"\n"


def compact(record: Any) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(legal_hands(), min_size=1, max_size=8), st.booleans())
def test_legal_hands_read_alike(played: Sequence[CanonicalHand], is_net: bool) -> None:
    """Side pots, antes, straddles, short blinds and shown cards are where two ways could part."""
    lines = [write_ohh(one, is_net=is_net).strip() for one in played]
    seen, refused, _ = read_both_ways(file_of(lines))
    assert seen.num_hands == len(PROLOGUE) + len(played)
    assert not refused


def test_most_legal_hands_come_the_fast_way() -> None:
    """A fast way that takes nothing would pass every comparison."""
    lines = [write_ohh(one).strip() for one in hands_of(3, 300)]
    seen, _, num_fast = read_both_ways(file_of(lines))
    assert seen.num_hands == len(PROLOGUE) + 300
    assert num_fast > 290


def nudge(rng: random.Random, record: Any) -> None:
    """Change one number of chips, by little or much."""
    chips = [(player, "starting_stack") for player in record["players"]]
    chips += [(action, "amount") for played in record["rounds"] for action in played["actions"]]
    chips += [(pot, "amount") for pot in record["pots"]]
    chips += [(win, "win_amount") for pot in record["pots"] for win in pot["player_wins"]]
    chips += [(record, name) for name in ("small_blind_amount", "big_blind_amount", "ante_amount")]
    where, name = rng.choice(chips)
    amount = where[name]
    where[name] = rng.choice(
        [0, 0.0, -0.0, amount + 0.25, amount - 0.25, amount * 2, amount * (1 + 4e-6), amount * (1 + 3e-5), 1e300, None, -1.0]
    )


def relabel(rng: random.Random, record: Any) -> None:
    """Change what an action is called, or whether it is flagged all-in."""
    action = rng.choice(all_actions(record))
    if rng.random() < 0.7:
        action["action"] = rng.choice([*CODES, "Dances"])
    else:
        action["is_allin"] = rng.choice([True, False, None])


def reorder(rng: random.Random, record: Any) -> None:
    """Move, repeat or drop an action, or give it to somebody else."""
    actions = rng.choice([played["actions"] for played in record["rounds"] if played["actions"]])
    place = rng.randrange(len(actions))
    what = rng.randrange(4)
    if what == 0:
        del actions[place]
    elif what == 1:
        actions.insert(rng.randrange(len(actions) + 1), dict(actions[place]))
    elif what == 2:
        actions.insert(rng.randrange(len(actions)), actions.pop(place))
    else:
        actions[place]["player_id"] = rng.choice([0, 1, 2, 7, -1, 300, "1", None, 2**70])


def reseat(rng: random.Random, record: Any) -> None:
    """Change seats, ids, sitting out, the button or who wins."""
    player = rng.choice(record["players"])
    what = rng.randrange(6)
    if what == 0:
        player["seat"] = rng.choice([0, 1, 2, 3, -1, 99, 2**40])
    elif what == 1:
        player["id"] = rng.choice([0, 1, 2, 5, 1000, "a"])
    elif what == 2:
        player["is_sitting_out"] = not player["is_sitting_out"]
    elif what == 3:
        record["dealer_seat"] = rng.choice([0, 1, 2, 3, 4, 9, -1])
    elif what == 4:
        record["players"].reverse()
    else:
        for pot in record["pots"]:
            for win in pot["player_wins"]:
                win["player_id"] = rng.choice([0, 1, 2, 3, 9])


def redeal(rng: random.Random, record: Any) -> None:
    """Change cards: another one, one too many, hidden, shown, or on another street."""
    played = rng.choice(record["rounds"])
    action = rng.choice(all_actions(record))
    what = rng.randrange(5)
    if what == 0 and played.get("cards"):
        played["cards"][rng.randrange(len(played["cards"]))] = rng.choice([*CARD_NAMES, "??", "10h"])
    elif what == 1:
        played["cards"] = rng.choice([[], None, rng.sample(CARD_NAMES, 1), rng.sample(CARD_NAMES, 3)])
    elif what == 2:
        action["cards"] = rng.choice([[], None, rng.sample(CARD_NAMES, 1), rng.sample(CARD_NAMES, 2), ["Ah", "Ah"], ["??", "??"]])
    elif what == 3:
        cards = next((one["cards"] for one in all_actions(record) if one.get("cards")), rng.sample(CARD_NAMES, 2))
        name = rng.choice(["Shows Cards", "Mucks Cards", "Dealt Cards"])
        player = rng.choice([0, 1, 2])
        played["actions"].append(
            {"action_number": 9, "player_id": player, "action": name, "amount": 0.0, "is_allin": False, "cards": cards}
        )
    else:
        action.pop("cards", None)


def rearrange(rng: random.Random, record: Any) -> None:
    """Rename, drop, repeat or reorder rounds, pots and what surrounds them."""
    rounds = record["rounds"]
    what = rng.randrange(8)
    if what == 0:
        rng.choice(rounds)["street"] = rng.choice(["Preflop", "Flop", "Turn", "River", "Showdown", "Fourth"])
    elif what == 1 and len(rounds) > 1:
        del rounds[rng.randrange(len(rounds))]
    elif what == 2:
        rounds.append(json.loads(json.dumps(rng.choice(rounds))))
    elif what == 3:
        rng.shuffle(rounds)
    elif what == 4:
        record["pots"] = rng.choice([[], record["pots"] * 2])
    elif what == 5:
        name, value = rng.choice(
            [("game_type", "Omaha"), ("tournament", True), ("bet_limit", {"bet_type": "PL", "bet_cap": 0.0}), ("game_number", "")]
        )
        record[name] = value
    elif what == 6:
        record[rng.choice(list(record))] = rng.choice([None, "x", 1, "a:b", "back\\slash", "\N{BLACK SPADE SUIT}"])
    else:
        record["flags"] = ["Bomb_Pot"]


def all_actions(record: Any) -> list[Any]:
    return [action for played in record["rounds"] for action in played["actions"]]


MUTATIONS: Final[list[Callable[[random.Random, Any], None]]] = [nudge, relabel, reorder, reseat, redeal, rearrange]


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_mutated_hands_read_alike(mutate: Callable[[random.Random, Any], None]) -> None:
    """An impossible hand that the fast way takes, or another hand than the careful way makes of it, is a wrong label."""
    rng = random.Random(mutate.__name__)  # noqa: S311
    lines = []
    for played in hands_of(17, 250):
        record = json.loads(write_ohh(played))
        mutate(rng, record["ohh"])
        lines.append(compact(record))
    seen, refused, num_fast = read_both_ways(file_of(lines))
    assert seen.num_hands + sum(reject.reason is not RejectReason.REC_JSON for reject in refused) >= len(lines)
    assert num_fast > 10
    assert num_fast < len(lines) - 20


def test_damaged_bytes_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks like an object from afar may be torn, doubled or escaped within."""
    monkeypatch.setattr(ohh_records, "BLOCK_BYTES", 12_000)
    rng = random.Random(5)  # noqa: S311
    pieces = [b'"', b"{", b"}", b"}}", b"\\", b"\\u003a", b":", b",", b"\r", b"\xff", b"0", b'{"ohh":', b'"id":1,"id":2']
    lines = []
    for played in hands_of(18, 400):
        text = bytearray(write_ohh(played).strip())
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            place = rng.randrange(2, len(text) - 2)
            text[place : place + rng.choice([0, 1, 1, 5, 60])] = rng.choice(pieces)
        lines.append(bytes(text))
    seen, refused, num_fast = read_both_ways(file_of(lines))
    assert seen.num_hands > 100
    assert len(refused) > 50
    assert num_fast > 50


def test_a_repeated_key_is_refused_even_beside_an_escaped_colon() -> None:
    """The count of keys goes by colons, and one that is written in escapes must not make room for another."""
    good = line(CLEAR, game_number="1")
    twice = good.replace(b'"seat":1,', b'"seat":1,"seat":1,').replace(b"2026-01-01T00:00", b"2026-01-01T00\\u003a00")
    _, refused, _ = read_both_ways(file_of([good, twice, good]))
    assert [reject.reason for reject in refused] == [RejectReason.REC_DUP_KEY]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n", b"\r\n\r\n"])
def test_ends_of_lines_do_not_matter(end: bytes) -> None:
    """Files from Windows have carriage returns; the last line may have no end at all."""
    lines = [write_ohh(one).strip() for one in hands_of(4, 40)]
    data = end.join([*PROLOGUE, *lines[:20], b'{"ohh":{"torn', b'{"x":{}}', *lines[20:]])
    seen, refused, num_fast = read_both_ways(b"\xef\xbb\xbf" + data)
    assert seen.num_hands == len(PROLOGUE) + 40
    assert len(refused) == 2
    seen, _, num_fast = read_both_ways(end.join([*PROLOGUE, *lines]))
    assert num_fast > 30


def test_a_source_met_later_is_settled_before_its_hands_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second site in a file may write street totals; its hands must wait for their votes, and nothing overtakes them."""
    monkeypatch.setattr(ohh_records, "BLOCK_BYTES", 60_000)
    hands = hands_of(6, 120)
    lines = [write_ohh(one).strip() for one in hands]
    others = [line(CLEAR, game_number=f"o{index}", site_name="other") for index in range(20)]
    mixed = [*lines[:30], others[0], *lines[30:60], *others[1:], *lines[60:]]
    seen, refused, num_fast = read_both_ways(file_of(mixed))
    assert seen.num_hands == len(PROLOGUE) + 140
    assert not refused
    assert num_fast > 60


def test_street_totals_are_left_to_the_careful_way() -> None:
    """The fast way knows chips added and nothing else."""
    totals = hand(
        [
            ("Preflop", "", ["1 Post SB 1", "2 Post BB 2", "0 Raise 6", "1 Raise 20", "2 Fold", "0 Raise 46", "1 Call 46"]),
            ("Flop", "2c 7d Ts", ["1 Bet 10", "0 Fold"]),
        ],
        pot=104.0,
        wins={1: 104.0},
    )
    data = b"\n".join(line(totals, game_number=str(index)) for index in range(60))
    seen, refused, num_fast = read_both_ways(data)
    assert (seen.num_hands, len(refused), num_fast) == (60, 0, 0)


@pytest.mark.parametrize("make_id", [lambda seat: 7 * seat + 3, lambda seat: 2**40 - seat, lambda seat: f"p{seat}", lambda _: 4])
def test_player_ids_are_only_ids(make_id: Callable[[int], Any]) -> None:
    """Trackers number players as they come; their ids say nothing of the seat."""
    lines = []
    for one in hands_of(8, 60):
        record = json.loads(write_ohh(one))
        for place, player in enumerate(record["ohh"]["players"]):
            player["id"] = make_id(place)
        for action in all_actions(record["ohh"]):
            action["player_id"] = make_id(action["player_id"])
        for win in record["ohh"]["pots"][0]["player_wins"]:
            win["player_id"] = make_id(win["player_id"])
        lines.append(compact(record))
    _, _, num_fast = read_both_ways(file_of(lines))
    is_number_of_its_own = isinstance(make_id(0), int) and make_id(0) != make_id(1)
    assert (num_fast > 50) is is_number_of_its_own


def test_objects_across_blocks_and_printed_on_many_lines_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks end anywhere in what is no line of its own."""
    monkeypatch.setattr(ohh_records, "BLOCK_BYTES", 5_000)
    lines = [write_ohh(one).strip() for one in hands_of(9, 60)]
    printed = pretty(CLEAR)
    data = file_of([*lines[:20], printed, printed[:400], *lines[20:40], printed.replace(b"\n", b"\r\n"), *lines[40:]])
    seen, refused, num_fast = read_both_ways(data)
    assert seen.num_hands == len(PROLOGUE) + 62
    assert [reject.reason for reject in refused] == [RejectReason.REC_TRUNCATED]
    assert num_fast > 10


def test_golden_hands_read_alike() -> None:
    """Each odd real hand was once misread."""
    golden = Path(__file__).parents[1] / "golden" / "ohh"
    texts = [path.read_text() for path in sorted(golden.glob("*.txt"))]
    lines = [compact(json.loads(text)) for text in texts]
    seen, _, _ = read_both_ways(file_of(lines))
    assert seen.num_hands == len(PROLOGUE) + len(lines) > len(PROLOGUE) + 4


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (b'"seat":3', b'"seat":18446744073709551616', "SEATS"),
        (b'"seat":1', b'"seat":-9223372036854775809', "SEATS"),
        (b'"seat":3', b'"seat":1' + b"0" * 400, "SEATS"),
        (b'"seat":3', b'"seat":1e300', "SEATS"),
        (b'"id":2', b'"id":1' + b"0" * 400, "PLAYERS"),
        (b'"dealer_seat":1', b'"dealer_seat":1e400', "TYPE"),
        (b'"big_blind_amount":2.0', b'"big_blind_amount":5e-324', "NO_BLINDS"),
        (b'"big_blind_amount":2.0', b'"big_blind_amount":0.0000009', "NO_BLINDS"),
        (b'"game_number":"1"', b'"game_number":"' + b"9" * 300 + b'"', "TYPE"),
        (b'"site_name":"site"', b'"site_name":"' + b"s" * 300 + b'"', "TYPE"),
        (b'"action":"Fold","amount":0.0', b'"action":"\\ud83d","amount":-1', "BAD_NUMBER"),
        (b'"street":"Flop"', b'"street":"' + b"F" * 100_000 + b'"', "STREET"),
    ],
)
def test_extremes_cost_their_own_record_and_can_be_stored(old: bytes, new: bytes, code: str) -> None:
    """Numbers beyond 64 bits, halves of an emoji and names of megabytes ended the ingestion of a whole folder."""
    good = line(CLEAR, game_number="1")
    assert old in good
    seen, refused, num_fast = read_both_ways(file_of([good, good.replace(old, new, 1), good]))
    assert [reject.reason for reject in refused] == [code]
    assert len(refused[0].message.encode()) <= 400
    assert len(refused[0].hand_id) <= 300
    assert seen.num_hands == len(PROLOGUE) + 2
    assert num_fast >= 1


def test_names_that_no_utf8_can_hold_are_kept_as_escapes() -> None:
    """A writer that cuts a text in the middle of an emoji means a name all the same, and ids are hashed and stored."""
    good = line(CLEAR, game_number="1")
    names = [b'"a\\ud83d"', b'"a\\ude00"', b'"\\ud83d\\ude00"']
    seen, refused, _ = read_both_ways(file_of([good.replace(b'"1"', name, 1) for name in names]))
    assert not refused
    assert seen.hand_ids[-3:] == ("site/network#a\\ud83d", "site/network#a\\ude00", "site/network#\U0001f600")


@pytest.mark.parametrize("big_blind", [b"0.000001", b"1e-6"])
def test_stacks_in_big_blinds_stay_finite(big_blind: bytes) -> None:
    """An infinite input makes every number of a training batch meaningless."""
    good = line(CLEAR, game_number="1").replace(b'"starting_stack":200.0', b'"starting_stack":1000000000000000.0')
    seen, refused, _ = read_both_ways(file_of([good.replace(b'"big_blind_amount":2.0', b'"big_blind_amount":' + big_blind)]))
    assert not refused
    assert np.isfinite(seen.skeletons.values).all()
