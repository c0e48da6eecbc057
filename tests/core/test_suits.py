"""Suits named by what they hold: names are causal, names alike are exactly those that tokens cannot tell apart, answers equal."""

import numpy as np
import pytest
import torch

from range_reader_core import cards
from range_reader_core.batching import Batch, DeviceReads, relabel
from range_reader_core.encoder import HandEncoder, as_watched
from range_reader_core.hand import CanonicalHand
from range_reader_core.inference import RangeReader, ReadRequest
from range_reader_core.masks import is_live_combo_at, is_supervised
from range_reader_core.model import RangeReaderModel
from range_reader_core.suit_averaging import Asked, suit_averaged_logp
from range_reader_core.suits import ALIKE, mean_over_alike, name_suits
from range_reader_core.tokens import COMMUNITY_OFFSET, MARK_OFFSET, PAD, PERM_ACTION, PERM_COMBO, describe
from tests.core import hands
from tests.core.readers import open_session, random_model, random_reader

TELLING_FLOPS = [
    ("AhAd", "2c 7s Th", "5d"),  # the pair is told apart by the third card
    ("AhAd", "2c 7s Tc", "5d"),  # a third and a fourth suit before either of the pair's
    ("AhAd", "7d 7h 2s", "7c"),
    ("KsKc", "Qd Qc 2h", "Qs"),
    ("AhKh", "2c 2d 2s", "7h"),
    ("AhKd", "7c 7s 7h", "Ks"),
    ("AhKd", "2h 7h Th", "5h"),
    ("7c7s", "7h 7d Kc", "Kd"),
    ("AhKh", "7c 7s 2h", "5s"),
]


def _hand(holes: str, flop: str, turn: str) -> CanonicalHand:
    events = ["blind@0 1", "blind@1 2", "call@0 1", "check@1", f"flop {flop}", "check@1", "check@0", f"turn {turn}", "check@1"]
    return hands.build_hand(events, holes=[holes, None], stacks=[200.0, 200.0])


def _told() -> list[CanonicalHand]:
    return [_hand(*telling) for telling in TELLING_FLOPS]


def _stream(hand: CanonicalHand, perspective: int | None = 0) -> torch.Tensor:
    return torch.from_numpy(HandEncoder().encode(hand, 1, perspective).tokens.astype(np.int64))[None]


def _batch(*, is_watched: bool = False) -> Batch:
    """Return reads of random hands and of those whose suits are hard to tell apart."""
    reads, _ = HandEncoder().encode_hands(hands.random_hands(5, 8))
    batch = DeviceReads.from_reads(as_watched(reads) if is_watched else reads, torch.device("cpu")).batch(np.arange(20))
    width = batch.tokens.shape[1]
    streams = [_stream(hand, None if is_watched else 0) for hand in _told()]
    extra = torch.cat([torch.nn.functional.pad(stream, (0, width - stream.shape[1]), value=PAD) for stream in streams])
    return Batch(
        tokens=torch.cat([batch.tokens, extra]),
        values=torch.cat([batch.values, torch.rand(extra.shape, generator=torch.Generator().manual_seed(1))]),
        targets=torch.cat([batch.targets, torch.full((len(extra),), cards.combo_index(0, 5))]),
        read_index=torch.arange(20 + len(extra)),
    )


def _named(*, is_plain: bool = False) -> RangeReaderModel:
    """Return a model that names suits, with everything else that looks at cards or positions unless it is to be plain."""
    switches = {} if is_plain else {"reads_betting": True, "reads_hands": True, "folds_opening": True}
    return random_model(names_suits=True, **switches)


def test_suits_are_named_as_they_come() -> None:
    """By hand: the higher hole card first, then the lower one, then the board; of two alike, the one that falls first."""
    for hand, text in (
        (_hand("AdKh", "2s 7h Tc", "5s"), "hole:AcKd board:2h board:7d board:Ts board:5h"),
        (_hand("AhAd", "2s 7d Th", "5c"), "hole:AdAc board:2h board:7c board:Td board:5s"),
        (_hand("AhAd", "2s 7c Th", "5d"), "hole:AdAc board:2h board:7s board:Tc board:5d"),
        (_hand("AhKd", "7c 7s 2h", "5s"), "hole:AcKd board:2c board:7h board:7s board:5h"),
        (_hand("AhKd", "7c 7d 2s", "5s"), "hole:AcKd board:2h board:7d board:7s board:5h"),
    ):
        stream = _stream(hand)
        named = name_suits(stream).stream[0].tolist()
        assert [name for name in map(describe, named) if name.startswith(("hole", "board"))] == text.split()


