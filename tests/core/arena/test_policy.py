"""The styles play as such players do, and one formula serves one combo and all of them."""

import numpy as np
import pytest

from range_reader_core import cards
from range_reader_core.arena.betting import POSITIONS, PublicState
from range_reader_core.arena.players import held_worth
from range_reader_core.arena.policy import Frequencies, Holdings, Policy
from range_reader_core.arena.preflop_order import COMBO_QUANTILE
from range_reader_core.strength import DRAWS, board_draws, board_percentile
from tests.core.arena.books import built_in_book

BOOK = built_in_book()
POLICY = Policy(BOOK)
STYLES = np.arange(len(BOOK.styles))


def state(**changed: int) -> PublicState:
    """Return one public state for every style: an unopened pot before the flop, on the button."""
    usual = {
        "street": 0,
        "position": POSITIONS.index("late"),
        "price": 100,
        "pot": 150,
        "stack": 10_000,
        "committed": 0,
        "highest": 100,
        "min_raise": 100,
        "can_raise": 1,
        "num_opponents": 2,
        "num_raises": 0,
        "num_callers": 0,
        "is_last": 1,
        "has_initiative": 0,
    }
    columns = {name: np.full(len(STYLES), value) for name, value in (usual | changed).items()}
    flags = {name: columns[name].astype(np.bool_) for name in ("can_raise", "is_last", "has_initiative")}
    return PublicState(big_blind=100, **(columns | flags))


def every_combo(board: str = "") -> Holdings:
    """Return what every combo is worth, for every style alike."""
    percentile, draw = np.full(cards.NUM_COMBOS, 0.5), np.zeros(cards.NUM_COMBOS, dtype=np.int64)
    if board:
        dealt = np.array([[cards.parse_card(name) for name in board.split()]])
        percentile = np.nan_to_num(board_percentile(dealt)[0].astype(np.float64), nan=0.5)
        draw = board_draws(dealt)[0].astype(np.int64)
    rows = np.ones((len(STYLES), 1), dtype=np.int64)
    return Holdings(quantile=COMBO_QUANTILE * rows, percentile=percentile * rows, draw=draw * rows)


def of(name: str) -> int:
    """Return the combo of a name such as AhKd."""
    return cards.combo_index(cards.parse_card(name[:2]), cards.parse_card(name[2:]))


def frequencies(board: str = "", **changed: int) -> Frequencies:
    """Return what every style does with every combo, (styles, 1326)."""
    return POLICY.frequencies(STYLES, state(**changed), every_combo(board))


FLOP = {"street": 1, "price": 0, "pot": 600, "highest": 0}
FACING = {"street": 1, "price": 400, "pot": 1000, "highest": 400, "num_raises": 1}


def test_frequencies_add_up_and_exclude_nothing() -> None:
    """A combo that an action excludes would be lost for good."""
    for play in (frequencies(), frequencies("2c 7d Ts", **FACING), frequencies("2c 7d Ts", **FLOP)):
        assert np.allclose(play.fold + play.call + play.raise_, 1.0)
        assert np.allclose(play.size.sum(axis=2), 1.0)
        assert min(play.call.min(), play.raise_.min(), play.size.min()) > 0
    assert frequencies().fold.min() > 0
    assert (frequencies("2c 7d Ts", **FLOP).fold == 0).all()  # nobody folds for free
    assert (frequencies("2c 7d Ts", **FACING, can_raise=0).raise_ == 0).all()


def test_aces_raise_and_seven_deuce_folds() -> None:
    """In an unopened pot, whoever plays."""
    play = frequencies(position=POSITIONS.index("early"))
    assert (play.raise_[:, of("AhAd")] > 0.85).all()
    sane = [name != "maniac" for name in BOOK.names]
    assert (play.fold[sane][:, of("7h2d")] > 0.8).all()
    reraised = frequencies(num_raises=2, price=900, pot=1500, highest=900)
    assert (reraised.fold[:, of("7h2d")] > 0.75).all()
    assert (reraised.fold[:, of("AhAd")] < 0.01).all()


