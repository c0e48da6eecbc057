"""The catalogue sees every change of contents, ignores everything else, and never reads outside its folder."""

import os
from pathlib import Path

import pytest

from range_reader_pipeline import catalogue
from range_reader_pipeline.catalogue import Catalogue, FileEntry, FileStatus, HashMemo, list_folder, scan

LATER_NS = 10_000_000_000  # enough for a file to be no longer young


def scanned(folder: Path, memo: HashMemo | None = None, *, age_ns: int = LATER_NS, **options: float) -> Catalogue:
    """Scan a folder as if ``age_ns`` had passed since its files were written."""
    listing = list_folder(folder, skip=folder / "home")
    now_ns = max((entry.ctime_ns for entry in listing.entries), default=0) + age_ns
    return scan(listing, memo or HashMemo(folder), now_ns=now_ns, **options)  # type: ignore[arg-type]  # settle or budget


def status_of(found: Catalogue) -> dict[str, FileStatus]:
    return {entry.name: entry.status for entry in found.entries}


def test_finds_every_suffix_in_subfolders_and_nothing_else(tmp_path: Path) -> None:
    """A file that is silently not looked at is data that is silently lost; a stray one would be rejected hand by hand."""
    wanted = ["a.ohh", "b.jsonl", "sub/c.ndjson", "sub/deep/d.json", "e.ohh.gz", "f.json.zst", "G.OHH.ZST"]
    for name in [*wanted, "notes.txt", ".hidden.ohh", "x.ohh.tmp", "y.ohh.gz.zst", "sub/.git/z.ohh", "ohh"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    found = scanned(tmp_path)
    assert [entry.name for entry in found.readable] == sorted(wanted)
    assert found.num_ignored == 6  # the hidden folder counts once and is not entered


def test_a_home_inside_the_folder_is_left_out(tmp_path: Path) -> None:
    """The home's own manifests end in .json and would be rejected as bad hands, and change with every run."""
    (tmp_path / "a.ohh").write_text("one")
    (tmp_path / "home" / "catalogue").mkdir(parents=True)
    (tmp_path / "home" / "catalogue" / "manifest.json").write_text("{}")
    assert [entry.name for entry in list_folder(tmp_path, skip=tmp_path / "home").entries] == ["a.ohh"]


def test_version_follows_contents_not_names_or_times(tmp_path: Path) -> None:
    """A renamed or touched file must not train a model again; a changed, new or removed one must."""
    (tmp_path / "a.ohh").write_text("one")
    (tmp_path / "b.ohh").write_text("two")
    before = scanned(tmp_path).version
    (tmp_path / "b.ohh").rename(tmp_path / "z.ohh")
    os.utime(tmp_path / "a.ohh", (1, 1))
    (tmp_path / "copy.ohh").write_text("one")
    assert scanned(tmp_path).version == before
    (tmp_path / "a.ohh").write_text("eno")
    changed = scanned(tmp_path).version
    (tmp_path / "z.ohh").unlink()
    assert len({before, changed, scanned(tmp_path).version}) == 3


def test_unchanged_files_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sensor looks every half minute; reading terabytes each time would starve the machine."""
    (tmp_path / "a.ohh").write_text("one")
    memo = HashMemo(tmp_path)
    first = scanned(tmp_path, memo)
    saved = tmp_path / "home" / "memo.json"
    memo.save(saved)
    monkeypatch.setattr(catalogue, "_hashed", lambda *_: pytest.fail("the file was read again"))
    assert scanned(tmp_path, HashMemo.load(saved, tmp_path)) == first


def test_a_file_rewritten_with_its_old_size_and_times_is_read_again(tmp_path: Path) -> None:
    """Tools that preserve times would else hide a change for ever."""
    path = tmp_path / "a.ohh"
    path.write_text("one")
    memo = HashMemo(tmp_path)
    before = scanned(tmp_path, memo)
    times = path.stat()
    path.write_text("eno")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert scanned(tmp_path, memo).version != before.version


def test_a_young_file_is_not_remembered(tmp_path: Path) -> None:
    """Two writes within one tick of the file system's clock look alike, as git's index knows."""
    (tmp_path / "a.ohh").write_text("one")
    memo = HashMemo(tmp_path)
    scanned(tmp_path, memo, age_ns=1_000_000)
    assert memo.hashes == {}


def test_a_memo_of_another_folder_is_not_believed(tmp_path: Path) -> None:
    """Two folders may hold files of one name."""
    HashMemo(tmp_path / "x", {"a.ohh": (1, 2, 3, "f" * 64)}).save(tmp_path / "memo.json")
    assert HashMemo.load(tmp_path / "memo.json", tmp_path / "y").hashes == {}
    (tmp_path / "memo.json").write_text("{ torn")
    assert HashMemo.load(tmp_path / "memo.json", tmp_path / "x").hashes == {}


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    """Whoever may drop a file must not be able to have any other file of the machine read."""
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "secret.json").write_text("secret")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.ohh").write_text("x")
    (folder / "real.ohh").write_text("real")
    (folder / "out.ohh").symlink_to("../secret.json")
    (folder / "in.ohh").symlink_to("real.ohh")
    (folder / "nothing.ohh").symlink_to("gone.ohh")
    (folder / "dir").symlink_to("../elsewhere")
    (folder / "loop.ohh").symlink_to("loop.ohh")
    os.mkfifo(folder / "pipe.ohh")
    found = status_of(scanned(folder))
    assert found.pop("loop.ohh") in (FileStatus.UNREADABLE, FileStatus.OUTSIDE)
    assert found == {
        "real.ohh": FileStatus.OK,
        "in.ohh": FileStatus.OK,
        "out.ohh": FileStatus.OUTSIDE,
        "nothing.ohh": FileStatus.OUTSIDE,
        "dir/": FileStatus.IRREGULAR,
        "pipe.ohh": FileStatus.IRREGULAR,
    }


def test_a_folder_reached_by_a_link_is_read(tmp_path: Path) -> None:
    """People point OHH at a link to a large disk."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "a.ohh").write_text("one")
    (tmp_path / "ohh").symlink_to("disk")
    assert status_of(scanned(tmp_path / "ohh")) == {"a.ohh": FileStatus.OK}


def test_an_unreadable_file_is_listed_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file without permission must neither stop the others nor vanish."""
    (tmp_path / "a.ohh").write_text("one")
    (tmp_path / "b.ohh").write_text("two")
    open_path = Path.open

    def refuse_b(self: Path, *args: str, **options: int) -> object:
        if self.name == "b.ohh":
            raise PermissionError(13, "Permission denied", str(self))
        return open_path(self, *args, **options)  # type: ignore[call-overload]  # passed on unchanged

    monkeypatch.setattr(Path, "open", refuse_b)
    found = scanned(tmp_path)
    assert [entry.name for entry in found.readable] == ["a.ohh"]
    assert [(entry.status, entry.reason) for entry in found.left_out] == [(FileStatus.UNREADABLE, "Permission denied")]


def test_a_file_that_grows_while_it_is_hashed_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hash would be that of a state that nobody can read again."""
    path = tmp_path / "a.ohh"
    path.write_text("one")
    digest = catalogue.hashlib.file_digest

    def hash_then_append(stream: object, name: str) -> object:
        result = digest(stream, name)  # type: ignore[arg-type]  # a raw file
        with path.open("a") as writer:
            writer.write("more")
        return result

    monkeypatch.setattr(catalogue.hashlib, "file_digest", hash_then_append)
    assert status_of(scanned(tmp_path)) == {"a.ohh": FileStatus.CHANGING}


def test_files_are_left_alone_until_they_settle(tmp_path: Path) -> None:
    """A file still being written would be encoded with a torn end, and again a moment later."""
    (tmp_path / "a.ohh").write_text("one")
    assert status_of(scanned(tmp_path, age_ns=4_000_000_000, settle_seconds=5)) == {"a.ohh": FileStatus.UNSETTLED}
    assert status_of(scanned(tmp_path, age_ns=6_000_000_000, settle_seconds=5)) == {"a.ohh": FileStatus.OK}


def test_a_budget_leaves_files_pending_and_the_next_scan_goes_on(tmp_path: Path) -> None:
    """A tick that reads for minutes is killed by its deadline and would never end."""
    for name in "abc":
        (tmp_path / f"{name}.ohh").write_text(name * 10)
    memo = HashMemo(tmp_path)
    first = scanned(tmp_path, memo, max_bytes=15)
    assert not first.is_complete
    assert [entry.name for entry in first.readable] == ["a.ohh", "b.ohh"]
    assert scanned(tmp_path, memo, max_bytes=15).is_complete


def test_a_missing_folder_is_an_error_and_a_vanished_subfolder_is_not(tmp_path: Path) -> None:
    """An unmounted disk must not look like a folder from which every file was removed."""
    with pytest.raises(FileNotFoundError):
        list_folder(tmp_path / "gone")


def test_a_catalogue_survives_its_file(tmp_path: Path) -> None:
    """The shards are made from the file, so what it loses is lost."""
    entries = (
        FileEntry(name="a.ohh", size_bytes=3, mtime_ns=4, sha256="a" * 64),
        FileEntry(name="b.ohh", status=FileStatus.OUTSIDE, reason="a link that leads out of the folder"),
    )
    saved = Catalogue(folder=tmp_path, entries=entries, num_ignored=2)
    catalogue.write_catalogue(tmp_path / "c.parquet", saved)
    assert catalogue.read_catalogue(tmp_path / "c.parquet") == saved


@pytest.mark.parametrize("hashes", ["null", "[]", '{"a.ohh": 3}', '{"a.ohh": [1, 2]}', '{"a.ohh": [1, 2, 3, null]}'])
def test_a_memo_of_another_shape_is_an_empty_one(tmp_path: Path, hashes: str) -> None:
    """It saves time and nothing else, so damage to it must cost time and nothing else."""
    path = tmp_path / "memo.json"
    path.write_text(f'{{"folder": "{tmp_path}", "hashes": {hashes}}}')
    assert HashMemo.load(path, tmp_path).hashes == {}
