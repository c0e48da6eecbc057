"""The asset that grades the kept checkpoint by what became of the villain."""

import time
from collections.abc import Mapping
from typing import Final

import dagster as dg

from range_reader_pipeline import grading, report_views, reports
from range_reader_pipeline.assets.no_report import nothing_to_report
from range_reader_pipeline.assets.report_result import report_result
from range_reader_pipeline.config import StratifiedConfig
from range_reader_pipeline.failures import clear_failures
from range_reader_pipeline.model_checks import STRATIFIED_SPECS, stratified_checks
from range_reader_pipeline.process import prepare_process
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
    begin_s = time.monotonic()
    paths = home.paths()
    prepare_process(paths)
    from range_reader_core.evaluation import NothingToScoreError

    subject = grading.subject(paths, config, num_relabelings=config.num_relabelings)
    grading.warn_if_unrecorded(context, subject.run)
    version = reports.report_version(CODE_VERSION, subject.made_from)
    saved = reports.find_report(paths.reports, NAME, version)
    is_reused = saved is not None
    if saved is None:
        context.log.info(f"grading run {subject.run.run_id} on {subject.reads.num_reads:,} reads ({subject.note})")
        try:
            grades = grading.grade(
                subject,
                subject.readers(context.log.info),
                log=context.log.info,
                best_readers=subject.oracles(context.log.info),
            )
        except NothingToScoreError as error:
            return nothing_to_report(context, paths, NAME, CODE_VERSION, subject, error, stratified_checks(None, str(error)))
        report = report_views.stratified_report(grades, note=subject.note)
        with clear_failures():
            saved = reports.write_report(paths.reports, report, version=version, made_from=subject.made_from)
    context.log.info(_summary(saved.numbers) + (", nothing changed" if is_reused else ""))
    return report_result(
        saved,
        version=version,
        is_reused=is_reused,
        seconds=time.monotonic() - begin_s,
        check_results=stratified_checks(saved.numbers),
        columns={
            "scores": report_views.SCORE_COLUMNS,
            "least_lead": report_views.FAILURE_COLUMNS,
            "calibration_by_group": report_views.CALIBRATION_COLUMNS,
            "worst_hands": report_views.WORST_COLUMNS,
        },
    )


def _summary(numbers: Mapping[str, int | float | str]) -> str:
    text = f"loss {numbers['loss_nats']:.3f} nats, mrr {numbers['mrr']:.4f}; {numbers['nats_ahead_of_best_baseline']:+.3f} nats"
    if "nats_ahead_low" in numbers:  # one hand alone has no interval
        text += f" (95% {numbers['nats_ahead_low']:+.3f} to {numbers['nats_ahead_high']:+.3f})"
    return f"{text} ahead of {numbers['best_baseline']}"
