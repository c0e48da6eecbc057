"""Claims about numbers in sentences."""

from range_reader_core.wording import byte_count, counted, first_of


def test_one_is_singular_and_thousands_are_separated() -> None:
    """Prevents "1 hands" in the first line that a newcomer with one hand reads."""
    assert [counted(number, "hand") for number in (0, 1, 2, 12_345)] == ["0 hands", "1 hand", "2 hands", "12,345 hands"]


def test_the_first_of_many_are_named_and_the_rest_counted() -> None:
    """Dots at the end do not say whether one is missing or a thousand."""
    assert first_of(["a", "b."]) == "a; b"
    assert first_of([str(number) for number in range(1203)]) == "0; 1; 2; and 1,200 more"


def test_bytes_come_in_the_unit_that_suits_them() -> None:
    """Nobody reads 1234567890 bytes, and 0.0 GB says nothing of a small file."""
    assert [byte_count(number) for number in (0, 1_234, 5_000_000, 1_234_567_890)] == ["0.0 kB", "1.2 kB", "5.0 MB", "1.2 GB"]
