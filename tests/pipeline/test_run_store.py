"""Claims about runs, their identity and the kept pointer."""

import dataclasses
import multiprocessing
import os
import re
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from range_reader_pipeline import run_store
from range_reader_pipeline.paths import home_paths
from range_reader_pipeline.provenance import file_sha256
from range_reader_pipeline.results_log import RunStatus
from range_reader_pipeline.run_store import FinishedRun, RunStore, judge, training_identity


def _store(home: Path) -> RunStore:
    return RunStore(home_paths(home=str(home)))


def _finished(store: RunStore, run_id: str = "aa", *, val_mrr: float = 0.02, data_version: str = "d1") -> FinishedRun:
    folder = store.paths.runs / run_id
    folder.mkdir(parents=True)
    (folder / run_store.WEIGHTS_NAME).write_bytes(run_id.encode())
    run = FinishedRun(
        run_id=run_id,
        identity=run_id.split(".")[0],
        data_version=data_version,
        preset="tiny",
        weights_sha256=file_sha256(folder / run_store.WEIGHTS_NAME),
        best_step=3,
        num_steps=5,
        seconds=1.5,
        val_reads=64,
        val_mrr=val_mrr,
        val_loss_nats=6.5,
        val_mean_rank=320.0,
        nats_below_static_range=0.2,
        mrr_above_static_range=0.004,
        static_class_counts=(1.0,) * 169,
    )
    store.finish(run)
    return run


@pytest.mark.parametrize(
    ("config", "data_version", "code_version"), [({"lr": 2.0}, "d1", "1"), ({"lr": 1.0}, "d2", "1"), ({"lr": 1.0}, "d1", "2")]
)
def test_identity_changes_with_configuration_data_and_code(config: dict[str, float], data_version: str, code_version: str) -> None:
    """Prevents a stale checkpoint from being reused after something that decides its outcome changed."""
    base = training_identity({"lr": 1.0}, data_version="d1", code_version="1")
    assert training_identity({"lr": 1.0}, data_version="d1", code_version="1") == base
    assert training_identity(config, data_version=data_version, code_version=code_version) != base


def test_an_unfinished_run_is_resumed_and_a_finished_one_is_reused(tmp_path: Path) -> None:
    """Prevents a killed training from starting over and a finished one from being trained twice."""
    store = _store(tmp_path)
    assert store.run_folder("aa", is_retrain=False) == store.run_folder("aa", is_retrain=True) == tmp_path / "runs" / "aa"
    assert store.finished(tmp_path / "runs" / "aa") is None
    run = _finished(store)
    assert store.finished(store.run_folder("aa", is_retrain=False)) == run


def test_retraining_never_overwrites_a_finished_run(tmp_path: Path) -> None:
    """Prevents `retrain` from destroying the kept checkpoint while the new one may turn out worse."""
    store = _store(tmp_path)
    _finished(store, "aa")
    again = store.run_folder("aa", is_retrain=True)
    assert again.name == "aa.2"
    again.mkdir()  # begun and killed: the retraining goes on there
    assert store.run_folder("aa", is_retrain=True) == store.run_folder("aa", is_retrain=False) == again


def test_kept_pointer_is_replaced_and_survives_a_moved_home(tmp_path: Path) -> None:
    """Prevents an absolute link that dangles once the home is copied to another machine."""
    store = _store(tmp_path / "home")
    assert store.kept() is None
    first, second = _finished(store, "aa"), _finished(store, "bb")
    store.keep(first)
    assert store.kept() == first
    store.keep(second)
    assert store.kept() == second
    (tmp_path / "home").rename(tmp_path / "moved")
    assert _store(tmp_path / "moved").kept() == second


def test_swapped_weights_are_refused_by_name(tmp_path: Path) -> None:
    """Prevents reports about a file other than the one that was trained and measured."""
    store = _store(tmp_path)
    run = _finished(store)
    store.keep(run)
    (tmp_path / "runs" / "aa" / run_store.WEIGHTS_NAME).write_bytes(b"other")
    with pytest.raises(ValueError, match=re.escape("the file was replaced or damaged")):
        store.kept()


