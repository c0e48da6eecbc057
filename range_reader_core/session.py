"""Reading a hand while it is played: one observer, every other live seat at once, one new position a thing that happens.

A session answers what ``RangeReader.belief`` would answer about the hand so far, for every seat that has not folded, without
reading the past again (``growing``). It keeps the hand so far as a ``CanonicalHand``, so what it observes is checked like any
hand and encoded by the one encoder. Events are only recorded when observed; they are forwarded when beliefs are asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from range_reader_core import cards
from range_reader_core.encoder import HandEncoder
from range_reader_core.growing import GrowingStreams
from range_reader_core.hand import CanonicalHand, Event, EventKind, LabelSource
from range_reader_core.model import RangeReaderModel
from range_reader_core.suit_averaging import check_num_relabelings, normalised

SOURCE: Final = "live"  # of hands that are being played


def hand_so_far(
    *,
    stacks: Sequence[float],
    button: int,
    big_blind: float,
    hole_cards: Mapping[int, tuple[int, int]],
    events: Sequence[Event] = (),
    hand_id: str = SOURCE,
) -> CanonicalHand:
    """Return a hand that is being played.

    Args:
        stacks: chips of each seat before any post, clockwise.
        button: seat 0..n-1.
        big_blind: chips.
        hole_cards: the two cards of each seat whose cards are known, in either order.
        events: what has happened, in time order.
        hand_id: what messages call it.

    Raises:
        ValueError: anything that no hand can have; see ``CanonicalHand``.
    """
    n = len(stacks)
    strange = sorted(set(hole_cards) - set(range(n)))
    if strange:
        msg = f"hand {hand_id}: hole cards of seats {strange}, but there are {n} players"
        raise ValueError(msg)
    holes = {seat: (min(pair), max(pair)) for seat, pair in hole_cards.items()}
    hand = CanonicalHand(
        hand_id=hand_id,
        source=SOURCE,
        seat_numbers=tuple(range(1, n + 1)),
        button=button,
        small_blind=big_blind / 2,
        big_blind=big_blind,
        ante=0.0,
        stacks=tuple(stacks),
        hole_cards=tuple(holes.get(seat) for seat in range(n)),
        label_sources=tuple(LabelSource.DEALT if seat in holes else None for seat in range(n)),
        events=(),
        collected=(0.0,) * n,
        content_hash="",
    )
    return with_events(hand, events)


def with_events(hand: CanonicalHand, events: Sequence[Event]) -> CanonicalHand:
    """Return the hand after some more events.

    Raises:
        ValueError: a seat acts after it folded, or what no hand can have.
    """
    has_folded = {event.seat for event in hand.events if event.kind is EventKind.FOLD}
    for event in events:
        if event.seat in has_folded:
            msg = f"hand {hand.hand_id}: {event.kind.name} of seat {event.seat}, which has folded"
            raise ValueError(msg)
        if not 0.0 <= event.chips < float("inf"):
            msg = f"hand {hand.hand_id}: {event.kind.name} of seat {event.seat} adds {event.chips} chips"
            raise ValueError(msg)
        if event.kind is EventKind.FOLD:
            has_folded.add(event.seat)
    return replace(hand, events=(*hand.events, *events))


def live_seats(hand: CanonicalHand) -> tuple[int, ...]:
    """Return the seats that have not folded, ascending."""
    has_folded = {event.seat for event in hand.events if event.kind is EventKind.FOLD}
    return tuple(seat for seat in range(hand.num_players) if seat not in has_folded)


class HandSession:
    """One hand from one point of view. ``RangeReader.session`` makes it."""

    def __init__(
        self,
        model: RangeReaderModel,
        hand: CanonicalHand,
        perspective: int | None,
        *,
        num_relabelings: int = cards.NUM_RELABELINGS,
        temperature: float = 1.0,
        combo_table: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> None:
        """Begin with a hand so far, usually one without events.

        Args:
            model: in evaluation mode.
            hand: holds the cards of ``perspective``.
            perspective: the seat that reads; None for a watcher who sees no cards.
            num_relabelings: 24 averages over suits, 1 is a single forward.
            temperature: of the beliefs, as ``RangeReader`` has it.
            combo_table: the model's, where the caller keeps it.

        Raises:
            ValueError: there is no such seat, or its cards are unknown.
        """
        check_num_relabelings(num_relabelings)
        self.hand = hand
        self.perspective = perspective
        self._temperature = temperature
        self._encoder = HandEncoder(max_positions=model.config.max_positions)
        self._villains = [seat for seat in live_seats(hand) if seat != perspective]
        opening = replace(hand, events=())
        reads = [self._encoder.encode(opening, villain, perspective) for villain in self._villains]
        streams = np.stack([read.tokens for read in reads]).astype(np.int64)  # (V, T)
        self._growing = GrowingStreams(model, streams, reads[0].values, is_averaged=num_relabelings > 1, combo_table=combo_table)
        self._append(hand)

    def observe(self, event: Event) -> None:
        """Record what has happened.

        Raises:
            ValueError: it cannot happen in this hand; the session stays as it was.
        """
        after = with_events(self.hand, [event])
        self.hand = after
        self._append(after)

    def beliefs(self) -> dict[int, npt.NDArray[np.float64]]:
        """Return the belief about each live seat but the observer's, by seat: float64 (1326,), summing to 1.

        Combos that hold a card in sight get nothing, even where the stream was too long to show that card to the model.

        Raises:
            ValueError: nothing has happened yet.
        """
        if not self.hand.events:
            msg = f"hand {self.hand.hand_id}: nothing happened after the hole cards, so there is nothing to read"
            raise ValueError(msg)
        live = [seat for seat in live_seats(self.hand) if seat != self.perspective]
        if not live:
            return {}
        if live != self._villains:
            self._growing.keep([place for place, villain in enumerate(self._villains) if villain in live])
            self._villains = live
        is_live = torch.from_numpy(~cards.COMBO_HAS_CARD[:, cards_in_sight(self.hand, self.perspective)].any(axis=1))
        probabilities = normalised(self._growing.probabilities(is_live.to(self._growing.device)), self._temperature)  # (V, C)
        return dict(zip(live, probabilities, strict=True))

    def _append(self, hand: CanonicalHand) -> None:
        """Give the streams what the encoder makes of the hand beyond what they hold. What is cut from a long stream stays out."""
        read = self._encoder.encode(hand, self._villains[0], self.perspective)
        new = slice(self._growing.length, None)
        if len(read.tokens[new]):
            self._growing.append(read.tokens[new].astype(np.int64), read.values[new])


def cards_in_sight(hand: CanonicalHand, perspective: int | None) -> list[int]:
    """Return the board so far and the cards of the perspective.

    Raises:
        ValueError: the cards of the perspective are unknown.
    """
    hole = () if perspective is None else hand.hole_cards[perspective]
    if hole is None:
        msg = f"hand {hand.hand_id}: the cards of perspective seat {perspective} are unknown"
        raise ValueError(msg)
    return [*hand.board, *hole]
