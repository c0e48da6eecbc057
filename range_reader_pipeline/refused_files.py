"""Which files were refused as a whole, and why: those that are broken or no hand histories, and those of other games.

The former want a person: a file that is cut off or no text is most likely not what its owner thinks it is. The latter are what
they are, and nothing can be mended. Both are told from the rejects alone. Files that were never opened leave no rejects; those are
told from the catalogue.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow.compute as pc
import pyarrow.parquet as pq

from range_reader_pipeline.catalogue import Catalogue, FileStatus
from range_reader_pipeline.ingest import OTHER_GAMES

FILE_CODES: Final = "FILE_"  # how a code begins that speaks of a whole file


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedFiles:
    """Names in order, with the reasons."""

    broken: dict[str, str]  # cannot be read: file name -> why
    other_games: dict[str, str]  # file name -> the codes of its records


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedFiles:
    """Names of hand histories that were not opened, in order, with the reasons."""

    locked: dict[str, str]  # the file system refused, so hands are missing that somebody meant to give
    passed_over: dict[str, str]  # links out of the folder or to nothing, pipes and the like, which are never opened


def closed_files(catalogue: Catalogue) -> ClosedFiles:
    """Return what the catalogue could not or would not open. Files still being written are neither: the next run takes them."""
    reasons = {
        kind: {entry.name: entry.reason for entry in catalogue.left_out if entry.status in kinds}
        for kind, kinds in (
            ("locked", (FileStatus.UNREADABLE,)),
            ("passed_over", (FileStatus.OUTSIDE, FileStatus.IRREGULAR)),
        )
    }
    return ClosedFiles(**reasons)


def refused_files(rejects: Path) -> RefusedFiles:
    """Return the files that ``rejects.parquet`` refuses as a whole; none where there is no such file.

    Raises:
        OSError: it cannot be read.
    """
    if not rejects.exists():
        return RefusedFiles(broken={}, other_games={})
    codes = pq.read_table(rejects, columns=["file", "code"]).group_by(["file", "code"]).aggregate([])
    codes_of: dict[str, set[str]] = {}
    for name, code in zip(codes["file"].to_pylist(), codes["code"].to_pylist(), strict=True):
        codes_of.setdefault(name, set()).add(code)
    whole = sorted(name for name, found in codes_of.items() if any(code.startswith(FILE_CODES) for code in found))
    other_games = {
        name: ", ".join(sorted(code for code in codes_of[name] if not code.startswith(FILE_CODES)))
        for name in whole
        if codes_of[name] <= OTHER_GAMES
    }
    broken = {name: "" for name in whole if name not in other_games}
    broken.update(_messages(rejects, list(broken)) if broken else {})
    return RefusedFiles(broken=broken, other_games=other_games)


def _messages(rejects: Path, names: list[str]) -> dict[str, str]:
    rows = pq.read_table(
        rejects,
        columns=["file", "code", "message"],
        filters=pc.field("file").isin(names) & pc.starts_with(pc.field("code"), FILE_CODES),
    )
    return {row["file"]: f"{row['code']}: {row['message']}" for row in rows.to_pylist()}
