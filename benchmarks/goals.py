"""How a benchmark says whether a figure is as good as it was meant to be."""


def reached(is_reached: bool) -> str:
    """Return the verdict on a goal."""
    return "reached" if is_reached else "not reached"


def at_most(value: float, goal: float, unit: str) -> str:
    """Return the verdict on a figure that should be small."""
    return f"goal at most {goal:g} {unit}: {reached(value <= goal)}"


def at_least(value: float, goal: float, unit: str) -> str:
    """Return the verdict on a figure that should be large."""
    return f"goal at least {goal:g} {unit}: {reached(value >= goal)}"
