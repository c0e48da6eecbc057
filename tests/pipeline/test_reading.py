"""The kept checkpoint is found through the run that was kept."""

from pathlib import Path

import pytest

from range_reader_core.checkpoint import CheckpointSidecar, save_checkpoint
from range_reader_pipeline.paths import home_paths
from range_reader_pipeline.provenance import file_sha256
from range_reader_pipeline.reading import latest_reader
from range_reader_pipeline.run_store import WEIGHTS_NAME, FinishedRun, RunStore
from tests.core.readers import random_model


def _finished(store: RunStore, run_id: str, *, seed: int) -> FinishedRun:
    folder = store.paths.runs / run_id
    folder.mkdir(parents=True)
    model = random_model(seed=seed)
    save_checkpoint(folder / WEIGHTS_NAME, model, CheckpointSidecar(model=model.config, step=seed))
    run = FinishedRun(
        run_id=run_id,
        identity=run_id,
        data_version="d",
        preset="tiny",
        weights_sha256=file_sha256(folder / WEIGHTS_NAME),
        best_step=seed,
        num_steps=seed,
        seconds=1.0,
        val_reads=1,
        val_mrr=0.1,
        val_loss_nats=6.0,
        val_mean_rank=100.0,
        nats_below_static_range=0.1,
        mrr_above_static_range=0.1,
        static_class_counts=(1.0,) * 169,
    )
    store.finish(run)
    return run


def test_the_kept_run_answers_and_not_the_newest(tmp_path: Path) -> None:
    """A later, worse run must not replace the reader that people and agents ask."""
    store = RunStore(home_paths(home=str(tmp_path), environment={}))
    with pytest.raises(FileNotFoundError, match="materialize checkpoint first"):
        latest_reader(str(tmp_path))
    store.keep(_finished(store, "aaaa", seed=1))
    _finished(store, "bbbb", seed=2)
    assert latest_reader(str(tmp_path), device="cpu").sidecar.step == 1


def test_weights_that_were_replaced_are_refused(tmp_path: Path) -> None:
    """What was measured is what answers."""
    store = RunStore(home_paths(home=str(tmp_path), environment={}))
    store.keep(_finished(store, "aaaa", seed=1))
    model = random_model(seed=3)
    save_checkpoint(store.paths.runs / "aaaa" / WEIGHTS_NAME, model, CheckpointSidecar(model=model.config))
    with pytest.raises(ValueError, match="replaced or damaged"):
        latest_reader(str(tmp_path), device="cpu")
