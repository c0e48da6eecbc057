"""Arena hands as Open Hand History text, in the layout that rs-poker's arena writes, under a site name of its own.

One compact object a hand and a blank line after it. Every hole card is written down, a showdown shows the winners' alone. Unlike
rs-poker's, pots hold no uncalled chips, since our rules give those back. Dates count seconds from a fixed day, so that the same
hands are the same bytes.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from range_reader_core import cards
from range_reader_core.arena.betting import NUM_SEATS
from range_reader_core.arena.deal import PlayedHands
from range_reader_core.hand import EventKind

SITE: Final = "range_reader"
NETWORK: Final = "range_reader_arena"
WRITER_VERSION: Final = "1"  # raise it when the same hands would be other bytes
SOURCE: Final = f"{SITE}/{NETWORK}"

_FIRST_DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)
_SUIT_ORDER: Final = "schd"  # rs-poker sorts cards of a rank so
_MAX_ACTIONS: Final = 400
_NAMES: Final = {
    EventKind.FOLD: "Fold",
    EventKind.CHECK: "Check",
    EventKind.CALL: "Call",
    EventKind.BET: "Bet",
    EventKind.RAISE: "Raise",
    EventKind.POST_ANTE: "Post Ante",
}
_POST_NAMES: Final = ("Post SB", "Post BB", "Straddle")
_STREETS: Final = {EventKind.FLOP: "Flop", EventKind.TURN: "Turn", EventKind.RIVER: "River"}


def hand_id(game_number: str) -> str:
    """Return the id under which a written hand is read."""
    return f"{SOURCE}#{game_number}"


def game_numbers(num_hands: int, generator: np.random.Generator) -> list[str]:
    """Return random 128-bit numbers as text, as rs-poker names its games."""
    words = generator.integers(0, 2**64, (num_hands, 2), dtype=np.uint64).tolist()
    return [str(high << 64 | low) for high, low in words]


def hand_lines(
    hands: PlayedHands, *, player_names: Sequence[Sequence[str]], numbers: Sequence[str], first_index: int
) -> Iterator[str]:
    """Yield one line a hand, with the blank line after it.

    Args:
        hands: what was played.
        player_names: of each seat of each table; the names of empty seats are not looked at.
        numbers: of each table's game.
        first_index: which hand of the whole deal the first one is; it decides the date.
    """
    settings, seating, settlement = hands.settings, hands.seating, hands.settlement
    texts = _COMBO_TEXT[hands.dealt.combos].tolist()
    boards = _board_texts(hands)
    blind_seats = seating.blind_seats.tolist()
    columns = [column.tolist() for column in (hands.events.kind, hands.events.seat, hands.events.chips, hands.events.is_all_in)]
    offsets = hands.events.offsets.tolist()
    sizes, buttons, stacks = seating.num_players.tolist(), seating.button.tolist(), seating.stacks.tolist()
    pots, wins = settlement.pots.tolist(), settlement.wins.tolist()
    is_showdown = (hands.is_live.sum(axis=1) > 1).tolist()
    constants = (
        f'"small_blind_amount":{settings.small_blind}.0,"big_blind_amount":{settings.big_blind}.0,"ante_amount":{settings.ante}.0'
    )
    for table, number in enumerate(numbers):
        size = sizes[table]
        span = slice(offsets[table], offsets[table + 1])
        rounds = _rounds(size, texts[table], boards[table], blind_seats[table], *(column[span] for column in columns))
        pot_texts, winners = _pots(pots[table], wins[table], size)
        if is_showdown[table]:
            shows = ",".join(
                f'{_HEAD[place][seat]}Shows Cards","amount":0.0,"is_allin":false,"cards":{texts[table][seat]}}}'
                for place, seat in enumerate(winners, 1)
            )
            rounds.append(f'{{"id":{len(rounds) + 1},"street":"Showdown","actions":[{shows}]}}')
        players = ",".join(
            f'{{"id":{seat},"seat":{seat + 1},"name":"{name}","display":"{name}","starting_stack":{stack}.0,'
            f'"is_sitting_out":false}}'
            for seat, (name, stack) in enumerate(zip(player_names[table][:size], stacks[table][:size], strict=True))
        )
        date = (_FIRST_DAY + timedelta(seconds=first_index + table)).isoformat()
        yield (
            f'{{"ohh":{{"spec_version":"1.4.7","site_name":"{SITE}","network_name":"{NETWORK}","internal_version":"{WRITER_VERSION}",'
            f'"tournament":false,"game_number":"{number}","start_date_utc":"{date}","table_name":"Table {number}",'
            f'"game_type":"Holdem","bet_limit":{{"bet_type":"NL","bet_cap":0.0}},"table_size":{size},"currency":"USD",'
            f'"dealer_seat":{buttons[table] + 1},{constants},"players":[{players}],"rounds":[{",".join(rounds)}],'
            f'"pots":[{pot_texts}]}}}}\n\n'
        )


def _rounds(
    size: int,
    holes: Sequence[str],
    board: Sequence[str],
    blind_seats: Sequence[int],
    kinds: Sequence[int],
    seats: Sequence[int],
    chips: Sequence[int],
    all_ins: Sequence[bool],
) -> list[str]:
    """Return the betting rounds: antes, the deal, blinds and actions, then street by street."""
    rounds: list[str] = []
    actions: list[str] = []
    head, is_dealt = '{"id":1,"street":"Preflop","actions":[', False
    for kind, seat, added, is_all_in in zip(kinds, seats, chips, all_ins, strict=True):
        if not is_dealt and kind != _POST_ANTE:
            actions += _dealt(size, holes, len(actions))
            is_dealt = True
        if kind >= _FLOP:
            rounds.append(f"{head}{','.join(actions)}]}}")
            actions = []
            street = kind - _FLOP
            head = f'{{"id":{street + 2},"street":"{_STREET_NAMES[street]}","cards":{board[street]},"actions":['
        else:
            name = _POST_NAMES[blind_seats.index(seat)] if kind == _POST_BLIND else _KIND_NAMES[kind]
            flag = "true" if is_all_in else "false"
            actions.append(f'{_HEAD[len(actions) + 1][seat]}{name}","amount":{added}.0,"is_allin":{flag}}}')
    if not is_dealt:
        actions += _dealt(size, holes, len(actions))
    rounds.append(f"{head}{','.join(actions)}]}}")
    return rounds


def _dealt(size: int, holes: Sequence[str], num_before: int) -> list[str]:
    return [
        f'{_HEAD[num_before + seat + 1][seat]}Dealt Cards","amount":0.0,"is_allin":false,"cards":{holes[seat]}}}'
        for seat in range(size)
    ]


def _pots(pots: Sequence[int], wins: Sequence[Sequence[int]], size: int) -> tuple[str, list[int]]:
    """Return the pots' text, main pot first, and who won any of them, in that order."""
    texts: list[str] = []
    winners: list[int] = []
    for chips, won in zip(pots, wins, strict=True):
        if chips:
            paid = [(seat, won[seat]) for seat in range(size) if won[seat]]
            winners += [seat for seat, _ in paid if seat not in winners]
            parts = ",".join(f'{{"player_id":{seat},"win_amount":{amount}.0}}' for seat, amount in paid)
            texts.append(f'{{"number":{len(texts) + 1},"amount":{chips}.0,"player_wins":[{parts}]}}')
    return ",".join(texts), winners


