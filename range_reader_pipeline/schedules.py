"""The nightly training: on nights on which the data has changed, where the retraining policy is nightly."""

import os

import dagster as dg

from range_reader_pipeline.jobs import train_and_evaluate
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.retraining import RETRAIN_VARIABLE, When, policy_of
from range_reader_pipeline.run_store import RunStore
from range_reader_pipeline.shards_on_record import shards_on_record


@dg.schedule(
    name="nightly_training",
    job=train_and_evaluate,
    cron_schedule="0 3 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description=(
        "Every night at three (UTC), where RANGE_READER_RETRAIN is nightly and the shards are not those of the newest training: "
        "trains, keeps and grades. Otherwise the tick says why nothing is done."
    ),
)
def nightly_training(context: dg.ScheduleEvaluationContext, home: HomeResource) -> dg.RunRequest | dg.SkipReason:
    """Ask for a training on new shards."""
    policy = policy_of(os.environ)
    if policy.when is not When.NIGHTLY:
        return dg.SkipReason(f"nothing is trained at night; start the server with {RETRAIN_VARIABLE}=nightly for that")
    paths = home.paths()
    try:
        shards = shards_on_record(paths)
    except ValueError as error:
        return dg.SkipReason(f"nothing is trained tonight: {error}")
    if shards is None:
        return dg.SkipReason(f"no shards in {paths.data} yet: materialize encoded_shards first")
    trained = RunStore(paths).last_trained()
    if trained is not None and trained.data_version == shards.version:
        return dg.SkipReason(f"the newest training was on data version {trained.data_version}, which is the newest")
    night = context.scheduled_execution_time.date().isoformat()
    return dg.RunRequest(run_key=f"{night}:{shards.version}", tags={"range_reader/data_version": shards.version})
