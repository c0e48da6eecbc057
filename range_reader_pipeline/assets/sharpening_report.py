"""The asset that shows how the read sharpens street by street."""

import time
from typing import Final

import dagster as dg

from range_reader_pipeline import grading, report_views, reports
from range_reader_pipeline.assets.no_report import nothing_to_report
from range_reader_pipeline.assets.report_result import report_result
from range_reader_pipeline.config import SharpeningConfig
from range_reader_pipeline.failures import clear_failures
from range_reader_pipeline.model_checks import SHARPENING_SPECS, sharpening_checks
from range_reader_pipeline.process import prepare_process
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.stages import EVALUATE, GROUP, STAGE_TAG

NAME: Final = "sharpening_report"
CODE_VERSION: Final = "4"


@dg.asset(
    name=NAME,
    deps=["encoded_shards", "checkpoint"],
    group_name=GROUP,
    kinds={"pytorch", "parquet"},
    tags={STAGE_TAG: EVALUATE},
    code_version=CODE_VERSION,
    check_specs=SHARPENING_SPECS,
    description=(
        "How the read sharpens as chips go in: villains who came to a showdown in the test hands, read after the last card of "
        "flop, turn and river and at the end. Every row is the same hands, so what rises from row to row is what the betting gave "
        "away.\n\n"
        "**mean_rank** falls and **mrr** rises where the model reads. *uniform over live combos* and *static range* ignore the "
        "betting; they move only because more cards are visible. The other baselines count what a tracker counts. Intervals are "
        "95%, by bootstrap over hands."
    ),
)
def sharpening_report(context: dg.AssetExecutionContext, config: SharpeningConfig, home: HomeResource) -> dg.MaterializeResult:  # type: ignore[type-arg]  # Dagster takes no other beside checks
    """Grade showdown villains at the end of each street."""
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
        context.log.info(f"reading the showdown villains of {subject.reads.num_reads:,} reads street by street ({subject.note})")
        try:
            all_readers = subject.readers(context.log.info)
            table, shares = grading.grade_sharpening(
                all_readers,
                subject.reads,
                device=config.device,
                log=context.log.info,
                best_readers=subject.oracles(context.log.info),
            )
        except NothingToScoreError as error:
            return nothing_to_report(context, paths, NAME, CODE_VERSION, subject, error, sharpening_checks(None, str(error)))
        report = report_views.sharpening_report(table, note=subject.note, shares=shares)
        with clear_failures():
            saved = reports.write_report(paths.reports, report, version=version, made_from=subject.made_from)
    else:
        context.log.info("nothing changed")
    return report_result(
        saved,
        version=version,
        is_reused=is_reused,
        seconds=time.monotonic() - begin_s,
        check_results=sharpening_checks(saved.numbers),
        columns={"scores": report_views.SCORE_COLUMNS},
    )
