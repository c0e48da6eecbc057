"""Open Hand History records for tests, written the way a person would tell a hand.

A round is ``("Flop", "2c 7d Ts", ["1 Check", "0 Bet 8"])``: street, cards, and actions as ``player name amount``, with ``!`` after
the amount for a set all-in flag and cards in brackets: ``"0 Dealt Cards [Ah Kd]"``. ``hand()`` is a plain complete hand whose
fields a case can replace; pots are what the amounts add up to unless given.
"""

import copy
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from range_reader_core.cards import format_card
from range_reader_core.hand import CanonicalHand, Event

Json = dict[str, Any]
Round = tuple[str, str, Sequence[str]]

_ACTION = re.compile(
    r"(?P<player>-|\w+) (?P<name>[A-Za-z][A-Za-z ]*?)(?: (?P<amount>-?[\d.]+)(?P<flag>!)?)?(?: \[(?P<cards>[^\]]*)\])?"
)
_PAYING: Final = {
    "Post Ante",
    "Post SB",
    "Post BB",
    "Straddle",
    "Post Dead",
    "Post Extra Blind",
    "Call",
    "Bet",
    "Raise",
    "Add to Pot",
}

DEALT: Final = ["0 Dealt Cards [Ah Kd]", "1 Dealt Cards [9c 8c]", "2 Dealt Cards [Td Th]"]
PREFLOP: Final[Round] = (
    "Preflop",
    "",
    [*DEALT, "1 Post SB 1", "2 Post BB 2", "0 Raise 6", "1 Call 5", "2 Fold"],
)
FLOP: Final[Round] = ("Flop", "2c 7d Ts", ["1 Check", "0 Bet 8", "1 Call 8"])
TURN: Final[Round] = ("Turn", "Ks", ["1 Check", "0 Check"])
RIVER: Final[Round] = ("River", "3h", ["1 Bet 20", "0 Fold"])
ROUNDS: Final = (PREFLOP, FLOP, TURN, RIVER)


def hand(
    rounds: Sequence[Round] = ROUNDS,
    *,
    stacks: Mapping[Any, float] | None = None,
    wins: Mapping[Any, float] | None = None,
    pot: float | None = None,
    **fields: Any,
) -> Json:
    """Return a record in the exact layout, unwrapped; ``fields`` replace or add members of the hand.

    Players are the keys of ``stacks`` (0, 1, 2 with 200, 150, 100 chips by default) in seats 1, 2, 3, ...; the button is on seat 1;
    the pot goes to player 1 unless ``wins`` says otherwise.
    """
    stacks = {0: 200.0, 1: 150.0, 2: 100.0} if stacks is None else stacks
    by_text = {str(player): player for player in stacks}
    read_rounds = [read_round(index + 1, text, by_text) for index, text in enumerate(rounds)]
    amount = pot if pot is not None else total_chips(read_rounds)
    paid = {1: amount} if wins is None else wins
    record: Json = {
        "spec_version": "1.4.7",
        "site_name": "site",
        "network_name": "network",
        "internal_version": "1.0",
        "tournament": False,
        "game_number": "77",
        "start_date_utc": "2026-01-01T00:00:00.123+00:00",
        "table_name": "Table",
        "game_type": "Holdem",
        "bet_limit": {"bet_type": "NL", "bet_cap": 0.0},
        "table_size": len(stacks),
        "currency": "USD",
        "dealer_seat": 1,
        "small_blind_amount": 1.0,
        "big_blind_amount": 2.0,
        "ante_amount": 0.0,
        "players": [
            {"id": player, "seat": seat + 1, "name": "n", "display": "n", "starting_stack": stack, "is_sitting_out": stack == 0}
            for seat, (player, stack) in enumerate(stacks.items())
        ],
        "rounds": read_rounds,
        "pots": [
            {
                "number": 1,
                "amount": amount,
                "player_wins": [{"player_id": player, "win_amount": won} for player, won in paid.items()],
            }
        ],
    }
    return record | copy.deepcopy(fields)


def read_round(number: int, text: Round, by_text: Mapping[str, Any]) -> Json:
    """Return one round."""
    street, cards, actions = text
    record: Json = {"id": number, "street": street}
    if cards:
        record["cards"] = cards.split()
    record["actions"] = [read_action(index + 1, action, by_text) for index, action in enumerate(actions)]
    return record


def read_action(number: int, text: str, by_text: Mapping[str, Any]) -> Json:
    """Return one action."""
    match = _ACTION.fullmatch(text)
    assert match is not None, text
    player = match["player"]
    action: Json = {
        "action_number": number,
        "player_id": None if player == "-" else by_text.get(player, player),
        "action": match["name"],
        "amount": float(match["amount"] or 0.0),
        "is_allin": match["flag"] is not None,
    }
    if match["cards"] is not None:
        action["cards"] = match["cards"].split()
    return action


def total_chips(rounds: Sequence[Json]) -> float:
    """Return what the actions of all rounds put into the pot."""
    return sum(action["amount"] for record in rounds for action in record["actions"] if action["action"] in _PAYING)


def line(record: Json | None = None, **fields: Any) -> bytes:
    """Return a wrapped record as one compact line without its line end."""
    return json.dumps({"ohh": (hand() if record is None else record) | fields}, separators=(",", ":"), ensure_ascii=False).encode()


def pretty(record: Json | None = None) -> bytes:
    """Return a wrapped record as converters print it."""
    return json.dumps({"ohh": hand() if record is None else record}, indent=4).encode()


def without(record: Json, name: str) -> Json:
    """Return a record less one member."""
    return {key: value for key, value in record.items() if key != name}


def edited(record: Json, path: str, value: Any) -> Json:
    """Return a record with the member at a path such as ``"rounds/0/actions/3/amount"`` replaced or added."""
    changed = copy.deepcopy(record)
    *parents, last = [int(name) if name.isdigit() else name for name in path.split("/")]
    place: Any = changed
    for name in parents:
        place = place[name]
    place[last] = value
    return changed


def deleted(record: Json, path: str) -> Json:
    """Return a record without the member at a path."""
    changed = edited(record, path, None)
    *parents, last = [int(name) if name.isdigit() else name for name in path.split("/")]
    place: Any = changed
    for name in parents:
        place = place[name]
    del place[last]
    return changed


def told(played: CanonicalHand) -> list[str]:
    """Return the events of a hand as text: ``"raise@0 6"``, ``"call@2 98 all-in"``, ``"flop 2c 7d Ts"``."""
    return [_tell(event) for event in played.events]


def _tell(event: Event) -> str:
    name = event.kind.name.lower().replace("post_", "")
    if event.board:
        return f"{name} {' '.join(format_card(card) for card in event.board)}"
    amount = f" {event.chips:g}" if event.chips else ""
    return f"{name}@{event.seat}{amount}{' all-in' if event.is_all_in else ''}"
