"""The home as a Dagster resource, so that tests and other homes are one argument away."""

import dagster as dg
from pydantic import Field

from range_reader_pipeline.paths import HomePaths, home_paths


class HomeResource(dg.ConfigurableResource[HomePaths]):
    """Where everything is kept, and where hand histories are looked for."""

    home: str = Field(
        default="", description="Folder for everything the pipeline writes; empty: $RANGE_READER_HOME, else ./range_reader_home."
    )
    ohh: str = Field(default="", description="Folder of hand histories; empty: $RANGE_READER_OHH, else ohh/ in the home.")

    def paths(self, ohh: str = "") -> HomePaths:
        """Return the paths of the home, as the environment has them now; ``ohh`` is a folder of hand histories that wins."""
        return home_paths(home=self.home, ohh=ohh or self.ohh)
