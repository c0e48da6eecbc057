"""When arrivals lead to a new training: the policy, and what it says of the shards as they are. No Dagster, no files, no clock.

Encoding never waits; only training, which takes hours on real data, follows a policy. It is set by ``RANGE_READER_RETRAIN``:
``at-once`` trains whenever the shards change, a share such as ``10%`` once there are so many more reads to learn from,
``nightly`` leaves it to the schedule, ``never`` to people.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from range_reader_pipeline.run_store import TrainedOn

RETRAIN_VARIABLE: Final = "RANGE_READER_RETRAIN"
DEFAULT_POLICY: Final = "10%"


class When(StrEnum):
    """The kinds of policy."""

    AT_ONCE = "at-once"
    GROWN = "grown"
    NIGHTLY = "nightly"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Policy:
    """When to train again."""

    when: When
    share: float = 0.0  # of GROWN: how much more reads there must be, 0.1 is a tenth


@dataclass(frozen=True, slots=True, kw_only=True)
class Shards:
    """The published shards, as far as training cares."""

    version: str
    source_version: str  # of the contents they were made from
    num_train_reads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether a training is due, and why or why not, for a person."""

    is_due: bool
    reason: str


def policy_of(environment: Mapping[str, str]) -> Policy:
    """Return the policy that the environment sets; unset or empty is ``DEFAULT_POLICY``.

    Raises:
        ValueError: it is none.
    """
    text = (environment.get(RETRAIN_VARIABLE) or DEFAULT_POLICY).strip().lower()
    for when in (When.AT_ONCE, When.NIGHTLY, When.NEVER):
        if text == when.value:
            return Policy(when)
    try:
        share = float(text.removesuffix("%")) / 100.0 if text.endswith("%") else -1.0
    except ValueError:
        share = -1.0
    if not 0.0 < share <= 100.0:
        msg = f"{RETRAIN_VARIABLE} (RETRAIN): expected at-once, nightly, never or a share such as 10%, got {text!r}"
        raise ValueError(msg)
    return Policy(When.GROWN, share)


def decide_training(policy: Policy, shards: Shards | None, trained: TrainedOn | None) -> Decision:
    """Say whether the policy asks for a training of these shards.

    Args:
        policy: when to train again.
        shards: what there is to train on; None where nothing is published.
        trained: what the newest finished training was on; None before the first.
    """
    if shards is None:
        return Decision(is_due=False, reason="nothing to train on yet")
    if trained is not None and trained.data_version == shards.version:
        return Decision(is_due=False, reason="trained on them")
    if policy.when is When.NEVER:
        return Decision(is_due=False, reason=f"not trained on them; trains by hand ({RETRAIN_VARIABLE}=never)")
    if policy.when is When.NIGHTLY:
        return Decision(is_due=False, reason="not trained on them; trains at night (schedule nightly_training)")
    if trained is None:
        return Decision(is_due=True, reason="never trained")
    if policy.when is When.AT_ONCE:
        return Decision(is_due=True, reason=f"not trained on them ({RETRAIN_VARIABLE}=at-once)")
    growth = (shards.num_train_reads - trained.num_train_reads) / max(1, trained.num_train_reads)
    reason = f"{growth:+.1%} reads since the last training; the next is due at +{100 * policy.share:.3g}%"
    return Decision(is_due=growth >= policy.share, reason=reason)
