"""Lines in the exact layout -> flat tables of players, rounds, actions and pots, thousands of hands at a time.

Typed structs are decoded and taken apart by C loops alone (``astuple``, ``chain``, ``map``), a few dozen hands at a time so
that they stay in the cache of the processor (8 us a hand in groups of 32, 14 in groups of 1000; 2026-11). A line in which anything
does not fit the tables is left out, for the careful way to read. What the numbers mean is ``ohh_plain``'s business.

Legend: ``L`` lines, ``H`` hands that fit, ``S`` seats, ``R`` rounds, ``A`` actions, ``W`` wins.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain, permutations
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import astuple

from range_reader_core.cards import CARD_BY_NAME, combo_index
from range_reader_core.ohh_actions import CODES
from range_reader_core.ohh_schema import OhhHand, decode_record, num_keys
from range_reader_core.replay import RELATIVE_SLACK
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

    line_index: Ints  # (H,) into the lines given
    is_game: npt.NDArray[np.bool_]  # (H,) uncapped no-limit hold'em for cash, with a game number
    sites: list[str]  # (H,)
    networks: list[str]  # (H,)
    game_numbers: list[str]  # (H,)
    dealer_seats: Ints  # (H,)
    blinds: Floats  # (H, 3) small, big, ante
    num_players: Ints  # (H,)
    num_rounds: Ints  # (H,)
    num_wins: Ints  # (H,) of all pots
    pots: Floats  # (H,) what the pots hold together, NaN where there are none
    is_paid: npt.NDArray[np.bool_]  # (H,) every pot pays out what it holds
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
    win_ids: Ints  # (W,) players
    win_amounts: Floats  # (W,)


def tables_of(lines: Sequence[bytes]) -> OhhTables:
    """Return the hands of the lines that fit."""
    buffers = _Buffers()
    for begin in range(0, len(lines), GROUP_LINES):
        _add_group(buffers, lines[begin : begin + GROUP_LINES], begin)
    return buffers.tables()


def _add_group(buffers: "_Buffers", group: Sequence[bytes], begin: int) -> None:
    """Add a group; one that does not fit is halved until what does not fit stands alone, and is left out."""
    try:
        part = _taken_apart([decode_record(line).ohh for line in group], group, begin)
    except _MISFITS:
        part = None
    if part is not None:
        buffers.add(part)
    elif len(group) > 1:
        half = len(group) // 2
        _add_group(buffers, group[:half], begin)
        _add_group(buffers, group[half:], begin + half)


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
            array("q"),
            array("d"),
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
        for name in ("is_game", "is_paid"):
            named[name] = named[name].astype(np.bool_)
        for name in ("num_players", "num_rounds"):
            named[name] = named[name].astype(np.int64)
        return OhhTables(**named)


def _dtype(column: "array[Any] | bytearray") -> str:
    return "u1" if isinstance(column, bytearray) else {"q": "i8", "d": "f8", "H": "u2"}[column.typecode]


def _taken_apart(hands: list[OhhHand], group: Sequence[bytes], begin: int) -> _Part | None:
    """Return the columns of a group, or None.

    None where a line names a key twice, escapes something or holds a colon in a text, or a hand has no rounds or no table's number
    of players.
    """
    num_players = [len(hand.players) for hand in hands]
    num_rounds = [len(hand.rounds) for hand in hands]
    if min(num_players) < 2 or max(num_players) > MAX_SEATS or not all(num_rounds):
        return None
    text = b"".join(group)
    if _ESCAPE in text:  # an escaped colon would hide a repeated key from the count below
        return None
    players = list(chain.from_iterable(map(_players, hands)))
    rounds = list(chain.from_iterable(map(_rounds, hands)))
    pots = list(chain.from_iterable(map(_pots, hands)))
    wins = list(chain.from_iterable(map(_wins, pots)))
    of_round = list(chain.from_iterable(map(astuple, rounds)))  # id, street, cards, actions
    board_names, actions_of_rounds = of_round[2::4], of_round[3::4]
    of_action = list(chain.from_iterable(map(astuple, chain.from_iterable(actions_of_rounds))))
    cards = of_action[5::6]
    num_actions = len(cards)
    num_cards = len(rounds) - board_names.count(None) + num_actions - cards.count(None)
    expected = num_keys(
        num_hands=len(hands),
        num_players=len(players),
        num_pots=len(pots),
        num_wins=len(wins),
        num_rounds=len(rounds),
        num_actions=num_actions,
        num_cards=num_cards,
    )
    expected += sum([hand.start_date_utc.count(":") for hand in hands if hand.start_date_utc])
    if np.count_nonzero(np.frombuffer(text, dtype=np.uint8) == _COLON) != expected:
        return None
    of_player = list(chain.from_iterable(map(astuple, players)))  # id, seat, name, display, stack, sitting out
    pot_totals = [_pot_total(hand) for hand in hands]
    return _Part(
        (
            array("q", range(begin, begin + len(hands))),
            bytes([_is_game(hand) for hand in hands]),
            [hand.site_name for hand in hands],
            [hand.network_name for hand in hands],
            [hand.game_number for hand in hands],
            array("q", [hand.dealer_seat for hand in hands]),
            array("d", list(chain.from_iterable(map(_blinds, hands)))),
            bytes(num_players),
            bytes(num_rounds),
            array("q", [num_wins for _, _, num_wins in pot_totals]),
            array("d", [total for total, _, _ in pot_totals]),
            bytes([is_paid for _, is_paid, _ in pot_totals]),
            array("q", of_player[0::6]),
            array("q", of_player[1::6]),
            array("d", of_player[4::6]),
            bytes(of_player[5::6]),
            bytes(map(STREETS.__getitem__, of_round[1::4])),
            array("q", list(map(len, actions_of_rounds))),
            bytes([0 if names is None else len(names) for names in board_names]),
            bytes(map(CARD_BY_NAME.__getitem__, chain.from_iterable(filter(None, board_names)))),
            array("q", of_action[1::6]),
            bytes(map(CODES.__getitem__, of_action[2::6])),
            array("d", of_action[3::6]),
            array("H", list(map(_COMBOS.__getitem__, cards))),
            array("q", [win.player_id for win in wins]),
            array("d", [win.win_amount for win in wins]),
        )
    )


def _is_game(hand: OhhHand) -> bool:
    limit = hand.bet_limit
    return (
        hand.game_type == "Holdem"
        and limit.bet_type == "NL"
        and not limit.bet_cap
        and not hand.tournament
        and bool(hand.game_number)
    )


def _pot_total(hand: OhhHand) -> tuple[float, bool, int]:
    """Return what the pots hold, whether each pays out just that, and how many wins there are."""
    if not hand.pots:
        return _NAN, True, 0
    total = 0.0
    num_wins = 0
    is_paid = True
    for pot in hand.pots:
        won = 0.0
        for win in pot.player_wins:
            won += win.win_amount
            num_wins += 1
        total += pot.amount
        gap = pot.amount - won
        if gap and abs(gap) > RELATIVE_SLACK * pot.amount:
            is_paid = False
    return total, is_paid, num_wins


_players = attrgetter("players")
_rounds = attrgetter("rounds")
_pots = attrgetter("pots")
_wins = attrgetter("player_wins")
_blinds = attrgetter("small_blind_amount", "big_blind_amount", "ante_amount")
_COLON: Final = ord(":")
_ESCAPE: Final = b"\\"
_NAN: Final = float("nan")
_COMBOS: Final[dict[tuple[str, ...] | None, int]] = {None: NO_CARDS} | {
    (first, second): combo_index(CARD_BY_NAME[first], CARD_BY_NAME[second]) + 1 for first, second in permutations(CARD_BY_NAME, 2)
}
# A line in another layout; ids that are texts or beyond 64 bits; an amount or flag that is null; cards or streets of other names.
_MISFITS: Final = (msgspec.DecodeError, RecursionError, TypeError, ValueError, KeyError, OverflowError)
