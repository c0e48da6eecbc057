"""Rows 25 to 81 of the case table, each a small record with its verdict: games, players, cards, money, endings."""

import io
from collections.abc import Sequence
from typing import Final

import pytest

from range_reader_core import cards
from range_reader_core.hand import CanonicalHand, LabelSource
from range_reader_core.ohh import parse_ohh
from range_reader_core.ohh_rejects import Reject
from tests.core.ohh_text import DEALT, FLOP, PREFLOP, RIVER, ROUNDS, TURN, Json, deleted, edited, hand, line, without

ALL_IN: Final = ["1 Post SB 1", "2 Post BB 2", "0 Raise 100", "1 Fold", "2 Call 98!"]
RUN_OUT: Final = [("Flop", "2c 7d Ts", []), ("Turn", "Ks", []), ("River", "3h", [])]
CHECKED: Final = [
    ("Flop", "2c 7d Ts", ["1 Check", "2 Check"]),
    ("Turn", "Ks", ["1 Check", "2 Check"]),
    ("River", "3h", ["1 Check", "2 Check"]),
]
LIMPED: Final = [*DEALT, "1 Post SB 1", "2 Post BB 2", "0 Fold", "1 Call 1", "2 Check"]


def preflop(*actions: str) -> tuple[str, str, list[str]]:
    """Return a preflop round."""
    return ("Preflop", "", list(actions))


def accepted(record: Json) -> CanonicalHand:
    """Return the hand of a record that has to be accepted."""
    results = list(parse_ohh(io.BytesIO(line(record)), "file.ohh"))
    assert len(results) == 1, results
    assert isinstance(results[0], CanonicalHand), results
    return results[0]


def reason(record: Json) -> str:
    """Return the code of a record that has to be refused."""
    first, *rest = parse_ohh(io.BytesIO(line(record)), "file.ohh")
    assert isinstance(first, Reject), first
    assert [other.reason.value for other in rest if isinstance(other, Reject)] == ["FILE_NO_HANDS"]
    return first.reason.value


