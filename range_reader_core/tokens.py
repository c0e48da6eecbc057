"""The vocabulary of 1596 ids: what each id means, and how suit relabelings move it.

Order: 208 seat-attached ids (base action * 16 + seat), 52 community cards, 10 global marks, 1326 hole combos.
Seats ride in the id, so the supervised window and every positional feature can be read from the tokens alone.
``VOCABULARY_HASH`` pins the order and the combo numbering under it; a checkpoint of another hash is refused.
Nothing here knows hands or tensors.
"""

import hashlib
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from range_reader_core import cards

MAX_SEATS: Final = 16


class BaseAction(IntEnum):
    """The 13 base actions, each of which is attached to one of ``MAX_SEATS`` seats."""

    SIT = 0
    POST_BLIND = 1
    POST_ANTE = 2
    FOLD = 3
    CHECK = 4
    CALL = 5
    BET = 6
    RAISE = 7
    ALL_IN = 8
    IS_BUTTON = 9
    HIDE_HOLE = 10
    PREDICT_HOLE = 11
    SIT_OUT = 12


class Mark(IntEnum):
    """The 10 global marks, in id order after the community cards."""

    PAD = 0
    BOS = 1
    PREFLOP = 2
    FLOP = 3
    TURN = 4
    RIVER = 5
    SHOWDOWN = 6
    SPARE_0 = 7
    SPARE_1 = 8
    SPARE_2 = 9


NUM_BASE_ACTIONS: Final = len(BaseAction)
NUM_MARKS: Final = len(Mark)
NUM_SEAT_TOKENS: Final = NUM_BASE_ACTIONS * MAX_SEATS
COMMUNITY_OFFSET: Final = NUM_SEAT_TOKENS
MARK_OFFSET: Final = COMMUNITY_OFFSET + cards.NUM_CARDS
COMBO_OFFSET: Final = MARK_OFFSET + NUM_MARKS
VOCAB_SIZE: Final = COMBO_OFFSET + cards.NUM_COMBOS

PAD: Final = MARK_OFFSET + Mark.PAD
BOS: Final = MARK_OFFSET + Mark.BOS
PREFLOP: Final = MARK_OFFSET + Mark.PREFLOP
FLOP: Final = MARK_OFFSET + Mark.FLOP
TURN: Final = MARK_OFFSET + Mark.TURN
RIVER: Final = MARK_OFFSET + Mark.RIVER

CHIP_ACTIONS: Final = (
    BaseAction.SIT,
    BaseAction.POST_BLIND,
    BaseAction.POST_ANTE,
    BaseAction.CALL,
    BaseAction.BET,
    BaseAction.RAISE,
    BaseAction.ALL_IN,
)


def seat_token(action: BaseAction, seat: int) -> int:
    """Return the id of a base action attached to a seat.

    Raises:
        ValueError: the seat is outside 0..15.
    """
    if not 0 <= seat < MAX_SEATS:
        msg = f"expected a seat in 0..{MAX_SEATS - 1}, got {seat}"
        raise ValueError(msg)
    return int(action) * MAX_SEATS + seat


def community_token(card: int) -> int:
    """Return the id of a community card."""
    return COMMUNITY_OFFSET + card


def combo_token(combo: int) -> int:
    """Return the id of a visible hole combo."""
    return COMBO_OFFSET + combo


def describe(token: int) -> str:
    """Return the meaning of an id as text: ``"raise@seat3"``, ``"board:Ts"``, ``"<flop>"`` or ``"hole:AhKd"``.

    Raises:
        ValueError: the id is outside the vocabulary.
    """
    if 0 <= token < NUM_SEAT_TOKENS:
        return f"{BaseAction(token // MAX_SEATS).name.lower()}@seat{token % MAX_SEATS}"
    if token < 0 or token >= VOCAB_SIZE:
        msg = f"expected a token id in 0..{VOCAB_SIZE - 1}, got {token}"
        raise ValueError(msg)
    if token < MARK_OFFSET:
        return f"board:{cards.format_card(token - COMMUNITY_OFFSET)}"
    if token < COMBO_OFFSET:
        return f"<{Mark(token - MARK_OFFSET).name.lower()}>"
    return f"hole:{cards.format_combo(token - COMBO_OFFSET)}"


def token_of(text: str) -> int:
    """Return the id that ``describe`` names so.

    Raises:
        ValueError: no id has this description.
    """
    token = _ID_BY_DESCRIPTION.get(text)
    if token is None:
        msg = f"no token is described by {text!r}; examples: 'raise@seat3', 'board:Ts', '<flop>', 'hole:AhKd'"
        raise ValueError(msg)
    return token


def _perm_combo() -> npt.NDArray[np.int64]:
    moved = cards.PERM_CARD[:, cards.COMBO_CARDS]  # (24, 1326, 2)
    lo, hi = moved.min(axis=2), moved.max(axis=2)
    combos: npt.NDArray[np.int64] = hi * (hi - 1) // 2 + lo
    return combos


def _perm_action() -> npt.NDArray[np.int64]:
    perm = np.tile(np.arange(VOCAB_SIZE), (cards.NUM_RELABELINGS, 1))
    perm[:, COMMUNITY_OFFSET:MARK_OFFSET] = COMMUNITY_OFFSET + cards.PERM_CARD
    perm[:, COMBO_OFFSET:] = COMBO_OFFSET + PERM_COMBO
    return perm


PERM_COMBO: Final = _perm_combo()  # (24, 1326): old combo -> new combo
PERM_ACTION: Final = _perm_action()  # (24, 1596): old id -> new id
DESCRIPTIONS: Final = tuple(describe(token) for token in range(VOCAB_SIZE))
VOCABULARY_HASH: Final = hashlib.sha256("|".join([*DESCRIPTIONS, cards.ORDER_HASH]).encode()).hexdigest()[:16]
_ID_BY_DESCRIPTION: Final = {text: token for token, text in enumerate(DESCRIPTIONS)}
