"""The vocabulary: names of all ids, and the 24 relabelings as a group on tokens and on combos."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from range_reader_core import cards, tokens

PERMUTATIONS = pytest.mark.parametrize(
    "perm", [tokens.PERM_ACTION, tokens.PERM_COMBO, cards.PERM_CARD], ids=["tokens", "combos", "cards"]
)


def test_vocabulary_hash_is_pinned() -> None:
    """A checkpoint of another numbering has the same shapes; only the hash tells them apart."""
    assert tokens.VOCABULARY_HASH == "e1d4dbb688cbd045"


def test_there_are_1596_ids_and_each_round_trips() -> None:
    """An id without a name, or two ids of one name, would make streams unreadable."""
    assert tokens.VOCAB_SIZE == 1596
    texts = [tokens.describe(token) for token in range(tokens.VOCAB_SIZE)]
    assert len(set(texts)) == 1596
    assert [tokens.token_of(text) for text in texts] == list(range(1596))


def test_sections_have_the_sizes_of_the_design() -> None:
    """208 seat-attached ids, 62 seatless ones, 1326 combos, in this order."""
    assert tokens.COMMUNITY_OFFSET == 208
    assert tokens.MARK_OFFSET == 208 + 52
    assert tokens.COMBO_OFFSET == 208 + 62
    assert tokens.describe(tokens.seat_token(tokens.BaseAction.RAISE, 3)) == "raise@seat3"
    assert tokens.describe(tokens.community_token(cards.parse_card("Ts"))) == "board:Ts"
    assert tokens.describe(tokens.combo_token(cards.combo_index(50, 45))) == "hole:AhKd"
    assert [tokens.describe(token) for token in (tokens.PAD, tokens.BOS, tokens.FLOP)] == ["<pad>", "<bos>", "<flop>"]


def test_seven_base_actions_carry_chips() -> None:
    """A value on any other token would be dropped by the embedding."""
    assert len(set(tokens.CHIP_ACTIONS)) == 7


@pytest.mark.parametrize(
    ("call", "argument"),
    [(tokens.describe, -1), (tokens.describe, 1596), (tokens.token_of, "raise@seat16"), (tokens.token_of, "")],
)
def test_what_is_not_in_the_vocabulary_is_refused(call: Callable[[object], object], argument: object) -> None:
    """An id that wraps around names another token."""
    with pytest.raises(ValueError, match="token"):
        call(argument)


@pytest.mark.parametrize("seat", [-1, 16])
def test_a_seat_beyond_the_table_is_refused(seat: int) -> None:
    """Seat 16 of an action is seat 0 of the next one."""
    with pytest.raises(ValueError, match="seat in"):
        tokens.seat_token(tokens.BaseAction.FOLD, seat)


@PERMUTATIONS
def test_relabelings_form_a_group(perm: npt.NDArray[np.int64]) -> None:
    """Suit averaging sums over a group: identity, inverses, closure, and composition as that of the suits."""
    index_of = {tuple(row): index for index, row in enumerate(cards.SUIT_RELABELINGS.tolist())}
    assert len({tuple(row) for row in perm.tolist()}) == 24, "the action on suits is faithful"
    assert np.array_equal(perm[0], np.arange(perm.shape[1]))
    for first in range(24):
        inverse = index_of[tuple(np.argsort(cards.SUIT_RELABELINGS[first]).tolist())]
        assert np.array_equal(perm[inverse][perm[first]], np.arange(perm.shape[1]))
        for second in range(24):
            composed = index_of[tuple(cards.SUIT_RELABELINGS[second][cards.SUIT_RELABELINGS[first]].tolist())]
            assert np.array_equal(perm[second][perm[first]], perm[composed])


def test_relabelings_move_tokens_as_they_move_cards() -> None:
    """Tokens and targets go through two tables, which must be the same permutation of cards."""
    for relabeling in range(24):
        perm = tokens.PERM_ACTION[relabeling]
        for card in range(cards.NUM_CARDS):
            assert perm[tokens.community_token(card)] == tokens.community_token(cards.relabel_card(card, relabeling))
        for combo in range(cards.NUM_COMBOS):
            lo, hi = cards.combo_cards(combo)
            moved = cards.combo_index(cards.relabel_card(lo, relabeling), cards.relabel_card(hi, relabeling))
            assert tokens.PERM_COMBO[relabeling, combo] == moved
            assert perm[tokens.combo_token(combo)] == tokens.combo_token(moved)


def test_relabelings_leave_seats_and_marks_alone() -> None:
    """The supervised window keys on these ids."""
    fixed = [*range(tokens.COMMUNITY_OFFSET), *range(tokens.MARK_OFFSET, tokens.COMBO_OFFSET)]
    assert np.array_equal(tokens.PERM_ACTION[:, fixed], np.tile(fixed, (24, 1)))
