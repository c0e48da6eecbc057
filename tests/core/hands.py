"""Hands for tests: a short notation, a few hand-built ones, and seeded random legal hands of any table size.

Events are written one a string: ``"ante@0 0.1"``, ``"blind@1 1"``, ``"fold@2"``, ``"check@0"``, ``"call@0 2"``, ``"bet@1 4"``,
``"raise@0 12"``, ``"raise@0 99 all-in"``, ``"flop 2c 7d Ts"``, ``"turn Kh"``, ``"river 3s"``. Amounts are the chips this action
adds, never street totals. Random hands conserve chips, follow turn order, pay exact prices and raise at least the minimum.
Collected chips are gross: they include an uncalled bet, so they add up to everything that was put in. Who wins a random
showdown is drawn at random, because results never reach an input.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from range_reader_core import cards
from range_reader_core.hand import BOARD_CARDS, NO_SEAT, CanonicalHand, Event, EventKind, LabelSource
from range_reader_core.reads import Reads
from range_reader_core.tokens import MAX_SEATS, PAD

_KIND_BY_NAME: Final[Mapping[str, EventKind]] = {
    "ante": EventKind.POST_ANTE,
    "blind": EventKind.POST_BLIND,
    "fold": EventKind.FOLD,
    "check": EventKind.CHECK,
    "call": EventKind.CALL,
    "bet": EventKind.BET,
    "raise": EventKind.RAISE,
    "flop": EventKind.FLOP,
    "turn": EventKind.TURN,
    "river": EventKind.RIVER,
}
_STREETS: Final = (EventKind.FLOP, EventKind.TURN, EventKind.RIVER)


def build_hand(
    events: Sequence[str],
    *,
    holes: Sequence[str | None],
    stacks: Sequence[float],
    button: int = 0,
    small_blind: float = 1.0,
    big_blind: float = 2.0,
    ante: float = 0.0,
    hand_id: str = "tests#1",
    shown: Sequence[int] = (),
    ranking: Sequence[int] | None = None,
) -> CanonicalHand:
    """Return a hand in the notation of this module.

    Args:
        events: what happened, one string each.
        holes: one per seat, such as ``"AhKd"``; None where unknown.
        stacks: chips before any post.
        button: seat of the dealer.
        small_blind: nominal, chips.
        big_blind: nominal, chips.
        ante: nominal, chips.
        hand_id: the hand's id.
        shown: seats whose cards are known only because they were shown.
        ranking: seats from the best hand to the worst; seat order when left out.
    """
    parsed = tuple(parse_event(text) for text in events)
    contributed = [0.0] * len(stacks)
    has_folded = [False] * len(stacks)
    for event in parsed:
        if event.seat != NO_SEAT:
            contributed[event.seat] += event.chips
            has_folded[event.seat] |= event.kind is EventKind.FOLD
    hole_cards = tuple(None if text is None else parse_hole(text) for text in holes)
    sources = tuple(
        None if pair is None else (LabelSource.SHOWN if seat in shown else LabelSource.DEALT)
        for seat, pair in enumerate(hole_cards)
    )
    return CanonicalHand(
        hand_id=hand_id,
        source="tests/hands",
        seat_numbers=tuple(range(1, len(stacks) + 1)),
        button=button,
        small_blind=small_blind,
        big_blind=big_blind,
        ante=ante,
        stacks=tuple(stacks),
        hole_cards=hole_cards,
        label_sources=sources,
        events=parsed,
        collected=pay_out(contributed, has_folded, ranking if ranking is not None else range(len(stacks))),
        content_hash=hashlib.sha256(repr((hole_cards, parsed, stacks, button)).encode()).hexdigest()[:16],
    )


def parse_event(text: str) -> Event:
    """Return the event that a string of this module's notation denotes."""
    head, *rest = text.split()
    name, _, seat = head.partition("@")
    kind = _KIND_BY_NAME[name]
    if kind in BOARD_CARDS:
        return Event(kind, board=tuple(sorted(cards.parse_card(card) for card in rest)))
    return Event(kind, int(seat), float(rest[0]) if rest else 0.0, is_all_in="all-in" in rest)


def parse_hole(text: str) -> tuple[int, int]:
    """Return the two cards of a name such as ``"AhKd"``, the lower first."""
    first, second = cards.parse_card(text[:2]), cards.parse_card(text[2:])
    return min(first, second), max(first, second)


def pay_out(contributed: Sequence[float], has_folded: Sequence[bool], ranking: Sequence[int]) -> tuple[float, ...]:
    """Return the chips each seat collects when ``ranking`` lists seats from the best hand to the worst."""
    left = list(contributed)
    collected = [0.0] * len(left)
    for winner in ranking:
        if has_folded[winner]:
            continue
        share = left[winner]
        for seat, chips in enumerate(left):
            taken = min(chips, share)
            left[seat] -= taken
            collected[winner] += taken
    # Chips of a folded seat above every live contribution go to the best live hand.
    best = next(seat for seat in ranking if not has_folded[seat])
    collected[best] += sum(left)
    return tuple(collected)


