"""Claims about the arena's asset: when it deals, what it deals, and that its hands carry the chain to an oracle's row."""

import io
import threading
from collections.abc import Sequence
from pathlib import Path

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from range_reader_core.encoder import HandEncoder
from range_reader_core.hand import CanonicalHand
from range_reader_core.ohh import parse_ohh
from range_reader_pipeline.arena_ceiling import oracles
from range_reader_pipeline.arena_config import ArenaConfig, chosen_styles, style_texts
from range_reader_pipeline.arena_folder import deal_files, dealing, own_files, planned, withdraw
from range_reader_pipeline.assets.arena_hands import arena_hands, check_own_deal
from range_reader_pipeline.assets.ohh_files import ohh_files
from range_reader_pipeline.config import FIRST_LOOK_MINUTES, first_look_minutes
from range_reader_pipeline.paths import HomePaths, home_paths
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.storage import read_json
from tests.core.hands import random_hands
from tests.pipeline.ohh_writer import write_ohh


def materialize(paths: HomePaths, assets: Sequence[dg.AssetsDefinition] = (arena_hands,), **config: object) -> dict[str, object]:
    """Return the metadata of arena_hands."""
    result = dg.materialize(
        assets,
        resources={"home": HomeResource(home=str(paths.root), ohh="" if paths.is_default_ohh else str(paths.ohh))},
        run_config={"ops": {"arena_hands": {"config": {"hands": 60, **config}}}},
    )
    (event,) = result.asset_materializations_for_node("arena_hands")
    return {name: value.value for name, value in event.metadata.items()}


def files_of(paths: HomePaths) -> dict[str, bytes]:
    """Return what was dealt."""
    return {path.name: path.read_bytes() for path in own_files(paths)}


def deal(paths: HomePaths, **config: object) -> dict[str, bytes]:
    """Deal with these settings, and return the files."""
    paths.create()
    deal_files(planned(ArenaConfig(**{"hands": 60, **config}), paths), paths, lambda _: None)
    return files_of(paths)


@pytest.fixture(scope="module")
def usual_hands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return what is dealt where nothing is set but the number of hands."""
    return deal(home_paths(home=str(tmp_path_factory.mktemp("usual")), environment={}))


@pytest.fixture
def paths(tmp_path: Path) -> HomePaths:
    """Return an empty home."""
    return home_paths(home=str(tmp_path / "home"), environment={})


def test_who_has_no_hands_gets_some(paths: HomePaths) -> None:
    """Prevents a newcomer's first run from ending at an empty folder; the next asset finds what was dealt."""
    told = materialize(paths, [arena_hands, ohh_files])
    assert (told["hands"], told["dealt"], told["reused"]) == (60, True, False)
    assert list(files_of(paths)) == ["arena_00000.ohh.zst"]
    assert "data:image/png;base64," in str(told["openings"])
    assert told["reach_flop"] > told["reach_river"] > 0


def test_the_same_settings_are_the_same_bytes_and_are_not_dealt_again(paths: HomePaths, tmp_path: Path) -> None:
    """Prevents a training that starts over because hands were dealt anew."""
    materialize(paths, seed=3)
    before = files_of(paths)
    assert materialize(paths, seed=3)["reused"]
    assert files_of(paths) == before
    elsewhere = home_paths(home=str(tmp_path / "other"), environment={})
    assert deal(elsewhere, seed=3) == before
    assert not materialize(paths, seed=4)["reused"]
    assert files_of(paths) != before


@pytest.mark.parametrize(
    "changed",
    [
        {"hands": 61},
        {"min_players": 3},
        {"max_players": 5},
        {"small_blind": 40},
        {"big_blind": 200},
        {"ante": 5},
        {"straddle_share": 0.5},
        {"min_stack_bb": 20.0},
        {"max_stack_bb": 90.0},
        {"styles": "rock, maniac:2"},
    ],
    ids=str,
)
def test_every_setting_changes_the_hands(usual_hands: dict[str, bytes], paths: HomePaths, changed: dict[str, object]) -> None:
    """A field nobody reads is a lie."""
    assert deal(paths, **changed) != usual_hands


def test_the_launchpad_sets_what_a_deal_is_given(paths: HomePaths, usual_hands: dict[str, bytes]) -> None:
    """Prevents a setting that reaches the deal from everywhere but the UI."""
    materialize(paths)
    assert files_of(paths) == usual_hands


