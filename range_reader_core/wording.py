"""Numbers in sentences, for tables and log lines that people read."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one: ``1 hand``, ``1,234 hands``. Regular plurals only."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
