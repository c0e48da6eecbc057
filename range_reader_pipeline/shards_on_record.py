"""What is published, from its manifest alone: ticks run in the code server, which must not load pyarrow or torch for it."""

from typing import Any

from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.retraining import Shards
from range_reader_pipeline.storage import read_json


def shards_on_record(paths: HomePaths) -> Shards | None:
    """Return the published shards, None where there are none.

    Raises:
        ValueError: there is a manifest, and it is damaged.
    """
    manifest: Any = read_json(paths.data_manifest)
    if manifest is None and not paths.data_manifest.exists():
        return None
    try:
        return Shards(
            version=str(manifest["version"]),
            source_version=str(manifest["source_version"]),
            num_train_reads=int(manifest["counts"]["reads_by_split"]["train"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        msg = f"{paths.data_manifest} is damaged: materialize encoded_shards, which makes the shards again"
        raise ValueError(msg) from error
