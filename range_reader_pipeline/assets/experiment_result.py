"""What the experiments have in common as assets: when they stay out of a run, and what they show."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import dagster as dg

from range_reader_pipeline.assets.report_result import report_result
from range_reader_pipeline.experiment_config import ExperimentConfig
from range_reader_pipeline.failures import clear_failures
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.process import prepare_process
from range_reader_pipeline.stages import EXPERIMENT, GPU_POOL, GROUP, STAGE_TAG

if TYPE_CHECKING:
    from range_reader_core.train_config import TrainConfig

COLUMNS = {
    "arms": {
        "arm": "what was trained",
        "verdict": "better, worse or not told apart, and what follows",
        "gain_nats": "nats gained over the static range",
        "mrr": "mean of 1 / rank of the true hand",
    }
}


def experiment_asset(
    *, name: str, code_version: str, description: str
) -> Callable[[Callable[..., Iterator[dg.MaterializeResult[None]]]], dg.AssetsDefinition]:
    """Return the decorator that makes an experiment an asset: behind the shards, one training at a time, free to be left out."""
    return dg.asset(
        name=name,
        deps=["encoded_shards"],
        group_name=GROUP,
        kinds={"pytorch"},
        tags={STAGE_TAG: EXPERIMENT},
        pool=GPU_POOL,
        code_version=code_version,
        output_required=False,
        description=description,
    )


def is_left_out(context: dg.AssetExecutionContext) -> bool:
    """Tell, and say, whether the run is one of the whole graph, in which nobody asked for hours of experiments."""
    selection = context.run.asset_selection or frozenset()
    if dg.AssetKey("checkpoint") not in selection:
        return False
    context.log.warning("left out of a run of the whole graph, because it takes hours: materialize it by itself")
    return True


def experiment_result(
    context: dg.AssetExecutionContext,
    paths: HomePaths,
    name: str,
    preset: str,
    arms: "Mapping[str, TrainConfig]",
    config: ExperimentConfig,
) -> dg.MaterializeResult[None]:
    """Run an experiment and return its materialization."""
    begin_s = time.monotonic()
    prepare_process(paths)
    from range_reader_pipeline.experiments import Experiment, run_experiment

    def observe(values: Mapping[str, float]) -> None:
        context.log_event(dg.AssetObservation(asset_key=name, metadata=dict(values)))

    with clear_failures():
        outcome = run_experiment(
            paths,
            Experiment(name=name, preset=preset, arms=arms),
            config,
            owner=f"Dagster run {context.run.run_id}",
            log=context.log,
            observe=observe,
        )
    for row in outcome.compared[1:]:
        context.log.info(f"{row.name}: {row.verdict} ({row.lead_nats} nats): {row.status}")
    return report_result(
        outcome.report,
        version=outcome.version,
        is_reused=outcome.num_trained == 0,
        seconds=time.monotonic() - begin_s,
        columns=COLUMNS,
        check_results=[],
    )
