"""What both report assets come to where there are too few hands to report on: materialized, with the reason in place of a table."""

from collections.abc import Sequence

import dagster as dg

from range_reader_pipeline import metadata, reports
from range_reader_pipeline.failures import clear_failures
from range_reader_pipeline.grading import Subject
from range_reader_pipeline.paths import HomePaths


def nothing_to_report(
    context: dg.AssetExecutionContext,
    paths: HomePaths,
    name: str,
    code_version: str,
    subject: Subject,
    error: ValueError,
    check_results: Sequence[dg.AssetCheckResult],
) -> dg.MaterializeResult[None]:
    """Write the reason where the report would be. A small folder of hands is no failure of the run."""
    text = f"nothing to report: {error}. Add hands; a few thousand are enough for both reports."
    context.log.warning(text)
    with clear_failures():
        files = reports.write_notice(paths.reports, name, text=text, made_from=subject.made_from)
    return dg.MaterializeResult(
        check_results=check_results,
        data_version=dg.DataVersion(reports.report_version(code_version, subject.made_from)),
        metadata={
            "table": metadata.text_block(text),
            "num_reads": 0,
            "made_from": dg.MetadataValue.json(subject.made_from),
            "report": dg.MetadataValue.path(files.text),
        },
    )
