"""Money by replay: forced posts and short blinds, readings of amounts by vote, tolerances, and simulators' own rules."""

import io
from collections.abc import Sequence
from typing import Final

import pytest

from range_reader_core.hand import CanonicalHand
from range_reader_core.ohh import parse_ohh
from range_reader_core.ohh_rejects import Reject
from tests.core.ohh_text import Json, Round, edited, hand, line, told

BOARD: Final[list[Round]] = [("Flop", "2c 7d Ts", []), ("Turn", "Ks", []), ("River", "3h", [])]


def read(*records: Json) -> list[CanonicalHand | Reject]:
    """Return what a file of records yields."""
    return list(parse_ohh(io.BytesIO(b"\n\n".join(line(record) for record in records)), "file.ohh"))


def accepted(record: Json) -> CanonicalHand:
    """Return the hand of a record that has to be accepted."""
    (found,) = read(record)
    assert isinstance(found, CanonicalHand), found
    return found


def pre(*actions: str) -> Round:
    """Return a preflop round."""
    return ("Preflop", "", actions)


def checks(*seats: int) -> list[str]:
    """Return the events of three streets on which the seats check."""
    return [text for street in ("flop 2c 7d Ts", "turn Ks", "river 3h") for text in (street, *(f"check@{seat}" for seat in seats))]


def checked(*seats: int) -> list[Round]:
    """Return three streets on which the seats check."""
    return [(street, cards, [f"{seat} Check" for seat in seats]) for street, cards, _ in BOARD]


POSTS: Final[list[tuple[str, Json, list[str], set[str]]]] = [
    (
        "56 heads-up with the small blind off the button",
        hand([pre("1 Post SB 1", "0 Post BB 2", "1 Fold")], stacks={0: 100.0, 1: 100.0}, wins={0: 3.0}),
        ["blind@1 1", "blind@0 2", "fold@1"],
        {"small_blind_off_button"},
    ),
    (
        "57 dead small blind, walk with an empty net pot",
        hand([pre("2 Post BB 2", "0 Fold", "1 Fold")], pot=0.0, wins={2: 0.0}),
        ["blind@2 2", "fold@0", "fold@1"],
        {"no_small_blind"},
    ),
    (
        "59 posts of nothing after antes that bust both",
        hand(
            [pre("0 Post Ante 2.5!", "1 Post Ante 1!", "1 Post SB 0!", "0 Post BB 0!"), *BOARD],
            stacks={0: 2.5, 1: 1.0},
            wins={0: 2.5, 1: 1.0},
        ),
        ["ante@0 2.5 all-in", "ante@1 1 all-in", "flop 2c 7d Ts", "turn Ks", "river 3h"],
        {"zero_post", "small_blind_off_button"},
    ),
    (
        "59 one player posts both blinds",
        hand(
            [pre("1 Post Ante 3", "0 Post Ante 0.5!", "1 Post SB 1", "1 Post BB 2"), *BOARD],
            stacks={0: 0.5, 1: 13.0},
            wins={1: 6.5},
        ),
        ["ante@1 3", "ante@0 0.5 all-in", "blind@1 1", "blind@1 2", "flop 2c 7d Ts", "turn Ks", "river 3h"],
        {"double_blind", "small_blind_off_button"},
    ),
    (
        "60 a straddle raises the price, and the straddler acts last",
        hand([pre("1 Post SB 1", "2 Post BB 2", "0 Straddle 4", "1 Call 3", "2 Call 2", "0 Check"), *checked(1, 2, 0)]),
        ["blind@1 1", "blind@2 2", "blind@0 4", "call@1 3", "call@2 2", "check@0", *checks(1, 2, 0)],
        {"extra_post"},
    ),
    (
        "60 dead and extra blind of one who missed them: only the live part counts to the price",
        hand(
            [pre("1 Post SB 1", "2 Post BB 2", "0 Post Dead 1", "0 Post Extra Blind 2", "0 Raise 4", "1 Fold", "2 Fold")],
            wins={0: 10.0},
        ),
        ["blind@1 1", "blind@2 2", "ante@0 1", "blind@0 2", "raise@0 4", "fold@1", "fold@2"],
        {"extra_post"},
    ),
    (
        "73 walk",
        hand([pre("1 Post SB 1", "2 Post BB 2", "0 Fold", "1 Fold")], wins={2: 3.0}),
        ["blind@1 1", "blind@2 2", "fold@0", "fold@1"],
        set(),
    ),
    (
        "a big blind posted short: simulators ask what was posted",
        hand(
            [pre("1 Post SB 1", "2 Post BB 1.5!", "0 Call 1.5", "1 Call 0.5"), *checked(1, 0)], stacks={0: 200.0, 1: 150.0, 2: 1.5}
        ),
        ["blind@1 1", "blind@2 1.5 all-in", "call@0 1.5", "call@1 0.5", *checks(1, 0)],
        set(),
    ),
    (
        "a big blind posted short: sites ask the full blind",
        hand(
            [pre("1 Post SB 1", "2 Post BB 1.5!", "0 Fold", "1 Call 1"), *BOARD],
            stacks={0: 200.0, 1: 150.0, 2: 1.5},
            pot=3.0,
            wins={2: 3.0},
        ),
        ["blind@1 1", "blind@2 1.5 all-in", "fold@0", "call@1 1", "flop 2c 7d Ts", "turn Ks", "river 3h"],
        set(),
    ),
    (
        "55 three seats, two with chips: the small blind is left of the button and acts first",
        hand(
            [pre("2 Post SB 1", "1 Post BB 2", "2 Call 1", "1 Check"), *checked(2, 1)],
            stacks={0: 0.0, 1: 100.0, 2: 100.0},
            dealer_seat=1,
        ),
        ["blind@1 1", "blind@0 2", "call@1 1", "check@0", *checks(1, 0)],
        {"dead_button"},
    ),
    (
        "78 a short all-in collects what it could not cover",
        hand(
            [
                pre("1 Post SB 1", "2 Post BB 2", "0 Raise 80", "1 Call 79", "2 Call 8!"),
                ("Flop", "2c 7d Ts", ["1 Bet 10", "0 Fold"]),
                *BOARD[1:],
            ],
            stacks={0: 200.0, 1: 150.0, 2: 10.0},
            wins={2: 110.0, 1: 70.0},
        ),
        [
            "blind@1 1",
            "blind@2 2",
            "raise@0 80",
            "call@1 79",
            "call@2 8 all-in",
            "flop 2c 7d Ts",
            "bet@1 10",
            "fold@0",
            "turn Ks",
            "river 3h",
        ],
        {"overpaid"},
    ),
]


