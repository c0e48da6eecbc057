"""A hypothesis strategy of legal hands, and a writer of them as Open Hand History.

Hands have two to ten players, stacks from half a blind up, antes, straddles, dead posts, short blinds, all-ins and side pots. Chips
are quarters, so sums are exact. The price is what was posted, as simulators have it.
"""

import json
import random
from collections.abc import Sequence
from typing import Any, Final

from hypothesis import strategies as st

from range_reader_core.cards import NUM_CARDS, format_card
from range_reader_core.hand import BOARD_CARDS, CanonicalHand, Event, EventKind, LabelSource
from range_reader_core.ohh_amounts import AmountMode
from range_reader_core.replay import uncalled_chips
from tests.core.hands import pay_out

QUARTER: Final = 0.25
_STREETS: Final = (EventKind.FLOP, EventKind.TURN, EventKind.RIVER)


@st.composite
def legal_hands(draw: st.DrawFn, max_players: int = 10) -> CanonicalHand:
    """Return one legal hand."""
    num_players = draw(st.integers(2, max_players))
    stacks = [QUARTER * draw(st.one_of(st.integers(1, 40), st.integers(40, 2000))) for _ in range(num_players)]
    # One seed instead of 52 draws: which cards are dealt matters to nothing here, and shrinking them is slow.
    deck = random.Random(draw(st.integers(0, 2**32))).sample(range(NUM_CARDS), NUM_CARDS)  # noqa: S311
    table = _Table(draw, stacks, deck[2 * num_players :], button=draw(st.integers(0, num_players - 1)))
    table.play(ante=draw(st.sampled_from([0.0, 0.0, 0.5])), has_straddle=draw(st.booleans()), has_dead_post=draw(st.booleans()))
    holes = [(min(pair), max(pair)) for pair in zip(deck[:num_players], deck[num_players : 2 * num_players], strict=True)]
    sources = draw(st.lists(st.sampled_from([*LabelSource, None]), min_size=num_players, max_size=num_players))
    ranking = draw(st.permutations(range(num_players)))
    return CanonicalHand(
        hand_id=f"site/network#{draw(st.integers(1, 10**9))}",
        source="site/network",
        seat_numbers=tuple(sorted(draw(st.sets(st.integers(1, 12), min_size=num_players, max_size=num_players)))),
        button=table.button,
        small_blind=1.0,
        big_blind=2.0,
        ante=table.ante,
        stacks=tuple(stacks),
        hole_cards=tuple(hole if source is not None else None for hole, source in zip(holes, sources, strict=True)),
        label_sources=tuple(sources),
        events=tuple(table.events),
        collected=pay_out(table.put_in, table.has_folded, ranking),
        content_hash="",
    )


