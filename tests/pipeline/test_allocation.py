"""Memory is kept while encoding and given back afterwards."""

import sys

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