@pytest.mark.parametrize(("record", "events", "tags"), [case[1:] for case in POSTS], ids=[case[0] for case in POSTS])
def test_posts_and_prices_are_read_as_they_were_meant(record: Json, events: Sequence[str], tags: set[str]) -> None:
    """Forced bets decide what a call costs; one misread blind makes every later label wrong."""
    found = accepted(record)
    assert told(found) == list(events)
    assert found.tags - {"no_hole_cards"} == tags


NET_POTS: Final = hand([pre("1 Post SB 1", "2 Post BB 2", "0 Raise 6", "1 Fold", "2 Fold")], pot=5.0, wins={0: 5.0})
GROSS_POTS: Final = hand([pre("1 Post SB 1", "2 Post BB 2", "0 Raise 6", "1 Fold", "2 Fold")], pot=9.0, wins={0: 9.0})


@pytest.mark.parametrize("record", [NET_POTS, GROSS_POTS], ids=["net", "gross"])
def test_pots_may_include_the_uncalled_bet_or_not(record: Json) -> None:
    """Sites return it before they count the pot, simulators pay it out of the pot."""
    assert told(accepted(record)) == ["blind@1 1", "blind@2 2", "raise@0 6", "fold@1", "fold@2"]


# The same hand in the three readings: the small blind re-raises over its own chips and is called.
PLAYED: Final = ["blind@1 1", "blind@2 2", "raise@0 6", "raise@1 19", "fold@2", "call@0 14", "flop 2c 7d Ts", "bet@1 10", "fold@0"]
ADDED: Final = [
    pre("1 Post SB 1", "2 Post BB 2", "0 Raise 6", "1 Raise 19", "2 Fold", "0 Call 14"),
    ("Flop", "2c 7d Ts", ["1 Bet 10", "0 Fold"]),
]
TOTALS: Final = [
    pre("1 Post SB 1", "2 Post BB 2", "0 Raise 6", "1 Raise 20", "2 Fold", "0 Call 20"),
    ("Flop", "2c 7d Ts", ["1 Bet 10", "0 Fold"]),
]
RAISE_TOTALS: Final = [
    pre("1 Post SB 1", "2 Post BB 2", "0 Raise 6", "1 Raise 20", "2 Fold", "0 Call 14"),
    ("Flop", "2c 7d Ts", ["1 Bet 10", "0 Fold"]),
]


