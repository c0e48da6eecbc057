"""Lines in the one layout that rs-poker writes -> columns of the hands' tables, written in C; ``ohh_tables`` is its user.

Built when the package is installed and a C compiler is there; without it importing raises ImportError.
"""

from typing import Any

def configure(
    action_codes: dict[Any, int],
    street_codes: dict[Any, int],
    ranks: str,
    suits: str,
    combo_of_cards: memoryview,
    min_players: int,
    max_players: int,
    max_chips: float,
) -> None:
    """Tell what words mean, before anything is read.

    Raises:
        ValueError: too many or too long words, or tables of another size.
    """

def take_apart(text: memoryview, starts: memoryview, ends: memoryview, begin: int) -> tuple[Any, ...]:
    """Return the index of the first line from ``begin`` on that does not fit, and the columns of the lines before it.

    Args:
        text: of all lines.
        starts: int64 (N,), where the lines begin.
        ends: int64 (N,), where they end.
        begin: the first line to read.

    Raises:
        ValueError: a line lies outside of the text, or the arrays differ in length.
        RuntimeError: ``configure`` was not called.
    """
