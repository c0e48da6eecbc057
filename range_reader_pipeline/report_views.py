"""From grades to reports: which rows, numbers and pictures of a pass over the reads people get to see.

Numbers that the UI draws over time keep their names; what could not be measured is left out, since a zero would be drawn. Storage
is in ``reports``, what the columns mean in ``report_columns``, pictures in ``report_pictures``.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from range_reader_core.wording import counted
from range_reader_pipeline.grading import STATIC
from range_reader_pipeline.metadata import Cell
from range_reader_pipeline.range_page import render_range_page
from range_reader_pipeline.report_pictures import calibration_picture, sharpening_picture, strata_picture
from range_reader_pipeline.reports import Part, Report, report_files

if TYPE_CHECKING:
    from range_reader_core.calibration import ReliabilityCurve
    from range_reader_core.ceilings import CeilingShare
    from range_reader_core.strata import FailureRow, WorstRead
    from range_reader_core.tables import BestLead, Estimate, SharpeningTable, StratifiedTable
    from range_reader_pipeline.grading import Grades
    from range_reader_pipeline.range_page import HandRead

STRATIFIED: Final = "stratified_eval"
FAILURES: Final = "where_it_fails"
CALIBRATION: Final = "calibration"
WORST: Final = "worst_reads"
SHARPENING: Final = "sharpening_report"
RANGES: Final = "range_report"
TELLING_PAGE: Final = "range_report.html"
WORST_PAGE: Final = "range_report_worst.html"
_MAX_FAILURE_ROWS: Final = 20
_MIN_HANDS: Final = 30  # the lead of fewer is mostly chance


def stratified_report(grades: "Grades", *, note: str) -> Report:
    """Return the report on all supervised positions: the table, where the model fails, calibration, and the worst hands."""
    from range_reader_core.calibration import format_calibration
    from range_reader_core.strata import format_failures
    from range_reader_core.table_text import format_stratified

    table, model = grades.table, grades.table.readers[0]
    total = table.row(model)
    calibration_rows = [_calibration_row(group) for group in _by_group(grades.calibration)]
    worst = [_worst_row(read) for read in grades.worst]
    return Report(
        parts=(
            Part(
                name=STRATIFIED,
                text="\n\n".join([format_stratified(table, note=note), *_ceiling_texts(grades.shares), _watcher_text(grades)]),
                records=table.records(),
                png=strata_picture(table),
            ),
            Part(
                name=FAILURES, text=format_failures(grades.failures, note=note), records=[row.record() for row in grades.failures]
            ),
            Part(
                name=CALIBRATION,
                text=format_calibration(grades.calibration, note=note),
                records=[record for curve in grades.calibration for record in curve.records()],
                png=calibration_picture(grades.calibration),
            ),
            Part(name=WORST, text=_worst_text(grades.worst), records=worst),
        ),
        numbers={
            "mrr": total.scores["mrr"].mean,
            "loss_nats": total.scores["loss_nats"].mean,
            "mean_rank": total.scores["mean_rank"].mean,
            **_lead_numbers(table.best_lead("loss_nats"), table.best_lead("mrr")),
            **_estimate_numbers("nats_below_static_range", table.lead(STATIC).loss_nats),
            **_estimate_numbers("calibration_error", grades.calibration[0].error),
            **_number("calibration_error_by_chance", grades.calibration[0].chance_error),
            **_ceiling_numbers(grades.shares),
            "watcher_loss_nats": grades.watcher.row(model).scores["loss_nats"].mean,
            "num_hands": total.num_hands,
            "num_reads": total.num_reads,
            "num_positions": total.num_positions,
        },
        tables={
            "scores": strata_rows(table),
            "least_lead": _least_lead(grades.failures),
            "calibration_by_group": calibration_rows,
            "worst_hands": worst,
        },
    )


def sharpening_report(table: "SharpeningTable", *, note: str, shares: "Sequence[CeilingShare]" = ()) -> Report:
    """Return the report on showdown villains street by street."""
    from range_reader_core.table_text import format_sharpening

    rows = [row for row in table.rows if row.reader == table.readers[0]]
    first, last = rows[0], rows[-1]
    return Report(
        parts=(
            Part(
                name=SHARPENING,
                text="\n\n".join([format_sharpening(table, note=note), *_ceiling_texts(shares)]),
                records=table.records(),
                png=sharpening_picture(table),
            ),
        ),
        numbers={
            "mrr_after_flop": first.scores["mrr"].mean,
            "mrr_at_showdown": last.scores["mrr"].mean,
            "mean_rank_after_flop": first.scores["mean_rank"].mean,
            "mean_rank_at_showdown": last.scores["mean_rank"].mean,
            **_estimate_numbers("mrr_gained", table.gains[0].scores["mrr"]),
            **_lead_numbers(table.best_lead("loss_nats", last.group), table.best_lead("mrr", last.group)),
            **_ceiling_numbers(shares),
            "num_hands": table.num_hands,
            "num_reads": table.num_reads,
        },
        tables={"scores": list(table.records())},
    )


def range_report(pages: "Mapping[str, Sequence[HandRead]]") -> Report:
    """Return the report on single hands: a page each of some reads, and a row a read."""
    from range_reader_core.cards import format_combo
    from range_reader_core.ranges import combo_rank

    rows: list[Mapping[str, Cell]] = []
    for page, reads in pages.items():
        for read in reads:
            ranks = [
                None if read.truth is None else combo_rank(step.belief, read.truth) for step in (read.steps[0], read.steps[-1])
            ]
            rows.append(
                {
                    "page": page + read.fragment,
                    "title": read.title,
                    "hand_id": read.hand_id,
                    "villain_seat": read.villain_seat,
                    "truth": None if read.truth is None else format_combo(read.truth),
                    "rank_first": ranks[0],
                    "rank_last": ranks[1],
                }
            )
    html = {page: render_range_page(reads) for page, reads in pages.items()}
    lines = [
        f"{counted(len(reads), 'hand'):>9} in {page}, {len(html[page].encode()) / 1e3:.0f} kB" for page, reads in pages.items()
    ]
    lines += ["", *(f"{_rank(row['rank_first'])} -> {_rank(row['rank_last'])}  {row['title']}" for row in rows)]
    return Report(
        parts=(Part(name=RANGES, text="\n".join(lines), records=rows),),
        numbers={"num_reads": len(rows), "largest_page_kb": max(len(page.encode()) for page in html.values()) / 1e3},
        tables={"hands": rows},
        pages=html,
    )


def worst_reads_file(folder: Path) -> Path:
    """Return where the worst reads are listed for programs."""
    return report_files(folder, WORST).parquet


def strata_rows(table: "StratifiedTable") -> "list[Mapping[str, Cell]]":
    """Return the rows for the UI: the model's groups, then one row a baseline."""
    model, *baselines = table.readers
    totals = [(baseline, "TOTAL") for baseline in baselines]
    return [record for record in table.records() if record["reader"] == model or (record["reader"], record["group"]) in totals]


