"""The asset that grades the kept checkpoint by what became of the villain."""

from typing import Final

import dagster as dg

from range_reader_pipeline import grading, report_columns, report_views
from range_reader_pipeline.assets.graded import graded_report
from range_reader_pipeline.config import StratifiedConfig
from range_reader_pipeline.model_checks import STRATIFIED_SPECS, Numbers, stratified_checks
from range_reader_pipeline.reports import Report
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.stages import EVALUATE, GROUP, STAGE_TAG

NAME: Final = "stratified_eval"
CODE_VERSION: Final = "5"


@dg.asset(
    name=NAME,
    deps=["encoded_shards", "checkpoint"],
    group_name=GROUP,
    kinds={"pytorch", "parquet"},
    tags={STAGE_TAG: EVALUATE},
    code_version=CODE_VERSION,
    check_specs=STRATIFIED_SPECS,
    op_tags={"dagster/priority": "1"},  # before the other report, as in the graph's story
    description=(
        "How well the kept checkpoint reads villains, by what became of them (folded before the flop, on the flop, ..., came to a "
        "showdown), over all their decisions in the test hands.\n\n"
        "**mrr** is the mean of 1 / rank of the true hand among the 1326 combos: higher is better. **loss** is in nats a position: "
        "lower is better. Each baseline knows more than the one before: the visible cards, with which hands people put chips in, "
        "position and preflop line, strength after the flop. The lead over the best of them is the number to quote. Intervals are "
        "95%, by bootstrap over hands.\n\n"
        "Of the arena's hands the best possible read is known: *oracle* is that reader, and `share_of_ceiling_nats` how much of "
        "what it gains over a blind guess the model gains, from the villain's first chips on.\n\n"
        "`least_lead` shows where the model is weakest, `calibration_by_group` whether its probabilities mean what they say, "
        "`worst_hands` the hands it read worst."
    ),
)
def stratified_eval(context: dg.AssetExecutionContext, config: StratifiedConfig, home: HomeResource) -> dg.MaterializeResult:  # type: ignore[type-arg]  # Dagster takes no other beside checks
    """Grade over all supervised positions."""

    def grade(subject: grading.Subject) -> Report:
        say = context.log.info
        say(f"grading run {subject.run.run_id} on {subject.reads.num_reads:,} reads ({subject.note})")
        grades = grading.grade(subject, subject.readers(say), log=say, best_readers=subject.oracles(say))
        return report_views.stratified_report(grades, note=subject.note)

    return graded_report(
        context,
        home.paths(),
        config,
        name=NAME,
        code_version=CODE_VERSION,
        num_relabelings=config.num_relabelings,
        grade=grade,
        checks=stratified_checks,
        summary=_summary,
        columns={
            "scores": report_columns.SCORE_COLUMNS,
            "least_lead": report_columns.FAILURE_COLUMNS,
            "calibration_by_group": report_columns.CALIBRATION_COLUMNS,
            "worst_hands": report_columns.WORST_COLUMNS,
        },
    )


def _summary(numbers: Numbers) -> str:
    text = f"loss {numbers['loss_nats']:.3f} nats, mrr {numbers['mrr']:.4f}; {numbers['nats_ahead_of_best_baseline']:+.3f} nats"
    if "nats_ahead_low" in numbers:  # one hand alone has no interval
        text += f" (95% {numbers['nats_ahead_low']:+.3f} to {numbers['nats_ahead_high']:+.3f})"
    return f"{text} ahead of {numbers['best_baseline']}"
