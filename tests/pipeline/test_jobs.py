"""Claims about the jobs."""

import pytest

from range_reader_pipeline.definitions import defs
from range_reader_pipeline.stages import STAGE_TAG
from tests.pipeline.trained import Chain

DATA = {"ohh_files", "encoded_shards"}
TRAINING = {"checkpoint", "stratified_eval", "sharpening_report", "range_report"}


@pytest.mark.parametrize(
    ("name", "assets"),
    [("refresh_dataset", DATA), ("train_and_evaluate", TRAINING), ("everything", DATA | TRAINING | {"arena_hands"})],
)
def test_a_job_materializes_what_its_name_says(name: str, assets: set[str]) -> None:
    """Prevents a nightly training that skips the reports, or a refresh that trains."""
    job = defs.resolve_job_def(name)
    assert {key.to_user_string() for key in job.asset_layer.executable_asset_keys} == assets
    assert job.description


def test_each_job_has_a_run_tag_of_its_own() -> None:
    """Prevents two runs of one job from overlapping: the instance limits runs per value of this tag."""
    tags = [defs.resolve_job_def(name).run_tags[STAGE_TAG] for name in ("refresh_dataset", "train_and_evaluate", "everything")]
    assert len(set(tags)) == 3


def test_data_checks_run_with_the_jobs_that_make_data(trained: Chain) -> None:
    """Prevents training on shards whose blocking checks nobody ran."""
    evaluated = {check.check_name for check in trained.result.get_asset_check_evaluations()}
    assert {"splits_share_no_hand", "hands_counted_once"} <= evaluated
