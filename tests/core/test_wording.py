"""Claims about numbers in sentences."""

from range_reader_core.wording import counted


def test_one_is_singular_and_thousands_are_separated() -> None:
    """Prevents "1 hands" in the first line that a newcomer with one hand reads."""
    assert [counted(number, "hand") for number in (0, 1, 2, 12_345)] == ["0 hands", "1 hand", "2 hands", "12,345 hands"]