class _Table:
    """One hand in play."""

    def __init__(self, draw: st.DrawFn, stacks: Sequence[float], deck: Sequence[int], button: int) -> None:
        self.draw = draw
        self.num_players = len(stacks)
        self.left = list(stacks)
        self.put_in = [0.0] * len(stacks)
        self.street = [0.0] * len(stacks)
        self.has_folded = [False] * len(stacks)
        self.deck = list(deck)
        self.button = button
        self.ante = 0.0
        self.events: list[Event] = []

    def play(self, *, ante: float, has_straddle: bool, has_dead_post: bool) -> None:
        """Play to the last fold or the river."""
        self.ante = ante
        order = [(self.button + 1 + step) % self.num_players for step in range(self.num_players)]
        for seat in order:
            self._post(EventKind.POST_ANTE, seat, ante)
        small, big = (order[1], order[0]) if self.num_players == 2 else (order[0], order[1])
        self._post(EventKind.POST_BLIND, small, 1.0)
        self._post(EventKind.POST_BLIND, big, 2.0)
        if has_dead_post and self.num_players > 3:
            self._post(EventKind.POST_ANTE, order[-1], 1.0)
            self._post(EventKind.POST_BLIND, order[-1], 2.0)
        first = order.index(big) + 1
        if has_straddle and self.num_players > 2 and self.left[order[2]] >= 4.0:
            self._post(EventKind.POST_BLIND, order[2], 4.0)
            first = 3
        self._bet([order[(first + step) % self.num_players] for step in range(self.num_players)])
        for street in _STREETS:
            if self.has_folded.count(False) == 1:
                return
            board = [self.deck.pop() for _ in range(BOARD_CARDS[street])]
            self.events.append(Event(street, board=tuple(sorted(board))))
            self.street = [0.0] * self.num_players
            self._bet(order)

    def _post(self, kind: EventKind, seat: int, chips: float) -> None:
        chips = min(chips, self.left[seat])
        if chips:
            self._pay(kind, seat, chips)
            if kind is EventKind.POST_ANTE:
                self.street[seat] -= chips

    def _pay(self, kind: EventKind, seat: int, chips: float) -> None:
        self.left[seat] -= chips
        self.put_in[seat] += chips
        self.street[seat] += chips
        self.events.append(Event(kind, seat, chips, is_all_in=not self.left[seat]))

    def _bet(self, order: Sequence[int]) -> None:
        waiting = [seat for seat in order if self.left[seat] and not self.has_folded[seat]]
        while waiting and self.has_folded.count(False) > 1:
            seat = waiting.pop(0)
            can_bet = any(self.left[other] and not self.has_folded[other] for other in order if other != seat)
            highest = max(self.street)
            price = highest - self.street[seat]
            if not can_bet and price <= 0.0:
                continue
            choice = self.draw(st.integers(0, 5))
            most = self.left[seat]
            if choice == 0 and price > 0.0:
                self.has_folded[seat] = True
                self.events.append(Event(EventKind.FOLD, seat))
            elif choice >= 4 and most > price and can_bet:
                quarters = self.draw(st.integers(1, max(1, int((most - price) / QUARTER))))
                kind = EventKind.BET if highest <= 0.0 else EventKind.RAISE
                chips = min(price + quarters * QUARTER, most)
                # More than the short blind but not more than a full one would be taken for a call of the full blind.
                if self.events[-1].kind < EventKind.FLOP and not self._has_board() and self.street[seat] + chips <= 2.0:
                    chips = most if self.street[seat] + most <= 2.0 else 2.25 - self.street[seat]
                    kind = EventKind.CALL if self.street[seat] + chips <= 2.0 else kind
                self._pay(kind, seat, chips)
                turn = list(order).index(seat)
                later = [order[(turn + step) % len(order)] for step in range(1, len(order))]
                if self.street[seat] > highest:
                    waiting = [other for other in later if self.left[other] and not self.has_folded[other]]
            elif price > 0.0:
                self._pay(EventKind.CALL, seat, min(price, most))
            else:
                self.events.append(Event(EventKind.CHECK, seat))

    def _has_board(self) -> bool:
        return any(event.board for event in self.events)


_NAMES: Final = {
    EventKind.FOLD: "Fold",
    EventKind.CHECK: "Check",
    EventKind.CALL: "Call",
    EventKind.BET: "Bet",
    EventKind.RAISE: "Raise",
}
_TOTALS: Final = {
    AmountMode.ADDED: set(),
    AmountMode.STREET_TOTAL: {EventKind.CALL, EventKind.BET, EventKind.RAISE},
    AmountMode.RAISE_TOTAL: {EventKind.RAISE},
}


