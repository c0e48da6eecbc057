"""Claims about the command line: what it prints, and that a mistake costs one clear line."""

import errno
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from range_reader_core.cards import COMBO_HAS_CARD, parse_card
from range_reader_core.ranges import parse_range
from range_reader_pipeline import cli, headless
from range_reader_pipeline.cli import main
from range_reader_pipeline.ports import bound_socket
from tests.core.hands import random_hands, shown_cards_only, three_way_showdown
from tests.pipeline.ohh_writer import write_ohh
from tests.pipeline.trained import Chain


def _call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="range-reader")


def _assert_one_line(result: Result, exit_code: int, *expected: str) -> None:
    assert result.exit_code == exit_code, result.output
    (line,) = [line for line in result.output.splitlines() if line.startswith("Error: ")]
    for text in expected:
        assert text in line
    assert "Traceback" not in result.output


@pytest.fixture
def hand_file(tmp_path: Path) -> Path:
    """Return a file of two hands, the second of which went to a showdown."""
    return write_ohh(tmp_path / "hands.ohh", [*random_hands(3, 1), three_way_showdown()])


def _query(trained: Chain, hand_file: Path, *extra: object) -> Result:
    arguments = ("query", "--ohh", hand_file, "--hand-index", 1, "--villain", 2, "--perspective", 0, "--home", trained.paths.root)
    return _call(*arguments, "--device", "cpu", *extra)


def test_query_prints_the_final_read_and_where_the_truth_stands(trained: Chain, hand_file: Path) -> None:
    """Prevents a read without its yardstick."""
    result = _query(trained, hand_file, "--top", 3)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert sum("truth" in line for line in lines) == 1
    assert "rank" in result.output
    assert "<- villain" in result.output
    assert len([word for word in lines[-2].split() if word.endswith("%")]) == 3


def test_query_shows_every_street_on_request(trained: Chain, hand_file: Path) -> None:
    """Prevents `--show-steps` from hiding how the read sharpens."""
    output = _query(trained, hand_file, "--show-steps", "--single-forward").output
    assert [street for street in ("preflop", "flop", "turn", "river") if f"\n{street}, after " in output] == [
        "preflop",
        "flop",
        "turn",
        "river",
    ]
    assert output.count("truth") == 4


def test_query_without_a_perspective_reads_as_a_watcher(trained: Chain, hand_file: Path) -> None:
    """Prevents a watcher's question from being refused, or from being answered with somebody's cards in sight."""
    arguments = ("query", "--ohh", hand_file, "--hand-index", 1, "--villain", 2, "--home", trained.paths.root, "--device", "cpu")
    result = _call(*arguments)
    assert result.exit_code == 0, result.output
    assert "a watcher who sees nobody's cards" in result.output
    assert "<- perspective" not in result.output
    assert result.output != _query(trained, hand_file).output


def test_query_writes_the_hand_as_a_page(trained: Chain, hand_file: Path, tmp_path: Path) -> None:
    """Prevents a page without its hand, or one that needs anything beside it."""
    target = tmp_path / "out" / "hand.html"
    result = _query(trained, hand_file, "--html", target)
    assert result.exit_code == 0, result.output
    page = target.read_text()
    assert f"wrote {target}" in result.output
    assert '"truth":"TdTc"' in page
    assert "Static range" in page
    assert "seat 2 bets 10 bb" in page
    assert "https://" not in page


def test_query_says_that_it_made_the_pages_folder(trained: Chain, hand_file: Path, tmp_path: Path) -> None:
    """Prevents a mistyped path from becoming a tree of folders that nobody knows of."""
    target = tmp_path / "tpyo" / "deep" / "hand.html"
    assert f"into the folder {target.parent}, which was not there before" in _query(trained, hand_file, "--html", target).output
    again = _query(trained, hand_file, "--html", target.with_name("again.html"))
    assert "wrote" in again.output
    assert "not there before" not in again.output


def test_a_page_that_cannot_be_written_is_told_instead_of_an_answer(trained: Chain, hand_file: Path) -> None:
    """Prevents an error under a page of answer, about a file that nobody named."""
    target = hand_file / "below" / "hand.html"
    result = _query(trained, hand_file, "--html", target)
    _assert_one_line(result, 1, f"--html: {target} cannot be written")
    assert ".tmp" not in result.output
    assert "truth" not in result.output


