"""The shards asset: what it reports is what it made, and what went wrong is said in words."""

import errno
import time
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest

from range_reader_pipeline import shard_build
from range_reader_pipeline.assets import encoded_shards as encoded
from range_reader_pipeline.assets.encoded_shards import encoded_shards
from range_reader_pipeline.assets.ohh_files import ohh_files
from range_reader_pipeline.catalogue import Catalogue, HashMemo, list_folder, scan, write_catalogue
from range_reader_pipeline.data_config import EncodedShardsConfig, shuffle_config
from range_reader_pipeline.metadata import INLINE_CHARACTERS
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.plots import MAX_BYTES
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.shards import load_split
from range_reader_pipeline.workers import workers
from tests.core.hands import random_hands, walk
from tests.pipeline.encoded import folder_bytes, home_with
from tests.pipeline.ohh_writer import ohh_line, write_ohh


def run(paths: HomePaths, **config: object) -> dg.ExecuteInProcessResult:
    """Materialize catalogue and shards as a job would."""
    return dg.materialize(
        [ohh_files, encoded_shards],
        resources={"home": HomeResource(home=str(paths.root))},
        run_config=dg.RunConfig({"encoded_shards": EncodedShardsConfig(**config)}) if config else None,
        raise_on_error=False,
    )


def metadata_of(result: dg.ExecuteInProcessResult) -> dict[str, object]:
    assert result.success
    (event,) = result.asset_materializations_for_node("encoded_shards")
    return {name: entry.value for name, entry in event.metadata.items()}


def failure_of(result: dg.ExecuteInProcessResult) -> Any:
    (event,) = result.get_step_failure_events()
    data = event.step_failure_data.user_failure_data
    assert data is not None, event.step_failure_data.error
    return data


def test_counts_are_those_of_the_shards(tmp_path: Path) -> None:
    """A person decides from these numbers whether to trust the data."""
    hands = random_hands(1, 60)
    paths = home_with(tmp_path, {"a.ohh": [*hands, walk()], "b.ohh": [*random_hands(2, 60), hands[0]]})
    with (paths.ohh / "b.ohh").open("a") as stream:
        stream.write(ohh_line(random_hands(3, 1)[0]).replace('"Holdem"', '"Omaha"') + "\n")
    seen = metadata_of(run(paths))
    splits = {split: load_split(paths.data, split) for split in ("train", "val", "test")}
    assert seen["hands"] == 121
    assert (seen["hands_rejected"], seen["hands_repeated"], seen["hands_in_conflict"]) == (1, 1, 0)
    assert seen["hands_nobody_entered"] >= 1
    for split, reads in splits.items():
        assert seen[f"reads_{split}"] == reads.num_reads > 0
        assert seen[f"hands_{split}"] == len(set(reads.hand_ids))
    assert seen["reads"] == seen["dagster/row_count"] == sum(reads.num_reads for reads in splits.values())
    assert seen["positions"] == sum(len(reads.tokens) for reads in splits.values())
    assert seen["reject_rate"] == pytest.approx(1 / 123, abs=1e-6)
    assert seen["path"] == str(paths.data)
    assert [row.data["code"] for row in seen["rejected_by_reason"].records] == ["GAME_TYPE"]
    assert {row.data["source"]: row.data["reads"] for row in seen["sources"].records}.keys() == {"tests/even", "tests/odd"}


def test_metadata_fits_the_ui(tmp_path: Path) -> None:
    """Every piece is stored several times in Dagster's database, and long tables are printed whole."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 60)})
    seen = metadata_of(run(paths))
    assert len(str(seen["picture"])) < 1.4 * MAX_BYTES
    assert str(seen["picture"]).startswith("![reads by table size")
    assert [column.name for column in seen["dagster/column_schema"].columns][:4] == [
        "actions",
        "values",
        "villain_combo",
        "hand_id",
    ]
    for name in set(seen) - {"picture"}:
        if isinstance(seen[name], str):
            assert len(str(seen[name])) < INLINE_CHARACTERS, name


def test_again_is_reused_with_the_same_version_and_bytes(tmp_path: Path) -> None:
    """What is downstream must stay fresh."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 60)})
    first = metadata_of(run(paths))
    before = folder_bytes(paths.data.resolve())
    second = metadata_of(run(paths))
    assert (first["reused"], first["files_encoded"]) == (False, 1)
    assert (second["reused"], second["files_encoded"]) == (True, 0)
    assert first["version"] == second["version"]
    assert folder_bytes(paths.data.resolve()) == before


def test_source_version_is_that_of_the_catalogue(tmp_path: Path) -> None:
    """The sensor compares it with the folder; another value would start the chain for ever."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 30)})
    result = run(paths)
    (event,) = result.asset_materializations_for_node("ohh_files")
    assert metadata_of(result)["source_version"] == event.metadata["version"].value
    assert event.tags is not None
    assert event.tags["dagster/data_version"] == event.metadata["version"].value


def test_every_config_field_has_its_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A field that nobody reads is a lie."""
    assert shuffle_config(EncodedShardsConfig(shuffle_seed=5, reads_per_shard=2000)).seed == 5
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 120), "b.ohh": random_hands(2, 120)})
    base = metadata_of(run(paths))
    assert shuffle_config(EncodedShardsConfig(labels="dealt")).labels == "dealt"
    seeded = metadata_of(run(paths, shuffle_seed=1))
    small = metadata_of(run(paths, reads_per_shard=1024))
    assert len({base["version"], seeded["version"], small["version"]}) == 3
    assert small["shards"] > base["shards"]
    counts: list[int] = []
    monkeypatch.setattr(shard_build, "workers", lambda count: counts.append(count) or workers(1))
    metadata_of(run(paths, workers=3, shuffle_seed=2))
    assert counts == [3]