def _board_texts(hands: PlayedHands) -> list[tuple[str, str, str]]:
    """Return the cards of flop, turn and river of each table; the flop sorted as rs-poker sorts it."""
    place = _PLACE[hands.dealt.board]
    place[:, :3].sort(axis=1)
    names = _NAME_BY_PLACE[place].tolist()
    return [(f'["{a}","{b}","{c}"]', f'["{turn}"]', f'["{river}"]') for a, b, c, turn, river in names]


def _places() -> np.ndarray:
    """Return where each card comes in rs-poker's order."""
    return np.array([card // 4 * 4 + _SUIT_ORDER.index(cards.SUITS[card % 4]) for card in range(cards.NUM_CARDS)])


def _combo_texts() -> np.ndarray:
    ordered = np.sort(_PLACE[cards.COMBO_CARDS], axis=1)
    return np.array([f'["{first}","{second}"]' for first, second in _NAME_BY_PLACE[ordered].tolist()], dtype=object)


_PLACE: Final = _places()
_NAME_BY_PLACE: Final = np.array([cards.format_card(int(card)) for card in np.argsort(_PLACE)], dtype=object)
_COMBO_TEXT: Final = _combo_texts()  # (1326,)
_POST_ANTE: Final = int(EventKind.POST_ANTE)
_POST_BLIND: Final = int(EventKind.POST_BLIND)
_FLOP: Final = int(EventKind.FLOP)
_KIND_NAMES: Final = {int(kind): name for kind, name in _NAMES.items()}
_STREET_NAMES: Final = tuple(_STREETS.values())
_HEAD: Final = [
    [f'{{"action_number":{number},"player_id":{seat},"action":"' for seat in range(NUM_SEATS)] for number in range(_MAX_ACTIONS)
]
