"""The decoder: causality by gradient, padding, both arms of the positional encoding, heads, size and start."""

import itertools
from dataclasses import replace

import pytest
import torch

from range_reader_core import cards
from range_reader_core.batching import DeviceReads
from range_reader_core.blocks import Attention, FeedForward, attend, rms_norm, rotate
from range_reader_core.encoder import HandEncoder
from range_reader_core.model import HeadKind, ModelConfig, RangeReaderModel, init_weights
from range_reader_core.presets import base, reference
from tests.core.hands import random_hands

# No two axes alike: B=2 or more, T=7, D=18, H=3, E=6, query 64, C=1326.
SMALL = ModelConfig(num_layers=2, width=18, num_heads=3, dropout=0.0)


def stirred(config: ModelConfig) -> RangeReaderModel:
    """Return a model in which no weight is zero, so that nothing is hidden by an output that starts at zero."""
    model = RangeReaderModel(config).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return model


def batch_of(num: int = 5, *, seed: int = 3) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """Return padded tokens and values of reads of different tables, and their lengths."""
    reads, _ = HandEncoder().encode_hands(random_hands(seed, 12))
    every = reads.num_reads // num
    resident = DeviceReads.from_reads(reads, torch.device("cpu"))
    indices = resident.lengths.argsort()[::every][:num]
    batch = resident.batch(indices)
    return batch.tokens, batch.values, resident.lengths[indices].tolist()


@pytest.mark.parametrize(("head", "names_suits"), [("flat", False), ("composed", False), ("composed", True)])
@pytest.mark.parametrize("rope", [False, True])
def test_logits_do_not_depend_on_later_positions(rope: bool, head: HeadKind, names_suits: bool) -> None:
    """A mask off by one lets the model read the future in training and fail in use; the gradient must be exactly zero."""
    model = stirred(replace(SMALL, rope=rope, head=head, names_suits=names_suits))
    stream, values, _ = batch_of()
    stream, values = stream[:2, :7], values[:2, :7]
    entering = model.embed(stream, values).detach().requires_grad_()
    alike = torch.tensor([0, 2]) if names_suits else None
    for position in range(7):
        (gradient,) = torch.autograd.grad(model.logits(model.trunk(entering)[:, position], alike).square().sum(), entering)
        size = gradient.abs().amax(dim=-1)  # (B, T)
        assert (size[:, position + 1 :] == 0.0).all()
        assert (size[:, : position + 1] > 0.0).all()


@pytest.mark.parametrize("rope", [False, True])
def test_padding_changes_no_real_position(rope: bool) -> None:
    """A read must score the same alone and beside longer ones."""
    model = stirred(replace(SMALL, rope=rope))
    stream, values, lengths = batch_of()
    assert len(set(lengths)) > 1
    together = model(stream, values)
    for row, length in enumerate(lengths):
        alone = model(stream[row : row + 1, :length], values[row : row + 1, :length])
        assert torch.allclose(together[row, :length], alone[0], atol=1e-5)


@pytest.mark.parametrize("rope", [False, True])
def test_a_folded_opening_keeps_every_stack(rope: bool) -> None:
    """The blocks begin at the hole slots, in batches of different tables too; a stack left out would be money unseen."""
    model = stirred(replace(SMALL, rope=rope, folds_opening=True))
    stream, values, lengths = batch_of()
    num_players = (stream < 16).sum(dim=1)
    assert len(set(num_players.tolist())) > 1
    x, begin = model.enter(stream, values)
    assert begin.tolist() == (num_players + 3).tolist()
    assert x.shape[1] == stream.shape[1] - int(begin.min())
    embedded = model.embed(stream, values)
    for row, (num, length) in enumerate(zip(num_players.tolist(), lengths, strict=True)):
        assert torch.allclose(x[row, :num], embedded[row, num + 3 : 2 * num + 3] + embedded[row, 1 : num + 1], atol=1e-6)
        assert torch.equal(x[row, num : length - num - 3], embedded[row, 2 * num + 3 : length])
        alone = model(stream[row : row + 1, :length], values[row : row + 1, :length])[0, num + 3 :]
        assert torch.allclose(model(stream, values)[row, num + 3 : length], alone, atol=1e-5)
        if row:
            continue
        for seat in range(num):
            changed = values.clone()
            changed[row, 1 + seat] += 30.0
            assert not torch.allclose(model(stream, changed)[row, length - 1], alone[-1], atol=1e-4)
    positions = torch.stack([torch.tensor([length - 1, length - 2]) for length in lengths])
    expected = model.hidden(stream, values).gather(1, positions.unsqueeze(-1).expand(-1, -1, SMALL.width))
    assert torch.allclose(model.hidden_at(stream, values, positions), expected, atol=1e-5)


