"""Claims about what is kept of a report, and about the two report assets."""

import shutil
from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq
import pytest

from range_reader_pipeline import grading, reports
from range_reader_pipeline.config import SharpeningConfig
from range_reader_pipeline.grading import subject
from range_reader_pipeline.reports import Part, Report
from range_reader_pipeline.run_store import RunStore
from tests.pipeline.trained import Chain

MADE_FROM = {"run": "aa", "weights": "bb"}
RECORDS = [{"reader": "model", "mrr": 0.02, "mrr_low": None}, {"reader": "static range", "mrr": 0.01, "mrr_low": 0.009}]


REPORT = Report(
    parts=(
        Part(name="some", text="a table", records=RECORDS, png=b"png"),
        Part(name="more", text="another", records=RECORDS[:1]),
    ),
    numbers={"mrr": 0.02},
    tables={"scores": RECORDS},
)


def test_a_report_is_text_parquet_and_picture_that_know_what_they_are_about(tmp_path: Path) -> None:
    """Prevents a table in a drawer of which nobody knows the checkpoint."""
    saved = reports.write_report(tmp_path, REPORT, version="v", made_from=MADE_FROM)
    files = reports.report_files(tmp_path, "some")
    assert files.text.read_text() == "a table\n\nrun: aa\nweights: bb\n"
    assert files.picture.read_bytes() == b"png"
    rows = pq.read_table(files.parquet)
    assert rows.to_pylist() == RECORDS
    assert rows.schema.metadata[b"weights"] == b"bb"
    assert reports.report_files(tmp_path, "more").text.read_text().startswith("another\n")
    assert saved.texts == {"some": "a table", "more": "another"}
    assert saved.main == files


def test_an_unchanged_report_is_found_and_a_changed_one_is_not(tmp_path: Path) -> None:
    """Prevents grading for half an hour to find out what lies on disk, and showing what somebody edited."""
    saved = reports.write_report(tmp_path, REPORT, version="v", made_from=MADE_FROM)
    assert reports.find_report(tmp_path, "some", "v") == saved
    assert reports.find_report(tmp_path, "some", "w") is None
    assert reports.find_report(tmp_path, "other", "v") is None
    for file_name in saved.files:
        path = tmp_path / file_name
        content = path.read_bytes()
        path.write_bytes(content + b" ")
        assert reports.find_report(tmp_path, "some", "v") is None, file_name
        path.unlink()
        assert reports.find_report(tmp_path, "some", "v") is None, file_name
        path.write_bytes(content)
    assert reports.find_report(tmp_path, "some", "v") == saved
    reports.report_files(tmp_path, "some").record.write_text("{")
    assert reports.find_report(tmp_path, "some", "v") is None


def test_a_notice_takes_the_place_of_an_older_report(tmp_path: Path) -> None:
    """Prevents yesterday's picture beside today's "nothing to report"."""
    reports.write_report(tmp_path, Report(parts=REPORT.parts[:1], numbers={}), version="v", made_from=MADE_FROM)
    files = reports.write_notice(tmp_path, "some", text="nothing", made_from=MADE_FROM)
    assert files.text.read_text().startswith("nothing\n")
    assert [path.name for path in tmp_path.iterdir()] == ["some.txt"]


def test_a_version_changes_with_what_the_report_is_made_from() -> None:
    """Prevents a report that looks fresh although checkpoint, data or code changed."""
    base = reports.report_version("1", MADE_FROM)
    assert base == reports.report_version("1", dict(MADE_FROM))
    assert len({base, reports.report_version("2", MADE_FROM), reports.report_version("1", {**MADE_FROM, "weights": "cc"})}) == 3


