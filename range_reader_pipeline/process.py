"""What a process must be told before PyTorch and matplotlib are loaded in it. Called by whatever is about to load them."""

import os
from typing import Final

from range_reader_pipeline.paths import HomePaths

_SPIN_COUNT: Final = "10000"
"""Rounds for which an idle OpenMP thread spins before it sleeps. The default spins for milliseconds, which on a machine that does
anything else steals the core that the other thread waits for: training was 10 to 50 times slower beside two busy processes on two
cores (cpu preset 13 to 35 reads/s, 144 with this; 2026-11-30)."""


def prepare_process(paths: HomePaths) -> None:
    """Keep libraries' caches inside the home and idle threads off the cores; what the environment already says stays.

    Args:
        paths: the home.
    """
    settings = {"GOMP_SPINCOUNT": _SPIN_COUNT}
    for variable, folder in (
        ("MPLCONFIGDIR", "matplotlib"),
        ("TORCHINDUCTOR_CACHE_DIR", "torchinductor"),
        ("TRITON_CACHE_DIR", "triton"),
    ):
        settings[variable] = str(paths.root / "cache" / folder)
    for variable, value in settings.items():
        os.environ.setdefault(variable, value)
