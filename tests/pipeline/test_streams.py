"""Every compressed file ends as bytes or as a reason, in bounded memory, and what was hashed is what was read."""

import gzip
import hashlib
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from range_reader_pipeline import streams
from range_reader_pipeline.streams import HashingReader, PlainStream
from range_reader_pipeline.suffixes import content_suffix

LINES = b"".join(b'{"hand": %d, "noise": "%x"}\n' % (i, i * 2654435761 % 2**32) for i in range(20_000))


def as_is(data: bytes) -> bytes:
    return data


def zst(data: bytes) -> bytes:
    return zstandard.compress(data)


PACKERS = [("a.ohh", as_is), ("a.ohh.gz", gzip.compress), ("a.OHH.ZST", zst)]


def read(path: Path, **options: float) -> tuple[bytes, str | None, str]:
    """Return the plain bytes, the problem, and the hash."""
    source = HashingReader(path)
    stream = PlainStream(source, path.name, **options)  # type: ignore[arg-type]  # max_ratio
    data = stream.read()
    sha256 = source.sha256_to_end()
    source.close()
    return data, stream.problem, sha256


@pytest.mark.parametrize(("name", "pack"), PACKERS)
def test_plain_bytes_and_their_hash_come_through(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    """A lost last block would cost hands; a wrong hash would file them under another content."""
    packed = pack(LINES)
    (tmp_path / name).write_bytes(packed)
    assert read(tmp_path / name) == (LINES, None, hashlib.sha256(packed).hexdigest())


@pytest.mark.parametrize(("name", "pack"), PACKERS[1:])
def test_joined_archives_are_read_to_the_end(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    """`cat a.gz b.gz` is how people join files; stopping after the first loses the rest silently."""
    (tmp_path / name).write_bytes(pack(LINES) + pack(b"second\n"))
    assert read(tmp_path / name)[:2] == (LINES + b"second\n", None)


@pytest.mark.parametrize(("name", "pack"), PACKERS[1:])
@pytest.mark.parametrize("kept", [0.3, 0.97, -1])
def test_a_cut_off_archive_yields_what_it_holds_and_says_so(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes], kept: float
) -> None:
    """A download that broke off must not pass for a whole file, nor lose the hands that arrived."""
    packed = pack(LINES)
    (tmp_path / name).write_bytes(packed[: int(kept * len(packed)) if kept > 0 else -1])
    data, problem, _ = read(tmp_path / name)
    assert problem is not None
    assert "breaks off" in problem
    assert LINES.startswith(data)
    if kept != 0.3 or name.endswith("gz"):  # zstd delivers whole blocks, and this is a small file
        assert len(data) > 0.1 * len(LINES)


@pytest.mark.parametrize(("name", "pack"), PACKERS[1:])
def test_junk_behind_or_instead_of_an_archive_is_a_problem(tmp_path: Path, name: str, pack: Callable[[bytes], bytes]) -> None:
    """A text file named .gz must be refused with a reason, not crash the run."""
    (tmp_path / name).write_bytes(pack(LINES) + b"junk behind it")
    assert read(tmp_path / name)[1] is not None
    (tmp_path / name).write_bytes(b"plain text under a wrong name\n" * 100)
    assert read(tmp_path / name)[:1] == (b"",)
    assert read(tmp_path / name)[1] is not None


@pytest.mark.parametrize("padding", [1, 512, 300_000])
def test_zeros_behind_a_gzip_archive_are_nothing(tmp_path: Path, padding: int) -> None:
    """Tapes, and programs that write in blocks, fill the last one up; `gunzip` takes that for whole, and so must this."""
    (tmp_path / "a.ohh.gz").write_bytes(gzip.compress(LINES) + bytes(padding))
    assert read(tmp_path / "a.ohh.gz")[:2] == (LINES, None)


def test_what_stands_before_damage_in_gzip_is_all_delivered(tmp_path: Path) -> None:
    """Junk behind an archive, or a wrong sum at its end, says that something is off, not that the hands before it are not there."""
    packed = gzip.compress(LINES)
    for damaged in (packed + b"junk behind it", packed[:-8] + bytes(8)):
        (tmp_path / "a.ohh.gz").write_bytes(damaged)
        data, problem, _ = read(tmp_path / "a.ohh.gz")
        assert data == LINES
        assert problem is not None


@pytest.mark.parametrize(("name", "pack"), PACKERS[1:])
def test_a_bomb_ends_at_the_limit_in_little_memory(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few kilobytes may hold terabytes of zeros."""
    monkeypatch.setattr(streams, "FREE_BYTES", 1 << 22)
    (tmp_path / name).write_bytes(pack(bytes(200 << 20)))
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    source = HashingReader(tmp_path / name)
    stream = PlainStream(source, name)
    total = sum(iter(lambda: len(stream.read(1 << 16)), 0))
    source.close()
    assert stream.problem is not None
    assert "to 1" in stream.problem
    assert total < 200 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 64 << 10


def test_the_hash_covers_what_the_parser_left_unread(tmp_path: Path) -> None:
    """A parser that gives a file up early must not file it under the hash of its beginning."""
    (tmp_path / "a.ohh").write_bytes(LINES)
    source = HashingReader(tmp_path / "a.ohh")
    stream = PlainStream(source, "a.ohh")
    stream.readline()
    assert source.sha256_to_end() == hashlib.sha256(LINES).hexdigest()
    stream.close()


def test_suffixes_are_recognised_below_one_compression() -> None:
    """Double compression and look-alikes are not hand histories."""
    assert [content_suffix(n) for n in ("a.ohh", "A.JSONL.GZ", "b.ndjson.zst", "c.json")] == [".ohh", ".jsonl", ".ndjson", ".json"]
    assert [content_suffix(n) for n in ("a.ohh.gz.zst", "a.txt", "ohh", "a.ohh.tmp", "a.gz", "a.ots")] == [None] * 6
