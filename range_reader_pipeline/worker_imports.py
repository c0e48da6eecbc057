"""What worker processes need, imported once, by the process that they are forked from (``workers``)."""

import gc
from importlib import import_module

for _name in (
    "concurrent.futures.process",
    "multiprocessing.queues",
    "multiprocessing.synchronize",
    # Arrow looks for masked arrays in all that it is given, and NumPy imports what knows them when it is asked (14 ms; 2026-12).
    "numpy.ma",
    "range_reader_pipeline.ingest",
    "range_reader_pipeline.shuffle",
    "range_reader_pipeline.workers",
):
    import_module(_name)

gc.freeze()  # or the first collection of each worker would write to all that is shared
