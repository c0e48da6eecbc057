"""The home as a Dagster resource, so that tests and other homes are one argument away, and what keeps launches inside it.

Whoever reaches the UI can put resource configuration into the launchpad. Where things are written is decided by who starts the
server, so a launch that names another home is refused, and nothing is stored through Dagster's own IO managers.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Self

import dagster as dg
from pydantic import Field

from range_reader_pipeline.liveness import shown_alive
from range_reader_pipeline.paths import HomePaths, home_paths


class HomeResource(dg.ConfigurableResource[HomePaths]):
    """Where everything is kept, and where hand histories are looked for."""

    home: str = Field(
        default="", description="Folder for everything the pipeline writes; empty: $RANGE_READER_HOME, else ./range_reader_home."
    )
    ohh: str = Field(
        default="", description="Folder of hand histories, or its URL; empty: $RANGE_READER_OHH, else ohh/ in the home."
    )

    def paths(self, ohh: str = "") -> HomePaths:
        """Return the paths of the home, as the environment has them now; ``ohh`` is a folder of hand histories that wins."""
        return home_paths(home=self.home, ohh=ohh or self.ohh)

    @contextmanager
    def yield_for_execution(  # type: ignore[override]  # what a run gets is the resource, and not the paths
        self, context: dg.InitResourceContext
    ) -> Iterator[Self]:
        """Show for as long as a run uses the home that its process is alive.

        Raises:
            dagster.Failure: the launch configures resources.
        """
        if context.run is None:
            yield self
        else:
            _refuse_other_homes(context.run)
            with shown_alive(self.paths(), context.run.run_id):
                yield self


class NothingStored(dg.IOManager):
    """Stores nothing: assets write their files themselves. Dagster's default would pickle, to any folder named in the launchpad."""

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        """Refuse everything but None.

        Raises:
            TypeError: an asset returned a value.
        """
        if obj is not None:
            msg = f"{context.step_key} returned {type(obj).__name__}; assets write files and return MaterializeResult"
            raise TypeError(msg)

    def load_input(self, context: dg.InputContext) -> None:
        """Return nothing, as nothing is stored."""


def _refuse_other_homes(run: dg.DagsterRun) -> None:
    resources = run.run_config.get("resources", {}) if isinstance(run.run_config, Mapping) else {}
    entries = resources if isinstance(resources, Mapping) else {}
    named = [str(name) for name, entry in entries.items() if isinstance(entry, Mapping) and entry.get("config")]
    if named:
        message = (
            f"resources cannot be configured at launch ({', '.join(sorted(named))}): RANGE_READER_HOME and RANGE_READER_OHH are "
            "set where the server is started. Remove them from the launchpad; another folder to read is ohh_files: config: folder"
        )
        raise dg.Failure(message, allow_retries=False)
