"""Versions of the shards: what they are named by, how one becomes the published one, and which old ones stay.

A version is the hash of everything that decides its bytes: the contents of the input files, the code that encodes them, seed
and shard size. Its folder is built aside and renamed, then ``data`` is pointed at it, so readers see one whole version or
another. The version before stays, since a training may still be loading it. ``manifest.json`` is written last and lists every
shard with size and hash; a folder whose files do not match it is not believed and is built again.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from range_reader_core.encoder import ENCODER_VERSION, MAX_POSITIONS
from range_reader_core.partition import TEST_SHARE, VAL_SHARE
from range_reader_core.tokens import VOCABULARY_HASH
from range_reader_pipeline.catalogue import version_of
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.shuffle import ShardInfo, ShuffleConfig
from range_reader_pipeline.storage import ASIDE, aside_path, link_target, point_link, read_json, replace_folder, write_json

LAYOUT_VERSION: Final = "4"  # of shards and their order: raise it when the same reads would be written differently
MANIFEST: Final = "manifest.json"
PREVIOUS: Final = "previous"  # link beside the versions

Manifest = dict[str, Any]


def code_version() -> dict[str, str]:
    """Return what in the code decides the bytes of the shards."""
    return {
        "encoder": ENCODER_VERSION,
        "layout": LAYOUT_VERSION,
        "vocabulary": VOCABULARY_HASH,
        "split": f"val {VAL_SHARE}, test {TEST_SHARE}",
        "max_positions": str(MAX_POSITIONS),
    }


def shards_version(contents: Sequence[str], config: ShuffleConfig) -> str:
    """Return the version of the shards that these contents, this code and this config make."""
    identity = {"inputs": version_of(contents), "code": code_version(), "config": asdict(config)}
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def published(paths: HomePaths) -> Manifest | None:
    """Return the manifest of the published shards if every shard is there in full, else None."""
    target = link_target(paths.data)
    return None if target is None else whole_manifest(target)


def whole_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a version's folder if all its shards have the size it says, else None."""
    manifest = read_json(folder / MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("version") != folder.name:
        return None
    try:
        shards = [ShardInfo(**shard) for shard in manifest["shards"]]
        is_complete = bool(manifest["source_version"]) and bool(manifest["inputs"])
        is_complete &= isinstance(manifest["counts"]["reads_by_split"]["train"], int)
    except (KeyError, TypeError):  # damaged: built again
        return None
    for shard in shards:
        path = folder / shard.split / shard.name
        if not path.is_file() or path.stat().st_size != shard.num_bytes:
            return None
    return manifest if is_complete and shards else None


def make_manifest(
    version: str, contents: Sequence[str], config: ShuffleConfig, shards: Sequence[ShardInfo], counts: dict[str, Any]
) -> Manifest:
    """Return what is remembered of a version. No names, times or machines: equal shards have equal manifests."""
    return {
        "version": version,
        "source_version": version_of(contents),
        "inputs": sorted(set(contents)),
        "code": code_version(),
        "config": asdict(config),
        "counts": counts,
        "shards": [asdict(shard) for shard in shards],
    }


@contextmanager
def building(paths: HomePaths, version: str) -> Iterator[Path]:
    """Yield a folder to write a version's shards to; on an error it is removed. ``publish`` makes it visible."""
    paths.data_versions.mkdir(parents=True, exist_ok=True)
    folder = aside_path(paths.data_versions / version)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def publish(paths: HomePaths, folder: Path, manifest: Manifest) -> None:
    """Complete a built folder with its manifest, put it among the versions, and point ``data`` at it."""
    write_json(folder / MANIFEST, manifest)
    final = paths.data_versions / str(manifest["version"])
    replace_folder(final, folder)
    point_data(paths, final)


def point_data(paths: HomePaths, version_folder: Path) -> None:
    """Make a version the published one, remember the one before it, and remove all others."""
    before = link_target(paths.data)
    previous = paths.data_versions / PREVIOUS
    if before is not None and before.name != version_folder.name:
        point_link(previous, before)
    point_link(paths.data, version_folder)
    kept_previous = link_target(previous)
    keep = {version_folder.name, PREVIOUS} | ({kept_previous.name} if kept_previous else set())
    for entry in paths.data_versions.iterdir():
        if entry.name not in keep and not entry.name.endswith(ASIDE):
            shutil.rmtree(entry, ignore_errors=True)
