"""Reading each distinguishable renaming once is exact: stabilisers, cosets, and the equality with all 24 forwards."""

import numpy as np
import pytest
import torch

from range_reader_core import cards
from range_reader_core.encoder import HandEncoder
from range_reader_core.hand import CanonicalHand
from range_reader_core.inference import ReadRequest
from range_reader_core.masks import is_live_combo, is_live_combo_at
from range_reader_core.model import RangeReaderModel
from range_reader_core.orbits import average_over_stabiliser, representative_of, representatives, stabiliser
from range_reader_core.suit_averaging import Asked, suit_averaged_logp
from range_reader_core.tokens import PERM_ACTION, PERM_COMBO
from tests.core import hands
from tests.core.readers import random_model, random_reader

BOARD_OF_TWO_SUITS = ["flop 2c 7d Tc", "check@1", "turn Kd", "check@1"]


def _stream(holes: str, events: list[str], perspective: int | None = 0) -> torch.Tensor:
    """Return the stream of a heads-up hand in which seat 0 holds ``holes``, (1, T)."""
    hand = _hand(holes, events)
    return torch.from_numpy(HandEncoder().encode(hand, 1, perspective).tokens.astype(np.int64))[None]


def _hand(holes: str, events: list[str]) -> CanonicalHand:
    return hands.build_hand(["blind@0 1", "blind@1 2", "call@0 1", "check@1", *events], holes=[holes, None], stacks=[200.0, 200.0])


@pytest.mark.parametrize(
    ("holes", "events", "perspective", "num_streams"),
    [
        ("AhKd", [], None, 1),
        ("AhKh", [], 0, 4),
        ("AhAd", [], 0, 6),  # a pair is one token, whichever of its suits comes first
        ("AhKd", [], 0, 12),
        ("AhKh", ["flop 2h 7h Th"], 0, 4),
        ("AhKh", ["flop 2h 7d Th"], 0, 12),
        ("AhKd", ["flop 2h 7d Th"], 0, 12),
        ("AhAd", ["flop 2h 7d Th"], 0, 12),
        ("AhKd", ["flop 2c 7d Th"], 0, 24),
        ("AhKd", ["flop 2c 2d 2h"], None, 24),  # the flop is a sequence, so renaming inside it shows
    ],
)
def test_streams_are_counted_by_what_they_show(holes: str, events: list[str], perspective: int | None, num_streams: int) -> None:
    """Too few representatives leave renamings out of the mean; too many cost time."""
    is_fixing = stabiliser(_stream(holes, events, perspective))
    assert int(representatives(is_fixing).sum()) == num_streams
    assert int(is_fixing.sum()) * num_streams == 24


def test_representatives_rename_a_stream_in_every_way_once() -> None:
    """A coset taken on the wrong side would repeat some renamings and miss others."""
    seen = set()
    for hand in [*hands.random_hands(3, 6), _hand("AhAd", BOARD_OF_TWO_SUITS)]:
        for perspective in (None, 0):
            tokens = HandEncoder().encode(hand, 1, perspective).tokens.astype(np.int64)
            for end in range(len(tokens)):
                stream = torch.from_numpy(tokens[: end + 1])[None]
                is_fixing = stabiliser(stream)
                renamed = [PERM_ACTION[relabeling, tokens[: end + 1]].tobytes() for relabeling in range(24)]
                chosen = representatives(is_fixing)[0].nonzero()[:, 0].tolist()
                assert {renamed[relabeling] for relabeling in chosen} == set(renamed)
                assert len(chosen) == len(set(renamed))
                assert [renamed[relabeling] for relabeling in representative_of(is_fixing)[0].tolist()] == renamed
                seen.add(len(chosen))
    assert seen >= {1, 4, 6, 12, 24}


