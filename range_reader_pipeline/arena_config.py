"""What a person can set in the launchpad for the arena, with help on every field, and which styles there are.

Only this module turns the settings into the core's ``TableSettings`` and reads style files: the built-in ones, and those that
lie in ``arena/styles`` of the home, where a file of the same style name takes the place of a built-in one.
"""

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import dagster as dg
from pydantic import Field

if TYPE_CHECKING:
    from range_reader_core.arena.deal import TableSettings
    from range_reader_core.arena.styles import Style

MAX_HANDS: Final = 100_000_000


class ArenaConfig(dg.Config):
    """What to deal. Amounts are chips of the hand history files."""

    when: Literal["auto", "always", "never"] = Field(
        default="auto",
        description=(
            "auto: deal only while the home's folder of hand histories holds none but the arena's own, and take these away once "
            "you put in some of yours. always: deal beside whatever is there. never: deal nothing and leave what was dealt."
        ),
    )
    hands: int = Field(
        default=20_000, ge=1, le=MAX_HANDS, description="How many hands. More hands of one seed begin with the same files."
    )
    seed: int = Field(default=0, ge=0, description="The same seed and settings make the same bytes.")
    min_players: int = Field(default=2, description="Smallest table, 2 to 10. Every size up to the largest is as likely.")
    max_players: int = Field(default=6, description="Largest table, 2 to 10.")
    small_blind: int = Field(default=50, description="Chips, up to the big blind.")
    big_blind: int = Field(default=100, description="Chips, at least 2.")
    ante: int = Field(default=0, description="Chips of every player.")
    straddle_share: float = Field(
        default=0.0, description="Share of the tables of three and more where the seat after the big blind posts twice as much."
    )
    min_stack_bb: float = Field(default=40.0, description="Smallest stack in big blinds; stacks are even between the two.")
    max_stack_bb: float = Field(default=200.0, description="Largest stack in big blinds.")
    styles: str = Field(
        default="",
        description=(
            "Who plays: names of styles, each with a weight if you like, such as 'rock:2, maniac'. Empty: all there are, alike. "
            "A style of your own is a .toml file in arena/styles of the home; docs/arena.md explains it."
        ),
    )


def table_settings(config: ArenaConfig) -> "TableSettings":
    """Return what tables to deal.

    Raises:
        ValueError: a value outside its range.
    """
    from range_reader_core.arena.deal import TableSettings

    return TableSettings(
        min_players=config.min_players,
        max_players=config.max_players,
        small_blind=config.small_blind,
        big_blind=config.big_blind,
        ante=config.ante,
        straddle_share=config.straddle_share,
        min_stack_bb=config.min_stack_bb,
        max_stack_bb=config.max_stack_bb,
    )


def style_texts(folder: Path) -> dict[str, str]:
    """Return the text of every style file by the style's name: the built-in ones, then those of ``folder``.

    Raises:
        ValueError: a file is no style.
    """
    from range_reader_core.arena.styles import parse_style

    built_in = resources.files("range_reader_core.arena") / "styles"
    files = sorted((entry for entry in built_in.iterdir() if entry.name.endswith(".toml")), key=lambda entry: entry.name)
    texts = {}
    for entry in [*files, *sorted(folder.glob("*.toml"))]:
        text = entry.read_text(encoding="utf-8")
        texts[parse_style(text, entry.name).name] = text
    return texts


def chosen_styles(text: str, texts: dict[str, str]) -> "dict[str, tuple[Style, float]]":
    """Return the styles that play and their shares, which add up to one.

    Args:
        text: names with weights, such as ``rock:2, maniac``; empty for all alike.
        texts: style files by name.

    Raises:
        ValueError: a name that there is no file for, or a weight that is none.
    """
    from range_reader_core.arena.styles import parse_style

    weights: dict[str, float] = {}
    for entry in text.split(",") if text.strip() else texts:
        name, _, weight = entry.strip().partition(":")
        if name not in texts:
            msg = f"styles: there is no style {name!r}; there are {', '.join(texts)}"
            raise ValueError(msg)
        try:
            weights[name] = float(weight) if weight else 1.0
        except ValueError:
            weights[name] = -1.0
        if not 0.0 < weights[name] < 1e6:
            msg = f"styles: expected a weight above 0 behind {name!r}, got {weight!r}"
            raise ValueError(msg)
    total = sum(weights.values())
    return {name: (parse_style(texts[name], f"{name}.toml"), weight / total) for name, weight in weights.items()}
