"""Streams of hand-built hands token by token, who reads whom, and many hands at once against one by one."""

from dataclasses import replace

import numpy as np
import pytest

from range_reader_core import cards, tokens
from range_reader_core.encoder import MAX_POSITIONS, WATCHER, EncodedRead, EncodingCounts, HandEncoder, as_watched, augment_hand
from range_reader_core.hand import VOLUNTARY_CHIPS, CanonicalHand, Event, EventKind, LabelSource
from tests.core.hands import (
    build_hand,
    heads_up_run_out,
    open_fold,
    parse_hole,
    random_hands,
    shown_cards_only,
    three_way_showdown,
    walk,
    with_holes,
)


def described(read: EncodedRead) -> list[str]:
    """Return the stream as text."""
    return [tokens.describe(int(token)) for token in read.tokens]


def test_a_showdown_hand_becomes_the_stream_written_out_by_hand() -> None:
    """The order and the values of the stream are the contract with every shard and checkpoint."""
    expected = [
        ("<bos>", 0.0),
        ("sit@seat0", 100.0),
        ("sit@seat1", 75.0),
        ("sit@seat2", 50.0),
        ("is_button@seat0", 0.0),
        ("<preflop>", 0.0),
        ("hole:AhAd", 0.0),
        ("hide_hole@seat1", 0.0),
        ("predict_hole@seat2", 0.0),
        ("post_blind@seat1", 0.5),
        ("post_blind@seat2", 1.0),
        ("raise@seat0", 3.0),
        ("call@seat1", 2.5),
        ("call@seat2", 2.0),
        ("<flop>", 0.0),
        ("board:2c", 0.0),
        ("board:7d", 0.0),
        ("board:Ts", 0.0),
        ("check@seat1", 0.0),
        ("check@seat2", 0.0),
        ("bet@seat0", 4.5),
        ("fold@seat1", 0.0),
        ("call@seat2", 4.5),
        ("<turn>", 0.0),
        ("board:Kh", 0.0),
        ("check@seat2", 0.0),
        ("check@seat0", 0.0),
        ("<river>", 0.0),
        ("board:3s", 0.0),
        ("bet@seat2", 10.0),
        ("call@seat0", 10.0),
    ]
    read = HandEncoder().encode(three_way_showdown(), villain=2, perspective=0)
    assert list(zip(described(read), read.values.tolist(), strict=True)) == expected
    assert (read.tokens.dtype.name, read.values.dtype.name, read.num_cut) == ("uint16", "float32", 0)


def test_a_run_out_is_public_and_ends_the_stream() -> None:
    """The board of an all-in hand is seen by everyone; shown cards and the result after it are not inputs."""
    read = HandEncoder().encode(heads_up_run_out(), villain=1, perspective=0)
    assert described(read)[4:] == [
        "<preflop>",
        "hole:AhAd",
        "predict_hole@seat1",
        "post_blind@seat0",
        "post_blind@seat1",
        "all_in@seat0",
        "all_in@seat1",
        "<flop>",
        "board:2c",
        "board:7d",
        "board:Ts",
        "<turn>",
        "board:Kh",
        "<river>",
        "board:3s",
    ]
    assert read.values[9:11].tolist() == [49.5, 29.0]


def test_only_voluntary_actions_become_all_in() -> None:
    """A blind that takes the last chip is still a blind: the stack at the sit already says that it is all in."""
    hand = build_hand(
        ["ante@0 1", "ante@1 1", "blind@0 1", "blind@1 1 all-in", "check@0"], holes=["AhAd", "KsKc"], stacks=[100.0, 2.0], ante=1.0
    )
    texts = described(HandEncoder().encode(hand, villain=1, perspective=0))
    assert texts[7:] == ["post_ante@seat0", "post_ante@seat1", "post_blind@seat0", "post_blind@seat1", "check@seat0"]


def test_no_token_tells_of_showdown_or_result() -> None:
    """A result inside the supervised window is the answer on the back of the card."""
    allowed = set(range(tokens.NUM_SEAT_TOKENS)) | set(range(tokens.COMMUNITY_OFFSET, tokens.MARK_OFFSET))
    allowed |= {tokens.BOS, tokens.PREFLOP, tokens.FLOP, tokens.TURN, tokens.RIVER}
    reads, _ = HandEncoder().encode_hands(random_hands(2, 200))
    is_combo = reads.tokens >= tokens.COMBO_OFFSET
    assert set(reads.tokens[~is_combo].tolist()) <= allowed
    assert np.count_nonzero(is_combo) == reads.num_reads, "one visible combo a read: the perspective's"


def test_a_watcher_without_cards_sees_no_combo() -> None:
    """``perspective=None`` reads as somebody at the rail."""
    texts = described(HandEncoder().encode(three_way_showdown(), villain=1, perspective=None))
    assert texts[6:9] == ["hide_hole@seat0", "predict_hole@seat1", "hide_hole@seat2"]


