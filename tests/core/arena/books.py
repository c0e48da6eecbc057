"""The styles that come with the arena, for tests."""

from pathlib import Path

import numpy as np

import range_reader_core.arena
from range_reader_core.arena.deal import PlayedHands, TableSettings, deal_cards, play_hands, seat_players
from range_reader_core.arena.players import StylePlayers
from range_reader_core.arena.policy import Policy
from range_reader_core.arena.styles import StyleBook, parse_style

STYLE_FILES = sorted((Path(range_reader_core.arena.__file__).parent / "styles").glob("*.toml"))


def built_in_book() -> StyleBook:
    """Return the built-in styles, by name."""
    return StyleBook(tuple(parse_style(path.read_text(encoding="utf-8"), path.name) for path in STYLE_FILES))


def style_hands(
    settings: TableSettings, num_hands: int, seed: int, book: StyleBook | None = None
) -> tuple[PlayedHands, np.ndarray]:
    """Return hands of styled players and everybody's style (T, 10)."""
    book = book or built_in_book()
    generator = np.random.default_rng(seed)
    seating, dealt = seat_players(settings, num_hands, generator), deal_cards(num_hands, generator)
    styles = generator.integers(0, len(book.styles), dealt.combos.shape)
    return play_hands(settings, seating, dealt, StylePlayers(Policy(book), styles, dealt, generator)), styles
