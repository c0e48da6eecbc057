"""What the assets that grade show in the UI of a report, be it new or found unchanged."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import dagster as dg

from range_reader_pipeline import metadata
from range_reader_pipeline.reports import SavedReport, report_files


def report_result(
    saved: SavedReport,
    *,
    version: str,
    is_reused: bool,
    seconds: float,
    columns: Mapping[str, Mapping[str, str]],
    check_results: Sequence[dg.AssetCheckResult],
    paths: Mapping[str, Path] = MappingProxyType({}),
) -> dg.MaterializeResult[None]:
    """Return the materialization of a report: its texts, pictures, short tables and numbers, and where its files lie.

    Args:
        saved: the report.
        version: its data version.
        is_reused: nothing was graded, because nothing had changed.
        seconds: what it took.
        columns: of each short table, name -> description.
        check_results: what was concluded from the numbers.
        paths: of further files.
    """
    main, *others = saved.texts
    entries: dict[str, dg.MetadataValue | int | float | str | bool] = {"table": metadata.text_block(saved.texts[main])}
    for name in (main, *others):
        png = report_files(saved.folder, name).picture
        if png.name in saved.files:
            entries["picture" if name == main else f"{name}_picture"] = metadata.picture(png.read_bytes(), name.replace("_", " "))
    entries |= {name: metadata.text_block(saved.texts[name]) for name in others}
    entries |= {name: metadata.table(rows, columns[name]) for name, rows in saved.tables.items() if rows}
    entries |= metadata.rounded(saved.numbers)
    entries |= {
        "reused": is_reused,
        "seconds": round(seconds, 1),
        "made_from": dg.MetadataValue.json(dict(saved.made_from)),
        "report": dg.MetadataValue.path(saved.main.text),
        "rows": dg.MetadataValue.path(saved.main.parquet),
    }
    entries |= {name: dg.MetadataValue.path(path) for name, path in paths.items()}
    return dg.MaterializeResult(data_version=dg.DataVersion(version), metadata=entries, check_results=check_results)
