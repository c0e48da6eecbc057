"""Why a record was refused: the codes, the record that reports one, and the error that carries one up the parser.

The codes are those of the input format's case table (``docs/ingest.md``); a code is data that people count, so it is
never renamed lightly. A ``FILE_`` code speaks of the whole file, every other one of a single record.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MAX_EXCERPT: Final = 200
MAX_MESSAGE: Final = 300  # characters; a record of megabytes must not come back in the reason for refusing it
MAX_HAND_ID: Final = 300  # characters; site, network and game number take 60 as a rule


class RejectReason(StrEnum):
    """Codes of the reasons for which a record or a file is refused."""

    FILE_ENCODING = "FILE_ENCODING"  # UTF-16, UTF-32 or binary
    FILE_NO_HANDS = "FILE_NO_HANDS"  # there were records, and every one was refused
    REC_ENCODING = "REC_ENCODING"  # invalid UTF-8
    REC_JSON = "REC_JSON"  # not JSON: stray bytes, a syntax error, nesting too deep to read
    REC_TOML = "REC_TOML"  # not TOML, the notation of PHH files
    REC_TRUNCATED = "REC_TRUNCATED"  # torn at the end or in the middle
    REC_TOO_LARGE = "REC_TOO_LARGE"  # longer than any hand can be
    REC_NOT_OHH = "REC_NOT_OHH"  # JSON, but not a hand: a tournament summary, a namesake format
    REC_DUP_KEY = "REC_DUP_KEY"  # a JSON object names a key twice
    TYPE = "TYPE"  # a field is missing or of a type that cannot be read
    BAD_NUMBER = "BAD_NUMBER"  # NaN, infinite, negative or absurdly large
    GAME_TYPE = "GAME_TYPE"  # not hold'em
    BET_TYPE = "BET_TYPE"  # not no-limit, or not said
    CAPPED = "CAPPED"  # betting is capped
    BOMB_POT = "BOMB_POT"  # no preflop betting although players could bet
    PLAYERS = "PLAYERS"  # ids or seats repeat, or fewer than two play
    SEATS = "SEATS"  # seat numbers say nothing about the order
    TOO_MANY = "TOO_MANY"  # more players than the vocabulary has seats
    NO_BLINDS = "NO_BLINDS"  # no big blind to measure chips by
    BAD_CARD = "BAD_CARD"  # a text that is no card, or hole cards that contradict each other
    DUP_CARD = "DUP_CARD"  # one card in two places
    BOARD_SHAPE = "BOARD_SHAPE"  # a street with the wrong number of cards
    STREET = "STREET"  # an unknown street, or streets out of order
    NO_AMOUNT = "NO_AMOUNT"  # a bet, raise, call or post without its amount
    UNKNOWN_ACTION = "UNKNOWN_ACTION"  # an action of unknown meaning that moves chips
    AMOUNT_MODE = "AMOUNT_MODE"  # its amounts add up only in a reading that its file does not use
    ILLEGAL_ACTION = "ILLEGAL_ACTION"  # an action that the rules exclude at that point
    OVERSPEND = "OVERSPEND"  # more chips than the stack
    POT_MISMATCH = "POT_MISMATCH"  # pots match the chips put in neither gross nor net of the uncalled bet
    WINNER = "WINNER"  # a pot is won by a folded or unknown player
    INCOMPLETE = "INCOMPLETE"  # the hand stops before it is decided

    @property
    def is_file_level(self) -> bool:
        """Whether the code speaks of a whole file."""
        return self.value.startswith("FILE_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """One refused record, or one refused file: rejects are data."""

    source: str  # file name
    line: int  # 1-based line on which the record begins; 0 for a whole file
    hand_id: str  # "" where it could not be read
    reason: RejectReason
    message: str  # what was expected and what was seen
    text: str  # excerpt of at most MAX_EXCERPT characters


class RejectError(ValueError):
    """Raised inside the parser to refuse one record; turned into a ``Reject`` where the record is read."""

    def __init__(self, reason: RejectReason, message: str) -> None:
        """Carry a code and a message."""
        super().__init__(message)
        self.reason = reason


def excerpt(data: bytes) -> str:
    """Return the beginning of a record as text of at most ``MAX_EXCERPT`` characters."""
    return data[: MAX_EXCERPT * 4].decode("utf-8", "replace").replace("\x00", "\N{SYMBOL FOR NULL}")[:MAX_EXCERPT]
