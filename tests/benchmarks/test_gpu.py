"""Claims about the measure of utilisation: what is counted, on what, and that it needs numpy and torch alone."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.gpu import synthetic_reads, training_flops
from range_reader_core.batching import DeviceReads
from range_reader_core.masks import is_live_combo, is_supervised
from range_reader_core.model import ModelConfig, RangeReaderModel
from range_reader_core.presets import reference

ROOT = Path(__file__).parent.parent.parent
CONFIG = replace(reference(), model=ModelConfig(num_layers=3, width=32, num_heads=2, dropout=0.0))


@pytest.mark.parametrize("asked", [None, 4])
def test_flops_are_those_that_torch_counts_less_half_of_the_attention(asked: int | None) -> None:
    """Prevents a utilisation that is flattered by counting what the model need not compute."""
    config, model, num_tokens = replace(CONFIG, positions_per_read=asked), RangeReaderModel(CONFIG.model).eval(), 21
    width, num_layers = CONFIG.model.width, CONFIG.model.num_layers
    num_scored = 9 if asked is None else asked
    x = torch.randn(1, num_tokens, width, generator=torch.Generator().manual_seed(0))
    places = None if asked is None else torch.arange(asked).unsqueeze(0)
    with FlopCounterMode(display=False) as counter:  # with gradients, where attention is written out and counted
        hidden = model.trunk(x, places)
        model.logits(hidden[0, :num_scored])
    num_queries = [num_tokens] * (num_layers - 1) + [num_tokens if asked is None else num_scored]
    spared = sum(4 * width * num * (num_tokens - (num_tokens + 1) / 2) for num in num_queries)
    assert training_flops(config, width, num_tokens, 9) == pytest.approx(3 * (counter.get_total_flops() - spared))


def test_synthetic_reads_are_like_real_ones() -> None:
    """Prevents a measurement on reads that are longer, alike in length, or have nothing to learn from."""
    reads = synthetic_reads(300, seed=1)
    assert 20 < reads.lengths.mean() < 30
    assert reads.lengths.min() < 18
    assert 38 < reads.lengths.max() <= 60
    batch = DeviceReads.from_reads(reads, torch.device("cpu")).batch(np.arange(300))
    supervised = is_supervised(batch.tokens)
    assert bool(supervised.any(dim=1).all())
    is_target_live = is_live_combo(batch.tokens).gather(2, batch.targets.view(-1, 1, 1).expand(-1, batch.tokens.shape[1], 1))[
        ..., 0
    ]
    assert bool(is_target_live[supervised].all())
    again = synthetic_reads(300, seed=1)
    assert np.array_equal(reads.tokens, again.tokens)
    assert not np.array_equal(reads.villain_combo, synthetic_reads(300, seed=2).villain_combo)


RUN_BARE = """
import runpy, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"msgspec", "safetensors", "dagster", "polars", "pyarrow", "tests", "range_reader_pipeline"}:
            raise ImportError(f"{name} is not on a bare GPU box")
sys.meta_path.insert(0, Refuse())
sys.argv = ["benchmarks/gpu.py", "--preset", "tiny", "--device", "cpu", "--seconds", "0.2", "--reads", "60", "--eager"]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
def test_it_runs_with_numpy_and_torch_alone() -> None:
    """Prevents a benchmark that cannot be started where the GPU is."""
    done = subprocess.run([sys.executable, "-c", RUN_BARE], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "utilisation" in done.stdout
    assert "TFLOP/s" in done.stdout
