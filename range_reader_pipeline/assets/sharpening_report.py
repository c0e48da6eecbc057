"""The asset that shows how the read sharpens street by street."""

import time
from typing import Final

import dagster as dg

from range_reader_pipeline import grading, metadata, reports
from range_reader_pipeline.assets.no_report import nothing_to_report
from range_reader_pipeline.config import SharpeningConfig
from range_reader_pipeline.failures import clear_failures
from range_reader_pipeline.process import prepare_process
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.stages import EVALUATE, GROUP, STAGE_TAG

NAME: Final = "sharpening_report"
CODE_VERSION: Final = "1"


@dg.asset(
    name=NAME,
    deps=["encoded_shards", "checkpoint"],
    group_name=GROUP,
    kinds={"pytorch", "parquet"},
    tags={STAGE_TAG: EVALUATE},
    code_version=CODE_VERSION,
    description=(
        "How the read sharpens as chips go in: villains who came to a showdown in the test hands, read after the last card of "
        "flop, turn and river and at the end. Every row is the same hands, so what rises from row to row is what the betting gave "
        "away.\n\n"
        "**mean_rank** falls and **mrr** rises where the model reads. *uniform over live combos* and *static range* ignore the "
        "betting; they move only because more cards are visible. Intervals are 95%, by bootstrap over hands."
    ),
)
def sharpening_report(
    context: dg.AssetExecutionContext, config: SharpeningConfig, home: HomeResource
) -> dg.MaterializeResult[None]:
    """Grade showdown villains at the end of each street."""
    begin_s = time.monotonic()
    paths = home.paths()
    prepare_process(paths)
    from range_reader_core.evaluation import NothingToScoreError
    from range_reader_core.table_text import format_sharpening

    subject = grading.subject(paths, config, num_relabelings=config.num_relabelings)
    grading.warn_if_unrecorded(context, subject.run)
    context.log.info(f"reading the showdown villains of {subject.reads.num_reads:,} reads street by street ({subject.note})")
    try:
        table = grading.grade_sharpening(subject.readers, subject.reads, device=config.device, log=context.log.info)
    except NothingToScoreError as error:
        return nothing_to_report(context, paths, NAME, CODE_VERSION, subject, error)
    text, png = format_sharpening(table, note=subject.note), reports.sharpening_picture(table)
    with clear_failures():
        files = reports.write_report(paths.reports, NAME, text=text, records=table.records(), png=png, made_from=subject.made_from)
    flop, final = table.rows[0], table.row(grading.MODEL, "showdown")
    return dg.MaterializeResult(
        data_version=dg.DataVersion(reports.report_version(CODE_VERSION, subject.made_from)),
        metadata={
            "dagster/row_count": len(table.rows),
            "table": metadata.text_block(text),
            "scores": metadata.table(reports.sharpening_rows(table), reports.COLUMNS),
            "picture": metadata.picture(png, "mrr street by street"),
            "mrr_after_flop": flop.scores["mrr"].mean,
            "mrr_at_showdown": final.scores["mrr"].mean,
            "mean_rank_after_flop": flop.scores["mean_rank"].mean,
            "mean_rank_at_showdown": final.scores["mean_rank"].mean,
            "mrr_gained": table.gains[0].scores["mrr"].mean,
            "num_hands": table.num_hands,
            "num_reads": table.num_reads,
            "seconds": round(time.monotonic() - begin_s, 1),
            "made_from": dg.MetadataValue.json(subject.made_from),
            "report": dg.MetadataValue.path(files.text),
            "rows": dg.MetadataValue.path(files.parquet),
        },
    )
