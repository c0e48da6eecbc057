"""The same code location with every step in a process of its own: both reports are graded at the same time."""

import dagster as dg

from range_reader_pipeline.definitions import build_definitions

defs = build_definitions(
    sensors=[],  # one location watches the folder
    schedules=[],
    executor=dg.multiprocess_executor.configured({"max_concurrent": 2}),
)
