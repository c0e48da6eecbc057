"""What an agent asks at a decision: a range for every other live seat, and deals of their cards that agree with all of them.

The shape is that of an arena's hand-distribution estimator: seen from one seat, one distribution per other live seat and None
for everyone else. Ranges are beliefs about single seats; a world gives all of them cards at once, no card twice. Worlds follow
the product of the ranges restricted to such deals, which is not what dealing seat after seat gives: the seat dealt last
would get what is left. Seats are the hand's seat indices 0..n-1.

Legend: ``K`` seats with a range, ``W`` worlds, ``C`` = 1326 combos.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from range_reader_core import cards
from range_reader_core.hand import CanonicalHand
from range_reader_core.inference import RangeReader, ReadRequest
from range_reader_core.session import HandSession, cards_in_sight, live_seats

LEAST_ACCEPTANCE: Final = 0.005  # share of proposals without a conflict below which worlds are resampled instead
_PILOT: Final = 4096  # proposals before the share is judged
_MOST_PROPOSALS: Final = 65_536  # at a time
_MOST_WEIGHTED: Final = 1024  # worlds dealt seat after seat at a time: 11 MB a table
_WEIGHTED_PER_WORLD: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class OpponentRanges:
    """What one seat believes about the others.

    Raises:
        ValueError: on construction, when a range is no distribution over the combos.
    """

    perspective: int | None  # the seat that reads; None for a watcher
    by_seat: tuple[npt.NDArray[np.float64] | None, ...]  # (1326,) summing to 1; None for the reader itself and folded seats

    def __post_init__(self) -> None:
        """Check the ranges."""
        for seat in self.seats:
            belief = self.by_seat[seat]
            if belief is None or belief.shape != (cards.NUM_COMBOS,) or not (belief >= 0).all() or abs(belief.sum() - 1) > 1e-6:
                msg = f"the range of seat {seat} is no distribution over the {cards.NUM_COMBOS} combos"
                raise ValueError(msg)

    @property
    def seats(self) -> tuple[int, ...]:
        """The seats that have a range, ascending."""
        return tuple(seat for seat, belief in enumerate(self.by_seat) if belief is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worlds:
    """Deals of the hidden cards. All worlds count alike."""

    seats: tuple[int, ...]  # who is dealt cards
    combos: npt.NDArray[np.int64]  # (W, K), no card twice in a row
    is_exact: bool  # independent draws; False: resampled from weighted deals, so approximate and with repeats


def estimate(
    reader: RangeReader, hand: CanonicalHand, perspective: int | None, num_relabelings: int = cards.NUM_RELABELINGS
) -> OpponentRanges:
    """Return the ranges of every other live seat at this point of a hand.

    Args:
        reader: reads all of them together.
        hand: what has happened so far.
        perspective: the seat that reads, whose cards are known; None for a watcher.
        num_relabelings: 24 averages over suits, 1 is a single forward.

    Raises:
        ValueError: the perspective's cards are unknown, or nothing has happened yet.
    """
    seen = cards_in_sight(hand, perspective)
    seats = [seat for seat in live_seats(hand) if seat != perspective]
    beliefs: dict[int, npt.NDArray[np.float64]] = {}
    if seats:
        requests = [ReadRequest(hand=hand, villain=seat, perspective=perspective) for seat in seats]
        # A stream that was cut does not show the model every card, but no agent may be dealt one that lies on the table.
        live = reader.beliefs(requests, num_relabelings) * ~cards.COMBO_HAS_CARD[:, seen].any(axis=1)  # (K, C)
        beliefs = dict(zip(seats, live / live.sum(axis=1, keepdims=True), strict=True))
    return _ranges(beliefs, hand.num_players, perspective)


def estimate_session(session: HandSession) -> OpponentRanges:
    """Return the ranges of every other live seat in a hand that is being played; errors as ``HandSession.beliefs``."""
    return _ranges(session.beliefs(), session.hand.num_players, session.perspective)


def sample_worlds(ranges: OpponentRanges, num_worlds: int, generator: np.random.Generator) -> Worlds:
    """Return deals to all seats with a range: a deal's probability is the product of its combos', given that no card is twice.

    Deals are drawn seat by seat without regard to each other and kept where no card is twice, which is exact. Where that
    would throw away nearly all of them, because several seats are believed to hold the same few cards, deals are made seat
    after seat, weighted by what each seat had left to choose from, and resampled by weight.

    Args:
        ranges: of at least one seat.
        num_worlds: at least 1.
        generator: the only source of chance.

    Raises:
        ValueError: there is no seat, fewer than one world is asked for, or no deal gives every seat cards of its range.
    """
    beliefs = [belief for belief in ranges.by_seat if belief is not None]
    if not beliefs or num_worlds < 1:
        msg = f"expected at least one seat with a range and one world, got {len(beliefs)} and {num_worlds}"
        raise ValueError(msg)
    num_proposed, found = 0, np.empty((0, len(beliefs)), dtype=np.int64)
    while len(found) < num_worlds:
        if num_proposed >= _PILOT and len(found) < LEAST_ACCEPTANCE * num_proposed:
            return Worlds(seats=ranges.seats, combos=_resampled(beliefs, num_worlds, generator), is_exact=False)
        expected = (num_worlds - len(found)) * (num_proposed + 2) / (len(found) + 1)
        size = int(min(max(expected, 256), _MOST_PROPOSALS))
        proposed = np.stack([_draw(belief, generator.random(size)) for belief in beliefs], axis=1)  # (size, K)
        found = np.concatenate([found, proposed[~_has_conflict(proposed)]])
        num_proposed += size
    return Worlds(seats=ranges.seats, combos=found[:num_worlds], is_exact=True)


def _ranges(beliefs: Mapping[int, npt.NDArray[np.float64]], num_players: int, perspective: int | None) -> OpponentRanges:
    return OpponentRanges(perspective=perspective, by_seat=tuple(beliefs.get(seat) for seat in range(num_players)))


def _draw(weights: npt.NDArray[np.float64], uniform: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the combo that each uniform number in [0, 1) falls on, never one of weight zero."""
    cumulative = weights.cumsum()
    drawn = np.searchsorted(cumulative, uniform * cumulative[-1], side="right")
    last: np.int64 = np.flatnonzero(weights)[-1]
    result: npt.NDArray[np.int64] = np.minimum(drawn, last)  # rounding may reach the total
    return result


