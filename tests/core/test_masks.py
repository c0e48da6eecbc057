"""The supervised window and the live combos on hands written out by hand, against a plain re-derivation, and under relabeling."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch

from range_reader_core import cards, masks, tokens
from range_reader_core.encoder import HandEncoder, augment_hand
from range_reader_core.hand import CanonicalHand, EventKind
from range_reader_core.masks import STRATA
from tests.core.hands import heads_up_run_out, open_fold, pad_tokens, random_hands, three_way_showdown

# Seat 0 (AhAd) reads seat 2. Left of each token: whether it is supervised, and how many combos are live there.
READ_OF_THE_CALLER = """
    - 1225 <bos>
    - 1225 sit@seat0
    - 1225 sit@seat1
    - 1225 sit@seat2
    - 1225 is_button@seat0
    - 1225 <preflop>
    - 1225 hole:AhAd
    - 1225 hide_hole@seat1
    - 1225 predict_hole@seat2
    x 1225 post_blind@seat1
    x 1225 post_blind@seat2
    x 1225 raise@seat0
    x 1225 call@seat1
    x 1225 call@seat2
    x 1225 <flop>
    x 1176 board:2c
    x 1128 board:7d
    x 1081 board:Ts
    x 1081 check@seat1
    x 1081 check@seat2
    x 1081 bet@seat0
    x 1081 fold@seat1
    x 1081 call@seat2
    x 1081 <turn>
    x 1035 board:Kh
    x 1035 check@seat2
    x 1035 check@seat0
    x 1035 <river>
    x 990 board:3s
    x 990 bet@seat2
    x 990 call@seat0
"""
# Seat 2 (TdTc) reads seat 1, which folds on the flop. The perspective's own slot is supervised: it follows predict_hole.
READ_OF_THE_FOLDER = """
    - 1225 <bos>
    - 1225 sit@seat0
    - 1225 sit@seat1
    - 1225 sit@seat2
    - 1225 is_button@seat0
    - 1225 <preflop>
    - 1225 hide_hole@seat0
    - 1225 predict_hole@seat1
    x 1225 hole:TdTc
    x 1225 post_blind@seat1
    x 1225 post_blind@seat2
    x 1225 raise@seat0
    x 1225 call@seat1
    x 1225 call@seat2
    x 1225 <flop>
    x 1176 board:2c
    x 1128 board:7d
    x 1081 board:Ts
    x 1081 check@seat1
    x 1081 check@seat2
    x 1081 bet@seat0
    x 1081 fold@seat1
    - 1081 call@seat2
    - 1081 <turn>
    - 1035 board:Kh
    - 1035 check@seat2
    - 1035 check@seat0
    - 1035 <river>
    - 990 board:3s
    - 990 bet@seat2
    - 990 call@seat0
