"""What the trackers count, how counts become ranges, and that their beliefs use nothing they may not."""

import itertools

import numpy as np
import pytest
import torch

from range_reader_core import cards, tokens
from range_reader_core.baselines import StaticRangeReader
from range_reader_core.batching import Batch, DeviceReads, relabel
from range_reader_core.encoder import HandEncoder
from range_reader_core.evaluation import Reader, evaluate
from range_reader_core.hand import CanonicalHand
from range_reader_core.lines import read_betting
from range_reader_core.masks import is_live_combo_at, is_supervised
from range_reader_core.metrics import LOSS
from range_reader_core.reads import Reads
from range_reader_core.tracker_baselines import (
    ACTION_SMOOTHINGS,
    LINE_SMOOTHINGS,
    LineReader,
    StrengthReader,
    fit_trackers,
)
from range_reader_core.tracker_counts import (
    ACTIONS,
    FACED,
    NUM_CONTEXTS,
    NUM_KINDS,
    STRENGTH_EDGES,
    ActionCounts,
    LineCounts,
    decisions_after_flop,
    preflop_line,
)
from tests.core import hands

STRONGEST = len(STRENGTH_EDGES)
NUM_DRAWS = NUM_KINDS // (len(STRENGTH_EDGES) + 1)


def _reads(seed: int = 3, num_hands: int = 8) -> Reads:
    return HandEncoder().encode_hands(hands.random_hands(seed, num_hands))[0]


def _batch(reads: Reads) -> Batch:
    return DeviceReads.from_reads(reads, torch.device("cpu")).batch(np.arange(reads.num_reads))


