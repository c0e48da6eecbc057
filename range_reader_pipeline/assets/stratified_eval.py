"""The asset that grades the kept checkpoint by what became of the villain."""

import time
from typing import Final

import dagster as dg

from range_reader_pipeline import grading, metadata, reports
from range_reader_pipeline.assets.no_report import nothing_to_report
from range_reader_pipeline.config import StratifiedConfig
from range_reader_pipeline.failures import clear_failures
from range_reader_pipeline.process import prepare_process
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.stages import EVALUATE, GROUP, STAGE_TAG

NAME: Final = "stratified_eval"
CODE_VERSION: Final = "1"


@dg.asset(
    name=NAME,
    deps=["encoded_shards", "checkpoint"],
    group_name=GROUP,
    kinds={"pytorch", "parquet"},
    tags={STAGE_TAG: EVALUATE},
    code_version=CODE_VERSION,
    op_tags={"dagster/priority": "1"},  # before the other report, as in the graph's story
    description=(
        "How well the kept checkpoint reads villains, by what became of them (folded before the flop, on the flop, ..., came to a "
        "showdown), over all their decisions in the test hands.\n\n"
        "**mrr** is the mean of 1 / rank of the true hand among the 1326 combos: higher is better. **loss** is in nats a position: "
        "lower is better. *uniform over live combos* and *static range* are readers that ignore the betting; what the model scores "
        "beyond them is what it read in the betting. Intervals are 95%, by bootstrap over hands."
    ),
)
def stratified_eval(context: dg.AssetExecutionContext, config: StratifiedConfig, home: HomeResource) -> dg.MaterializeResult[None]:
    """Grade over all supervised positions."""
    begin_s = time.monotonic()
    paths = home.paths()
    prepare_process(paths)
    from range_reader_core.evaluation import NothingToScoreError
    from range_reader_core.table_text import format_stratified

    subject = grading.subject(paths, config, num_relabelings=config.num_relabelings)
    grading.warn_if_unrecorded(context, subject.run)
    context.log.info(f"grading run {subject.run.run_id} on {subject.reads.num_reads:,} reads ({subject.note})")
    try:
        table = grading.grade_strata(subject.readers, subject.reads, device=config.device, log=context.log.info)
    except NothingToScoreError as error:
        return nothing_to_report(context, paths, NAME, CODE_VERSION, subject, error)
    text, png = format_stratified(table, note=subject.note), reports.strata_picture(table)
    with clear_failures():
        files = reports.write_report(paths.reports, NAME, text=text, records=table.records(), png=png, made_from=subject.made_from)
    total, lead = table.row(grading.MODEL), table.lead(grading.STATIC)
    return dg.MaterializeResult(
        data_version=dg.DataVersion(reports.report_version(CODE_VERSION, subject.made_from)),
        metadata={
            "dagster/row_count": len(table.rows),
            "table": metadata.text_block(text),
            "scores": metadata.table(reports.strata_rows(table), reports.COLUMNS),
            "picture": metadata.picture(png, "mrr by what became of the villain"),
            "mrr": total.scores["mrr"].mean,
            "loss_nats": total.scores["loss_nats"].mean,
            "mean_rank": total.scores["mean_rank"].mean,
            "nats_below_static_range": lead.loss_nats.mean,
            "mrr_above_static_range": lead.mrr.mean,
            "num_hands": total.num_hands,
            "num_reads": total.num_reads,
            "num_positions": total.num_positions,
            "seconds": round(time.monotonic() - begin_s, 1),
            "made_from": dg.MetadataValue.json(subject.made_from),
            "report": dg.MetadataValue.path(files.text),
            "rows": dg.MetadataValue.path(files.parquet),
        },
    )
