"""The sensor that ends runs whose process is gone, so that nothing stays "started" after a power cut."""

import dagster as dg

from range_reader_pipeline.liveness import forget, is_dead
from range_reader_pipeline.resources import HomeResource

GONE = (
    "the process of this run is gone without having ended it: killed, out of memory, or a power cut. It is re-executed, and "
    "training goes on where it was saved"
)


@dg.sensor(
    name="dead_runs",
    job_name="refresh_dataset",  # Dagster wants one; none is ever launched
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Marks runs as failed whose process is gone, as after a power cut: their pool slot is freed and they are re-executed. It "
        "launches nothing itself, and does nothing where runs are launched in containers, which their launcher watches."
    ),
)
def dead_runs(context: dg.SensorEvaluationContext, home: HomeResource) -> dg.SkipReason:
    """End what is dead."""
    from dagster._core.launcher import DefaultRunLauncher

    instance = context.instance
    if not isinstance(instance.run_launcher, DefaultRunLauncher):
        return dg.SkipReason("runs are watched by their launcher")
    paths = home.paths()
    started = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]))
    dead = [run for run in started if is_dead(paths, run.run_id)]
    for run in dead:
        if run.status is dg.DagsterRunStatus.CANCELING:
            instance.report_run_canceled(run, "the process of this run is gone")
        else:
            instance.report_run_failed(run, GONE)
        forget(paths, run.run_id)
    return dg.SkipReason(f"running: {len(started)}, of them dead: {len(dead)}")
