"""The nightly training: off until somebody switches it on, and then only on nights on which the data has changed."""

import dagster as dg

from range_reader_pipeline.jobs import train_and_evaluate
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.run_store import RunStore
from range_reader_pipeline.storage import read_json


@dg.schedule(
    name="nightly_training",
    job=train_and_evaluate,
    cron_schedule="0 3 * * *",
    default_status=dg.DefaultScheduleStatus.STOPPED,
    description=(
        "Every night at three (UTC), if the shards are not those the kept checkpoint was trained on: trains, keeps and grades. "
        "Otherwise the tick says why nothing is done."
    ),
)
def nightly_training(context: dg.ScheduleEvaluationContext, home: HomeResource) -> dg.RunRequest | dg.SkipReason:
    """Ask for a training on new shards."""
    paths = home.paths()
    manifest = read_json(paths.data_manifest)  # the tick runs in the code server, which must not load pyarrow or torch for it
    if manifest is None:
        return dg.SkipReason(f"no shards in {paths.data} yet: materialize encoded_shards first")
    trained_on = RunStore(paths).kept_data_version()
    if trained_on == manifest["version"]:
        return dg.SkipReason(f"the kept checkpoint was trained on data version {trained_on}, which is the newest")
    night = context.scheduled_execution_time.date().isoformat()
    return dg.RunRequest(run_key=f"{night}:{manifest['version']}", tags={"range_reader/data_version": str(manifest["version"])})
