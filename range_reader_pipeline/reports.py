"""What is kept and shown of a report: text for people, parquet for programs, pictures, and the rows for the UI.

A report has parts, the main table first. Files lie under ``reports/``, each replaces the one before it, and ``<name>.json`` is
written last: it holds what the UI shows, what the report was made from and the hash of every file, so that an unchanged report is
found again instead of graded again. The text is the same on the terminal, in the file and in the UI.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from range_reader_pipeline.metadata import Cell
from range_reader_pipeline.provenance import file_sha256
from range_reader_pipeline.storage import read_json, write_json, written_aside


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One table of a report."""

    name: str  # of its files
    text: str
    records: Sequence[Mapping[str, Cell]]
    png: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an asset found out."""

    parts: tuple[Part, ...]  # the main one first; the report goes by its name
    numbers: Mapping[str, int | float | str]  # for the UI's curves
    tables: Mapping[str, Sequence[Mapping[str, Cell]]] = field(default_factory=dict)  # short ones for the UI, by name
    pages: Mapping[str, str] = field(default_factory=dict)  # HTML by file name


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedReport:
    """A report as it lies on disk."""

    folder: Path
    files: Mapping[str, str]  # sha256 by name
    texts: Mapping[str, str]  # by name of the part, the main one first
    numbers: Mapping[str, int | float | str]
    tables: Mapping[str, Sequence[Mapping[str, Cell]]]
    made_from: Mapping[str, str]

    @property
    def main(self) -> "ReportFiles":
        """The files of the main part."""
        return report_files(self.folder, next(iter(self.texts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """Where a part of a report lies."""

    text: Path
    parquet: Path
    picture: Path
    record: Path  # of the whole report, beside its main part


def report_files(folder: Path, name: str) -> ReportFiles:
    """Return where the part of a name lies, or will."""
    return ReportFiles(
        text=folder / f"{name}.txt",
        parquet=folder / f"{name}.parquet",
        picture=folder / f"{name}.png",
        record=folder / f"{name}.json",
    )


def write_report(folder: Path, report: Report, *, version: str, made_from: Mapping[str, str]) -> SavedReport:
    """Write a report, each file aside and then renamed, its record last.

    Args:
        folder: where reports lie.
        report: what to write.
        version: what ``report_version`` says of it.
        made_from: what it is about (run, weights, data, split), kept below each text and in each parquet's metadata.

    Raises:
        OSError: the folder cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    main = report_files(folder, report.parts[0].name)
    main.record.unlink(missing_ok=True)
    hashes: dict[str, str] = {}
    for part in report.parts:
        files = report_files(folder, part.name)
        _write_text(files.text, part.text, made_from)
        with written_aside(files.parquet) as aside:
            rows = pa.Table.from_pylist([dict(record) for record in part.records])
            pq.write_table(rows.replace_schema_metadata(dict(made_from)), aside)
        if part.png is not None:
            with written_aside(files.picture) as aside:
                aside.write_bytes(part.png)
        written = (files.text, files.parquet, *(() if part.png is None else (files.picture,)))
        hashes |= {path.name: file_sha256(path) for path in written}
    for name, page in report.pages.items():
        with written_aside(folder / name) as aside:
            aside.write_text(page, encoding="utf-8")
        hashes[name] = file_sha256(folder / name)
    record = {
        "version": version,
        "made_from": dict(made_from),
        "files": hashes,
        "texts": [[part.name, part.text] for part in report.parts],
        "numbers": dict(report.numbers),
        "tables": {name: [dict(row) for row in rows] for name, rows in report.tables.items()},
    }
    write_json(main.record, record)
    return _saved(folder, read_json(main.record) or record)  # in the order in which it will be found again


def find_report(folder: Path, name: str, version: str) -> SavedReport | None:
    """Return the report of a name if it is of this version and all its files are as they were written, else None."""
    record = read_json(report_files(folder, name).record)
    if not isinstance(record, dict) or record.get("version") != version:
        return None
    for file_name, seen in record["files"].items():
        path = folder / file_name
        if not path.is_file() or file_sha256(path) != seen:
            return None
    return _saved(folder, record)


def write_notice(folder: Path, name: str, *, text: str, made_from: Mapping[str, str]) -> ReportFiles:
    """Write why there is nothing to report in the place of a report, and remove the other files of an earlier one.

    Raises:
        OSError: the folder cannot be written.
    """
    files = report_files(folder, name)
    _write_text(files.text, text, made_from)
    for path in (files.parquet, files.picture, files.record):
        path.unlink(missing_ok=True)
    return files


def report_version(code_version: str, made_from: Mapping[str, str]) -> str:
    """Return the 16 hex digits that change exactly when the report could."""
    return hashlib.sha256(json.dumps([code_version, dict(made_from)], sort_keys=True).encode()).hexdigest()[:16]


def _saved(folder: Path, record: Mapping[str, Any]) -> SavedReport:
    return SavedReport(
        folder=folder,
        files=record["files"],
        texts=dict(record["texts"]),
        numbers=record["numbers"],
        tables=record["tables"],
        made_from=record["made_from"],
    )


def _write_text(path: Path, text: str, made_from: Mapping[str, str]) -> None:
    footer = "\n".join(f"{key}: {value}" for key, value in made_from.items())
    with written_aside(path) as aside:
        aside.write_text(f"{text}\n\n{footer}\n", encoding="utf-8")
