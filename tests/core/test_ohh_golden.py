"""Small hands with the oddities of real writers, each with the hand that a person checked; they always run.

A changed reading shows as a difference in ``tests/golden/ohh/*.json``; ``python -m tests.core.test_ohh_golden`` writes them anew.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from range_reader_core.cards import format_card
from range_reader_core.hand import CanonicalHand
from range_reader_core.ohh import parse_ohh
from range_reader_core.replay import replay
from tests.core.ohh_text import told

FOLDER: Final = Path(__file__).parents[1] / "golden" / "ohh"
TEXTS: Final = sorted(FOLDER.glob("*.txt"))


def described(hand: CanonicalHand) -> dict[str, Any]:
    """Return everything about a hand that a reader of the golden file wants to see."""
    holes = [None if pair is None else " ".join(format_card(card) for card in pair) for pair in hand.hole_cards]
    return {
        "hand_id": hand.hand_id,
        "seats": list(hand.seat_numbers),
        "button": hand.button,
        "blinds": [hand.small_blind, hand.big_blind, hand.ante],
        "stacks": list(hand.stacks),
        "holes": [f"{hole} {source}" if hole else None for hole, source in zip(holes, hand.label_sources, strict=True)],
        "events": told(hand),
        "collected": list(hand.collected),
        "tags": sorted(hand.tags),
    }


def read(path: Path) -> list[dict[str, Any]]:
    """Return the hands of a file, described."""
    with path.open("rb") as stream:
        results = list(parse_ohh(stream, path.name))
    assert all(isinstance(found, CanonicalHand) for found in results), results
    return [described(found) for found in results if isinstance(found, CanonicalHand)]


@pytest.mark.parametrize("path", TEXTS, ids=[path.stem for path in TEXTS])
def test_an_odd_hand_is_read_as_a_person_read_it(path: Path) -> None:
    """Each of these broke somebody's parser once."""
    assert read(path) == json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", TEXTS, ids=[path.stem for path in TEXTS])
def test_an_odd_hand_replays(path: Path) -> None:
    """What the parser accepts, replay must accept."""
    with path.open("rb") as stream:
        for found in parse_ohh(stream, path.name):
            assert isinstance(found, CanonicalHand)
            replay(found)


if __name__ == "__main__":
    for text in TEXTS:
        text.with_suffix(".json").write_text(json.dumps(read(text), indent=1) + "\n", encoding="utf-8")
