"""The data checks pass on sound shards, and each fails on the fault it is there for."""

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from range_reader_core import encoder, skeletons
from range_reader_core.hand import CanonicalHand
from range_reader_core.ohh import parse_ohh
from range_reader_pipeline import notations
from range_reader_pipeline.assets.encoded_shards import encoded_shards
from range_reader_pipeline.assets.ohh_files import ohh_files
from range_reader_pipeline.checks import checks, data_checks
from range_reader_pipeline.data_config import FAILED_FILES_VARIABLE, DataChecksConfig, failed_files
from range_reader_pipeline.paths import HomePaths, home_paths
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.storage import read_json, write_json
from tests.core.hands import random_hands
from tests.pipeline.encoded import home_with

BLOCKING = {"hands_counted_once", "splits_share_no_hand", "inputs_hide_cards", "every_file_readable"}
ALL = BLOCKING | {"shards_are_uniform", "few_hands_rejected"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> HomePaths:
    """Return a home with published shards, several of train."""
    home = home_with(tmp_path_factory.mktemp("made"), {f"{seed}.ohh": random_hands(seed, 100) for seed in range(10, 13)})
    (home.ohh / "bad.ohh").write_text('{"no": 1}\n' * 2)
    assert materialize(home, [ohh_files, encoded_shards]).success
    return home


@pytest.fixture
def paths(made: HomePaths, tmp_path: Path) -> HomePaths:
    """Return a copy of that home, to be damaged."""
    shutil.copytree(made.root, tmp_path / "home", symlinks=True)
    return home_paths(home=str(tmp_path / "home"), environment={})


def materialize(paths: HomePaths, definitions: list[dg.AssetsDefinition]) -> dg.ExecuteInProcessResult:
    config = {"ops": {"encoded_shards": {"config": {"reads_per_shard": 1024}}}} if encoded_shards in definitions else None
    home = HomeResource(home=str(paths.root))
    return dg.materialize(definitions, resources={"home": home}, run_config=config, raise_on_error=False)


def evaluate(paths: HomePaths, config: DataChecksConfig | None = None) -> dict[str, dg.AssetCheckResult]:
    """Run the checks on what is published."""
    results = data_checks(dg.build_asset_check_context(), config or DataChecksConfig(), HomeResource(home=str(paths.root)))
    return {result.check_name or "": result for result in results}


def change_shard(paths: HomePaths, name: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    """Rewrite a shard, and its size in the manifest."""
    path = paths.data / name
    change(pl.read_parquet(path)).write_parquet(path)
    manifest = read_json(paths.data_manifest)
    assert manifest is not None
    for shard in manifest["shards"]:
        shard["num_bytes"] = (paths.data / shard["split"] / shard["name"]).stat().st_size
    write_json(paths.data_manifest, manifest)


def test_sound_shards_pass_and_say_why(paths: HomePaths) -> None:
    """A check that fails on good data is switched off by the second person who sees it."""
    results = evaluate(paths)
    assert set(results) == ALL
    failed = {name for name, result in results.items() if not result.passed}
    assert failed == {"every_file_readable"}  # bad.ohh, on purpose
    assert all(result.description for result in results.values())
    assert results["shards_are_uniform"].metadata["shards"].value > 1
    assert 0 < results["few_hands_rejected"].metadata["reject_rate"].value < 0.01


def test_a_file_that_cannot_be_read_blocks_and_says_what_to_do(paths: HomePaths) -> None:
    """Before an hour of training somebody should know that a file was cut off while copying, and which."""
    result = evaluate(paths)["every_file_readable"]
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.ERROR)
    text = result.description or ""
    assert "bad.ohh (FILE_NO_HANDS: every record was refused" in text
    assert "Take it out of the folder, mend it" in text
    assert "failed_files: warn" in text
    assert "catalogue/rejects.parquet lists why, and so does `range-reader ingest <file>`" in text
    assert result.metadata["failed_files"].value == 1


def test_a_file_that_cannot_be_read_warns_where_that_is_wanted(paths: HomePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some want the other files' hands whatever lies beside them."""
    result = evaluate(paths, DataChecksConfig(failed_files="warn"))["every_file_readable"]
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.WARN)
    monkeypatch.setenv(FAILED_FILES_VARIABLE, "warn")
    assert evaluate(paths)["every_file_readable"].severity is dg.AssetCheckSeverity.WARN
    assert evaluate(paths, DataChecksConfig(failed_files="block"))["every_file_readable"].severity is dg.AssetCheckSeverity.ERROR
    with pytest.raises(ValueError, match=r"expected failed_files .* warn or block, got 'ignore'"):
        failed_files(DataChecksConfig(), environment={FAILED_FILES_VARIABLE: "ignore"})


def test_files_of_other_games_alone_warn(tmp_path: Path) -> None:
    """There is nothing to mend in a file of Omaha, so it must not hold up the hold'em beside it."""
    home = home_with(tmp_path, {"a.ohh": random_hands(31, 60), "omaha.ohh": random_hands(32, 5)})
    omaha = home.ohh / "omaha.ohh"
    omaha.write_text(omaha.read_text().replace('"Holdem"', '"Omaha"'))
    assert materialize(home, [ohh_files, encoded_shards]).success
    result = evaluate(home)["every_file_readable"]
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "0 of 2 files cannot be read" in (result.description or "")
    assert "1 file holds other games alone" in (result.description or "")
    assert "omaha.ohh" in (result.description or "")


def test_the_files_that_are_not_named_are_counted(tmp_path: Path) -> None:
    """Three names and dots look like three files."""
    home = home_with(tmp_path, {"a.ohh": random_hands(34, 60)})
    for index in range(5):
        (home.ohh / f"bad{index}.ohh").write_text(f'{{"no": {index}}}\n')
    assert materialize(home, [ohh_files, encoded_shards]).success
    text = evaluate(home)["every_file_readable"].description or ""
    assert text.startswith("5 of 6 files cannot be read as hand histories: bad0.ohh (FILE_NO_HANDS: ")
    assert "bad2.ohh" in text
    assert "bad3.ohh" not in text
    assert "; and 2 more. " in text
    assert "Take them out" in text
    assert ".." not in text


def test_files_that_cannot_be_opened_block_and_links_elsewhere_warn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hands of a locked file are missing as those of a broken one are; nobody who links elsewhere has lost anything."""
    home = home_with(tmp_path, {"a.ohh": random_hands(35, 60)})
    (home.ohh / "gone.ohh").symlink_to("nowhere")
    os.mkfifo(home.ohh / "pipe.ohh")
    assert materialize(home, [ohh_files, encoded_shards]).success
    result = evaluate(home)["every_file_readable"]
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.WARN)
    text = result.description or ""
    assert "2 names of hand histories passed over: gone.ohh (a link to nothing, or removed meanwhile); pipe.ohh (not a" in text
    assert "Take" not in text
    (home.ohh / "loop.ohh").symlink_to("loop.ohh")  # refused by the file system, also where the tests run as root
    assert materialize(home, [ohh_files, encoded_shards]).success
    result = evaluate(home)["every_file_readable"]
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "1 more file cannot be opened: loop.ohh (Too many levels of symbolic links)" in (result.description or "")
    assert "Take it out" in (result.description or "")
    assert [result.metadata[name].value for name in ("failed_files", "files_not_opened", "files_passed_over")] == [0, 1, 2]
    warned = evaluate(home, DataChecksConfig(failed_files="warn"))["every_file_readable"]
    assert (warned.passed, warned.severity) == (False, dg.AssetCheckSeverity.WARN)


def test_what_does_not_pass_is_told_in_the_log(paths: HomePaths) -> None:
    """On a terminal nothing else says that a file was left out, or that hands were refused."""
    manifest = read_json(paths.data_manifest)
    assert manifest is not None
    manifest["counts"]["num_rejected"] = 50
    write_json(paths.data_manifest, manifest)

    def told(failed_files: str) -> dict[str, int]:
        context = dg.build_asset_check_context()
        lines: list[tuple[int, str]] = []
        context.log.log = lambda level, message: lines.append((level, message))  # type: ignore[method-assign, assignment, misc]
        list(data_checks(context, DataChecksConfig(failed_files=failed_files), HomeResource(home=str(paths.root))))  # type: ignore[arg-type]
        return {message.split(" does not pass: ")[0]: level for level, message in lines if len(message) > 60}

    assert told("warn") == {"few_hands_rejected": logging.WARNING, "every_file_readable": logging.WARNING}
    assert told("block") == {"few_hands_rejected": logging.WARNING, "every_file_readable": logging.ERROR}


def test_a_failed_file_stops_what_comes_after(tmp_path: Path) -> None:
    """A check that says it blocks and lets the chain go on is worse than none."""
    home = home_with(tmp_path, {"a.ohh": random_hands(33, 60)})
    (home.ohh / "bad.ohh").write_bytes(b"\xff\xfe" + "no hands".encode("utf-16-le"))
    went_on: list[bool] = []

    @dg.asset(deps=[encoded_shards])
    def after() -> None:
        went_on.append(True)

    def run(**config: str) -> bool:
        result = dg.materialize(
            [ohh_files, encoded_shards, after, *checks],
            resources={"home": HomeResource(home=str(home.root))},
            run_config={"ops": {"data_checks": {"config": config}}},
            raise_on_error=False,
        )
        return result.success

    assert not run()
    assert not went_on
    assert run(failed_files="warn")
    assert went_on


def test_a_doubled_read_blocks(paths: HomePaths) -> None:
    """It would count double in training and in every average."""
    change_shard(paths, "train/shard_00000.parquet", lambda frame: pl.concat([frame, frame.head(1)]))
    result = evaluate(paths)["hands_counted_once"]
    assert not result.passed
    assert result.severity is dg.AssetCheckSeverity.ERROR
    assert result.metadata["reads_twice"].value == 2


def test_lost_hands_block(paths: HomePaths) -> None:
    """Shards that hold less than was encoded are not the data that the manifest names."""
    change_shard(paths, "val/shard_00000.parquet", lambda frame: frame.filter(pl.col("hand_id") != frame["hand_id"][0]))
    assert not evaluate(paths)["hands_counted_once"].passed


def test_a_hand_on_both_sides_blocks(paths: HomePaths) -> None:
    """Every grade would be too good by an amount that nobody knows."""
    train = pl.read_parquet(paths.data / "train" / "shard_00000.parquet")
    change_shard(paths, "test/shard_00000.parquet", lambda frame: pl.concat([frame, train.head(1)]))
    result = evaluate(paths)["splits_share_no_hand"]
    assert not result.passed
    assert result.severity is dg.AssetCheckSeverity.ERROR


def test_an_input_that_knows_a_hidden_card_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model would win in the lab and know nothing at the table: here the sit of seat 0 tells its lower card."""
    skeleton = skeletons.skeleton

    def telling(hand: CanonicalHand) -> tuple[list[int], list[float]]:
        stream, chips = skeleton(hand)
        chips[1] = float((hand.hole_cards[0] or (0, 0))[0])
        return stream, chips

    for module in (skeletons, encoder):
        monkeypatch.setattr(module, "skeleton", telling)
    monkeypatch.setattr(notations, "read_ohh", parse_ohh)  # ordinary hands too go through the skeleton above
    home = home_with(tmp_path, {"a.ohh": random_hands(21, 100)})
    result = materialize(home, [ohh_files, encoded_shards])
    assert result.success
    check = evaluate(home)["inputs_hide_cards"]
    assert not check.passed
    assert check.severity is dg.AssetCheckSeverity.ERROR
    assert check.metadata["leaks"].value > 100
    assert "hand " in check.metadata["first"].value


def test_the_leak_check_compares_the_real_shards(paths: HomePaths) -> None:
    """Reads that are not what their files say, or files that are gone, must not pass as looked at."""
    sound = evaluate(paths)["inputs_hide_cards"].metadata
    assert sound["reads_compared"].value > 300
    assert sound["reads_with_another_answer"].value > 0.98 * sound["reads_compared"].value
    for name in sorted(path.relative_to(paths.data.resolve()) for path in paths.data.resolve().glob("*/*.parquet")):
        change_shard(paths, str(name), lambda frame: frame.with_columns(pl.col("actions").list.reverse()))
    result = evaluate(paths)["inputs_hide_cards"]
    assert not result.passed
    assert result.metadata["reads_compared"].value == 0
    assert result.metadata["reads_not_as_in_their_file"].value > 300


def test_shards_in_the_order_of_files_warn(paths: HomePaths) -> None:
    """Sorted by table size, the first shards would be all heads-up."""
    names = sorted(path.relative_to(paths.data.resolve()) for path in paths.data.resolve().glob("train/*.parquet"))
    frames = pl.concat([pl.read_parquet(paths.data / name) for name in names]).sort("num_players")
    share = frames.height // len(names)
    for index, name in enumerate(names):
        change_shard(paths, str(name), lambda _, index=index: frames.slice(index * share, share))
    result = evaluate(paths)["shards_are_uniform"]
    assert not result.passed
    assert result.severity is dg.AssetCheckSeverity.WARN


def test_many_rejects_warn_with_reasons(paths: HomePaths) -> None:
    """More than one in a hundred has one systematic cause, and the codes say which."""
    manifest = read_json(paths.data_manifest)
    assert manifest is not None
    manifest["counts"]["num_rejected"] = 50
    write_json(paths.data_manifest, manifest)
    result = evaluate(paths)["few_hands_rejected"]
    assert not result.passed
    assert result.severity is dg.AssetCheckSeverity.WARN
    assert "(REC_NOT_OHH 2, FILE_NO_HANDS 1); catalogue/rejects.parquet gives file" in (result.description or "")
    assert result.metadata["reasons"].records[0].data == {"code": "REC_NOT_OHH", "count": 2}


def test_only_wrong_numbers_block() -> None:
    """A warning that stops the chain for one bad file is worse than the bad file."""
    specs = {spec.name: spec.blocking for check in checks for spec in check.check_specs}
    assert {name for name, blocking in specs.items() if blocking} == BLOCKING
    assert set(specs) == ALL


def test_checks_run_beside_the_asset(paths: HomePaths) -> None:
    """They belong to the asset in the UI, not to a separate job that nobody starts."""
    result = materialize(paths, [ohh_files, encoded_shards, *checks])
    assert {evaluation.check_name for evaluation in result.get_asset_check_evaluations()} == ALL


def test_no_shards_fail_the_check_and_say_what_to_do(tmp_path: Path) -> None:
    """A traceback would look like a bug of the check."""
    with pytest.raises(dg.Failure, match="materialize encoded_shards"):
        evaluate(home_with(tmp_path, {}))