def test_all_rejected_is_a_failure_with_the_table_of_reasons(tmp_path: Path) -> None:
    """Usually it is the wrong kind of file, and the reasons say which."""
    paths = home_with(tmp_path, {})
    omaha = [ohh_line(hand).replace('"Holdem"', '"Omaha"') for hand in random_hands(1, 5)]
    (paths.ohh / "a.ohh").write_text("\n".join([*omaha, '{"ots": {}}']) + "\n")
    failure = failure_of(run(paths))
    assert "not one hand was accepted from 1 file: a.ohh (FILE_NO_HANDS: " in (failure.description or "")
    assert "GAME_TYPE 5" in (failure.description or "")
    rows = {row.data["code"]: row.data["count"] for row in failure.metadata["reasons"].value.records}
    assert rows["GAME_TYPE"] == 5
    assert rows["REC_NOT_OHH"] == 1


def test_only_other_games_are_said_to_be_such(tmp_path: Path) -> None:
    """Whoever plays Omaha should learn that it is not read, and not look for a fault in the files."""
    paths = home_with(tmp_path, {})
    omaha = [ohh_line(hand).replace('"Holdem"', '"Omaha"') for hand in random_hands(1, 5)]
    (paths.ohh / "a.ohh").write_text("\n".join(omaha) + "\n")
    message = failure_of(run(paths)).description or ""
    assert message.startswith("1 file with no hand of uncapped no-limit hold'em, only of other games, which are not read: a.ohh")
    assert pl.read_parquet(paths.rejects)["code"].to_list().count("GAME_TYPE") == 5


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ((500, 500, 0, 0), ""),
        ((500, 407, 93, 0), " of 407 hands; 93 without a read: in 93 nobody put in a voluntary chip"),
        (
            (5, 1, 3, 1),
            " of 1 hand; 4 without a read: in 3 nobody put in a voluntary chip and in 1 no two players' cards are known",
        ),
        ((5, 2, 3, 1), " of 2 hands; 3 without a read: nobody put in a voluntary chip or no two players' cards are known"),
        ((5, 2, 0, 0), " of 2 hands; 3 without a read: their cards were shown and not dealt (config labels)"),
    ],
)
def test_hands_without_a_read_are_told_with_their_cause(counts: tuple[int, int, int, int], text: str) -> None:
    """The line on the checks counts fewer hands than were read, which looks like a loss."""
    names = ("num_hands", "with_reads", "num_walks", "num_unlabelled_hands")
    found = dict(zip(names, counts, strict=True))
    assert encoded._without_reads({**found, "hands_by_split": {"train": found["with_reads"]}}) == text


def test_no_catalogue_says_what_to_materialize(tmp_path: Path) -> None:
    """The button on this asset alone is the first that many press."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 5)})
    with pytest.raises(dg.Failure, match="materialize ohh_files first"):
        encoded_shards(dg.build_asset_context(), EncodedShardsConfig(), HomeResource(home=str(paths.root)))


def test_a_full_disk_says_so_and_keeps_the_old_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A traceback from inside arrow helps nobody."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 30)})
    run(paths)
    before = folder_bytes(paths.data.resolve())
    write_ohh(paths.ohh / "b.ohh", random_hands(2, 30))

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(paths.data_versions))

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
    failed = dg.materialize(
        [encoded_shards, ohh_files], resources={"home": HomeResource(home=str(paths.root))}, raise_on_error=False
    )
    assert "the disk is full" in (failure_of(failed).description or "")
    assert folder_bytes(paths.data.resolve()) == before


def test_progress_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Minutes of silence look like a hang."""
    monkeypatch.setattr(encoded, "_folder_of_run", lambda _: None)  # called without a run
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 30)})
    run(paths)
    logged: list[str] = []
    context = dg.build_asset_context()
    write_ohh(paths.ohh / "b.ohh", random_hands(2, 30))
    ohh_files_result = dg.materialize([ohh_files], resources={"home": HomeResource(home=str(paths.root))})
    assert ohh_files_result.success
    context.log.info = logged.append  # type: ignore[method-assign]  # a fake in place of the log
    encoded_shards(context, EncodedShardsConfig(), HomeResource(home=str(paths.root)))
    assert any(message.startswith("encoded 2 of 2 files, last ") for message in logged)
    assert any(message.startswith("published version") for message in logged)


def test_a_run_whose_catalogue_another_folder_has_replaced_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs with different folders on one home: neither may publish the other's hands as its own."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 20)})
    other = tmp_path / "other"
    write_ohh(other / "b.ohh", random_hands(2, 20))
    read = encoded.read_catalogue

    def overtaken(path: Path) -> Catalogue:
        write_catalogue(path, scan(list_folder(other), HashMemo(other), now_ns=time.time_ns()))
        return read(path)

    with monkeypatch.context() as patch:
        patch.setattr(encoded, "read_catalogue", overtaken)
        message = failure_of(run(paths)).description
    assert "another run has catalogued" in message
    assert str(other) in message
    assert not paths.data.exists()
    assert metadata_of(run(paths))["hands"] == 20
