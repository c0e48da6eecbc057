"""The failure table: every position in one group of each dimension, leads over the best baseline of a group, the worst hands."""

import numpy as np
import pytest

from range_reader_core import cards
from range_reader_core.baselines import LiveUniformReader, StaticRangeReader
from range_reader_core.encoder import HandEncoder
from range_reader_core.evaluation import NothingToScoreError, ReadScores, evaluate
from range_reader_core.lines import POSITIONS, SITUATIONS
from range_reader_core.masks import STREETS
from range_reader_core.metrics import LOSS, MRR
from range_reader_core.reads import Reads
from range_reader_core.strata import (
    CHECK_RAISES,
    DIMENSIONS,
    LABELS,
    STACKS,
    FailureRow,
    StreetScores,
    failure_table,
    format_failures,
    read_groups,
    worst_reads,
)
from range_reader_core.tables import TOTAL
from tests.core import hands

READERS = ("model", "first", "second")


def _reads(num_hands: int = 20) -> Reads:
    return HandEncoder().encode_hands(hands.random_hands(12, num_hands))[0]


def _made_up(reads: Reads, losses: np.ndarray) -> StreetScores:
    """Scores with a loss per (reader, read, street) and one position each; the mrr is 1 / (1 + loss)."""
    scores = StreetScores(READERS, reads)
    scores.counts[:] = 1
    scores.sums[..., LOSS], scores.sums[..., MRR] = losses, 1 / (1 + losses)
    return scores


def _table(scores: StreetScores, reads: Reads) -> dict[tuple[str, str], FailureRow]:
    rows = failure_table(scores, reads, read_groups(reads), generator=np.random.default_rng(0))
    return {(row.dimension, row.group): row for row in rows}


def test_sums_by_street_are_those_of_the_evaluation() -> None:
    """A second pass that scored other positions would make the tables contradict each other."""
    reads = _reads()
    readers = [LiveUniformReader(), StaticRangeReader.fit(reads)]
    by_street = StreetScores([reader.name for reader in readers], reads)
    plain: tuple[ReadScores, ...] = evaluate(readers, reads, batch_reads=7, observers=[by_street.observe])
    for index, part in enumerate(plain):
        np.testing.assert_allclose(by_street.sums[index].sum(axis=1), part.metric_sums)
    np.testing.assert_array_equal(by_street.counts.sum(axis=1), plain[0].num_positions)
    assert (by_street.counts.sum(axis=0) > 0).all()


def test_every_dimension_divides_the_positions() -> None:
    """A group that loses or doubles positions hides a failure or makes one up."""
    reads = _reads()
    readers = [LiveUniformReader(), StaticRangeReader.fit(reads)]
    scores = StreetScores([reader.name for reader in readers], reads)
    evaluate(readers, reads, observers=[scores.observe])
    rows = failure_table(scores, reads, read_groups(reads), generator=np.random.default_rng(0))
    total = next(row for row in rows if row.group == TOTAL)
    assert list(dict.fromkeys(row.dimension for row in rows)) == list(DIMENSIONS)
    for dimension in DIMENSIONS:
        parts = [row for row in rows if row.dimension == dimension]
        assert sum(row.num_positions for row in parts) == total.num_positions
        weighted = sum(row.loss_nats.mean * row.num_positions for row in parts)
        assert weighted / total.num_positions == pytest.approx(total.loss_nats.mean)
    assert total.num_hands == len(np.unique(reads.hand_index))


def test_groups_of_worked_hands() -> None:
    """Labels, lines and positions of hands that a person can follow."""
    events = ["blind@0 1", "blind@1 2", "call@0 1", "check@1", "flop 2c 7d Ts", "check@1", "bet@0 2", "raise@1 8", "fold@0"]
    check_raised = hands.build_hand(events, holes=["AhAd", "9c8c"], stacks=[50.0, 50.0], hand_id="tests#check-raise")
    played = [hands.three_way_showdown(), check_raised, hands.heads_up_run_out(), hands.shown_cards_only()]
    reads = HandEncoder().encode_hands(played)[0]
    groups = read_groups(reads)
    named = [
        (
            reads.hand_ids[reads.hand_index[i]],
            int(reads.villain_seat[i]),
            POSITIONS[groups.position[i]],
            STACKS[groups.stack[i]],
            SITUATIONS[groups.preflop_line[i]],
            CHECK_RAISES[groups.check_raise[i]],
            LABELS[groups.label[i]],
        )
        for i in range(reads.num_reads)
    ]
    three_way, plain = "tests#three-way", CHECK_RAISES[1]
    assert (three_way, 0, "button", "60 to 110 bb", "raised", plain, "dealt") in named
    assert (three_way, 2, "big blind", "30 to 60 bb", "raised", plain, "dealt") in named
    assert (three_way, 2, "big blind", "30 to 60 bb", "raised", plain, "shown") in named
    assert ("tests#check-raise", 1, "blind heads-up", "to 30 bb", "limped", CHECK_RAISES[0], "dealt") in named
    assert ("tests#check-raise", 0, "button heads-up", "to 30 bb", "limped", plain, "dealt") in named
    assert ("tests#run-out", 1, "blind heads-up", "to 30 bb", "raised", plain, "dealt") in named
    assert groups.num_players.tolist() == reads.num_players.tolist()


