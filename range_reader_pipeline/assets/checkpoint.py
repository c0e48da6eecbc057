"""The asset that trains a reader and keeps the better checkpoint."""

import time
from collections.abc import Iterator, Mapping
from typing import Final

import dagster as dg

from range_reader_core.wording import counted
from range_reader_pipeline import metadata, model_checks, plots
from range_reader_pipeline.assets.arena_hands import check_own_deal
from range_reader_pipeline.config import TrainingConfig
from range_reader_pipeline.failures import clear_failures
from range_reader_pipeline.process import prepare_process
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.run_store import WEIGHTS_NAME
from range_reader_pipeline.stages import GPU_POOL, GROUP, STAGE_TAG, TRAIN
from range_reader_pipeline.told_checks import told
from range_reader_pipeline.training_run import TRAINING_VERSION, TrainingOutcome, train_or_reuse

NAME: Final = "checkpoint"


@dg.asset(
    name=NAME,
    deps=["encoded_shards"],
    group_name=GROUP,
    kinds={"pytorch", "safetensors"},
    tags={STAGE_TAG: TRAIN},
    pool=GPU_POOL,
    check_specs=model_checks.SPECS,
    code_version=TRAINING_VERSION,
    description=(
        "The kept reader: a decoder that gives, at every moment of a hand, a probability to each of the 1326 hole-card combos a "
        "villain may hold. Trained on the train shards for a fixed time; of its weights those are kept that read the val hands "
        "best.\n\n"
        "A run that was stopped or killed goes on where it was saved when materialized again. The same configuration on the same "
        "shards is not trained twice (see `reused`). A finished run replaces the kept one only if its **val_mrr** is not lower, on "
        "new data only if it does not read the same hands worse; a run that fails its examination is kept aside. Every run "
        "leaves a row in results.tsv."
    ),
)
def checkpoint(
    context: dg.AssetExecutionContext, config: TrainingConfig, home: HomeResource
) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
    """Train, or find trained, and keep the better one."""

    def observe(values: Mapping[str, float]) -> None:
        context.log_event(dg.AssetObservation(asset_key=NAME, metadata=dict(values)))

    begin_s = time.monotonic()
    paths = home.paths()
    prepare_process(paths)
    with clear_failures():
        check_own_deal(context, paths)
        outcome = train_or_reuse(paths, config, owner=f"Dagster run {context.run.run_id}", log=context.log, observe=observe)
    run, kept = outcome.run, outcome.kept
    yield from told(context.log, model_checks.run_checks(run, outcome.found))
    if kept is None:
        raise dg.Failure(model_checks.nothing_to_keep(paths, run, outcome.found), allow_retries=False)
    compared = f"the first {counted(run.val_reads, 'val read')}, one forward each, as for every run"
    context.log.info(
        f"val mrr {run.val_mrr:.4f}, val loss {run.val_loss_nats:.3f} nats over {compared}: {outcome.status}; kept is {kept.run_id}"
    )
    weights = paths.runs / kept.run_id / WEIGHTS_NAME
    trained = {"reads_per_s": outcome.reads_per_s, "num_train_reads": outcome.num_train_reads}
    yield dg.MaterializeResult(
        data_version=dg.DataVersion(kept.weights_version),
        metadata={
            **_curve(outcome),
            **metadata.rounded(
                {
                    "val_mrr": run.val_mrr,
                    "val_loss_nats": run.val_loss_nats,
                    "val_mean_rank": run.val_mean_rank,
                    "temperature": run.temperature,
                    "nats_below_static_range": run.nats_below_static_range,
                    "mrr_above_static_range": run.mrr_above_static_range,
                    "kept_val_mrr": kept.val_mrr,
                    **({} if outcome.found.mrr_lead is None else {"mrr_lead_over_kept": outcome.found.mrr_lead}),
                }
            ),
            "status": outcome.status.value,
            "reused": outcome.is_reused,
            "was_resumed": outcome.was_resumed,
            "preset": run.preset,
            "init_from": run.init_run or "scratch",
            "num_steps": run.num_steps,
            "best_step": run.best_step,
            "training_s": round(run.seconds, 1),
            "seconds": round(time.monotonic() - begin_s, 1),
            "run": run.run_id,
            "kept_run": kept.run_id,
            "data_version": run.data_version,
            "num_val_reads": run.val_reads,
            "scored_on": f"{compared}; the curve and live/val_mrr are over the val reads that chose the checkpoint",
            "weights_bytes": weights.stat().st_size,
            "weights": dg.MetadataValue.path(weights),
            "results": dg.MetadataValue.path(paths.results),
            **metadata.rounded({name: value for name, value in trained.items() if value is not None}),
        },
    )


def _curve(outcome: TrainingOutcome) -> dict[str, dg.MarkdownMetadataValue]:
    """Draw the validations, if the log of the run still has them."""
    if not outcome.curve:
        return {}
    run = outcome.run
    png = plots.training_curve(
        outcome.curve,
        static_loss_nats=run.val_loss_nats + run.nats_below_static_range,
        static_mrr=run.val_mrr - run.mrr_above_static_range,
    )
    return {"curve": metadata.picture(png, "loss and val mrr over training time")}
