"""Which val reads are scored, what a score is, and which of two validations is kept."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from range_reader_core.encoder import HandEncoder
from range_reader_core.evaluation import evaluate
from range_reader_core.inference import ModelReader
from range_reader_core.metrics import METRICS, MRR
from range_reader_core.model import ModelConfig, RangeReaderModel
from range_reader_core.reads import Reads
from range_reader_core.train_events import Evaluated
from range_reader_core.validation import Validator, choose_reads, is_better
from tests.core.hands import random_hands

CPU = torch.device("cpu")


def some_reads() -> Reads:
    return HandEncoder().encode_hands(random_hands(4, 8))[0]


def stirred() -> RangeReaderModel:
    model = RangeReaderModel(ModelConfig(num_layers=1, width=8, num_heads=2, dropout=0.0)).eval()
    with torch.no_grad():
        for index, parameter in enumerate(model.parameters()):
            parameter.normal_(generator=torch.Generator().manual_seed(index))
    return model


def evaluated(mrr: float, loss: float, *, error: float = 0.001) -> Evaluated:
    return Evaluated(
        step=1,
        elapsed_s=1.0,
        train_loss_nats=6.0,
        val_loss_nats=loss,
        val_mrr=mrr,
        val_mrr_error=error,
        val_mean_rank=300.0,
        num_positions=9,
        is_best=False,
    )


def test_each_villain_is_scored_once_a_hand_in_the_given_order() -> None:
    """The same cards seen from five perspectives are one observation; five times the cost buys no precision."""
    reads = some_reads()
    order = np.random.default_rng(0).permutation(reads.num_reads)
    shuffled = reads.take(order)
    seen: set[tuple[int, int]] = set()
    expected = []
    for index in range(shuffled.num_reads):
        key = (int(shuffled.hand_index[index]), int(shuffled.villain_seat[index]))
        if key not in seen:
            seen.add(key)
            expected.append(index)
    assert 5 < len(expected) < shuffled.num_reads
    for limit in (3, 10_000):
        chosen = choose_reads(shuffled, limit)
        wanted = shuffled.take(np.array(expected[:limit]))
        assert np.array_equal(chosen.tokens, wanted.tokens)
        assert np.array_equal(chosen.villain_combo, wanted.villain_combo)


def test_a_score_is_that_of_the_reports_with_its_error_over_hands() -> None:
    """Two sets of code must agree on what mrr is, whatever batches they make."""
    reads, model = some_reads(), stirred()
    scored = Validator(reads, CPU).score(model)
    (table,) = evaluate([ModelReader(model=model, num_relabelings=1)], reads, batch_reads=7)
    count = table.num_positions.sum()
    means = table.metric_sums.sum(axis=0) / count
    assert scored.num_positions == count
    assert [scored.means[name] for name in METRICS] == pytest.approx(means.tolist(), rel=1e-4)
    residuals = [
        (table.metric_sums[table.hand_index == hand, MRR].sum() - means[MRR] * table.num_positions[table.hand_index == hand].sum())
        for hand in np.unique(table.hand_index)
    ]
    assert scored.mrr_error == pytest.approx(np.sqrt(np.square(residuals).sum()) / count, rel=1e-3)
    assert scored.mrr_error > 0.0


def test_nothing_to_score_is_an_error() -> None:
    """A val split of stumps has no mrr of zero."""
    first = some_reads().take(np.array([0]))
    stump = replace(first, tokens=first.tokens[:3], values=first.values[:3], offsets=np.array([0, 3]))
    with pytest.raises(ValueError, match="none of 1 val reads"):
        Validator(stump, CPU).score(stirred())


@pytest.mark.parametrize(
    ("candidate", "best", "history", "expected"),
    [
        ((0.020, 6.9), None, [], True),  # the first
        ((0.0220, 6.9), (0.020, 6.6), [], True),  # higher by more than noise, whatever its loss
        ((0.0205, 6.7), (0.020, 6.6), [], False),  # a tie goes to the lower loss
        ((0.0195, 6.5), (0.020, 6.6), [], True),
        ((0.0195, 6.6), (0.0195, 6.6), [], True),  # the same validation, repeated after a kill
        ((0.0185, 6.5), (0.020, 6.6), [], False),  # lower by more than noise
        ((0.0185, 6.5), (0.0192, 6.6), [(0.020, 6.9)], False),  # ties do not add up to a decline
        ((0.0208, 6.7), (0.0195, 6.6), [(0.020, 6.9)], True),  # the kept one has fallen out of the tie
    ],
)
def test_mrr_decides_and_loss_breaks_its_ties(
    candidate: tuple[float, float], best: tuple[float, float] | None, history: list[tuple[float, float]], *, expected: bool
) -> None:
    """The highest of many noisy numbers is mostly luck."""
    kept = None if best is None else evaluated(*best)
    assert is_better(evaluated(*candidate), kept, [evaluated(*entry) for entry in history], 1.0) is expected


def test_without_a_tie_mrr_alone_decides() -> None:
    """So the reference is trained to the letter."""
    assert is_better(evaluated(0.0200001, 6.9), evaluated(0.02, 6.6), [], 0.0)
    assert not is_better(evaluated(0.0199999, 6.1), evaluated(0.02, 6.6), [], 0.0)
