"""The configurations that have a name."""

from dataclasses import replace

import pytest

from range_reader_core.presets import PRESETS, cpu, preset, reference, reference_cpu


def test_presets_by_name() -> None:
    """The names are what people type."""
    assert {name: preset(name) for name in PRESETS} == {name: make() for name, make in PRESETS.items()}
    with pytest.raises(ValueError, match="choose one of tiny, cpu, base, reference"):
        preset("huge")


def test_the_reference_is_the_design_to_the_letter() -> None:
    """Every claimed gain is against it."""
    config = reference()
    assert (config.model.num_layers, config.model.width, config.model.num_heads, config.model.dropout) == (10, 640, 10, 0.15)
    assert (config.model.head, config.model.rope, config.model.mlp_ratio) == ("flat", False, 4)
    assert (config.beta1, config.beta2, config.learning_rate, config.weight_decay) == (0.9, 0.95, 6e-4, 0.20)
    assert (config.final_fraction, config.average_decay, config.budget_seconds) == (0.1, 0.99, 35 * 60)
    assert config.positions_per_read is None
    assert config.has_random_relabeling
    assert not config.starts_at_static_range
    assert config.watcher_share == 0.0
    size, ours = cpu().model, reference_cpu()
    assert (ours.model.num_layers, ours.model.width, ours.model.num_heads) == (size.num_layers, size.width, size.num_heads)
    assert replace(ours, model=config.model, budget_seconds=config.budget_seconds) == config
