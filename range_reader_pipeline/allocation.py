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
RESERVED_BYTES: Final = 192 << 20  # of addresses, asked to be backed by large pages once they are used

_PIECE_BYTES: Final = 16 << 20
_ADVISE_HUGE_PAGES: Final = 14  # the kernel's MADV_HUGEPAGE
_PAGE_BYTES: Final = 2 << 20
_TRIM_THRESHOLD: Final = -1  # glibc's numbers of the parameters of mallopt
_MMAP_THRESHOLD: Final = -3
_DEFAULT_BYTES: Final = 128 << 10


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Keep freed memory inside the block, and give it back on leaving. New memory comes in large pages where that is possible."""
    pool = pa.default_memory_pool()
    keep_freed_memory()
    _ask_for_large_pages()
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


def _ask_for_large_pages() -> None:
    """Let the heap grow, and the kernel know that what it grew by may come in pages of two megabytes.

    Nothing is used by asking. In a virtual machine a first touch of four kilobytes takes 7 us, and looking addresses up costs
    more: an eighth of the run (2026-11), and at least nothing in a calm minute (2026-12). Of several processes each would have to
    get more of them than it needs: two workers lose 0.05 of 1.8 s by it.
    """
    libc = _glibc()
    if libc is None:
        return
    libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p
    libc.malloc.argtypes, libc.free.argtypes = [ctypes.c_size_t], [ctypes.c_void_p]
    libc.sbrk.argtypes, libc.madvise.argtypes = [ctypes.c_ssize_t], [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    begin = libc.sbrk(0)
    pieces = [libc.malloc(_PIECE_BYTES) for _ in range(RESERVED_BYTES // _PIECE_BYTES)]
    end = libc.sbrk(0)
    for piece in pieces:
        libc.free(piece)
    begin = -(-begin // _PAGE_BYTES) * _PAGE_BYTES
    if end > begin:
        libc.madvise(begin, end - begin, _ADVISE_HUGE_PAGES)  # if it is refused, pages stay small


def _glibc() -> ctypes.CDLL | None:
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
