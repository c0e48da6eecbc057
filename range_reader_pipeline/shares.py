"""Encoding spread over steps, for executors that run steps on other machines: each takes its share of what is not cached.

A file's share is decided by its content, so shares need nothing from each other and pass nothing on: they fill the cache of the
home that they have in common, and ``encoded_shards`` finds its files encoded. On one machine its own worker processes are faster,
since they need no start of a step.
"""

import time
from typing import Final

import dagster as dg

from range_reader_core.wording import counted
from range_reader_pipeline.catalogue import Catalogue, read_catalogue
from range_reader_pipeline.failures import clear_failures
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.stages import DATA, STAGE_TAG

NUM_SHARES: Final = 8
SAY_EVERY_S: Final = 5.0


def share_of(content: str) -> int:
    """Return which share encodes a content."""
    return int(content[:8], 16) % NUM_SHARES


def _share(index: int) -> dg.OpDefinition:
    @dg.op(
        name=f"encode_share_{index}",
        out=dg.Out(dg.Nothing),
        description=f"Encode what is not cached of share {index} of {NUM_SHARES} of the files. The log says where it is.",
    )
    def encode(context: dg.OpExecutionContext, home: HomeResource) -> None:
        from range_reader_pipeline.ingest import FileTask, ingest_file, open_cache

        paths = home.paths()
        with clear_failures():
            cache = open_cache(paths.reads_cache)
            catalogue = _catalogue(home)
            names = {entry.content: entry.name for entry in reversed(catalogue.readable) if share_of(entry.content) == index}
            missing = [content for content in sorted(names) if cache.counts(content) is None]
            context.log.info(f"{counted(len(names), 'file')} in this share, {len(missing)} of them to encode")
            said_s = -SAY_EVERY_S
            for place, content in enumerate(missing, 1):
                path = catalogue.folder / names[content]
                if time.monotonic() - said_s >= SAY_EVERY_S:
                    context.log.info(f"encoding {place} of {len(missing)}: {names[content]}")
                    said_s = time.monotonic()
                outcome = ingest_file(FileTask(path=path, name=names[content], content=content, cache=cache))
                if outcome.counts is None:
                    context.log.warning(f"{names[content]} was left out: {outcome.problem}")

    return encode


def _catalogue(home: HomeResource) -> Catalogue:
    try:
        return read_catalogue(home.paths().ohh_files)
    except FileNotFoundError as error:
        message = "there is no catalogue of files yet: materialize ohh_files first"
        raise dg.Failure(message, allow_retries=False) from error


@dg.job(
    tags={STAGE_TAG: DATA},
    description=(
        "For executors that run steps on several machines: fill the cache of encoded files, a share of them in each step. "
        "Materialize ohh_files before it and encoded_shards after it; on one machine encoded_shards alone is faster."
    ),
)
def encode_in_shares() -> None:
    """Encode all shares, independently of each other."""
    for index in range(NUM_SHARES):
        _share(index)()