@pytest.mark.parametrize("rope", [False, True])
def test_asking_for_some_positions_gives_their_hidden_vectors(rope: bool) -> None:
    """The short cut through the last block must be the same function, or training and use would differ."""
    model = stirred(replace(SMALL, rope=rope))
    stream, values, lengths = batch_of()
    positions = torch.stack([torch.tensor([0, length // 2, length - 1, length // 2]) for length in lengths])  # (B, Q)
    everywhere = model.hidden(stream, values)
    expected = everywhere.gather(1, positions.unsqueeze(-1).expand(-1, -1, SMALL.width))
    assert torch.allclose(model.hidden_at(stream, values, positions), expected, atol=1e-5)


def test_the_two_arms_differ_only_by_the_rotation() -> None:
    """A rope flag that nobody reads would make the A/B a comparison of seeds."""
    stream, values, _ = batch_of()
    without, rotated = stirred(SMALL), stirred(replace(SMALL, rope=True))
    assert not torch.allclose(without(stream, values), rotated(stream, values), atol=1e-3)
    with torch.no_grad():
        for model in (without, rotated):
            for module in model.modules():
                if isinstance(module, Attention):
                    module.query.zero_()  # equal scores: nothing left for a rotation to change
    assert torch.allclose(without(stream, values), rotated(stream, values), atol=1e-5)


def test_rotated_scores_depend_on_distance_alone() -> None:
    """That is what makes it a relative encoding; the angle itself must move with the position."""
    generator = torch.Generator().manual_seed(5)
    q, k = torch.randn(1, 1, 1, 6, generator=generator), torch.randn(1, 1, 1, 6, generator=generator)

    def score(query_at: int, key_at: int) -> float:
        return float((rotate(q, torch.tensor([[query_at]])) * rotate(k, torch.tensor([[key_at]]))).sum())

    assert score(9, 4) == pytest.approx(score(25, 20), abs=1e-5)
    assert score(9, 4) != pytest.approx(score(9, 5), abs=1e-3)


def test_written_out_attention_equals_the_library() -> None:
    """It is used for its speed alone."""
    generator = torch.Generator().manual_seed(5)
    q, k, v = (torch.randn(2, 3, 7, 6, generator=generator) for _ in range(3))  # (B, H, T, E)
    is_visible_key = torch.ones(7, 7, dtype=torch.bool).tril()
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.allclose(attend(q, k, v, is_visible_key), expected, atol=1e-5)


def test_queries_and_keys_are_normalised() -> None:
    """Their size must not sharpen attention: that is what keeps large models stable without a warm-up of the scores."""
    model = stirred(SMALL)
    stream, values, _ = batch_of()
    expected = model(stream, values)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, Attention):
                module.query *= 7.0
                module.key_value[: SMALL.width] *= 3.0
    assert torch.allclose(model(stream, values), expected, atol=1e-4)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, Attention):
                module.key_value[SMALL.width :] *= 3.0  # values are not
    assert not torch.allclose(model(stream, values), expected, atol=1e-2)


def test_the_mlp_squares_what_is_positive() -> None:
    """By hand: relu([2, -3])^2 = [4, 0], whether gradients are wanted or not."""
    mlp = FeedForward(2, 2)
    with torch.no_grad():
        mlp.expand.copy_(torch.eye(2))
        mlp.out.copy_(torch.tensor([[1.0, 5.0], [0.5, 5.0]]))
    x = torch.tensor([[2.0, -3.0]])
    assert mlp(x).tolist() == [[4.0, 2.0]]
    with torch.inference_mode():
        assert mlp(x).tolist() == [[4.0, 2.0]]


def test_rms_norm_by_hand() -> None:
    """No learned scale, no mean taken off."""
    assert torch.allclose(rms_norm(torch.tensor([3.0, 4.0])), torch.tensor([3.0, 4.0]) / 12.5**0.5, atol=1e-5)


def test_the_reference_is_between_50_1_and_50_4_million_parameters_and_base_no_larger() -> None:
    """The size is part of what every claimed gain is measured against."""
    num_reference, num_base = (RangeReaderModel(config.model).num_parameters() for config in (reference(), base()))
    assert 50_100_000 <= num_reference <= 50_400_000
    assert 49_000_000 <= num_base <= num_reference


@pytest.mark.parametrize("has_all", [False, True])
@pytest.mark.parametrize("head", ["flat", "composed"])
def test_init_sets_every_parameter_from_its_generator(head: HeadKind, has_all: bool) -> None:
    """A parameter left out holds whatever was in memory."""
    is_named = has_all and head == "composed"
    model = RangeReaderModel(replace(SMALL, head=head, reads_betting=has_all, names_suits=is_named, reads_hands=is_named))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(torch.nan)
    init_weights(model, torch.Generator().manual_seed(7))
    first = [parameter.clone() for parameter in model.parameters()]
    assert all(parameter.isfinite().all() for parameter in first)
    init_weights(model, torch.Generator().manual_seed(7))
    assert all(torch.equal(a, b) for a, b in zip(first, model.parameters(), strict=True))
    init_weights(model, torch.Generator().manual_seed(8))
    assert any(not torch.equal(a, b) for a, b in zip(first, model.parameters(), strict=True))


@pytest.mark.parametrize("head", ["flat", "composed"])
def test_an_untrained_reader_answers_with_what_its_bias_was_started_at(head: HeadKind) -> None:
    """Starting at the static range saves the steps that learning it would take."""
    model = RangeReaderModel(replace(SMALL, head=head)).eval()
    stream, values, _ = batch_of()
    assert (model(stream, values) == 0.0).all()
    class_logp = torch.randn(cards.NUM_CLASSES, generator=torch.Generator().manual_seed(1))
    combo_logp = class_logp[torch.from_numpy(cards.COMBO_CLASS)]
    model.head.start_at(combo_logp)
    assert torch.allclose(model(stream, values), combo_logp.expand(*stream.shape, -1))


def test_the_composed_head_treats_combos_of_a_class_alike_but_for_their_cards() -> None:
    """With the cards' own vectors equal, suits cannot matter; that is where its gain comes from."""
    model = stirred(replace(SMALL, head="composed"))
    with torch.no_grad():
        model.head.card.copy_(model.head.card[:1].expand_as(model.head.card))
    stream, values, _ = batch_of()
    logits = model(stream, values)[0, -1]
    of_class = torch.from_numpy(cards.COMBO_CLASS)
    for index in range(cards.NUM_CLASSES):
        assert logits[of_class == index].std(unbiased=False) < 1e-5


def test_a_model_that_names_suits_must_be_told_which_are_alike() -> None:
    """Scoring every position with one table would be exact at some positions and wrong at others."""
    hidden = torch.randn(3, SMALL.width, generator=torch.Generator().manual_seed(2))
    alike = torch.tensor([0, 3, 5])
    for names_suits, given in ((True, None), (False, alike)):
        with pytest.raises(ValueError, match="suits alike"):
            stirred(replace(SMALL, head="composed", names_suits=names_suits)).logits(hidden, given)


def test_dropout_acts_in_training_mode_alone() -> None:
    """Scores must not change from call to call."""
    model = stirred(replace(SMALL, dropout=0.5))
    stream, values, _ = batch_of()
    assert torch.equal(model(stream, values), model(stream, values))
    model.train()
    assert not torch.equal(model(stream, values), model(stream, values))


def test_every_field_of_the_config_changes_the_model() -> None:
    """A field that nobody reads is a lie."""
    stream, values, _ = batch_of()
    expected = stirred(SMALL)(stream, values)
    changes = {"num_layers": 3, "width": 36, "num_heads": 1, "rope": True, "mlp_ratio": 2, "head": "composed"}
    for name, value in changes.items():
        assert not torch.equal(stirred(replace(SMALL, **{name: value}))(stream, values), expected), name
    composed = replace(SMALL, head="composed")
    named = replace(composed, names_suits=True)
    changed = [replace(named, **{name: True}) for name in ("reads_betting", "folds_opening", "reads_hands")]
    answers = [stirred(config)(stream, values) for config in (composed, named, *changed)]
    for first, second in itertools.combinations(answers, 2):
        assert not torch.allclose(first, second, atol=1e-3)
    with pytest.raises(ValueError, match="at most 9 positions"):
        RangeReaderModel(replace(SMALL, max_positions=9))(stream, values)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_layers", 0),
        ("width", 20),
        ("num_heads", 0),
        ("dropout", 1.0),
        ("max_positions", 0),
        ("mlp_ratio", 0),
        ("head", "deep"),
        ("names_suits", True),  # with the flat head
        ("reads_hands", True),  # without named suits
    ],
)
def test_an_impossible_size_is_refused(field: str, value: object) -> None:
    """It would fail later, in the middle of a forward."""
    with pytest.raises(ValueError, match="model: "):
        replace(SMALL, **{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("stream", "values", "message"),
    [
        (torch.zeros(2, 7, dtype=torch.int32), torch.zeros(2, 7), "int64 tokens"),
        (torch.zeros(2, 7, dtype=torch.int64), torch.zeros(2, 7, dtype=torch.float64), "float32 values"),
        (torch.zeros(7, dtype=torch.int64), torch.zeros(7), "one shape"),
        (torch.zeros(2, 7, dtype=torch.int64), torch.zeros(2, 5), "one shape"),
    ],
)
def test_wrong_inputs_are_named(stream: torch.Tensor, values: torch.Tensor, message: str) -> None:
    """A silent broadcast or cast would train on something else."""
    with pytest.raises(ValueError, match=message):
        RangeReaderModel(SMALL)(stream, values)