def three_way_showdown() -> CanonicalHand:
    """Return a three-handed hand: preflop raise and call, a flop fold, turn checked, river bet and call. Button seat 0."""
    return build_hand(
        [
            "blind@1 1",
            "blind@2 2",
            "raise@0 6",
            "call@1 5",
            "call@2 4",
            "flop 2c 7d Ts",
            "check@1",
            "check@2",
            "bet@0 9",
            "fold@1",
            "call@2 9",
            "turn Kh",
            "check@2",
            "check@0",
            "river 3s",
            "bet@2 20",
            "call@0 20",
        ],
        holes=["AhAd", "9c8c", "TdTc"],
        stacks=[200.0, 150.0, 100.0],
        ranking=[2, 0, 1],
        hand_id="tests#three-way",
    )


def heads_up_run_out() -> CanonicalHand:
    """Return a heads-up hand that is all in before the flop, so that the whole board runs out. Button seat 0."""
    return build_hand(
        ["blind@0 1", "blind@1 2", "raise@0 99 all-in", "call@1 58 all-in", "flop 2c 7d Ts", "turn Kh", "river 3s"],
        holes=["AhAd", "KsKc"],
        stacks=[100.0, 60.0],
        hand_id="tests#run-out",
    )


def open_fold() -> CanonicalHand:
    """Return a three-handed hand in which seat 0 folds at once; seats 1 and 2 see a checked board. Button seat 0."""
    return build_hand(
        [
            "blind@1 1",
            "blind@2 2",
            "fold@0",
            "call@1 1",
            "check@2",
            "flop 4c 5d 6s",
            "check@1",
            "check@2",
            "turn 6c",
            "check@1",
            "bet@2 4",
            "fold@1",
        ],
        holes=["7h2d", "9c8c", "TdTc"],
        stacks=[200.0, 150.0, 100.0],
        ranking=[2, 1, 0],
        hand_id="tests#open-fold",
    )


def walk() -> CanonicalHand:
    """Return a hand in which everyone folds to the big blind and nobody puts in a voluntary chip. Button seat 0."""
    return build_hand(
        ["blind@1 1", "blind@2 2", "fold@0", "fold@1"],
        holes=["7h2d", "9c8c", "TdTc"],
        stacks=[200.0, 150.0, 100.0],
        ranking=[2, 1, 0],
        hand_id="tests#walk",
    )


def shown_cards_only() -> CanonicalHand:
    """Return ``three_way_showdown`` as a site would write it: seat 0 is the hero, seat 2 showed, seat 1 is unknown."""
    hand = three_way_showdown()
    return with_holes(hand, [hand.hole_cards[0], None, hand.hole_cards[2]], sources=[LabelSource.DEALT, None, LabelSource.SHOWN])


def with_holes(
    hand: CanonicalHand, holes: Sequence[tuple[int, int] | None], *, sources: Sequence[LabelSource | None] | None = None
) -> CanonicalHand:
    """Return the hand with other hole cards; label sources stay unless given."""
    return replace(hand, hole_cards=tuple(holes), label_sources=hand.label_sources if sources is None else tuple(sources))


def pad_tokens(reads: Reads) -> npt.NDArray[np.int64]:
    """Return the tokens of all reads as (N, T), right-padded to the longest."""
    padded = np.full((reads.num_reads, int(reads.lengths.max())), PAD, dtype=np.int64)
    padded[np.arange(padded.shape[1]) < reads.lengths[:, None]] = reads.tokens
    return padded


