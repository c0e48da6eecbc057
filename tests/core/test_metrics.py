"""Rank metrics against worked values, an independent implementation, and what they must not depend on."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from range_reader_core import cards, metrics
from range_reader_core.tokens import PERM_COMBO

C = cards.NUM_COMBOS


def _scores(values: dict[int, float], rest: float) -> torch.Tensor:
    row = torch.full((1, C), rest)
    for combo, value in values.items():
        row[0, combo] = value
    return row


def _score_one(row: torch.Tensor, target: int, dead: tuple[int, ...] = ()) -> dict[str, float]:
    is_live = torch.ones((1, C), dtype=torch.bool)
    is_live[0, list(dead)] = False
    columns = metrics.score_positions(row, torch.tensor([target]), is_live).columns()
    return dict(zip(metrics.METRICS, columns[0].tolist(), strict=True))


def _slow_scores(row: list[float], target: int, live: list[int]) -> list[float]:
    """Score one position in plain Python: list the ranks that the truth can take when ties are broken at random."""
    better = sum(1 for combo in live if row[combo] > row[target])
    equal = sum(1 for combo in live if row[combo] == row[target])
    ranks = range(better + 1, better + equal + 1)
    largest = max(row[combo] for combo in live)
    loss = largest + math.log(math.fsum(math.exp(row[combo] - largest) for combo in live)) - row[target]
    mrr = float(sum(Fraction(1, rank) for rank in ranks) / equal)
    top = [sum(1 for rank in ranks if rank <= k) / equal for k in metrics.TOP_KS]
    return [loss, mrr, sum(ranks) / equal, *top]


def _random_case(num: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, 9, (num, C), generator=generator) / 2  # few values, so every row has ties
    is_live = torch.rand((num, C), generator=generator) > 0.3
    targets = torch.randint(0, C, (num,), generator=generator)
    is_live[torch.arange(num), targets] = True
    return scores, targets, is_live


def test_ties_are_averaged_over_their_orders() -> None:
    """A wrong tie rule lets a reader that knows nothing beat the floor by the order of the combos."""
    # Combos 3 and 4 are better, 7, 8 and 9 tie: ranks 3, 4 and 5 are equally likely.
    scored = _score_one(_scores({3: 5.0, 4: 4.0, 7: 2.0, 8: 2.0, 9: 2.0}, rest=-1.0), target=8)
    assert scored["mean_rank"] == 4.0
    assert scored["mrr"] == pytest.approx((1 / 3 + 1 / 4 + 1 / 5) / 3, abs=1e-14)
    assert scored["top16"] == 1.0


def test_top_k_is_the_share_of_tied_places_inside_the_cut() -> None:
    """Counting a tie that straddles the cut as in, or as out, moves top-k away from its expectation."""
    values = dict.fromkeys(range(14), 1.0) | dict.fromkeys(range(14, 18), 0.5)
    scored = _score_one(_scores(values, rest=0.0), target=17)
    assert scored["top16"] == 0.5  # ranks 15, 16, 17 and 18
    assert scored["top32"] == 1.0


def test_dead_combos_take_no_rank_and_no_probability() -> None:
    """A dead combo that outranks the truth would punish the reader for cards nobody can hold."""
    row = _scores({0: 9.0, 1: 8.0, 2: 1.0}, rest=0.0)
    scored = _score_one(row, target=2, dead=(0, 1))
    assert scored["mean_rank"] == 1.0
    assert scored["loss_nats"] == pytest.approx(math.log(math.e + C - 3) - 1.0, abs=1e-6)


def test_uniform_scores_give_the_floor_exactly() -> None:
    """The floor printed beside every result must be what knowing nothing scores, or the lead is not one."""
    scored = _score_one(torch.full((1, C), -3.25), target=1000)
    floor = metrics.uniform_floor()
    assert scored == pytest.approx(floor, abs=1e-13)
    assert floor["mrr"] == pytest.approx(float(sum(Fraction(1, n) for n in range(1, C + 1)) / C), abs=1e-15)
    assert floor["mean_rank"] == 663.5
    assert floor["loss_nats"] == pytest.approx(math.log(1326), abs=1e-15)
    assert floor["top64"] == 64 / 1326


def test_live_floor_is_what_equal_scores_over_live_combos_give() -> None:
    """The honest floor is per position; one computed another way would not be comparable with the scores."""
    _, targets, is_live = _random_case(7, seed=3)
    scored = metrics.score_positions(torch.zeros(7, C), targets, is_live).columns().numpy()
    np.testing.assert_allclose(scored, metrics.live_floor(is_live.sum(dim=1).numpy()), rtol=0, atol=1e-12)


def test_live_floor_refuses_a_position_without_live_combos() -> None:
    """A floor over nothing is an upstream bug, not infinity."""
    with pytest.raises(ValueError, match=r"expected 1\.\.1326 live combos"):
        metrics.live_floor(np.array([5, 0]))


def test_scores_agree_with_a_plain_implementation() -> None:
    """The vectorised counts can be wrong in ways that a handful of worked values does not reach."""
    scores, targets, is_live = _random_case(11, seed=0)
    scored = metrics.score_positions(scores, targets, is_live).columns()
    for index in range(11):
        live = is_live[index].nonzero()[:, 0].tolist()
        expected = _slow_scores(scores[index].tolist(), int(targets[index]), live)
        np.testing.assert_allclose(scored[index].numpy(), expected, rtol=0, atol=1e-6)


def test_one_live_combo_is_rank_one_and_costs_nothing() -> None:
    """At the edge where card removal alone gives the answer, any other score is a leak of dead combos."""
    scored = _score_one(torch.randn(1, C), target=5, dead=tuple(c for c in range(C) if c != 5))
    assert scored == {"loss_nats": 0.0, "mrr": 1.0, "mean_rank": 1.0, "top16": 1.0, "top32": 1.0, "top64": 1.0, "top128": 1.0}


def test_certainty_costs_nothing_and_impossibility_costs_infinity() -> None:
    """P(truth) = 1 and P(truth) = 0 must not be blurred by an epsilon; dead combos must not share an impossible rank."""
    assert _score_one(_scores({5: 0.0}, rest=-torch.inf), target=5)["loss_nats"] == 0.0
    wrong = _score_one(_scores({5: 0.0}, rest=-torch.inf), target=6, dead=(7, 8))
    assert wrong["loss_nats"] == math.inf
    assert wrong["mean_rank"] == 1 + (C - 3 + 1) / 2  # one better, C - 3 tied at -inf, two dead


def test_scores_do_not_depend_on_batching() -> None:
    """Chunks are an implementation detail; a row must not see its neighbours."""
    scores, targets, is_live = _random_case(601, seed=1)  # spans several chunks
    whole = metrics.score_positions(scores, targets, is_live).columns()
    for start, stop in itertools.pairwise((0, 1, 255, 600, 601)):
        part = metrics.score_positions(scores[start:stop], targets[start:stop], is_live[start:stop]).columns()
        assert torch.equal(part, whole[start:stop])


def test_scores_do_not_depend_on_suit_names() -> None:
    """Suits are labels: relabel scores, live combos and truth together and nothing may change but rounding."""
    scores, targets, is_live = _random_case(5, seed=2)
    whole = metrics.score_positions(scores, targets, is_live).columns()
    for perm in torch.from_numpy(PERM_COMBO[1:]):
        moved, moved_live = torch.empty_like(scores), torch.empty_like(is_live)
        moved[:, perm], moved_live[:, perm] = scores, is_live
        relabeled = metrics.score_positions(moved, perm[targets], moved_live).columns()
        torch.testing.assert_close(relabeled, whole, rtol=0, atol=1e-6)
        assert torch.equal(relabeled[:, 1:], whole[:, 1:])


def test_a_dead_truth_is_refused_by_row() -> None:
    """A target that card removal forbids means masks and targets disagree; scoring it would hide that."""
    scores, targets, is_live = _random_case(4, seed=4)
    is_live[2, targets[2]] = False
    with pytest.raises(ValueError, match=r"not live at rows \[2\]"):
        metrics.score_positions(scores, targets, is_live)


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_broken_score_is_refused_by_row(poison: float) -> None:
    """NaN compares false with everything and would silently make the truth rank first."""
    scores, targets, is_live = _random_case(4, seed=5)
    scores[3, is_live[3].nonzero()[0]] = poison
    with pytest.raises(ValueError, match=r"NaN or \+inf at rows \[3\]"):
        metrics.score_positions(scores, targets, is_live)


def test_wrong_shapes_are_refused() -> None:
    """Broadcasting a (C,) row over a batch would score every position against one belief."""
    scores, targets, is_live = _random_case(4, seed=6)
    with pytest.raises(ValueError, match="expected scores"):
        metrics.score_positions(scores[:1], targets, is_live)
    with pytest.raises(ValueError, match="expected scores"):
        metrics.score_positions(scores, targets, is_live.long())


def test_sums_divide_once_over_uneven_batches() -> None:
    """An average of batch averages would weigh the positions of a short batch more."""
    scores, targets, is_live = _random_case(10, seed=7)
    sums = metrics.MetricSums()
    for part in (slice(0, 9), slice(9, 10), slice(10, 10)):
        sums.add(metrics.score_positions(scores[part], targets[part], is_live[part]))
    whole = metrics.score_positions(scores, targets, is_live).columns().mean(dim=0)
    assert sums.count == 10
    assert list(sums.means().values()) == pytest.approx(whole.tolist(), abs=1e-12)


def test_nothing_counted_is_an_error() -> None:
    """A metric of 0.0 over nothing looks like a result."""
    with pytest.raises(ValueError, match="no supervised position"):
        metrics.MetricSums().means()
