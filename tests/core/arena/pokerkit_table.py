"""PokerKit plays an arena hand again, cards included, to stacks, pots and winners of its own.

Nothing is taken from the hand but seats, stacks, the settings, the cards and what each player did. Prices, turn order, the end of a
street, uncalled bets, pots and who wins them are PokerKit's. Its players count from the left of the button.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from pokerkit import Automation, Mode, NoLimitTexasHoldem, StandardHighHand, State

from range_reader_core import cards
from range_reader_core.arena.deal import PlayedHands
from range_reader_core.hand import EventKind

_AUTOMATIONS: Final = (
    Automation.ANTE_POSTING,
    Automation.BET_COLLECTION,
    Automation.BLIND_OR_STRADDLE_POSTING,
    Automation.RUNOUT_COUNT_SELECTION,
    Automation.HAND_KILLING,
    Automation.CHIPS_PUSHING,
    Automation.CHIPS_PULLING,
)
_BOARDS: Final = {EventKind.FLOP: slice(0, 3), EventKind.TURN: slice(3, 4), EventKind.RIVER: slice(4, 5)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A hand's end as PokerKit has it; per seat in the hand's own seat order."""

    stacks: tuple[int, ...]
    pots: tuple[int, ...]  # as the betting left them, main pot first; empty where everybody else folded
    contenders: tuple[frozenset[int], ...]  # who may win each pot
    winners: tuple[frozenset[int], ...]  # who does
    slack_chips: int  # PokerKit splits pots with the same winners as one, so this many odd chips may lie elsewhere


def judge(hands: PlayedHands, table: int) -> Judged:
    """Return table ``table`` as PokerKit plays it.

    Raises:
        ValueError: PokerKit refuses an action.
        AssertionError: it sees another player to act, another price or all-in, or the hand unfinished.
    """
    seating, events = hands.seating, hands.events
    n, button = int(seating.num_players[table]), int(seating.button[table])
    seat_of = [(player + button + 1) % n for player in range(n)]
    player_of = [(seat - button - 1) % n for seat in range(n)]
    state = _table(hands, table, seat_of)
    for player, seat in enumerate(seat_of):
        state.deal_hole("".join(cards.format_card(int(card)) for card in hands.dealt.holes[table, seat]), player)
    pots: list[tuple[int, frozenset[int]]] = []
    for index in range(events.offsets[table], events.offsets[table + 1]):
        kind = EventKind(int(events.kind[index]))
        if kind in _BOARDS:
            _show(state, pots)
            state.burn_card("??")
            state.deal_board("".join(cards.format_card(int(card)) for card in hands.dealt.board[table, _BOARDS[kind]]))
        elif kind not in (EventKind.POST_ANTE, EventKind.POST_BLIND):
            _act(state, kind, player_of[int(events.seat[index])], int(events.chips[index]), is_all_in=bool(events.is_all_in[index]))
    _show(state, pots)
    assert not state.status, "PokerKit sees the hand unfinished"
    board = hands.dealt.board[table]
    winners = [_best(hands, table, {seat_of[player] for player in players}, board) for _, players in pots]
    num_pushes = sum(type(operation).__name__ == "ChipsPushing" for operation in state.operations)
    return Judged(
        stacks=tuple(int(state.stacks[player_of[seat]]) for seat in range(n)),
        pots=tuple(chips for chips, _ in pots),
        contenders=tuple(frozenset(seat_of[player] for player in players) for _, players in pots),
        winners=tuple(winners),
        slack_chips=0 if num_pushes >= len(pots) else n * len(pots),
    )


def differences(hands: PlayedHands, table: int) -> list[str]:
    """Return where the hand's own end differs from PokerKit's; empty where they agree."""
    judged = judge(hands, table)
    n = int(hands.seating.num_players[table])
    settlement = hands.settlement
    found = []
    stacks = settlement.stacks[table, :n].tolist()
    has_split = any(len(winners) > 1 for winners in judged.winners)
    slack = judged.slack_chips if has_split else 0
    if any(abs(own - other) > slack for own, other in zip(stacks, judged.stacks, strict=True)) or sum(stacks) != sum(judged.stacks):
        found.append(f"table {table}: stacks {stacks}, PokerKit has {judged.stacks}")
    pots, wins = settlement.pots[table], settlement.wins[table]
    kept = [index for index in range(len(pots)) if pots[index]]
    # An ante that nobody could match is a pot of its own here; PokerKit hands it back.
    antes = np.sort(hands.seating.antes[table])
    kept = [index for index in kept if index != kept[-1] or pots[index] != antes[-1] - antes[-2]]
    if not judged.pots:
        if len(kept) > 1 or hands.is_live[table].sum() != 1:
            found.append(f"table {table}: pots {pots[kept]} contested, PokerKit sees everybody else fold")
        return found
    if tuple(pots[kept].tolist()) != judged.pots:
        found.append(f"table {table}: pots {pots[kept]}, PokerKit has {judged.pots}")
    winners = tuple(frozenset(np.flatnonzero(wins[index]).tolist()) for index in kept)
    if winners != judged.winners:
        found.append(f"table {table}: winners {winners}, PokerKit has {judged.winners}")
    return found


def _act(state: State, kind: EventKind, player: int, chips: int, *, is_all_in: bool) -> None:
    assert state.actor_index == player, f"player {player} acts, PokerKit expects {state.actor_index}"
    assert is_all_in == (chips > 0 and chips == state.stacks[player])
    if kind is EventKind.FOLD:
        state.fold()
    elif kind in (EventKind.CHECK, EventKind.CALL):
        assert state.checking_or_calling_amount == chips
        state.check_or_call()
    else:
        assert (kind is EventKind.BET) == (max(state.bets) == 0)
        state.complete_bet_or_raise_to(state.bets[player] + chips)


def _best(hands: PlayedHands, table: int, seats: set[int], board: np.ndarray) -> frozenset[int]:
    names = "".join(cards.format_card(int(card)) for card in board)
    made = {
        seat: StandardHighHand.from_game("".join(cards.format_card(int(card)) for card in hands.dealt.holes[table, seat]), names)
        for seat in seats
    }
    best = max(made.values())
    return frozenset(seat for seat, hand in made.items() if hand == best)


def _table(hands: PlayedHands, table: int, seat_of: list[int]) -> State:
    settings, seating = hands.settings, hands.seating
    n = len(seat_of)
    blinds = [0] * n
    for seat, chips in zip(
        seating.blind_seats[table].tolist(), (settings.small_blind, settings.big_blind, 2 * settings.big_blind), strict=True
    ):
        if seat >= 0:
            blinds[(seat - int(seating.button[table]) - 1) % n] = chips
    if n == 2:  # PokerKit takes forced bets in reverse heads-up
        blinds.reverse()
    return NoLimitTexasHoldem.create_state(
        _AUTOMATIONS,
        True,
        settings.ante,
        tuple(blinds),
        settings.big_blind,
        tuple(int(seating.stacks[table, seat]) for seat in seat_of),
        n,
        mode=Mode.CASH_GAME,
    )


def _show(state: State, pots: list[tuple[int, frozenset[int]]]) -> None:
    """Turn all cards up, once the pots are noted: PokerKit merges them when it takes beaten hands out."""
    if state.showdown_indices and not pots:
        pots += [(int(pot.amount), frozenset(pot.player_indices)) for pot in state.pots]
    while state.showdown_indices:
        state.show_or_muck_hole_cards(True)