def write_ohh(
    hand: CanonicalHand,
    *,
    mode: AmountMode = AmountMode.ADDED,
    is_net: bool = False,
    is_pretty: bool = False,
    is_exact: bool = True,
) -> bytes:
    """Return a hand as one record with a blank line after it.

    Args:
        hand: any hand; its posts are named in the order in which they come.
        mode: how amounts are written.
        is_net: leave the uncalled bet out of the pot and of what the largest winners get.
        is_pretty: print on many lines.
        is_exact: rs-poker's layout; otherwise one with members left out.
    """
    site, _, network = hand.source.partition("/")
    rounds, streets = _rounds(hand, mode)
    wins = list(hand.collected)
    if is_net:
        uncalled = uncalled_chips(streets)
        for seat in sorted(range(hand.num_players), key=wins.__getitem__, reverse=True):
            taken = min(uncalled, wins[seat])
            wins[seat] -= taken
            uncalled -= taken
    record: dict[str, Any] = {
        "spec_version": "1.4.7",
        "site_name": site,
        "network_name": network,
        "internal_version": "1",
        "tournament": False,
        "game_number": hand.hand_id.partition("#")[2],
        "start_date_utc": "2026-01-01T00:00:00+00:00",
        "table_name": "Table",
        "game_type": "Holdem",
        "bet_limit": {"bet_type": "NL", "bet_cap": 0.0} if is_exact else {"bet_type": "NL"},
        "table_size": hand.num_players,
        "currency": "USD",
        "dealer_seat": hand.seat_numbers[hand.button],
        "small_blind_amount": hand.small_blind,
        "big_blind_amount": hand.big_blind,
        "ante_amount": hand.ante,
        "players": [
            {"id": seat, "seat": number, "name": "p", "display": "p", "starting_stack": stack, "is_sitting_out": False}
            for seat, (number, stack) in enumerate(zip(hand.seat_numbers, hand.stacks, strict=True))
        ],
        "rounds": rounds,
        "pots": [
            {
                "number": 1,
                "amount": sum(wins),
                "player_wins": [{"player_id": seat, "win_amount": won} for seat, won in enumerate(wins) if won],
            }
        ],
    }
    return json.dumps({"ohh": record}, indent=4 if is_pretty else None).encode() + b"\n\n"


def _rounds(hand: CanonicalHand, mode: AmountMode) -> tuple[list[dict[str, Any]], list[list[float]]]:
    """Return the rounds of a hand and the live chips per street and seat."""
    rounds: list[dict[str, Any]] = [{"id": 1, "street": "Preflop", "actions": []}]
    streets = [[0.0] * hand.num_players]
    num_blinds = 0
    for seat, (pair, source) in enumerate(zip(hand.hole_cards, hand.label_sources, strict=True)):
        if pair is not None and source is LabelSource.DEALT:
            _add(rounds, seat, "Dealt Cards", cards=[format_card(card) for card in pair])
    for event in hand.events:
        if event.board:
            names = [format_card(card) for card in event.board]
            rounds.append({"id": len(rounds) + 1, "street": event.kind.name.title(), "cards": names, "actions": []})
            streets.append([0.0] * hand.num_players)
            continue
        name = _NAMES.get(event.kind)
        if event.kind is EventKind.POST_ANTE:
            name = "Post Dead" if num_blinds else "Post Ante"
        elif event.kind is EventKind.POST_BLIND:
            name = ("Post SB", "Post BB", "Straddle")[min(num_blinds, 2)]
            num_blinds += 1
        if event.kind is not EventKind.POST_ANTE:
            streets[-1][event.seat] += event.chips
        amount = streets[-1][event.seat] if event.kind in _TOTALS[mode] else event.chips
        _add(rounds, event.seat, str(name), amount, is_allin=event.is_all_in)
    shown = [(seat, pair) for seat, pair in enumerate(hand.hole_cards) if hand.label_sources[seat] is LabelSource.SHOWN]
    if shown:
        rounds.append({"id": len(rounds) + 1, "street": "Showdown", "actions": []})
    for seat, pair in shown:
        assert pair is not None
        _add(rounds, seat, "Shows Cards", cards=[format_card(card) for card in pair])
    return rounds, streets


def _add(rounds: list[dict[str, Any]], seat: int, name: str, amount: float = 0.0, *, is_allin: bool = False, **more: Any) -> None:
    actions = rounds[-1]["actions"]
    number = len(actions) + 1
    actions.append({"action_number": number, "player_id": seat, "action": name, "amount": amount, "is_allin": is_allin, **more})
