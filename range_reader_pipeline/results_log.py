"""``results.tsv``, the append-only experiment log: one row a training run, ``mrr`` the decision column.

Several processes may append (CLI, UI, nightly), so every append holds a lock and writes one whole line. Rows are never
edited or removed. Whether a run is kept is decided by ``run_store``; this file only remembers it.
"""

from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Final

from filelock import FileLock

LOCK_TIMEOUT_S: Final = 30.0


class RunStatus(StrEnum):
    """What became of a run: its checkpoint is the kept one, was not better, or there is none."""

    KEEP = "keep"
    DISCARD = "discard"
    CRASH = "crash"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One training run. Measurements are None for a run that crashed before it had any."""

    time: str  # UTC, ISO 8601
    run_id: str  # name of the folder under runs/
    git_commit: str  # of the code, "-dirty" where it differed from the commit, "unknown" outside a repository
    data_version: str  # of the shards trained on
    preset: str
    minutes: float  # wall clock spent training, over all resumptions
    split: str  # the split measured on
    mrr: float | None  # decides keep or discard
    loss_nats: float | None
    mean_rank: float | None
    nats_below_static_range: float | None  # static range's loss minus ours; negative: worse than ignoring the betting
    status: RunStatus
    note: str


def append_result(path: Path, row: ResultRow) -> None:
    """Append one row, with the header first where the file is new.

    Raises:
        OSError: the file cannot be written.
        filelock.Timeout: another process held the lock for ``LOCK_TIMEOUT_S``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.name}.lock"), timeout=LOCK_TIMEOUT_S):
        text = "" if _has_rows(path) else "\t".join(_COLUMNS) + "\n"
        if _is_torn(path):
            text = "\n" + text
        with path.open("a", encoding="utf-8") as stream:
            stream.write(text + "\t".join(_cell(getattr(row, column)) for column in _COLUMNS) + "\n")


def read_results(path: Path) -> list[ResultRow]:
    """Return all complete rows, oldest first; none where there is no file. A line torn by a crash is left out.

    Bytes that are no text are shown as replacement characters, so a note in another encoding stops nothing.

    Raises:
        ValueError: the header is not the one this code writes, or a cell is not what its column holds; names file and line.
    """
    if not path.exists():
        return []
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]
    if lines and lines[0] != list(_COLUMNS):
        msg = f"{path}: expected the columns {', '.join(_COLUMNS)}, got {', '.join(lines[0])}; move the file away"
        raise ValueError(msg)
    return [_row_at(path, number, line) for number, line in enumerate(lines[1:], start=2) if len(line) == len(_COLUMNS)]


def _row_at(path: Path, number: int, line: list[str]) -> ResultRow:
    try:
        return _row(dict(zip(_COLUMNS, line, strict=True)))
    except ValueError as error:
        msg = f"{path}, line {number}: {error}; mend the line, or move the file away"
        raise ValueError(msg) from error


def _row(cells: dict[str, str]) -> ResultRow:
    def number(column: str) -> float | None:
        return float(cells[column]) if cells[column] else None

    return ResultRow(
        time=cells["time"],
        run_id=cells["run_id"],
        git_commit=cells["git_commit"],
        data_version=cells["data_version"],
        preset=cells["preset"],
        minutes=float(cells["minutes"]),
        split=cells["split"],
        mrr=number("mrr"),
        loss_nats=number("loss_nats"),
        mean_rank=number("mean_rank"),
        nats_below_static_range=number("nats_below_static_range"),
        status=RunStatus(cells["status"]),
        note=cells["note"],
    )


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return " ".join(str(value).split())  # a tab or newline in a note would break the table


def _has_rows(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _is_torn(path: Path) -> bool:
    """Tell whether a crash left the last line without its end."""
    if not _has_rows(path):
        return False
    with path.open("rb") as stream:
        stream.seek(-1, 2)
        return stream.read(1) != b"\n"


_COLUMNS: Final = tuple(field.name for field in fields(ResultRow))
