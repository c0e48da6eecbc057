"""Beliefs: suit averaging against its definition, what it leaves alone, and what a reader of one hand promises."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from range_reader_core import cards
from range_reader_core.batching import Batch, DeviceReads, relabel
from range_reader_core.checkpoint import CheckpointSidecar, save_checkpoint
from range_reader_core.encoder import HandEncoder
from range_reader_core.evaluation import evaluate
from range_reader_core.heads import FlatHead
from range_reader_core.inference import ModelReader, RangeReader, choose_device, top_combos
from range_reader_core.masks import is_live_combo, is_live_combo_at, is_supervised
from range_reader_core.metrics import METRICS
from range_reader_core.model import ModelConfig, RangeReaderModel
from range_reader_core.suit_averaging import Asked, Settings, suit_averaged_logp
from range_reader_core.tokens import COMBO_OFFSET, COMMUNITY_OFFSET, MARK_OFFSET, NUM_BASE_ACTIONS, PERM_COMBO
from tests.core import hands

CPU = torch.device("cpu")


def _model(*, head: str = "flat") -> RangeReaderModel:
    """Return a small model with every parameter random, so that nothing is zero by initialisation."""
    model = RangeReaderModel(ModelConfig(num_layers=2, width=24, num_heads=3, head=head)).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return model


def _batch(num_hands: int = 3) -> Batch:
    reads = HandEncoder().encode_hands(hands.random_hands(11, num_hands, num_players=3))[0]
    return DeviceReads.from_reads(reads, CPU).batch(np.arange(min(reads.num_reads, 5)))


def _asked(batch: Batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rows, positions = is_supervised(batch.tokens).nonzero(as_tuple=True)
    return rows, positions, is_live_combo_at(batch.tokens, rows, positions)


def _averaged(model: RangeReaderModel, batch: Batch, num_relabelings: int = 24) -> torch.Tensor:
    rows, positions, is_live = _asked(batch)
    return suit_averaged_logp(model, Asked(batch.tokens, batch.values, rows, positions, is_live), Settings(num_relabelings))


def _reader(model: RangeReaderModel | None = None) -> RangeReader:
    chosen = _model() if model is None else model
    return RangeReader(chosen, CheckpointSidecar(model=chosen.config), CPU)


class SuitCountModel(torch.nn.Module):
    """Scores a combo by how many cards in sight share its suits: treats all suits alike, yet depends on them."""

    config = ModelConfig(num_layers=1, width=2, num_heads=1)

    def hidden_at(self, stream: torch.Tensor, values: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Return how often each of the 52 cards is in sight, (B, Q, 52)."""
        seen = torch.zeros((*stream.shape, cards.NUM_CARDS))
        is_board = (stream >= COMMUNITY_OFFSET) & (stream < MARK_OFFSET)
        seen[is_board, stream[is_board] - COMMUNITY_OFFSET] = 1.0
        is_hole = stream >= COMBO_OFFSET
        held = torch.from_numpy(cards.COMBO_HAS_CARD)[stream[is_hole] - COMBO_OFFSET]
        seen[is_hole] += held.float()
        counted = seen.cumsum(dim=1)
        return counted.gather(1, positions[:, :, None].expand(-1, -1, cards.NUM_CARDS))

    def query(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the counts as they are."""
        return hidden

    def combo_table(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return one table: the suits of each combo, over all ranks."""
        suits = torch.eye(4)[torch.from_numpy(cards.COMBO_CARDS) % 4].sum(dim=1)  # (C, 4)
        return suits.repeat(1, 13)[None], torch.zeros(cards.NUM_COMBOS)


@pytest.mark.parametrize("head", ["flat", "composed"])
def test_suit_averaging_is_the_mean_of_24_named_back_reads(head: str) -> None:
    """A permutation applied the wrong way round still gives a distribution, only not of these cards."""
    model, batch = _model(head=head), _batch()
    rows, positions, _ = _asked(batch)
    mean = torch.zeros(len(rows), cards.NUM_COMBOS, dtype=torch.float64)
    for relabeling in range(cards.NUM_RELABELINGS):
        renamed = relabel(batch, torch.full_like(batch.targets, relabeling))
        with torch.no_grad():
            logits = model.forward(renamed.tokens, renamed.values)[rows, positions]
        is_live = is_live_combo(renamed.tokens)[rows, positions]
        probabilities = logits.masked_fill(~is_live, -torch.inf).double().softmax(dim=1)
        mean += probabilities[:, torch.from_numpy(PERM_COMBO[relabeling])] / cards.NUM_RELABELINGS
    averaged = _averaged(model, batch)
    torch.testing.assert_close(averaged.double().exp(), mean, rtol=1e-4, atol=1e-7)
    assert not torch.allclose(averaged, _averaged(model, batch, 1), atol=1e-2)  # or there was nothing to average


def test_single_forward_is_the_masked_softmax_of_the_model() -> None:
    """The sharpening table reads single forwards; they must be the plain model."""
    model, batch = _model(), _batch()
    rows, positions, is_live = _asked(batch)
    with torch.no_grad():
        expected = model.forward(batch.tokens, batch.values)[rows, positions].masked_fill(~is_live, -torch.inf).log_softmax(dim=1)
    torch.testing.assert_close(_averaged(model, batch, 1), expected, rtol=1e-4, atol=1e-5)


def test_averaging_a_model_that_treats_suits_alike_changes_nothing() -> None:
    """Suit averaging may only take out noise; here there is none, though the answer depends on suits."""
    model, batch = SuitCountModel(), _batch()
    single, averaged = _averaged(model, batch, 1), _averaged(model, batch)  # type: ignore[arg-type]
    torch.testing.assert_close(averaged, single, rtol=1e-5, atol=1e-5)
    spread = single.masked_fill(single == -torch.inf, 0.0).std(dim=1)
    assert (spread > 0.1).all()


@pytest.mark.parametrize("head", ["flat", "composed"])
def test_averaging_the_model_with_suitless_weights_changes_nothing(head: str) -> None:
    """The same for the real model: give all suits of a rank one vector and it cannot tell them apart."""
    model, batch = _model(head=head), _batch()
    assert not torch.allclose(_averaged(model, batch), _averaged(model, batch, 1), atol=1e-2)
    _make_suitless(model)
    torch.testing.assert_close(_averaged(model, batch), _averaged(model, batch, 1), rtol=1e-5, atol=1e-5)


def _make_suitless(model: RangeReaderModel) -> None:
    """Set every weight that belongs to a card or combo to its mean over the suits."""

    def over_suits(rows: torch.Tensor) -> torch.Tensor:
        return rows.view(13, 4, -1).mean(dim=1, keepdim=True).expand(-1, 4, -1).reshape(rows.shape)

    with torch.no_grad():
        board = slice(NUM_BASE_ACTIONS, NUM_BASE_ACTIONS + cards.NUM_CARDS)
        model.embedding.action[board] = over_suits(model.embedding.action[board])
        model.embedding.card.copy_(over_suits(model.embedding.card))
        if isinstance(model.head, FlatHead):
            for name in range(cards.NUM_CLASSES):
                combos = torch.from_numpy(np.flatnonzero(name == cards.COMBO_CLASS))
                model.head.weight[combos] = model.head.weight[combos].mean(dim=0)
                model.head.bias[combos] = model.head.bias[combos].mean()
        else:
            model.head.card.copy_(over_suits(model.head.card))


def test_a_belief_moves_with_the_suits_of_the_hand() -> None:
    """Averaged over all names of the suits, a belief cannot depend on which names the source used."""
    reader, hand = _reader(), hands.three_way_showdown()
    belief = reader.belief(hand, villain=0, perspective=2)
    for relabeling in (1, 8, 23):
        renamed = reader.belief(hands.relabeled(hand, relabeling), villain=0, perspective=2)
        np.testing.assert_allclose(renamed[PERM_COMBO[relabeling]], belief, rtol=1e-4, atol=1e-8)


def test_a_belief_sums_to_one_and_gives_dead_cards_nothing() -> None:
    """A probability on a card that lies on the table is money lost on a hand nobody can hold."""
    hand = hands.three_way_showdown()
    for num_relabelings in (1, 24):
        belief = _reader().belief(hand, villain=0, perspective=2, num_relabelings=num_relabelings)
        seen = [*hand.board, *(hand.hole_cards[2] or ())]
        is_dead = cards.COMBO_HAS_CARD[:, seen].any(axis=1)
        assert belief.dtype == np.float64
        assert belief.shape == (1326,)
        assert abs(belief.sum() - 1.0) < 1e-12
        assert (belief[is_dead] == 0.0).all()
        assert (belief[~is_dead] > 0.0).all()


def test_trajectory_holds_the_belief_of_every_step() -> None:
    """Asked for one step or for all, the answer must be the same."""
    reader, hand = _reader(), hands.three_way_showdown()
    trajectory = reader.trajectory(hand, villain=1, perspective=0)
    assert len(trajectory.steps) == len(trajectory.probabilities) == 14  # from seat 2's slot at 8 to the fold at 21
    for step in (0, 5, 13):
        np.testing.assert_allclose(reader.belief(hand, 1, 0, step=step), trajectory.probabilities[step], rtol=1e-4, atol=1e-9)
    np.testing.assert_array_equal(reader.belief(hand, 1, 0), reader.belief(hand, 1, 0, step=13))


def test_steps_say_where_they_are_and_what_happened() -> None:
    """A range beside the wrong action is worse than none."""
    steps = _reader().trajectory(hands.three_way_showdown(), villain=1, perspective=0).steps
    assert [(step.position, step.street, step.description) for step in steps if step.position in {8, 11, 17, 21}] == [
        (8, "preflop", "hide_hole@seat2"),
        (11, "preflop", "raise@seat0 3 bb"),
        (17, "flop", "board:Ts"),
        (21, "flop", "fold@seat1"),
    ]


def test_last_steps_are_the_ends_of_the_streets() -> None:
    """A street-by-street print shows the read after the street's betting, not at its first card."""
    trajectory = _reader().trajectory(hands.three_way_showdown(), villain=0, perspective=2)
    last = {street: trajectory.steps[index].description for street, index in trajectory.last_steps().items()}
    assert last == {"preflop": "call@seat2 2 bb", "flop": "call@seat2 4.5 bb", "turn": "check@seat0", "river": "call@seat0 10 bb"}


def test_a_belief_knows_nothing_of_what_comes_later() -> None:
    """The read at a decision must not change because the rest of the hand is known by now."""
    reader, hand = _reader(), hands.three_way_showdown()
    so_far = replace(hand, events=hand.events[:5])
    trajectory = reader.trajectory(hand, villain=0, perspective=2)
    step = trajectory.last_steps()["preflop"]
    np.testing.assert_allclose(trajectory.probabilities[step], reader.belief(so_far, 0, 2), rtol=1e-4, atol=1e-9)


def test_the_villains_cards_need_not_be_known_and_do_not_matter() -> None:
    """A leak of the truth would make every score a fraud."""
    reader, hand = _reader(), hands.three_way_showdown()
    unknown = hands.shown_cards_only()  # seat 1's cards are unknown, else the same hand
    np.testing.assert_array_equal(reader.belief(hand, 1, 0), reader.belief(unknown, 1, 0))


@pytest.mark.parametrize(
    ("villain", "perspective", "step", "reason"),
    [
        (3, 0, None, r"seats in 0\.\.2"),
        (0, 0, None, "two different seats"),
        (0, 1, None, "cards of perspective seat 1 are unknown"),
        (0, 2, 24, r"step in 0\.\.23, got 24"),
        (0, 2, -1, r"step in 0\.\.23, got -1"),
    ],
)
def test_questions_without_an_answer_are_refused(villain: int, perspective: int, step: int | None, reason: str) -> None:
    """A belief about a seat that is not there, or at a step that is not there, must not come back as numbers."""
    with pytest.raises(ValueError, match=reason):
        _reader().belief(hands.shown_cards_only(), villain, perspective, step=step)


def test_a_hand_without_events_after_the_villains_slot_is_refused() -> None:
    """There is no position to read at; an empty array would fail far away."""
    hand = replace(hands.heads_up_run_out(), events=())
    with pytest.raises(ValueError, match="nothing happens after the hole cards"):
        _reader().belief(hand, villain=1, perspective=0)


@pytest.mark.parametrize("num_relabelings", [0, 2, 25])
def test_only_one_or_all_relabelings_are_accepted(num_relabelings: int) -> None:
    """The mean over part of the group depends on the names of the suits."""
    with pytest.raises(ValueError, match="num_relabelings"):
        ModelReader(model=_model(), num_relabelings=num_relabelings)
    with pytest.raises(ValueError, match="num_relabelings"):
        _reader().belief(hands.three_way_showdown(), 0, 2, num_relabelings=num_relabelings)


def test_a_model_in_training_mode_is_refused() -> None:
    """Dropout would make every answer random."""
    with pytest.raises(ValueError, match="training mode"):
        ModelReader(model=_model().train())


def test_unordered_rows_and_positions_without_live_combos_are_refused() -> None:
    """The first would mix up positions silently, the second give NaN."""
    model, batch = _model(), _batch()
    rows, positions, is_live = _asked(batch)
    with pytest.raises(ValueError, match="ascending rows"):
        suit_averaged_logp(model, Asked(batch.tokens, batch.values, rows.flip(0), positions.flip(0), is_live))
    is_live[3] = False
    with pytest.raises(ValueError, match=r"no combo is live at positions \[3\]"):
        suit_averaged_logp(model, Asked(batch.tokens, batch.values, rows, positions, is_live))


def test_the_model_reader_is_scored_like_any_reader() -> None:
    """Batched, padded and asked at chosen positions, it must say what it says about one hand."""
    model = _model()
    reads = HandEncoder().encode_hands([hands.three_way_showdown(), hands.heads_up_run_out()])[0]
    (scores,) = evaluate([ModelReader(model=model)], reads, batch_reads=3)
    index = int(np.flatnonzero((reads.villain_seat == 1) & (reads.perspective_seat == 0) & (reads.num_players == 3))[0])
    trajectory = _reader(model).trajectory(hands.three_way_showdown(), 1, 0)
    truth = int(reads.villain_combo[index])
    expected = -sum(math.log(row[truth]) for row in trajectory.probabilities)
    assert scores.metric_sums[index, 0] == pytest.approx(expected, rel=1e-4)


def test_the_checkpoints_temperature_flattens_every_answer_and_moves_no_rank() -> None:
    """Asked for a belief, for all of them, or scored, the reader must be the one whose calibration was reported."""
    model, hand = _model(), hands.three_way_showdown()
    plain = _reader(model).trajectory(hand, 1, 0).probabilities
    tempered = RangeReader(model, CheckpointSidecar(model=model.config, temperature=2.0), CPU)
    expected = np.sqrt(plain) / np.sqrt(plain).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(tempered.trajectory(hand, 1, 0).probabilities, expected, atol=1e-7)
    np.testing.assert_allclose(tempered.belief(hand, 1, 0), expected[-1], atol=1e-7)
    reads = HandEncoder().encode_hands([hand])[0]
    before, after = evaluate([ModelReader(model=model), ModelReader(model=model, temperature=2.0, name="tempered")], reads)
    ranks = METRICS.index("mean_rank")
    assert after.metric_sums[:, ranks] == pytest.approx(before.metric_sums[:, ranks], abs=3)  # ties of rounding
    index = int(np.flatnonzero((reads.villain_seat == 1) & (reads.perspective_seat == 0))[0])
    assert after.metric_sums[index, 0] == pytest.approx(-np.log(expected[:, int(reads.villain_combo[index])]).sum(), rel=1e-4)


def test_load_reads_a_checkpoint_folder(tmp_path: Path) -> None:
    """What was saved must be what answers."""
    model = _model()
    save_checkpoint(tmp_path / "best.safetensors", model, CheckpointSidecar(model=model.config))
    loaded = RangeReader.load(tmp_path, device="cpu")
    hand = hands.three_way_showdown()
    np.testing.assert_array_equal(loaded.belief(hand, 0, 2), _reader(model).belief(hand, 0, 2))
    assert loaded.device == CPU


def test_cuda_asked_for_and_absent_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Falling back to the CPU in silence would look like a hang."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="use 'auto' or 'cpu'"):
        RangeReader.load(tmp_path, device="cuda")
    with pytest.raises(ValueError, match="expected device"):
        choose_device("gpu")
    assert choose_device("auto") == CPU


def test_top_combos_are_sorted_and_possible() -> None:
    """A list padded with impossible combos would read as a prediction of them."""
    probabilities: npt.NDArray[np.float64] = np.zeros(1326)
    probabilities[[7, 3, 1000]] = [0.25, 0.25, 0.5]
    assert top_combos(probabilities, 2) == ((1000, 0.5), (3, 0.25))
    assert top_combos(probabilities, 10) == ((1000, 0.5), (3, 0.25), (7, 0.25))
