"""Style files: what they must hold, and what is said of one that does not."""

import numpy as np
import pytest

from range_reader_core.arena.styles import StyleBook, parse_style
from tests.core.arena.books import STYLE_FILES, built_in_book

TEXT = STYLE_FILES[0].read_text(encoding="utf-8")


def test_six_styles_come_with_the_arena() -> None:
    """Each in a file of its own, named as it is."""
    book = built_in_book()
    assert {"rock", "regular", "loose_aggressive", "calling_station", "maniac", "balanced"} <= set(book.names)
    assert list(book.names) == [path.stem for path in STYLE_FILES]
    assert book.charts().shape == (len(book.styles), 4, 5, 3)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mixing = 0.32", "mixing = 0.32\nmixin = 1", r"mine.toml \[preflop\]: unknown mixin"),
        ("price_sense = 1.1", "", r"mine.toml \[preflop\]: missing price_sense"),
        ("raise = 15,", "raise = 115,", r"mine.toml \[preflop.unopened\] early: raise: expected 0 to 100, got 115"),
        ("raise = 15, call = 0", "raise = 60, call = 60", "early: raise and call are more than 100 percent"),
        ("tremble = 0.002", "tremble = 0", "tremble: expected 1e-06 to 0.05"),
        ("sizes = [8,", "sizes = [0,", "sizes: every size needs a weight above 0"),
        ("sizes = [8,", "sizes = [8, 8,", "expected 5 numbers"),
        ('name = "balanced"', 'name = "a b"', "name: expected up to 40 letters"),
        ('name = "balanced"', "name = ", "mine.toml: not TOML"),
        ("commit_percent = 40", "commit_percent = true", "commit_percent: expected 1 number, got True"),
    ],
)
def test_a_wrong_file_is_told_what_is_wrong(old: str, new: str, message: str) -> None:
    """Whoever writes a style learns the name of the number, not a traceback."""
    assert old in TEXT
    with pytest.raises(ValueError, match=message):
        parse_style(TEXT.replace(old, new, 1), "mine.toml")


def test_two_styles_of_one_name_are_refused() -> None:
    """Names are how hands say who played."""
    style = parse_style(TEXT, "mine.toml")
    with pytest.raises(ValueError, match="different names"):
        StyleBook((style, style))
    with pytest.raises(ValueError, match="at least one"):
        StyleBook(())


def test_every_number_of_a_file_reaches_the_book() -> None:
    """A number that nobody reads is a lie."""
    book = built_in_book()
    for style, commit, tremble in zip(book.styles, book.commit_percent(), book.tremble(), strict=True):
        assert (style.commit_percent, style.tremble) == (commit, tremble)
    assert np.array_equal(book.columns("preflop")["sizes"][0], book.styles[0].preflop["sizes"])
