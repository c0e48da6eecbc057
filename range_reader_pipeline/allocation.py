"""How memory is allocated while hands are encoded: what was freed is kept for the next chunk.

Encoding allocates and frees the same few dozen megabytes for every chunk. By default both allocators give them back to the
system each time, and getting zeroed pages again takes a tenth of the run. Only glibc is told so; elsewhere nothing changes.
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

KEPT_BYTES: Final = 256 << 20  # at most so much stays with the process between chunks
LARGE_BYTES: Final = 32 << 20  # single blocks above this are still mapped and unmapped

_TRIM_THRESHOLD: Final = -1  # glibc's numbers of the parameters of mallopt
_MMAP_THRESHOLD: Final = -3
_DEFAULT_BYTES: Final = 128 << 10


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Keep freed memory inside the block, and give it back on leaving."""
    pool = pa.default_memory_pool()
    keep_freed_memory()
    try:
        yield
    finally:
        pa.set_memory_pool(pool)
        libc = _glibc()
        if libc is not None:
            libc.mallopt(_TRIM_THRESHOLD, _DEFAULT_BYTES)
            libc.mallopt(_MMAP_THRESHOLD, _DEFAULT_BYTES)
            libc.malloc_trim(0)


def keep_freed_memory() -> None:
    """Keep freed memory from now on."""
    libc = _glibc()
    if libc is not None:
        libc.mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        libc.mallopt(_MMAP_THRESHOLD, LARGE_BYTES)
        pa.set_memory_pool(pa.system_memory_pool())


def _glibc() -> ctypes.CDLL | None:
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
