"""The oracle against sums written out hand by hand, against exact enumeration, and as a reader whose word can be taken."""

import dataclasses
import io
from itertools import combinations

import numpy as np
import pytest
import torch

from range_reader_core import cards
from range_reader_core.arena.deal import BOARD_SIZE, PlayedHands, TableSettings
from range_reader_core.arena.oracle import OracleReader, action_logp
from range_reader_core.arena.players import held_worth
from range_reader_core.arena.policy import Holdings, Policy
from range_reader_core.arena.preflop_order import COMBO_QUANTILE
from range_reader_core.arena.public_record import PublicRecord, replay_reads
from range_reader_core.baselines import LiveUniformReader
from range_reader_core.calibration import COMBO, ReliabilitySums
from range_reader_core.encoder import HandEncoder
from range_reader_core.evaluation import Reader, SupervisedBatch, evaluate, supervised_batches
from range_reader_core.hand import CanonicalHand
from range_reader_core.metrics import LOSS
from range_reader_core.ohh import parse_ohh
from range_reader_core.reads import Reads
from range_reader_pipeline.arena_writer import hand_lines
from tests.core.arena.books import built_in_book, style_hands

POLICY = Policy(built_in_book())
PRIOR = np.full(6, 1 / 6)
HEADS_UP = TableSettings(max_players=2)
BIG_BLIND = 100


def reads_of(settings: TableSettings, num_hands: int, seed: int) -> tuple[PlayedHands, Reads, np.ndarray]:
    """Return hands, their reads and who sits where in each read (N, 10)."""
    hands, styles = style_hands(settings, num_hands, seed)
    lines = hand_lines(
        hands, player_names=[["p"] * 10] * num_hands, numbers=[str(index) for index in range(num_hands)], first_index=0
    )
    parsed = [hand for hand in parse_ohh(io.BytesIO("".join(lines).encode()), "a.ohh") if isinstance(hand, CanonicalHand)]
    assert len(parsed) == num_hands
    reads, _ = HandEncoder().encode_hands(parsed)
    table = np.array([int(hand_id.partition("#")[2]) for hand_id in reads.hand_ids])[reads.hand_index]
    return hands, reads, styles[table]


def oracle(reads: Reads, styles: np.ndarray | None) -> OracleReader:
    """Return the oracle that knows these styles, or none."""
    return OracleReader(policy=POLICY, big_blind=BIG_BLIND, hand_index=reads.hand_index, styles=styles, prior=PRIOR)


def all_positions(reads: Reads) -> SupervisedBatch:
    """Return all supervised positions in one batch."""
    (part,) = supervised_batches(reads, batch_reads=reads.num_reads)
    return part


def record_of(part: SupervisedBatch) -> PublicRecord:
    """Return the decisions of a batch."""
    return replay_reads(part.batch.tokens.numpy(), part.batch.values.double().numpy(), BIG_BLIND)


def answers(reader: Reader, part: SupervisedBatch) -> np.ndarray:
    """Return log-probabilities (N, 1326)."""
    return reader.position_logp(part.batch, part.rows, part.positions, part.is_live).double().numpy()


def test_the_replay_sees_what_the_deal_saw() -> None:
    """One chip off, and every likelihood would be of another decision: actions and states come back as they were dealt."""
    settings = TableSettings(max_players=9, ante=10, straddle_share=0.4, min_stack_bb=2.0)
    hands, reads, _ = reads_of(settings, 150, 3)
    record = record_of(all_positions(reads))
    rows = all_positions(reads).batch.read_index.numpy()[record.row]
    table = np.array([int(hand_id.partition("#")[2]) for hand_id in reads.hand_ids])[reads.hand_index[rows]]
    assert (record.state.stack <= hands.seating.stacks[table, record.seat]).all()
    for row in range(0, reads.num_reads, 7):
        mine = record.row == row
        index = int(table[mine][0])
        span = slice(hands.events.offsets[index], hands.events.offsets[index + 1])
        is_action = (hands.events.seat[span] >= 0) & (hands.events.kind[span] >= 2)
        assert hands.events.seat[span][is_action].tolist() == record.seat[mine].tolist()
        assert hands.events.chips[span][is_action].tolist() == record.chips[mine].tolist()


