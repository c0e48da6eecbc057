"""Claims about what a process is told before heavy libraries are loaded."""

import os
from pathlib import Path

import pytest

from range_reader_pipeline.paths import home_paths
from range_reader_pipeline.process import prepare_process

CACHES = ("MPLCONFIGDIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def test_caches_lie_in_the_home_unless_the_environment_says_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents files below the user's own home, and a user's own setting from being overruled."""
    for name in (*CACHES, "GOMP_SPINCOUNT"):
        monkeypatch.setenv(name, "")  # so that it is restored afterwards
        monkeypatch.delenv(name)
    monkeypatch.setenv("TRITON_CACHE_DIR", "elsewhere")
    prepare_process(home_paths(home=str(tmp_path), environment={}))
    assert os.environ["TRITON_CACHE_DIR"] == "elsewhere"
    for name in CACHES[:2]:
        assert Path(os.environ[name]).is_relative_to(tmp_path)
    assert int(os.environ["GOMP_SPINCOUNT"]) > 0
    assert not list(tmp_path.iterdir())