"""


def stream_of(hand: CanonicalHand, villain: int, perspective: int | None, *, num_padding: int = 0) -> torch.Tensor:
    """Return the tokens of one read as (1, T + num_padding)."""
    stream = torch.from_numpy(HandEncoder().encode(hand, villain, perspective).tokens.astype(np.int64))
    return torch.nn.functional.pad(stream, (0, num_padding), value=tokens.PAD)[None]


@pytest.mark.parametrize(("villain", "perspective", "table"), [(2, 0, READ_OF_THE_CALLER), (1, 2, READ_OF_THE_FOLDER)])
def test_window_and_live_combos_are_those_written_out_by_hand(villain: int, perspective: int, table: str) -> None:
    """Everything trained and every metric counts exactly these positions and combos."""
    stream = stream_of(three_way_showdown(), villain, perspective)
    is_supervised = masks.is_supervised(stream)[0].tolist()
    num_live = masks.is_live_combo(stream)[0].sum(1).tolist()
    texts = [tokens.describe(token) for token in stream[0].tolist()]
    seen = [f"{'x' if flag else '-'} {count} {text}" for flag, count, text in zip(is_supervised, num_live, texts, strict=True)]
    assert seen == [line.strip() for line in table.strip().splitlines()]


def test_a_watcher_without_cards_removes_board_cards_only() -> None:
    """With every slot hidden all 1326 combos are live until the flop."""
    stream = stream_of(three_way_showdown(), 2, None)
    num_live = masks.is_live_combo(stream)[0].sum(1).tolist()
    assert sorted(set(num_live)) == [
        47 * 46 // 2,
        48 * 47 // 2,
        49 * 24,
        50 * 49 // 2,
        51 * 25,
        1326,
    ]
    assert masks.is_supervised(stream).sum() == 22


def test_padding_is_never_supervised_and_changes_nothing_before_it() -> None:
    """A batch pads short reads; their masks must not depend on their neighbours."""
    bare, padded = (stream_of(three_way_showdown(), 2, 0, num_padding=num) for num in (0, 5))
    for function in (masks.is_supervised, masks.visible_cards, masks.is_live_combo, masks.street_at):
        assert torch.equal(function(padded)[:, : bare.shape[1]], function(bare))
    assert not masks.is_supervised(padded)[:, bare.shape[1] :].any()
    assert torch.equal(masks.outcome(padded), masks.outcome(bare))
    assert torch.equal(masks.point_positions(padded), masks.point_positions(bare))


def test_nothing_is_supervised_without_a_villain() -> None:
    """Without ``predict_hole`` there is no question."""
    stream = stream_of(three_way_showdown(), 2, 0)
    assert masks.is_supervised(stream).any()
    stream[stream == tokens.token_of("predict_hole@seat2")] = tokens.token_of("hide_hole@seat2")
    assert not masks.is_supervised(stream).any()


@pytest.mark.parametrize(
    ("hand", "villain", "perspective", "stratum", "points"),
    [
        (three_way_showdown(), 2, 0, "showdown", [17, 24, 28, 30]),
        (three_way_showdown(), 1, 2, "flop-fold", [17, 24, 28, 30]),
        (heads_up_run_out(), 1, 0, "showdown", [14, 16, 18, 18]),
        (open_fold(), 0, 1, "preflop-fold", [17, 21, -1, 24]),
        (open_fold(), 1, 0, "turn-fold", [17, 21, -1, 24]),
        (open_fold(), 2, 0, "uncontested", [17, 21, -1, 24]),
    ],
)
def test_outcome_and_points_of_hand_built_hands(
    hand: CanonicalHand, villain: int, perspective: int, stratum: str, points: list[int]
) -> None:
    """The stratified and sharpening tables group and read by these."""
    stream = stream_of(hand, villain, perspective)
    assert STRATA[int(masks.outcome(stream))] == stratum
    assert masks.point_positions(stream).tolist() == [points]


def test_a_deal_that_the_cut_splits_is_no_point() -> None:
    """Reading after two of three flop cards would not be a read after the flop."""
    stream = stream_of(three_way_showdown(), 2, 0)
    assert masks.point_positions(stream[:, :17]).tolist() == [[-1, -1, -1, 16]]
    padded = torch.nn.functional.pad(stream[:, :17], (0, 5), value=tokens.PAD)
    assert masks.point_positions(padded).tolist() == [[-1, -1, -1, 16]]
    assert masks.point_positions(stream[:, :18]).tolist() == [[17, -1, -1, 17]]
    assert masks.point_positions(stream[:, :2]).tolist() == [[-1, -1, -1, 1]]


def test_all_masks_agree_with_a_plain_reading_of_the_hand() -> None:
    """The tensor code reads tokens; this reads the hand, seat by seat and card by card."""
    hands = random_hands(6, 40)
    reads, _ = HandEncoder().encode_hands(hands)
    stream = torch.from_numpy(pad_tokens(reads))
    assert (reads.lengths < 96).all()
    is_supervised, visible, is_live = masks.is_supervised(stream), masks.visible_cards(stream), masks.is_live_combo(stream)
    street, strata, points = masks.street_at(stream), masks.outcome(stream), masks.point_positions(stream)
    row = 0
    seen_strata = set()
    for hand in hands:
        for villain, perspective in augment_hand(hand):
            expected = _plain_reading(hand, villain, perspective)
            span = slice(int(reads.lengths[row]))
            assert is_supervised[row, span].tolist() == [position[0] for position in expected[0]]
            assert street[row, span].tolist() == [position[1] for position in expected[0]]
            for position, (_, _, in_sight) in enumerate(expected[0]):
                assert set(visible[row, position].nonzero()[:, 0].tolist()) == in_sight
                assert np.array_equal(is_live[row, position].numpy(), ~cards.COMBO_HAS_CARD[:, sorted(in_sight)].any(axis=1))
            assert STRATA[int(strata[row])] == expected[1]
            assert points[row].tolist() == expected[2]
            assert is_live[row, span, int(reads.villain_combo[row])].all(), "the truth is live"
            seen_strata.add(expected[1])
            row += 1
    assert row == reads.num_reads > 300
    assert seen_strata == set(STRATA)


def test_chosen_positions_equal_the_full_table() -> None:
    """Training looks up supervised positions only, in any order and repeated."""
    reads, _ = HandEncoder().encode_hands(random_hands(7, 20))
    stream = torch.from_numpy(pad_tokens(reads))
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(stream.shape[0], (500,), generator=generator)
    positions = torch.randint(stream.shape[1], (500,), generator=generator)
    expected = masks.is_live_combo(stream)[rows, positions]
    assert torch.equal(masks.is_live_combo_at(stream, rows, positions), expected)
    assert masks.is_live_combo_at(stream, rows[:0], positions[:0]).shape == (0, 1326)
    assert len(set(expected.sum(1).tolist())) > 3


def test_masks_and_target_move_together_under_every_relabeling() -> None:
    """A mask that stayed behind would declare the relabeled truth dead."""
    reads, _ = HandEncoder().encode_hands(random_hands(8, 5, 3))
    stream = torch.from_numpy(pad_tokens(reads))
    is_live = masks.is_live_combo(stream)
    num_moved = 0
    for relabeling in range(24):
        moved = torch.from_numpy(tokens.PERM_ACTION[relabeling])[stream]
        perm = torch.from_numpy(tokens.PERM_COMBO[relabeling])
        target = perm[torch.from_numpy(reads.villain_combo.astype(np.int64))]
        is_live_moved = masks.is_live_combo(moved)
        assert torch.equal(is_live_moved[:, :, perm], is_live)
        assert is_live_moved[torch.arange(len(target)), :, target].all()
        num_moved += not torch.equal(is_live_moved, is_live)
        for function in (masks.is_supervised, masks.street_at, masks.outcome, masks.point_positions):
            assert torch.equal(function(moved), function(stream))
    assert num_moved == 23


def test_a_mask_at_a_position_ignores_everything_after_it() -> None:
    """A mask that looked ahead would tell the river at the flop; the perspective's own slot is the one exception."""
    stream = stream_of(three_way_showdown(), 2, 0)
    for first, second in pairwise(range(9, stream.shape[1] + 1)):
        for function in (masks.is_supervised, masks.visible_cards, masks.is_live_combo, masks.street_at):
            assert torch.equal(function(stream[:, :first]), function(stream[:, :second])[:, :first])


