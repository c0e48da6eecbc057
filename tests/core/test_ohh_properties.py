"""Properties of the parser over random legal hands, damaged bytes and arbitrary input."""

import io
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from range_reader_core.hand import CanonicalHand
from range_reader_core.ohh import parse_ohh
from range_reader_core.ohh_amounts import AmountMode
from range_reader_core.ohh_rejects import MAX_EXCERPT, Reject
from range_reader_core.replay import replay
from tests.core.ohh_hands import legal_hands, write_ohh
from tests.core.ohh_text import hand, line, pretty

SETTINGS: Final = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
PLAIN: Final = line()


def parse(data: bytes) -> list[CanonicalHand | Reject]:
    """Return everything a file yields, each result checked for its own promises."""
    results = list(parse_ohh(io.BytesIO(data), "file.ohh"))
    for found in results:
        if isinstance(found, CanonicalHand):
            assert replace(found) == found  # the parser builds hands unchecked; this runs the checks
            replay(found)
        else:
            assert len(found.text) <= MAX_EXCERPT
    return results


def plain(found: CanonicalHand) -> CanonicalHand:
    """Return a hand without what a writer cannot carry."""
    return replace(found, tags=frozenset(), content_hash="")


@SETTINGS
@given(legal_hands(), st.booleans(), st.booleans())
def test_a_written_hand_is_read_back(played: CanonicalHand, is_pretty: bool, is_exact: bool) -> None:
    """Both roads, exact and forgiving, must lead to the same hand."""
    (found,) = parse(write_ohh(played, is_pretty=is_pretty, is_exact=is_exact))
    assert isinstance(found, CanonicalHand), found
    assert plain(found) == played


@SETTINGS
@given(legal_hands())
def test_both_roads_give_one_content_hash(played: CanonicalHand) -> None:
    """A repeat in another layout must be known as a repeat."""
    exact, other = parse(write_ohh(played) + write_ohh(played, is_exact=False, is_pretty=True))
    assert isinstance(exact, CanonicalHand)
    assert isinstance(other, CanonicalHand)
    assert exact == other


@SETTINGS
@given(legal_hands())
def test_net_pots_give_the_same_events(played: CanonicalHand) -> None:
    """Whether the uncalled bet lies in the pot is bookkeeping."""
    (found,) = parse(write_ohh(played, is_net=True))
    assert isinstance(found, CanonicalHand), found
    assert found.events == played.events


@SETTINGS
@given(st.lists(legal_hands(max_players=5), min_size=1, max_size=4), st.sampled_from(AmountMode))
def test_a_file_is_read_in_the_reading_it_was_written_in(hands: Sequence[CanonicalHand], mode: AmountMode) -> None:
    """With clear hands beside them, hands that fit several readings come out as they were played."""
    # Raises and calls over own chips, so that each reading but one fails.
    clear = hand(
        [
            ("Preflop", "", ["1 Post SB 1", "2 Post BB 2", "0 Raise 6", "1 Raise 19", "2 Fold", "0 Raise 40", "1 Call 26"]),
            ("Flop", "2c 7d Ts", ["1 Bet 10", "0 Fold"]),
        ]
    )
    (known,) = parse(line(clear))
    assert isinstance(known, CanonicalHand)
    results = parse(b"".join(write_ohh(played, mode=mode) for played in [*hands, *[known] * 20]))
    assert [plain(found) for found in results if isinstance(found, CanonicalHand)] == [*hands, *[plain(known)] * 20]


@SETTINGS
@given(legal_hands())
def test_decisions_conserve_chips(played: CanonicalHand) -> None:
    """At every decision, what lies in the pot and behind the players is what they sat down with."""
    (found,) = parse(write_ohh(played))
    assert isinstance(found, CanonicalHand)
    for decision in replay(found):
        assert decision.pot_chips + sum(decision.stacks) == sum(found.stacks)
        assert decision.price_chips >= 0.0
        assert decision.is_live[decision.seat]


@SETTINGS
@given(st.data())
def test_no_damage_to_a_file_crashes_the_parser_or_loses_a_far_record(data: st.DataObject) -> None:
    """Whatever happens to one record, the one three records on is read."""
    records = [
        data.draw(st.sampled_from([line(game_number=str(index)), pretty(hand(game_number=str(index)))])) for index in range(4)
    ]
    victim = bytearray(records[0])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(victim)))
        piece = data.draw(
            st.one_of(st.binary(max_size=6), st.sampled_from([b'"', b"{", b"}", b"[", b"\\", b"\n", b"\n\n", b'{"ohh"']))
        )
        victim[place : place + data.draw(st.integers(0, 30))] = piece
    results = parse(b"\n\n".join([bytes(victim), *records[1:]]))
    ids = [found.hand_id for found in results if isinstance(found, CanonicalHand)]
    assert "site/network#3" in ids


@SETTINGS
@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_crash_the_parser(noise: bytes, is_beside_a_hand: bool) -> None:
    """Folders hold anything."""
    parse(noise + (b"\n" + PLAIN if is_beside_a_hand else b""))


JSON_VALUES: Final = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**25), 10**25),
        st.floats(),
        st.sampled_from(
            ["", "1", "-1", "1e5", "Preflop", "Turn", "Fold", "Raise", "Shows Cards", "Ah", "??", "NL", 1e308, -0.0, 2**63]
        ),
        st.text(max_size=5),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["id", "rank", "action", "x"]), inner, max_size=3)
    ),
    max_leaves=4,
)


def places(node: Any) -> list[tuple[Any, Any]]:
    """Return every container and key inside a JSON value."""
    items = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
    return [(node, key) for key, _ in items] + [place for _, child in items for place in places(child)]


@settings(SETTINGS, max_examples=150)
@given(st.data())
def test_no_value_in_any_field_crashes_the_parser(data: st.DataObject) -> None:
    """A wrong type anywhere is a reject with a code, never an exception."""
    record = {"ohh": hand()}
    for _ in range(data.draw(st.integers(1, 2))):
        container, key = data.draw(st.sampled_from(places(record)))
        container[key] = data.draw(JSON_VALUES)
    parse(json.dumps(record, indent=data.draw(st.sampled_from([None, 1]))).encode() + b"\n\n" + PLAIN)


@SETTINGS
@given(legal_hands(max_players=6), st.data())
def test_other_hidden_cards_change_no_event(played: CanonicalHand, data: st.DataObject) -> None:
    """Nothing the parser derives from the betting may depend on hole cards."""
    free = sorted(set(range(52)) - set(played.board))
    dealt = random.Random(data.draw(st.integers(0, 2**32))).sample(free, len(free))  # noqa: S311
    holes = tuple(
        None if pair is None else (min(dealt[2 * seat : 2 * seat + 2]), max(dealt[2 * seat : 2 * seat + 2]))
        for seat, pair in enumerate(played.hole_cards)
    )
    first, second = parse(write_ohh(played) + write_ohh(replace(played, hole_cards=holes)))
    assert isinstance(first, CanonicalHand)
    assert isinstance(second, CanonicalHand)
    assert replace(first, hole_cards=holes, content_hash=second.content_hash) == second