def test_missing_weights_of_a_finished_run_are_said(tmp_path: Path) -> None:
    """Prevents a bare "no such file" where somebody tidied up."""
    store = _store(tmp_path)
    store.keep(_finished(store))
    (tmp_path / "runs" / "aa" / run_store.WEIGHTS_NAME).unlink()
    with pytest.raises(ValueError, match=r"best\.safetensors is missing although the run has finished: put it back"):
        store.kept()


def test_a_worse_run_on_the_same_data_is_discarded_and_new_data_is_kept(tmp_path: Path) -> None:
    """Prevents an unlucky training from replacing the better reader, and an old reader from surviving new data."""
    store = _store(tmp_path)
    kept = _finished(store, "aa", val_mrr=0.02)
    assert judge(kept, None) is RunStatus.KEEP
    assert judge(dataclasses.replace(kept, val_mrr=0.019), kept) is RunStatus.DISCARD
    assert judge(dataclasses.replace(kept, val_mrr=0.02), kept) is RunStatus.KEEP
    assert judge(dataclasses.replace(kept, val_mrr=0.001, data_version="d2"), kept) is RunStatus.KEEP


def test_runs_on_shards_that_are_gone_go_but_for_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents a home that arrivals fill with a checkpoint a day until the disk is full."""
    monkeypatch.setattr(run_store, "KEPT_ASIDE", 2)
    store = _store(tmp_path)
    (store.paths.data_versions / "here").mkdir(parents=True)
    for age, (run_id, version) in enumerate([("kept", "gone"), *[(f"old{i}", "gone") for i in range(4)], ("now", "here")]):
        run = _finished(store, run_id, data_version=version)
        os.utime(store.paths.runs / run_id / run_store.FINISHED_NAME, (1e9 + age, 1e9 + age))
        if run_id == "kept":
            store.keep(run)
    for name in ("now", "unfinished"):
        (store.paths.runs / name / "last").mkdir(parents=True)
    assert sorted(store.prune()) == ["old0", "old1"]
    assert store.prune() == []
    assert sorted(path.name for path in store.paths.runs.iterdir()) == ["kept", "now", "old2", "old3", "unfinished"]
    assert [path.parent.name for path in store.paths.runs.glob("*/last")] == ["unfinished"]


def _ignore(_: str) -> None: ...


def _hold(home: Path, is_held: Event, may_end: Event) -> None:
    with _store(home).locked("run 1234 of a person", _ignore):
        is_held.set()
        may_end.wait(60)


def test_a_second_training_waits_and_says_for_whom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents two processes, say the CLI and the UI, from training at once, and the second from failing for it."""
    monkeypatch.setattr(run_store, "WAIT_REPORT_S", 0.1)
    context = multiprocessing.get_context("spawn")
    is_held, may_end = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(tmp_path, is_held, may_end))
    holder.start()
    assert is_held.wait(60)
    waited_for: list[str] = []

    def note(owner: str) -> None:
        waited_for.append(owner)
        if len(waited_for) == 3:
            may_end.set()

    with _store(tmp_path).locked("me", note):
        assert waited_for[:3] == ["run 1234 of a person"] * 3
    holder.join()


def test_a_killed_training_leaves_no_lock(tmp_path: Path) -> None:
    """Prevents a home that can never train again after a SIGKILL."""
    context = multiprocessing.get_context("spawn")
    is_held, may_end = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(tmp_path, is_held, may_end))
    holder.start()
    assert is_held.wait(60)
    holder.kill()
    holder.join()
    with _store(tmp_path).locked("me", lambda owner: pytest.fail(f"waited for {owner}")):
        pass


def test_an_error_inside_the_lock_passes_through(tmp_path: Path) -> None:
    """Prevents the lock from hiding what the training raised."""
    with pytest.raises(ZeroDivisionError), _store(tmp_path).locked("me", _ignore):
        _ = 1 / 0


@pytest.mark.parametrize("damaged", ["[]", "{}", "3", '{"run_id": "aa", "static_class_counts": [1.0]}'])
def test_a_damaged_record_is_said_with_the_remedy(tmp_path: Path, damaged: str) -> None:
    """A power cut may leave anything; a traceback tells nobody what to delete."""
    store = _store(tmp_path)
    run = _finished(store)
    folder = store.paths.runs / run.run_id
    (folder / run_store.FINISHED_NAME).write_text(damaged)
    with pytest.raises(ValueError, match=r"finished\.json is damaged or of another version .* delete the folder"):
        store.finished(folder)