@pytest.mark.parametrize("rounds", [ADDED, TOTALS, RAISE_TOTALS], ids=["chips added", "street totals", "raise totals"])
@pytest.mark.parametrize("pot", [52.0, 42.0], ids=["gross", "net"])
def test_row_65_amounts_are_read_in_the_way_that_adds_up(rounds: list[Round], pot: float) -> None:
    """Street totals taken for chips added would corrupt every value without a sign of it."""
    assert told(accepted(hand(rounds, pot=pot, wins={1: pot}))) == PLAYED


def ambiguous(number: int) -> Json:
    """Return a hand whose net pot fits chips added and street totals alike, with different raises."""
    rounds = [pre("1 Post SB 1", "2 Post BB 2", "0 Fold", "1 Raise 20", "2 Fold")]
    return hand(rounds, pot=4.0, wins={1: 4.0}, game_number=f"a{number}")


@pytest.mark.parametrize(
    ("rounds", "raised"), [(ADDED, "raise@1 20"), (TOTALS, "raise@1 19")], ids=["chips added", "street totals"]
)
def test_row_65_a_hand_that_fits_two_readings_follows_its_file(rounds: list[Round], raised: str) -> None:
    """Most hands fit several readings; the file's clear hands decide for them, before and after."""
    clear = [hand(rounds, pot=52.0, wins={1: 52.0}, game_number=f"c{index}") for index in range(2)]
    results = read(ambiguous(1), ambiguous(2), *clear, ambiguous(3))
    assert [
        told(found)[3] for found in results if isinstance(found, CanonicalHand) and found.hand_id.startswith("site/network#a")
    ] == [raised] * 3


def test_row_65_each_source_in_a_file_votes_for_itself() -> None:
    """Joined files mix writers; one writer's habit must not be forced on another's hands."""
    totals = {"pot": 52.0, "wins": {1: 52.0}, "site_name": "totals"}
    results = read(
        *[hand(ADDED, pot=52.0, wins={1: 52.0}), hand(TOTALS, **totals)] * 5, ambiguous(1), ambiguous(2) | {"site_name": "totals"}
    )  # type: ignore[arg-type]
    found = [told(result) for result in results if isinstance(result, CanonicalHand)]
    assert found == [PLAYED] * 10 + [
        ["blind@1 1", "blind@2 2", "fold@0", "raise@1 20", "fold@2"],
        ["blind@1 1", "blind@2 2", "fold@0", "raise@1 19", "fold@2"],
    ]


def test_row_65_a_hand_in_another_reading_than_its_file_is_refused() -> None:
    """One hand that only adds up in another reading is damage, not a change of habit."""
    many = [hand(ADDED, pot=52.0, wins={1: 52.0}, game_number=f"{index}") for index in range(20)]
    *hands, last = read(*many, hand(TOTALS, pot=52.0, wins={1: 52.0}))
    assert all(isinstance(found, CanonicalHand) for found in hands)
    assert isinstance(last, Reject)
    assert last.reason.value == "AMOUNT_MODE"
    assert "street totals" in last.message


def test_a_long_undecided_file_is_read_in_bounded_steps() -> None:
    """A file of ambiguous hands must not be held in memory to its end."""
    data = io.BytesIO(b"\n".join(line(ambiguous(index)) for index in range(12_000)))
    results = parse_ohh(data, "file.ohh")
    next(results)
    assert data.tell() < len(data.getvalue()) * 0.6
    assert sum(isinstance(found, CanonicalHand) for found in results) == 11_999


def noisy(scale: float) -> Json:
    """Return a hand whose last call and pot are off by a share of the pot."""
    rounds = [pre("1 Post SB 1", "2 Post BB 2", "0 Raise 600.1", "1 Fold", f"2 Call {598.1 * (1 + scale)!r}"), *checked(2, 0)]
    amount = 1201.2 * (1 - scale)
    return hand(rounds, stacks={0: 900.0, 1: 900.0, 2: 900.0}, pot=amount, wins={2: amount})


def test_row_66_float32_noise_is_tolerated() -> None:
    """Simulators write float32; a millionth is rounding and must cost no hand."""
    found = accepted(noisy(2e-6))
    assert told(found)[2:5] == ["raise@0 600.1", "fold@1", "call@2 598.101"]


def test_row_66_more_than_noise_is_not() -> None:
    """A pot that is off by a thousandth is wrong somewhere."""
    first, _ = read(noisy(1e-3))
    assert isinstance(first, Reject)