REFUSED: Final[list[tuple[str, Json, str]]] = [
    ("25 Omaha", hand(game_type="Omaha"), "GAME_TYPE"),
    ("25 Stud", hand(game_type="Stud"), "GAME_TYPE"),
    ("26 pot limit", hand(bet_limit={"bet_type": "PL", "bet_cap": 0.0}), "BET_TYPE"),
    ("26 fixed limit", hand(bet_limit={"bet_type": "FL"}), "BET_TYPE"),
    ("27 no bet_limit", without(hand(), "bet_limit"), "BET_TYPE"),
    ("28 bet cap", hand(bet_limit={"bet_type": "NL", "bet_cap": 60.0}), "CAPPED"),
    ("28 Cap flag", hand(flags=["Cap"]), "CAPPED"),
    ("31 Bomb_Pot flag", hand(flags=["Bomb_Pot"]), "BOMB_POT"),
    ("31 no preflop action", hand([preflop(*DEALT, "0 Post Ante 2", "1 Post Ante 2", "2 Post Ante 2"), *CHECKED]), "BOMB_POT"),
    ("40 junk after a card", edited(hand(), "rounds/0/actions/0/cards", ["AhXYZ", "Kd"]), "BAD_CARD"),
    ("40 hidden board card", edited(hand(), "rounds/1/cards", ["2c", "7d", "??"]), "BAD_CARD"),
    ("40 no such card", edited(hand(), "rounds/1/cards", ["2c", "7d", "1s"]), "BAD_CARD"),
    ("41 one card on the board and in a hand", edited(hand(), "rounds/1/cards", ["2c", "7d", "Ah"]), "DUP_CARD"),
    ("41 one card in two hands", edited(hand(), "rounds/0/actions/0/cards", ["Ah", "9c"]), "DUP_CARD"),
    ("41 one card twice in a hand", edited(hand(), "rounds/0/actions/0/cards", ["Ah", "Ah"]), "DUP_CARD"),
    ("42 two flop cards", edited(hand(), "rounds/1/cards", ["2c", "7d"]), "BOARD_SHAPE"),
    ("42 two turn cards", edited(hand(), "rounds/2/cards", ["Ks", "Qs"]), "BOARD_SHAPE"),
    ("42 turn repeats other cards", edited(hand(), "rounds/2/cards", ["2c", "7d", "9s", "Ks"]), "BOARD_SHAPE"),
    ("42 turn without a flop", hand([PREFLOP, TURN, RIVER]), "BOARD_SHAPE"),
    ("43 cards in the preflop round", edited(hand(), "rounds/0/cards", ["Ah", "Kd"]), "BOARD_SHAPE"),
    ("49 one id twice", edited(hand(), "players/2/id", 1), "PLAYERS"),
    ("49 one seat twice", edited(hand(), "players/2/seat", 2), "PLAYERS"),
    ("51 all seats 0", edited(edited(edited(hand(), "players/0/seat", 0), "players/1/seat", 0), "players/2/seat", 0), "SEATS"),
    ("52 seventeen players", hand(stacks=dict.fromkeys(range(17), 100.0)), "TOO_MANY"),
    ("53 one player", hand([preflop("0 Post BB 2")], stacks={0: 100.0}, wins={0: 2.0}), "PLAYERS"),
    ("53 all sit out", hand([preflop()], stacks={0: 0.0, 1: 0.0}, wins={}), "PLAYERS"),
    ("53 an action of nobody", edited(hand(), "rounds/1/actions/0/player_id", 9), "PLAYERS"),
    ("58 no big blind anywhere", hand([preflop("0 Bet 6", "1 Fold", "2 Fold")], wins={0: 6.0}, big_blind_amount=0), "NO_BLINDS"),
    ("62 a raise without its amount", deleted(hand(), "rounds/0/actions/5/amount"), "NO_AMOUNT"),
    ("62 a call with a null amount", edited(hand(), "rounds/0/actions/6/amount", None), "NO_AMOUNT"),
    ("63 a number in words", edited(hand(), "players/0/starting_stack", "two"), "TYPE"),
    ("63 a number with a separator", edited(hand(), "players/0/starting_stack", "1,000"), "TYPE"),
    ("63 a seat between seats", edited(hand(), "players/0/seat", 1.5), "TYPE"),
    ("64 a negative amount", edited(hand(), "rounds/0/actions/5/amount", -6.0), "BAD_NUMBER"),
    ("64 a negative stack", edited(hand(), "players/0/starting_stack", -6.0), "BAD_NUMBER"),
    ("64 an absurd stack", edited(hand(), "players/0/starting_stack", 1e308), "BAD_NUMBER"),
    ("64 NaN", edited(hand(), "rounds/0/actions/5/amount", float("nan")), "BAD_NUMBER"),
    ("64 Infinity", edited(hand(), "players/0/starting_stack", float("inf")), "BAD_NUMBER"),
    ("69 call above the price", edited(hand(), "rounds/0/actions/6/amount", 9.0), "ILLEGAL_ACTION"),
    ("69 call below the price with chips left", edited(hand(), "rounds/0/actions/6/amount", 4.0), "ILLEGAL_ACTION"),
    ("69 check facing a bet", hand([PREFLOP, ("Flop", "2c 7d Ts", ["1 Bet 8", "0 Check"]), TURN, RIVER]), "ILLEGAL_ACTION"),
    (
        "69 acts after folding",
        hand([PREFLOP, ("Flop", "2c 7d Ts", ["1 Check", "2 Bet 8", "0 Fold"])], wins={1: 22.0}),
        "ILLEGAL_ACTION",
    ),
    ("69 acts while all-in", hand([preflop(*ALL_IN, "2 Fold"), *RUN_OUT], wins={0: 201.0}), "ILLEGAL_ACTION"),
    ("69 acts twice", hand([PREFLOP, ("Flop", "2c 7d Ts", ["1 Check", "1 Bet 8", "0 Fold"])], wins={1: 22.0}), "ILLEGAL_ACTION"),
    ("69 everyone folds", hand([preflop("1 Post SB 1", "2 Post BB 2", "0 Fold", "1 Fold", "2 Fold")], wins={}), "ILLEGAL_ACTION"),
    ("69 a fold that pays", edited(hand(), "rounds/0/actions/7/amount", 3.0), "ILLEGAL_ACTION"),
    ("72 more than the stack", edited(hand(), "players/1/starting_stack", 30.0), "OVERSPEND"),
    ("75 pots match nothing", hand(pot=60.0), "POT_MISMATCH"),
    ("75 a pot pays more than it holds", hand(pot=54.0, wins={1: 60.0}), "POT_MISMATCH"),
    ("75 a pot pays less, its rake named", edited(hand(wins={1: 40.0}), "pots/0/rake", 2.0), "POT_MISMATCH"),
    ("76 a folded player wins", hand(wins={2: 50.0}), "WINNER"),
    ("76 nobody wins", hand(wins={9: 50.0}), "WINNER"),
    (
        "79 unknown action with chips",
        hand([preflop(*DEALT, "1 Post SB 1", "2 Post BB 2", "0 Dance 5", "0 Fold", "1 Fold")]),
        "UNKNOWN_ACTION",
    ),
    ("80 a stud street", edited(hand(), "rounds/1/street", "Third Street"), "STREET"),
    ("80 preflop after the flop", hand([PREFLOP, FLOP, ("Preflop", "", ["1 Check"])]), "STREET"),
    ("81 stops before the river", hand([PREFLOP, FLOP, TURN]), "INCOMPLETE"),
    ("81 stops amid a street", hand([PREFLOP, ("Flop", "2c 7d Ts", ["1 Bet 8"])], wins={1: 22.0}), "INCOMPLETE"),
    ("81 a street nobody finished", hand([PREFLOP, ("Flop", "2c 7d Ts", ["1 Check"]), TURN, RIVER]), "INCOMPLETE"),
    ("missing players", without(hand(), "players"), "TYPE"),
    ("missing dealer_seat", without(hand(), "dealer_seat"), "TYPE"),
]


