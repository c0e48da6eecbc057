"""Scoring readers on reads: the right positions, independent of batching and padding, and refusal of nothing."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from range_reader_core.batching import Batch
from range_reader_core.encoder import HandEncoder
from range_reader_core.evaluation import ReadScores, evaluate, evaluate_points
from range_reader_core.masks import STRATA, is_live_combo, is_supervised
from range_reader_core.metrics import MEAN_RANK, METRICS, score_positions
from range_reader_core.reads import Reads
from tests.core import hands


class PositionRankReader:
    """Ranks the truth of position t at t + 1, so a score tells at which position it was taken."""

    name = "position rank"

    def position_logp(self, batch: Batch, rows: torch.Tensor, positions: torch.Tensor, is_live: torch.Tensor) -> torch.Tensor:
        """Return scores, not normalised."""
        scores = torch.zeros(is_live.shape).masked_fill(~is_live, -torch.inf)
        for index, (row, position) in enumerate(zip(rows.tolist(), positions.tolist(), strict=True)):
            target = int(batch.targets[row])
            others = [combo for combo in is_live[index].nonzero()[:, 0].tolist() if combo != target]
            scores[index, others[:position]] = 2.0
            scores[index, target] = 1.0
        return scores


class ScrambleReader:
    """Draws scores from the read and the position alone, whatever batch they come in."""

    name = "scramble"

    def position_logp(self, batch: Batch, rows: torch.Tensor, positions: torch.Tensor, is_live: torch.Tensor) -> torch.Tensor:
        """Return log-probabilities."""
        keys = zip(batch.read_index[rows].tolist(), positions.tolist(), strict=True)
        scores = torch.stack([torch.randn(1326, generator=torch.Generator().manual_seed(97 * read + at)) for read, at in keys])
        return scores.masked_fill(~is_live, -torch.inf).log_softmax(dim=1)


class CertainReader:
    """Gives all probability to the first live combo."""

    name = "certain"

    def position_logp(self, batch: Batch, rows: torch.Tensor, positions: torch.Tensor, is_live: torch.Tensor) -> torch.Tensor:
        """Return log-probabilities."""
        first = is_live.long().argmax(dim=1)
        return torch.full(is_live.shape, -torch.inf).scatter(1, first[:, None], 0.0)


def _reads(num_hands: int = 5) -> Reads:
    return HandEncoder().encode_hands(hands.random_hands(5, num_hands, num_players=4))[0]


def _worked_reads() -> Reads:
    return HandEncoder().encode_hands([hands.three_way_showdown()])[0]


def test_window_sums_agree_with_one_position_at_a_time() -> None:
    """A row scattered to the wrong read, or a position scored twice, hides in a mean over the whole split."""
    reads = _reads()
    (scores,) = evaluate([ScrambleReader()], reads, batch_reads=5)
    reader = ScrambleReader()
    for index in range(reads.num_reads):
        tokens = torch.from_numpy(reads.read(index)[0].astype(np.int64))[None]
        one = Batch(
            tokens=tokens,
            values=torch.zeros(tokens.shape),
            targets=torch.tensor([int(reads.villain_combo[index])]),
            read_index=torch.tensor([index]),
        )
        total, count = np.zeros(len(METRICS)), 0
        for position in is_supervised(tokens)[0].nonzero()[:, 0].tolist():
            is_live = is_live_combo(tokens)[:, position]
            logp = reader.position_logp(one, torch.tensor([0]), torch.tensor([position]), is_live)
            total += score_positions(logp, one.targets, is_live).columns()[0].numpy()
            count += 1
        np.testing.assert_allclose(scores.metric_sums[index], total, rtol=0, atol=1e-9)
        assert scores.num_positions[index] == count


@pytest.mark.parametrize("batch_reads", [1, 7, 1000])
def test_scores_do_not_depend_on_batching_or_padding(batch_reads: int) -> None:
    """A longer neighbour pads a read; padding must be neither scored nor seen."""
    reads = _reads()
    (expected,) = evaluate([ScrambleReader()], reads, batch_reads=3)
    (seen,) = evaluate([ScrambleReader()], reads, batch_reads=batch_reads)
    np.testing.assert_allclose(seen.metric_sums, expected.metric_sums, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(seen.num_positions, expected.num_positions)
    np.testing.assert_array_equal(seen.stratum, expected.stratum)


def test_window_of_the_worked_hand() -> None:
    """Positions, strata and ranks counted by hand: seat 0 sees the river, seat 1 folds the flop, seat 2 shows down."""
    reads = _worked_reads()
    (scores,) = evaluate([PositionRankReader()], reads)
    # 31 tokens; hole slots at 6, 7, 8; seat 1 folds at 21. The window opens after the villain's slot.
    windows = {0: range(7, 31), 1: range(8, 22), 2: range(9, 31)}
    strata = {0: "showdown", 1: "flop-fold", 2: "showdown"}
    for index in range(reads.num_reads):
        villain = int(reads.villain_seat[index])
        assert scores.num_positions[index] == len(windows[villain])
        assert STRATA[scores.stratum[index]] == strata[villain]
        assert scores.metric_sums[index, MEAN_RANK] == sum(position + 1 for position in windows[villain])
    assert set(reads.villain_seat.tolist()) == set(windows)


def test_points_of_the_worked_hand() -> None:
    """Read at the mark instead of the last card, a street would be scored before its cards are known."""
    reads = _worked_reads()
    (scores,) = evaluate_points([PositionRankReader()], reads)
    # Last flop card at 17, turn card at 24, river card at 28, final call at 30; the flop folder is no showdown villain.
    np.testing.assert_array_equal(scores.metrics[:, :, MEAN_RANK], np.tile([18.0, 25.0, 29.0, 31.0], (4, 1)))
    assert scores.hand_index.tolist() == [0, 0, 0, 0]


def test_points_need_a_showdown_on_a_full_board() -> None:
    """A row must hold the same reads at every street, or the climb compares different hands."""
    encoder = HandEncoder()
    folded_turn, run_out = hands.open_fold(), hands.heads_up_run_out()
    no_river = replace(run_out, events=run_out.events[:-1], hand_id="tests#no-river")  # what a cut stream looks like
    (scores,) = evaluate_points([PositionRankReader()], encoder.encode_hands([folded_turn, no_river, run_out])[0])
    assert scores.hand_index.tolist() == [2, 2]  # both villains of the run-out, none of a hand that ends on the turn
    with pytest.raises(ValueError, match="reaches a showdown on a full board"):
        evaluate_points([PositionRankReader()], encoder.encode_hands([folded_turn, no_river])[0])


def test_points_do_not_depend_on_batching() -> None:
    """Results are put back by read number; sorting by length must not shuffle them."""
    reads = _reads(12)
    (expected,) = evaluate_points([ScrambleReader()], reads, batch_reads=1)
    (seen,) = evaluate_points([ScrambleReader()], reads, batch_reads=8)
    np.testing.assert_allclose(seen.metrics, expected.metrics, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(seen.hand_index, expected.hand_index)
    assert len(seen.hand_index) > 5


def test_readers_of_one_call_are_scored_as_if_alone() -> None:
    """Sharing the masks must not let one reader's scores reach another's."""
    reads = _reads()
    alone: list[ReadScores] = [evaluate([reader], reads)[0] for reader in (ScrambleReader(), PositionRankReader())]
    for together, single in zip(evaluate([ScrambleReader(), PositionRankReader()], reads), alone, strict=True):
        assert together.reader == single.reader
        np.testing.assert_array_equal(together.metric_sums, single.metric_sums)


def test_progress_counts_up_to_all_reads() -> None:
    """A bar that stops short of its end looks like a hang."""
    seen: list[tuple[int, int]] = []
    reads = _reads()
    evaluate([PositionRankReader()], reads, batch_reads=10, on_progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (reads.num_reads, reads.num_reads)
    assert all(before[0] < after[0] for before, after in itertools.pairwise(seen))


def test_a_reader_that_rules_out_the_truth_is_named() -> None:
    """One infinite loss makes every mean infinite; the message must say who and where."""
    reads = _reads()
    with pytest.raises(ValueError, match=r"reader 'certain' gives the true combo no probability .* hand tests#5-"):
        evaluate([CertainReader()], reads)
    with pytest.raises(ValueError, match="reader 'certain'"):
        evaluate_points([CertainReader()], reads)


@pytest.mark.parametrize("score", [evaluate, evaluate_points])
def test_no_reads_is_an_error(score: object) -> None:
    """An empty split must not become a table of zeros."""
    empty = _reads().take(np.zeros(0, dtype=np.int64))
    with pytest.raises(ValueError, match=re.escape("none of 0 reads")):
        score([ScrambleReader()], empty)  # type: ignore[operator]
