"""A file that grows while it is read: nothing half-read is kept, and once it rests the shards are what they would have been."""

import hashlib
import threading
import time
from pathlib import Path

import pytest

from range_reader_pipeline import streams
from range_reader_pipeline.catalogue import Catalogue, FileStatus
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.shard_build import BuildResult, build_shards
from range_reader_pipeline.shuffle import ShuffleConfig
from tests.core.hands import random_hands
from tests.pipeline.encoded import catalogue_of, folder_bytes, home_with
from tests.pipeline.ohh_writer import ohh_line

CONFIG = ShuffleConfig(reads_per_shard=300)
STABLE = {"stable.ohh": random_hands(1, 40)}
GROWING = "growing.ohh"
PIECE_BYTES = 3_001  # so that most pieces end inside a hand
TEXT = "".join(ohh_line(hand) + "\n" for hand in random_hands(2, 300)).encode()


def build(paths: HomePaths, catalogue: Catalogue | None = None) -> BuildResult:
    return build_shards(paths, catalogue or catalogue_of(paths), CONFIG, num_workers=1)


def undisturbed(folder: Path) -> HomePaths:
    """Return a home that was built once, with the whole file."""
    paths = home_with(folder, STABLE)
    (paths.ohh / GROWING).write_bytes(TEXT)
    build(paths)
    return paths


def hashes_of_states() -> set[str]:
    """Return the hash of every state that the file has been in, a piece at a time."""
    digest = hashlib.sha256()
    states = {digest.hexdigest()}
    for begin in range(0, len(TEXT), PIECE_BYTES):
        digest.update(TEXT[begin : begin + PIECE_BYTES])
        states.add(digest.hexdigest())
    return states


@pytest.mark.timeout(120)
def test_builds_beside_a_writer_end_as_if_there_had_been_none(tmp_path: Path) -> None:
    """A tracker writes while its owner plays; what a build took for the file must have been the file at some moment."""
    paths = home_with(tmp_path / "beside", STABLE)
    path = paths.ohh / GROWING
    path.touch()
    first_build = threading.Event()

    def write() -> None:
        with path.open("ab", buffering=0) as stream:
            for begin in range(0, len(TEXT), PIECE_BYTES):
                stream.write(TEXT[begin : begin + PIECE_BYTES])
                time.sleep(0.002)
                if begin > len(TEXT) // 2:
                    first_build.wait()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    states = hashes_of_states()
    num_builds = num_disturbed = 0
    while writer.is_alive():
        catalogue = catalogue_of(paths)
        result = build(paths, catalogue)
        num_builds += 1
        first_build.set()
        is_changing = any(entry.status is FileStatus.CHANGING for entry in catalogue.entries)
        num_disturbed += is_changing or GROWING in result.problems
        for content in result.manifest["inputs"]:
            assert content.partition(".")[0] in states | {entry.sha256 for entry in catalogue.entries if entry.name != GROWING}
        assert {entry.partition(".")[0] for entry in cached(paths)} <= states | {
            entry.sha256 for entry in catalogue.entries if entry.name != GROWING
        }
    writer.join()
    assert num_builds > 0
    assert num_disturbed > 0
    last = build(paths)
    assert not last.problems
    whole = undisturbed(tmp_path / "whole")
    assert folder_bytes(paths.data.resolve()) == folder_bytes(whole.data.resolve())
    assert paths.rejects.read_bytes() == whole.rejects.read_bytes()


def cached(paths: HomePaths) -> list[str]:
    """Return the contents that have entries in the cache."""
    return [path.name.rpartition("-")[0] for path in paths.reads_cache.glob("*.arrow")]


def test_a_file_that_grows_in_the_middle_of_its_reading_waits_for_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalogue saw half of it, the reader the rest: neither is what the hash says, so neither may be kept under it."""
    paths = home_with(tmp_path / "grown", STABLE)
    path = paths.ohh / GROWING
    path.write_bytes(TEXT[: len(TEXT) // 2])
    catalogue = catalogue_of(paths)
    (half,) = (entry for entry in catalogue.entries if entry.name == GROWING)
    readinto = streams.HashingReader.readinto
    left = [TEXT[len(TEXT) // 2 :]]

    def read_then_grow(self: streams.HashingReader, buffer: memoryview) -> int:
        count = readinto(self, buffer)
        if count and left and self.num_bytes <= half.size_bytes and Path(str(self._file.name)).name == GROWING:
            with path.open("ab") as stream:
                stream.write(left.pop())
        return count

    with monkeypatch.context() as patch:
        patch.setattr(streams.HashingReader, "readinto", read_then_grow)
        result = build(paths, catalogue)
    assert not left
    assert result.problems == {GROWING: "changed since it was catalogued"}
    assert half.content not in cached(paths)
    assert half.content not in result.manifest["inputs"]
    assert not build(paths).problems
    whole = undisturbed(tmp_path / "whole")
    assert folder_bytes(paths.data.resolve()) == folder_bytes(whole.data.resolve())
    assert paths.rejects.read_bytes() == whole.rejects.read_bytes()
