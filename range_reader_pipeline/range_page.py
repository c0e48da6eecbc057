"""Reads of single hands as one self-contained HTML page: the 13x13 grid step by step, beside the betting line.

The page needs no network and no server. Beliefs travel quantised and deflated; whatever is stated as a number (entropy,
rank and probability of the truth) is computed here from the exact belief. All text is data: it goes into the page as
escaped JSON and reaches the screen as text nodes only. Choosing hands and naming steps is the caller's business; so are
files.
"""

import base64
import hashlib
import html
import json
import math
import string
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from range_reader_core import cards, ranges

STREETS: Final = ("preflop", "flop", "turn", "river")

# A probability p is stored as the whole number nearest _SCALE * p ** (1 / _ROOT): within 1.6% of itself at 0.01 and 5% at
# 0.0001, which the hover's two digits hardly show. Logarithms of like precision take a fifth more bytes
# (measured 2026-11-30 on synthetic reads); 20 hands of 15 steps must stay below 400 kB.
_ROOT: Final = 4
_SCALE: Final = 400
_ROW_ORDER: Final = np.argsort(cards.COMBO_CLASS, kind="stable")  # (1326,) combos class by class


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStep:
    """What is believed right after one thing happened.

    Raises:
        ValueError: on construction, when a belief is no distribution over the combos or the board is no board.
    """

    label: str  # what happened: "flop Ts 7d 2c", "seat 3 raises 6.5 bb"; card names in it are drawn as cards
    board: tuple[int, ...]  # community cards so far
    belief: npt.NDArray[np.floating]  # (1326,) the model's, sums to 1
    baseline: npt.NDArray[np.floating]  # (1326,) a reader that ignores the betting, with the same card removal, sums to 1

    @property
    def street(self) -> str:
        """The street of the board so far, one of ``STREETS``."""
        return STREETS[max(min(1, len(self.board)), len(self.board) - 2)]

    def __post_init__(self) -> None:
        """Check the record."""
        if len(self.board) > 5 or len(set(self.board)) != len(self.board) or not _are_cards(self.board):
            msg = f"step {self.label!r}: expected up to five different cards as board, got {self.board}"
            raise ValueError(msg)
        for belief in (self.belief, self.baseline):
            ranges.entropy_bits(belief)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandRead:
    """One villain of one hand, read from one perspective.

    Raises:
        ValueError: on construction, when there is no step, the boards do not grow, or cards collide.
    """

    title: str  # one line, shown in the selector
    description: str  # a sentence or two: stakes, positions, why this hand was chosen
    hand_id: str
    villain_seat: int  # 0..n-1, as in the labels
    perspective_seat: int | None  # None: a watcher
    perspective_cards: tuple[int, int] | None  # None: the perspective's cards are hidden too
    truth: int | None  # the villain's combo, None where unknown
    steps: tuple[ReadStep, ...]

    @property
    def anchor(self) -> str:
        """What tells this read from every other: the hand id, the villain's seat and the perspective's."""
        return f"{self.hand_id}/{self.villain_seat}/{'-' if self.perspective_seat is None else self.perspective_seat}"

    @property
    def fragment(self) -> str:
        """The part of the page's address that opens it at this read, ``#`` included."""
        return "#" + quote(self.anchor, safe="")

    def __post_init__(self) -> None:
        """Check the record."""
        if not self.steps:
            msg = f"hand {self.hand_id}: expected at least one step"
            raise ValueError(msg)
        board = self.steps[-1].board
        if any(step.board != board[: len(step.board)] for step in self.steps):
            msg = f"hand {self.hand_id}: the board of a step is not the beginning of the last step's board"
            raise ValueError(msg)
        if self.truth is not None and not 0 <= self.truth < cards.NUM_COMBOS:
            msg = f"hand {self.hand_id}: expected a truth combo in 0..{cards.NUM_COMBOS - 1}, got {self.truth}"
            raise ValueError(msg)
        known = [*board, *(self.perspective_cards or ()), *(() if self.truth is None else cards.combo_cards(self.truth))]
        if len(set(known)) != len(known) or not _are_cards(known):
            msg = f"hand {self.hand_id}: a card appears twice or is outside 0..51 among board, perspective and truth"
            raise ValueError(msg)


