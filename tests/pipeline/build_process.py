"""Builds the shards of the home named on the command line with two workers, telling of its progress: made to be killed."""

import sys
import time

from range_reader_pipeline.catalogue import HashMemo, list_folder, scan
from range_reader_pipeline.paths import home_paths
from range_reader_pipeline.shard_build import build_shards
from range_reader_pipeline.shuffle import ShuffleConfig


def tell(message: str) -> None:
    """Write a line to whoever waits for it."""
    sys.stdout.write(message + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    paths = home_paths(home=sys.argv[1], environment={})
    catalogue = scan(list_folder(paths.ohh), HashMemo(paths.ohh), now_ns=time.time_ns())
    tell("begins")
    build_shards(paths, catalogue, ShuffleConfig(reads_per_shard=300), num_workers=2, on_progress=tell)
