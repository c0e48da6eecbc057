"""What the assets that grade the kept checkpoint have in common: a report found unchanged, made anew, or nothing to report on."""

import time
from collections.abc import Callable, Mapping, Sequence

import dagster as dg

from range_reader_pipeline import grading, reports
from range_reader_pipeline.assets.no_report import nothing_to_report
from range_reader_pipeline.assets.report_result import report_result
from range_reader_pipeline.config import GradingConfig
from range_reader_pipeline.failures import clear_failures
from range_reader_pipeline.model_checks import Numbers
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.process import prepare_process
from range_reader_pipeline.told_checks import told


def graded_report(
    context: dg.AssetExecutionContext,
    paths: HomePaths,
    config: GradingConfig,
    *,
    name: str,
    code_version: str,
    num_relabelings: int,
    grade: Callable[[grading.Subject], reports.Report],
    checks: Callable[[Numbers | None, str], Sequence[dg.AssetCheckResult]],
    summary: Callable[[Numbers], str],
    columns: Mapping[str, Mapping[str, str]],
) -> dg.MaterializeResult[None]:
    """Return the materialization of a report on the kept checkpoint.

    Args:
        context: of the asset.
        paths: the home.
        config: what to grade on.
        name: of the asset and its main table.
        code_version: raised when the same reads would be reported on differently.
        num_relabelings: 24 averages over suits, 1 is a single forward.
        grade: makes the report; called only where none of this version lies on disk.
        checks: from the report's numbers, or None and why there are none, to the results.
        summary: the report's numbers in a line for the log.
        columns: of each short table, name -> description.

    Raises:
        ValueError: there is no kept checkpoint or no shards, or a setting that cannot be used.
    """
    begin_s = time.monotonic()
    prepare_process(paths)
    from range_reader_core.evaluation import NothingToScoreError

    subject = grading.subject(paths, config, num_relabelings=num_relabelings)
    grading.warn_if_unrecorded(context, subject.run)
    version = reports.report_version(code_version, subject.made_from)
    saved = reports.find_report(paths.reports, name, version)
    is_reused = saved is not None
    if saved is None:
        try:
            report = grade(subject)
        except NothingToScoreError as error:
            return nothing_to_report(context, paths, name, code_version, subject, error, checks(None, str(error)))
        with clear_failures():
            saved = reports.write_report(paths.reports, report, version=version, made_from=subject.made_from)
    context.log.info(summary(saved.numbers) + (", nothing changed" if is_reused else ""))
    return report_result(
        saved,
        version=version,
        is_reused=is_reused,
        seconds=time.monotonic() - begin_s,
        check_results=told(context.log, checks(saved.numbers, "")),
        columns=columns,
    )
