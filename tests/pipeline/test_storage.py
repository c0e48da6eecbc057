"""Nobody sees half a file, whatever stops the writer; and what the system refuses is said in words."""

import errno
from pathlib import Path

import pytest

from range_reader_pipeline.storage import (
    explain_os_error,
    link_target,
    point_link,
    read_json,
    replace_folder,
    sweep,
    write_json,
    written_aside,
)


def test_an_interrupted_write_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    """A half-written catalogue would make the next run forget files."""
    path = tmp_path / "a.json"
    write_json(path, {"x": 1})

    def stopped_half_way() -> None:
        with written_aside(path) as aside:
            aside.write_text("{")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped_half_way()
    assert read_json(path) == {"x": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_no_json_and_broken_json_read_as_nothing(tmp_path: Path) -> None:
    """A manifest torn by a power cut must lead to a rebuild, not to a traceback."""
    assert read_json(tmp_path / "none.json") is None
    (tmp_path / "torn.json").write_bytes(b'{"x": \xff')
    assert read_json(tmp_path / "torn.json") is None


def test_a_link_moves_in_one_step_and_survives_moving_the_home(tmp_path: Path) -> None:
    """Readers must see the old or the new shards; a home copied to another disk must keep working."""
    for name in ("v1", "v2"):
        (tmp_path / "home" / "versions" / name).mkdir(parents=True)
    link = tmp_path / "home" / "data"
    assert link_target(link) is None
    point_link(link, tmp_path / "home" / "versions" / "v1")
    point_link(link, tmp_path / "home" / "versions" / "v2")
    (tmp_path / "home").rename(tmp_path / "moved")
    target = link_target(tmp_path / "moved" / "data")
    assert target is not None
    assert target.resolve() == (tmp_path / "moved" / "versions" / "v2").resolve()


def test_a_folder_in_the_place_of_the_link_is_left_alone(tmp_path: Path) -> None:
    """A person's own data folder must not be replaced."""
    (tmp_path / "data").mkdir()
    (tmp_path / "v1").mkdir()
    with pytest.raises(FileExistsError, match="in the way"):
        point_link(tmp_path / "data", tmp_path / "v1")
    assert (tmp_path / "data").is_dir()


def test_replacing_a_folder_leaves_the_new_one_whole(tmp_path: Path) -> None:
    """Files of the old version beside those of the new one would be read as shards."""
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1" / "old").write_text("old")
    for name in ("new", "again"):
        (tmp_path / "aside.tmp").mkdir()
        (tmp_path / "aside.tmp" / name).write_text(name)
        replace_folder(tmp_path / "v1", tmp_path / "aside.tmp")
        assert [entry.name for entry in (tmp_path / "v1").iterdir()] == [name]
    assert [entry.name for entry in tmp_path.iterdir()] == ["v1"]


def test_sweeping_removes_unfinished_work_only(tmp_path: Path) -> None:
    """Killed writers must not fill the disk; finished work and links to it must stay."""
    (tmp_path / "kept").mkdir()
    (tmp_path / ".half.7.tmp").mkdir()
    (tmp_path / ".half.7.tmp" / "x").write_text("x")
    (tmp_path / ".a.json.12.tmp").write_text("x")
    (tmp_path / ".link.3.tmp").symlink_to("kept")
    sweep(tmp_path, of="a.json")
    assert {entry.name for entry in tmp_path.iterdir()} == {"kept", ".half.7.tmp", ".link.3.tmp"}
    sweep(tmp_path)
    sweep(tmp_path / "missing")
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]


def test_system_errors_name_the_path_and_the_way_out() -> None:
    """'[Errno 28]' helps nobody."""
    full = explain_os_error(OSError(errno.ENOSPC, "No space left on device", "/home/x/data"))
    assert full.startswith("/home/x/data: the disk is full")
    assert "RANGE_READER_HOME" in explain_os_error(PermissionError(errno.EACCES, "Permission denied", "/x"))
    assert explain_os_error(OSError(errno.EIO, "Input/output error", "/x")) == "/x: Input/output error"
    assert explain_os_error(OSError("no number")) == "no number"
