"""How writers spell cards, and the one spelling that the parser takes."""

import re
from typing import Any, Final

HIDDEN_CARD: Final = "??"


def card_names(value: Any) -> tuple[str, ...] | None:
    """Return card names such as ``"Ts"`` from whatever a writer gave for cards, None where it gave none.

    Lower case, ``"10h"``, suit symbols and rank/suit objects are normalised, hidden cards become ``HIDDEN_CARD``, and a
    string of several cards is cut. What cannot be a card is returned as it stands, for the caller to refuse.
    """
    if value is None or value == "" or value == []:
        return None
    if isinstance(value, str):
        names = re.split(r"[\s,]+", value.strip())
        return tuple([card for name in names for card in _cut(name)])
    if isinstance(value, list):
        return tuple([_card_name(name) for name in value])
    return (str(value),)


def _cut(text: str) -> list[str]:
    """Cut a text of cards without separators, such as ``"AhKd"``."""
    cards = [match[0] for match in _CARD.finditer(text.translate(_SUIT_SYMBOLS))]
    return [_card_name(card) for card in cards] if "".join(cards) == text.translate(_SUIT_SYMBOLS) else [_card_name(text)]


def _card_name(value: Any) -> str:
    if value is None:
        return HIDDEN_CARD
    if isinstance(value, dict):
        value = f"{value.get('rank', '')}{str(value.get('suit', ''))[:1]}"
    text = str(value).strip().translate(_SUIT_SYMBOLS)
    if text in _HIDDEN:
        return HIDDEN_CARD
    match = _CARD.fullmatch(text)
    if match is None:
        return str(value)
    rank = "T" if match[1] == "10" else match[1].upper()
    return rank + match[2].lower()


_CARD: Final = re.compile(r"(?P<rank>10|[2-9TJQKA])(?P<suit>[cdhs])", re.IGNORECASE)
_HIDDEN: Final = frozenset({"", "?", "??", "x", "X", "xx", "Xx", "XX", "**", "--"})
_SUIT_SYMBOLS: Final = str.maketrans(
    {
        "\u2663": "c",
        "\u2667": "c",
        "\u2666": "d",
        "\u2662": "d",
        "\u2665": "h",
        "\u2661": "h",
        "\u2660": "s",
        "\u2664": "s",
        "\ufe0f": None,
    }
)
