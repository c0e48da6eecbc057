"""Batches hold the reads they should, in a seeded order, and relabelings move tokens and targets together."""

import numpy as np
import pytest
import torch

from range_reader_core import cards
from range_reader_core.batching import (
    BUCKET_BATCHES,
    Batch,
    DeviceReads,
    batches_per_epoch,
    epoch_batches,
    hide_perspective,
    relabel,
)
from range_reader_core.encoder import HandEncoder
from range_reader_core.masks import is_live_combo, is_supervised
from range_reader_core.reads import Reads
from range_reader_core.tokens import COMBO_OFFSET, PAD, describe
from tests.core.hands import random_hands


def some_reads(seed: int = 1, num_hands: int = 20) -> Reads:
    return HandEncoder().encode_hands(random_hands(seed, num_hands))[0]


def test_a_batch_holds_its_reads_and_padding_and_nothing_else() -> None:
    """A gather off by one would mix neighbouring reads without failing."""
    reads = some_reads()
    indices = np.array([7, 0, reads.num_reads - 1, 7])  # the last read ends the flat array; a repeat is allowed
    batch = DeviceReads.from_reads(reads, torch.device("cpu")).batch(indices)
    assert batch.tokens.shape[1] == reads.lengths[indices].max()
    for row, index in enumerate(indices):
        tokens, values = reads.read(index)
        assert batch.tokens[row, : len(tokens)].tolist() == tokens.tolist()
        assert batch.values[row, : len(tokens)].tolist() == values.tolist()
        assert (batch.tokens[row, len(tokens) :] == PAD).all()
        assert (batch.values[row, len(tokens) :] == 0.0).all()
    assert batch.targets.tolist() == reads.villain_combo[indices].tolist()
    assert batch.read_index.tolist() == indices.tolist()


def test_a_batch_can_be_as_wide_as_a_multiple() -> None:
    """Few widths mean few compilations; what is added is padding."""
    resident = DeviceReads.from_reads(some_reads(), torch.device("cpu"))
    narrow, wide = resident.batch(np.arange(3)), resident.batch(np.arange(3), width_multiple=16)
    assert wide.tokens.shape[1] % 16 == 0
    assert wide.tokens.shape[1] - narrow.tokens.shape[1] < 16
    assert torch.equal(wide.tokens[:, : narrow.tokens.shape[1]], narrow.tokens)
    assert (wide.tokens[:, narrow.tokens.shape[1] :] == PAD).all()


