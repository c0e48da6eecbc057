"""Lines in the exact layout -> flat tables of players, rounds, actions and pots, thousands of hands at a time.

Lines in the layout to the letter are taken apart in C (``_ohh_layout``), which makes no objects of what a line is made of. Where
keys stand in another order, or there was no compiler, typed structs are decoded and taken apart field by field, a few dozen hands
at a time so that they stay in the cache of the processor (a file in 16.6 us a hand in groups of 48, 16.9 of 64, 16.4 of 96, 16.3
of 128; 2026-11). A line in which anything does not fit the tables is left out, for the careful way to read. What the numbers mean
is ``ohh_plain``'s business.

Legend: ``H`` hands that fit, ``S`` seats, ``R`` rounds, ``A`` actions, ``W`` wins.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from range_reader_core.cards import CARD_BY_NAME, COMBO_CARDS, NUM_CARDS, RANKS, SUITS
from range_reader_core.ohh_actions import CODES
from range_reader_core.ohh_records import Lines
from range_reader_core.ohh_schema import MAX_CHIPS, CardName, PlainRecord, StreetName, decode_plain_lines, num_keys
from range_reader_core.tokens import MAX_SEATS

try:
    from range_reader_core import _ohh_layout
except ImportError:  # not installed, or without a compiler
    _ohh_layout = None  # type: ignore[assignment]

GROUP_LINES: Final = 96
STREETS: Final[dict[StreetName, int]] = {"Preflop": 0, "Flop": 1, "Turn": 2, "River": 3, "Showdown": 4}
MIN_PLAYERS: Final = 2
NO_CARDS: Final = 0  # in action_combos; else a combo + 1

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class OhhTables:
    """Hands taken apart; ``num_*`` columns say how many rows of the next table belong to each."""

    line_index: Ints  # (H,) into the lines
    is_game: npt.NDArray[np.bool_]  # (H,) uncapped no-limit hold'em for cash, with a game number
    sites: list[str]  # (H,)
    networks: list[str]  # (H,)
    game_numbers: list[str]  # (H,)
    dealer_seats: Ints  # (H,)
    blinds: Floats  # (H, 3) small, big, ante
    num_players: Ints  # (H,)
    num_rounds: Ints  # (H,)
    num_pots: Ints  # (H,)
    player_ids: Ints  # (S,)
    seat_numbers: Ints  # (S,)
    stacks: Floats  # (S,)
    is_sitting_out: Bytes  # (S,)
    streets: Bytes  # (R,) values of STREETS
    num_actions: Ints  # (R,)
    num_cards: Bytes  # (R,)
    board: Bytes  # cards of all rounds
    action_ids: Ints  # (A,) players
    codes: Bytes  # (A,) values of CODES
    amounts: Floats  # (A,)
    action_combos: npt.NDArray[np.uint16]  # (A,)
    pot_amounts: Floats  # (pots,)
    num_wins: Ints  # (pots,)
    win_ids: Ints  # (W,) players
    win_amounts: Floats  # (W,)


def tables_of(lines: Lines, begin: int) -> OhhTables:
    """Return the hands of the lines that fit, without the first ``begin`` lines."""
    parts: list[_Part] = []
    while begin < lines.num_objects:
        if _ohh_layout is not None:
            begin, *columns = _ohh_layout.take_apart(lines.text, lines.starts.data, lines.ends.data, begin)
            parts.append(_Part(*columns))  # in the order of ``_ohh_layout.c``
        # What does not fit to the letter seldom stands alone.
        end = min(begin + GROUP_LINES, lines.num_objects)
        if begin < end:
            _add_group(parts, lines, begin, end)
        begin = end
    return _joined(parts)


def _add_group(parts: "list[_Part]", lines: Lines, begin: int, end: int) -> None:
    """Add a group; one that does not fit is halved until what does not fit stands alone, and is left out."""
    text = lines.text[int(lines.starts[begin]) : int(lines.ends[end - 1])]
    try:
        records = decode_plain_lines(text)
        part = _taken_apart(records, text, begin, has_escapes=lines.has_escapes) if len(records) == end - begin else None
    except _MISFITS:
        part = None
    if part is not None:
        parts.append(part)
    elif end - begin > 1:
        middle = (begin + end) // 2
        _add_group(parts, lines, begin, middle)
        _add_group(parts, lines, middle, end)


class _Part(NamedTuple):
    """What a group of hands adds to the tables: texts as lists, numbers as the bytes of arrays of ``_DTYPES``."""

    line_index: bytes
    is_game: bytes
    sites: list[str]
    networks: list[str]
    game_numbers: list[str]
    dealer_seats: bytes
    blinds: bytes
    num_players: bytes
    num_rounds: bytes
    num_pots: bytes
    player_ids: bytes
    seat_numbers: bytes
    stacks: bytes
    is_sitting_out: bytes
    streets: bytes
    num_actions: bytes
    num_cards: bytes
    board: bytes
    action_ids: bytes
    codes: bytes
    amounts: bytes
    action_combos: bytes
    pot_amounts: bytes
    num_wins: bytes
    win_ids: bytes
    win_amounts: bytes


def _joined(parts: list[_Part]) -> OhhTables:
    columns = zip(*parts, strict=True) if parts else [()] * len(_Part._fields)
    named: dict[str, Any] = {}
    for name, column in zip(_Part._fields, columns, strict=True):
        if name in _TEXTS:
            named[name] = list(chain.from_iterable(column))
        else:
            named[name] = np.frombuffer(b"".join(column), dtype=_DTYPES.get(name, "u1"))
    named["blinds"] = named["blinds"].reshape(-1, 3)
    named["is_game"] = named["is_game"].astype(np.bool_)
    for name in ("num_players", "num_rounds", "num_pots", "num_wins"):
        named[name] = named[name].astype(np.int64)
    return OhhTables(**named)


def _taken_apart(records: list[PlainRecord], text: memoryview, begin: int, *, has_escapes: bool) -> _Part | None:
    """Return the columns of a group, or None.

    None where a line names a key twice, escapes something or holds a colon in a text, or a hand has no rounds or no table's number
    of players.
    """
    hands = [record.ohh for record in records]
    players_of, rounds_of, pots_of = (
        [hand.players for hand in hands],
        [hand.rounds for hand in hands],
        [hand.pots for hand in hands],
    )
    num_players, num_rounds = bytes(map(len, players_of)), bytes(map(len, rounds_of))
    if min(num_players) < MIN_PLAYERS or max(num_players) > MAX_SEATS or not all(num_rounds):
        return None
    players = list(chain.from_iterable(players_of))
    rounds = list(chain.from_iterable(rounds_of))
    pots = list(chain.from_iterable(pots_of))
    wins_of = [pot.player_wins for pot in pots]
    wins = list(chain.from_iterable(wins_of))
    boards = [played.cards for played in rounds]
    dealt = [names for names in boards if names is not None]
    actions_of = [played.actions for played in rounds]
    actions = list(chain.from_iterable(actions_of))
    cards = [action.cards for action in actions]
    expected = num_keys(
        num_hands=len(hands),
        num_players=len(players),
        num_pots=len(pots),
        num_wins=len(wins),
        num_rounds=len(rounds),
        num_actions=len(actions),
        num_cards=len(dealt) + len(actions) - cards.count(None),
    )
    expected += "".join([hand.start_date_utc or "" for hand in hands]).count(":")
    codes = np.frombuffer(text, dtype=np.uint8)
    if np.count_nonzero(codes == _COLON) != expected:
        return None
    if has_escapes and (codes == _ESCAPE).any():  # an escaped colon would hide a repeated key from the count
        return None
    return _Part(
        line_index=_ints(range(begin, begin + len(hands))),
        is_game=bytes(
            [
                hand.game_type == "Holdem"
                and hand.bet_limit.bet_type == "NL"
                and not hand.bet_limit.bet_cap
                and not hand.tournament
                and hand.game_number != ""
                for hand in hands
            ]
        ),
        sites=[hand.site_name for hand in hands],
        networks=[hand.network_name for hand in hands],
        game_numbers=[hand.game_number for hand in hands],
        dealer_seats=_ints([hand.dealer_seat for hand in hands]),
        blinds=_floats([chips for hand in hands for chips in (hand.small_blind_amount, hand.big_blind_amount, hand.ante_amount)]),
        num_players=num_players,
        num_rounds=num_rounds,
        num_pots=bytes(map(len, pots_of)),
        player_ids=_ints([player.id for player in players]),
        seat_numbers=_ints([player.seat for player in players]),
        stacks=_floats([player.starting_stack for player in players]),
        is_sitting_out=bytes([player.is_sitting_out for player in players]),
        streets=bytes([STREETS[played.street] for played in rounds]),
        num_actions=_ints(list(map(len, actions_of))),
        num_cards=bytes([0 if names is None else len(names) for names in boards]),
        board=bytes([CARD_BY_NAME[name] for name in chain.from_iterable(dealt)]),
        action_ids=_ints([action.player_id for action in actions]),
        codes=bytes([CODES[action.action] for action in actions]),
        amounts=_floats([action.amount for action in actions]),
        action_combos=_combos(cards),
        pot_amounts=_floats([pot.amount for pot in pots]),
        num_wins=bytes(map(len, wins_of)),
        win_ids=_ints([win.player_id for win in wins]),
        win_amounts=_floats([win.win_amount for win in wins]),
    )


def _combos(cards: list[tuple[CardName, CardName] | None]) -> bytes:
    """Return a combo + 1 for each action, ``NO_CARDS`` where it names no cards."""
    combos = np.zeros(len(cards), dtype=np.uint16)
    names = [pair for pair in cards if pair is not None]
    if names:
        numbers = np.frombuffer(bytes([CARD_BY_NAME[name] for name in chain.from_iterable(names)]), dtype=np.uint8)
        is_named = np.frombuffer(bytes([pair is not None for pair in cards]), dtype=np.bool_)
        combos[is_named] = _COMBO_OF_CARDS[numbers[::2], numbers[1::2]]
        if not combos[is_named].all():
            msg = "a hand of two equal cards"
            raise ValueError(msg)
    return combos.tobytes()


# struct takes half the time of array or numpy for so few numbers.
def _ints(numbers: Sequence[int | str]) -> bytes:  # an id that is a text is refused
    return struct.pack(f"{len(numbers)}q", *numbers)


def _floats(numbers: Sequence[float]) -> bytes:
    return struct.pack(f"{len(numbers)}d", *numbers)


_TEXTS: Final = ("sites", "networks", "game_numbers")
_DTYPES: Final = (
    dict.fromkeys(("line_index", "dealer_seats", "player_ids", "seat_numbers", "num_actions", "action_ids", "win_ids"), "i8")
    | dict.fromkeys(("blinds", "stacks", "amounts", "pot_amounts", "win_amounts"), "f8")
    | {"action_combos": "u2"}
)
_COLON: Final = ord(":")
_ESCAPE: Final = ord("\\")
_COMBO_OF_CARDS: Final = np.zeros((NUM_CARDS, NUM_CARDS), dtype=np.uint16)  # a combo + 1; 0 for a card twice
_COMBO_OF_CARDS[COMBO_CARDS[:, 0], COMBO_CARDS[:, 1]] = np.arange(1, len(COMBO_CARDS) + 1)
_COMBO_OF_CARDS[COMBO_CARDS[:, 1], COMBO_CARDS[:, 0]] = np.arange(1, len(COMBO_CARDS) + 1)
if _ohh_layout is not None:
    _ohh_layout.configure(CODES, STREETS, RANKS, SUITS, _COMBO_OF_CARDS.data, MIN_PLAYERS, MAX_SEATS, MAX_CHIPS)
# A line in another layout; ids that are texts or beyond 64 bits; an amount or flag that is null; cards or streets of other names.
_MISFITS: Final = (msgspec.DecodeError, RecursionError, TypeError, ValueError, KeyError, OverflowError, struct.error)
