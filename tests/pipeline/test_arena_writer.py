"""Arena hands as files: the layout of rs-poker's arena, and the parser reads back what was played."""

import io
import json

import numpy as np

from range_reader_core.arena.deal import PlayedHands, TableSettings
from range_reader_core.hand import CanonicalHand, EventKind
from range_reader_core.ohh import parse_ohh
from range_reader_pipeline.arena_writer import NETWORK, SITE, game_numbers, hand_id, hand_lines
from tests.core.arena.books import built_in_book, style_hands

SETTINGS = TableSettings(max_players=10, ante=10, straddle_share=0.4, min_stack_bb=1.0, max_stack_bb=60.0)

KEYS = [
    *("spec_version", "site_name", "network_name", "internal_version", "tournament", "game_number", "start_date_utc"),
    *("table_name", "game_type", "bet_limit", "table_size", "currency", "dealer_seat"),
    *("small_blind_amount", "big_blind_amount", "ante_amount", "players", "rounds", "pots"),
]


def written(hands: PlayedHands, styles: np.ndarray) -> tuple[str, list[str]]:
    """Return the text of hands and their numbers."""
    names = built_in_book().names
    numbers = game_numbers(len(styles), np.random.default_rng(7))
    players = [[f"{names[style]}-{seat}" for seat, style in enumerate(row)] for row in styles.tolist()]
    return "".join(hand_lines(hands, player_names=players, numbers=numbers, first_index=0)), numbers


def test_the_parser_reads_what_was_played() -> None:
    """Chips, cards and order of every event survive the file."""
    hands, styles = style_hands(SETTINGS, 300, seed=4)
    text, numbers = written(hands, styles)
    parsed = list(parse_ohh(io.BytesIO(text.encode()), "arena.ohh"))
    assert [type(hand) for hand in parsed] == [CanonicalHand] * 300
    for table, hand in enumerate(parsed):
        assert isinstance(hand, CanonicalHand)
        size = hand.num_players
        assert hand.hand_id == hand_id(numbers[table])
        assert hand.stacks == tuple(hands.seating.stacks[table, :size])
        assert hand.hole_cards == tuple(tuple(pair) for pair in hands.dealt.holes[table, :size].tolist())
        assert hand.board == tuple(hands.dealt.board[table, : hands.num_board[table]].tolist())
        span = slice(hands.events.offsets[table], hands.events.offsets[table + 1])
        assert [(event.kind, event.seat, event.chips, event.is_all_in) for event in hand.events] == [
            (EventKind(kind), seat, float(chips), is_all_in)
            for kind, seat, chips, is_all_in in zip(
                *(
                    column[span].tolist()
                    for column in (hands.events.kind, hands.events.seat, hands.events.chips, hands.events.is_all_in)
                ),
                strict=True,
            )
        ]
        assert hand.collected == tuple(hands.settlement.wins[table].sum(axis=0)[:size])
    straddled = hands.seating.blind_seats[:, 2] >= 0
    assert straddled.sum() > 20


def test_the_layout_is_rs_pokers() -> None:
    """Keys and their order, one object a line, a blank line between, numbers with a fraction; numbering from 1."""
    hands, styles = style_hands(SETTINGS, 200, seed=5)
    text, _ = written(hands, styles)
    lines = text.split("\n")
    assert lines[1::2] == [""] * 200
    records = [json.loads(line)["ohh"] for line in lines[:-1:2]]
    shown = 0
    for record in records:
        assert list(record) == KEYS
        assert (record["site_name"], record["network_name"]) == (SITE, NETWORK)
        assert list(record["players"][0]) == ["id", "seat", "name", "display", "starting_stack", "is_sitting_out"]
        assert [street["id"] for street in record["rounds"]] == list(range(1, len(record["rounds"]) + 1))
        assert [pot["number"] for pot in record["pots"]] == list(range(1, len(record["pots"]) + 1))
        for street in record["rounds"]:
            assert [action["action_number"] for action in street["actions"]] == list(range(1, len(street["actions"]) + 1))
            for action in street["actions"]:
                assert list(action)[:5] == ["action_number", "player_id", "action", "amount", "is_allin"]
                assert isinstance(action["amount"], float)
        first = [action["action"] for action in record["rounds"][0]["actions"]]
        assert first.index("Dealt Cards") == first.count("Post Ante")
        winners = {win["player_id"] for pot in record["pots"] for win in pot["player_wins"]}
        if record["rounds"][-1]["street"] == "Showdown":
            assert {action["player_id"] for action in record["rounds"][-1]["actions"]} == winners
            shown += 1
    assert shown > 20


def test_the_same_hands_are_the_same_bytes() -> None:
    """Files are known by their content."""
    assert written(*style_hands(SETTINGS, 50, seed=6)) == written(*style_hands(SETTINGS, 50, seed=6))
    assert written(*style_hands(SETTINGS, 50, seed=6)) != written(*style_hands(SETTINGS, 50, seed=8))
