"""What a person can set in the launchpad for training and grading, with help on every field.

Only this module turns a ``dg.Config`` into the core's dataclasses. Every field has a default, so that one press of Materialize is
enough. Nothing here can name a path, a module or a command: who reaches the UI may set any of it.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import dagster as dg
from pydantic import Field

if TYPE_CHECKING:
    from range_reader_core.train_config import TrainConfig

PRESET_VARIABLE: Final = "RANGE_READER_PRESET"
MINUTES_VARIABLE: Final = "RANGE_READER_TRAIN_MINUTES"
INIT_FROM_VARIABLE: Final = "RANGE_READER_INIT_FROM"
FIRST_LOOK_MINUTES: Final = 8.0  # so that dealing, encoding, training and grading take less than a quarter of an hour on two cores
MAX_REPORTS: Final = 400  # log lines of one training, about
MIN_REPORT_S: Final = 5.0
MAX_MINUTES: Final = 30 * 24 * 60.0  # a month
SCRATCH: Final = "scratch"
KEPT: Final = "kept"
INIT_FROM: Final = (SCRATCH, KEPT, "kept_or_scratch")
WARM_START_RATE: Final = 0.4  # of the peak learning rate, where training starts from trained weights
MIN_COMPILED_BUDGET_S: Final = 600.0  # compiling the cpu preset took 161 s on a busy two-core machine (2026-11-30)


class TrainingConfig(dg.Config):
    """How to train. What is left unset follows the preset."""

    preset: str = Field(
        default="auto",
        description=(
            "Size and recipe: tiny (seconds, learns next to nothing), cpu, base (about 50M parameters, for a GPU), reference (the "
            "published recipe), reference_cpu. auto: $RANGE_READER_PRESET, else base with a CUDA GPU, else cpu."
        ),
    )
    train_minutes: float | None = Field(
        default=None,
        description=(
            "Wall-clock budget in minutes, validation included. Unset: $RANGE_READER_TRAIN_MINUTES, else the preset's own "
            "(20 for cpu, 35 for base)."
        ),
    )
    max_steps: int | None = Field(
        default=None, description="End after so many steps instead of by the clock; repeatable bit for bit on a CPU."
    )
    batch_size: int | None = Field(
        default=None, description="Reads per step. A read is one (villain, perspective) pair of one hand."
    )
    learning_rate: float | None = Field(default=None, description="Peak learning rate; warmed up, then lowered along a cosine.")
    seed: int = Field(default=0, description="Seed of the initial weights, the order of the reads and the suit relabelings.")
    device: str = Field(default="auto", description="auto (CUDA where there is one), cpu or cuda.")
    precision: str = Field(default="auto", description="auto (bfloat16 where the hardware is fast at it), float32 or bfloat16.")
    is_compiled: bool | None = Field(
        default=None,
        description=(
            "Compile the model first: one to three minutes of the budget, then faster steps. Unset: as the preset says, but never "
            "for budgets of less than ten minutes."
        ),
    )
    num_evaluations: int | None = Field(
        default=None, description="How often to validate, evenly spaced; the best validation's weights are kept."
    )
    init_from: str = Field(
        default="auto",
        description=(
            "What the weights begin as. auto: $RANGE_READER_INIT_FROM, else scratch. scratch: random. kept: those of the kept "
            "checkpoint, for data that has grown; refused where its model is another one. kept_or_scratch: the same, but random "
            "where nothing is kept yet or it does not fit. A run that began with the kept weights replaces them only if it reads "
            "the same val hands no worse."
        ),
    )
    retrain: bool = Field(
        default=False,
        description=(
            "Train again although this very configuration has already finished on this very data. The kept checkpoint is replaced "
            "only by a better one."
        ),
    )


class GradingConfig(dg.Config):
    """What to grade the kept checkpoint on."""

    split: str = Field(
        default="test",
        description=(
            "test: hands that nothing has been chosen by. val: the hands that chose the checkpoint, as in the reference's tables."
        ),
    )
    max_reads: int = Field(
        default=30_000, description="Grade the first so many reads of the split, a uniform sample of it; 0 grades all of them."
    )
    device: str = Field(default="auto", description="auto (CUDA where there is one), cpu or cuda.")


class StratifiedConfig(GradingConfig):
    """How to grade by what became of the villain."""

    num_relabelings: int = Field(
        default=24, description="24 averages the read over all suit relabelings; 1 is a single forward, 24 times as fast."
    )


class SharpeningConfig(GradingConfig):
    """How to grade street by street."""

    num_relabelings: int = Field(
        default=1, description="1 is a single forward, as in the reference's table; 24 averages over suit relabelings."
    )


class RangeReportConfig(GradingConfig):
    """Which hands to draw."""

    num_relabelings: int = Field(
        default=24, description="24 averages the read over all suit relabelings; 1 is a single forward, 24 times as fast."
    )
    num_hands: int = Field(default=6, description="How many of the hands read best to draw, and as many typical ones.")
    hands: list[str] = Field(
        default=[],
        description="Ids of further hands of the split to draw, as the column hand_id of the shards and reports has them.",
    )


def preset_name(config: TrainingConfig, *, has_gpu: bool, environment: Mapping[str, str] = os.environ) -> str:
    """Return the preset that a configuration names, "auto" resolved."""
    if config.preset != "auto":
        return config.preset
    return environment.get(PRESET_VARIABLE) or ("base" if has_gpu else "cpu")


def init_from(config: TrainingConfig, *, environment: Mapping[str, str] = os.environ) -> str:
    """Return what the weights begin as, one of ``INIT_FROM``.

    Raises:
        ValueError: configuration or environment names something else.
    """
    asked = config.init_from if config.init_from != "auto" else environment.get(INIT_FROM_VARIABLE) or SCRATCH
    if asked not in INIT_FROM:
        msg = f"expected init_from ({INIT_FROM_VARIABLE}) {' or '.join(INIT_FROM)}, got {asked!r}"
        raise ValueError(msg)
    return asked


def core_train_config(config: TrainingConfig, *, has_gpu: bool, environment: Mapping[str, str] = os.environ) -> "TrainConfig":
    """Return the core's training configuration.

    Args:
        config: what a person set.
        has_gpu: whether the device trained on is a GPU.
        environment: where ``RANGE_READER_PRESET`` and ``RANGE_READER_TRAIN_MINUTES`` are looked up; empty counts as unset.

    Raises:
        ValueError: a value is outside its range, or there is no such preset.
    """
    from range_reader_core.presets import preset

    init_from(config, environment=environment)
    base = preset(preset_name(config, has_gpu=has_gpu, environment=environment))
    minutes = config.train_minutes
    if minutes is None:
        minutes = _minutes(environment.get(MINUTES_VARIABLE) or None)
    if minutes is not None:
        if not 0.0 < minutes <= MAX_MINUTES:
            msg = f"expected a training budget (TRAIN_MINUTES) above 0 and up to {MAX_MINUTES:g} minutes, got {minutes:g}"
            raise ValueError(msg)
        base = replace(base, budget_seconds=60.0 * minutes, max_steps=None)
    if base.budget_seconds < MIN_COMPILED_BUDGET_S or config.max_steps is not None:
        base = replace(base, is_compiled=False)
    overrides = {
        name: value
        for name in ("max_steps", "batch_size", "learning_rate", "num_evaluations", "is_compiled")
        if (value := getattr(config, name)) is not None
    }
    return replace(
        base,
        seed=config.seed,
        precision=config.precision,  # type: ignore[arg-type]  # a person's text; checked by TrainConfig
        report_every_s=max(MIN_REPORT_S, base.budget_seconds / MAX_REPORTS),
        **overrides,
    )


def first_look_minutes(
    preset: str | None, minutes: float | None, *, has_gpu: bool, environment: Mapping[str, str] = os.environ
) -> float | None:
    """Return the budget of a training on hands that the arena deals, where nobody has chosen a preset or a budget; else None."""
    is_chosen = minutes is not None or preset or environment.get(PRESET_VARIABLE) or environment.get(MINUTES_VARIABLE)
    return None if is_chosen or has_gpu else FIRST_LOOK_MINUTES


def max_reads(config: GradingConfig) -> int | None:
    """Return how many reads to grade, None for all.

    Raises:
        ValueError: the split is not one to grade on, or the number is negative.
    """
    if config.split not in {"test", "val"}:
        msg = f"expected split 'test' or 'val', got {config.split!r}"
        raise ValueError(msg)
    if config.max_reads < 0:
        msg = f"expected max_reads of at least 0 (0 is all), got {config.max_reads}"
        raise ValueError(msg)
    return config.max_reads or None


def _minutes(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError as error:
        msg = f"{MINUTES_VARIABLE} (TRAIN_MINUTES): expected a number of minutes such as 20 or 0.5, got {text!r}"
        raise ValueError(msg) from error
