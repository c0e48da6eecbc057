"""PokerKit as a second opinion on a hand: the same posts and actions, played on somebody else's state machine.

``replay_in_pokerkit`` takes nothing from the hand but stacks, posts, what was done and raise sizes; prices, turn order, all-ins
and the end of each street are PokerKit's own. A hand that its rulebook cannot hold (a raise under the minimum, a blind out of
place) is ``OutsideRulesError``, which is no judgement; what it does replay must agree with the hand to the chip. PokerKit wants
exact numbers, so chips become whole units: hundredths where every amount is one, else thousandths with ``slack_units`` of
rounding.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pokerkit import Automation, Mode, NoLimitTexasHoldem, State
from pokerkit.state import (
    AntePosting,
    BlindOrStraddlePosting,
    BoardDealing,
    CheckingOrCalling,
    CompletionBettingOrRaisingTo,
)

from range_reader_core import cards
from range_reader_core.hand import BOARD_CARDS, CanonicalHand, Event, EventKind
from range_reader_core.replay import Decision

_POSTS: Final = (EventKind.POST_ANTE, EventKind.POST_BLIND)
_AUTOMATIONS: Final = (
    Automation.ANTE_POSTING,
    Automation.BLIND_OR_STRADDLE_POSTING,
    Automation.BET_COLLECTION,
    Automation.RUNOUT_COUNT_SELECTION,
)


class OutsideRulesError(Exception):
    """PokerKit cannot judge this hand; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What PokerKit sees before one action. Per-seat tuples are in the hand's own seat order, in chips."""

    seat: int  # whose turn it is
    street: int  # 0 preflop .. 3 river
    price_chips: float  # to call, at most the stack
    stacks: tuple[float, ...]
    is_live: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefereeReplay:
    """A hand as PokerKit played it."""

    seen: tuple[Seen, ...]  # one per fold, check, call, bet and raise
    street_chips: tuple[tuple[float, ...], ...]  # [street][seat] chips put in, posts included, uncalled chips not taken back
    slack_chips: float  # how far an amount may be off for rounding; 0.0 where chips are exact