@pytest.mark.parametrize(
    ("villain", "perspective", "message"),
    [
        (3, 0, "0..2"),
        (-1, 0, "0..2"),
        (0, 3, "0..2"),
        (0, -1, "0..2"),
        (1, 1, "different"),
        (0, 1, "perspective seat 1 are unknown"),
    ],
)
def test_an_impossible_read_is_refused(villain: int, perspective: int, message: str) -> None:
    """A negative seat would index another one's slot."""
    with pytest.raises(ValueError, match=message):
        HandEncoder().encode(shown_cards_only(), villain, perspective)


def test_the_villain_may_be_unknown() -> None:
    """At a live table the villain's cards are what is asked for."""
    assert "predict_hole@seat1" in described(HandEncoder().encode(shown_cards_only(), 1, 0))


def test_every_ordered_pair_of_known_seats_is_a_read() -> None:
    """Three seats give six reads, seat 1 although it folded, for it had called."""
    assert augment_hand(three_way_showdown()) == ((0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1))
    assert augment_hand(shown_cards_only()) == ((0, 2), (2, 0))


def test_an_open_folder_is_no_villain_but_a_perspective() -> None:
    """Its wide folding range teaches nothing, but its two cards are two that the villain does not hold."""
    assert augment_hand(open_fold()) == ((1, 0), (1, 2), (2, 0), (2, 1))


def test_a_big_blind_that_never_paid_is_read_only_if_it_stays() -> None:
    """A fold without a voluntary chip is skipped on any street; checking down to a showdown is not folding."""
    posts = ["blind@1 1", "blind@2 2", "call@0 2", "fold@1", "check@2", "flop 4c 5d 6s"]
    holes, stacks = ["7h2d", "9c8c", "TdTc"], [100.0] * 3
    stays = build_hand([*posts, "check@2", "check@0"], holes=holes, stacks=stacks)
    folds = build_hand([*posts, "check@2", "bet@0 4", "fold@2"], holes=holes, stacks=stacks)
    assert {villain for villain, _ in augment_hand(stays)} == {0, 2}
    assert {villain for villain, _ in augment_hand(folds)} == {0}


def test_a_walk_is_dropped_and_counted() -> None:
    """No chips, no signal."""
    assert augment_hand(walk()) == ()
    reads, counts = HandEncoder().encode_hands([walk(), open_fold()])
    assert (counts.num_hands, counts.num_walks, counts.num_reads) == (2, 1, 4)
    assert reads.hand_ids == ("tests#open-fold",)


def test_a_hand_without_two_known_seats_is_counted_as_unlabelled() -> None:
    """Nothing given may vanish: hands = walks + unlabelled + read."""
    hero_only = with_holes(
        shown_cards_only(), [parse_hole("AhAd"), None, None], sources=[shown_cards_only().label_sources[0], None, None]
    )
    reads, counts = HandEncoder().encode_hands([hero_only])
    assert (counts.num_unlabelled_hands, counts.num_walks, counts.num_reads, reads.num_reads) == (1, 0, 0, 0)


def test_many_hands_at_once_equal_one_read_at_a_time() -> None:
    """The vectorised path is a second implementation of ``augment_hand`` and ``encode``."""
    rng = np.random.default_rng(3)
    hands = [_with_unknown_seats(hand, rng) for hand in random_hands(3, 250)] + [walk(), shown_cards_only()]
    encoder = HandEncoder()
    reads, counts = encoder.encode_hands(hands)
    index = 0
    for hand in hands:
        for villain, perspective in augment_hand(hand):
            expected = encoder.encode(hand, villain, perspective)
            stream, values = reads.read(index)
            assert np.array_equal(stream, expected.tokens)
            assert values.tobytes() == expected.values.tobytes()
            hole = hand.hole_cards[villain]
            assert hole is not None
            assert reads.villain_combo[index] == cards.combo_index(*hole)
            assert (reads.villain_seat[index], reads.perspective_seat[index]) == (villain, perspective)
            assert reads.num_players[index] == hand.num_players
            assert reads.hand_ids[reads.hand_index[index]] == hand.hand_id
            assert reads.sources[reads.source_index[index]] == hand.source
            assert reads.is_label_shown[index] == (hand.label_sources[villain] is LabelSource.SHOWN)
            index += 1
    assert index == reads.num_reads == counts.num_reads > 1000
    assert reads.is_label_shown.any()
    assert {len(augment_hand(hand)) == 0 for hand in hands} == {True, False}
    num_walks = sum(all(event.kind not in VOLUNTARY_CHIPS for event in hand.events) for hand in hands)
    assert counts.num_walks == num_walks > 1
    assert counts.num_hands == num_walks + counts.num_unlabelled_hands + len(reads.hand_ids)
    assert counts.num_positions == len(reads.tokens)


