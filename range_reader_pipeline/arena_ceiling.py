"""The oracle beside the other readers: built for reads of arena hands from what is on record of their deal.

The style texts are those that the manifest keeps, not the files of today, so the oracle thinks as the players did.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from range_reader_core.wording import counted
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.storage import read_json

if TYPE_CHECKING:
    from range_reader_core.arena.oracle import OracleReader
    from range_reader_core.reads import Reads

NO_ARENA: Final = "none"


def deal_on_record(paths: HomePaths) -> str:
    """Return the identity of the deal whose roster lies in the home, ``NO_ARENA`` where there is none."""
    manifest = read_json(paths.arena_manifest)
    return str(manifest["identity"]) if isinstance(manifest, dict) and paths.arena_roster.is_file() else NO_ARENA


def oracles(paths: HomePaths, reads: "Reads", log: Callable[[str], None]) -> "list[OracleReader]":
    """Return the oracle that knows everybody's style and the one that knows none; empty where not all reads are arena hands."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from range_reader_core.arena.betting import NUM_SEATS
    from range_reader_core.arena.oracle import OracleReader
    from range_reader_core.arena.policy import Policy
    from range_reader_core.arena.styles import StyleBook, parse_style

    manifest = read_json(paths.arena_manifest)
    if not isinstance(manifest, dict) or deal_on_record(paths) == NO_ARENA:
        return []
    needed = [reads.hand_ids[index] for index in np.unique(reads.hand_index)]
    roster = pq.read_table(paths.arena_roster, filters=[("hand_id", "in", pa.array(needed))])
    found = dict(zip(roster["hand_id"].to_pylist(), roster["styles"].to_pylist(), strict=True))
    if len(found) < len(needed):
        if found:
            log(f"{len(needed) - len(found)} of {counted(len(needed), 'hand')} not dealt by the arena: no oracle")
        return []
    by_hand = np.zeros((len(reads.hand_ids), NUM_SEATS), dtype=np.int64)
    for index, hand_id in enumerate(reads.hand_ids):
        row = found.get(hand_id, [])
        by_hand[index, : len(row)] = row
    policy = Policy(StyleBook(tuple(parse_style(style["text"], style["name"]) for style in manifest["styles"])))
    prior = np.array([style["share"] for style in manifest["styles"]])
    return [
        OracleReader(
            policy=policy,
            big_blind=int(manifest["settings"]["big_blind"]),
            hand_index=reads.hand_index,
            styles=styles,
            prior=prior,
        )
        for styles in (by_hand[reads.hand_index], None)
    ]