def replay_in_pokerkit(hand: CanonicalHand) -> RefereeReplay:
    """Return the hand as PokerKit plays it.

    Raises:
        OutsideRulesError: PokerKit's rules refuse the hand, or it sees another player to act.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a fold with nothing to call is odd, not wrong
        return _Referee(hand).replay()


class _Referee:
    """One hand on PokerKit's table. Its players count from the left of the button, so the button comes last."""

    def __init__(self, hand: CanonicalHand) -> None:
        self.hand = hand
        self.n = hand.num_players
        amounts = [*hand.stacks, *(event.chips for event in hand.events)]
        is_exact = all(abs(chips * 100 - round(chips * 100)) < 1e-7 * max(1.0, chips) for chips in amounts)
        self.units = 100 if is_exact else 1000
        self.slack = 0 if is_exact else 20
        self.player_of = [(seat - hand.button - 1) % self.n for seat in range(self.n)]
        self.seat_of = [(player + hand.button + 1) % self.n for player in range(self.n)]
        posted = [event.chips for event in hand.events if event.kind is EventKind.POST_BLIND]
        self.is_blind_short = max(posted, default=0.0) < hand.big_blind
        self.state = self._state()
        self.seen: list[Seen] = []
        self.street = 0

    def replay(self) -> RefereeReplay:
        for event in self.hand.events[self._num_posts() :]:
            if event.kind in BOARD_CARDS:
                self._deal(event)
            elif event.kind in _POSTS:
                msg = "a post after the first action"
                raise OutsideRulesError(msg)
            else:
                self._act(event)
        return RefereeReplay(seen=tuple(self.seen), street_chips=self._street_chips(), slack_chips=self.slack / self.units)

    def _num_posts(self) -> int:
        kinds = [event.kind in _POSTS for event in self.hand.events]
        return kinds.index(False) if False in kinds else len(kinds)

    def _state(self) -> State:
        antes, blinds = [0] * self.n, [0] * self.n
        for event in self.hand.events[: self._num_posts()]:
            posted = antes if event.kind is EventKind.POST_ANTE else blinds
            posted[self.player_of[event.seat]] += self._in_units(event.chips)
        if self.n == 2:  # PokerKit takes forced bets in reverse heads-up
            antes.reverse()
            blinds.reverse()
        else:
            # A post out of turn does not move the first action, a straddle does: PokerKit tells them by their sign.
            straddle = 1.5 * self._in_units(self.hand.big_blind)
            blinds = [chips if player < 2 or chips > straddle else -chips for player, chips in enumerate(blinds)]
        stacks = [self._in_units(self.hand.stacks[seat]) for seat in self.seat_of]
        try:
            state = NoLimitTexasHoldem.create_state(
                _AUTOMATIONS,
                False,
                antes,
                blinds,
                self._in_units(self.hand.big_blind),
                stacks,
                self.n,
                mode=Mode.CASH_GAME,
            )
            for player in range(self.n):
                state.deal_hole("????", player)
        except ValueError as err:
            raise OutsideRulesError(str(err)) from err
        return state

    def _act(self, event: Event) -> None:
        state, player = self.state, self.player_of[event.seat]
        if state.actor_index != player:
            msg = f"seat {event.seat} acts, PokerKit expects player {state.actor_index}"
            raise OutsideRulesError(msg)
        price = state.checking_or_calling_amount
        assert price is not None
        is_call = event.kind is EventKind.CALL
        if is_call and self.street == 0 and self.is_blind_short and self._in_units(event.chips) > price + self.slack:
            msg = "a call of the whole blind where less was posted, as sites ask for it"
            raise OutsideRulesError(msg)
        self.seen.append(
            Seen(
                seat=event.seat,
                street=self.street,
                price_chips=price / self.units,
                stacks=tuple(state.stacks[self.player_of[seat]] / self.units for seat in range(self.n)),
                is_live=tuple(state.statuses[self.player_of[seat]] for seat in range(self.n)),
            )
        )
        try:
            if event.kind is EventKind.FOLD:
                state.fold()
            elif event.kind in (EventKind.CHECK, EventKind.CALL):
                state.check_or_call()
            else:
                whole = state.stacks[player]
                added = whole if event.is_all_in else self._in_units(event.chips)
                state.complete_bet_or_raise_to(state.bets[player] + added)
        except ValueError as err:
            raise OutsideRulesError(str(err)) from err
        if event.is_all_in != (state.stacks[player] == 0) and state.stacks[player] <= self.slack:
            msg = f"seat {event.seat} keeps dust, which rounding hides"
            raise OutsideRulesError(msg)

    def _deal(self, event: Event) -> None:
        state = self.state
        while state.showdown_indices:
            state.show_or_muck_hole_cards(())  # an all-in before the river: nobody's cards are needed
        try:
            state.burn_card("??")
            state.deal_board("".join(cards.format_card(card) for card in event.board))
        except ValueError as err:
            raise OutsideRulesError(str(err)) from err
        self.street += 1

    def _street_chips(self) -> tuple[tuple[float, ...], ...]:
        """Add up what PokerKit recorded, so that a wrong price shows even where no decision follows."""
        streets: list[list[int]] = [[0] * self.n]
        live = [0] * self.n
        for operation in self.state.operations:
            if isinstance(operation, BoardDealing):
                streets.append([0] * self.n)
                live = [0] * self.n
            elif isinstance(operation, AntePosting | BlindOrStraddlePosting | CheckingOrCalling | CompletionBettingOrRaisingTo):
                player = operation.player_index
                is_total = isinstance(operation, CompletionBettingOrRaisingTo)
                added = operation.amount - live[player] if is_total else operation.amount
                live[player] += 0 if isinstance(operation, AntePosting) else added
                streets[-1][player] += added
        return tuple(tuple(street[self.player_of[seat]] / self.units for seat in range(self.n)) for street in streets)

    def _in_units(self, chips: float) -> int:
        return round(chips * self.units)


def differences(hand: CanonicalHand, decisions: Sequence[Decision], judged: RefereeReplay) -> list[str]:
    """Return where ``replay``'s decisions and the hand's own chips differ from what PokerKit saw; empty where they agree."""
    found: list[str] = []
    if len(decisions) != len(judged.seen):
        found.append(f"{len(decisions)} decisions, PokerKit saw {len(judged.seen)}")
    slack = judged.slack_chips + 1e-9
    for number, (decision, seen) in enumerate(zip(decisions, judged.seen, strict=False)):
        own_price = min(decision.price_chips, decision.stacks[decision.seat])
        if (decision.seat, decision.street, decision.is_live) != (seen.seat, seen.street, seen.is_live):
            found.append(f"decision {number}: {decision}, PokerKit saw {seen}")
        if abs(own_price - seen.price_chips) > slack:
            found.append(f"decision {number}: price {own_price}, PokerKit asks {seen.price_chips}")
        if any(abs(own - other) > slack for own, other in zip(decision.stacks, seen.stacks, strict=True)):
            found.append(f"decision {number}: stacks {decision.stacks}, PokerKit holds {seen.stacks}")
    own_streets = _street_chips_of(hand)
    if len(own_streets) != len(judged.street_chips):
        found.append(f"{len(own_streets)} streets, PokerKit dealt {len(judged.street_chips)}")
    for street, (own, other) in enumerate(zip(own_streets, judged.street_chips, strict=False)):
        if any(abs(mine - theirs) > slack for mine, theirs in zip(own, other, strict=True)):
            found.append(f"street {street}: chips {own}, PokerKit counts {other}")
    return found


def _street_chips_of(hand: CanonicalHand) -> tuple[tuple[float, ...], ...]:
    """Return [street][seat] chips put in as the hand's own events say."""
    streets = [[0.0] * hand.num_players]
    for event in hand.events:
        if event.kind in BOARD_CARDS:
            streets.append([0.0] * hand.num_players)
        else:
            streets[-1][event.seat] += event.chips
    return tuple(tuple(street) for street in streets)
