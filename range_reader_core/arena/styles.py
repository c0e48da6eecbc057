"""A style: how one kind of player plays, as numbers that a person can write in one TOML file.

``parse_style`` reads such a file's text and says what is wrong with it, by name; ``StyleBook`` holds several styles as one table of
numbers, so that the policy can play a different style at every table. What the numbers do is in ``policy``; ``docs/arena.md``
explains the file.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from range_reader_core.arena.betting import POSITIONS, SIZES

FACING: Final = ("unopened", "limped", "raised", "reraised")
CHART_COLUMNS: Final = ("raise", "call", "bluff")
"""The best so many percent of hands raise, the next so many call; of the hands just below, ``bluff`` percent raise as well."""
LATE_STREETS: Final = ("flop", "turn", "river")
DRAW_NAMES: Final = ("gutshot", "open_ended", "flush_draw")

_SHARE: Final = (0.0, 1.0)
# name -> (number of values, least, most)
PREFLOP_KEYS: Final[Mapping[str, tuple[int, float, float]]] = {
    "mixing": (1, 0.01, 1.0),
    "price_sense": (1, 0.0, 3.0),
    "sizes": (len(SIZES), 0.0, 100.0),
}
POSTFLOP_KEYS: Final[Mapping[str, tuple[int, float, float]]] = {
    "mixing": (1, 0.01, 1.0),
    "value_bet": (3, 0.0, 1.0),
    "value_frequency": (1, *_SHARE),
    "bluff": (3, *_SHARE),
    "bluff_below": (3, *_SHARE),
    "semi_bluff": (3, *_SHARE),
    "initiative": (1, 0.0, 4.0),
    "call": (3, -1.0, 1.0),
    "price_sense": (1, 0.0, 3.0),
    "draw_worth": (3, *_SHARE),
    "value_raise": (3, 0.0, 1.5),
    "bluff_raise": (1, *_SHARE),
    "raise_fear": (1, 0.0, 1.0),
    "crowd": (1, 0.0, 0.5),
    "position": (1, 0.0, 0.5),
    "commitment": (1, 0.0, 1.0),
    "sizes": (len(SIZES), 0.0, 100.0),
    "size_tells": (1, -3.0, 3.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """One kind of player."""

    name: str
    about: str
    charts: npt.NDArray[np.float64]  # (4, 5, 3) shares by FACING, POSITIONS and CHART_COLUMNS
    commit_percent: int  # a bet of this part of the stack becomes all of it
    tremble: float  # least frequency of anything allowed: nobody is quite consistent
    preflop: Mapping[str, tuple[float, ...]]  # by PREFLOP_KEYS
    postflop: Mapping[str, tuple[float, ...]]  # by POSTFLOP_KEYS


@dataclass(frozen=True, slots=True)
class StyleBook:
    """Styles by number, with every number of their files as a column to choose from by style.

    Raises:
        ValueError: on construction, when there is none or two have one name.
    """

    styles: tuple[Style, ...]

    def __post_init__(self) -> None:
        """Check the names."""
        names = self.names
        if not names or len(set(names)) < len(names):
            msg = f"styles: expected at least one and different names, got {list(names)}"
            raise ValueError(msg)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, by number."""
        return tuple(style.name for style in self.styles)

    def charts(self) -> npt.NDArray[np.float64]:
        """Return (styles, 4, 5, 3)."""
        return np.stack([style.charts for style in self.styles])

    def commit_percent(self) -> npt.NDArray[np.int64]:
        """Return (styles,)."""
        return np.array([style.commit_percent for style in self.styles])

    def tremble(self) -> npt.NDArray[np.float64]:
        """Return (styles,)."""
        return np.array([style.tremble for style in self.styles])

    def columns(self, part: str) -> dict[str, npt.NDArray[np.float64]]:
        """Return ``preflop`` or ``postflop`` as name -> (styles, values)."""
        tables = [getattr(style, part) for style in self.styles]
        return {name: np.array([table[name] for table in tables]) for name in tables[0]}


