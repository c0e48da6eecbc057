"""Claims about what a person can set."""

import dagster as dg
import pytest

from range_reader_pipeline.config import (
    GradingConfig,
    RangeReportConfig,
    SharpeningConfig,
    StratifiedConfig,
    TrainingConfig,
    core_train_config,
    init_from,
    max_reads,
    preset_name,
)

CHANGED = {
    "preset": "reference",
    "train_minutes": 7.0,
    "max_steps": 11,
    "batch_size": 17,
    "learning_rate": 0.0123,
    "seed": 5,
    "precision": "float32",
    "num_evaluations": 3,
    "is_compiled": False,
}
USED_BY_THE_RUN = {"device", "retrain", "init_from"}  # where and whether to train, tested with the asset


@pytest.mark.parametrize("field", CHANGED)
def test_every_field_changes_the_core_configuration(field: str) -> None:
    """Prevents a field in the launchpad that nobody reads."""
    plain = core_train_config(TrainingConfig(), has_gpu=False, environment={})
    assert core_train_config(TrainingConfig(**{field: CHANGED[field]}), has_gpu=False, environment={}) != plain


def test_no_field_is_left_out_of_the_test_above() -> None:
    """Prevents a new field from slipping past it."""
    assert set(TrainingConfig.model_fields) == set(CHANGED) | USED_BY_THE_RUN


@pytest.mark.parametrize("config", [TrainingConfig, StratifiedConfig, SharpeningConfig, RangeReportConfig])
def test_every_field_has_help_and_a_default(config: type[dg.Config]) -> None:
    """Prevents a Materialize button that asks before it does anything, and a launchpad that explains nothing."""
    assert config.model_fields
    for name, field in config.model_fields.items():
        assert field.description, name
        assert not field.is_required(), name


@pytest.mark.parametrize(
    ("preset", "has_gpu", "environment", "expected"),
    [
        ("auto", False, {}, "cpu"),
        ("auto", True, {}, "base"),
        ("auto", True, {"RANGE_READER_PRESET": "tiny"}, "tiny"),
        ("auto", False, {"RANGE_READER_PRESET": ""}, "cpu"),
        ("reference", False, {"RANGE_READER_PRESET": "tiny"}, "reference"),
    ],
)
def test_what_is_set_beats_the_environment_which_beats_the_device(
    preset: str, has_gpu: bool, environment: dict[str, str], expected: str
) -> None:
    """Prevents `make ui PRESET=tiny` from being ignored, and from overriding the launchpad."""
    assert preset_name(TrainingConfig(preset=preset), has_gpu=has_gpu, environment=environment) == expected


def test_scheduled_trainings_begin_as_the_environment_says_and_the_launchpad_wins() -> None:
    """Prevents a sensor, which sets nothing, from always training from scratch on data that grew by a tenth."""
    environment = {"RANGE_READER_INIT_FROM": "kept_or_scratch"}
    assert init_from(TrainingConfig(), environment=environment) == "kept_or_scratch"
    assert init_from(TrainingConfig(init_from="scratch"), environment=environment) == "scratch"
    assert init_from(TrainingConfig(), environment={"RANGE_READER_INIT_FROM": ""}) == "scratch"


def test_minutes_end_a_run_that_its_preset_ends_by_steps() -> None:
    """Prevents TRAIN_MINUTES from being ignored by presets that count steps."""
    config = core_train_config(TrainingConfig(preset="tiny"), has_gpu=False, environment={"RANGE_READER_TRAIN_MINUTES": "0.5"})
    assert (config.budget_seconds, config.max_steps) == (30.0, None)
    both = core_train_config(TrainingConfig(preset="tiny", train_minutes=2, max_steps=9), has_gpu=False, environment={})
    assert (both.budget_seconds, both.max_steps) == (120.0, 9)


def test_a_short_training_does_not_spend_its_budget_on_compiling() -> None:
    """Prevents TRAIN_MINUTES=2 from ending after one step: compiling takes minutes on a small machine."""
    environment: dict[str, str] = {}
    assert core_train_config(TrainingConfig(preset="cpu"), has_gpu=False, environment=environment).is_compiled
    assert not core_train_config(TrainingConfig(preset="cpu", train_minutes=2), has_gpu=False, environment=environment).is_compiled
    assert not core_train_config(TrainingConfig(preset="cpu", max_steps=9), has_gpu=False, environment=environment).is_compiled
    asked = TrainingConfig(preset="cpu", train_minutes=2, is_compiled=True)
    assert core_train_config(asked, has_gpu=False, environment=environment).is_compiled


def test_log_lines_stay_few_however_long_the_training() -> None:
    """Prevents an event log of tens of thousands of lines after a night of training."""
    for minutes in (1.0, 35.0, 600.0):
        config = core_train_config(TrainingConfig(train_minutes=minutes), has_gpu=False, environment={})
        assert config.budget_seconds / config.report_every_s <= 400
        assert config.report_every_s >= 5.0


@pytest.mark.parametrize(
    ("setting", "environment", "message"),
    [
        ({"preset": "huge"}, {}, "no preset 'huge'; choose one of"),
        ({"precision": "float8"}, {}, "precision"),
        ({"init_from": "best"}, {}, "init_from .* scratch or kept or kept_or_scratch, got 'best'"),
        ({}, {"RANGE_READER_INIT_FROM": "last"}, "got 'last'"),
        ({}, {"RANGE_READER_TRAIN_MINUTES": "soon"}, "expected a number of minutes"),
        ({"train_minutes": -1.0}, {}, "TRAIN_MINUTES"),
        ({"train_minutes": 0.0}, {"RANGE_READER_TRAIN_MINUTES": "5"}, "above 0"),
        ({"train_minutes": float("inf")}, {}, "up to"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_is_possible(
    setting: dict[str, object], environment: dict[str, str], message: str
) -> None:
    """Prevents a typo from training something else for half an hour."""
    with pytest.raises(ValueError, match=message):
        core_train_config(TrainingConfig(**setting), has_gpu=False, environment=environment)


def test_grading_takes_all_reads_or_so_many_and_never_the_training_split() -> None:
    """Prevents a report on hands that the model has seen."""
    assert max_reads(GradingConfig(max_reads=0)) is None
    assert max_reads(GradingConfig(max_reads=7, split="val")) == 7
    with pytest.raises(ValueError, match="expected split 'test' or 'val', got 'train'"):
        max_reads(GradingConfig(split="train"))
    with pytest.raises(ValueError, match="at least 0"):
        max_reads(GradingConfig(max_reads=-1))