@pytest.mark.parametrize("perspective", [None, 0])
def test_every_naming_of_a_hand_gets_the_same_names(perspective: int | None) -> None:
    """That is all the exactness there is: one named stream, one answer. A flop is a set, so its order moves with the names."""
    for hand in (*_told(), *hands.random_hands(3, 8)):
        named, _, alike = name_suits(_stream(hand, perspective))
        for relabeling in range(cards.NUM_RELABELINGS):
            again = name_suits(_stream(hands.relabeled(hand, relabeling), perspective))
            assert torch.equal(again.stream, named)
            assert torch.equal(again.alike, alike)


@pytest.mark.parametrize("is_watched", [False, True])
def test_a_name_depends_on_nothing_that_comes_later(is_watched: bool) -> None:
    """A name given by a later card would tell the model about that card, and would make every cached position wrong."""
    stream = _batch(is_watched=is_watched).tokens
    named, _, alike = name_suits(stream)
    for end in range(1, stream.shape[1]):
        before = name_suits(stream[:, :end])
        is_whole = ~_is_inside_flop(stream[:, :end])[:, -1]
        assert torch.equal(before.stream[is_whole], named[is_whole, :end])
        assert torch.equal(before.alike[is_whole], alike[is_whole, :end])


@pytest.mark.parametrize("is_watched", [False, True])
def test_names_alike_are_those_that_no_card_in_sight_tells_apart(is_watched: bool) -> None:
    """Averaging over fewer leaves an answer that depends on names; over more throws away what the suits tell."""
    named, _, alike = name_suits(_batch(is_watched=is_watched).tokens)
    fixing_of_kind = torch.stack([_fixing(kind) for kind in range(len(ALIKE))])  # (8, 24)
    is_inside_flop = _is_inside_flop(named)
    for end in range(1, named.shape[1] + 1):
        whole = named[~is_inside_flop[:, end - 1], :end]
        kind = alike[~is_inside_flop[:, end - 1], end - 1]
        renamed = _flop_in_order(torch.from_numpy(PERM_ACTION)[:, whole].flatten(0, 1)).view(24, *whole.shape)
        assert torch.equal((renamed == whole).all(dim=2).T, fixing_of_kind[kind])
    assert torch.equal(alike[:, 1:][is_inside_flop[:, 1:]], alike[:, :-1][is_inside_flop[:, 1:]])
    assert set(alike.flatten().tolist()) == set(range(8)) - {2 if is_watched else 4}


def _is_inside_flop(stream: torch.Tensor) -> torch.Tensor:
    """Return where one or two cards of a flop are in sight, (B, T)."""
    num_board = ((stream >= COMMUNITY_OFFSET) & (stream < MARK_OFFSET)).cumsum(dim=1)
    return (num_board == 1) | (num_board == 2)


def _flop_in_order(stream: torch.Tensor) -> torch.Tensor:
    """Return streams (B, T) whose flop, where they have one, stands in ascending order."""
    ordered = stream.clone()
    for row in ordered:
        at = ((row >= COMMUNITY_OFFSET) & (row < MARK_OFFSET)).nonzero()[:3, 0]
        if len(at) == 3:
            row[at] = row[at].sort().values
    return ordered


def _fixing(kind: int) -> torch.Tensor:
    """Return the relabelings that move names within the sets of a kind alone, (24,) bool, by trying each."""
    sets = [set(names) for names in ALIKE[kind]]
    is_moved_within = [
        all(old == new or any({old, new} <= names for names in sets) for old, new in enumerate(row))
        for row in cards.SUIT_RELABELINGS.tolist()
    ]
    return torch.tensor(is_moved_within)


def test_the_heads_tables_are_means_over_the_suits_alike() -> None:
    """The short cut through the cards must equal renaming whole combos."""
    model = _named(is_plain=True)
    plain = random_model()
    plain.load_state_dict(model.state_dict())
    vectors, bias = model.combo_table()
    (single,), same_bias = plain.combo_table()
    assert torch.equal(bias, same_bias)
    for kind, table in enumerate(vectors):
        members = _fixing(kind).nonzero()[:, 0]
        torch.testing.assert_close(table, single[torch.from_numpy(PERM_COMBO)[members]].mean(dim=0), rtol=0, atol=1e-6)
    assert torch.allclose(mean_over_alike().sum(dim=2), torch.ones(8, 4))


