"""Trials of changes: what is trained and scored, and what the table compares."""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import trials
from range_reader_core.encoder import HandEncoder
from range_reader_core.evaluation import ReadScores
from range_reader_core.metrics import LOSS, METRICS, MRR
from range_reader_core.presets import tiny
from tests.core.hands import random_hands


def _scores(loss: float, mrr: float) -> ReadScores:
    num_positions = np.arange(1, 41)
    sums = np.ones((40, len(METRICS)))
    sums[:, LOSS], sums[:, MRR] = loss * num_positions, mrr * num_positions
    return ReadScores(
        reader="reader", metric_sums=sums, num_positions=num_positions, stratum=np.zeros(40, np.int64), hand_index=np.arange(40)
    )


def test_a_trial_scores_the_average_after_its_seconds() -> None:
    """Arms are compared at equal processor time, so that is what has to end one."""
    reads = HandEncoder().encode_hands(random_hands(1, 30))[0]
    config = replace(tiny(), budget_seconds=1e9, max_steps=None)
    scores, told = trials.train(config, reads, reads.take(np.arange(20)), 0.5)
    assert len(scores.num_positions) == 20
    assert told["steps"] >= 1
    assert told["ms"] == pytest.approx(500.0 / told["steps"], abs=0.1)
    assert told["val_loss"] == pytest.approx(scores.metric_sums[:, LOSS].sum() / scores.num_positions.sum(), abs=1e-4)


def test_the_table_compares_the_seeds_that_both_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A seed of one arm alone would be compared with other seeds of the default."""
    options = argparse.Namespace(out=tmp_path, seconds=1.0, seeds=3, scored_reads=40)
    files = {(trials.STATIC, 0): 6.5}
    files |= {(trials.DEFAULT, seed): 6.3 + 0.01 * seed for seed in range(3)}
    files |= {("dropout", seed): 6.2 + 0.01 * seed for seed in range(2)}
    for (arm, seed), loss in files.items():
        trials._keep(trials._file(options, arm, seed), _scores(loss, 0.02), {"steps": 10, "ms": 50.0})
    trials.print_table(options, [trials.DEFAULT, "dropout"])
    _, default, dropout = capsys.readouterr().out.splitlines()
    assert default.split()[1:4] == ["3", "10", "50.0"]
    assert "0.1900 (0.2000 0.1900 0.1800)" in default
    assert dropout.split()[1] == "2"
    assert "0.2950 (0.3000 0.2900)" in dropout
    assert "0.1000 (" in dropout
