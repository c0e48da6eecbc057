"""Reads as flat arrays: files round-trip, another vocabulary is refused, rows keep their columns when moved."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from range_reader_core import reads as reads_module
from range_reader_core.encoder import HandEncoder
from range_reader_core.reads import Reads, as_watcher, concatenate, load_reads, ragged_positions, save_reads
from tests.core.hands import random_hands, shown_cards_only


@pytest.fixture(scope="module")
def reads() -> Reads:
    """Return some hundred reads of two sources, one label of them only shown."""
    return HandEncoder().encode_hands([*random_hands(21, 30), shown_cards_only()])[0]


def assert_same(first: Reads, second: Reads) -> None:
    """Compare every field, dtypes included."""
    for field in fields(Reads):
        a, b = getattr(first, field.name), getattr(second, field.name)
        assert type(a) is type(b), field.name
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype, field.name
            assert a.tobytes() == b.tobytes(), field.name
        else:
            assert a == b, field.name


def rows_of(reads: Reads) -> list[tuple[Any, ...]]:
    """Return each read with everything that belongs to it, resolved."""
    return [
        (
            *(column.tobytes() for column in reads.read(index)),
            reads.villain_combo[index],
            reads.villain_seat[index],
            reads.perspective_seat[index],
            reads.num_players[index],
            reads.hand_ids[reads.hand_index[index]],
            reads.sources[reads.source_index[index]],
            reads.is_label_shown[index],
        )
        for index in range(reads.num_reads)
    ]


def test_a_file_round_trips(reads: Reads, tmp_path: Path) -> None:
    """A bare GPU box trains on this file."""
    save_reads(tmp_path / "reads.npz", reads)
    assert_same(load_reads(tmp_path / "reads.npz"), reads)
    assert [path.name for path in tmp_path.iterdir()] == ["reads.npz"], "nothing is left beside it"


def test_no_reads_round_trip(tmp_path: Path) -> None:
    """An empty split is a file too."""
    empty, _ = HandEncoder().encode_hands([])
    save_reads(tmp_path / "reads.npz", empty)
    assert_same(load_reads(tmp_path / "reads.npz"), empty)


def test_a_file_of_another_vocabulary_is_refused(reads: Reads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same ids would mean other tokens."""
    with monkeypatch.context() as patch:
        patch.setattr(reads_module, "VOCABULARY_HASH", "0123456789abcdef")
        save_reads(tmp_path / "reads.npz", reads)
    with pytest.raises(ValueError, match=r"0123456789abcdef.*encode them again"):
        load_reads(tmp_path / "reads.npz")


def test_a_target_that_is_no_combo_is_refused(reads: Reads, tmp_path: Path) -> None:
    """It would index beyond the logits, on a GPU without a message."""
    save_reads(tmp_path / "reads.npz", replace(reads, villain_combo=np.full(reads.num_reads, 1326, dtype=np.uint16)))
    with pytest.raises(ValueError, match=r"outside 0\.\.1325"):
        load_reads(tmp_path / "reads.npz")


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    """A stranger's pickle runs code."""
    np.savez(tmp_path / "reads.npz", vocabulary_hash=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        load_reads(tmp_path / "reads.npz")


def test_rows_keep_their_columns_when_taken(reads: Reads) -> None:
    """A target that stayed behind would train on another read's cards."""
    rows = rows_of(reads)
    assert len(set(rows)) == len(rows) > 300
    indices = np.random.default_rng(0).permutation(reads.num_reads)[:50]
    assert rows_of(reads.take(indices)) == [rows[index] for index in indices]
    assert rows_of(reads.take(np.array([4, 4], dtype=np.int64))) == [rows[4]] * 2
    assert reads.take(np.zeros(0, dtype=np.int64)).num_reads == 0


def test_rows_keep_their_columns_when_concatenated(reads: Reads) -> None:
    """Parts number their hands and sources apart."""
    half = reads.num_reads // 2
    others, _ = HandEncoder().encode_hands(random_hands(22, 5))
    parts = [reads.take(np.arange(half)), others, reads.take(np.arange(half, reads.num_reads))]
    together = concatenate(parts)
    assert rows_of(together) == [row for part in parts for row in rows_of(part)]
    assert together.hand_ids == reads.hand_ids + others.hand_ids, "shared ids became one entry"
    assert len(set(together.sources)) == len(together.sources) == 3
    with pytest.raises(ValueError, match="at least one part"):
        concatenate([])


def test_ragged_positions_on_a_worked_example() -> None:
    """Everything that is gathered from flat arrays goes through this."""
    positions, offsets = ragged_positions(np.array([0, 2, 2, 5]), np.array([2, 0, 1, 2]))
    assert positions.tolist() == [2, 3, 4, 0, 1, 2, 3, 4]
    assert offsets.tolist() == [0, 3, 5, 5, 8]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"villain_seat": np.zeros(3, dtype=np.uint8)}, "differ in length"),
        ({"villain_combo": np.zeros(3, dtype=np.uint16)}, "differ in length"),
        ({"offsets": np.array([0, 1], dtype=np.int64)}, "2"),
        ({"tokens": np.zeros(3, dtype=np.uint16)}, "3 tokens"),
        ({"values": np.zeros(3, dtype=np.float32)}, "3 values"),
        ({"tokens": np.zeros(3, dtype=np.int64)}, "tokens to be flat uint16"),
        ({"values": np.zeros(3, dtype=np.float64)}, "values to be flat float32"),
        ({"is_label_shown": np.zeros(3, dtype=np.uint8)}, "is_label_shown to be flat bool"),
        ({"villain_combo": np.zeros((3, 1), dtype=np.uint16)}, "villain_combo to be flat"),
    ],
)
def test_columns_that_disagree_are_refused(reads: Reads, changes: dict[str, Any], message: str) -> None:
    """A shifted column is a wrong label for every later read."""
    with pytest.raises(ValueError, match=message):
        replace(reads, **changes)


def test_a_watcher_reads_each_villain_once_and_sees_nobodys_cards() -> None:
    """A watcher's stream must be the one that the encoder makes without a perspective, bit for bit."""
    dealt = random_hands(22, 20, 4)
    reads = HandEncoder().encode_hands(dealt)[0]
    seeing, blind = as_watcher(reads, 30)
    assert seeing.num_reads == blind.num_reads == 30
    pairs = list(zip(seeing.hand_index.tolist(), seeing.villain_seat.tolist(), strict=True))
    assert len(set(pairs)) == 30
    assert len({hand for hand, _ in pairs}) > 1
    by_id = {hand.hand_id: hand for hand in dealt}
    for index, (hand_index, villain) in enumerate(pairs):
        expected = HandEncoder().encode(by_id[reads.hand_ids[hand_index]], villain, None)
        assert np.array_equal(blind.read(index)[0], expected.tokens)
        assert not np.array_equal(seeing.read(index)[0], expected.tokens)
    assert np.array_equal(blind.villain_combo, seeing.villain_combo)
    assert blind.tokens.dtype == seeing.tokens.dtype
