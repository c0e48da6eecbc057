"""How a reader is trained: one frozen record, one comment a field. Presets of it lie in ``presets``."""

from dataclasses import dataclass
from typing import Literal, get_args

from range_reader_core.model import ModelConfig

Precision = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """How a reader is trained.

    Raises:
        ValueError: on construction, when a value is outside its range.
    """

    model: ModelConfig
    batch_size: int  # reads a step
    budget_seconds: float  # wall-clock, validation and compilation included; ends the run unless max_steps is set
    max_steps: int | None = None  # ends the run instead of the clock; schedule and validations then go by steps
    learning_rate: float = 6e-4  # peak
    warmup_fraction: float = 0.02  # of the budget
    final_fraction: float = 0.1  # of the peak rate, at the end of the budget
    beta1: float = 0.9
    beta2: float = 0.95
    weight_decay: float = 0.20  # on parameters of two or more dimensions
    max_gradient_norm: float | None = None  # gradients are scaled down to it; None leaves them alone
    average_decay: float = 0.99  # of the weight average, a step
    positions_per_read: int | None = None  # random supervised positions scored a read and step; None scores all
    has_random_relabeling: bool = True  # a random suit relabeling per read and step
    watcher_share: float = 0.0  # of the reads of a step, read without the perspective's cards, as somebody who watches reads
    starts_at_static_range: bool = False  # the head's bias starts at the training villains' static range
    is_compiled: bool = False  # compile the blocks; falls back where that is not to be had
    precision: Precision = "auto"  # of the blocks; auto is bfloat16 where the hardware multiplies it fast
    eval_reads: int = 8192  # at most so many val reads are scored at each validation, one a hand and villain
    num_evaluations: int = 20  # validations, evenly spaced over the budget
    tie_errors: float = 2.0  # val mrr within so many standard errors of the highest is a tie, which the lower val loss wins
    save_every_s: float = 60.0  # seconds between saves of last/; each validation saves too
    report_every_s: float = 10.0  # seconds between Progress events
    seed: int = 0

    def __post_init__(self) -> None:
        """Check ranges."""
        positive = (
            "batch_size",
            "budget_seconds",
            "learning_rate",
            "eval_reads",
            "num_evaluations",
            "save_every_s",
            "report_every_s",
        )
        for name in (*positive, "max_steps", "max_gradient_norm", "positions_per_read"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                msg = f"training: expected {name} > 0, got {value}"
                raise ValueError(msg)
        fractions = ("warmup_fraction", "beta1", "beta2", "average_decay")
        shares = ("final_fraction", "watcher_share")
        is_outside = any(not 0.0 <= getattr(self, name) <= 1.0 for name in shares)
        if is_outside or any(not 0.0 <= getattr(self, name) < 1.0 for name in fractions):
            msg = f"training: expected {', '.join(fractions)} in [0, 1) and {' and '.join(shares)} in [0, 1], got {self}"
            raise ValueError(msg)
        if self.weight_decay < 0.0 or self.tie_errors < 0.0 or self.seed < 0 or self.precision not in get_args(Precision):
            msg = (
                f"training: expected weight_decay, tie_errors and seed of at least 0 and precision of {get_args(Precision)}, "
                f"got {self.weight_decay}, {self.tie_errors}, {self.seed} and {self.precision!r}"
            )
            raise ValueError(msg)
