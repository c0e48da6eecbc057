"""Check results in the log of their run: whatever does not pass says so on the terminal too, where no UI shows it.

A check without a line in the log is one that nobody without the UI ever hears of.
"""

import logging
from collections.abc import Iterable

import dagster as dg


def told(log: logging.Logger, results: Iterable[dg.AssetCheckResult]) -> list[dg.AssetCheckResult]:
    """Return the results, each that does not pass logged by its sentence: as an error if its severity is one, else as a warning."""
    found = list(results)
    for result in found:
        if not result.passed:
            level = logging.ERROR if result.severity is dg.AssetCheckSeverity.ERROR else logging.WARNING
            log.log(level, f"{result.check_name} does not pass: {result.description}")
    return found