def test_heads_up_it_is_bayes_rule_written_out() -> None:
    """Probabilities stand in the ratio of how often the style does each thing with each combo, asked for one combo at a time."""
    _, reads, styles = reads_of(HEADS_UP, 12, 5)
    part = all_positions(reads)
    record, order = record_of(part), part.batch.read_index.numpy()
    logp = answers(oracle(reads, styles), part)
    rng, checked = np.random.default_rng(1), 0
    for number in range(0, len(part.rows), 9):
        row, position = int(part.rows[number]), int(part.positions[number])
        villain = int(record.villain[row])
        taken = np.flatnonzero((record.row == row) & (record.seat == villain) & (record.position <= position))
        live = np.flatnonzero(part.is_live[number].numpy())
        combos = rng.choice(live, 6, replace=False)
        weight = [
            sum(log_probability(record, int(index), int(combo), int(styles[order[row], villain])) for index in taken)
            for combo in combos
        ]
        np.testing.assert_allclose(np.diff(logp[number, combos]), np.diff(weight), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(np.exp(logp[number]).sum(), 1.0, rtol=1e-5)
        checked += len(taken)
    assert checked > 10


def log_probability(record: PublicRecord, index: int, combo: int, style: int) -> float:
    """Return log P(decision | combo), by the form that deals."""
    state = record.state.take(np.array([index]))
    street = int(state.street[0])
    percentile, draw = np.array([0.5]), np.array([0])
    if street:
        board = record.boards[record.row[index]][None, : BOARD_SIZE[street]]
        percentile, draw = held_worth(board, np.array([0]), np.array([combo]))
    held = Holdings(quantile=COMBO_QUANTILE[[combo]][:, None], percentile=percentile[:, None], draw=draw[:, None])
    play = POLICY.frequencies(np.array([style]), state, held)
    chips = POLICY.raise_chips(np.array([style]), state)[0]
    if record.is_fold[index]:
        return float(np.log(play.fold[0, 0]))
    if state.committed[0] + record.chips[index] > state.highest[0]:
        return float(np.log(play.raise_[0, 0] * play.size[0, 0, chips == record.chips[index]].sum()))
    return float(np.log(play.call[0, 0]))


def test_three_handed_the_third_hand_is_summed_over_exactly() -> None:
    """The other hidden player's hands that a villain's combo leaves possible, added up one by one."""
    part, record, styles, logp = last_positions(3, seed=8)
    likelihood = running(record, styles)
    checked = 0
    for number, (row, villain, others) in enumerate(hidden(record)):
        (other,) = others
        mine, theirs = likelihood(row, villain), likelihood(row, other)
        if theirs is None or mine is None:
            continue
        live = part.is_live[number].numpy()
        weight = np.where(live, np.exp(theirs - theirs.max()), 0.0)
        total = np.array([weight[DISJOINT[combo]].sum() for combo in range(cards.NUM_COMBOS)])
        expected = np.where(live, np.exp(mine - mine.max()) * total, 0.0)
        np.testing.assert_allclose(np.exp(logp[number]), expected / expected.sum(), rtol=1e-4, atol=1e-9)
        checked += 1
    assert checked > 10


@pytest.mark.slow
def test_four_handed_independence_costs_little() -> None:
    """Two hidden hands beside the villain's, enumerated pair by pair: how far the oracle's probabilities are from exact ones."""
    part, record, styles, logp = last_positions(4, seed=9)
    likelihood = running(record, styles)
    distances = []
    for number, (row, villain, others) in enumerate(hidden(record)):
        parts = [likelihood(row, seat) for seat in (villain, *others)]
        if any(each is None for each in parts) or len(distances) >= 12:
            continue
        live = part.is_live[number].numpy()
        mine, first, second = (np.where(live, np.exp(each - each.max()), 0.0) for each in parts if each is not None)
        both = np.where(DISJOINT, first[:, None] * second[None, :], 0.0)  # (C, C)
        free = DISJOINT.astype(np.float64)  # (C, C) the hands that each of the villain's combos leaves
        expected = mine * ((free @ both) * free).sum(axis=1)
        expected /= expected.sum()
        distances.append(0.5 * np.abs(expected - np.exp(logp[number])).sum())
    assert len(distances) == 12
    print(f"total variation: mean {np.mean(distances):.5f}, most {max(distances):.5f} in {len(distances)} reads")  # noqa: T201
    assert max(distances) < 0.002, distances


@pytest.mark.slow
@pytest.mark.parametrize("num_players", [5, 6])
def test_larger_tables_independence_costs_little(num_players: int) -> None:
    """Three and four hidden hands beside the villain's, drawn at random: the oracle's word against deals without a card twice.

    Hands of the others are drawn as the oracle thinks of them, each on its own. How many of the draws that leave a combo to the
    villain deal no card twice is what the oracle ignores. Two halves of the draws tell how much of the distance is chance.
    """
    part, record, styles, logp = last_positions(num_players, seed=10)
    likelihood = running(record, styles)
    generator = np.random.default_rng(num_players)
    distances, chances = [], []
    for number, (row, villain, others) in enumerate(hidden(record)):
        if likelihood(row, villain) is None or len(distances) >= 10:
            continue
        live = part.is_live[number].numpy()
        known = [likelihood(row, seat) for seat in others]
        weights = [live * (1.0 if each is None else np.exp(each - each.max())) for each in known]
        halves = [share_without_a_card_twice(weights, generator) for _ in range(2)]
        said = np.exp(logp[number])
        first, second, both = (said * share for share in (*halves, (halves[0] + halves[1]) / 2))
        distances.append(0.5 * np.abs(both / both.sum() - said).sum())
        chances.append(0.25 * np.abs(first / first.sum() - second / second.sum()).sum())
    assert len(distances) == 10
    print(  # noqa: T201
        f"{num_players} players, total variation: mean {np.mean(distances):.5f}, most {max(distances):.5f} in {len(distances)} "
        f"reads, of which by chance about {np.mean(chances):.5f}"
    )
    assert max(chances) < 0.001, chances
    assert max(distances) < 0.005, distances


def share_without_a_card_twice(weights: list[np.ndarray], generator: np.random.Generator) -> np.ndarray:
    """Return, for each villain's combo (C,), which share of the others' hands that leave it free deal no card twice."""
    by_deal = np.zeros((2, cards.NUM_CARDS, cards.NUM_CARDS))  # deals that take both cards: without a card twice, and all
    num_deals = np.zeros(2)
    for _ in range(6):
        drawn = [generator.choice(cards.NUM_COMBOS, size=50_000, p=weight / weight.sum()) for weight in weights]
        times = sum(cards.COMBO_HAS_CARD[combos].astype(np.int8) for combos in drawn)  # (deals, 52)
        taken = (times > 0).astype(np.float32)
        is_clean = (times <= 1).all(axis=1)
        for kind, some in enumerate((taken[is_clean], taken)):
            by_deal[kind] += some.T @ some
            num_deals[kind] += len(some)
    low, high = cards.COMBO_CARDS.T
    one = np.diagonal(by_deal, axis1=1, axis2=2)  # (2, 52)
    free = num_deals[:, None] - one[:, low] - one[:, high] + by_deal[:, low, high]  # (2, C)
    share: np.ndarray = free[0] / np.maximum(free[1], 1.0)
    return share


def last_positions(num_players: int, seed: int) -> tuple[SupervisedBatch, PublicRecord, np.ndarray, np.ndarray]:
    """Return reads at their last position, their decisions, who sits where, and what the oracle says."""
    settings = TableSettings(min_players=num_players, max_players=num_players)
    _, reads, styles = reads_of(settings, 40, seed)
    part = all_positions(reads)
    final = np.array([int(np.flatnonzero(part.rows.numpy() == row)[-1]) for row in range(reads.num_reads)])
    chosen = torch.from_numpy(final)
    part = dataclasses.replace(
        part,
        rows=part.rows[chosen],
        positions=part.positions[chosen],
        is_live=part.is_live[chosen],
        targets=part.targets[chosen],
    )
    in_order = styles[part.batch.read_index.numpy()]
    return part, record_until(part), in_order, answers(oracle(reads, styles), part)


def record_until(part: SupervisedBatch) -> PublicRecord:
    """Return the decisions up to each read's one position."""
    record = record_of(part)
    return record.take(np.flatnonzero(record.position <= part.positions.numpy()[record.row]))


def hidden(record: PublicRecord) -> list[tuple[int, int, list[int]]]:
    """Return row, villain and the other hidden seats of each read."""
    found = []
    for row in range(len(record.villain)):
        seats = set(record.seat[record.row == row].tolist())
        villain = int(record.villain[row])
        found.append((row, villain, sorted(seats - {villain, int(record.perspective[row])})))
    size = max(len(others) for _, _, others in found)
    return [
        entry if len(entry[2]) == size else (entry[0], entry[1], [*entry[2], *[-1] * (size - len(entry[2]))]) for entry in found
    ]


def running(record: PublicRecord, styles: np.ndarray):
    """Return a function from row and seat to the log-likelihood of all that the seat did, None if it did nothing."""
    logp = action_logp(POLICY, record, styles[record.row, record.seat])

    def of(row: int, seat: int) -> np.ndarray | None:
        mine = (record.row == row) & (record.seat == seat)
        return logp[mine].sum(axis=0) if mine.any() else None

    return of


DISJOINT = (cards.COMBO_HAS_CARD.astype(np.int8) @ cards.COMBO_HAS_CARD.T.astype(np.int8)) == 0


def test_unknown_styles_are_summed_over() -> None:
    """The mixture over styles, written out for a villain's few decisions."""
    _, reads, _ = reads_of(HEADS_UP, 15, 6)
    part = all_positions(reads)
    record = record_of(part)
    logp = answers(oracle(reads, None), part)
    by_style = [action_logp(POLICY, record, np.full(len(record.row), style)) for style in range(6)]
    for number in range(0, len(part.rows), 5):
        row, position = int(part.rows[number]), int(part.positions[number])
        mine = (record.row == row) & (record.seat == record.villain[row]) & (record.position <= position)
        weight = sum(share * np.exp(each[mine].sum(axis=0)) for share, each in zip(PRIOR, by_style, strict=True))
        weight = np.where(part.is_live[number].numpy(), weight, 0.0)
        np.testing.assert_allclose(np.exp(logp[number]), weight / weight.sum(), rtol=1e-4, atol=1e-9)


def test_knowing_more_reads_better() -> None:
    """Styles known beat styles unknown beat a blind reader, and answers do not depend on the batch."""
    _, reads, styles = reads_of(TableSettings(max_players=4), 60, 7)
    known, unknown, blind = evaluate([oracle(reads, styles), oracle(reads, None), LiveUniformReader()], reads)
    losses = [part.metric_sums[:, LOSS].sum() for part in (known, unknown, blind)]
    assert losses[0] < losses[1] < losses[2]
    (small,) = evaluate([oracle(reads, styles)], reads, batch_reads=7)
    np.testing.assert_allclose(small.metric_sums, known.metric_sums, rtol=1e-4)


def test_its_probabilities_mean_what_they_say() -> None:
    """Single combos in bins of what was promised: what happens is what was said, within what chance allows."""
    _, reads, styles = reads_of(HEADS_UP, 500, 11)
    sums = ReliabilitySums("oracle, styles known", reads, generator=np.random.default_rng(0))
    evaluate([oracle(reads, styles)], reads, observers=[sums.observe])
    curve = next(
        each for each in sums.curves(generator=np.random.default_rng(0)) if (each.forecast, each.group) == (COMBO, "TOTAL")
    )
    assert curve.error.interval is not None
    assert curve.chance_error is not None
    assert curve.error.mean < 3 * curve.chance_error


def test_a_hand_that_the_arena_did_not_deal_is_refused() -> None:
    """A share of a ceiling that belongs to other hands would be a number about nothing."""
    _, reads, styles = reads_of(HEADS_UP, 20, 12)
    halves = dataclasses.replace(reads, values=reads.values + np.float32(0.005))
    with pytest.raises(ValueError, match="not dealt by this arena"):
        evaluate([oracle(halves, styles)], halves)
    longer = np.where((reads.values > 3) & (reads.values < 30), reads.values + np.float32(1.0), reads.values)
    other = dataclasses.replace(reads, values=longer.astype(np.float32))
    with pytest.raises(ValueError, match=r"not dealt by the arena|dealt with other styles"):
        evaluate([oracle(other, styles)], other)


def test_every_pair_of_combos_that_shares_a_card_is_known() -> None:
    """The yardstick of the tests above, checked by hand."""
    assert not DISJOINT.diagonal().any()
    pairs = [cards.combo_index(*pair) for pair in combinations(range(4), 2)]
    assert DISJOINT[np.ix_(pairs, pairs)].sum() == 6
