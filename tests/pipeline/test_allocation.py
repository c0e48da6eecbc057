"""Memory is kept while encoding and given back afterwards."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from range_reader_pipeline.allocation import freed_memory_kept


def test_arrow_has_its_own_pool_again_afterwards() -> None:
    """A training in the same process must not inherit the setting, not even after an error."""
    before = pa.default_memory_pool().backend_name
    with pytest.raises(KeyError), freed_memory_kept():
        raise KeyError
    assert pa.default_memory_pool().backend_name == before


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc is told")
def test_arrow_uses_the_systems_pool_meanwhile() -> None:
    """Arrow's own allocator gives memory back after a moment, which is what is to be avoided."""
    with freed_memory_kept():
        assert pa.default_memory_pool().backend_name == "system"


@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="the kernel knows no large pages")
def test_the_heap_may_use_large_pages_and_uses_none_by_asking() -> None:
    """Small pages cost an eighth of the run; asking must not make a process of nothing a big one."""
    script = (
        "from pathlib import Path; from range_reader_pipeline.allocation import freed_memory_kept; "
        "size = lambda: int(Path('/proc/self/statm').read_text().split()[1]) * 4096; before = size(); "
        "kept = freed_memory_kept(); kept.__enter__(); "
        "print(size() - before); print(Path('/proc/self/smaps').read_text())"
    )
    used, _, maps = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.partition(
        "\n"
    )
    advised = [kilobytes for kilobytes, flags in _heap_parts(maps) if "hg" in flags]
    assert sum(advised) > 100_000
    assert int(used) < 16_000_000


def _heap_parts(maps: str) -> list[tuple[int, list[str]]]:
    """Return size in kilobytes and flags of the parts of the heap."""
    parts: list[tuple[int, list[str]]] = []
    is_heap, kilobytes = False, 0
    for line in maps.splitlines():
        if "-" in line.split(" ")[0]:
            is_heap = line.endswith("[heap]")
        elif is_heap and line.startswith("Size:"):
            kilobytes = int(line.split()[1])
        elif is_heap and line.startswith("VmFlags:"):
            parts.append((kilobytes, line.split()[1:]))
    return parts
