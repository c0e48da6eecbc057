"""What a training tells its caller while it runs: plain records, in the order in which things happen.

The loop calls ``on_event`` with them and appends each to ``train_log.jsonl``; what to show and how often is the caller's
business. An exception raised by the callback stops the training with its state saved.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Set-up is done; steps follow."""

    device: str
    precision: str  # "float32" | "bfloat16"
    is_compiled: bool
    num_parameters: int
    num_train_reads: int
    num_val_reads: int  # those that each validation scores
    setup_s: float  # seconds spent before the first step, compilation included


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The run continues from what an earlier process saved."""

    step: int
    elapsed_s: float  # of the budget, already spent


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileFailed:
    """Compilation was wanted but is not to be had here; the run goes on without it."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where the run stands."""

    step: int
    elapsed_s: float  # of the budget, over all resumptions
    budget_s: float
    reads_per_s: float  # since the last report, validation left out
    loss_nats: float  # training loss since the last report
    learning_rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """The weight average was scored on the val reads."""

    step: int
    elapsed_s: float  # of the budget, over all resumptions, when the scoring ended
    train_loss_nats: float  # mean over the steps since the last validation
    val_loss_nats: float
    val_mrr: float
    val_mrr_error: float  # standard error over hands
    val_mean_rank: float
    num_positions: int  # supervised positions scored
    is_best: bool  # kept as best.safetensors; see validation.is_better


TrainEvent = Started | Resumed | CompileFailed | Progress | Evaluated