def page_address(hand_id: str, villain_seat: int, perspective_seat: int) -> str:
    """Return where a worst read can be looked at, relative to the reports' folder."""
    return f"{WORST_PAGE}#{quote(f'{hand_id}/{villain_seat}/{perspective_seat}', safe='')}"


def _ceiling_texts(shares: "Sequence[CeilingShare]") -> list[str]:
    """Return what the model reads of what can be read, one paragraph; nothing where that is not known."""
    from range_reader_core.ceilings import format_share

    return ["\n".join(format_share(share) for share in shares)] if shares else []


def _ceiling_numbers(shares: "Sequence[CeilingShare]") -> dict[str, float]:
    """Return the shares for the UI's curves: of the oracle that knows the styles, and of the one that does not."""
    numbers: dict[str, float] = {}
    for share, ending in zip(shares, ("", "_styles_unknown"), strict=False):  # none, or both
        numbers |= _estimate_numbers(f"share_of_ceiling_nats{ending}", share.share_nats)
        numbers |= _estimate_numbers(f"share_of_ceiling_mrr{ending}", share.share_mrr)
        numbers |= _estimate_numbers(f"nats_above_oracle{ending}", share.ahead_nats)
        numbers |= _estimate_numbers(f"mrr_above_oracle{ending}", share.ahead_mrr)
    return numbers


def _rank(rank: Cell) -> str:
    return f"rank {rank:>6,.0f}" if isinstance(rank, float) else "rank      -"