def test_a_larger_deal_begins_with_the_same_files(paths: HomePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents encoding again what was encoded: files are known by their content. A smaller one leaves none behind."""
    monkeypatch.setattr("range_reader_pipeline.arena_folder.HANDS_PER_FILE", 20)
    paths.create()
    deal_files(planned(ArenaConfig(hands=40), paths), paths, lambda _: None)
    first = files_of(paths)
    deal_files(planned(ArenaConfig(hands=60), paths), paths, lambda _: None)
    larger = files_of(paths)
    assert list(larger) == [*first, "arena_00002.ohh.zst"]
    assert {name: larger[name] for name in first} == first
    deal_files(planned(ArenaConfig(hands=20), paths), paths, lambda _: None)
    assert list(files_of(paths)) == ["arena_00000.ohh.zst"]


def test_a_large_deal_says_where_it_is_every_few_seconds(paths: HomePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line a file would be twenty thousand lines, each an event in Dagster's records; none at all looks dead."""
    monkeypatch.setattr("range_reader_pipeline.arena_folder.HANDS_PER_FILE", 10)
    deal = planned(ArenaConfig(hands=60), paths)
    lines: list[str] = []
    deal_files(deal, paths, lines.append)
    assert lines == ["60 of 60 hands dealt"]
    monkeypatch.setattr("range_reader_pipeline.arena_folder.SAY_EVERY_S", 0.0)
    lines.clear()
    deal_files(deal, paths, lines.append)
    assert lines == [f"{number} of 60 hands dealt" for number in range(10, 61, 10)]


@pytest.mark.parametrize(("other", "told"), [({"hands": 70}, "dealt 70 other hands"), (None, "taken them away"), ({}, "")])
def test_a_run_does_not_learn_from_the_hands_of_another(paths: HomePaths, other: dict[str, object] | None, told: str) -> None:
    """Prevents two runs at once on one home from ending with one trained on hands that it never asked for."""

    @dg.asset(deps=["arena_hands"])
    def another_run() -> None:
        if other is None:
            withdraw(paths)
        else:
            deal(paths, **other)

    @dg.asset(deps=["another_run"])
    def trainer(context: dg.AssetExecutionContext, home: HomeResource) -> None:
        check_own_deal(context, home.paths())

    if not told:
        assert materialize(paths, [arena_hands, another_run, trainer])["dealt"]
        return
    with pytest.raises(dg.Failure, match=f"this run dealt 60 hands, but another run has {told}.*HOME_DIR"):
        materialize(paths, [arena_hands, another_run, trainer])


def test_one_run_deals_at_a_time(paths: HomePaths) -> None:
    """Prevents files of two deals side by side, with the roster of one."""
    dealt: list[dict[str, object]] = []
    other = threading.Thread(target=lambda: dealt.append(materialize(paths)))
    with dealing(paths, print):
        other.start()
        other.join(3.0)
        assert other.is_alive()
        assert not files_of(paths)
    other.join(60.0)
    assert dealt[0]["dealt"]


def test_who_waits_for_a_deal_is_told(paths: HomePaths) -> None:
    """Prevents a run that looks dead."""
    lines: list[str] = []

    def deal_too() -> None:
        with dealing(paths, lines.append):
            lines.append("deals")

    with dealing(paths, lines.append):
        waiting = threading.Thread(target=deal_too)
        waiting.start()
        waiting.join(0.5)
    waiting.join(10.0)
    assert lines == ["another run deals hands into this home: waiting for it", "deals"]


def test_own_hands_send_the_arena_away(paths: HomePaths) -> None:
    """Prevents self-play from mixing with what somebody came to study, without a word."""
    materialize(paths)
    write_ohh(paths.ohh / "mine.ohh", random_hands(1, 3))
    told = materialize(paths)
    assert (told["dealt"], told["files_removed"]) == (False, 1)
    assert "1 hand history file of your own" in str(told["why"])
    assert "mine.ohh" in str(told["why"])
    assert not files_of(paths)
    assert (paths.ohh / "mine.ohh").exists()
    assert materialize(paths, when="always")["dealt"]


def test_nothing_is_dealt_beside_a_folder_elsewhere(tmp_path: Path) -> None:
    """Prevents files in a folder of somebody else's, and hands that nobody would read."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    paths = home_paths(home=str(tmp_path / "home"), ohh=str(elsewhere), environment={})
    told = materialize(paths, when="always")
    assert not told["dealt"]
    assert str(elsewhere) in str(told["why"])
    assert not list(elsewhere.iterdir())


def test_never_means_never(paths: HomePaths) -> None:
    """What was dealt stays."""
    materialize(paths)
    assert not materialize(paths, when="never")["dealt"]
    assert files_of(paths)


def test_what_cannot_be_dealt_is_said(paths: HomePaths) -> None:
    """Prevents a traceback for a typing error."""
    for config, message in (
        ({"max_players": 11}, "max_players <= 10"),
        ({"styles": "rok"}, "there is no style 'rok'; there are balanced"),
        ({"styles": "rock:none"}, "expected a weight above 0 behind 'rock'"),
    ):
        with pytest.raises(dg.Failure, match=message):
            materialize(paths, **config)


def test_a_style_of_ones_own_plays(paths: HomePaths) -> None:
    """Styles are data: a file in the home is one more player, or takes a built-in one's place."""
    text = style_texts(paths.arena_styles)["rock"]
    paths.arena_styles.mkdir(parents=True)
    (paths.arena_styles / "mine.toml").write_text(text.replace('name = "rock"', 'name = "mine"'))
    texts = style_texts(paths.arena_styles)
    assert list(texts) == [*style_texts(Path("nowhere")), "mine"]
    assert {name: share for name, (_, share) in chosen_styles("mine:3, rock", texts).items()} == {"mine": 0.75, "rock": 0.25}
    materialize(paths, styles="mine")
    assert [style["name"] for style in read_json(paths.arena_manifest)["styles"]] == ["mine"]
    (paths.arena_styles / "bad.toml").write_text("name = 3")
    with pytest.raises(dg.Failure, match=r"bad\.toml"):
        materialize(paths)


def test_names_never_reach_the_inputs(paths: HomePaths) -> None:
    """The roster is for the oracle alone: other names, and the encoded reads are the same to the bit."""
    materialize(paths)
    packed = files_of(paths)["arena_00000.ohh.zst"]
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        text = stream.read().decode()
    assert "rock-" in text
    renamed = text
    for name in style_texts(paths.arena_styles):
        renamed = renamed.replace(f'"{name}-', '"somebody-')
    assert renamed != text
    first, second = (encoded(each) for each in (text, renamed))
    for column in ("tokens", "values", "villain_combo", "hand_ids"):
        assert np.array_equal(getattr(first, column), getattr(second, column))


def test_the_oracle_finds_who_sat_where(paths: HomePaths) -> None:
    """The roster names the styles that the file's players bear; reads of other hands get no oracle."""
    materialize(paths)
    with pa.CompressedInputStream(pa.BufferReader(files_of(paths)["arena_00000.ohh.zst"]), "zstd") as stream:
        text = stream.read().decode()
    reads = encoded(text)
    known, unknown = oracles(paths, reads, print)
    assert known.styles is not None
    assert unknown.styles is None
    roster = {row["hand_id"]: row["styles"] for row in pq.read_table(paths.arena_roster).to_pylist()}
    for index in range(reads.num_reads):
        styles = roster[reads.hand_ids[reads.hand_index[index]]]
        assert known.styles[index, : len(styles)].tolist() == styles
        assert f'"name":"{known.policy.book.names[styles[0]]}-0"' in text
    foreign, _ = HandEncoder().encode_hands(random_hands(1, 5))
    assert oracles(paths, foreign, print) == []


def encoded(text: str):
    """Return the reads of a file's text."""
    hands = [hand for hand in parse_ohh(io.BytesIO(text.encode()), "a.ohh") if isinstance(hand, CanonicalHand)]
    assert hands
    return HandEncoder().encode_hands(hands)[0]


def test_a_first_run_without_hands_is_short_unless_somebody_says_otherwise() -> None:
    """Prevents half an hour of waiting for a first look, and a budget that overrules what was asked for."""
    assert first_look_minutes(None, None, has_gpu=False, environment={}) == FIRST_LOOK_MINUTES
    assert first_look_minutes("cpu", None, has_gpu=False, environment={}) is None
    assert first_look_minutes(None, 30.0, has_gpu=False, environment={}) is None
    assert first_look_minutes(None, None, has_gpu=True, environment={}) is None
    for name in ("RANGE_READER_PRESET", "RANGE_READER_TRAIN_MINUTES"):
        assert first_look_minutes(None, None, has_gpu=False, environment={name: "1"}) is None
