"""What a person can set for experiments, and the named switches that an ablation turns.

A switch is a name for changed fields of ``TrainConfig``; ``model.`` leads into ``ModelConfig``. An arm may also be given as such
fields, so that anything that can be configured can be compared. Values are JSON, or text where they are not.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

import dagster as dg
from pydantic import Field

if TYPE_CHECKING:
    from range_reader_core.train_config import TrainConfig

SWITCHES: Final[Mapping[str, Mapping[str, object]]] = {
    "all positions": {"positions_per_read": None},
    "2 positions a read": {"positions_per_read": 2},
    "uniform start": {"starts_at_static_range": False},
    "flat head": {"model.head": "flat", "model.names_suits": False, "model.reads_hands": False, "has_random_relabeling": True},
    "suits relabeled at random": {"model.names_suits": False, "model.reads_hands": False, "has_random_relabeling": True},
    "betting not told": {"model.reads_betting": False},
    "hands not evaluated": {"model.reads_hands": False},
    "opening not folded": {"model.folds_opening": False},
    "no watchers": {"watcher_share": 0.0},
    "dropout": {"model.dropout": 0.15},
    "rotary positions": {"model.rope": True},
    "batches of 256": {"batch_size": 256},
    "rate of the reference": {"learning_rate": 6e-4},
    "average of the reference": {"average_decay": 0.99},
    "not compiled": {"is_compiled": False},
}


class ExperimentConfig(dg.Config):
    """How long, how often and on how much arms are compared."""

    minutes: float = Field(default=10.0, description="Wall-clock budget of each arm and seed, validation and set-up included.")
    max_steps: int | None = Field(default=None, description="End each arm after so many steps instead; then arms see equal reads.")
    seeds: int = Field(default=3, description="How often each arm is trained. With one seed nothing can be told apart.")
    scored_reads: int = Field(default=20_000, description="Val reads on which arms are compared, a single forward each.")
    device: str = Field(default="auto", description="auto (CUDA where there is one), cpu or cuda.")


class PositionalEncodingConfig(ExperimentConfig):
    """The comparison of positional encodings."""

    preset: str = Field(
        default="auto",
        description="The recipe of both arms. auto: reference with a CUDA GPU, else reference_cpu, the same at the size of cpu.",
    )


class AblationsConfig(ExperimentConfig):
    """The comparison of the default with single switches turned."""

    preset: str = Field(default="auto", description="What switches are turned in. auto: base with a CUDA GPU, else cpu.")
    arms: list[str] = Field(
        default=["flat head", "suits relabeled at random", "all positions", "uniform start"],
        description=(
            "Switches to turn, each in an arm of its own: "
            + ", ".join(SWITCHES)
            + ". Or fields with values, such as 'learning_rate=0.001, model.num_layers=2'."
        ),
    )


def switched(config: "TrainConfig", arm: str) -> "TrainConfig":
    """Return a configuration with the switch or the fields of an arm.

    Raises:
        ValueError: there is no such switch or field, or a value is impossible.
    """
    changes = SWITCHES[arm] if arm in SWITCHES else _parsed(arm)
    model_changes: dict[str, Any] = {
        name.removeprefix("model."): value for name, value in changes.items() if name.startswith("model.")
    }
    own_changes: dict[str, Any] = {name: value for name, value in changes.items() if not name.startswith("model.")}
    for owner, names in ((config.model, model_changes), (config, own_changes)):
        known = {field.name for field in fields(owner)} - {"model", "seed", "budget_seconds", "max_steps"}
        for name in names:
            if name not in known:
                msg = f"arm {arm!r}: {name!r} is neither a switch ({', '.join(SWITCHES)}) nor one of {', '.join(sorted(known))}"
                raise ValueError(msg)
    try:
        return replace(config, model=replace(config.model, **model_changes), **own_changes)
    except (ValueError, TypeError) as error:
        msg = f"arm {arm!r}: {error}"
        raise ValueError(msg) from error


def _parsed(arm: str) -> dict[str, object]:
    changes: dict[str, object] = {}
    for part in arm.split(","):
        name, equals, text = part.partition("=")
        if not equals:
            msg = f"arm {arm!r}: expected a switch ({', '.join(SWITCHES)}) or fields such as 'learning_rate=0.001'"
            raise ValueError(msg)
        try:
            changes[name.strip()] = json.loads(text)
        except json.JSONDecodeError:
            changes[name.strip()] = text.strip()
    return changes