def test_a_cut_off_file_is_named(tmp_path: Path, hand_file: Path) -> None:
    """Prevents "the compressed stream breaks off" of nobody knows what."""
    path = tmp_path / "cut.ohh.gz"
    path.write_bytes(gzip.compress(hand_file.read_bytes())[:-20])
    _assert_one_line(_call("query", "--ohh", path, "--hand-index", 5, "--villain", 1), 1, f"{path}: ", "breaks off or is damaged")


def test_serve_on_a_taken_port_says_so_before_it_says_that_it_answers() -> None:
    """Prevents "answering on" of a service that does not."""
    with bound_socket("127.0.0.1", 0, knob="") as other:
        other.listen()
        port = other.getsockname()[1]
        result = _call("serve", "--port", port)
    _assert_one_line(result, 1, f"port {port} is taken; --port N takes another")
    assert "answering" not in result.output


@pytest.mark.parametrize("notation", ["combos", "classes"])
def test_query_exports_range_text_that_solvers_read(trained: Chain, hand_file: Path, notation: str) -> None:
    """Prevents a range that has to be typed off a grid."""
    output = _query(trained, hand_file, "--range-text", notation).output
    (line,) = (line for line in output.splitlines() if line.startswith("  range "))
    weights = parse_range(line.removeprefix("  range "))
    assert weights.max() == 1.0
    dead = [parse_card(name) for name in ("Ah", "Ad", "2c", "7d", "Ts", "Kh", "3s")]
    is_dead = COMBO_HAS_CARD[:, dead].any(axis=1)
    assert (weights[~is_dead] > 0).mean() > 0.9
    if notation == "combos":
        assert not weights[is_dead].any()


