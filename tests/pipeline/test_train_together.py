"""Claims about one training by several processes of a home."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from range_reader_pipeline.results_log import read_results
from range_reader_pipeline.run_store import RunStore
from range_reader_pipeline.train_together import main
from tests.pipeline.trained import Chain

ROOT = Path(__file__).parent.parent.parent


def test_without_torchrun_it_says_how_to_start_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents a wait for processes that nobody has started."""
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    result = CliRunner().invoke(main, [])
    assert result.exit_code == 2
    assert "torchrun --nproc-per-node gpu -m range_reader_pipeline.train_together" in result.output


@pytest.mark.slow
def test_two_processes_leave_one_finished_run_which_is_then_found(own_copy: Chain) -> None:
    """Prevents several processes from writing over each other, and a run that Dagster does not know as the same."""
    num_rows = len(read_results(own_copy.paths.results))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    options = ["--home", str(own_copy.paths.root), "--preset", "tiny", "--max-steps", "6", "--device", "cpu", "--seed", "3"]
    command = [*torchrun, "-m", "range_reader_pipeline.train_together", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    outputs = []
    for _ in range(2):
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert "val mrr" in outputs[0]
    assert "already finished" in outputs[1]
    rows = read_results(own_copy.paths.results)[num_rows:]
    assert len(rows) == 1
    run = RunStore(own_copy.paths).finished(own_copy.paths.runs / rows[0].run_id)
    assert run is not None
    assert run.num_steps == 6