def test_averaging_over_a_stabiliser_is_the_mean_over_its_members() -> None:
    """Orbits are a shortcut for renaming the answer by every member."""
    probabilities = torch.rand(5, cards.NUM_COMBOS, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    is_fixing = torch.cat(
        [stabiliser(_stream("AhKh", [])), stabiliser(_stream("AhAd", [])), stabiliser(_stream("AhKd", ["flop 2c 7d Th"]))]
    )[[0, 1, 2, 0, 1]]
    averaged = average_over_stabiliser(probabilities, is_fixing)
    for row in range(5):
        members = is_fixing[row].nonzero()[:, 0].tolist()
        expected = torch.stack([probabilities[row, torch.from_numpy(PERM_COMBO[member])] for member in members]).mean(dim=0)
        torch.testing.assert_close(averaged[row], expected, rtol=0, atol=1e-14)
    assert torch.equal(averaged[2], probabilities[2])


def _mean_of_24(model: RangeReaderModel, stream: torch.Tensor, values: torch.Tensor, at: list[int]) -> torch.Tensor:
    """Return the mean of all 24 reads of one stream (1, T) at positions (N,), named back, (N, C) float64."""
    renamed = torch.from_numpy(PERM_ACTION)[:, stream[0]]  # (24, T)
    with torch.no_grad():
        hidden = model.hidden(renamed, values.expand(24, -1))[:, at]  # (24, N, D)
        logits = model.logits(hidden.flatten(0, 1)).view(24, len(at), -1)
    is_live = is_live_combo(renamed)[:, at]
    probabilities = logits.masked_fill(~is_live, -torch.inf).double().softmax(dim=2)
    back = torch.from_numpy(PERM_COMBO)[:, None].expand_as(logits)
    return probabilities.gather(2, back).mean(dim=0)


@pytest.mark.parametrize("perspective", [None, 0])
def test_each_distinct_renaming_once_equals_all_24_to_a_millionth(perspective: int | None) -> None:
    """The saving must be exact, at every step and for watchers; this is what lets belief skip forwards."""
    model = random_model()
    reader = random_reader(model)
    for hand in [*hands.random_hands(7, 2, num_players=4), _hand("AhKh", BOARD_OF_TWO_SUITS), _hand("AhAd", BOARD_OF_TWO_SUITS)]:
        read = HandEncoder().encode(hand, 1, perspective)
        trajectory = reader.trajectory(hand, 1, perspective)
        at = [step.position for step in trajectory.steps]
        stream, values = torch.from_numpy(read.tokens.astype(np.int64))[None], torch.from_numpy(read.values)[None]
        expected = _mean_of_24(model, stream, values, at).numpy()
        np.testing.assert_allclose(trajectory.probabilities, expected, rtol=0, atol=1e-6)
        for step in {0, len(at) // 2, len(at) - 1}:
            belief = reader.belief(hand, 1, perspective, step=step)
            np.testing.assert_allclose(belief, expected[step], rtol=0, atol=1e-6)


class CountingModel(RangeReaderModel):
    """Counts the streams that it reads."""

    num_streams = 0

    def hidden_at(self, tokens: torch.Tensor, values: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Count, then read."""
        self.num_streams += len(tokens)
        return super().hidden_at(tokens, values, positions)


def test_a_stream_is_cut_before_its_renamings_are_counted() -> None:
    """The read before the flop must not pay for suits that only the flop tells apart."""
    model = CountingModel(random_model().config).eval()
    reader = random_reader(model)
    hand = _hand("AhKh", ["flop 2c 7d Th", "check@1"])
    for step, num_streams in ((3, 4), (None, 24)):
        model.num_streams = 0
        reader.beliefs([ReadRequest(hand=hand, villain=1, perspective=0, step=step)])
        assert model.num_streams == num_streams
    model.num_streams = 0
    reader.beliefs([ReadRequest(hand=hand, villain=1, perspective=0)], num_relabelings=1)
    assert model.num_streams == 1


def test_rows_of_different_orbits_share_a_batch() -> None:
    """Each read of a batch has its own renamings; weights of one must not reach another."""
    model = random_model()
    streams = [_stream("AhKh", []), _stream("AhAd", []), _stream("AhKd", [])]
    stream = torch.cat(streams)
    values = torch.rand(stream.shape, generator=torch.Generator().manual_seed(3))
    rows, positions = torch.tensor([0, 0, 1, 2, 2, 2]), torch.tensor([5, 9, 9, 5, 7, 10])
    is_live = is_live_combo_at(stream, rows, positions)
    together = suit_averaged_logp(model, Asked(stream, values, rows, positions, is_live)).double().exp()
    for index, (row, position) in enumerate(zip(rows.tolist(), positions.tolist(), strict=True)):
        expected = _mean_of_24(model, stream[row : row + 1], values[row : row + 1], [position])
        torch.testing.assert_close(together[index], expected[0], rtol=0, atol=1e-6)
