"""A few real hands of the catalogued files, and the reads that the published shards hold of them."""

from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from range_reader_core.hand import CanonicalHand
from range_reader_core.partition import SPLITS
from range_reader_core.redeal import Inputs, ReadKey
from range_reader_pipeline.catalogue import Catalogue
from range_reader_pipeline.hand_files import parse_file
from range_reader_pipeline.shards import split_shards

MAX_FILES: Final = 24
HANDS_PER_FILE: Final = 25
_COLUMNS: Final = ["hand_id", "villain_seat", "perspective_seat", "actions", "values"]


def sample_hands(catalogue: Catalogue) -> list[CanonicalHand]:
    """Return the first hands of files spread evenly over the catalogue. Files that are gone or changed give what they give."""
    files = catalogue.readable
    step = max(1, -(-len(files) // MAX_FILES))
    hands: list[CanonicalHand] = []
    for entry in files[::step]:
        hands += islice(_hands(catalogue.folder / entry.name), HANDS_PER_FILE)
    return hands


def stored_inputs(data_folder: Path, hand_ids: Collection[str]) -> dict[ReadKey, Inputs]:
    """Return the inputs of all published reads of these hands, by hand, villain and perspective."""
    folder = data_folder.resolve()
    shards = [path for split in SPLITS for path in split_shards(folder, split)]
    found = pl.scan_parquet(shards).filter(pl.col("hand_id").is_in(list(hand_ids))).select(_COLUMNS).collect()
    return {
        (hand_id, villain, perspective): (
            np.array(actions, dtype=np.uint16).tobytes(),
            np.array(values, dtype=np.float32).tobytes(),
        )
        for hand_id, villain, perspective, actions, values in found.iter_rows()
    }


def _hands(path: Path) -> Iterator[CanonicalHand]:
    try:
        for parsed in parse_file(path):
            if isinstance(parsed, CanonicalHand):
                yield parsed
    except (OSError, ValueError):
        return