def test_the_lead_is_over_the_best_baseline_of_the_group() -> None:
    """A baseline that is best overall may be beaten where another one is not."""
    reads = _reads()
    losses = np.full((3, reads.num_reads, len(STREETS)), 6.0)
    losses[1] = 6.5
    losses[2] = 7.0
    losses[2, :, STREETS.index("river")] = 5.5
    table = _table(_made_up(reads, losses), reads)
    flop, river = table["street", "flop"], table["street", "river"]
    assert flop.lead_nats is not None
    assert river.lead_nats is not None
    assert (flop.lead_nats.baseline, river.lead_nats.baseline) == ("first", "second")
    assert flop.lead_nats.lead.mean == pytest.approx(0.5)
    assert river.lead_nats.lead.mean == pytest.approx(-0.5)
    assert river.lead_mrr is not None
    assert river.lead_mrr.lead.mean == pytest.approx(1 / 7 - 1 / 6.5)
    assert flop.loss_nats.interval is not None
    assert (flop.loss_nats.interval.low, flop.loss_nats.interval.high) == pytest.approx((6.0, 6.0))


def test_reads_without_positions_count_nowhere() -> None:
    """A read cut before its window has no loss, and 0.0 would be the best one."""
    reads = _reads()
    losses = np.full((3, reads.num_reads, len(STREETS)), 6.0)
    scores = _made_up(reads, losses)
    scores.counts[0], scores.sums[:, 0] = 0, 0.0
    assert _table(scores, reads)["all", TOTAL].num_reads == reads.num_reads - 1
    assert 0 not in {worst.read for worst in worst_reads(scores, reads, read_groups(reads), num=1000)}


def test_worst_reads_are_one_a_hand_and_the_worst_first() -> None:
    """Five perspectives on one strange hand would fill the list."""
    reads = _reads()
    losses = np.full((3, reads.num_reads, len(STREETS)), 6.0)
    losses[0] += np.random.default_rng(5).random(reads.num_reads)[:, None]
    losses[0, 3], losses[1:, 3] = 9.0, [[8.0], [7.5]]
    worst = worst_reads(_made_up(reads, losses), reads, read_groups(reads), num=8)
    assert len({item.hand_id for item in worst}) == len(worst) == 8
    assert [item.loss_nats for item in worst] == sorted((item.loss_nats for item in worst), reverse=True)
    first = worst[0]
    assert (first.read, first.num_positions, first.loss_nats) == (3, 4, 9.0)
    assert (first.baseline, first.baseline_loss_nats) == ("second", 7.5)
    assert first.truth == cards.format_combo(int(reads.villain_combo[3]))
    assert first.hand_id == reads.hand_ids[reads.hand_index[3]]


def test_records_are_flat_and_text_names_every_group() -> None:
    """Parquet takes scalars; a person needs every row."""
    reads = _reads()
    losses = np.full((3, reads.num_reads, len(STREETS)), 6.0) + np.arange(3)[:, None, None]
    rows = failure_table(_made_up(reads, losses), reads, read_groups(reads), generator=np.random.default_rng(0))
    records = [row.record() for row in rows]
    assert all(record.keys() == records[0].keys() for record in records)
    assert {type(value) for record in records for value in record.values()} <= {str, int, float, type(None)}
    assert records[0]["lead_nats"] == pytest.approx(1.0)
    assert records[0]["lead_nats_over"] == "first"
    text = format_failures(rows, note="val split")
    assert all(row.group in text for row in rows)
    assert "val split" in text
    assert max(len(line) for line in text.splitlines()) < 140


def test_a_model_alone_and_a_hand_alone_make_no_claims() -> None:
    """No baseline is no lead, and one hand has no interval."""
    reads = HandEncoder().encode_hands([hands.three_way_showdown()])[0]
    scores = StreetScores(["uniform over live combos"], reads)
    evaluate([LiveUniformReader()], reads, observers=[scores.observe])
    rows = failure_table(scores, reads, read_groups(reads), generator=np.random.default_rng(0))
    assert all(row.lead_nats is None and row.loss_nats.interval is None for row in rows)
    assert format_failures(rows)
    assert worst_reads(scores, reads, read_groups(reads))[0].baseline is None


def test_nothing_scored_is_refused() -> None:
    """A table of empty groups looks like a model without failures."""
    reads = _reads(3)
    with pytest.raises(NothingToScoreError, match="no supervised position"):
        failure_table(StreetScores(READERS, reads), reads, read_groups(reads), generator=np.random.default_rng(0))
