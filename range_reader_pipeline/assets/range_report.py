"""The asset that draws hands: the range of a villain step by step, as pages that open in any browser."""

import hashlib
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import dagster as dg

from range_reader_core.wording import counted
from range_reader_pipeline import grading, report_columns, report_views, reports
from range_reader_pipeline.assets.no_report import nothing_to_report
from range_reader_pipeline.assets.report_result import report_result
from range_reader_pipeline.config import RangeReportConfig
from range_reader_pipeline.failures import clear_failures
from range_reader_pipeline.process import prepare_process
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.stages import EVALUATE, GROUP, STAGE_TAG
from range_reader_pipeline.training_events import Log

NAME: Final = "range_report"
CODE_VERSION: Final = "1"
WorstKey = tuple[str, int, int]  # hand id, villain, perspective


@dg.asset(
    name=NAME,
    deps=["encoded_shards", "checkpoint", "stratified_eval"],
    group_name=GROUP,
    kinds={"pytorch", "html"},
    tags={STAGE_TAG: EVALUATE},
    code_version=CODE_VERSION,
    description=(
        "Hands to look at, each as a 13x13 grid that moves with the betting, beside the grid of the static range. "
        "`range_report.html` holds the showdown hands that were read best and as many typical ones; `range_report_worst.html` "
        "holds the twenty that `stratified_eval` found to be read worst. Both open offline in a browser: `page` and `page_worst` "
        "say where they lie."
    ),
)
def range_report(context: dg.AssetExecutionContext, config: RangeReportConfig, home: HomeResource) -> dg.MaterializeResult[None]:
    """Draw the most telling hands and those read worst."""
    begin_s = time.monotonic()
    paths = home.paths()
    prepare_process(paths)
    from range_reader_core.evaluation import NothingToScoreError

    subject = grading.subject(paths, config, num_relabelings=config.num_relabelings)
    grading.warn_if_unrecorded(context, subject.run)
    worst = _worst_reads(report_views.worst_reads_file(paths.reports))
    asked = {"hands asked for": " ".join(config.hands), "hands of each kind": str(config.num_hands)}
    asked["worst reads"] = hashlib.sha256(repr(worst).encode()).hexdigest()[:16]
    version = reports.report_version(CODE_VERSION, subject.made_from | asked)
    saved = reports.find_report(paths.reports, NAME, version)
    is_reused = saved is not None
    if saved is None:
        try:
            report = _draw(config, subject, worst, context.log)
        except NothingToScoreError as error:
            return nothing_to_report(context, paths, NAME, CODE_VERSION, subject, error, check_results=())
        with clear_failures():
            saved = reports.write_report(paths.reports, report, version=version, made_from=subject.made_from | asked)
    pages = {name: paths.reports / name for name in saved.files if name.endswith(".html")}
    context.log.info(f"hands to look at: {', '.join(map(str, pages.values()))}" + (" (nothing changed)" if is_reused else ""))
    return report_result(
        saved,
        version=version,
        is_reused=is_reused,
        seconds=time.monotonic() - begin_s,
        columns={"hands": report_columns.PAGE_COLUMNS},
        check_results=(),
        paths={name.removesuffix(".html").replace("range_report", "page"): path for name, path in pages.items()},
    )


def _draw(config: RangeReportConfig, subject: grading.Subject, worst: list[WorstKey], log: Log) -> reports.Report:
    """Return the report: both pages and a row a hand.

    Raises:
        NothingToScoreError: no villain came to a showdown.
        ValueError: fewer than one hand is wanted, or one that was asked for is not in the split.
    """
    import numpy as np

    from range_reader_core.baselines import StaticRangeReader
    from range_reader_pipeline.telling_hands import ChosenRead, find_reads, read_pages, telling_reads

    if config.num_hands < 1:
        msg = f"expected num_hands of at least 1, got {config.num_hands}"
        raise ValueError(msg)
    reads, run = subject.reads, subject.run
    model = grading.model_reader(subject.paths.runs / run.run_id, num_relabelings=config.num_relabelings, device=config.device)
    single = replace(model, num_relabelings=1)
    static = StaticRangeReader(class_counts=np.array(run.static_class_counts))
    chosen = []
    for hand_id in config.hands:
        found = find_reads(reads, hand_id)
        if not found:
            msg = (
                f"hand {hand_id!r} is not among the {counted(reads.num_reads, 'read')} of the {config.split} split; leave it out, "
                "or set max_reads to 0"
            )
            raise ValueError(msg)
        chosen += [ChosenRead(read=read, kind="Asked for", reason="Asked for") for read in found]
    log.info("looking for the hands that tell most")
    asked = {one.read for one in chosen}
    telling = telling_reads(reads, single, static, num=config.num_hands, device=config.device)
    chosen += [one for one in telling if one.read not in asked]
    worst_chosen = []
    for place, (hand_id, villain, perspective) in enumerate(worst, start=1):
        reason = f"Number {place} of the hands read worst"
        worst_chosen += [
            ChosenRead(read=read, kind=f"Worst {place}", reason=reason)
            for read in find_reads(reads, hand_id)
            if (reads.villain_seat[read], reads.perspective_seat[read]) == (villain, perspective)
        ]
    log.info(f"reading {counted(len(chosen) + len(worst_chosen), 'hand')} step by step")
    prior = np.exp(static.combo_logp())
    pages = {report_views.TELLING_PAGE: read_pages(reads, chosen, model, prior)}
    if worst_chosen:
        pages[report_views.WORST_PAGE] = read_pages(reads, worst_chosen, model, prior)
    return report_views.range_report(pages)


def _worst_reads(path: Path) -> list[WorstKey]:
    """Return what ``stratified_eval`` found to be read worst; nothing where it has not reported yet."""
    import pyarrow.parquet as pq

    if not path.is_file():
        return []
    rows = pq.read_table(path, columns=["hand_id", "villain_seat", "perspective_seat"]).to_pylist()
    return [(str(row["hand_id"]), int(row["villain_seat"]), int(row["perspective_seat"])) for row in rows]
