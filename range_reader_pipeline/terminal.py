"""What a headless run says on the terminal: the log lines of the assets, under the name of each, and little else.

It is a Dagster logger, so the terminal shows the same lines as the UI and no asset needs to know that it exists. Dagster's own
events are reduced to the beginning of each asset; errors are told by the command itself.
"""

import logging
import time
from typing import TYPE_CHECKING, Final

import dagster as dg

if TYPE_CHECKING:
    from rich.console import Console

ASSET_ORDER: Final = (
    "arena_hands",
    "ohh_files",
    "encoded_shards",
    "checkpoint",
    "stratified_eval",
    "sharpening_report",
    "range_report",
)


class TerminalHandler(logging.Handler):
    """Prints what the assets log, with the time since the run began."""

    def __init__(self, console: "Console") -> None:
        """Start the clock."""
        super().__init__(logging.DEBUG)  # Dagster's events are debug records
        self._console = console
        self._begin_s = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record of Dagster's, if a person would want it."""
        meta = getattr(record, "dagster_meta", None) or {}
        event: dg.DagsterEvent | None = meta.get("dagster_event")
        if event is None and record.levelno >= logging.INFO:
            self._line(str(meta.get("orig_message", record.getMessage())), is_warning=record.levelno >= logging.WARNING)
        elif event is not None and event.event_type is dg.DagsterEventType.STEP_START:
            self._headline(event.step_key or "")

    def _headline(self, step: str) -> None:
        number = f"{ASSET_ORDER.index(step) + 1}/{len(ASSET_ORDER)} " if step in ASSET_ORDER else ""
        self._console.print(f"[bold]{number}{step}[/bold]")

    def _line(self, text: str, *, is_warning: bool) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self._begin_s), 60)
        style = "yellow" if is_warning else None
        self._console.print(f"  {minutes:3d}:{seconds:02d}  {text}", style=style, markup=False, highlight=False, soft_wrap=True)


def terminal_logger(console: "Console") -> dg.LoggerDefinition:
    """Return the logger that prints to ``console``."""

    @dg.logger(config_schema=None, description="The lines of the assets on the terminal")
    def terminal(_: dg.InitLoggerContext) -> logging.Logger:
        logger = logging.Logger("range_reader.terminal", logging.DEBUG)  # not registered: nothing else may add handlers
        logger.addHandler(TerminalHandler(console))
        return logger

    return terminal