@pytest.mark.parametrize(("record", "code"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_a_record_is_refused_with_the_code_of_its_row(record: Json, code: str) -> None:
    """A wrong hand that gets in teaches the model something false; a wrong code misleads whoever looks for the cause."""
    assert reason(record) == code


ACCEPTED: Final[list[tuple[str, Json, set[str]]]] = [
    ("27 no bet_cap", hand(bet_limit={"bet_type": "NL"}), set()),
    ("29 tournament", hand(tournament=True), {"tournament"}),
    ("29 tournament_info", hand(tournament_info={"name": "x"}), {"tournament"}),
    ("30 Run_It_Twice flag", hand(flags=["Run_It_Twice"]), {"run_twice"}),
    ("32 no hole cards", hand([preflop(*PREFLOP[2][3:]), *ROUNDS[1:]], flags=["Observed"]), {"no_hole_cards"}),
    ("33 only the hero's cards", hand([preflop(DEALT[0], *PREFLOP[2][3:]), *ROUNDS[1:]]), set()),
    ("37 mucks without cards", hand([*ROUNDS, ("Showdown", "", ["1 Mucks Cards"])]), set()),
    ("38 no cards as text", edited(hand(), "rounds/0/cards", ""), set()),
    ("38 no cards as null", edited(hand(), "rounds/0/cards", None), set()),
    ("38 no cards as a list", edited(hand(), "rounds/0/cards", []), set()),
    ("46 round ids from 1 with gaps", edited(hand(), "rounds/3/id", 9), set()),
    ("46 rounds in another order than their ids", hand() | {"rounds": hand()["rounds"][::-1]}, set()),
    ("47 action numbers per hand", edited(hand(), "rounds/1/actions/0/action_number", 9), set()),
    ("50 one name at two seats", hand(), set()),
    ("51 seats above the table size and above 10", edited(hand(table_size=2), "players/2/seat", 12), set()),
    ("54 empty dealer seat", hand(dealer_seat=7), {"dead_button"}),
    ("55 a player without chips", hand(stacks={0: 200.0, 1: 150.0, 2: 100.0, 3: 0.0}), set()),
    (
        "57 no small blind",
        hand([preflop(*DEALT, "2 Post BB 2", "0 Raise 6", "1 Fold", "2 Fold")], wins={0: 8.0}),
        {"no_small_blind"},
    ),
    ("58 blinds not named, but posted", hand(small_blind_amount=None, big_blind_amount=None), set()),
    ("58 big blind below the small blind", hand(small_blind_amount=2.0, big_blind_amount=1.0), set()),
    (
        "61 amounts missing where there is none",
        deleted(deleted(hand(), "rounds/0/actions/0/amount"), "rounds/0/actions/7/amount"),
        set(),
    ),
    (
        "63 numbers as texts",
        edited(edited(hand(table_size="6"), "players/0/starting_stack", "200.0"), "players/0/seat", "1"),
        set(),
    ),
    ("67 no all-in flags", deleted(hand(), "rounds/0/actions/5/is_allin"), set()),
    ("68 opening wager called a raise", edited(hand(), "rounds/3/actions/0/action", "Raise"), {"relabeled"}),
    ("68 preflop bet", edited(hand(), "rounds/0/actions/5/action", "Bet"), {"relabeled"}),
    (
        "70 raise under the minimum",
        hand([preflop(*DEALT, "1 Post SB 1", "2 Post BB 2", "0 Raise 3", "1 Fold", "2 Fold")], wins={0: 6.0}),
        {"under_min_raise"},
    ),
    ("71 fold with nothing to call", hand([PREFLOP, ("Flop", "2c 7d Ts", ["1 Fold"])], wins={0: 14.0}), {"open_fold"}),
    ("74 no pots", without(hand(), "pots"), {"no_pots"}),
    ("74 empty pots", hand(pots=[]), {"no_pots"}),
    ("77 rake within the pot", edited(hand(wins={1: 47.0}), "pots/0/rake", 3.0), set()),
    ("77 rake and jackpot", edited(edited(hand(wins={1: 47.0}), "pots/0/rake", 2.0), "pots/0/jackpot", 1.0), set()),
    ("77 rake not named", hand(wins={1: 47.0}), {"unstated_rake"}),
    ("77 cash-out", edited(hand(), "pots/0/player_wins/0/cashout_amount", 40.0), set()),
    ("79 payout", hand([*ROUNDS, ("Showdown", "", ["1 Payout 30!"])]), set()),
    ("79 adjustment", hand([preflop(*PREFLOP[2], "0 Player Adjustment -5"), *ROUNDS[1:]]), set()),
    (
        "79 unknown action without chips",
        hand([preflop(*PREFLOP[2][:3], "0 Dance", *PREFLOP[2][3:]), *ROUNDS[1:]]),
        {"unknown_action"},
    ),
    ("79 added to the pot by nobody", hand([preflop("- Add to Pot 10", *PREFLOP[2]), *ROUNDS[1:]]), {"added_to_pot"}),
    ("79 chips added but not used", hand([preflop("0 Added Chips 10", *PREFLOP[2]), *ROUNDS[1:]]), set()),
    ("79 sits down", hand([preflop("0 Sits Down", *PREFLOP[2]), *ROUNDS[1:]]), set()),
]


@pytest.mark.parametrize(("record", "tags"), [case[1:] for case in ACCEPTED], ids=[case[0] for case in ACCEPTED])
def test_a_record_is_accepted_with_the_tags_of_its_row(record: Json, tags: set[str]) -> None:
    """Most writers break the spec somewhere: refusing what can be read loses their hands for nothing."""
    assert accepted(record).tags == tags


SAME_HAND: Final[list[tuple[str, Json]]] = [
    ("38 no cards", edited(hand(), "rounds/0/cards", "")),
    ("39 ten as two digits", edited(hand(), "rounds/1/cards", ["2c", "7d", "10s"])),
    ("39 lower and upper case", edited(hand(), "rounds/1/cards", ["2C", "7D", "ts"])),
    ("39 suit symbols", edited(hand(), "rounds/1/cards", ["2\u2663", "7\u2666\ufe0f", "T\u2660"])),
    (
        "39 cards as objects",
        edited(hand(), "rounds/1/cards", [{"rank": "2", "suit": "clubs"}, {"rank": 7, "suit": "d"}, {"rank": "10", "suit": "S"}]),
    ),
    ("39 cards in one text", edited(hand(), "rounds/1/cards", "2c 7d Ts")),
    ("39 cards in one text without spaces", edited(hand(), "rounds/1/cards", "2c7dTs")),
    (
        "42 the board repeated on each street",
        edited(edited(hand(), "rounds/2/cards", ["Ts", "7d", "2c", "Ks"]), "rounds/3/cards", ["2c", "7d", "Ts", "Ks", "3h"]),
    ),
    ("46 rounds in another order than their ids", hand() | {"rounds": hand()["rounds"][::-1]}),
    ("61 amounts missing where there is none", deleted(hand(), "rounds/0/actions/7/amount")),
    ("63 numbers as texts", edited(hand(), "rounds/0/actions/5/amount", "6.0")),
    ("67 all-in flags wrong", edited(hand(), "rounds/0/actions/5/is_allin", True)),
    ("68 opening wager called a raise", edited(hand(), "rounds/3/actions/0/action", "Raise")),
    (
        "68 action names in another spelling",
        edited(edited(hand(), "rounds/0/actions/5/action", "raise"), "rounds/0/actions/3/action", "post_sb"),
    ),
    (
        "48 ids as texts",
        hand([PREFLOP, FLOP, TURN, RIVER], stacks={"a1": 200.0, "ff": 150.0, "c": 100.0}, wins={"ff": 50.0})
        | {
            "rounds": [
                record
                | {
                    "actions": [
                        action | {"player_id": {0: "a1", 1: "ff", 2: "c"}[action["player_id"]]} for action in record["actions"]
                    ]
                }
                for record in hand()["rounds"]
            ]
        },
    ),
    (
        "55 a player without chips between",
        without(hand(), "players")
        | {
            "players": [
                *hand()["players"],
                hand()["players"][0] | {"id": 8, "seat": 9, "starting_stack": 0.0, "is_sitting_out": True},
            ]
        },
    ),
    (
        "77 another name for wins",
        edited(
            without(hand(), "pots") | {"pots": [{"amount": 50.0}]}, "pots/0/players_wins", [{"player_id": 1, "win_amount": 50.0}]
        ),
    ),
]


@pytest.mark.parametrize("record", [case[1] for case in SAME_HAND], ids=[case[0] for case in SAME_HAND])
def test_another_spelling_is_the_same_hand(record: Json) -> None:
    """What is normalised must come out identical to the plain form, or repeats would count twice."""
    plain, found = accepted(hand()), accepted(record)
    assert (found.events, found.hole_cards, found.stacks, found.content_hash) == (
        plain.events,
        plain.hole_cards,
        plain.stacks,
        plain.content_hash,
    )


def known(record: Json, seat: int) -> tuple[set[str], str] | None:
    """Return a seat's cards and how they are known."""
    found = accepted(record)
    pair, source = found.hole_cards[seat], found.label_sources[seat]
    return None if pair is None or source is None else ({cards.format_card(card) for card in pair}, source.value)


def shown(*texts: str, seats: Sequence[str] = ()) -> Json:
    """Return a hand with a showdown after which the given actions stand; ``seats`` are dealt cards."""
    return hand([preflop(*seats, *LIMPED[3:]), *CHECKED, ("Showdown", "", list(texts))], wins={1: 4.0})


def test_row_34_cards_known_only_from_a_show_are_labelled_so() -> None:
    """Shown hands are a biased sample; they must be told from dealt ones."""
    record = shown("1 Shows Cards [9c 8c]", seats=["0 Dealt Cards [Ah Kd]"])
    assert known(record, 0) == ({"Ah", "Kd"}, LabelSource.DEALT)
    assert known(record, 1) == ({"9c", "8c"}, LabelSource.SHOWN)
    assert known(record, 2) is None


def test_row_35_a_folded_player_may_show_later() -> None:
    """A show after the fold is a label like any other."""
    record = shown("0 Shows Cards [Ah Kd]")
    assert known(record, 0) == ({"Ah", "Kd"}, LabelSource.SHOWN)
    assert "folded_show" in accepted(record).tags


def test_row_36_one_card_shown_is_not_known() -> None:
    """Half a label is none."""
    record = shown("1 Shows Cards [9c]")
    assert known(record, 1) is None
    assert "partial_show" in accepted(record).tags


def test_row_40_hidden_cards_are_unknown() -> None:
    """Placeholders are not cards, and not damage either."""
    assert known(shown("1 Shows Cards [?? ??]", seats=["1 Dealt Cards [Xx Xx]"]), 1) is None


@pytest.mark.parametrize("text", ["1 Shows Cards [9c 7c]", "1 Shows Cards [2s]", "1 Dealt Cards [9c 8c 7c]"])
def test_cards_that_contradict_each_other_are_refused(text: str) -> None:
    """Two hands for one seat: one of the two is wrong, and nobody knows which."""
    assert reason(shown(text, seats=["1 Dealt Cards [9c 8c]"])) == "BAD_CARD"


def test_row_45_showing_twice_or_early_changes_nothing() -> None:
    """Showdowns come before the board is complete, and again after it."""
    record = hand(
        [preflop(*ALL_IN), ("Showdown", "", ["2 Shows Cards [Td Th]"]), *RUN_OUT, ("Showdown", "", ["2 Shows Cards [Th Td]"])],
        wins={2: 201.0},
    )
    assert known(record, 2) == ({"Td", "Th"}, LabelSource.SHOWN)
    assert accepted(record).tags == {"mid_showdown"}


def test_row_30_of_two_boards_the_first_is_kept() -> None:
    """The betting is over before the boards; ten cards would fit no stream."""
    second = [("Flop", "4c 5d 6s", []), ("Turn", "Qs", []), ("River", "Jh", [])]
    found = accepted(hand([preflop(*ALL_IN), *RUN_OUT, *second], wins={0: 100.5, 2: 100.5}))
    assert [cards.format_card(card) for card in found.board] == ["2c", "7d", "Ts", "Ks", "3h"]
    assert "run_twice" in found.tags


@pytest.mark.parametrize(("dealer_seat", "button"), [(1, 0), (3, 2), (4, 2), (9, 2), (0, 2)])
def test_row_54_a_dead_button_goes_to_the_seat_before_it(dealer_seat: int, button: int) -> None:
    """Relative position is read from the button; an empty seat has none."""
    assert accepted(hand(dealer_seat=dealer_seat)).button == button


def test_row_55_a_busted_button_goes_to_the_seat_before_it() -> None:
    """Simulators leave the button with a player who has no chips and is not dealt in."""
    found = accepted(hand(stacks={0: 200.0, 1: 150.0, 2: 100.0, 3: 0.0}, dealer_seat=4))
    assert (found.num_players, found.button, found.tags) == (3, 2, {"dead_button"})


def test_a_player_marked_as_sitting_out_who_acts_is_in_the_hand() -> None:
    """Tournament players who are away are dealt in, post and fold; their chips are in the pot."""
    found = accepted(edited(hand(), "players/2/is_sitting_out", True))
    assert found == accepted(hand())


def test_row_52_sixteen_players_are_accepted() -> None:
    """Simulators seat up to sixteen, and the vocabulary has room for them."""
    folds = [f"{seat} Fold" for seat in [*range(3, 16), 0, 1]]
    found = accepted(hand([preflop("1 Post SB 1", "2 Post BB 2", *folds)], stacks=dict.fromkeys(range(16), 100.0), wins={2: 3.0}))
    assert found.num_players == 16


def test_adding_chips_counts_only_if_they_were_put_in() -> None:
    """A stack topped up during the hand is larger than it was dealt with; otherwise the top-up is for the next hand."""
    found = accepted(edited(hand([preflop("1 Added Chips 100", *PREFLOP[2]), *ROUNDS[1:]]), "players/1/starting_stack", 30.0))
    assert found.stacks[1] == 130.0
    assert "added_chips" in found.tags