def test_query_of_unknown_cards_says_so_instead_of_a_rank(trained: Chain, tmp_path: Path) -> None:
    """Prevents an invented truth where the villain never showed."""
    hand = shown_cards_only()
    unknown = [seat for seat, hole in enumerate(hand.hole_cards) if hole is None]
    assert unknown == [1]
    path = write_ohh(tmp_path / "hands.ohh", [hand])
    arguments = ("query", "--ohh", path, "--hand-index", 0, "--villain", 1, "--perspective", 0, "--home", trained.paths.root)
    result = _call(*arguments, "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert "cards are unknown" in result.output
    assert "truth " not in result.output


@pytest.mark.parametrize(
    ("extra", "exit_code", "message"),
    [
        (["--hand-index", 7], 1, "holds 2 readable hands"),
        (["--villain", 9], 2, "has seats 0..2, got 9"),
        (["--villain", 0], 1, "seat"),
        (["--checkpoint", "nowhere"], 1, "no checkpoint at nowhere"),
        (["--checkpoint", __file__], 1, "point at a checkpoint's folder"),
        (["--ohh", "nowhere.ohh"], 2, "nowhere.ohh"),
    ],
)
def test_a_wrong_query_costs_one_line(trained: Chain, hand_file: Path, extra: list[object], exit_code: int, message: str) -> None:
    """Prevents a traceback for a typo."""
    _assert_one_line(_query(trained, hand_file, *extra), exit_code, message)


def test_a_checkpoint_of_another_vocabulary_is_refused(trained: Chain, hand_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents confident nonsense: the ids would mean something else."""
    monkeypatch.setattr("range_reader_core.checkpoint.VOCABULARY_HASH", "0123456789abcdef")
    _assert_one_line(_query(trained, hand_file), 1, "trained with vocabulary", "train again")


def test_cuda_asked_for_and_absent_is_said(trained: Chain, hand_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents a silent fall back to the CPU."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    _assert_one_line(_query(trained, hand_file, "--device", "cuda"), 1, "no CUDA device", "use 'auto' or 'cpu'")


def test_ingest_counts_hands_and_tells_refusals_by_line(tmp_path: Path, hand_file: Path) -> None:
    """Prevents people from having to store a file to learn that half of it is refused."""
    with hand_file.open("a") as stream:
        stream.write('{"ots": {}}\n{"torn": \n')
    result = _call("ingest", hand_file)
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"{hand_file}: 2 hands, 2 refused")
    assert "REC_NOT_OHH" in result.output
    assert "line 5" in result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hands.ohh"]


def test_ingest_fails_where_no_hand_can_be_read(tmp_path: Path, hand_file: Path) -> None:
    """Prevents a script from going on with a file of another kind."""
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"not": "a hand"}))
    result = _call("ingest", hand_file, other)
    assert result.exit_code == 1
    assert f"{hand_file}: 2 hands" in result.output
    assert f"{other}: 0 hands" in result.output


def test_ingest_counts_records_of_which_it_keeps_few(tmp_path: Path) -> None:
    """Prevents memory that grows with what is refused, and a verdict on the file that is counted as a record."""
    (tmp_path / "other.json").write_text('{"ots": {}}\n' * 1234)
    result = _call("ingest", tmp_path / "other.json")
    assert result.exit_code == 1
    assert result.output.startswith(f"{tmp_path / 'other.json'}: 0 hands, 1,234 refused")
    assert result.output.count("line ") == 20
    assert result.output.endswith("  and 1,215 more\n")


def test_ingest_says_of_an_empty_file_that_it_is_empty(tmp_path: Path) -> None:
    """Nothing read and nothing refused is no answer."""
    (tmp_path / "empty.json").write_text("[]\n")
    result = _call("ingest", tmp_path / "empty.json")
    assert result.exit_code == 1
    assert "nothing in it: 3 bytes without a single record" in result.output


@pytest.mark.parametrize("command", [[], ["run"], ["query"], ["ingest"]])
def test_help_teaches_by_example(command: list[str]) -> None:
    """Prevents help that lists options and leaves people to guess how they go together."""
    result = _call(*command, "--help")
    assert result.exit_code == 0
    assert "range-reader run --ohh" in result.output or f"range-reader {' '.join(command)}" in result.output


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that holds a Dagster instance of its own."""
    folder = tmp_path / "dagster"
    folder.mkdir()
    source = Path(__file__).parent.parent.parent / "dagster.yaml"
    (folder / "dagster.yaml").write_text(source.read_text())
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    return folder


def _run(home: Path, ohh: Path, *extra: object) -> Result:
    return _call("run", "--home", home, "--ohh", ohh, "--preset", "tiny", "--device", "cpu", *extra)


@pytest.mark.usefixtures("instance")
def test_run_without_hands_says_where_to_put_them(tmp_path: Path) -> None:
    """Prevents the first command of a newcomer from ending in a stack trace."""
    (tmp_path / "empty").mkdir()
    _assert_one_line(_run(tmp_path / "home", tmp_path / "empty"), 1, "no hand histories found in", "OHH=<folder>")
    _assert_one_line(_run(tmp_path / "home", tmp_path / "absent"), 1, "there is no folder", "OHH=<folder>")


@pytest.mark.usefixtures("instance")
def test_run_with_nothing_but_refusals_shows_the_reasons(tmp_path: Path) -> None:
    """Prevents "no data" where the data is there and of the wrong kind."""
    (tmp_path / "ohh").mkdir()
    (tmp_path / "ohh" / "a.json").write_text(json.dumps({"not": "a hand"}))
    _assert_one_line(_run(tmp_path / "home", tmp_path / "ohh"), 1, "REC_NOT_OHH")


def test_run_refuses_a_home_that_is_a_file(tmp_path: Path) -> None:
    """Prevents "Not a directory" about a path nobody typed, after the first steps have run."""
    (tmp_path / "home").write_text("a note")
    result = _run(tmp_path / "home", tmp_path)
    _assert_one_line(result, 1, "home is no folder", "HOME_DIR")
    assert "arena_hands" not in result.output


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "x"), "the disk is full"),
        (PermissionError(errno.EACCES, "Permission denied", "x"), "permission denied"),
        (ValueError("no preset 'huge'"), "no preset 'huge'"),
        (FloatingPointError("loss is not finite at step 7"), "not finite at step 7"),
    ],
)
def test_run_tells_what_can_be_mended_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    """Prevents fifty lines of Dagster's internals for a full disk."""

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(headless, "run_everything", fail)
    _assert_one_line(_run(tmp_path / "home", tmp_path), 1, message)


@pytest.mark.parametrize("hands", ["0", "-3", "many"])
def test_a_number_of_hands_that_is_none_names_both_knobs(hands: str) -> None:
    """Prevents `make run HANDS=0` from being told of an option that nobody typed."""
    result = _call("run", "--arena-hands", hands)
    assert result.exit_code == 2
    assert f"HANDS (--arena-hands): expected a whole number of hands from 1 on, got '{hands}'" in result.output.replace("\n", " ")
    assert "Invalid value" not in result.output


def test_a_bug_keeps_its_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents our own mistakes from being passed off as the user's."""

    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(headless, "run_everything", fail)
    assert isinstance(_run(tmp_path / "home", tmp_path).exception, ZeroDivisionError)


def test_ctrl_c_ends_with_its_own_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents a script from mistaking a stopped training for a failed one."""

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(headless, "run_everything", stop)
    result = _run(tmp_path / "home", tmp_path)
    assert result.exit_code == cli.INTERRUPTED
    assert "goes on where it was saved" in result.output
