"""The actions a record may hold: their names in the spec and in the wild, and what the parser does with each.

Voluntary actions are ``EventKind``s already. Everything else has a ``Code``: a post that becomes an event, cards that
become labels, or something that moves no chips within the hand.
"""

from enum import IntEnum
from typing import Final, Literal

from range_reader_core.hand import EventKind


class Code(IntEnum):
    """What an action is that is no fold, check, call, bet or raise."""

    POST_ANTE = 20
    POST_DEAD = 21
    POST_SB = 22
    POST_BB = 23
    STRADDLE = 24
    EXTRA_BLIND = 25  # the last that moves chips into the pot
    DEALT = 29
    SHOWS = 30
    MUCKS = 31
    ADDED_CHIPS = 32
    ADD_TO_POT = 33
    NOTHING = 34  # sits down, stands up, is paid: no chips move within the hand


ActionName = Literal[
    "Fold",
    "Check",
    "Call",
    "Bet",
    "Raise",
    "Dealt Cards",
    "Post Ante",
    "Post Dead",
    "Post SB",
    "Post BB",
    "Straddle",
    "Post Extra Blind",
    "Shows Cards",
    "Mucks Cards",
    "Added Chips",
    "Add to Pot",
    "Sits Down",
    "Stands Up",
    "Payout",
    "Player Adjustment",
]
CODES: Final[dict[ActionName, int]] = {
    "Fold": EventKind.FOLD,
    "Check": EventKind.CHECK,
    "Call": EventKind.CALL,
    "Bet": EventKind.BET,
    "Raise": EventKind.RAISE,
    "Dealt Cards": Code.DEALT,
    "Post Ante": Code.POST_ANTE,
    "Post Dead": Code.POST_DEAD,
    "Post SB": Code.POST_SB,
    "Post BB": Code.POST_BB,
    "Straddle": Code.STRADDLE,
    "Post Extra Blind": Code.EXTRA_BLIND,
    "Shows Cards": Code.SHOWS,
    "Mucks Cards": Code.MUCKS,
    "Added Chips": Code.ADDED_CHIPS,
    "Add to Pot": Code.ADD_TO_POT,
    "Sits Down": Code.NOTHING,
    "Stands Up": Code.NOTHING,
    "Payout": Code.NOTHING,
    "Player Adjustment": Code.NOTHING,
}
POST_KINDS: Final[dict[int, EventKind]] = {
    Code.POST_ANTE: EventKind.POST_ANTE,
    Code.POST_DEAD: EventKind.POST_ANTE,
    Code.POST_SB: EventKind.POST_BLIND,
    Code.POST_BB: EventKind.POST_BLIND,
    Code.STRADDLE: EventKind.POST_BLIND,
    Code.EXTRA_BLIND: EventKind.POST_BLIND,
}
PASSIVE: Final = frozenset({Code.SHOWS, Code.MUCKS, Code.ADDED_CHIPS, Code.ADD_TO_POT, Code.NOTHING})  # open to those not playing


def spec_name(name: str) -> ActionName | None:
    """Return the spec's spelling of an action, None where it is unknown."""
    return _SPELLINGS.get(_letters(name))


def _letters(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalpha())


_SPELLINGS: Final[dict[str, ActionName]] = {_letters(name): name for name in CODES} | {
    "addedtopot": "Add to Pot",  # rs-poker's spelling
    "dealtcard": "Dealt Cards",  # open-hand-tracker's
    "postsmallblind": "Post SB",
    "postbigblind": "Post BB",
    "poststraddle": "Straddle",
    "postextra": "Post Extra Blind",
    "showcards": "Shows Cards",
    "muckcards": "Mucks Cards",
}