def test_grading_reads_the_kept_checkpoint_and_refuses_a_swapped_one(own_copy: Chain) -> None:
    """Prevents a report on the newest file instead of the recorded one."""
    config = SharpeningConfig(device="cpu")
    weights = own_copy.paths.checkpoint.resolve() / "best.safetensors"
    newest = own_copy.paths.runs / "newer"
    newest.mkdir()
    shutil.copy(weights, newest / weights.name)
    kept = RunStore(own_copy.paths).kept()
    assert kept is not None
    assert subject(own_copy.paths, config, num_relabelings=1).run == kept
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    with pytest.raises(ValueError, match="was replaced or damaged"):
        subject(own_copy.paths, config, num_relabelings=1)


def test_without_a_checkpoint_it_says_what_to_do(own_copy: Chain) -> None:
    """Prevents a stack trace for somebody who pressed the last button first."""
    own_copy.paths.checkpoint.unlink()
    with pytest.raises(ValueError, match="materialize checkpoint first"):
        subject(own_copy.paths, SharpeningConfig(device="cpu"), num_relabelings=1)


def test_a_subject_takes_the_split_and_number_of_reads_asked_for(trained: Chain) -> None:
    """Prevents a config field of the launchpad that nobody reads."""
    everything = subject(trained.paths, SharpeningConfig(device="cpu"), num_relabelings=24)
    few = subject(trained.paths, SharpeningConfig(device="cpu", split="val", max_reads=5), num_relabelings=1)
    assert few.reads.num_reads == 5 < everything.reads.num_reads
    assert not set(few.reads.hand_ids) & set(everything.reads.hand_ids)
    assert (few.note, everything.note) == ("val split, single forward", "test split, suit-averaged over 24 relabelings")
    assert few.made_from != everything.made_from
    with pytest.raises(ValueError, match="num_relabelings"):
        subject(trained.paths, SharpeningConfig(device="cpu"), num_relabelings=5)


def test_too_few_hands_are_a_notice_and_no_failure(own_copy: Chain) -> None:
    """Prevents a newcomer with a hundred hands from seeing only a red box."""
    result = own_copy.again("train_and_evaluate", raise_on_error=False)
    assert result.result.success
    definitions_config = {
        "ops": {name: {"config": {"max_reads": 1, "device": "cpu"}} for name in ("stratified_eval", "sharpening_report")}
    }
    few = _grade(own_copy, definitions_config)
    assert few.success
    (graded,) = few.asset_materializations_for_node("stratified_eval")
    assert "calibration_error" in graded.metadata
    assert "calibration_error_by_chance" not in graded.metadata  # one hand says nothing about chance, least of all zero
    text = (own_copy.paths.reports / "sharpening_report.txt").read_text()
    assert text.startswith(("nothing to report", "showdown villains: 1 read of 1 hand "))


def _grade(chain: Chain, run_config: dict[str, object]) -> dg.ExecuteInProcessResult:
    from range_reader_pipeline.definitions import build_definitions
    from range_reader_pipeline.resources import HomeResource

    definitions = build_definitions(resources={"home": HomeResource(home=str(chain.paths.root), ohh=str(chain.paths.ohh))})
    return definitions.resolve_job_def("train_and_evaluate").execute_in_process(
        run_config=run_config,
        instance=chain.instance,
        asset_selection=[dg.AssetKey("stratified_eval"), dg.AssetKey("sharpening_report")],
    )


def test_an_unrecorded_checkpoint_is_warned_about(own_copy: Chain) -> None:
    """Prevents a graph that shows one checkpoint and reports about another without a word."""
    kept = RunStore(own_copy.paths).kept()
    assert kept is not None
    messages: list[str] = []

    class Context:
        instance = own_copy.instance

        class log:  # noqa: N801 - stands for context.log
            warning = messages.append

    grading.warn_if_unrecorded(Context, kept)  # type: ignore[arg-type]  # the two attributes it uses
    assert not messages
    with dg.DagsterInstance.ephemeral() as other:
        Context.instance = other
        grading.warn_if_unrecorded(Context, kept)  # type: ignore[arg-type]  # as above
    assert "materialize checkpoint here" in messages[0]