@pytest.mark.parametrize("is_watched", [False, True])
def test_predictions_under_all_24_relabelings_agree(is_watched: bool) -> None:
    """The figure that replaces 24 forwards: 1e-5 in log-probability, float32, pairs and paired flops included."""
    model, batch = _named(), _batch(is_watched=is_watched)
    rows, positions = is_supervised(batch.tokens).nonzero(as_tuple=True)
    is_live = is_live_combo_at(batch.tokens, rows, positions)
    expected = suit_averaged_logp(model, Asked(batch.tokens, batch.values, rows, positions, is_live))
    assert (expected.exp() == 0.0)[~is_live].all()
    for relabeling in range(1, cards.NUM_RELABELINGS):
        renamed = relabel(batch, torch.full_like(batch.targets, relabeling))
        back = torch.from_numpy(PERM_COMBO[relabeling])
        is_live_there = is_live_combo_at(renamed.tokens, rows, positions)
        there = suit_averaged_logp(model, Asked(renamed.tokens, renamed.values, rows, positions, is_live_there))[:, back]
        assert torch.equal(there.isinf(), ~is_live)
        torch.testing.assert_close(there[is_live], expected[is_live], rtol=0, atol=1e-5)


def test_beliefs_about_a_hand_do_not_depend_on_what_suits_are_called() -> None:
    """The same at the level of hands, where a flop is sorted anew under its new names."""
    reader = random_reader(_named())
    for hand in (*_told(), *hands.random_hands(3, 4)):
        expected = reader.belief(hand, 1, 0)
        for relabeling in range(1, cards.NUM_RELABELINGS):
            there = reader.belief(hands.relabeled(hand, relabeling), 1, 0)
            np.testing.assert_allclose(there[PERM_COMBO[relabeling]], expected, rtol=1e-5, atol=0)


def test_forward_answers_in_the_names_it_was_asked_in() -> None:
    """Whoever calls the model itself need not know that it names suits."""
    model, batch = _named(), _batch()
    rows, positions = is_supervised(batch.tokens).nonzero(as_tuple=True)
    is_live = is_live_combo_at(batch.tokens, rows, positions)
    expected = suit_averaged_logp(model, Asked(batch.tokens, batch.values, rows, positions, is_live))
    with torch.no_grad():
        logits = model(batch.tokens, batch.values)[rows, positions]
    logp = logits.masked_fill(~is_live, -torch.inf).log_softmax(dim=1)
    torch.testing.assert_close(logp.exp(), expected.exp(), rtol=1e-3, atol=1e-6)


def test_suits_still_matter() -> None:
    """A model that cannot see a flush would be exactly indifferent too."""
    model = _named()
    suited, mixed = (_stream(_hand("AhKh", flop, "5h")) for flop in ("2h 7h Td", "2c 7d Td"))
    values = torch.zeros(suited.shape)
    assert not torch.allclose(model(suited, values), model(mixed, values), atol=1e-2)


@pytest.mark.parametrize("num_relabelings", [1, 24])
def test_a_session_equals_the_full_forward(num_relabelings: int) -> None:
    """Names are given while the hand unfolds; a cached position must never need another one."""
    reader = random_reader(_named())
    num_compared = 0
    for hand in (*_told(), *hands.random_hands(21, 3)):
        for perspective in (None, 0):
            num_compared += _compare_session(reader, hand, perspective, num_relabelings)
    assert num_compared > 120


def _compare_session(reader: RangeReader, hand: CanonicalHand, perspective: int | None, num_relabelings: int) -> int:
    request = ReadRequest(hand=hand, villain=1, perspective=perspective)
    (full,) = reader.trajectories([request], num_relabelings)
    by_position = {step.position: number for number, step in enumerate(full.steps)}
    session = open_session(reader, hand, perspective, num_relabelings)
    length = 2 * hand.num_players + 3
    num_compared = 0
    for event in hand.events:
        session.observe(event)
        length += 1 + len(event.board)
        belief = session.beliefs().get(1) if length <= 96 else None
        if belief is not None:
            np.testing.assert_allclose(belief, full.probabilities[by_position[length - 1]], rtol=0, atol=1e-5)
            num_compared += 1
    return num_compared
