"""An input file as a stream of plain bytes, whatever it is compressed with, hashed as it is read.

Decompression is bounded: fixed buffers, zstd's default limit on its window, and a limit on how much a file may blow up, since
a few kilobytes can hold terabytes of zeros. A compressed file that is damaged, cut off or a bomb simply ends where it breaks, with
everything before it delivered, and says so in ``problem``; a reader in between need not know. Python's gzip reads gzip, which also
bears the zeros that tapes and some writers fill a file up with. Arrow reads zstd, because python-zstandard's reader takes a cut-off
frame for the end. What the bytes mean is the parser's business.
"""

import errno
import gzip
import hashlib
import io
import os
import stat
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa

from range_reader_pipeline.suffixes import codec_of

BUFFER_BYTES: Final = 1 << 20
STEP_BYTES: Final = 1 << 15  # decompressed at a time; what is lost where a stream breaks
FREE_BYTES: Final = 1 << 28  # decompressed bytes below which no ratio is too high
MAX_RATIO: Final = 300  # decompressed to compressed; the most seen on real hands is 31 (zstd -19), zeros reach 1000 and more


class HashingReader(io.RawIOBase):
    """A raw file that hashes the bytes it hands out, so that what was parsed and what was hashed are the same."""

    def __init__(self, path: Path) -> None:
        """Open the file.

        Raises:
            OSError: it cannot be opened, or is a pipe or device, which might never end.
        """
        self._file = io.FileIO(path, opener=_open_at_once)
        if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
            self._file.close()
            raise OSError(errno.EINVAL, "not a regular file; write it to one first", str(path))
        self._hash = hashlib.sha256()
        self.num_bytes = 0
        self.error: OSError | None = None  # the disk's, which must not be mistaken for one of a file that is written meanwhile

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # RawIOBase types a WriteableBuffer
        """Fill the buffer and hash what went in."""
        try:
            count = self._file.readinto(buffer)
        except OSError as error:
            self.error = error
            raise
        if count:
            self._hash.update(memoryview(buffer)[:count])
            self.num_bytes += count
        return count or 0

    def sha256_to_end(self) -> str:
        """Read what is left and return the hash of the whole file."""
        block = memoryview(bytearray(BUFFER_BYTES))
        while self.readinto(block):
            pass
        return self._hash.hexdigest()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # else opening a pipe waits for somebody to write


class PlainStream(io.BufferedReader):
    """The decompressed bytes of a file; buffered, so that a parser may read lines or blocks."""

    def __init__(self, source: HashingReader, name: str, *, max_ratio: float = MAX_RATIO) -> None:
        """Read ``source``, which is compressed as the suffix of ``name`` says.

        Args:
            source: the file as it lies on disk.
            name: its name.
            max_ratio: most decompressed bytes per compressed byte, once past ``FREE_BYTES``.
        """
        codec = codec_of(name)
        self._decompressed = None if codec is None else _Decompressed(source, codec, max_ratio)
        super().__init__(source if self._decompressed is None else self._decompressed, BUFFER_BYTES)

    @property
    def problem(self) -> str | None:
        """Why the stream ended early, None while it did not."""
        return None if self._decompressed is None else self._decompressed.problem


class _Decompressed(io.RawIOBase):
    """Counts what a decompressor delivers, and ends where it fails."""

    def __init__(self, source: HashingReader, codec: str, max_ratio: float) -> None:
        self.problem: str | None = None
        self._source = source
        self._read = _gzip_read(source) if codec == "gzip" else _arrow_read(source, codec)
        self._max_ratio = max_ratio
        self._num_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # RawIOBase types a WriteableBuffer
        if self.problem is not None:
            return 0
        try:
            data = self._read(min(STEP_BYTES, len(buffer)))
        except (OSError, EOFError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno is not None:  # the disk's own error, not the decompressor's
                raise
            hint = "" if self._num_bytes else "; is it compressed as its suffix says?"
            self.problem = f"the compressed stream breaks off or is damaged after about {self._num_bytes} bytes ({error}){hint}"
            return 0
        count = len(data)
        buffer[:count] = data
        self._num_bytes += count
        if self._num_bytes > FREE_BYTES and self._num_bytes > self._max_ratio * self._source.num_bytes:
            self.problem = f"{self._source.num_bytes} compressed bytes hold {self._num_bytes} and more: over {self._max_ratio} to 1"
            return 0
        return count


def _gzip_read(source: HashingReader) -> Callable[[int], bytes]:
    # One read of the stream at a time: asked for more, the library loses what it had when the stream breaks.
    return gzip.GzipFile(fileobj=source, mode="rb").read1


def _arrow_read(source: HashingReader, codec: str) -> Callable[[int], bytes]:
    return pa.CompressedInputStream(pa.PythonFile(source, mode="r"), codec).read  # type: ignore[no-any-return]