def test_later_positions_play_more_hands() -> None:
    """And loose styles more than tight ones."""
    played = {place: 1 - frequencies(position=POSITIONS.index(place)).fold.mean(axis=1) for place in ("early", "middle", "late")}
    assert (played["early"] < played["middle"]).all()
    assert (played["middle"] < played["late"]).all()
    order = [played["late"][BOOK.names.index(name)] for name in ("rock", "regular", "loose_aggressive", "maniac")]
    assert order == sorted(order)


def test_dear_calls_need_better_hands() -> None:
    """Pot odds, before and after the flop."""
    for board, cheap, dear in (
        ("", {"num_raises": 1, "price": 100, "pot": 450}, {"num_raises": 1, "price": 1400, "pot": 1750}),
        ("2c 7d Ts", FACING | {"price": 150}, FACING | {"price": 2000, "pot": 2600}),
    ):
        assert (frequencies(board, **cheap).fold.mean(axis=1) < frequencies(board, **dear).fold.mean(axis=1)).all()


def test_draws_semi_bluff() -> None:
    """A flush draw bets more often than the same rank without one, where a style bluffs at all."""
    play = frequencies("2h 7h Ts", **FLOP, has_initiative=1)
    aggressive = [name in ("loose_aggressive", "maniac", "regular", "balanced") for name in BOOK.names]
    middling = of("9h5h"), of("9d5c")
    assert (play.raise_[aggressive][:, middling[0]] > play.raise_[aggressive][:, middling[1]]).all()
    called = frequencies("2h 7h Ts", **FACING)
    chasing = [name != "rock" for name in BOOK.names]
    assert (called.fold[chasing][:, of("9h5h")] < called.fold[chasing][:, of("9d5c")]).all()


def test_rivers_polarise() -> None:
    """The best and the worst bet, the middle checks; and those who bluff bet big with both."""
    board = "2c 7d Ts Kh 4c"
    play = frequencies(board, **(FLOP | {"street": 3, "has_initiative": 1, "num_opponents": 1}))
    best, middle, worst = of("KcKd"), of("8h8s"), of("6h5h")
    assert (play.raise_[:, best] > play.raise_[:, middle]).all()
    bluffing = [name in ("loose_aggressive", "maniac", "regular", "balanced") for name in BOOK.names]
    assert (play.raise_[bluffing][:, worst] > play.raise_[bluffing][:, middle]).all()


def test_more_opponents_and_short_stacks_matter() -> None:
    """Crowds ask for better hands, stacks that are short for the pot commit."""
    assert (
        frequencies("2c 7d Ts", **FACING, num_opponents=1).fold.mean(axis=1)
        < frequencies("2c 7d Ts", **FACING, num_opponents=5).fold.mean(axis=1)
    ).all()
    assert (
        frequencies("2c 7d Ts", **FACING, stack=500).fold.mean(axis=1) < frequencies("2c 7d Ts", **FACING).fold.mean(axis=1)
    ).all()


@pytest.mark.parametrize("board", ["2c 7d Ts", "2h 7h Th 9s", "5c 5d 5h 5s Ac"])
def test_one_combo_and_all_combos_agree(board: str) -> None:
    """Hands are dealt with one form and read with the other."""
    dealt = np.array([[cards.parse_card(name) for name in board.split()]])
    live = np.flatnonzero(~np.isnan(board_percentile(dealt)[0]))
    percentile, draw = held_worth(dealt, np.zeros(len(live), dtype=np.int64), live)
    everybody = frequencies(board, **(FACING | {"street": dealt.shape[1] - 2}))
    for style in STYLES:
        one = POLICY.frequencies(
            np.full(len(live), style),
            state(**(FACING | {"street": dealt.shape[1] - 2})).take(np.zeros(len(live), dtype=np.int64)),
            Holdings(quantile=COMBO_QUANTILE[live][:, None], percentile=percentile[:, None], draw=draw[:, None]),
        )
        for name in ("fold", "call", "raise_", "size"):
            assert np.array_equal(getattr(one, name)[:, 0], getattr(everybody, name)[style, live])
    assert DRAWS[0] == "none"