def _watcher_text(grades: "Grades") -> str:
    from range_reader_core.table_text import signed

    model = grades.watcher.readers[0]
    total = grades.watcher.row(model)
    lines = [
        f"a watcher who sees nobody's cards ({counted(total.num_reads, 'read')}): loss {total.scores['loss_nats'].mean:.3f}, "
        f"mrr {total.scores['mrr'].mean:.4f}"
    ]
    best, cards = grades.watcher.best_lead("loss_nats"), grades.cards_are_worth.best_lead("loss_nats")
    if best is not None:
        lines.append(f"  lead over the best baseline: {signed(best.lead, 'loss_nats')} nats a position, over {best.baseline}")
    if cards is not None:
        lines.append(f"  the perspective's cards are worth {signed(cards.lead, 'loss_nats')} nats a position to the model")
    return "\n".join(lines)


def _worst_text(worst: "Sequence[WorstRead]") -> str:
    header = f"{'loss':>7}{'rank':>8}{'baseline':>10}  {'truth':<6}{'villain':>8}{'from':>6}  {'position':<16}{'line':<10}hand"
    lines = [f"the hands read worst, by the mean loss over the hand; they open in {WORST_PAGE}", "", header, "-" * len(header)]
    for read in worst:
        baseline = "-" if read.baseline_loss_nats is None else f"{read.baseline_loss_nats:.2f}"
        lines.append(
            f"{read.loss_nats:>7.2f}{read.mean_rank:>8.0f}{baseline:>10}  {read.truth:<6}"
            f"{read.villain_seat:>8}{read.perspective_seat:>6}  {read.position:<16}{read.preflop_line:<10}{read.hand_id}"
        )
    return "\n".join(lines)


def _worst_row(read: "WorstRead") -> dict[str, Cell]:
    return {
        "hand_id": read.hand_id,
        "villain_seat": read.villain_seat,
        "perspective_seat": read.perspective_seat,
        "truth": read.truth,
        "position": read.position,
        "preflop_line": read.preflop_line,
        "loss_nats": read.loss_nats,
        "mean_rank": read.mean_rank,
        "baseline_loss_nats": read.baseline_loss_nats,
        "page": page_address(read.hand_id, read.villain_seat, read.perspective_seat),
    }


def _least_lead(rows: "Sequence[FailureRow]") -> "list[Mapping[str, Cell]]":
    """Return the groups in which the model is least ahead, the worst first; of few hands only where there are no others."""
    led = [row for row in rows if row.lead_nats is not None]
    led = [row for row in led if row.num_hands >= _MIN_HANDS] or led
    led.sort(key=lambda row: row.lead_nats.lead.mean if row.lead_nats else 0.0)
    return [row.record() for row in led[:_MAX_FAILURE_ROWS]]


def _by_group(curves: "Sequence[ReliabilityCurve]") -> "list[dict[str, ReliabilityCurve]]":
    """Return the curves by kind of forecast, a group at a time, in order."""
    groups: dict[str, dict[str, ReliabilityCurve]] = {}
    for curve in curves:
        groups.setdefault(curve.group, {})[curve.forecast] = curve
    return list(groups.values())


def _calibration_row(curves: "Mapping[str, ReliabilityCurve]") -> "dict[str, Cell]":
    from range_reader_core.calibration import COMBO

    combo = curves[COMBO]
    return {
        "group": combo.group,
        "error": combo.error.mean,
        "error_low": combo.error.interval.low if combo.error.interval else None,
        "error_high": combo.error.interval.high if combo.error.interval else None,
        "by_chance": combo.chance_error,
        "top16_promised": curves["top16"].promised,
        "top16_happened": curves["top16"].happened,
        "top64_promised": curves["top64"].promised,
        "top64_happened": curves["top64"].happened,
        "num_positions": combo.num_positions,
    }


def _lead_numbers(nats: "BestLead | None", mrr: "BestLead | None") -> dict[str, float | str]:
    numbers: dict[str, float | str] = {}
    if nats is not None:
        numbers |= {"nats_ahead_of_best_baseline": nats.lead.mean, "best_baseline": nats.baseline}
        if nats.lead.interval is not None:
            numbers |= {"nats_ahead_low": nats.lead.interval.low, "nats_ahead_high": nats.lead.interval.high}
    if mrr is not None:
        numbers |= {"mrr_ahead_of_best_baseline": mrr.lead.mean, "best_baseline_by_mrr": mrr.baseline}
    return numbers


def _number(name: str, value: float | None) -> dict[str, float]:
    return {} if value is None else {name: value}


def _estimate_numbers(name: str, estimate: "Estimate") -> dict[str, float]:
    interval = estimate.interval
    return {name: estimate.mean, **({f"{name}_low": interval.low, f"{name}_high": interval.high} if interval else {})}
