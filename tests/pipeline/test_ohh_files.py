"""The catalogue asset: what a person sees of their folder, and what they are told when there is nothing to see."""

import errno
from pathlib import Path

import dagster as dg
import pytest

from range_reader_pipeline import catalogue
from range_reader_pipeline.assets import ohh_files as asset_file
from range_reader_pipeline.assets.ohh_files import ohh_files
from range_reader_pipeline.data_config import OhhFilesConfig
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.storage import read_json
from tests.core.hands import random_hands
from tests.pipeline.encoded import folder_bytes, home_with
from tests.pipeline.ohh_writer import write_ohh


def materialize(paths: HomePaths, **config: object) -> dg.MaterializeResult[None]:
    """Materialize the asset for a home."""
    home = HomeResource(home=str(paths.root), ohh="" if paths.is_default_ohh else str(paths.ohh))
    result = ohh_files(dg.build_asset_context(), OhhFilesConfig(**config), home)  # type: ignore[arg-type]  # fields of the config
    assert isinstance(result, dg.MaterializeResult)
    return result


def value(result: dg.MaterializeResult[None], name: str) -> object:
    entry = (result.metadata or {})[name]
    return entry.value if isinstance(entry, dg.MetadataValue) else entry


def test_files_are_counted_and_a_second_time_reused(tmp_path: Path) -> None:
    """Nothing changed must cost nothing, and the data version must say so to everything downstream."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 3), "b/c.ohh": random_hands(2, 3), "copy.ohh": random_hands(1, 3)})
    (paths.ohh / "readme.txt").write_text("x")
    first = materialize(paths)
    before = folder_bytes(paths.root)
    second = materialize(paths)
    assert [value(first, name) for name in ("files", "distinct_contents", "left_out", "other_files")] == [3, 2, 0, 1]
    assert (value(first, "reused"), value(second, "reused")) == (False, True)
    assert first.data_version == second.data_version
    after = folder_bytes(paths.root)
    after["catalogue/hash_memo.json"] = before["catalogue/hash_memo.json"]  # young files are not remembered the first time
    assert after == before
    assert read_json(paths.catalogue_manifest)["num_files"] == 3


def test_the_data_version_follows_contents(tmp_path: Path) -> None:
    """A renamed file must leave everything downstream fresh; a changed one must not."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 3)})
    first = materialize(paths)
    (paths.ohh / "a.ohh").rename(paths.ohh / "b.ohh")
    renamed = materialize(paths)
    assert renamed.data_version == first.data_version
    assert value(renamed, "reused") is False
    assert [entry.name for entry in catalogue.read_catalogue(paths.ohh_files).entries] == ["b.ohh"]
    write_ohh(paths.ohh / "b.ohh", random_hands(2, 3))
    assert materialize(paths).data_version != first.data_version


def test_files_that_are_left_out_are_shown_with_their_reason(tmp_path: Path) -> None:
    """One refused file must neither stop the others nor go unnoticed."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 3)})
    (tmp_path / "secret.ohh").write_text("x")
    (paths.ohh / "link.ohh").symlink_to(tmp_path / "secret.ohh")
    result = materialize(paths)
    assert [value(result, name) for name in ("files", "left_out")] == [1, 1]
    row = (result.metadata or {})["left_out_files"].records[0].data
    assert row == {"file": "link.ohh", "status": "outside", "reason": "a link that leads out of the folder"}


def test_left_out_files_are_named_in_the_log(tmp_path: Path) -> None:
    """A number alone sends a person looking through thousands of files."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 3)})
    for index in range(5):
        (paths.ohh / f"gone{index}.ohh").symlink_to("nowhere")
    context = dg.build_asset_context()
    warnings: list[str] = []
    context.log.warning = warnings.append  # type: ignore[method-assign, assignment]  # a fake in place of the log
    ohh_files(context, OhhFilesConfig(), HomeResource(home=str(paths.root)))
    nothing = "(a link to nothing, or removed meanwhile)"
    assert warnings == [f"left out: gone0.ohh {nothing}; gone1.ohh {nothing}; gone2.ohh {nothing}; and 2 more"]


def test_an_empty_folder_says_what_to_do(tmp_path: Path) -> None:
    """It is the first thing that a newcomer meets."""
    paths = home_with(tmp_path, {})
    (paths.ohh / "hands.txt").write_text("x")
    with pytest.raises(dg.Failure) as caught:
        materialize(paths)
    message = caught.value.description or ""
    for part in (str(paths.ohh), ".ohh, .jsonl", ".zst", "1 other file", "OHH=<folder>", "RANGE_READER_OHH"):
        assert part in message


def test_a_missing_folder_says_which_and_how_to_name_another(tmp_path: Path) -> None:
    """A mistyped OHH must not look like an empty folder, and must not be created."""
    paths = home_with(tmp_path, {})
    with pytest.raises(dg.Failure, match=f"there is no folder {tmp_path}/tpyo: set OHH="):
        materialize(paths, folder=str(tmp_path / "tpyo"))
    assert not (tmp_path / "tpyo").exists()


def test_a_folder_with_nothing_readable_says_why(tmp_path: Path) -> None:
    """No permission is another problem than no files."""
    paths = home_with(tmp_path, {})
    (paths.ohh / "gone.ohh").symlink_to("nowhere")
    with pytest.raises(dg.Failure, match=r"none of 1 file in .* gone\.ohh: a link to nothing"):
        materialize(paths)


def test_config_names_another_folder_and_waits_for_quiet_files(tmp_path: Path) -> None:
    """A field that nobody reads is a lie."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 3)})
    write_ohh(tmp_path / "other" / "b.ohh", random_hands(2, 3))
    materialize(paths, folder=str(tmp_path / "other"))
    assert [entry.name for entry in catalogue.read_catalogue(paths.ohh_files).entries] == ["b.ohh"]
    with pytest.raises(dg.Failure, match="changed less than 3600 s ago"):
        materialize(paths, settle_seconds=3600.0)


def test_a_read_only_home_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """'[Errno 13]' helps nobody."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 3)})

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(paths.ohh_files))

    monkeypatch.setattr(asset_file, "write_catalogue", refuse)
    with pytest.raises(dg.Failure, match="permission denied: make it writable"):
        materialize(paths)
