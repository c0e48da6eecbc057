"""Builds the shards of a home with two workers, telling of its progress, and waits at a message: made to be killed.

``python -m tests.pipeline.build_process HOME MESSAGE``: the number of the message that is not outlived, from 1.
"""

import signal
import sys
import time

from range_reader_pipeline.catalogue import HashMemo, list_folder, scan
from range_reader_pipeline.paths import home_paths
from range_reader_pipeline.shard_build import build_shards
from range_reader_pipeline.shuffle import ShuffleConfig


class Teller:
    """Writes a line to whoever waits for it, and after the last one only waits to be killed."""

    def __init__(self, last: int) -> None:
        """Take the number of messages that are told."""
        self.left = last

    def tell(self, message: str) -> None:
        """Write a line."""
        sys.stdout.write(message + "\n")
        sys.stdout.flush()
        self.left -= 1
        if self.left == 0:
            signal.pause()


if __name__ == "__main__":
    paths = home_paths(home=sys.argv[1], environment={})
    catalogue = scan(list_folder(paths.ohh), HashMemo(paths.ohh), now_ns=time.time_ns())
    teller = Teller(int(sys.argv[2]))
    teller.tell("begins")
    build_shards(paths, catalogue, ShuffleConfig(reads_per_shard=300), num_workers=2, on_progress=teller.tell)
