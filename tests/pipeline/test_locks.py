"""Who waits for another process is told whom, again and again, and gets its turn."""

import threading
from pathlib import Path

import pytest
from filelock import FileLock

from range_reader_pipeline import locks
from range_reader_pipeline.locks import held


def test_waiting_is_told_at_once_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that waits for an hour must not look dead, nor fill its log."""
    monkeypatch.setattr(locks, "NOTICE_S", 0.05)
    path = tmp_path / "folder" / "it.lock"
    told: list[str] = []
    path.parent.mkdir()
    lock = FileLock(path)
    lock.acquire()

    def say(text: str) -> None:
        told.append(text)
        if len(told) == 3:
            lock.release()

    with held(path, "somebody else is at it", say):
        assert told == ["somebody else is at it"] * 3


def test_nobody_is_waited_for_where_nobody_is(tmp_path: Path) -> None:
    """Prevents a word of waiting in every log, and a lock that an error leaves held."""
    told: list[str] = []
    with pytest.raises(KeyError), held(tmp_path / "new" / "it.lock", "somebody else is at it", told.append):
        raise KeyError
    done = threading.Event()
    with held(tmp_path / "new" / "it.lock", "somebody else is at it", told.append):
        done.set()
    assert done.is_set()
    assert told == []
