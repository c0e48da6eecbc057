"""The leak rule, asked of data: deal the hidden seats other live cards and encode again; what a reader sees must not change.

A read whose stored inputs equal those of its hand, but not those of the hand dealt again, knows something that the perspective
seat could not know. Cards that nobody recorded stay unknown, because who is read depends on which cards are known.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from range_reader_core import cards
from range_reader_core.encoder import HandEncoder
from range_reader_core.hand import CanonicalHand

Inputs = tuple[bytes, bytes]  # of tokens and values
ReadKey = tuple[str, int, int]  # hand id, villain, perspective


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakCount:
    """What came of dealing hands again."""

    num_compared: int  # reads
    num_other_cards: int  # of them, those whose villain holds other cards in the second deal
    num_not_alike: int  # stored reads that are not what their hand encodes to, so they say nothing
    leaks: tuple[str, ...]  # reads whose inputs changed with the hidden cards


def deal_again(hand: CanonicalHand, kept_seat: int | None, rng: np.random.Generator) -> CanonicalHand:
    """Return the hand with other live cards for every seat with known cards but one.

    Raises:
        ValueError: the kept seat's cards are unknown.
    """
    kept: tuple[int, ...] = ()
    if kept_seat is not None:
        hole = hand.hole_cards[kept_seat]
        if hole is None:
            msg = f"hand {hand.hand_id}: the cards of seat {kept_seat} are unknown, so they cannot be kept"
            raise ValueError(msg)
        kept = hole
    live = [card for card in range(cards.NUM_CARDS) if card not in hand.board and card not in kept]
    dealt = iter(rng.permutation(live).tolist())
    holes: list[tuple[int, int] | None] = []
    for seat, hole in enumerate(hand.hole_cards):
        if hole is None or seat == kept_seat:
            holes.append(hole)
        else:
            low, high = sorted((next(dealt), next(dealt)))
            holes.append((low, high))
    return replace(hand, hole_cards=tuple(holes))


def count_leaks(hands: Iterable[CanonicalHand], stored: Callable[[ReadKey], Inputs | None], rng: np.random.Generator) -> LeakCount:
    """Compare the stored inputs of hands with those of the same hands dealt again, seat by seat.

    Args:
        hands: the hands as their file has them.
        stored: returns the inputs of a read, None where there is no such read.
        rng: deals.
    """
    encoder = HandEncoder()
    num_compared = num_other_cards = num_not_alike = 0
    leaks: list[str] = []
    for hand in hands:
        reads, _ = encoder.encode_hands([hand])
        again = {
            seat: encoder.encode_hands([deal_again(hand, seat, rng)])[0] for seat in np.unique(reads.perspective_seat).tolist()
        }
        for index in range(reads.num_reads):
            villain, perspective = int(reads.villain_seat[index]), int(reads.perspective_seat[index])
            inputs = stored((hand.hand_id, villain, perspective))
            if inputs is None:
                continue
            if inputs != _inputs(reads.read(index)):
                num_not_alike += 1
                continue
            num_compared += 1
            other = again[perspective]
            num_other_cards += int(other.villain_combo[index] != reads.villain_combo[index])
            if inputs != _inputs(other.read(index)):
                leaks.append(f"hand {hand.hand_id}, seat {perspective} reading seat {villain}")
    return LeakCount(num_compared=num_compared, num_other_cards=num_other_cards, num_not_alike=num_not_alike, leaks=tuple(leaks))


def _inputs(read: tuple[npt.NDArray[np.uint16], npt.NDArray[np.float32]]) -> Inputs:
    tokens, values = read
    return tokens.tobytes(), values.tobytes()