def render_range_page(reads: Sequence[HandRead], *, baseline: str = "static range") -> str:
    """Return the page for some reads as HTML text (write it as UTF-8), the first of them opened unless the address names another.

    ``page.html#<hand id, percent-encoded>`` opens the first read of a hand; ``HandRead.fragment`` opens exactly one.

    Args:
        reads: what to show.
        baseline: what the second grid shows.

    Raises:
        ValueError: there is no read, or two have the same anchor.
    """
    anchors = [read.anchor for read in reads]
    if not reads or len(set(anchors)) != len(anchors):
        msg = f"range page: expected at least one read and each only once, got {anchors}"
        raise ValueError(msg)
    style, script = _resource("range_page.css"), _resource("range_page_data.js") + _resource("range_page.js")
    return string.Template(_resource("range_page.html")).substitute(
        title=html.escape(reads[0].title if len(reads) == 1 else f"{len(reads)} hands"),
        baseline=html.escape(baseline),
        baseline_title=html.escape(_capitalised(baseline)),
        policy=f"default-src 'none'; style-src '{_source_hash(style)}'; script-src '{_source_hash(script)}'; "
        "base-uri 'none'; form-action 'none'",
        style=style,
        script=script,
        reads=_script_json(_payload(reads) | {"baselineName": _capitalised(baseline)}),
    )


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def _payload(reads: Sequence[HandRead]) -> dict[str, Any]:
    return {
        "root": _ROOT,
        "scale": _SCALE,
        "classes": cards.CLASS_NAMES,
        "streets": STREETS,
        "combos": "".join(cards.format_combo(int(combo)) for combo in _ROW_ORDER),
        "hands": [_hand_payload(read) for read in reads],
    }


def _hand_payload(read: HandRead) -> dict[str, Any]:
    baselines: dict[bytes, npt.NDArray[np.int64]] = {}
    baseline_rows = []
    for step in read.steps:
        codes = _codes(step.baseline)
        baselines.setdefault(codes.tobytes(), codes)
        baseline_rows.append(list(baselines).index(codes.tobytes()))
    rows = np.stack([*baselines.values(), *(_codes(step.belief) for step in read.steps)])  # (R, 1326)
    return {
        "anchor": read.anchor,
        "id": read.hand_id,
        "title": read.title,
        "description": read.description,
        "villain": read.villain_seat,
        "hero": read.perspective_seat,
        "heroCards": None if read.perspective_cards is None else [cards.format_card(card) for card in read.perspective_cards],
        "truth": None if read.truth is None else cards.format_combo(read.truth),
        "board": [cards.format_card(card) for card in read.steps[-1].board],
        "steps": [
            [
                step.label,
                len(step.board),
                baseline_rows[index],
                _figures(step.belief, read.truth),
                _figures(step.baseline, read.truth),
            ]
            for index, step in enumerate(read.steps)
        ],
        "numBaselines": len(baselines),
        "rows": _pack(rows),
    }


def _figures(belief: npt.NDArray[np.floating], truth: int | None) -> list[float | None]:
    """Return entropy in bits, then rank and probability of the truth where it is known."""
    bits = round(ranges.entropy_bits(belief), 2)
    if truth is None:
        return [bits, None, None]
    probability = float(belief[truth])
    digits = 3 - math.ceil(math.log10(probability)) if probability > 0 else 0  # three significant ones
    return [bits, ranges.combo_rank(belief, truth), round(probability, digits)]


def _codes(belief: npt.NDArray[np.floating]) -> npt.NDArray[np.int64]:
    """Return a belief's quantised probabilities class by class, shape (1326,); 0 only where the probability is 0."""
    probability = belief.astype(np.float64)[_ROW_ORDER]
    rounded: npt.NDArray[np.int64] = np.round(_SCALE * probability ** (1 / _ROOT)).astype(np.int64)
    return np.where(probability > 0, np.maximum(rounded, 1), 0)


def _pack(rows: npt.NDArray[np.int64]) -> str:
    """Return rows of codes (R, 1326) as differences from the row before, zigzag, low bytes then high bytes, deflated, base64."""
    steps = np.diff(rows, axis=0, prepend=0)  # (R, 1326)
    zigzag = np.where(steps >= 0, 2 * steps, -2 * steps - 1)
    planes = np.stack([zigzag & 255, zigzag >> 8]).astype(np.uint8)  # (2, R, 1326)
    return base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode("ascii")


def _script_json(value: dict[str, Any]) -> str:
    """Return JSON that cannot end or disturb the script element around it, whatever text it holds."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _resource(name: str) -> str:
    return resources.files("range_reader_pipeline").joinpath(name).read_text(encoding="utf-8")


def _source_hash(text: str) -> str:
    """Return the content-security-policy source that admits exactly this inline text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _are_cards(values: Sequence[int]) -> bool:
    return all(0 <= card < cards.NUM_CARDS for card in values)