def random_hands(seed: int, num_hands: int, num_players: int | None = None) -> list[CanonicalHand]:
    """Return ``num_hands`` random legal hands with ids ``tests#<seed>-<index>``; table sizes 2..9 unless given."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 10, num_hands) if num_players is None else np.full(num_hands, num_players)
    return [random_hand(rng, int(size), hand_id=f"tests#{seed}-{index}") for index, size in enumerate(sizes)]


def random_hand(rng: np.random.Generator, num_players: int, *, hand_id: str | None = None) -> CanonicalHand:
    """Return a hand of random legal betting in which all hole cards are known.

    Better starting hands raise more and fold less, so a reader of the betting has something to learn.
    """
    if not 2 <= num_players <= MAX_SEATS:
        msg = f"expected 2..{MAX_SEATS} players, got {num_players}"
        raise ValueError(msg)
    table = _Table(rng, num_players)
    table.play()
    return CanonicalHand(
        hand_id=hand_id if hand_id is not None else f"tests#{int(rng.integers(2**62))}",
        source=f"tests/{('even', 'odd')[num_players % 2]}",
        seat_numbers=tuple(range(1, num_players + 1)),
        button=table.button,
        small_blind=table.big_blind / 2,
        big_blind=table.big_blind,
        ante=table.ante,
        stacks=table.starting_stacks,
        hole_cards=table.holes,
        label_sources=(LabelSource.DEALT,) * num_players,
        events=tuple(table.events),
        collected=pay_out(table.contributed, table.has_folded, [int(seat) for seat in rng.permutation(num_players)]),
        content_hash=hashlib.sha256(repr((table.holes, table.events, table.starting_stacks)).encode()).hexdigest()[:16],
    )


def relabeled(hand: CanonicalHand, relabeling: int) -> CanonicalHand:
    """Return a hand with its suits called otherwise, by the number of the relabeling."""

    def moved(dealt: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(cards.relabel_card(card, relabeling) for card in dealt))

    holes = [None if pair is None else (moved(pair)[0], moved(pair)[1]) for pair in hand.hole_cards]
    events = tuple(event._replace(board=moved(event.board)) for event in hand.events)
    return replace(hand, hole_cards=tuple(holes), events=events)


class _Table:
    """The state of one random hand while it is played. Chips are multiples of a quarter, so sums are exact."""

    def __init__(self, rng: np.random.Generator, num_players: int) -> None:
        self.rng = rng
        self.n = num_players
        self.big_blind = float(rng.choice([1.0, 2.0, 10.0]))
        self.ante = self.big_blind / 4 if rng.random() < 0.25 else 0.0
        self.button = int(rng.integers(num_players))
        short_or_deep = rng.choice([8, 40, 100, 250], num_players)
        self.starting_stacks = tuple(float(bb) * self.big_blind + float(rng.integers(8)) / 4 for bb in short_or_deep)
        self.stacks = list(self.starting_stacks)
        deck = [int(card) for card in rng.permutation(cards.NUM_CARDS)]
        self.holes = tuple((min(pair), max(pair)) for pair in zip(deck[: 2 * self.n : 2], deck[1 : 2 * self.n : 2], strict=True))
        self.deck = deck[2 * self.n :]
        self.strength = [_strength(*pair) for pair in self.holes]
        self.contributed = [0.0] * self.n
        self.street_chips = [0.0] * self.n
        self.has_folded = [False] * self.n
        self.last_raise = self.big_blind
        self.events: list[Event] = []

    def play(self) -> None:
        """Play from the posts to the last action or the river."""
        order = [(self.button + 1 + k) % self.n for k in range(self.n)]
        if self.ante:
            for seat in order:
                self._put(EventKind.POST_ANTE, seat, self.ante)
            self.street_chips = [0.0] * self.n
        small = self.button if self.n == 2 else order[0]
        big = (small + 1) % self.n
        self._put(EventKind.POST_BLIND, small, self.big_blind / 2)
        self._put(EventKind.POST_BLIND, big, self.big_blind)
        self._bet_round((big + 1) % self.n)
        for street in _STREETS:
            if self.has_folded.count(False) == 1:
                return
            dealt = BOARD_CARDS[street]
            self.events.append(Event(street, board=tuple(sorted(self.deck[:dealt]))))
            self.deck = self.deck[dealt:]
            self.street_chips = [0.0] * self.n
            self.last_raise = self.big_blind
            self._bet_round(order[0])

    def _put(self, kind: EventKind, seat: int, chips: float) -> None:
        self.stacks[seat] -= chips
        self.contributed[seat] += chips
        self.street_chips[seat] += chips
        self.events.append(Event(kind, seat, chips, is_all_in=self.stacks[seat] == 0))

    def _bet_round(self, first: int) -> None:
        queue = [(first + k) % self.n for k in range(self.n)]
        while queue:
            seat = queue.pop(0)
            price = max(self.street_chips) - self.street_chips[seat]
            others = [s for s in range(self.n) if s != seat and not self.has_folded[s]]
            if self.has_folded[seat] or self.stacks[seat] == 0 or not others:
                continue
            can_raise = any(self.stacks[other] > 0 for other in others)
            if price == 0 and not can_raise:
                continue
            if self._act(seat, price, can_raise=can_raise):
                queue = [(seat + k) % self.n for k in range(1, self.n)]

    def _act(self, seat: int, price: float, *, can_raise: bool) -> bool:
        """Take one decision; returns whether it raised the price."""
        stack, strength = self.stacks[seat], self.strength[seat]
        is_bet = max(self.street_chips) == 0
        least = price + self.last_raise
        will = self.rng.random()
        # Long raising wars are cut short so that most hands fit the 96 positions.
        if can_raise and stack >= least and will < 0.08 + 0.3 * strength and self.last_raise < 60 * self.big_blind:
            most = max(least, min(stack, price + 0.75 * (sum(self.contributed) + price)))
            added = float(np.floor(self.rng.uniform(least, most) * 4) / 4)
            added = stack if self.rng.random() < 0.05 or stack - added < self.big_blind else max(least, added)
            self.last_raise = added - price
            self._put(EventKind.BET if is_bet else EventKind.RAISE, seat, added)
            return True
        if price == 0:
            self.events.append(Event(EventKind.CHECK, seat))
        elif will < 0.25 + 0.65 * strength:
            self._put(EventKind.CALL, seat, min(price, stack))
        else:
            self.has_folded[seat] = True
            self.events.append(Event(EventKind.FOLD, seat))
        return False


def _strength(lo: int, hi: int) -> float:
    """Return 0..1, rising with rank, pairs and suitedness."""
    high, low = hi // 4, lo // 4
    bonus = 0.45 if high == low else (0.08 if lo % 4 == hi % 4 else 0.0)
    return min(1.0, (1.4 * high + 0.6 * low) / 36 + bonus)
