"""Errors that a person can act on, as Dagster failures: what is wrong, where, and what to do, without a traceback to read."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from range_reader_pipeline.metadata import Cell, table
from range_reader_pipeline.object_store import StoreError
from range_reader_pipeline.storage import explain_os_error


@contextmanager
def clear_failures() -> Iterator[None]:
    """Turn what can go wrong with folders, stores, disks and hand histories into ``dg.Failure``; other errors are bugs and pass.

    Raises:
        dagster.Failure: with what to do; never retried, since it would fail again.
    """
    # Not at the top of the file: this module is part of the definitions, and pyarrow would slow every process start.
    from range_reader_pipeline.shard_build import NothingToReadError
    from range_reader_pipeline.workers import WorkerDiedError

    try:
        yield
    except NothingToReadError as error:
        reasons: list[dict[str, Cell]] = [
            {"code": code, "count": count} for code, count in sorted(error.reasons.items(), key=lambda item: -item[1])
        ]
        metadata = {"reasons": table(reasons)} if reasons else {}
        listed = ", ".join(f"{row['code']} {row['count']:,}" for row in reasons[:8])
        hint = f" Reasons: {listed}. docs/ingest.md explains the codes." if reasons else ""
        raise dg.Failure(f"{error}.{hint}", metadata=metadata, allow_retries=False) from error
    except StoreError as error:
        raise dg.Failure(str(error), allow_retries=False) from error
    except OSError as error:
        raise dg.Failure(explain_os_error(error), allow_retries=False) from error
    except WorkerDiedError as error:
        message = f"{error} (config: workers)"
        raise dg.Failure(message, allow_retries=False) from error