def test_half_a_cent_is_tolerated_where_all_amounts_are_cents() -> None:
    """Sites split pots into whole cents, so small pots miss the relative tolerance."""
    rounds = [pre("1 Post SB 0.01", "2 Post BB 0.02", "0 Fold", "1 Call 0.01", "2 Check"), *checked(1, 2)]
    stacks = {0: 2.0, 1: 2.0, 2: 2.0}
    assert isinstance(accepted(hand(rounds, stacks=stacks, pot=0.04, wins={1: 0.02, 2: 0.02})), CanonicalHand)
    first, _ = read(hand(rounds, stacks=stacks, pot=0.05, wins={1: 0.03, 2: 0.02}))
    assert isinstance(first, Reject)


def test_row_67_all_in_follows_from_the_stack() -> None:
    """Exporters flag players who have chips left, and forget those who have none."""
    rounds = [pre("1 Post SB 1", "2 Post BB 2", "0 Raise 100!", "1 Fold", "2 Call 98"), *BOARD]
    assert told(accepted(hand(rounds, wins={2: 201.0})))[2:5] == ["raise@0 100", "fold@1", "call@2 98 all-in"]


def test_a_stack_of_rounding_dust_may_act_again_if_its_writer_says_that_it_is_not_all_in() -> None:
    """A float32 simulator leaves 1e-5 chips behind and asks that player again."""
    rounds = [
        pre("1 Post SB 1", "2 Post BB 2", "0 Raise 149.99999", "1 Call 148.99999", "2 Fold"),
        ("Flop", "2c 7d Ts", ["1 Check", "0 Check"]),
        ("Turn", "Ks", ["1 Check", "0 Bet 20", "1 Fold"]),
    ]
    found = accepted(hand(rounds, wins={0: 321.99998}))
    assert "dust" in found.tags
    assert told(found)[-2:] == ["bet@0 20", "fold@1"]
    flagged = edited(hand(rounds, wins={0: 321.99998}), "rounds/0/actions/3/is_allin", True)
    first, _ = read(flagged)
    assert isinstance(first, Reject)
    assert first.reason.value == "ILLEGAL_ACTION"


def test_side_pots_add_up_across_pots() -> None:
    """Several pots are one sum; which chips lie in which pot is the writer's own affair."""
    rounds = [pre("1 Post SB 1", "2 Post BB 2", "0 Raise 200!", "1 Call 149!", "2 Call 98!"), *BOARD]
    record = hand(rounds, pot=300.0, wins={2: 300.0})
    record["pots"] += [{"number": 2, "amount": 100.0, "player_wins": [{"player_id": 1, "win_amount": 100.0}]}]
    net = accepted(record)
    record["pots"] += [{"number": 3, "amount": 50.0, "player_wins": [{"player_id": 0, "win_amount": 50.0}]}]
    gross = accepted(record)
    assert net.events == gross.events
    assert (net.collected, gross.collected) == ((0.0, 100.0, 300.0), (50.0, 100.0, 300.0))
    assert not gross.tags & {"overpaid"}


def test_a_call_of_somebodys_rounding_error_is_no_decision() -> None:
    """A float32 simulator asks the raiser for the 2e-5 by which a call came out too high."""
    rounds = [
        pre("1 Post SB 1", "2 Post BB 2", "0 Fold", "1 Call 1", "2 Raise 6.5", "1 Call 6.50002", "2 Call 0.00002"),
        ("Flop", "2c 7d Ts", ["1 Check", "2 Bet 5", "1 Fold"]),
    ]
    found = accepted(hand(rounds, wins={2: 22.00004}))
    assert told(found)[3:8] == ["call@1 1", "raise@2 6.5", "call@1 6.50002", "flop 2c 7d Ts", "check@1"]
    assert "dust" in found.tags


def test_all_ins_of_almost_equal_stacks_are_a_raise_and_a_call() -> None:
    """Rs-poker takes stacks for equal that differ by less than 0.012%, and labels the larger all-in a call."""
    rounds = [pre("1 Post SB 1", "2 Post BB 2", "0 Raise 149.99!", "1 Call 149!", "2 Fold"), *BOARD]
    record = hand(rounds, stacks={0: 149.99, 1: 150.0, 2: 100.0})
    assert told(accepted(record))[2:4] == ["raise@0 149.99 all-in", "call@1 149 all-in"]
    first, _ = read(
        edited(record, "players/0/starting_stack", 149.9) | {"rounds": edited(record, "rounds/0/actions/2/amount", 149.9)["rounds"]}
    )
    assert isinstance(first, Reject)
