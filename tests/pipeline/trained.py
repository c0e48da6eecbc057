"""A home that went through the whole chain once, for tests to look at or to copy."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from range_reader_pipeline.definitions import build_definitions
from range_reader_pipeline.paths import HomePaths, home_paths
from range_reader_pipeline.resources import HomeResource
from tests.core.hands import random_hands
from tests.pipeline.encoded import home_with

NUM_HANDS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A home, the instance that recorded what was done to it, and the latest run."""

    paths: HomePaths
    instance: dg.DagsterInstance
    result: dg.ExecuteInProcessResult

    def metadata(self, asset: str) -> dict[str, Any]:
        """Return what an asset reported in the run, as plain values."""
        (materialization,) = self.result.asset_materializations_for_node(asset)
        return {name: entry.value for name, entry in materialization.metadata.items()}

    def again(self, job: str = "everything", **config: Any) -> "Chain":
        """Run a job on the same home and instance. Training stays tiny unless ``config`` says otherwise."""
        return run_job(self.paths, self.instance, job, **config)

    def copy(self, folder: Path) -> "Chain":
        """Return the same in a home of its own, for a test that changes it."""
        shutil.copytree(self.paths.root, folder / "home", symlinks=True)
        paths = home_paths(home=str(folder / "home"), ohh=str(self.paths.ohh), environment={})
        return Chain(paths=paths, instance=self.instance, result=self.result)


def run_job(paths: HomePaths, instance: dg.DagsterInstance, job: str, *, raise_on_error: bool = True, **training: Any) -> Chain:
    """Run a job in this process; ``training`` is the checkpoint's configuration, tiny by default."""
    definitions = build_definitions(resources={"home": HomeResource(home=str(paths.root), ohh=str(paths.ohh))})
    checkpoint = {"checkpoint": {"config": {"preset": "tiny", "device": "cpu", **training}}}
    result = definitions.resolve_job_def(job).execute_in_process(
        run_config={
            "ops": {} if job == "refresh_dataset" else checkpoint,
            "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
        },
        instance=instance,
        raise_on_error=raise_on_error,
    )
    return Chain(paths=paths, instance=instance, result=result)


def trained_home(folder: Path) -> Chain:
    """Return a new home of ``NUM_HANDS`` random hands in two files after one run of everything."""
    hands = random_hands(1, NUM_HANDS, num_players=4)
    paths = home_with(folder, {"a.ohh": hands[: NUM_HANDS // 2], "b.ohh": hands[NUM_HANDS // 2 :]})
    return run_job(paths, dg.DagsterInstance.ephemeral(), "everything")
