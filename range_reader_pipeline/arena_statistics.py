"""How the arena's players play, counted: streets reached, and per style what a tracker would show."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from range_reader_core import cards
from range_reader_core.arena.betting import POSITIONS, PublicState
from range_reader_core.arena.deal import PlayedHands
from range_reader_core.arena.policy import Holdings, Policy
from range_reader_core.arena.preflop_order import COMBO_QUANTILE
from range_reader_core.hand import EventKind

REACHED: Final = ("flop", "turn", "river", "showdown")
_KINDS: Final = len(EventKind)


class Statistics:
    """Counts of many hands, added up part by part."""

    def __init__(self, names: Sequence[str]) -> None:
        """Start at zero."""
        self._names = names
        size = len(names)
        self._num_hands = 0
        self._reached = np.zeros(len(REACHED), dtype=np.int64)
        self._num_pots = 0
        self._seats, self._voluntary, self._raised, self._showdowns = (np.zeros(size, dtype=np.int64) for _ in range(4))
        self._late = np.zeros((size, _KINDS), dtype=np.int64)  # actions after the flop

    def add(self, hands: PlayedHands, styles: npt.NDArray[np.int64]) -> None:
        """Count some hands.

        Args:
            hands: what was played.
            styles: (T, S) who sat where.
        """
        events, num_tables = hands.events, len(styles)
        table = np.repeat(np.arange(num_tables), np.diff(events.offsets))
        street = np.cumsum(np.isin(events.kind, (EventKind.FLOP, EventKind.TURN, EventKind.RIVER)))
        street = street - np.concatenate([[0], street])[events.offsets[:-1]][table]
        is_in = np.arange(styles.shape[1]) < hands.seating.num_players[:, None]
        is_showdown = hands.is_live & (hands.is_live.sum(axis=1, keepdims=True) > 1)
        self._num_hands += num_tables
        self._num_pots += int((hands.settlement.pots > 0).sum())
        self._reached += np.array([*((hands.num_board >= size).sum() for size in (3, 4, 5)), is_showdown.any(axis=1).sum()])

        def seats_with(*kinds: EventKind) -> npt.NDArray[np.bool_]:
            chosen = (street == 0) & np.isin(events.kind, kinds)
            found = np.zeros(styles.shape, dtype=np.bool_)
            found[table[chosen], events.seat[chosen]] = True
            return found

        def by_style(chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
            return np.bincount(styles[chosen], minlength=len(self._names)).astype(np.int64)

        self._seats += by_style(is_in)
        self._voluntary += by_style(seats_with(EventKind.CALL, EventKind.RAISE, EventKind.BET))
        self._raised += by_style(seats_with(EventKind.RAISE, EventKind.BET))
        self._showdowns += by_style(is_showdown)
        late = (street > 0) & (events.seat >= 0)
        np.add.at(self._late, (styles[table[late], events.seat[late]], events.kind[late]), 1)

    def summary(self) -> dict[str, Any]:
        """Return the counts as plain numbers and rows."""
        bets = self._late[:, EventKind.BET] + self._late[:, EventKind.RAISE]
        rows = [
            {
                "style": name,
                "seats": int(self._seats[index]),
                "vpip": _share(self._voluntary[index], self._seats[index]),
                "pfr": _share(self._raised[index], self._seats[index]),
                "aggression": _share(bets[index], self._late[index, EventKind.CALL]),
                "showdown": _share(self._showdowns[index], self._seats[index]),
            }
            for index, name in enumerate(self._names)
        ]
        return {
            "reached": {name: _share(count, self._num_hands) for name, count in zip(REACHED, self._reached.tolist(), strict=True)},
            "pots_a_hand": _share(self._num_pots, self._num_hands),
            "styles": rows,
        }


def opening_frequencies(policy: Policy) -> npt.NDArray[np.float64]:
    """Return how often each style raises each starting hand first in, on average over the positions, (styles, 13, 13)."""
    num_styles, places = len(policy.book.styles), [POSITIONS.index(name) for name in POSITIONS if name != "big_blind"]
    styles = np.repeat(np.arange(num_styles), len(places))
    count = len(styles)
    numbers = {"street": 0, "price": 100, "pot": 150, "stack": 10_000, "committed": 0, "highest": 100, "min_raise": 100}
    numbers |= {"num_opponents": 3, "num_raises": 0, "num_callers": 0}
    columns = {name: np.full(count, value) for name, value in numbers.items()}
    flags = {"can_raise": True, "is_last": False, "has_initiative": False}
    state = PublicState(
        big_blind=100,
        position=np.tile(places, num_styles),
        **columns,
        **{name: np.full(count, value) for name, value in flags.items()},
    )
    first = np.array([int(np.flatnonzero(index == cards.COMBO_CLASS)[0]) for index in range(cards.NUM_CLASSES)])
    quantile = np.broadcast_to(COMBO_QUANTILE[first], (count, cards.NUM_CLASSES))
    held = Holdings(quantile=quantile, percentile=np.zeros_like(quantile), draw=np.zeros(quantile.shape, dtype=np.int64))
    play = policy.frequencies(styles, state, held)
    raised: npt.NDArray[np.float64] = play.raise_.reshape(num_styles, len(places), cards.NUM_CLASSES).mean(axis=1)
    return raised.reshape(num_styles, len(cards.RANKS), len(cards.RANKS))


def _share(part: float, whole: float) -> float:
    return round(float(part) / max(float(whole), 1.0), 4)
