"""Named training configurations; change one with ``dataclasses.replace``.

``reference`` is the yardstick: the architecture and recipe of the design, to the letter. ``reference_cpu`` is the same recipe at
the size of ``cpu``, for comparisons at equal time on a machine without a GPU. ``cpu`` and ``base`` are the defaults of their
devices and may differ from the reference wherever that was measured to pay (``docs/experiments.md``).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from range_reader_core.model import ModelConfig
from range_reader_core.train_config import TrainConfig


def tiny() -> TrainConfig:
    """Return a configuration that trains in seconds and learns next to nothing: for tests and first looks."""
    model = with_poker_sense(ModelConfig(num_layers=2, width=32, num_heads=2, dropout=0.0))
    return TrainConfig(
        model=model,
        batch_size=32,
        budget_seconds=10.0,
        max_steps=30,
        learning_rate=2e-3,
        average_decay=0.9,
        positions_per_read=4,
        has_random_relabeling=False,
        starts_at_static_range=True,
        eval_reads=256,
        num_evaluations=3,
    )


def cpu() -> TrainConfig:
    """Return the default without a GPU: small, because in a quarter of an hour the number of steps decides."""
    model = with_poker_sense(ModelConfig(num_layers=2, width=96, num_heads=3, dropout=0.0))
    return TrainConfig(
        model=model,
        batch_size=64,  # half the reads a step, twice the steps: 0.03 nats ahead after 64k reads of rs_poker (2026-11)
        budget_seconds=20 * 60.0,
        learning_rate=2.5e-3,
        average_decay=0.998,
        positions_per_read=4,
        watcher_share=0.1,
        has_random_relabeling=False,
        starts_at_static_range=True,
        is_compiled=True,
        num_evaluations=15,
    )


def base() -> TrainConfig:
    """Return the default with a GPU: the reference with what made small models learn more per read and runs on the GPU itself.

    Its size is the reference's; neither that nor its rate has been tuned on a GPU.
    """
    plain = reference()
    return replace(
        plain,
        model=replace(plain.model, head="composed", names_suits=True, reads_betting=True),
        starts_at_static_range=True,
        watcher_share=0.1,
        has_random_relabeling=False,
        is_compiled=True,
    )


def reference() -> TrainConfig:
    """Return the reference configuration and recipe."""
    model = ModelConfig(num_layers=10, width=640, num_heads=10)
    return TrainConfig(model=model, batch_size=256, budget_seconds=35 * 60.0, tie_errors=0.0)


def reference_cpu() -> TrainConfig:
    """Return the reference recipe at the size and budget of ``cpu``."""
    size = cpu().model
    model = ModelConfig(num_layers=size.num_layers, width=size.width, num_heads=size.num_heads)
    return replace(reference(), model=model, budget_seconds=cpu().budget_seconds)


def with_poker_sense(model: ModelConfig) -> ModelConfig:
    """Return the model with everything that was found to make it learn poker faster than the reference."""
    return replace(model, head="composed", names_suits=True, reads_betting=True, reads_hands=True, folds_opening=True)


PRESETS: Final[Mapping[str, Callable[[], TrainConfig]]] = MappingProxyType(
    {function.__name__: function for function in (tiny, cpu, base, reference, reference_cpu)}
)


def preset(name: str) -> TrainConfig:
    """Return the configuration of a name in ``PRESETS``.

    Raises:
        ValueError: there is no preset of this name.
    """
    if name not in PRESETS:
        msg = f"no preset {name!r}; choose one of {', '.join(PRESETS)}"
        raise ValueError(msg)
    return PRESETS[name]()
