"""Hands of ``tests.core.hands`` as Open Hand History files, in the layout that rs-poker writes."""

import json
from collections.abc import Sequence
from pathlib import Path

from range_reader_core import cards
from range_reader_core.hand import BOARD_CARDS, CanonicalHand, EventKind

_ACTIONS = {
    EventKind.POST_ANTE: "Post Ante",
    EventKind.FOLD: "Fold",
    EventKind.CHECK: "Check",
    EventKind.CALL: "Call",
    EventKind.BET: "Bet",
    EventKind.RAISE: "Raise",
}


def write_ohh(path: Path, hands: Sequence[CanonicalHand]) -> Path:
    """Write hands, one line each with a blank line between, and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(ohh_line(hand) + "\n\n" for hand in hands), encoding="utf-8")
    return path


def ohh_line(hand: CanonicalHand) -> str:
    """Return a hand as one line of JSON. Only hands whose cards are all dealt or unknown can be written."""
    site, _, network = hand.source.partition("/")
    rounds = [{"id": 1, "street": "Preflop", "actions": []}]
    num_blinds = 0
    for seat, hole in enumerate(hand.hole_cards):
        if hole is not None:
            names = [cards.format_card(card) for card in hole]
            rounds[0]["actions"].append({**_action(rounds[0], seat, "Dealt Cards"), "cards": names})
    for event in hand.events:
        if event.kind in BOARD_CARDS:
            street = {"id": len(rounds) + 1, "street": event.kind.name.title(), "actions": []}
            rounds.append({**street, "cards": [cards.format_card(card) for card in event.board]})
            continue
        name = _ACTIONS.get(event.kind) or ("Post SB" if num_blinds == 0 else "Post BB")
        num_blinds += event.kind is EventKind.POST_BLIND
        rounds[-1]["actions"].append(_action(rounds[-1], event.seat, name, event.chips, is_allin=event.is_all_in))
    wins = [{"player_id": seat, "win_amount": chips} for seat, chips in enumerate(hand.collected) if chips]
    record = {
        "spec_version": "1.4.7",
        "site_name": site,
        "network_name": network,
        "internal_version": "1",
        "tournament": False,
        "game_number": hand.hand_id.partition("#")[2],
        "start_date_utc": "2026-01-01T00:00:00+00:00",
        "table_name": "Table",
        "game_type": "Holdem",
        "bet_limit": {"bet_type": "NL", "bet_cap": 0.0},
        "table_size": hand.num_players,
        "currency": "USD",
        "dealer_seat": hand.seat_numbers[hand.button],
        "small_blind_amount": hand.small_blind,
        "big_blind_amount": hand.big_blind,
        "ante_amount": hand.ante,
        "players": [
            {
                "id": seat,
                "seat": number,
                "name": f"p{seat}",
                "display": f"p{seat}",
                "starting_stack": stack,
                "is_sitting_out": False,
            }
            for seat, (number, stack) in enumerate(zip(hand.seat_numbers, hand.stacks, strict=True))
        ],
        "rounds": rounds,
        "pots": [{"number": 1, "amount": sum(hand.collected), "player_wins": wins}],
    }
    return json.dumps({"ohh": record}, separators=(",", ":"))


def _action(street: dict, seat: int, name: str, chips: float = 0.0, *, is_allin: bool = False) -> dict:
    number = len(street["actions"]) + 1
    return {"action_number": number, "player_id": seat, "action": name, "amount": chips, "is_allin": is_allin}
