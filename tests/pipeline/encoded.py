"""Small homes and caches for tests: random hands written as files, scanned and encoded."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from range_reader_core.hand import CanonicalHand
from range_reader_pipeline.catalogue import Catalogue, HashMemo, list_folder, scan
from range_reader_pipeline.ingest import FileTask, ingest_file, open_cache
from range_reader_pipeline.paths import HomePaths, home_paths
from range_reader_pipeline.reads_cache import ReadsCache
from range_reader_pipeline.suffixes import reading_of
from tests.pipeline.ohh_writer import write_ohh


def home_with(folder: Path, files: Mapping[str, Sequence[CanonicalHand]]) -> HomePaths:
    """Return a new home whose input folder holds these files."""
    paths = home_paths(home=str(folder / "home"), environment={})
    paths.create()
    for name, hands in files.items():
        write_ohh(paths.ohh / name, hands)
    return paths


def catalogue_of(paths: HomePaths) -> Catalogue:
    """Return the catalogue of a home's input folder."""
    return scan(list_folder(paths.ohh), HashMemo(paths.ohh), now_ns=time.time_ns())


def task_of(path: Path, cache: ReadsCache) -> FileTask:
    """Return the task of encoding a file."""
    content = f"{hashlib.sha256(path.read_bytes()).hexdigest()}.{reading_of(path.name)}"
    return FileTask(path=path, name=path.name, content=content, cache=cache)


def cache_of(folder: Path, files: Mapping[str, Sequence[CanonicalHand]]) -> tuple[ReadsCache, dict[str, str]]:
    """Return a cache of these files, and their contents by name."""
    cache = open_cache(folder / "cache")
    hashes = {}
    for name, hands in files.items():
        outcome = ingest_file(task_of(write_ohh(folder / "files" / name, hands), cache))
        assert outcome.counts is not None, outcome.problem
        hashes[name] = outcome.content
    return cache, hashes


def folder_bytes(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files below a folder, by relative name."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
