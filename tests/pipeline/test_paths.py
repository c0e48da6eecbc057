"""Everything written lies below the home, and where that is depends on arguments and environment alone."""

from pathlib import Path

import pytest

from range_reader_pipeline.paths import HomePaths, home_paths


def test_arguments_win_over_environment_over_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A knob that is silently overruled makes people train on the wrong folder."""
    monkeypatch.chdir(tmp_path)
    environment = {"RANGE_READER_HOME": "env_home", "RANGE_READER_OHH": "/env/ohh"}
    assert home_paths(environment={}) == HomePaths(tmp_path / "range_reader_home", tmp_path / "range_reader_home" / "ohh")
    assert home_paths(environment=environment) == HomePaths(tmp_path / "env_home", Path("/env/ohh"))
    assert home_paths(home="/x", ohh="y/../z", environment=environment) == HomePaths(Path("/x"), tmp_path / "z")


def test_an_empty_variable_counts_as_unset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make passes OHH= as an empty string; an empty path would be the working directory."""
    monkeypatch.chdir(tmp_path)
    paths = home_paths(environment={"RANGE_READER_HOME": "", "RANGE_READER_OHH": ""})
    assert paths.ohh == tmp_path / "range_reader_home" / "ohh"


def test_every_path_but_the_input_lies_below_the_home(tmp_path: Path) -> None:
    """Nothing may be written outside the home."""
    paths = home_paths(home=str(tmp_path / "home"), ohh=str(tmp_path / "elsewhere"), environment={})
    names = [name for name in dir(HomePaths) if isinstance(getattr(HomePaths, name), property)]
    names = [name for name in names if name not in ("is_default_ohh", "ohh_source")]
    assert len(names) > 10
    for name in names:
        assert getattr(paths, name).is_relative_to(tmp_path / "home"), name


def test_creating_a_home_makes_its_own_input_folder_but_no_foreign_one(tmp_path: Path) -> None:
    """Creating a mistyped OHH folder would turn a typo into 'no hands found' for ever."""
    home_paths(home=str(tmp_path / "a"), environment={}).create()
    assert (tmp_path / "a" / "ohh").is_dir()
    home_paths(home=str(tmp_path / "b"), ohh=str(tmp_path / "tpyo"), environment={}).create()
    assert not (tmp_path / "tpyo").exists()
    assert not (tmp_path / "b" / "ohh").exists()


def test_a_home_inside_a_repository_is_ignored_by_git(tmp_path: Path) -> None:
    """Prevents hands and weights from being committed because the home has another name than the default."""
    paths = home_paths(home=str(tmp_path / "mine"), environment={})
    paths.create()
    assert (paths.root / ".gitignore").read_text() == "*\n"
    (paths.root / ".gitignore").write_text("ohh\n")
    paths.create()
    assert (paths.root / ".gitignore").read_text() == "ohh\n"  # somebody's own
