"""Object stores for tests: fsspec's own file systems, in memory and on disk, with hands in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from range_reader_core.hand import CanonicalHand
from range_reader_pipeline.paths import HomePaths, home_paths
from tests.pipeline.ohh_writer import ohh_line

KINDS = ("memory", "file")


@dataclass(frozen=True)
class Bucket:
    """A folder at a URL."""

    url: str

    @property
    def root(self) -> tuple[Any, str]:
        """The file system and the folder's path in it."""
        return fsspec.url_to_fs(self.url)

    def write(self, name: str, content: bytes) -> None:
        """Write an object."""
        store, root = self.root
        store.makedirs(f"{root}/{name}".rpartition("/")[0], exist_ok=True)
        store.pipe_file(f"{root}/{name}", content)

    def write_raw(self, name: str, content: bytes = b"x") -> None:
        """Write an object of a name that no folder would take; in memory only."""
        store, root = self.root
        store.store[f"{root}/{name}"] = MemoryFile(store, f"{root}/{name}", content)

    def write_hands(self, name: str, hands: Sequence[CanonicalHand]) -> None:
        """Write hands, as ``write_ohh`` does."""
        self.write(name, "".join(ohh_line(hand) + "\n\n" for hand in hands).encode())

    def remove(self, name: str) -> None:
        """Remove an object."""
        store, root = self.root
        store.rm_file(f"{root}/{name}")


def bucket_of(kind: str, folder: Path) -> Bucket:
    """Return an empty bucket; those in memory are one, so it is emptied."""
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
    return Bucket("memory://bucket/hands" if kind == "memory" else f"file://{folder}/bucket/hands")


def home_on(folder: Path, bucket: Bucket, name: str = "home") -> HomePaths:
    """Return a new home whose hand histories lie in a bucket."""
    paths = home_paths(home=str(folder / name), ohh=bucket.url, environment={})
    paths.create()
    return paths