def _has_conflict(combos: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which rows of (W, K) hold a card twice."""
    used = np.zeros(len(combos), dtype=np.uint64)
    is_twice = np.zeros(len(combos), dtype=np.bool_)
    for column in combos.T:
        dealt = _CARDS_OF_COMBO[column]
        is_twice |= (used & dealt) != 0
        used |= dealt
    return is_twice


def _resampled(beliefs: list[npt.NDArray[np.float64]], num_worlds: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return worlds (W, K) drawn by weight from many more that were dealt seat after seat."""
    num_weighted = max(_PILOT, _WEIGHTED_PER_WORLD * num_worlds)
    combos, weights = [], []
    for start in range(0, num_weighted, _MOST_WEIGHTED):
        dealt, weight = _weighted_deals(beliefs, min(_MOST_WEIGHTED, num_weighted - start), generator)
        combos.append(dealt)
        weights.append(weight)
    weight = np.concatenate(weights)
    if not weight.any():
        msg = f"no deal gives all {len(beliefs)} seats cards of their ranges; they leave each other nothing"
        raise ValueError(msg)
    return np.concatenate(combos)[_draw(weight, generator.random(num_worlds))]


def _weighted_deals(
    beliefs: list[npt.NDArray[np.float64]], num: int, generator: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return deals (num, K) made seat after seat and their weights (num,), 0 where a seat had nothing left."""
    used = np.zeros(num, dtype=np.uint64)
    weight = np.ones(num)
    combos = np.empty((num, len(beliefs)), dtype=np.int64)
    for place in generator.permutation(len(beliefs)).tolist():  # the seat dealt first decides most, so each has its turn
        left = beliefs[place] * ((used[:, None] & _CARDS_OF_COMBO) == 0)  # (num, C)
        cumulative = left.cumsum(axis=1)
        weight *= cumulative[:, -1]
        drawn = (cumulative <= (generator.random(num) * cumulative[:, -1])[:, None]).sum(axis=1)
        drawn = np.minimum(drawn, cards.NUM_COMBOS - 1)  # only where nothing was left, or by rounding
        weight *= left[np.arange(num), drawn] > 0
        used |= _CARDS_OF_COMBO[drawn]
        combos[:, place] = drawn
    return combos, weight


_CARDS_OF_COMBO: Final = (np.uint64(1) << cards.COMBO_CARDS.astype(np.uint64)).sum(axis=1)  # (1326,) a bit a card
