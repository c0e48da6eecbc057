"""What is kept and shown of a table: text for people, parquet for programs, a picture, and the rows for the UI.

Files lie under ``reports/`` and each replaces the one before it. The text is the same on the terminal, in the file and in the UI.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from range_reader_pipeline.metadata import Cell
from range_reader_pipeline.plots import Series, sharpening_curve, stratified_bars
from range_reader_pipeline.storage import written_aside

if TYPE_CHECKING:
    from range_reader_core.tables import Estimate, ScoreRow, SharpeningTable, StratifiedTable

COLUMNS: Final[Mapping[str, str]] = {
    "reader": "the model, or a reader that ignores the betting",
    "group": "what became of the villain, or after what the villain is read",
    "mrr": "mean of 1 / rank of the true hand",
    "mrr_low": "95% interval, by bootstrap over hands",
    "mrr_high": "95% interval, by bootstrap over hands",
    "mean_rank": "mean rank of the true hand among 1326",
    "loss_nats": "mean -ln P(true hand)",
    "top64": "share of true hands among the 64 likeliest",
    "num_reads": "(villain, perspective) pairs",
    "num_positions": "positions scored",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """Where a report lies."""

    text: Path
    parquet: Path
    picture: Path


def report_files(folder: Path, name: str) -> ReportFiles:
    """Return where the report of a name lies, or will."""
    return ReportFiles(text=folder / f"{name}.txt", parquet=folder / f"{name}.parquet", picture=folder / f"{name}.png")


def write_report(
    folder: Path, name: str, *, text: str, records: Sequence[Mapping[str, Cell]], png: bytes, made_from: Mapping[str, str]
) -> ReportFiles:
    """Write a report, each file aside and then renamed.

    Args:
        folder: where reports lie.
        name: of the report.
        text: the table for people.
        records: its rows.
        png: its picture.
        made_from: what it is about (run, weights, data, split), kept below the text and in the parquet's metadata.

    Raises:
        OSError: the folder cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = report_files(folder, name)
    _write_text(files.text, text, made_from)
    with written_aside(files.parquet) as aside:
        rows = pa.Table.from_pylist([dict(record) for record in records])
        pq.write_table(rows.replace_schema_metadata(dict(made_from)), aside)
    with written_aside(files.picture) as aside:
        aside.write_bytes(png)
    return files


def write_notice(folder: Path, name: str, *, text: str, made_from: Mapping[str, str]) -> ReportFiles:
    """Write why there is nothing to report in the place of a report, and remove the parquet and picture of an earlier one.

    Raises:
        OSError: the folder cannot be written.
    """
    files = report_files(folder, name)
    _write_text(files.text, text, made_from)
    files.parquet.unlink(missing_ok=True)
    files.picture.unlink(missing_ok=True)
    return files


def report_version(code_version: str, made_from: Mapping[str, str]) -> str:
    """Return the 16 hex digits that change exactly when the report could."""
    return hashlib.sha256(json.dumps([code_version, dict(made_from)], sort_keys=True).encode()).hexdigest()[:16]


def strata_picture(table: "StratifiedTable") -> bytes:
    """Return the mrr of every reader by what became of the villain, strata without reads left out."""
    groups = [row.group for row in table.rows if row.reader == table.readers[0] and row.scores]
    ours, *floors = (_series(reader, [table.row(reader, group) for group in groups]) for reader in table.readers)
    return stratified_bars(groups, ours, floors)


def sharpening_picture(table: "SharpeningTable") -> bytes:
    """Return the mrr of every reader as the hand goes on."""
    points = [row.group for row in table.rows if row.reader == table.readers[0]]
    ours, *floors = (_series(reader, [table.row(reader, point) for point in points]) for reader in table.readers)
    return sharpening_curve(points, ours, floors)


def strata_rows(table: "StratifiedTable") -> "list[Mapping[str, Cell]]":
    """Return the rows for the UI: the model's groups, then one row a baseline."""
    model, *baselines = table.readers
    totals = [(baseline, "TOTAL") for baseline in baselines]
    return [record for record in table.records() if record["reader"] == model or (record["reader"], record["group"]) in totals]


def sharpening_rows(table: "SharpeningTable") -> "list[Mapping[str, Cell]]":
    """Return the rows for the UI."""
    return list(table.records())


def _write_text(path: Path, text: str, made_from: Mapping[str, str]) -> None:
    footer = "\n".join(f"{key}: {value}" for key, value in made_from.items())
    with written_aside(path) as aside:
        aside.write_text(f"{text}\n\n{footer}\n", encoding="utf-8")


def _series(label: str, rows: "Sequence[ScoreRow]") -> Series:
    estimates = [row.scores["mrr"] for row in rows]
    return Series(
        label=label,
        values=[estimate.mean for estimate in estimates],
        lows=[_low(estimate) for estimate in estimates],
        highs=[_high(estimate) for estimate in estimates],
    )


def _low(estimate: "Estimate") -> float:
    return estimate.interval.low if estimate.interval else estimate.mean


def _high(estimate: "Estimate") -> float:
    return estimate.interval.high if estimate.interval else estimate.mean
