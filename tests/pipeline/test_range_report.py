"""Claims about the asset that draws hands."""

from typing import Any
from urllib.parse import unquote

import dagster as dg
import pyarrow.parquet as pq
import pytest

from range_reader_core.baselines import LiveUniformReader, StaticRangeReader
from range_reader_core.evaluation import evaluate_points
from range_reader_core.metrics import LOSS
from range_reader_pipeline import grading
from range_reader_pipeline.config import RangeReportConfig
from range_reader_pipeline.definitions import build_definitions
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.run_store import RunStore
from range_reader_pipeline.shards import load_split
from range_reader_pipeline.telling_hands import find_reads, telling_reads
from tests.pipeline.trained import Chain


def test_the_pages_hold_telling_hands_and_those_read_worst(trained: Chain) -> None:
    """Prevents a list of worst hands whose links lead nowhere."""
    metadata = trained.metadata("range_report")
    folder = trained.paths.reports
    rows = pq.read_table(metadata["rows"]).to_pylist()
    assert len(rows) == metadata["num_reads"]
    worst = pq.read_table(folder / "worst_reads.parquet").to_pylist()
    shown = [row["page"] for row in rows]
    assert [row["page"] for row in worst] == [page for page in shown if page.startswith("range_report_worst.html#")]
    kinds = {row["title"].split(":")[0].split()[0] for row in rows}
    assert {"Best", "Worst"} <= kinds
    for page in {page.split("#")[0] for page in shown}:
        text = (folder / page).read_text()
        for row in rows:
            if row["page"].startswith(page + "#"):
                assert row["hand_id"] in unquote(row["page"])
                assert f'"id":"{row["hand_id"]}"' in text
    assert metadata["page"] == str(folder / "range_report.html")
    assert metadata["page_worst"] == str(folder / "range_report_worst.html")
    assert metadata["largest_page_kb"] < 400


def test_the_best_lead_and_the_typical_stand_beside_them(trained: Chain) -> None:
    """Prevents "most telling" from meaning anything that happens to look good."""
    reads = load_split(trained.paths.data, "test")
    static = StaticRangeReader.fit(load_split(trained.paths.data, "train"))
    chosen = telling_reads(reads, static, LiveUniformReader(), num=2, device="cpu")
    best = [one.read for one in chosen if one.kind == "Best"]
    typical = [one.read for one in chosen if one.kind == "Typical"]
    assert len(best) == 2
    assert not set(best) & set(typical)
    ours, theirs = evaluate_points([static, LiveUniformReader()], reads)
    lead = dict(zip(ours.read_index.tolist(), (theirs.metrics - ours.metrics)[:, -1, LOSS].tolist(), strict=True))
    assert min(lead[read] for read in best) >= max(lead[read] for read in typical)
    assert len({int(reads.hand_index[read]) for read in best}) == 2


def test_a_hand_can_be_asked_for_and_one_that_is_not_there_is_said(own_copy: Chain) -> None:
    """Prevents a setting of the launchpad that nobody reads."""
    reads = load_split(own_copy.paths.data, "test")
    hand_id = reads.hand_ids[int(reads.hand_index[7])]
    found = find_reads(reads, hand_id)
    assert 7 in found
    again = run_range_report(own_copy, hands=[hand_id], num_hands=1)
    metadata = again.metadata("range_report")
    assert not metadata["reused"]
    titles = [row["title"] for row in pq.read_table(metadata["rows"]).to_pylist() if row["hand_id"] == hand_id]
    assert [title.split(":")[0] for title in titles].count("Asked for") == len(found)
    assert run_range_report(own_copy, hands=[hand_id], num_hands=1).metadata("range_report")["reused"]
    with pytest.raises(ValueError, match="hand 'nowhere' is not among the"):
        run_range_report(own_copy, hands=["nowhere"])
    with pytest.raises(ValueError, match="num_hands of at least 1, got 0"):
        run_range_report(own_copy, num_hands=0)


def test_an_unchanged_report_is_not_drawn_again(own_copy: Chain) -> None:
    """Prevents a minute of drawing for pages that lie on disk."""
    assert own_copy.again("train_and_evaluate").metadata("range_report")["reused"]


def test_the_kept_run_is_the_one_that_reads(own_copy: Chain) -> None:
    """Prevents pages of a checkpoint that is not the one graded."""
    kept = RunStore(own_copy.paths).kept()
    assert kept is not None
    subject = grading.subject(own_copy.paths, RangeReportConfig(device="cpu"), num_relabelings=24)
    assert subject.run == kept


def run_range_report(chain: Chain, **config: Any) -> Chain:
    """Draw with a configuration, nothing else being run."""
    definitions = build_definitions(resources={"home": HomeResource(home=str(chain.paths.root), ohh=str(chain.paths.ohh))})
    result = definitions.resolve_job_def("train_and_evaluate").execute_in_process(
        run_config={"ops": {"range_report": {"config": {"device": "cpu", **config}}}},
        instance=chain.instance,
        asset_selection=[dg.AssetKey("range_report")],
    )
    return Chain(paths=chain.paths, instance=chain.instance, result=result)