@pytest.mark.parametrize(
    "function",
    [masks.is_supervised, masks.visible_cards, masks.is_live_combo, masks.street_at, masks.outcome, masks.point_positions],
)
@pytest.mark.parametrize("stream", [torch.zeros(7, dtype=torch.int64), torch.zeros(2, 7, dtype=torch.int32)], ids=["flat", "int32"])
def test_another_shape_or_dtype_is_refused(function: Callable[[torch.Tensor], torch.Tensor], stream: torch.Tensor) -> None:
    """A flat stream would broadcast into nonsense."""
    with pytest.raises(ValueError, match="int64"):
        function(stream)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_masks_are_the_same_on_a_gpu() -> None:
    """Masks are made on the device that trains."""
    reads, _ = HandEncoder().encode_hands(random_hands(9, 50))
    stream = torch.from_numpy(pad_tokens(reads))
    for function in (
        masks.is_supervised,
        masks.visible_cards,
        masks.is_live_combo,
        masks.street_at,
        masks.outcome,
        masks.point_positions,
    ):
        assert torch.equal(function(stream.cuda()).cpu(), function(stream))


def _plain_reading(hand: CanonicalHand, villain: int, perspective: int) -> tuple[list[tuple[bool, int, set[int]]], str, list[int]]:
    """Return (supervised, street, cards in sight) per position, the stratum, and the points."""
    hole = hand.hole_cards[perspective]
    assert hole is not None
    in_sight = set(hole)
    first_slot = hand.num_players + 3
    rows = [(position > first_slot + villain, 0, set(in_sight)) for position in range(first_slot + hand.num_players)]
    street, stratum, points = 0, "", [-1, -1, -1, -1]
    num_live = hand.num_players
    for event in hand.events:
        if event.board:
            street += 1
            rows.append((not stratum, street, set(in_sight)))
            for card in event.board:
                in_sight.add(card)
                rows.append((not stratum, street, set(in_sight)))
            points[street - 1] = len(rows) - 1
            continue
        rows.append((not stratum, street, set(in_sight)))
        if event.kind is EventKind.FOLD:
            num_live -= 1
            if event.seat == villain:
                stratum = f"{masks.STREETS[street]}-fold"
    points[3] = len(rows) - 1
    return rows, stratum or ("showdown" if num_live >= 2 else "uncontested"), points
