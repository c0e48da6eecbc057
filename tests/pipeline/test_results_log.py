"""Claims about results.tsv."""

import dataclasses
import multiprocessing
from pathlib import Path

import pytest

from range_reader_pipeline.results_log import ResultRow, RunStatus, append_result, read_results

ROW = ResultRow(
    time="2026-01-02T03:04:05+00:00",
    run_id="0123abcd",
    git_commit="e34be5f",
    data_version="77aa",
    preset="tiny",
    minutes=1.5,
    split="val",
    mrr=0.0174,
    loss_nats=6.549,
    mean_rank=324.6,
    nats_below_static_range=0.21,
    status=RunStatus.KEEP,
    note="first run",
)


def test_a_row_reads_back_as_it_was_written(tmp_path: Path) -> None:
    """Prevents columns that shift between writing and reading."""
    path = tmp_path / "home" / "results.tsv"
    crashed = dataclasses.replace(
        ROW, mrr=None, loss_nats=None, mean_rank=None, nats_below_static_range=None, status=RunStatus.CRASH
    )
    append_result(path, ROW)
    append_result(path, crashed)
    assert read_results(path) == [ROW, crashed]


def test_there_is_one_header_and_mrr_is_a_column_of_it(tmp_path: Path) -> None:
    """Prevents a header repeated by every process that appends."""
    path = tmp_path / "results.tsv"
    for _ in range(3):
        append_result(path, ROW)
    lines = path.read_text().splitlines()
    assert len(lines) == 4
    assert "mrr" in lines[0].split("\t")
    assert lines[1] == lines[2] == lines[3]


def test_a_note_cannot_break_the_table(tmp_path: Path) -> None:
    """Prevents an exception text with tabs and newlines from becoming extra rows or columns."""
    path = tmp_path / "results.tsv"
    append_result(path, dataclasses.replace(ROW, note='two\nlines\tand "quotes"'))
    assert [row.note for row in read_results(path)] == ['two lines and "quotes"']


def test_a_line_torn_by_a_crash_costs_only_itself(tmp_path: Path) -> None:
    """Prevents the next row from being glued to half a row that a power cut left."""
    path = tmp_path / "results.tsv"
    append_result(path, ROW)
    with path.open("a") as stream:
        stream.write("2026-01-02T03:0")
    append_result(path, ROW)
    assert read_results(path) == [ROW, ROW]


def test_bytes_that_are_no_text_stop_nothing(tmp_path: Path) -> None:
    """Prevents a training from failing at its end because somebody's editor saved a note in another encoding."""
    path = tmp_path / "results.tsv"
    append_result(path, dataclasses.replace(ROW, note="caf\u00e9"))
    path.write_bytes(path.read_bytes().replace("\u00e9".encode(), b"\xe9"))
    append_result(path, ROW)
    assert read_results(path) == [dataclasses.replace(ROW, note="caf\ufffd"), ROW]


def test_a_cell_that_cannot_be_read_is_named_by_file_and_line(tmp_path: Path) -> None:
    """Prevents "could not convert string to float" without a word of where."""
    path = tmp_path / "results.tsv"
    append_result(path, ROW)
    append_result(path, ROW)
    path.write_bytes(path.read_bytes().replace(b"0.0174", b"\xff\xfe", 2).replace(b"\xff\xfe", b"0.0174", 1))
    with pytest.raises(ValueError, match=r"results\.tsv, line 3: .*mend the line"):
        read_results(path)


def test_a_foreign_file_is_refused_by_name(tmp_path: Path) -> None:
    """Prevents rows of another schema from being read under the wrong columns."""
    path = tmp_path / "results.tsv"
    path.write_text("step\tloss\n1\t7.0\n")
    with pytest.raises(ValueError, match="expected the columns time"):
        read_results(path)


def _append_many(path: Path) -> None:
    for _ in range(20):
        append_result(path, ROW)


def test_two_processes_append_without_losing_a_row(tmp_path: Path) -> None:
    """Prevents interleaved lines when the nightly run and a person finish together."""
    path = tmp_path / "results.tsv"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_append_many, args=(path,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert read_results(path) == [ROW] * 40