def parse_style(text: str, where: str) -> Style:
    """Return the style that a TOML text describes.

    Args:
        text: the file's content.
        where: its name, for messages.

    Raises:
        ValueError: what is missing, unknown or out of range, by name.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        msg = f"{where}: not TOML: {error}"
        raise ValueError(msg) from error
    _expect_keys(data, ("name", "about", "commit_percent", "tremble", "preflop", "postflop"), where)
    preflop = data["preflop"]
    _expect_keys(preflop, (*PREFLOP_KEYS, *FACING), f"{where} [preflop]")
    _expect_keys(data["postflop"], tuple(POSTFLOP_KEYS), f"{where} [postflop]")
    name = data["name"]
    if not isinstance(name, str) or not name.replace("_", "").isalnum() or not name.isascii() or len(name) > 40:
        msg = f"{where}: name: expected up to 40 letters, digits and underscores, got {name!r}"
        raise ValueError(msg)
    style = Style(
        name=name,
        about=str(data["about"]),
        charts=np.array([_chart(preflop[facing], f"{where} [preflop.{facing}]") for facing in FACING]),
        commit_percent=int(_numbers(data["commit_percent"], (1, 1.0, 100.0), f"{where}: commit_percent")[0]),
        tremble=_numbers(data["tremble"], (1, 1e-6, 0.05), f"{where}: tremble")[0],
        preflop={key: _numbers(preflop[key], kind, f"{where} [preflop] {key}") for key, kind in PREFLOP_KEYS.items()},
        postflop={key: _numbers(data["postflop"][key], kind, f"{where} [postflop] {key}") for key, kind in POSTFLOP_KEYS.items()},
    )
    for part, sizes in (("preflop", style.preflop["sizes"]), ("postflop", style.postflop["sizes"])):
        if min(sizes) <= 0:
            msg = f"{where} [{part}] sizes: every size needs a weight above 0, however small, got {list(sizes)}"
            raise ValueError(msg)
    return style


def _chart(table: Any, where: str) -> list[list[float]]:
    _expect_keys(table, POSITIONS, where)
    rows = []
    for position in POSITIONS:
        row = table[position]
        _expect_keys(row, CHART_COLUMNS, f"{where} {position}")
        shares = [_numbers(row[column], (1, 0.0, 100.0), f"{where} {position}: {column}")[0] / 100 for column in CHART_COLUMNS]
        if shares[0] + shares[1] > 1.0:
            msg = f"{where} {position}: raise and call are more than 100 percent of all hands"
            raise ValueError(msg)
        rows.append(shares)
    return rows


def _numbers(value: Any, kind: tuple[int, float, float], where: str) -> tuple[float, ...]:
    count, least, most = kind
    values = value if isinstance(value, list) else [value]
    if len(values) != count or not all(isinstance(item, int | float) and not isinstance(item, bool) for item in values):
        msg = f"{where}: expected {count} number{'s' * (count > 1)}, got {value!r}"
        raise ValueError(msg)
    if not all(least <= item <= most for item in values):
        msg = f"{where}: expected {least:g} to {most:g}, got {value!r}"
        raise ValueError(msg)
    return tuple(float(item) for item in values)


def _expect_keys(table: Any, keys: Sequence[str], where: str) -> None:
    if not isinstance(table, dict):
        msg = f"{where}: expected a table with {', '.join(keys)}, got {table!r}"
        raise ValueError(msg)  # noqa: TRY004 - the file's fault, not the caller's
    missing, unknown = [key for key in keys if key not in table], [key for key in table if key not in keys]
    if missing or unknown:
        problems = [f"missing {', '.join(missing)}"] * bool(missing) + [f"unknown {', '.join(unknown)}"] * bool(unknown)
        msg = f"{where}: {'; '.join(problems)}"
        raise ValueError(msg)
