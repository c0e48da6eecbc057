"""The tracker baselines of a version of the shards, counted once and kept as plain arrays under ``cache/trackers``.

Counting half a million reads takes 20 s (one core, 2026-11-30), and both reports need the same counts. A file that cannot be read
is counted again. The counts are of the train split of the shards that are graded on; hands never change their split, so no graded
hand is among them.
"""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from range_reader_pipeline.storage import aside_path

if TYPE_CHECKING:
    from range_reader_core.tracker_baselines import LineReader, StrengthReader

TRACKERS_VERSION: Final = "1"  # raise it when the same reads would be counted differently
_LEVELS: Final = 3


def trackers(data_folder: Path, cache: Path, log: Callable[[str], None]) -> "tuple[LineReader, StrengthReader]":
    """Return the readers that count positions, lines and strengths, fitted on the train and val splits of a version.

    Args:
        data_folder: of the version, by its own name.
        cache: where counts are kept; those of other versions are removed.
        log: told when something is counted.

    Raises:
        ValueError: there are no shards, or none of the reads can be counted.
        OSError: the cache cannot be written.
    """
    path = cache / f"{data_folder.name}.{TRACKERS_VERSION}.npz"
    try:
        return _load(path)
    except (FileNotFoundError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
        pass  # none yet, or damaged
    from range_reader_core.tracker_baselines import fit_trackers
    from range_reader_pipeline.shards import load_split

    train_reads = load_split(data_folder, "train")
    log(f"counting positions, lines and strengths in {train_reads.num_reads:,} training reads, once for these shards")
    fitted = fit_trackers(train_reads, load_split(data_folder, "val"))
    _save(path, *fitted)
    for other in cache.glob("*.npz"):
        if other != path:
            other.unlink(missing_ok=True)
    return fitted


def _save(path: Path, line: "LineReader", strength: "StrengthReader") -> None:
    import numpy as np

    path.parent.mkdir(parents=True, exist_ok=True)
    aside = aside_path(path)
    arrays = {
        "static": line.lines.static.class_counts,
        "static_smoothing": np.array(line.lines.static.smoothing_counts),
        "actions": strength.actions.counts,
        "line_smoothing": np.array(line.smoothing_counts),
        "action_smoothing": np.array(strength.action_smoothing_counts),
    }
    for level in range(_LEVELS):
        arrays[f"lines_{level}"], arrays[f"counts_{level}"] = line.lines.lines[level], line.lines.counts[level]
    with aside.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)
    aside.replace(path)


def _load(path: Path) -> "tuple[LineReader, StrengthReader]":
    import numpy as np

    from range_reader_core.baselines import StaticRangeReader
    from range_reader_core.tracker_baselines import LineReader, StrengthReader
    from range_reader_core.tracker_counts import ActionCounts, LineCounts

    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
        lines = LineCounts(
            static=StaticRangeReader(class_counts=stored["static"], smoothing_counts=float(stored["static_smoothing"])),
            lines=tuple(stored[f"lines_{level}"] for level in range(_LEVELS)),
            counts=tuple(stored[f"counts_{level}"] for level in range(_LEVELS)),
        )
        line_smoothing = float(stored["line_smoothing"])
        return (
            LineReader(lines=lines, smoothing_counts=line_smoothing),
            StrengthReader(
                lines=lines,
                actions=ActionCounts(counts=stored["actions"]),
                line_smoothing_counts=line_smoothing,
                action_smoothing_counts=float(stored["action_smoothing"]),
            ),
        )
