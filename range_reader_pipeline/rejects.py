"""``rejects.parquet``: every record that was refused, and every hand dropped for taking another's id, with file, line and reason.

Rejects are data: people look for the one systematic cause behind them. Exact repeats are counted but not listed, since a folder
imported twice would list every hand. The file names the version of the shards that it belongs to.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from range_reader_pipeline.reads_cache import REJECTS_SCHEMA, ReadsCache
from range_reader_pipeline.repeats import Repeats
from range_reader_pipeline.storage import written_aside

DUP_CONFLICT: Final = "DUP_CONFLICT"
VERSION_KEY: Final = b"range_reader.version"
SCHEMA: Final = pa.schema([pa.field("file", pa.string()), *REJECTS_SCHEMA])


def write_rejects(path: Path, cache: ReadsCache, names: Mapping[str, str], repeats: Repeats, version: str) -> None:
    """Write the rejects of the files in ``names`` (content -> file name), sorted by name and line.

    Raises:
        CorruptCacheError: an entry cannot be read.
    """
    schema = SCHEMA.with_metadata({VERSION_KEY: version.encode()})
    with written_aside(path) as aside, pq.ParquetWriter(aside, schema, compression="zstd", write_page_checksum=True) as writer:
        for content, name in sorted(names.items(), key=lambda item: item[1]):
            for part in cache.rejects(content):
                writer.write_table(_named(part, name).cast(schema))
            rows = repeats.conflict_rows.get(content)
            if rows is not None:
                conflicts = [
                    {"line": 0, "hand_id": hand_id, "code": DUP_CONFLICT, "message": "another hand has this id", "excerpt": ""}
                    for hand_id in cache.hands_column(content, "hand_id").take(pa.array(np.sort(rows))).to_pylist()
                ]
                writer.write_table(_named(pa.Table.from_pylist(conflicts, schema=REJECTS_SCHEMA), name).cast(schema))


def rejects_version(path: Path) -> str | None:
    """Return the version of the shards that a file of rejects belongs to, None where there is none to be read."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException):
        return None
    version = metadata.get(VERSION_KEY)
    return None if version is None else version.decode()


def _named(part: pa.Table, name: str) -> pa.Table:
    return part.add_column(0, "file", pa.array([name] * part.num_rows, pa.string()))
