"""Asset checks on a trained reader, made from what its training, its examination and its reports have found.

A check blocks when what is measured downstream would be of something else than it says: a checkpoint that does not load, is not
finite or does not score what was recorded. A reader that is merely poor warns: the reports say truly how poor it is. Each result
gives the count, the threshold and what to do next.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import dagster as dg

from range_reader_pipeline import metadata
from range_reader_pipeline.examination import TOLERANCE, Examination, flaws, reproduces
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.run_store import FinishedRun

MAX_CALIBRATION_ERROR: Final = 0.05
Numbers = Mapping[str, int | float | str]  # of a report, by the names that the UI shows

SPECS: Final[Sequence[dg.AssetCheckSpec]] = [
    dg.AssetCheckSpec(
        "weights_are_finite",
        asset="checkpoint",
        blocking=True,
        description="No weight and no recorded score is infinite or not a number. Else every belief is nonsense.",
    ),
    dg.AssetCheckSpec(
        "reproduces_its_scores",
        asset="checkpoint",
        blocking=True,
        description=(
            "A fresh process loads the checkpoint and measures on the val reads what the run recorded. Else the file is not the "
            "reader that was measured. Such a run is kept aside."
        ),
    ),
    dg.AssetCheckSpec(
        "not_worse_than_kept",
        asset="checkpoint",
        description=(
            "The run does not read the val hands worse than the run that was kept before, by more than chance. A worse one is kept "
            "aside and the reports stay with the better one."
        ),
    ),
    dg.AssetCheckSpec(
        "val_reads_unchanged",
        asset="checkpoint",
        description=(
            "All val reads of the run that was kept before are still there. Else the val_mrr of the two is of different hands, and "
            "the curve over time compares what does not compare. New reads beside the old ones are normal where files arrive."
        ),
    ),
]

BEATS_STATIC_RANGE: Final = dg.AssetCheckSpec(
    "beats_static_range",
    asset="stratified_eval",
    description=(
        "The reader's loss is below that of the static range, which ignores the betting, by more than the 95% interval. Else it "
        "has learnt nothing from the betting that can be told from chance."
    ),
)
BEATS_BEST_BASELINE: Final = dg.AssetCheckSpec(
    "beats_best_baseline",
    asset="stratified_eval",
    description=(
        "The reader's loss is below that of the best baseline, which counts positions, lines and strengths as a tracker does, by "
        "more than the 95% interval. Else counting reads as well, and the reader is not worth its training yet."
    ),
)
CALIBRATED: Final = dg.AssetCheckSpec(
    "calibrated",
    asset="stratified_eval",
    description=(
        f"Of the probability that the reader gives away a position, at most {MAX_CALIBRATION_ERROR:.0%} is in places that promise "
        "more or less than happens, by the lower end of the 95% interval. Else its probabilities do not mean what they say."
    ),
)
SHARPENS: Final = dg.AssetCheckSpec(
    "sharpens",
    asset="sharpening_report",
    description=(
        "The read of showdown villains gains mrr from the flop to the end of the hand, by more than the 95% interval. Else the "
        "betting of turn and river taught it nothing that can be told from chance."
    ),
)
NOT_ABOVE_THE_ORACLE: Final = dg.AssetCheckSpec(
    "not_above_the_oracle",
    asset="stratified_eval",
    description=(
        "On arena hands, the reader does not beat the best possible one, which knows every player's policy, by more than the 95% "
        "interval, in nats or in mrr. Else something hidden reaches its inputs. Passes where the hands are not the arena's."
    ),
)
STRATIFIED_SPECS: Final = [BEATS_STATIC_RANGE, BEATS_BEST_BASELINE, CALIBRATED, NOT_ABOVE_THE_ORACLE]
SHARPENING_SPECS: Final = [SHARPENS]


def run_checks(run: FinishedRun, found: Examination) -> Iterator[dg.AssetCheckResult]:
    """Yield the results of ``SPECS``."""
    yield _finite(run, found)
    yield _reproduces(run, found)
    yield _not_worse(run, found)
    yield _val_unchanged(found)


def nothing_to_keep(paths: HomePaths, run: FinishedRun, found: Examination) -> str:
    """Return what to do where the first run of a home is unfit to be kept."""
    return (
        f"run {run.run_id} is kept aside in {paths.runs / run.run_id} and there is no earlier one to keep: "
        f"{'; '.join(flaws(run, found))}. Materialize checkpoint with retrain: true"
    )


def stratified_checks(numbers: Numbers | None, why_not: str = "") -> list[dg.AssetCheckResult]:
    """Return the results of ``STRATIFIED_SPECS``.

    Args:
        numbers: of the report; None where there is nothing to grade.
        why_not: why there is nothing.
    """
    beats = _beyond_chance(
        BEATS_STATIC_RANGE,
        numbers,
        "nats_below_static_range",
        why_not,
        "nats below the static range's loss",
        "train longer (TRAIN_MINUTES), with a larger preset than tiny, or on more hands",
    )
    best = _beyond_chance(
        BEATS_BEST_BASELINE,
        numbers,
        "nats_ahead_of_best_baseline",
        why_not,
        f"nats ahead of {(numbers or {}).get('best_baseline', 'the best baseline')}, the best of the baselines",
        "train longer (TRAIN_MINUTES) and on more hands (HANDS, or more files); least_lead shows where it falls behind",
        interval="nats_ahead",
    )
    return [beats, best, _calibrated(numbers, why_not), _not_above_the_oracle(numbers or {})]


def sharpening_checks(numbers: Numbers | None, why_not: str = "") -> list[dg.AssetCheckResult]:
    """Return the results of ``SHARPENING_SPECS``; arguments as ``stratified_checks``."""
    next_step = "look at beats_static_range first; if that passes, add hands that came to a showdown"
    return [_beyond_chance(SHARPENS, numbers, "mrr_gained", why_not, "mrr gained from flop to showdown", next_step)]


def _not_above_the_oracle(numbers: Numbers) -> dg.AssetCheckResult:
    names = ("nats_above_oracle", "mrr_above_oracle")
    if names[0] not in numbers:
        text, passed = "There is no oracle to compare with: these are not the arena's hands.", True
    else:
        lows = [float(numbers[f"{name}_low"]) for name in names if f"{name}_low" in numbers]
        passed = all(low <= 0.0 for low in lows)
        text = (
            f"{float(numbers[names[0]]):+.4f} nats and {float(numbers[names[1]]):+.4f} mrr above the oracle that knows the styles."
        )
        if not passed:
            text += " Nobody can read better from what is public: look for what leaks, inputs_hide_cards first, and trust no grade."
    found = {key: value for key, value in numbers.items() if "above_oracle" in key and "unknown" not in key}
    return _result(NOT_ABOVE_THE_ORACLE.name, passed, found | {"threshold": 0}, text)


def _finite(run: FinishedRun, found: Examination) -> dg.AssetCheckResult:
    scores = (run.val_mrr, run.val_loss_nats, run.val_mean_rank)
    num_bad_scores = sum(1 for score in scores if not abs(score) < float("inf"))
    is_fine = not found.non_finite and not num_bad_scores
    entries: dict[str, Any] = {"tensors_not_finite": len(found.non_finite), "scores_not_finite": num_bad_scores, "threshold": 0}
    if found.non_finite:
        entries["first"] = ", ".join(found.non_finite[:3])
    return _result(
        "weights_are_finite",
        is_fine,
        entries,
        (
            "All weights and scores are finite."
            if is_fine
            else f"Not finite: {', '.join(found.non_finite[:3]) or 'a score'}. The run is kept aside; materialize checkpoint with "
            "retrain: true and a lower learning_rate."
        ),
        severity=dg.AssetCheckSeverity.ERROR,
    )


def _reproduces(run: FinishedRun, found: Examination) -> dg.AssetCheckResult:
    is_same = reproduces(run, found)
    entries: dict[str, Any] = {"val_reads": run.val_reads, "threshold": TOLERANCE, "recorded_mrr": run.val_mrr}
    if found.val_mrr is not None and found.val_loss_nats is not None:
        entries |= {
            "measured_mrr": found.val_mrr,
            "mrr_difference": abs(found.val_mrr - run.val_mrr),
            "loss_difference": abs(found.val_loss_nats - run.val_loss_nats),
        }
    why = "; ".join(flaws(run, found)) or "it could not be graded"
    return _result(
        "reproduces_its_scores",
        is_same,
        entries,
        (
            f"A fresh process measures the recorded scores on {run.val_reads} val reads."
            if is_same
            else f"{why}. The run is kept aside; check disk and memory, then materialize checkpoint with retrain: true."
        ),
        severity=dg.AssetCheckSeverity.ERROR,
    )


def _not_worse(run: FinishedRun, found: Examination) -> dg.AssetCheckResult:
    entries: dict[str, Any] = {
        "val_mrr": run.val_mrr,
        "threshold": "upper end of the 95% interval of the lead in mrr at least 0; in loss too where mrr is no better",
    }
    if found.compared_with:
        entries["compared_with"] = found.compared_with
    for name in ("mrr_lead", "mrr_lead_low", "mrr_lead_high", "loss_lead", "loss_lead_high"):
        if (value := getattr(found, name)) is not None:
            entries[name] = value
    if found.mrr_lead is None:
        text = "There was no other kept run to compare with." if not found.compared_with else "It could not be graded."
    else:
        text = (
            f"On the same {run.val_reads} val reads it scores {found.mrr_lead:+.4f} mrr "
            f"({_span(found.mrr_lead_low, found.mrr_lead_high)}) and {found.loss_lead:+.3f} nats against run {found.compared_with}."
        )
        if found.is_worse:
            text += " It is kept aside; look at what the new files hold (encoded_shards: sources, rejects), or train longer."
    return _result(
        "not_worse_than_kept", not found.is_worse and (found.mrr_lead is not None or not found.compared_with), entries, text
    )


def _val_unchanged(found: Examination) -> dg.AssetCheckResult:
    entries: dict[str, Any] = {"val_reads": found.num_val_reads, "threshold": 0}
    if found.num_val_gone is None or found.num_val_new is None:
        text = "There is no earlier run to compare the val reads with."
    else:
        entries |= {"gone": found.num_val_gone, "new": found.num_val_new}
        text = (
            f"{found.num_val_gone} val reads of run {found.compared_with} are gone, {found.num_val_new} are new, "
            f"{found.num_val_reads} in all."
        )
        if found.num_val_gone:
            text += " Files were removed or changed: compare runs by not_worse_than_kept, which grades both on the reads of now."
    return _result("val_reads_unchanged", not found.num_val_gone, entries, text)


def _calibrated(numbers: Numbers | None, why_not: str) -> dg.AssetCheckResult:
    low = numbers.get("calibration_error_low") if numbers else None
    is_fine = isinstance(low, float) and low <= MAX_CALIBRATION_ERROR
    entries: dict[str, Any] = {"threshold": MAX_CALIBRATION_ERROR}
    if numbers is None:
        text = f"Nothing to grade: {why_not or 'no hands'}. Add hands."
    else:
        names = ("calibration_error", "calibration_error_low", "calibration_error_by_chance")
        entries |= {name: numbers[name] for name in names if name in numbers}
        text = f"{numbers['calibration_error']:.3f} of the probability a position is promised too much or too little"
        chance = numbers.get("calibration_error_by_chance")
        if low is None:
            text += "; a single hand says nothing about chance. Add hands."
        elif is_fine:
            text += "." if chance is None else f", by chance alone {chance:.3f}."
        else:
            text += (
                ". Take ranks and not probabilities from it, and look at calibration_by_group; more hands or less training help."
            )
    return _result(CALIBRATED.name, is_fine, entries, text)


def _beyond_chance(
    spec: dg.AssetCheckSpec, numbers: Numbers | None, name: str, why_not: str, what: str, next_step: str, *, interval: str = ""
) -> dg.AssetCheckResult:
    """Return whether a number is above zero by more than its interval, which is called ``interval`` where not as the number."""
    ends = tuple(f"{interval or name}_{end}" for end in ("low", "high"))
    low, high = (numbers.get(end) if numbers else None for end in ends)
    is_beyond = isinstance(low, float) and low > 0.0
    entries: dict[str, Any] = {"threshold": 0.0}
    if numbers is None:
        text = f"Nothing to grade: {why_not or 'no hands'}. Add hands."
    elif name not in numbers:
        text = "There is nothing to compare with: the report names no baseline. Materialize stratified_eval again."
    else:
        entries |= {key: value for key, value in numbers.items() if key in (name, *ends)}
        text = f"{numbers[name]:+.4f} {what}"
        if not isinstance(low, float) or not isinstance(high, float):
            text += "; a single hand says nothing about chance. Add hands."
        elif is_beyond:
            text += f" ({_span(low, high)})."
        else:
            text += f" ({_span(low, high)}). That is {'behind' if high < 0.0 else 'within chance'}: {next_step}."
    return _result(spec.name, is_beyond, entries, text)


def _result(
    name: str,
    passed: bool,
    entries: Mapping[str, Any],
    text: str,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.WARN,
) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=name, passed=passed, severity=severity, metadata=metadata.rounded(entries), description=text
    )


def _span(low: float | None, high: float | None) -> str:
    return "no interval: too few hands" if low is None or high is None else f"95%: {low:+.4f} to {high:+.4f}"
