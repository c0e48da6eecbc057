"""From the catalogue to published shards: encode what is not cached, drop repeats, shuffle, publish.

The whole of it runs under one lock, so two runs at once do the work once: the second finds the version published and reuses
it. Killed at any point, the next run sweeps up what was unfinished and ends with the same bytes. A cache entry damaged on disk is
encoded again. Nothing here knows Dagster; progress goes to a callback, and what a person must act on is an exception.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from range_reader_core.encoder import EncodingCounts
from range_reader_core.partition import SPLITS
from range_reader_core.wording import counted, first_of
from range_reader_pipeline.catalogue import Catalogue
from range_reader_pipeline.ingest import OTHER_GAMES, FileOutcome, FileTask, ingest_files, open_cache
from range_reader_pipeline.locks import held
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.publication import (
    Manifest,
    building,
    make_manifest,
    point_data,
    publish,
    published,
    shards_version,
    whole_manifest,
)
from range_reader_pipeline.reads_cache import CorruptCacheError, FileCounts, ReadsCache
from range_reader_pipeline.refused_files import refused_files
from range_reader_pipeline.rejects import rejects_version, write_rejects
from range_reader_pipeline.repeats import EarlyIds, Repeats, find_repeats
from range_reader_pipeline.shuffle import ShuffleConfig, ShuffleResult, shuffle
from range_reader_pipeline.spare_cores import num_cores
from range_reader_pipeline.storage import aside_path, sweep
from range_reader_pipeline.workers import Workers, workers

SMALL_BYTES: Final = 4_000_000  # below this, starting worker processes costs more than they save
PROGRESS_STEPS: Final = 10  # messages about files, at most about so many

OnProgress = Callable[[str], None]


class NothingToReadError(ValueError):
    """No file could be read, or every hand was rejected; ``reasons`` counts why."""

    def __init__(self, message: str, reasons: dict[str, int]) -> None:
        """Carry the message and the reasons."""
        super().__init__(message)
        self.reasons = reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResult:
    """The published shards."""

    manifest: Manifest
    is_reused: bool  # the version was there already
    num_files_encoded: int  # the others came from the cache; 0 where the version was there
    problems: dict[str, str]  # file name -> why it could not be read now, although it is catalogued


def build_shards(
    paths: HomePaths,
    catalogue: Catalogue,
    config: ShuffleConfig,
    *,
    num_workers: int = 0,
    on_progress: OnProgress = lambda _: None,
) -> BuildResult:
    """Publish the shards of a catalogue's files.

    Args:
        paths: the home.
        catalogue: of the files.
        config: of the shuffle.
        num_workers: processes; 0 for one a core, or none beside this one where there is little to do.
        on_progress: called with what was just done.

    Raises:
        NothingToReadError: no file can be read, or every hand was rejected.
        OSError: the disk refused.
        WorkerDiedError: a worker was killed.
    """
    contents = {entry.content: entry for entry in reversed(catalogue.readable)}  # of equal contents, the first name
    if not contents:
        msg = f"{catalogue.folder} holds no readable hand histories"
        raise NothingToReadError(msg, {})
    with held(paths.ingest_lock, "another run is encoding for this home; waiting for it", on_progress):
        _sweep(paths)
        cache = open_cache(paths.reads_cache)
        result = _reuse(paths, shards_version(list(contents), config))
        if result is None:
            tasks = [
                FileTask(path=catalogue.folder / entry.name, name=entry.name, content=entry.content, cache=cache)
                for entry in contents.values()
            ]
            to_encode = [task for task in tasks if cache.counts(task.content) is None]
            num_bytes = sum(contents[task.content].size_bytes for task in to_encode)
            with workers(num_workers or _fitting_workers(len(to_encode), num_bytes)) as pool:
                result = _build(paths, tasks, config, pool, on_progress)
        if rejects_version(paths.rejects) != result.manifest["version"]:
            names = {content: contents[content].name for content in result.manifest["inputs"]}
            _restore_rejects(paths, cache, names, str(result.manifest["version"]), on_progress)
        cache.prune(set(contents))
    return result


def _build(
    paths: HomePaths, tasks: Sequence[FileTask], config: ShuffleConfig, pool: Workers, on_progress: OnProgress
) -> BuildResult:
    step = max(1, len(tasks) // PROGRESS_STEPS)
    cache = tasks[0].cache
    early = EarlyIds()

    def on_file(count: int, outcome: FileOutcome) -> None:
        if count % step == 0 or count == len(tasks):
            on_progress(f"encoded {count:,} of {counted(len(tasks), 'file')}, last {outcome.name}")
        if pool.count > 1 and outcome.counts is not None:
            early.read(cache, outcome.content)

    num_cached = sum(task.cache.counts(task.content) is not None for task in tasks)
    outcomes = ingest_files(tasks, pool, on_file)
    problems = {outcome.name: outcome.problem for outcome in outcomes if outcome.counts is None}
    used = {outcome.content: outcome.counts for outcome in outcomes if outcome.counts is not None}
    version = shards_version(list(used), config)
    if used and not any(counts.encoding.num_hands for counts in used.values()):
        # There will be no shards, but what was refused is what a person needs now.
        _restore_rejects(paths, cache, {task.content: task.name for task in tasks if task.content in used}, version, on_progress)
    _require_hands(used, problems, paths.rejects)
    reused = _reuse(paths, version)
    if reused is not None:
        return BuildResult(manifest=reused.manifest, is_reused=True, num_files_encoded=len(tasks) - num_cached, problems=problems)
    by_content = {task.content: task for task in tasks}
    for _ in range(len(tasks) + 1):  # each may turn out damaged once, and then it must still be read
        try:
            with building(paths, version) as folder:
                repeats = find_repeats(cache, list(used), early)
                scratch = aside_path(paths.scratch / version)
                result = shuffle(
                    cache, list(used), repeats, folder, scratch=scratch, config=config, workers=pool, on_progress=on_progress
                )
                manifest = make_manifest(version, list(used), config, result.shards, _counts(used, repeats, result))
                write_rejects(paths.rejects, cache, {content: by_content[content].name for content in used}, repeats, version)
                publish(paths, folder, manifest)
            break
        except CorruptCacheError as error:
            on_progress(f"{error}; encoding the file again")
            cache.discard(error.content)
            ingest_files([by_content[error.content]], pool)
    else:
        msg = f"{cache.folder}: entries stay unreadable after they were written again; is the disk failing?"
        raise OSError(msg)
    on_progress(f"published version {version}")
    return BuildResult(manifest=manifest, is_reused=False, num_files_encoded=len(tasks) - num_cached, problems=problems)


def _reuse(paths: HomePaths, version: str) -> BuildResult | None:
    """Return the version if it is published, or was and is still there whole; it is then published again."""
    manifest = published(paths)
    if manifest is None or manifest["version"] != version:
        manifest = whole_manifest(paths.data_versions / version)
        if manifest is None:
            return None
        point_data(paths, paths.data_versions / version)
    return BuildResult(manifest=manifest, is_reused=True, num_files_encoded=0, problems={})


def _restore_rejects(paths: HomePaths, cache: ReadsCache, names: dict[str, str], version: str, on_progress: OnProgress) -> None:
    """Write the rejects of a version whose shards are not made now, if the cache still knows them."""
    try:
        repeats = find_repeats(cache, list(names))
        write_rejects(paths.rejects, cache, names, repeats, version)
    except CorruptCacheError as error:
        on_progress(f"{paths.rejects} could not be written: {error}")


def _require_hands(used: dict[str, FileCounts], problems: dict[str, str], rejects: Path) -> None:
    reasons: dict[str, int] = {}
    for counts in used.values():
        for code, count in counts.by_code.items():
            reasons[code] = reasons.get(code, 0) + count
    if not used:
        listed = first_of([f"{name} ({problem})" for name, problem in problems.items()])
        msg = f"none of {counted(len(problems), 'file')} can be read: {listed}"
        raise NothingToReadError(msg, reasons)
    files = counted(len(used), "file")
    if not any(counts.encoding.num_hands for counts in used.values()):
        if not reasons:
            msg = f"{files} {'holds' if len(used) == 1 else 'hold'} no hands"
            raise NothingToReadError(msg, reasons)
        refused = refused_files(rejects)
        listed = first_of([f"{name} ({why})" for name, why in (refused.broken | refused.other_games).items()])
        msg = f"not one hand was accepted from {files}: {listed}"
        if reasons.keys() <= OTHER_GAMES:
            msg = f"{files} with no hand of uncapped no-limit hold'em, only of other games, which are not read: {listed}"
        msg += f". `range-reader ingest <file>` and {rejects} name every refused record"
        raise NothingToReadError(msg, reasons)
    if not any(counts.encoding.num_reads for counts in used.values()):
        msg = "hands were accepted, but none shows the cards of two players, so there is nothing to learn from"
        raise NothingToReadError(msg, reasons)


def _counts(used: dict[str, FileCounts], repeats: Repeats, result: ShuffleResult) -> dict[str, Any]:
    encoding = sum((counts.encoding for counts in used.values()), EncodingCounts())
    by_code: dict[str, int] = {}
    for counts in used.values():
        for code, count in counts.by_code.items():
            by_code[code] = by_code.get(code, 0) + count
    return {
        "num_files": len(used),
        "num_failed_files": sum(counts.is_failed for counts in used.values()),
        "num_accepted": encoding.num_hands,
        "num_rejected": sum(counts.num_rejected for counts in used.values()),
        "rejected_by_code": by_code,
        "num_repeats": repeats.num_repeats,
        "num_conflicts": repeats.num_conflicts,
        "num_hands": encoding.num_hands - repeats.num_repeats - repeats.num_conflicts,
        "num_walks": encoding.num_walks,
        "num_unlabelled_hands": encoding.num_unlabelled_hands,
        "hands_by_split": result.num_hands,
        "reads_by_split": {split: sum(s.num_reads for s in result.shards if s.split == split) for split in SPLITS},
        "num_reads": sum(shard.num_reads for shard in result.shards),
        "num_positions": sum(shard.num_positions for shard in result.shards),
        "num_cut_reads": encoding.num_cut_reads,
        "num_cut_positions": encoding.num_cut_positions,
        "num_bytes": sum(shard.num_bytes for shard in result.shards),
    }


def _fitting_workers(num_files: int, num_bytes: int) -> int:
    if num_bytes < SMALL_BYTES:
        return 1
    return max(1, min(num_cores(), num_files))


def _sweep(paths: HomePaths) -> None:
    """Remove what a killed run left; the lock says that nobody else is writing."""
    for folder in (paths.scratch, paths.reads_cache, paths.data_versions):
        sweep(folder)
    for path in (paths.data, paths.rejects):  # beside them others write, under locks of their own
        sweep(path.parent, of=path.name)
