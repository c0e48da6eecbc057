"""The asset that shows how the read sharpens street by street."""

from typing import Final

import dagster as dg

from range_reader_pipeline import grading, report_columns, report_views
from range_reader_pipeline.assets.graded import graded_report
from range_reader_pipeline.config import SharpeningConfig
from range_reader_pipeline.model_checks import SHARPENING_SPECS, Numbers, sharpening_checks
from range_reader_pipeline.reports import Report
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

    def grade(subject: grading.Subject) -> Report:
        say = context.log.info
        say(f"reading the showdown villains of {subject.reads.num_reads:,} reads street by street ({subject.note})")
        table, shares = grading.grade_sharpening(
            subject.readers(say), subject.reads, device=config.device, log=say, best_readers=subject.oracles(say)
        )
        return report_views.sharpening_report(table, note=subject.note, shares=shares)

    return graded_report(
        context,
        home.paths(),
        config,
        name=NAME,
        code_version=CODE_VERSION,
        num_relabelings=config.num_relabelings,
        grade=grade,
        checks=sharpening_checks,
        summary=_summary,
        columns={"scores": report_columns.SCORE_COLUMNS},
    )


def _summary(numbers: Numbers) -> str:
    return f"mrr {numbers['mrr_after_flop']:.4f} after the flop, {numbers['mrr_at_showdown']:.4f} at the showdown"
