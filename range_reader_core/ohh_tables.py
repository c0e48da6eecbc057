"""Lines in the exact layout -> flat tables of players, rounds, actions and pots, thousands of hands at a time.

Typed structs are decoded and taken apart field by field, a few dozen hands at a time so
that they stay in the cache of the processor (8 us a hand in groups of 32, 14 in groups of 1000; 2026-11). A line in which anything
does not fit the tables is left out, for the careful way to read. What the numbers mean is ``ohh_plain``'s business.

Legend: ``H`` hands that fit, ``S`` seats, ``R`` rounds, ``A`` actions, ``W`` wins.
"""

from array import array
from dataclasses import dataclass, fields
from itertools import chain, permutations
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from range_reader_core.cards import CARD_BY_NAME, combo_index
from range_reader_core.ohh_actions import CODES
from range_reader_core.ohh_records import Lines
from range_reader_core.ohh_schema import OhhHand, decode_record, num_keys
from range_reader_core.tokens import MAX_SEATS

GROUP_LINES: Final = 32
STREETS: Final = {"Preflop": 0, "Flop": 1, "Turn": 2, "River": 3, "Showdown": 4}
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
    buffers = _Buffers()
    for first in range(begin, lines.num_objects, GROUP_LINES):
        _add_group(buffers, lines, first, min(first + GROUP_LINES, lines.num_objects))
    return buffers.tables()


def _add_group(buffers: "_Buffers", lines: Lines, begin: int, end: int) -> None:
    """Add a group; one that does not fit is halved until what does not fit stands alone, and is left out."""
    text, starts, ends = lines.text, lines.starts[begin:end].tolist(), lines.ends[begin:end].tolist()
    try:
        hands = [decode_record(text[start:stop]).ohh for start, stop in zip(starts, ends, strict=True)]
        part = _taken_apart(hands, text[starts[0] : ends[-1]], begin, has_escapes=lines.has_escapes)
    except _MISFITS:
        part = None
    if part is not None:
        buffers.add(part)
    elif end - begin > 1:
        middle = (begin + end) // 2
        _add_group(buffers, lines, begin, middle)
        _add_group(buffers, lines, middle, end)


class _Part(tuple[Any, ...]):
    """What one group adds to each buffer, in the order of ``_Buffers.NAMES``."""

    __slots__ = ()


class _Buffers:
    """The tables while they grow."""

    def __init__(self) -> None:
        self.columns: list[Any] = [
            array("q"),
            bytearray(),
            [],
            [],
            [],
            array("q"),
            array("d"),
            bytearray(),
            bytearray(),
            bytearray(),
            array("q"),
            array("q"),
            array("d"),
            bytearray(),
            bytearray(),
            array("q"),
            bytearray(),
            bytearray(),
            array("q"),
            bytearray(),
            array("d"),
            array("H"),
            array("d"),
            bytearray(),
            array("q"),
            array("d"),
        ]

    def add(self, part: _Part) -> None:
        for column, more in zip(self.columns, part, strict=True):
            column += more

    def tables(self) -> OhhTables:
        named: dict[str, Any] = {
            field.name: column if isinstance(column, list) else np.frombuffer(column, dtype=_dtype(column))
            for field, column in zip(fields(OhhTables), self.columns, strict=True)
        }
        named["blinds"] = named["blinds"].reshape(-1, 3)
        named["is_game"] = named["is_game"].astype(np.bool_)
        for name in ("num_players", "num_rounds", "num_pots", "num_wins"):
            named[name] = named[name].astype(np.int64)
        return OhhTables(**named)


def _dtype(column: "array[Any] | bytearray") -> str:
    return "u1" if isinstance(column, bytearray) else {"q": "i8", "d": "f8", "H": "u2"}[column.typecode]


def _taken_apart(hands: list[OhhHand], text: memoryview, begin: int, *, has_escapes: bool) -> _Part | None:
    """Return the columns of a group, or None.

    None where a line names a key twice, escapes something or holds a colon in a text, or a hand has no rounds or no table's number
    of players.
    """
    heads = zip(*map(_head, hands), strict=True)
    sites, networks, numbers, games, tournaments, limits, dealers, small, big, ante, dates, players_of, rounds_of, pots_of = heads
    num_players, num_rounds = list(map(len, players_of)), list(map(len, rounds_of))
    if min(num_players) < 2 or max(num_players) > MAX_SEATS or not all(num_rounds):
        return None
    players = list(chain.from_iterable(players_of))
    rounds = list(chain.from_iterable(rounds_of))
    pots = list(chain.from_iterable(pots_of))
    wins_of = [pot.player_wins for pot in pots]
    wins = list(chain.from_iterable(wins_of))
    boards = [played.cards for played in rounds]
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
        num_cards=len(rounds) - boards.count(None) + len(actions) - cards.count(None),
    )
    expected += "".join(filter(None, dates)).count(":")
    codes = np.frombuffer(text, dtype=np.uint8)
    if np.count_nonzero(codes == _COLON) != expected:
        return None
    if has_escapes and (codes == _ESCAPE).any():  # an escaped colon would hide a repeated key from the count
        return None
    is_game = [
        game == "Holdem" and limit.bet_type == "NL" and not limit.bet_cap and not is_tournament and number != ""
        for game, limit, is_tournament, number in zip(games, limits, tournaments, numbers, strict=True)
    ]
    return _Part(
        (
            array("q", range(begin, begin + len(hands))),
            bytes(is_game),
            sites,
            networks,
            numbers,
            array("q", dealers),
            array("d", list(chain.from_iterable(zip(small, big, ante, strict=True)))),
            bytes(num_players),
            bytes(num_rounds),
            bytes(list(map(len, pots_of))),
            array("q", [player.id for player in players]),
            array("q", [player.seat for player in players]),
            array("d", [player.starting_stack for player in players]),
            bytes([player.is_sitting_out for player in players]),
            bytes([STREETS[played.street] for played in rounds]),
            array("q", list(map(len, actions_of))),
            bytes([0 if names is None else len(names) for names in boards]),
            bytes([CARD_BY_NAME[name] for name in chain.from_iterable(filter(None, boards))]),
            array("q", [action.player_id for action in actions]),
            bytes([CODES[action.action] for action in actions]),
            array("d", [action.amount for action in actions]),
            array("H", [_COMBOS[names] for names in cards]),
            array("d", [pot.amount for pot in pots]),
            bytes(list(map(len, wins_of))),
            array("q", [win.player_id for win in wins]),
            array("d", [win.win_amount for win in wins]),
        )
    )


_head = attrgetter(
    "site_name",
    "network_name",
    "game_number",
    "game_type",
    "tournament",
    "bet_limit",
    "dealer_seat",
    "small_blind_amount",
    "big_blind_amount",
    "ante_amount",
    "start_date_utc",
    "players",
    "rounds",
    "pots",
)
_COLON: Final = ord(":")
_ESCAPE: Final = ord("\\")
_COMBOS: Final[dict[tuple[str, ...] | None, int]] = {None: NO_CARDS} | {
    (first, second): combo_index(CARD_BY_NAME[first], CARD_BY_NAME[second]) + 1 for first, second in permutations(CARD_BY_NAME, 2)
}
# A line in another layout; ids that are texts or beyond 64 bits; an amount or flag that is null; cards or streets of other names.
_MISFITS: Final = (msgspec.DecodeError, RecursionError, TypeError, ValueError, KeyError, OverflowError)
