"""The self-contained page of reads: what it carries, what it must not let out, how large it grows, how it behaves."""

import base64
import dataclasses
import json
import re
import shutil
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from range_reader_core import cards, ranges
from range_reader_pipeline.range_page import HandRead, ReadStep, render_range_page

_ACTIONS = {
    0: ("seat 3 raises 2.5 bb", "seat 1 raises 9 bb", "seat 3 calls 6.5 bb"),
    3: ("seat 1 checks", "seat 3 bets 6.5 bb", "seat 1 calls 6.5 bb"),
    4: ("seat 1 checks", "seat 3 bets 18 bb", "seat 1 calls 18 bb"),
    5: ("seat 1 checks", "seat 3 bets all-in 63.5 bb", "seat 1 calls 63.5 bb"),
}


def synthetic_read(seed: int, **changes: Any) -> HandRead:
    """A plausible 15-step read: preflop actions favour good classes, later ones hands that fit the board, with noise."""
    rng = np.random.default_rng(seed)
    deck = [int(card) for card in rng.permutation(cards.NUM_CARDS)]
    board, hero = (*sorted(deck[:3]), *deck[3:5]), (min(deck[5:7]), max(deck[5:7]))
    lo, hi = cards.COMBO_CARDS.T
    preflop = (
        0.12 * (lo // 4 + hi // 4) + 1.6 * (lo // 4 == hi // 4) + 0.4 * (lo % 4 == hi % 4) - 0.12 * np.minimum(hi // 4 - lo // 4, 5)
    )
    logits, steps = np.zeros(cards.NUM_COMBOS), []
    for num_board, actions in _ACTIONS.items():
        seen = board[:num_board]
        names = " ".join(cards.format_card(card) for card in (seen if num_board < 4 else seen[-1:]))
        fit = sum((1.2 * ((lo // 4 == card // 4) | (hi // 4 == card // 4)) for card in seen), np.zeros(cards.NUM_COMBOS))
        for suit in range(4):
            num_suit = sum(card % 4 == suit for card in seen)
            fit += 0.35 * num_suit * (num_suit >= 2) * ((lo % 4 == suit).astype(float) + (hi % 4 == suit))
        deal = {3: f"flop {names}", 4: f"turn {names}", 5: f"river {names}"}.get(num_board)
        for label in ([deal] if deal else []) + list(actions):
            shift = (fit if num_board else preflop) * (0.05 if label == deal else rng.uniform(0.1, 0.6))
            logits = logits + shift + 0.15 * rng.normal(size=cards.NUM_CLASSES)[cards.COMBO_CLASS]
            logits += (0.15 if num_board else 0.0) * rng.normal(size=cards.NUM_COMBOS)
            steps.append(
                ReadStep(label=label, board=seen, belief=_belief(logits, seen + hero), baseline=_belief(preflop, seen + hero))
            )
    truth = int(rng.choice(cards.NUM_COMBOS, p=steps[-1].belief))
    read = HandRead(
        title=f"Three-bet pot {seed}: seat 3 against seat 1",
        description="6-handed cash, 100 bb. Seat 3 opens, is three-bet and calls.",
        hand_id=f"ipoker/table#{1000 + seed}",
        villain_seat=3,
        perspective_seat=1,
        perspective_cards=hero,
        truth=truth,
        steps=tuple(steps),
    )
    return dataclasses.replace(read, **changes)


def _belief(logits: npt.NDArray[np.float64], dead: tuple[int, ...]) -> npt.NDArray[np.float64]:
    weights = np.where(cards.COMBO_HAS_CARD[:, list(dead)].any(axis=1), 0.0, np.exp(logits - logits.max()))
    return weights / weights.sum()


class _Elements(HTMLParser):
    """Collects the start tags of a page and the text inside its elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: dict[str, list[str]] = {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.extend(attrs)

    def handle_data(self, data: str) -> None:
        if self.tags:
            self.text.setdefault(self.tags[-1], []).append(data)


def _payload(page: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="reads">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    payload: dict[str, Any] = json.loads(match[1])
    for hand in payload["hands"]:
        keys = ("label", "numBoard", "baselineRow", "model", "baseline")
        hand["steps"] = [dict(zip(keys, step, strict=True)) for step in hand["steps"]]
    return payload


def _decode(payload: dict[str, Any], hand: dict[str, Any]) -> npt.NDArray[np.float64]:
    """Undo the packing independently of the page's script: (R, 1326) in combo order."""
    planes = np.frombuffer(zlib.decompress(base64.b64decode(hand["rows"])), dtype=np.uint8).reshape(2, -1, cards.NUM_COMBOS)
    zigzag = planes[0].astype(np.int64) + 256 * planes[1].astype(np.int64)
    codes = np.cumsum((zigzag >> 1) ^ -(zigzag & 1), axis=0)
    combos = [
        cards.combo_index(cards.parse_card(name[:2]), cards.parse_card(name[2:])) for name in re.findall("....", payload["combos"])
    ]
    beliefs = np.zeros(codes.shape)
    beliefs[:, combos] = (codes / payload["scale"]) ** payload["root"]
    return beliefs / beliefs.sum(axis=1, keepdims=True)


def test_beliefs_survive_the_page_to_what_two_digits_show() -> None:
    """A wrong combo order or a lost high byte would paint a plausible but false grid."""
    read = synthetic_read(1)
    payload = _payload(render_range_page([synthetic_read(0), read]))
    hand = payload["hands"][1]
    rows = _decode(payload, hand)
    assert len(hand["steps"]) == len(read.steps) == 15
    for index, (step, sent) in enumerate(zip(read.steps, hand["steps"], strict=True)):
        for belief, row in ((step.belief, rows[hand["numBaselines"] + index]), (step.baseline, rows[sent["baselineRow"]])):
            np.testing.assert_array_equal(row > 0, belief > 0)
            np.testing.assert_allclose(row[belief > 0.01], belief[belief > 0.01], rtol=0.02)
            np.testing.assert_allclose(row[belief > 1e-4], belief[belief > 1e-4], rtol=0.06)
            np.testing.assert_allclose(ranges.range_grid(row), ranges.range_grid(belief), rtol=0.05, atol=1e-4)


def test_figures_come_from_the_exact_belief() -> None:
    """Figures recomputed from quantised data would disagree with the reports."""
    read = synthetic_read(2)
    hand = _payload(render_range_page([read]))["hands"][0]
    for step, sent in zip(read.steps, hand["steps"], strict=True):
        assert read.truth is not None
        assert sent["model"][0] == pytest.approx(ranges.entropy_bits(step.belief), abs=6e-3)
        assert sent["model"][1] == ranges.combo_rank(step.belief, read.truth)
        assert sent["model"][2] == pytest.approx(step.belief[read.truth], rel=0.006)
        assert sent["baseline"][1] == ranges.combo_rank(step.baseline, read.truth)


def test_the_page_says_who_reads_whom_and_what_happened() -> None:
    """A page that swaps villain and hero, or mislabels a street, misleads every reader of it."""
    read = synthetic_read(3)
    hand = _payload(render_range_page([read]))["hands"][0]
    assert (hand["villain"], hand["hero"], hand["truth"]) == (3, 1, cards.format_combo(read.truth or 0))
    assert hand["heroCards"] == [cards.format_card(card) for card in read.perspective_cards or ()]
    assert [step.street for step in read.steps] == ["preflop"] * 3 + ["flop"] * 4 + ["turn"] * 4 + ["river"] * 4
    assert hand["steps"][3]["label"].startswith("flop ")
    assert [step["numBoard"] for step in hand["steps"]] == [0] * 3 + [3] * 4 + [4] * 4 + [5] * 4
    assert hand["board"] == [cards.format_card(card) for card in read.steps[-1].board]


@pytest.mark.parametrize(
    "text",
    [
        "</script><b>",
        "</ScRiPt /",
        "<!--<script>",
        "</style><img src=x onerror=alert(1)>",
        "&lt;i&gt; \" ' `${x}` $title",
        "\u2028\u2029]]>\x00",
        "é♠漢",
    ],
)
def test_hostile_text_stays_data(text: str) -> None:
    """Hand ids and titles come from strangers' files; markup in one must not run in the page of another."""
    read = synthetic_read(4)
    steps = (dataclasses.replace(read.steps[0], label=text), *read.steps[1:])
    hostile = dataclasses.replace(read, title=text, description=text, hand_id=text, steps=steps)
    source = render_range_page([hostile])
    plain, page = _Elements(render_range_page([read])), _Elements(source)
    data = source[source.index('id="reads">') + len('id="reads">') : source.rindex("</script>\n<script>")]
    assert not set("<>&") & set(data)  # stricter than the parser here: browsers end a script at "</script " too
    assert page.tags == plain.tags
    assert [name for name, _ in page.attributes] == [name for name, _ in plain.attributes]
    hand = _payload(source)["hands"][0]
    assert [hand["id"], hand["title"], hand["description"], hand["steps"][0]["label"]] == [text] * 4
    assert text.replace("\x00", "") in "".join(page.text["title"]).replace("\x00", "")


def test_the_page_needs_no_network_and_admits_only_its_own_script() -> None:
    """A page opened from disk must neither phone home nor break offline."""
    page = render_range_page([synthetic_read(5)])
    elements = _Elements(page)
    assert not {"src", "srcset", "action", "data", "style"} & {name for name, _ in elements.attributes}
    assert not any(name.startswith("on") for name, _ in elements.attributes)
    assert not re.search(r"https?:|//cdn|@import|url\(|fetch\(|XMLHttpRequest|innerHTML|insertAdjacentHTML|\beval\(", page)
    policy = next(value or "" for _, value in elements.attributes if (value or "").startswith("default-src"))
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert policy.count("'sha256-") == 2


def test_the_page_names_everything_that_can_be_operated() -> None:
    """A control without a name is silent to a screen reader; a label that points nowhere is worse."""
    page = render_range_page([synthetic_read(6)])
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'aria-labelledby="([^"]+)"', page)) <= set(ids)
    script = page[page.index("<script>") :]
    assert set(re.findall(r'byId\("([^"]+)"\)', script)) <= set(ids)
    assert '<html lang="en">' in page


def test_twenty_hands_of_fifteen_steps_stay_below_400_kb() -> None:
    """A report that mail and viewers choke on is not looked at."""
    page = render_range_page([synthetic_read(seed) for seed in range(20)])
    assert len(page.encode()) < 400_000


def test_unknown_cards_are_said_to_be_unknown() -> None:
    """A watcher's read has no hero cards and perhaps no truth; zero or a made-up card would be a lie."""
    read = synthetic_read(7, perspective_seat=None, perspective_cards=None, truth=None)
    hand = _payload(render_range_page([read]))["hands"][0]
    assert (hand["hero"], hand["heroCards"], hand["truth"]) == (None, None, None)
    assert hand["steps"][0]["model"][1:] == [None, None]


def test_a_read_is_found_by_its_fragment() -> None:
    """Links from the table of worst reads must lead to the villain meant, not to the first of that hand."""
    read = synthetic_read(8, hand_id="site/net#7</b>")
    other = dataclasses.replace(read, villain_seat=1, perspective_seat=3)
    assert read.fragment == "#site%2Fnet%237%3C%2Fb%3E%2F3%2F1"
    assert len({hand["anchor"] for hand in _payload(render_range_page([read, other]))["hands"]}) == 2
    with pytest.raises(ValueError, match="only once"):
        render_range_page([read, read])
    with pytest.raises(ValueError, match="at least one read"):
        render_range_page([])


def test_inconsistent_reads_are_refused() -> None:
    """A shrinking board or a truth that the board holds is a bug of the caller that the page would hide."""
    read = synthetic_read(9)
    board = read.steps[-1].board
    with pytest.raises(ValueError, match="at least one step"):
        dataclasses.replace(read, steps=())
    with pytest.raises(ValueError, match="beginning of the last"):
        dataclasses.replace(read, steps=read.steps[::-1])
    with pytest.raises(ValueError, match="twice"):
        dataclasses.replace(read, truth=cards.combo_index(board[0], board[1]))
    with pytest.raises(ValueError, match="sum to 1"):
        dataclasses.replace(read.steps[0], belief=read.steps[0].belief * 2)
    with pytest.raises(ValueError, match="different cards"):
        dataclasses.replace(read.steps[0], board=(1, 1, 2))


@pytest.fixture
def browser_page() -> Iterator[Any]:
    """A page of a headless browser."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no chromium or google-chrome on the path")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
    flags += ["--disable-component-update", "--disable-sync"]
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=flags)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        yield page
        browser.close()
        assert errors == []


@pytest.mark.slow
def test_the_page_works_in_a_browser(browser_page: Any, tmp_path: Path) -> None:
    """What no parser sees: the script decodes, steps by keyboard, follows links and writes the core's range text."""
    first, second = synthetic_read(10), synthetic_read(11, hand_id="</script><b>", title="<i>second</i>")
    path = tmp_path / "reads.html"
    path.write_text(render_range_page([first, second]), encoding="utf-8")
    payload = _payload(path.read_text(encoding="utf-8"))
    page = browser_page

    page.goto(path.as_uri() + second.fragment)
    page.wait_for_selector("#model-grid .cell.truth")
    assert page.locator("h1").inner_text() == "<i>second</i>"
    assert page.locator("#model-grid .cell").count() == cards.NUM_CLASSES
    assert second.truth is not None
    truth_class = cards.CLASS_NAMES[cards.COMBO_CLASS[second.truth]]
    assert page.locator("#model-grid .cell.truth .name").inner_text() == truth_class

    page.keyboard.press("End")
    assert page.locator("#line [aria-current]").inner_text().startswith("seat 1 calls 63.5 bb")
    hand = payload["hands"][1]
    row = _decode(payload, hand)[-1]
    assert page.locator("#export-text").input_value() == ranges.format_range(row)
    page.select_option("#export-as", "classes")
    dead = (*second.steps[-1].board, *(second.perspective_cards or ()))
    assert page.locator("#export-text").input_value() == ranges.format_class_range(row, dead)
    page.locator("#copy").click()
    page.locator("#copied", has_text="Copied").wait_for()
    page.locator("#previous").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Home")
    assert page.locator("#step").input_value() == "0"
    page.locator("#step").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#step").input_value() == "1"

    page.locator("#model-grid .cell").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").inner_text().startswith("AKs suited")
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()
    page.locator("#baseline-grid .cell").nth(13).hover()
    assert page.locator("#tip tbody tr").count() == 12

    page.select_option("#hand", "0")
    page.locator("h1", has_text="Three-bet").wait_for()
    page.goto(path.as_uri() + "#%3C%2Fscript%3E%3Cb%3E")
    page.locator("h1", has_text="<i>second</i>").wait_for()
    page.emulate_media(media="print")
    assert page.locator("#paper figure").count() == 4
    assert page.locator("#paper .cell.truth").count() == 8
    assert page.locator("#paper").is_visible()
