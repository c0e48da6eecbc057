"""The shape of one Open Hand History record as typed structs, and the fast way from bytes to them.

``decode_exact`` reads the one layout that rs-poker writes, every key of it and no other, in a few microseconds; it
returns None for everything else, which ``ohh_lenient`` then reads slowly and forgivingly into the same structs. Both
refuse an object that names a key twice: the last value would silently hide the first. Here nothing is known of poker.
"""

from typing import Annotated, Final, Literal

import msgspec

from range_reader_core.ohh_actions import ActionName

MAX_CHIPS: Final = 1e15  # above this float64 cannot count single chips; also keeps sums finite

Chips = Annotated[float, msgspec.Meta(ge=0, le=MAX_CHIPS)]
PlayerId = int | str
# fmt: off
CardName = Literal[
    "2c", "2d", "2h", "2s", "3c", "3d", "3h", "3s", "4c", "4d", "4h", "4s", "5c", "5d", "5h", "5s",
    "6c", "6d", "6h", "6s", "7c", "7d", "7h", "7s", "8c", "8d", "8h", "8s", "9c", "9d", "9h", "9s",
    "Tc", "Td", "Th", "Ts", "Jc", "Jd", "Jh", "Js", "Qc", "Qd", "Qh", "Qs", "Kc", "Kd", "Kh", "Ks",
    "Ac", "Ad", "Ah", "As",
]
# fmt: on
StreetName = Literal["Preflop", "Flop", "Turn", "River", "Showdown"]


class OhhAction(msgspec.Struct, gc=False, kw_only=True, forbid_unknown_fields=True):
    """One action of a round."""

    action_number: int
    player_id: PlayerId | None
    action: ActionName
    amount: Chips | None
    is_allin: bool | None
    cards: tuple[str, ...] | None = None


class OhhRound(msgspec.Struct, gc=False, kw_only=True, forbid_unknown_fields=True):
    """One round: a street's cards and actions."""

    id: int
    street: str
    cards: tuple[str, ...] | None = None
    actions: list[OhhAction]


class OhhWin(msgspec.Struct, gc=False, kw_only=True, forbid_unknown_fields=True):
    """What one player wins from one pot."""

    player_id: PlayerId
    win_amount: Chips


class OhhPot(msgspec.Struct, gc=False, kw_only=True, forbid_unknown_fields=True):
    """One pot; ``unpaid`` is its rake and jackpot fee, None where the source does not say."""

    number: int
    amount: Chips
    player_wins: list[OhhWin]
    unpaid: Chips | None = None


class OhhPlayer(msgspec.Struct, gc=False, kw_only=True, forbid_unknown_fields=True):
    """One player of the table."""

    id: PlayerId
    seat: int
    name: str
    display: str
    starting_stack: Chips
    is_sitting_out: bool


class OhhBetLimit(msgspec.Struct, gc=False, kw_only=True, forbid_unknown_fields=True):
    """The betting structure."""

    bet_type: str
    bet_cap: float


class HandHead(msgspec.Struct, gc=False, kw_only=True, forbid_unknown_fields=True):
    """What a hand says before its rounds; chips in the file's unit."""

    spec_version: str
    site_name: str
    network_name: str
    internal_version: str
    tournament: bool
    game_number: str
    start_date_utc: str | None
    table_name: str
    game_type: str
    bet_limit: OhhBetLimit
    table_size: int
    currency: str
    dealer_seat: int
    small_blind_amount: Chips
    big_blind_amount: Chips
    ante_amount: Chips
    players: list[OhhPlayer]


class OhhHand(HandHead, gc=False, kw_only=True, forbid_unknown_fields=True):
    """One hand."""

    rounds: list[OhhRound]
    pots: list[OhhPot]


class OhhRecord(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The wrapper object."""

    ohh: OhhHand


class PlainAction(msgspec.Struct, gc=False, kw_only=True, forbid_unknown_fields=True):
    """An ``OhhAction`` by somebody, in the spec's words throughout: no text is made for a card, its name is there already."""

    action_number: int
    player_id: int
    action: ActionName
    amount: Chips
    is_allin: bool | None
    cards: tuple[CardName, CardName] | None = None


class PlainRound(msgspec.Struct, gc=False, kw_only=True, forbid_unknown_fields=True):
    """An ``OhhRound`` of plain actions."""

    id: int
    street: StreetName
    cards: tuple[CardName, ...] | None = None
    actions: list[PlainAction]


class PlainHand(HandHead, gc=False, kw_only=True, forbid_unknown_fields=True):
    """An ``OhhHand`` of plain rounds."""

    rounds: list[PlainRound]
    pots: list[OhhPot]


class PlainRecord(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The wrapper object of a plain hand."""

    ohh: PlainHand


def decode_exact(data: bytes) -> OhhHand | None:
    """Return the hand of a record in rs-poker's exact layout, or None where anything at all differs."""
    try:
        hand = decode_record(data).ohh
    except (msgspec.DecodeError, RecursionError):
        return None
    # An escaped colon in the date would hide a repeated key from the count.
    return hand if data.count(b":") == _num_colons(hand) and b"\\" not in data else None


def num_keys(
    *, num_hands: int, num_players: int, num_pots: int, num_wins: int, num_rounds: int, num_actions: int, num_cards: int
) -> int:
    """Return how many keys records in the exact layout name; ``num_cards`` counts the rounds and actions that name cards.

    All keys of the layout are required and no others allowed, so a surplus of colons outside of texts can only be a repeated
    key.
    """
    return 22 * num_hands + 6 * num_players + 3 * num_pots + 2 * num_wins + 3 * num_rounds + 5 * num_actions + num_cards


decode_record = msgspec.json.Decoder(OhhRecord).decode
# Objects that follow each other with nothing but blanks between them; it does not ask for a line each, so count them.
decode_plain_lines = msgspec.json.Decoder(PlainRecord).decode_lines


def _num_colons(hand: OhhHand) -> int:
    """Count the colons of a record that names each of its keys once and has colons in no text but the date.

    A surplus is a repeated key or a colon in a name; both are left to the slow path, which tells them apart.
    """
    date = hand.start_date_utc
    num_wins = num_actions = num_cards = 0
    for pot in hand.pots:
        num_wins += len(pot.player_wins)
    for played_round in hand.rounds:
        num_actions += len(played_round.actions)
        if played_round.cards is not None:
            num_cards += 1
        for action in played_round.actions:
            if action.cards is not None:
                num_cards += 1
    count = num_keys(
        num_hands=1,
        num_players=len(hand.players),
        num_pots=len(hand.pots),
        num_wins=num_wins,
        num_rounds=len(hand.rounds),
        num_actions=num_actions,
        num_cards=num_cards,
    )
    return count if date is None else count + date.count(":")
