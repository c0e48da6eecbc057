"""What a style does: P(action and size | combo) as a pure function of what everybody sees.

One formula serves both uses. Dealing asks for the one combo a player holds, the oracle for all 1326 at once; combos are an axis
that broadcasts. Before the flop a combo is its place in one order of starting hands, later it is the share of combos that it
beats on this board and its draw, so the cards of others never matter. Every edge is a logistic curve and every action allowed
keeps at least the style's ``tremble``, so no combo is ever excluded by what a player did.

Legend: ``N`` decisions, ``C`` combos (1 or 1326), ``K`` = 5 bet sizes.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from range_reader_core.arena.betting import PublicState, raise_chips
from range_reader_core.arena.styles import FACING, StyleBook

_UNOPENED, _LIMPED, _RAISED, _RERAISED = range(len(FACING))
_USUAL_PRICE: Final = 0.36  # of the pot after a call: what an open raise asks of most seats
_HALF_POT: Final = 0.25  # price of a half-pot bet, as a share of the pot after a call
_SHORT: Final = 3.0  # stacks of less than so many pots begin to commit a player
_FLOAT = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What the policy knows of combos, one row a decision."""

    quantile: _FLOAT  # (N, C) place among starting hands: 0 best, 1 worst
    percentile: _FLOAT  # (N, C) share of the combos that it beats on the board; without meaning before the flop
    draw: _Ints  # (N, C) into strength.DRAWS; without meaning before the flop

    def take(self, rows: _Ints) -> "Holdings":
        """Return the rows of these numbers, (M,)."""
        return Holdings(quantile=self.quantile[rows], percentile=self.percentile[rows], draw=self.draw[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class Frequencies:
    """How often a combo does what. Fold, call and raise add up to one."""

    fold: _FLOAT  # (N, C) 0 where there is nothing to call
    call: _FLOAT  # (N, C) checks included
    raise_: _FLOAT  # (N, C) bets included; 0 where none is allowed
    size: _FLOAT  # (N, C, K) given that it raises


class Policy:
    """The styles of a book, ready to be asked."""

    def __init__(self, book: StyleBook) -> None:
        """Lay the book's numbers out by style."""
        self.book = book
        self._charts = book.charts()
        self._commit = book.commit_percent()
        self._tremble = book.tremble()
        self._preflop = book.columns("preflop")
        self._postflop = book.columns("postflop")

    def frequencies(self, styles: _Ints, state: PublicState, holdings: Holdings) -> Frequencies:
        """Return how often each combo folds, calls and raises to each size.

        Args:
            styles: (N,) numbers in the book.
            state: before each decision.
            holdings: the combos to ask for.
        """
        shape = np.broadcast_shapes(holdings.quantile.shape, (len(styles), 1))
        raise_, call = np.empty(shape), np.empty(shape)
        size = np.empty((*shape, self._preflop["sizes"].shape[1]))
        is_preflop, is_checked = state.street == 0, state.price == 0
        for rows, decide in (
            (np.flatnonzero(is_preflop), self._before_the_flop),
            (np.flatnonzero(~is_preflop & is_checked), self._bet_or_check),
            (np.flatnonzero(~is_preflop & ~is_checked), self._face_a_bet),
        ):
            if len(rows):
                raise_[rows], call[rows], tilt = decide(styles[rows], state.take(rows), holdings.take(rows))
                size[rows] = self._sizes(styles[rows], state.take(rows), tilt)
        least = self._tremble[styles, None]
        raise_ = np.where(state.can_raise[:, None], np.clip(raise_, least, 1 - least), 0.0)
        call = np.where(is_checked[:, None], 1.0, np.clip(call, least, 1 - least))  # given that it does not raise
        return Frequencies(fold=(1 - raise_) * (1 - call), call=(1 - raise_) * call, raise_=raise_, size=size)

    def raise_chips(self, styles: _Ints, state: PublicState) -> _Ints:
        """Return the chips that each size adds, (N, K)."""
        return raise_chips(state, self._commit[styles])

    def _before_the_flop(self, styles: _Ints, state: PublicState, held: Holdings) -> tuple[_FLOAT, _FLOAT, _FLOAT]:
        """Return raise, call given no raise, and what tilts the size; (N, C) each."""
        quantile = held.quantile
        facing = np.select(
            [state.num_raises > 1, state.num_raises == 1, state.num_callers > 0], [_RERAISED, _RAISED, _LIMPED], _UNOPENED
        )
        chart = self._charts[styles, facing, state.position]  # (N, 3)
        mixing = self._preflop["mixing"][styles]  # (N, 1)
        odds = state.price / np.maximum(state.pot + state.price, 1)
        is_raised = state.num_raises > 0
        sense = self._preflop["price_sense"][styles, 0]
        width = np.where(is_raised, np.clip((_USUAL_PRICE / np.maximum(odds, 0.02)) ** sense, 0.25, 2.0), 1.0)
        value = _edge(chart[:, :1], quantile, mixing)
        continued = np.minimum((chart[:, 0] + chart[:, 1]) * width, 1.0)[:, None]
        call = np.where(continued >= 1.0, 1.0, _edge(continued, quantile, mixing))
        is_just_below = np.exp(-(((quantile - continued * 1.15) / (0.15 * continued + 0.03)) ** 2))
        raise_ = 1 - (1 - value) * (1 - chart[:, 2:] * is_just_below)
        return raise_, call, 1 - quantile

    def _bet_or_check(self, styles: _Ints, state: PublicState, held: Holdings) -> tuple[_FLOAT, _FLOAT, _FLOAT]:
        street = state.street - 1
        of = self._of_street(styles, street)
        mixing, strength = of("mixing"), held.percentile
        edge = of("value_bet") + self._crowd(styles, state) - of("position") * state.is_last[:, None]
        value = of("value_frequency") * _logistic((strength - edge) / mixing)
        bluff = self._bluff(styles, state, held, of("bluff"))
        return 1 - (1 - value) * (1 - bluff), np.ones_like(strength), self._tilt(street, strength)

    def _face_a_bet(self, styles: _Ints, state: PublicState, held: Holdings) -> tuple[_FLOAT, _FLOAT, _FLOAT]:
        street = state.street - 1
        of = self._of_street(styles, street)
        mixing, strength = of("mixing"), held.percentile
        odds = (state.price / (state.pot + state.price))[:, None]
        fear = of("raise_fear") * (state.num_raises[:, None] - 1) + self._crowd(styles, state)
        shortness = np.clip(1 - state.stack / (_SHORT * state.pot), 0.0, 1.0)[:, None]
        worth = np.concatenate([np.zeros((len(styles), 1)), self._postflop["draw_worth"][styles]], axis=1)
        worth = np.take_along_axis(worth, held.draw, axis=1) * np.where(street == 0, 1.0, 0.5)[:, None]
        edge = of("call") + of("price_sense") * (odds - _HALF_POT) + fear - of("commitment") * shortness
        call = _logistic((strength + worth - edge) / mixing)
        value = of("value_frequency") * _logistic((strength - of("value_raise") - fear + of("commitment") * shortness / 4) / mixing)
        bluff = self._bluff(styles, state, held, of("bluff_raise"))
        return 1 - (1 - value) * (1 - bluff), call, self._tilt(street, strength)

    def _bluff(self, styles: _Ints, state: PublicState, held: Holdings, frequency: _FLOAT) -> _FLOAT:
        """Return how often a hand that is weak, or a draw, is bet or raised all the same, (N, C)."""
        of = self._of_street(styles, state.street - 1)
        boldness = np.where(state.has_initiative[:, None], of("initiative"), 1.0) * 0.6 ** (state.num_opponents[:, None] - 1)
        air = frequency * _logistic((of("bluff_below") - held.percentile) / of("mixing"))
        semi = np.concatenate([np.zeros((len(styles), 1)), self._postflop["semi_bluff"][styles]], axis=1)
        semi = np.take_along_axis(semi, held.draw, axis=1) * np.minimum(frequency * 4, 1.0)
        bold: _FLOAT = np.clip(np.maximum(air, semi) * boldness, 0.0, 0.95)
        return bold

    def _crowd(self, styles: _Ints, state: PublicState) -> _FLOAT:
        """Return what more opponents ask of a hand, (N, 1)."""
        return self._postflop["crowd"][styles] * np.log2(np.maximum(state.num_opponents, 1))[:, None]

    def _tilt(self, street: _Ints, strength: _FLOAT) -> _FLOAT:
        """Return what large bets go with, (N, C) in 0..1: strong hands, on the river the best and the worst."""
        tilt: _FLOAT = np.where(street[:, None] == 2, 2 * np.abs(strength - 0.5), strength)
        return tilt

    def _sizes(self, styles: _Ints, state: PublicState, tilt: _FLOAT) -> _FLOAT:
        """Return how often a raise is of each size, (N, C, K)."""
        is_preflop = (state.street == 0)[:, None]
        weight = np.where(is_preflop, self._preflop["sizes"][styles], self._postflop["sizes"][styles])  # (N, K)
        pots = state.stack / np.maximum(state.pot, 1)
        weight[:, -1] *= np.clip(2.0 / np.maximum(pots, 0.01), 0.0, 2.0) ** 2  # nobody shoves many pots on a whim
        tells = self._postflop["size_tells"][styles][:, :, None] * (tilt[:, :, None] - 0.75)
        share = weight[:, None, :] * np.exp(tells * np.arange(weight.shape[1]))
        result: _FLOAT = share / share.sum(axis=2, keepdims=True)
        return result

    def _of_street(self, styles: _Ints, street: _Ints) -> "_Lookup":
        return _Lookup(self._postflop, styles, street)


@dataclass(frozen=True, slots=True)
class _Lookup:
    """A number of each decision's style, (N, 1): of its street where there is one for each."""

    table: dict[str, _FLOAT]
    styles: _Ints
    street: _Ints

    def __call__(self, name: str) -> _FLOAT:
        values = self.table[name]
        column = self.street if values.shape[1] == 3 else np.zeros_like(self.street)
        result: _FLOAT = values[self.styles, column][:, None]
        return result


def _edge(share: _FLOAT, quantile: _FLOAT, mixing: _FLOAT) -> _FLOAT:
    """Return how often a hand belongs to the best ``share``: 1 well inside, 0 well outside, mixed near its edge."""
    return _logistic((1 - quantile / np.maximum(share, 1e-6)) / mixing)


def _logistic(x: _FLOAT) -> _FLOAT:
    result: _FLOAT = 1 / (1 + np.exp(-np.clip(x, -40.0, 40.0)))
    return result
