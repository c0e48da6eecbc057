"""Versions of the shards appear whole, one at a time, and the one before stays for whoever is reading it."""

from pathlib import Path

import pytest

from range_reader_pipeline.paths import HomePaths, home_paths
from range_reader_pipeline.publication import (
    building,
    make_manifest,
    point_data,
    publish,
    published,
    shards_version,
    whole_manifest,
)
from range_reader_pipeline.shuffle import ShardInfo, ShuffleConfig
from range_reader_pipeline.storage import read_json, write_json


def publish_version(paths: HomePaths, contents: list[str]) -> str:
    """Publish a version of one shard whose bytes are the names of its inputs."""
    version = shards_version(contents, ShuffleConfig())
    with building(paths, version) as folder:
        (folder / "train").mkdir()
        data = ",".join(sorted(contents)).encode()
        (folder / "train" / "shard_00000.parquet").write_bytes(data)
        shard = ShardInfo(
            split="train",
            name="shard_00000.parquet",
            num_reads=1,
            num_positions=1,
            num_bytes=len(data),
            sha256="",
            reads_by_source={},
            reads_by_size_and_street={},
        )
        publish(paths, folder, make_manifest(version, contents, ShuffleConfig(), [shard], {"reads_by_split": {"train": 1}}))
    return version


@pytest.fixture
def paths(tmp_path: Path) -> HomePaths:
    """Return an empty home."""
    made = home_paths(home=str(tmp_path / "home"), environment={})
    made.create()
    return made


def versions(paths: HomePaths) -> set[str]:
    return {entry.name for entry in paths.data_versions.iterdir()} - {"previous"}


def test_version_depends_on_contents_and_config_alone() -> None:
    """Two homes with the same data must be comparable by version; any difference in bytes must show."""
    base = shards_version(["a", "b"], ShuffleConfig())
    assert shards_version(["b", "a", "a"], ShuffleConfig()) == base
    others = [
        shards_version(["a"], ShuffleConfig()),
        shards_version(["a", "b"], ShuffleConfig(seed=1)),
        shards_version(["a", "b"], ShuffleConfig(reads_per_shard=5)),
    ]
    assert len({base, *others}) == 4


def test_the_published_version_and_the_one_before_stay(paths: HomePaths) -> None:
    """A training that is still loading the old shards must not lose them; older ones must not fill the disk."""
    one, two, three = (publish_version(paths, [name]) for name in "abc")
    manifest = published(paths)
    assert manifest is not None
    assert manifest["version"] == three
    assert versions(paths) == {two, three}
    point_data(paths, paths.data_versions / two)
    assert (paths.data / "train" / "shard_00000.parquet").read_bytes() == b"b"
    assert versions(paths) == {two, three}
    assert one not in versions(paths)


def test_publishing_again_keeps_the_version_before(paths: HomePaths) -> None:
    """A re-run must not push out the version that a training reads."""
    one, two = publish_version(paths, ["a"]), publish_version(paths, ["b"])
    assert publish_version(paths, ["b"]) == two
    assert versions(paths) == {one, two}


def test_an_interrupted_build_is_neither_seen_nor_left(paths: HomePaths) -> None:
    """Half a version would be trained on as if it were the whole."""
    version = publish_version(paths, ["a"])

    def interrupted() -> None:
        with building(paths, "next") as folder:
            (folder / "x").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    manifest = published(paths)
    assert manifest is not None
    assert manifest["version"] == version
    assert versions(paths) == {version}


@pytest.mark.parametrize("damage", ["shorten", "remove", "counts", "manifest"])
def test_a_damaged_version_is_not_believed(paths: HomePaths, damage: str) -> None:
    """Reusing it would hand a training half its data, and say that nothing had changed."""
    folder = paths.data_versions / publish_version(paths, ["a", "b"])
    assert whole_manifest(folder) is not None
    if damage == "shorten":
        (folder / "train" / "shard_00000.parquet").write_bytes(b"a")
    elif damage == "remove":
        (folder / "train" / "shard_00000.parquet").unlink()
    elif damage == "counts":
        write_json(folder / "manifest.json", {**read_json(folder / "manifest.json"), "counts": {}})
    else:
        (folder / "manifest.json").write_text("{")
    assert whole_manifest(folder) is None
    assert published(paths) is None
    publish_version(paths, ["a", "b"])
    assert published(paths) is not None


def test_nothing_published_is_none(paths: HomePaths) -> None:
    """The first run starts from here."""
    assert published(paths) is None


@pytest.mark.parametrize(
    "damaged", ["[]", "{}", '{"version": "%s"}', '{"version": "%s", "shards": 3}', '{"version": "%s", "shards": [1]}']
)
def test_a_manifest_of_another_shape_is_not_believed(paths: HomePaths, damaged: str) -> None:
    """Half a file after a power cut must lead to building again, not to a traceback."""
    version = publish_version(paths, ["a"])
    assert published(paths) is not None
    paths.data_manifest.write_text(damaged.replace("%s", version))
    assert published(paths) is None