def test_no_hand_gives_no_read() -> None:
    """A file whose hands were all rejected still goes through."""
    reads, counts = HandEncoder().encode_hands([])
    assert (reads.num_reads, len(reads.tokens), counts) == (0, 0, EncodingCounts())


def test_repeats_of_an_id_share_an_entry() -> None:
    """Two entries of one hand would be resampled apart by the bootstrap."""
    reads, _ = HandEncoder().encode_hands([open_fold(), three_way_showdown(), open_fold()])
    assert reads.hand_ids == ("tests#open-fold", "tests#three-way")
    assert reads.hand_index.tolist() == [0] * 4 + [1] * 6 + [0] * 4


def test_what_is_longer_than_the_limit_is_cut_and_counted() -> None:
    """A silent cut would hide that a source's hands do not fit."""
    encoder = HandEncoder()
    assert encoder.max_positions == MAX_POSITIONS == 96
    for num_raises, num_cut in [(87, 0), (88, 1), (94, 7)]:
        hand = _raising_war(num_raises)
        read = encoder.encode(hand, 0, 1)
        assert (len(read.tokens), len(read.values), read.num_cut) == (96, 96, num_cut)
        reads, counts = encoder.encode_hands([open_fold(), hand])
        assert (counts.num_cut_reads, counts.num_cut_positions) == (2 * (num_cut > 0), 2 * num_cut)
        assert reads.lengths.tolist() == [25] * 4 + [96] * 2
        assert np.array_equal(reads.read(4)[0], read.tokens)


def test_a_fold_beyond_the_cut_still_decides_who_is_read() -> None:
    """A seat that folds at position 97 without a voluntary chip is as little a villain as one at position 20."""
    war = _raising_war(94)
    events = [event for event in war.events if event.kind is not EventKind.RAISE or event.seat == 0]
    hand = replace(war, events=(*events, *[Event(EventKind.CHECK, 0)] * 60, Event(EventKind.FOLD, 1)))
    reads, counts = HandEncoder().encode_hands([hand])
    assert counts.num_cut_positions > 0
    assert augment_hand(hand) == ((0, 1),)
    assert reads.villain_seat.tolist() == [0]


@pytest.mark.parametrize("max_positions", [0, 34])
def test_a_limit_that_cuts_hole_slots_is_refused(max_positions: int) -> None:
    """Without its slot a read has no question."""
    with pytest.raises(ValueError, match="at least 35"):
        HandEncoder(max_positions)
    assert HandEncoder(35).max_positions == 35


def test_counts_add_up() -> None:
    """Files are encoded apart and their counts reported together."""
    parts = [HandEncoder(36).encode_hands(hands)[1] for hands in (random_hands(4, 30), [walk()], random_hands(5, 30))]
    total = sum(parts, start=EncodingCounts())
    assert total == HandEncoder(36).encode_hands([*random_hands(4, 30), walk(), *random_hands(5, 30)])[1]
    assert total.num_cut_positions > 0


def _with_unknown_seats(hand: CanonicalHand, rng: np.random.Generator) -> CanonicalHand:
    holes = [hole if rng.random() < 0.7 else None for hole in hand.hole_cards]
    shown_or_dealt = [LabelSource.SHOWN if rng.random() < 0.3 else LabelSource.DEALT for _ in holes]
    return with_holes(
        hand, holes, sources=[None if hole is None else label for hole, label in zip(holes, shown_or_dealt, strict=True)]
    )


def _raising_war(num_raises: int) -> CanonicalHand:
    """Return a heads-up hand of 9 positions up to the posts, and one for each raise."""
    raises = [f"raise@{turn % 2} 4" for turn in range(num_raises)]
    return build_hand(["blind@0 1", "blind@1 2", *raises], holes=["AhAd", "KsKc"], stacks=[1000.0, 1000.0])


def test_watched_reads_are_one_a_villain_and_show_no_cards() -> None:
    """The watcher's stratum must be the reads that ``perspective=None`` gives, each once."""
    hands = random_hands(8, 15)
    encoder = HandEncoder()
    reads, _ = encoder.encode_hands(hands)
    watched = as_watched(reads)
    by_id = {hand.hand_id: hand for hand in hands}
    seen = set()
    for index in range(watched.num_reads):
        hand = by_id[watched.hand_ids[watched.hand_index[index]]]
        villain = int(watched.villain_seat[index])
        expected = encoder.encode(hand, villain, None)
        assert watched.read(index)[0].tolist() == expected.tokens.tolist()
        assert watched.read(index)[1].tolist() == expected.values.tolist()
        assert int(watched.villain_combo[index]) == cards.combo_index(*hand.hole_cards[villain])
        seen.add((hand.hand_id, villain))
    assert len(seen) == watched.num_reads
    assert seen == {(hand.hand_id, villain) for hand in hands for villain, _ in augment_hand(hand)}
    assert set(watched.perspective_seat.tolist()) == {WATCHER}
