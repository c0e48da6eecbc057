"""The one assembly point: assets, checks, jobs, sensor, schedule and resources of the code location.

Importing it reads no environment variable and touches no file, and neither torch, polars nor pyarrow is loaded: every process that
Dagster starts pays for what is imported here.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import dagster as dg

from range_reader_pipeline.assets.ablations import ablations
from range_reader_pipeline.assets.arena_hands import arena_hands
from range_reader_pipeline.assets.checkpoint import checkpoint
from range_reader_pipeline.assets.encoded_shards import encoded_shards
from range_reader_pipeline.assets.ohh_files import ohh_files
from range_reader_pipeline.assets.positional_encoding_ab import positional_encoding_ab
from range_reader_pipeline.assets.range_report import range_report
from range_reader_pipeline.assets.sharpening_report import sharpening_report
from range_reader_pipeline.assets.stratified_eval import stratified_eval
from range_reader_pipeline.checks import data_checks
from range_reader_pipeline.dead_runs import dead_runs
from range_reader_pipeline.housekeeping import housekeeping
from range_reader_pipeline.jobs import everything, refresh_dataset, train_and_evaluate
from range_reader_pipeline.resources import HomeResource, NothingStored
from range_reader_pipeline.schedules import nightly_training
from range_reader_pipeline.sensors import ohh_folder
from range_reader_pipeline.shares import encode_in_shares


def build_definitions(**overrides: Any) -> dg.Definitions:
    """Return the definitions, with arguments of ``dg.Definitions`` replaced: another home, loggers for a terminal."""
    arguments: dict[str, Any] = {
        "assets": [
            arena_hands,
            ohh_files,
            encoded_shards,
            checkpoint,
            stratified_eval,
            sharpening_report,
            range_report,
            positional_encoding_ab,
            ablations,
        ],
        "asset_checks": [data_checks],
        "jobs": [refresh_dataset, train_and_evaluate, everything, encode_in_shares],
        "sensors": [ohh_folder, dead_runs],
        "schedules": [nightly_training, housekeeping],
        "resources": {"home": HomeResource()},
        # Each run is a process of its own; a process for each step would cost 3 s and could outlive a killed run.
        "executor": dg.in_process_executor,
    }
    arguments |= overrides
    arguments["assets"] = _with_code_references(arguments["assets"])
    arguments["resources"] = {"io_manager": NothingStored(), **arguments["resources"]}
    return dg.Definitions(**arguments)


def _with_code_references(assets: Sequence[dg.AssetsDefinition]) -> Sequence[Any]:
    """Let the UI open the file of an asset in an editor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # said of the references at every load
        return dg.with_source_code_references(assets)


defs = build_definitions()