def _windows(batch: Batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rows, positions = is_supervised(batch.tokens).nonzero(as_tuple=True)
    return rows, positions, is_live_combo_at(batch.tokens, rows, positions)


def _readers() -> list[Reader]:
    reads = _reads(4, num_hands=30)
    lines, actions = LineCounts.fit(reads), ActionCounts.fit(reads)
    return [
        LineReader(lines=lines, smoothing_counts=20.0),
        StrengthReader(lines=lines, actions=actions, line_smoothing_counts=20.0, action_smoothing_counts=2.0),
    ]


def _open_or_check(index: int, hole: str, *, does_open: bool) -> CanonicalHand:
    """Heads-up: the button opens and the blind calls with nines, or limps, and the blind bets the flop and is called."""
    preflop = ["raise@0 5", "call@1 4"] if does_open else ["call@0 1", "check@1"]
    return hands.build_hand(
        ["blind@0 1", "blind@1 2", *preflop, "flop 2c 7d Ts", "check@1", "check@0"],
        holes=[hole, "9c9d"],
        stacks=[200.0, 200.0],
        hand_id=f"tests#open-{index}",
    )


def test_a_villain_counts_once_on_each_line() -> None:
    """Counting positions would weigh long hands, counting reads large tables; both misstate what was held."""
    reads = HandEncoder().encode_hands([hands.three_way_showdown()])[0]
    counts = LineCounts.fit(reads)
    # Seat 0 is read before and after its raise; the blinds unopened, facing the raise, and after their calls.
    assert [int(level.sum()) for level in counts.counts] == [2 + 3 + 3] * 3
    twice = LineCounts.fit(HandEncoder().encode_hands([hands.three_way_showdown()] * 2)[0])
    np.testing.assert_array_equal(twice.counts[-1], counts.counts[-1])


def test_lines_tell_what_was_done_from_what_was_faced() -> None:
    """Calling a raise, limping, and opening with the same cards are three lines; cards that fall change none of them."""
    events = {
        "open": ["raise@0 5", "call@1 4"],
        "limp": ["call@0 1", "check@1"],
        "limp and call": ["call@0 1", "raise@1 6", "call@0 6"],
        "4-bet": ["raise@0 5", "raise@1 14", "raise@0 40", "call@1 28"],
        "jam": ["raise@0 199 all-in", "fold@1"],
    }
    final = {}
    for name, actions in events.items():
        hand = hands.build_hand(
            ["blind@0 1", "blind@1 2", *actions, "flop 2c 7d Ts", "turn Kh"], holes=["AhAd", "9c9d"], stacks=[200.0, 200.0]
        )
        reads = HandEncoder().encode_hands([hand])[0]
        batch = _batch(reads)
        line = preflop_line(batch, read_betting(batch.tokens, batch.values))
        for row, villain in enumerate(reads.villain_seat.tolist()):
            flop = int((batch.tokens[row] == tokens.FLOP).nonzero())
            assert (line[row, flop - 1 :] == line[row, -1]).all()
            final[name, villain] = int(line[row, -1])
    assert len(final) == 9  # who folds to the jam without a voluntary chip is no villain
    assert len(set(final.values())) == len(final)


def test_a_range_starts_from_the_broader_one() -> None:
    """A worked chain: 3 villains of a line with smoothing 1, whose broader line holds 4, and one line that nobody took."""
    pairs, suited = cards.CLASS_NAMES.index("AA"), cards.CLASS_NAMES.index("AKs")
    static = StaticRangeReader(class_counts=np.full(cards.NUM_CLASSES, 100.0))
    broad, narrow = np.zeros((1, cards.NUM_CLASSES)), np.zeros((1, cards.NUM_CLASSES))
    broad[0, [pairs, suited]], narrow[0, pairs] = [3.0, 1.0], 3.0
    nothing = np.zeros((1, cards.NUM_CLASSES))
    line = 5_000
    levels = _level_divisors()
    counts = LineCounts(
        static=static,
        lines=(np.array([line // levels[0]]), np.array([line // levels[1]]), np.array([line + 1])),
        counts=(broad, narrow, nothing),
    )
    logp = counts.combo_logp(np.array([line, 0]), smoothing_counts=1.0)
    probability = np.bincount(cards.COMBO_CLASS, np.exp(logp[0]))
    base = np.bincount(cards.COMBO_CLASS, np.exp(static.combo_logp()))
    assert base[pairs] > 6 / 1326  # so aces pull the mix towards the static range, where they come more often
    first = (3 + probability_of_mix(base, broad[0])[pairs]) / 5
    assert probability[pairs] == pytest.approx((3 + first) / 4)
    np.testing.assert_allclose(np.exp(logp).sum(axis=1), 1.0)
    np.testing.assert_allclose(logp[1], static.combo_logp())  # nobody took this line at any level


def probability_of_mix(base: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """The likeliest mix of a range and random hands by trying all, with one villain of the range for certain."""
    random = np.bincount(cards.COMBO_CLASS) / cards.NUM_COMBOS
    shares = np.linspace(0.0, 1.0, 200_001)[1:, None]
    held = np.flatnonzero(seen)
    likelihood = (np.log(shares * base[held] + (1 - shares) * random[held]) * seen[held]).sum(axis=1) + np.log(shares[:, 0])
    share = shares[likelihood.argmax(), 0]
    mix: np.ndarray = share * base + (1 - share) * random
    return mix


def _level_divisors() -> tuple[int, ...]:
    from range_reader_core import tracker_counts

    return tracker_counts._LEVELS


def test_who_checks_a_blind_holds_anything() -> None:
    """Smoothing every line towards the range of those who enter would call a checked blind strong."""
    static = StaticRangeReader(class_counts=np.where(np.arange(cards.NUM_CLASSES) < 20, 1000.0, 1.0))
    seen = np.bincount(cards.COMBO_CLASS)[None].astype(np.float64)  # as hands are dealt
    counts = LineCounts(
        static=static,
        lines=tuple(np.array([0]) for _ in range(3)),
        counts=(seen, np.zeros_like(seen), np.zeros_like(seen)),
    )
    probability = np.exp(counts.combo_logp(np.array([0]), smoothing_counts=10_000.0)[0])
    assert 0.8 < probability.min() * cards.NUM_COMBOS < probability.max() * cards.NUM_COMBOS < 1.2


def test_decisions_count_once_by_context_and_kind_of_hand() -> None:
    """Seat 2 calls a bet of half the pot with top set, then bets the river: each is one decision, read from two seats."""
    reads = HandEncoder().encode_hands([hands.three_way_showdown()])[0]
    counts = ActionCounts.fit(reads).counts
    assert counts.shape == (NUM_CONTEXTS, len(ACTIONS), NUM_KINDS)
    assert counts.sum() == 9  # flop: check, check, bet, fold, call; turn: check, check; river: bet, call
    by_action = dict(zip(ACTIONS, counts.sum(axis=(0, 2)).tolist(), strict=True))
    assert by_action == {"fold": 1, "check": 4, "call": 2, "small bet": 2, "large bet": 0, "all-in": 0}


def test_a_decision_is_filed_under_what_was_faced() -> None:
    """A call of a large bet filed under small bets would make calls look weak."""
    reads = HandEncoder().encode_hands([hands.three_way_showdown()])[0]
    batch = _batch(reads.take(np.flatnonzero(reads.villain_seat == 2)[:1]))
    decisions = decisions_after_flop(batch, read_betting(batch.tokens, batch.values))
    assert [ACTIONS[action] for action in decisions.action] == ["check", "call", "check", "small bet"]
    assert decisions.street.tolist() == [1, 1, 2, 3]
    faced = [FACED[context // 2 % len(FACED)] for context in decisions.context]
    assert faced == ["no bet", "small bet", "no bet", "no bet"]
    assert (decisions.context % 2 == 0).all()  # seat 0 raised before the flop and bet it
    kinds = decisions.combo_kinds()[np.arange(4), reads.villain_combo[reads.villain_seat == 2][0]]
    assert (kinds // NUM_DRAWS).tolist() == [STRONGEST, STRONGEST, STRONGEST, STRONGEST]


def test_frequencies_add_up_over_the_actions() -> None:
    """The likelihood of a decision is a probability over actions, not over hands."""
    logp = ActionCounts.fit(_reads()).logp(smoothing_counts=5.0)
    np.testing.assert_allclose(np.exp(logp).sum(axis=1), 1.0)


def test_a_bet_that_only_strong_hands_make_moves_the_belief_to_them() -> None:
    """Bayes by hand: two combos of one starting range part by the ratio of their frequencies, from the bet on and not before."""
    hand = hands.three_way_showdown()
    reads = HandEncoder().encode_hands([hand])[0]
    read = reads.take(np.flatnonzero((reads.villain_seat == 2) & (reads.perspective_seat == 0)))
    batch = _batch(read)
    frequency = np.ones((NUM_CONTEXTS, len(ACTIONS), NUM_KINDS))
    frequency[:, ACTIONS.index("small bet"), STRONGEST * NUM_DRAWS :] = 31.0
    lines = LineCounts.fit(_reads())
    kwargs = {"lines": lines, "line_smoothing_counts": 50.0, "action_smoothing_counts": 1e-9}
    reader = StrengthReader(actions=ActionCounts(counts=frequency), **kwargs)
    rows, positions, is_live = _windows(batch)
    logp = reader.position_logp(batch, rows, positions, is_live)
    plain = LineReader(lines=lines, smoothing_counts=50.0).position_logp(batch, rows, positions, is_live)
    top_set, nothing = (cards.combo_index(*map(cards.parse_card, pair)) for pair in (("Td", "Th"), ("4c", "5h")))
    names = [tokens.describe(token) for token in batch.tokens[0].tolist()]
    river_bet = (positions == names.index("bet@seat2")).nonzero()[0, 0]
    gained = (logp - plain)[:, top_set] - (logp - plain)[:, nothing]
    assert gained[river_bet].item() == pytest.approx(np.log(31 / 36 / (1 / 6)) - _checks_and_calls(), abs=1e-4)
    assert gained[0].item() == pytest.approx(0.0, abs=1e-5)
    assert gained[river_bet] > gained[river_bet - 1] + 1


def _checks_and_calls() -> float:
    """What two checks and a call, each at 1/36 for the strongest and 1/6 for the rest, take from the strongest."""
    return 3 * float(np.log((1 / 6) / (1 / 36)))


@pytest.mark.parametrize("which", [0, 1])
def test_beliefs_cover_the_live_combos(which: int) -> None:
    """A dead combo with probability, or a sum above one, breaks every comparison with the model."""
    batch = _batch(_reads())
    rows, positions, is_live = _windows(batch)
    logp = _readers()[which].position_logp(batch, rows, positions, is_live)
    assert logp.dtype == torch.float32
    assert torch.equal(logp == -torch.inf, ~is_live)
    torch.testing.assert_close(logp.exp().sum(dim=1), torch.ones(len(rows)), rtol=0, atol=1e-4)


@pytest.mark.parametrize("which", [0, 1])
def test_beliefs_use_no_later_token(which: int) -> None:
    """A lead over a baseline that sees the future, or of one, means nothing."""
    batch = _batch(_reads())
    reader = _readers()[which]
    rows, positions, is_live = _windows(batch)
    whole = reader.position_logp(batch, rows, positions, is_live)
    num_seen = 0
    for cut in range(16, batch.tokens.shape[1], 9):
        part = Batch(
            tokens=batch.tokens[:, :cut].contiguous(),
            values=batch.values[:, :cut].contiguous(),
            targets=batch.targets,
            read_index=batch.read_index,
        )
        is_last = positions == cut - 1
        at = (rows[is_last], positions[is_last], is_live[is_last])
        torch.testing.assert_close(reader.position_logp(part, *at), whole[is_last], rtol=0, atol=1e-5)
        num_seen += int(is_last.sum())
    assert num_seen > 50


@pytest.mark.parametrize("which", [0, 1])
def test_beliefs_do_not_depend_on_batches_or_suit_names(which: int) -> None:
    """A baseline that scores by batch or by suit cannot be compared with anything."""
    reads = _reads()
    reader = _readers()[which]
    (small,), (large,) = (evaluate([reader], reads, batch_reads=size) for size in (3, 64))
    np.testing.assert_allclose(small.metric_sums, large.metric_sums, rtol=1e-5)
    batch = _batch(reads)
    rows, positions, is_live = _windows(batch)
    logp = reader.position_logp(batch, rows, positions, is_live)
    for relabeling in (1, 9, 23):
        renamed = relabel(batch, torch.full((len(batch.tokens),), relabeling))
        perm = torch.from_numpy(tokens.PERM_COMBO[relabeling])
        live = is_live_combo_at(renamed.tokens, rows, positions)
        torch.testing.assert_close(reader.position_logp(renamed, rows, positions, live)[:, perm], logp, rtol=0, atol=1e-5)


def test_ties_within_a_kind_stay_exact() -> None:
    """Suits that nothing tells apart must tie, or ranks depend on rounding."""
    reads = HandEncoder().encode_hands([hands.heads_up_run_out()])[0]
    batch = _batch(reads)
    rows, positions, is_live = _windows(batch)
    logp = _readers()[1].position_logp(batch, rows, positions, is_live)
    pairs = [cards.combo_index(*map(cards.parse_card, pair)) for pair in (("5c", "5d"), ("5d", "5h"), ("5h", "5s"))]
    for first, second in itertools.pairwise(pairs):
        assert torch.equal(logp[:, first], logp[:, second])


def test_fitting_learns_lines_and_takes_the_smoothing_that_loses_least() -> None:
    """Smoothing chosen by a wrong sign, or on training reads, gives a baseline that is easy to beat."""
    holes = [("AhAd", True), ("KsKh", True), ("7h2d", False), ("6s3h", False)]
    played = [_open_or_check(i, *holes[i % 4][:1], does_open=holes[i % 4][1]) for i in range(60)]
    train = HandEncoder().encode_hands(played[:40])[0]
    val = HandEncoder().encode_hands(played[40:])[0]
    line_reader, strength_reader = fit_trackers(train, val)
    static = StaticRangeReader.fit(train)
    scores = evaluate([static, line_reader, strength_reader], val)
    losses = [float(part.metric_sums[:, LOSS].sum()) for part in scores]
    assert losses[1] < losses[0]
    candidates = [LineReader(lines=line_reader.lines, smoothing_counts=count) for count in LINE_SMOOTHINGS]
    of_candidates = [float(part.metric_sums[:, LOSS].sum()) for part in (evaluate([one], val)[0] for one in candidates)]
    assert line_reader.smoothing_counts == LINE_SMOOTHINGS[int(np.argmin(of_candidates))]
    assert strength_reader.line_smoothing_counts == line_reader.smoothing_counts
    assert strength_reader.action_smoothing_counts in ACTION_SMOOTHINGS


def test_tuning_on_few_reads_takes_the_first() -> None:
    """Shards are shuffled, so a part of them is a sample; a hidden default would read all of a large split."""
    reads = _reads()
    few = fit_trackers(reads, reads, num_tuning_reads=5)
    same = fit_trackers(reads, reads.take(np.arange(5)))
    assert [reader.smoothing_counts for reader in (few[0], same[0])] == [few[0].smoothing_counts] * 2


@pytest.mark.parametrize("smoothing", [0.0, -1.0, float("inf"), float("nan")])
def test_smoothing_must_leave_every_combo_possible(smoothing: float) -> None:
    """Without smoothing one unseen hand makes the mean loss infinite."""
    with pytest.raises(ValueError, match="smoothing counts must be positive"):
        LineReader(lines=LineCounts.fit(_reads(num_hands=3)), smoothing_counts=smoothing)


def test_nothing_to_count_is_refused() -> None:
    """Ranges of nothing are the uniform one under a name that promises more."""
    with pytest.raises(ValueError, match="no training reads"):
        LineCounts.fit(_reads().take(np.zeros(0, dtype=np.int64)))