def test_an_epoch_holds_every_read_once_in_full_batches() -> None:
    """Reads left out or repeated would weigh hands unequally."""
    lengths = np.random.default_rng(0).integers(10, 60, 1013)
    batches = epoch_batches(lengths, batch_size=16, seed=3, epoch=2)
    assert sorted(np.concatenate(batches).tolist()) == list(range(1013))
    assert sorted(len(batch) for batch in batches) == [1013 % 16] + [16] * (1013 // 16)
    assert len(batches) == batches_per_epoch(1013, 16)


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    """A resumed run must see the reads that an undisturbed one sees, and each epoch another order."""
    lengths = np.random.default_rng(0).integers(10, 60, 500)

    def order(seed: int, epoch: int) -> list[int]:
        return [int(index) for batch in epoch_batches(lengths, batch_size=16, seed=seed, epoch=epoch) for index in batch]

    assert order(3, 2) == order(3, 2)
    assert order(3, 2) != order(3, 3)
    assert order(3, 2) != order(4, 2)


def test_batches_are_alike_in_length_and_come_in_mixed_order() -> None:
    """Padding is paid for like a real position; sorted batches would train on short hands first."""
    lengths = np.random.default_rng(0).integers(12, 61, 20_000)
    batches = epoch_batches(lengths, batch_size=32, seed=0, epoch=0)
    padded = sum(len(batch) * lengths[batch].max() for batch in batches)
    assert padded < 1.05 * lengths.sum()
    means = np.array([lengths[batch].mean() for batch in batches[: 10 * BUCKET_BATCHES]])
    assert abs(np.corrcoef(np.arange(len(means)), means)[0, 1]) < 0.15


def test_no_batch_size_below_one() -> None:
    """It would loop forever or divide by zero."""
    with pytest.raises(ValueError, match="at least 1"):
        epoch_batches(np.array([3, 4]), batch_size=0, seed=0, epoch=0)


def test_nothing_to_train_on_is_an_error() -> None:
    """An empty batch has no longest read."""
    reads = some_reads()
    with pytest.raises(ValueError, match="at least one read"):
        DeviceReads.from_reads(reads.take(np.zeros(0, dtype=np.int64)), torch.device("cpu"))
    with pytest.raises(ValueError, match="at least one read"):
        DeviceReads.from_reads(reads, torch.device("cpu")).batch(np.zeros(0, dtype=np.int64))


@pytest.mark.parametrize("relabeling", range(cards.NUM_RELABELINGS))
def test_relabeling_moves_stream_target_and_dead_cards_together(relabeling: int) -> None:
    """A target left behind would teach the model another hand."""
    batch = DeviceReads.from_reads(some_reads(), torch.device("cpu")).batch(np.arange(6))
    moved = relabel(batch, torch.full((6,), relabeling))
    combo_of_combo = moved_combos(relabeling)
    assert moved.targets.tolist() == [combo_of_combo[int(combo)] for combo in batch.targets]
    assert torch.equal(is_supervised(moved.tokens), is_supervised(batch.tokens))
    assert torch.equal(is_live_combo(moved.tokens)[..., torch.tensor(combo_of_combo)], is_live_combo(batch.tokens))
    assert torch.equal(moved.values, batch.values)
    for before, after in zip(batch.tokens.flatten().tolist(), moved.tokens.flatten().tolist(), strict=True):
        if before >= COMBO_OFFSET:
            assert after == COMBO_OFFSET + combo_of_combo[before - COMBO_OFFSET]
        elif not describe(before).startswith("board:"):
            assert after == before


def test_each_read_has_its_own_relabeling() -> None:
    """One relabeling for the whole batch is a far noisier augmentation."""
    batch = DeviceReads.from_reads(some_reads(), torch.device("cpu")).batch(np.zeros(24, dtype=np.int64))
    moved = relabel(batch, torch.arange(24))
    assert moved.targets.unique().numel() > 1
    for row in range(24):
        single = relabel(row_of(batch, row), torch.tensor([row]))
        assert torch.equal(single.tokens[0], moved.tokens[row])
        assert single.targets[0] == moved.targets[row]
    with pytest.raises(ValueError, match="24 relabelings"):
        relabel(batch, torch.arange(23))


def test_a_batch_of_wrong_shapes_or_types_is_refused() -> None:
    """A float32 token or a missing target would fail far from its cause."""
    tokens, values = torch.zeros(2, 7, dtype=torch.int64), torch.zeros(2, 7)
    targets = torch.zeros(2, dtype=torch.int64)
    with pytest.raises(ValueError, match="tokens and values"):
        Batch(tokens=tokens, values=values[:, :5], targets=targets, read_index=targets)
    with pytest.raises(ValueError, match="2 targets"):
        Batch(tokens=tokens, values=values, targets=targets[:1], read_index=targets)
    with pytest.raises(ValueError, match="int64 tokens"):
        Batch(tokens=tokens.int(), values=values, targets=targets, read_index=targets)


def moved_combos(relabeling: int) -> list[int]:
    """Return where each combo goes, by cards and not by table."""
    moved = []
    for combo in range(cards.NUM_COMBOS):
        lo, hi = cards.combo_cards(combo)
        moved.append(cards.combo_index(cards.relabel_card(lo, relabeling), cards.relabel_card(hi, relabeling)))
    return moved


def row_of(batch: Batch, row: int) -> Batch:
    rows = slice(row, row + 1)
    return Batch(
        tokens=batch.tokens[rows], values=batch.values[rows], targets=batch.targets[rows], read_index=batch.read_index[rows]
    )


def test_hidden_perspectives_are_what_a_watcher_reads() -> None:
    """A share of training reads has no cards; a slot hidden under the wrong seat would be another stream."""
    hands = random_hands(6, 12)
    encoder = HandEncoder()
    reads, _ = encoder.encode_hands(hands)
    batch = DeviceReads.from_reads(reads, torch.device("cpu")).batch(np.arange(reads.num_reads))
    is_hidden = torch.arange(reads.num_reads) % 3 != 0
    hidden = hide_perspective(batch, is_hidden)
    assert torch.equal(hidden.tokens[~is_hidden], batch.tokens[~is_hidden])
    assert torch.equal(hidden.values, batch.values)
    by_id = {hand.hand_id: hand for hand in hands}
    for index in is_hidden.nonzero()[:, 0].tolist():
        hand = by_id[reads.hand_ids[reads.hand_index[index]]]
        watched = encoder.encode(hand, int(reads.villain_seat[index]), None)
        assert hidden.tokens[index, : len(watched.tokens)].tolist() == watched.tokens.tolist()
    with pytest.raises(ValueError, match="flags"):
        hide_perspective(batch, is_hidden[1:])
