"""Numbers and texts in sentences, for tables and log lines that people read."""

from collections.abc import Sequence


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one: ``1 hand``, ``1,234 hands``. Regular plurals only."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def first_of(items: Sequence[str], num_named: int = 3) -> str:
    """Return the first items in a row and how many more there are: ``a; b; c; and 1,200 more``."""
    named = [item.strip().rstrip(".") for item in items[:num_named]]
    num_more = len(items) - len(named)
    return "; ".join([*named, f"and {num_more:,} more"] if num_more else named)


def byte_count(number: int) -> str:
    """Return a number of bytes in the unit that suits it: ``12.3 kB``, ``1.2 GB``; powers of 1000."""
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if number >= unit:
            return f"{number / unit:.1f} {name}"
    return f"{number / 1e3:.1f} kB"


def writable(text: str) -> str:
    """Return a text as UTF-8 can hold it: half of a surrogate pair becomes its escape."""
    return text.encode("utf-8", "backslashreplace").decode()
