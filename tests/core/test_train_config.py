"""Every setting of a training has an effect, and a limit."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from range_reader_core.reads import Reads
from range_reader_core.train_config import TrainConfig
from tests.core.training_runs import SMALL, run, timeless

pytestmark = pytest.mark.usefixtures("one_thread")

SHORT = replace(SMALL, max_steps=4, num_evaluations=2)
CHANGES: dict[str, object] = {
    "model": replace(SMALL.model, num_layers=1),
    "batch_size": 9,
    "max_steps": 5,
    "learning_rate": 1e-3,
    "warmup_fraction": 0.5,
    "final_fraction": 0.9,
    "beta1": 0.5,
    "beta2": 0.5,
    "weight_decay": 5.0,
    "max_gradient_norm": 1e-3,
    "average_decay": 0.5,
    "positions_per_read": 2,
    "has_random_relabeling": False,
    "watcher_share": 0.5,
    "starts_at_static_range": False,
    "precision": "bfloat16",
    "eval_reads": 11,
    "num_evaluations": 4,
    "seed": 1,
}
# These change how the run goes and not what it computes; each has a test of its own.
ELSEWHERE = {"tie_errors", "budget_seconds", "is_compiled", "save_every_s", "report_every_s"}


def test_every_field_of_the_config_has_an_effect(reads: tuple[Reads, Reads], tmp_path: Path) -> None:
    """A field that nobody reads is a lie."""
    assert {field.name for field in fields(TrainConfig)} == set(CHANGES) | ELSEWHERE
    usual = timeless(run(reads, tmp_path / "usual", SHORT))
    for name, value in CHANGES.items():
        changed = replace(SHORT, **{name: value})  # type: ignore[arg-type]
        assert timeless(run(reads, tmp_path / name, changed)) != usual, name


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("batch_size", 0),
        ("budget_seconds", 0.0),
        ("max_steps", 0),
        ("learning_rate", float("nan")),
        ("warmup_fraction", 1.0),
        ("final_fraction", 1.5),
        ("beta1", -0.1),
        ("beta2", 1.0),
        ("weight_decay", -1.0),
        ("average_decay", 1.0),
        ("positions_per_read", 0),
        ("watcher_share", 1.1),
        ("precision", "float16"),
        ("seed", -1),
    ],
)
def test_a_value_outside_its_range_is_refused(field: str, value: object) -> None:
    """It would train on, and to nothing."""
    with pytest.raises(ValueError, match="training: expected"):
        replace(SMALL, **{field: value})  # type: ignore[arg-type]
