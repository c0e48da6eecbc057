"""Many hands as flat arrays: of each hand, everything that any of its reads needs, once.

All reads of a hand share one stream and differ in two hole slots alone. A skeleton is that stream with every slot hidden, in
big blinds, with the hole cards beside it; ``encoder`` makes reads of it. It is also what ingestion keeps of a hand, so it carries a
digest that tells a repeat from a conflict. Skeletons come from ``CanonicalHand``s here, or straight from the lines of a file
(``ohh_plain``); equal hands give equal skeletons on either way.

Legend: ``H`` hands, ``P`` positions of all hands, ``S`` seats of all hands.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from range_reader_core import cards, tokens
from range_reader_core.hand import BOARD_CARDS, VOLUNTARY_CHIPS, CanonicalHand, EventKind, LabelSource
from range_reader_core.tokens import MAX_SEATS, BaseAction

NO_COMBO: Final = -1

_Item = TypeVar("_Item", bound=np.generic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skeletons:
    """``H`` hands in order, uncut."""

    tokens: npt.NDArray[np.uint16]  # (P,) vocabulary ids, every hole slot hidden
    values: npt.NDArray[np.float32]  # (P,) big blinds
    lengths: npt.NDArray[np.int64]  # (H,) positions
    num_players: npt.NDArray[np.int64]  # (H,)
    combos: npt.NDArray[np.int16]  # (S,) hole cards, NO_COMBO where unknown
    is_shown: npt.NDArray[np.bool_]  # (S,) the cards are known only because they were shown

    @property
    def num_hands(self) -> int:
        """Number of hands ``H``."""
        return len(self.lengths)

    def take(self, rows: npt.NDArray[np.int64]) -> "Skeletons":
        """Return some of the hands, in the order of ``rows`` (M,)."""
        positions = ragged_rows(self.lengths, rows)
        seats = ragged_rows(self.num_players, rows)
        return Skeletons(
            tokens=self.tokens[positions],
            values=self.values[positions],
            lengths=self.lengths[rows],
            num_players=self.num_players[rows],
            combos=self.combos[seats],
            is_shown=self.is_shown[seats],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSkeletons:
    """Skeletons with what tells one hand from another."""

    skeletons: Skeletons
    digests: npt.NDArray[np.uint64]  # (H,) of everything but names and dates: tells a repeat from a conflict
    hand_ids: tuple[str, ...]  # (H,)
    source_index: npt.NDArray[np.int64]  # (H,) into sources
    sources: tuple[str, ...]

    @property
    def num_hands(self) -> int:
        """Number of hands ``H``."""
        return self.skeletons.num_hands

    def take(self, rows: npt.NDArray[np.int64]) -> "NamedSkeletons":
        """Return some of the hands, in the order of ``rows`` (M,)."""
        return NamedSkeletons(
            skeletons=self.skeletons.take(rows),
            digests=self.digests[rows],
            hand_ids=tuple([self.hand_ids[row] for row in rows.tolist()]),
            source_index=self.source_index[rows],
            sources=self.sources,
        )


def joined(parts: Sequence[Skeletons]) -> Skeletons:
    """Return all hands of the parts, in order."""
    if len(parts) == 1:
        return parts[0]
    return Skeletons(
        tokens=_joined([part.tokens for part in parts], np.uint16),
        values=_joined([part.values for part in parts], np.float32),
        lengths=_joined([part.lengths for part in parts], np.int64),
        num_players=_joined([part.num_players for part in parts], np.int64),
        combos=_joined([part.combos for part in parts], np.int16),
        is_shown=_joined([part.is_shown for part in parts], np.bool_),
    )


def named_joined(parts: Sequence[NamedSkeletons]) -> NamedSkeletons:
    """Return all hands of the parts, in order."""
    if len(parts) == 1:
        return parts[0]
    sources: dict[str, int] = {}
    source_index = []
    for part in parts:
        where = np.array([sources.setdefault(source, len(sources)) for source in part.sources], dtype=np.int64)
        source_index.append(where[part.source_index])
    return NamedSkeletons(
        skeletons=joined([part.skeletons for part in parts]),
        digests=_joined([part.digests for part in parts], np.uint64),
        hand_ids=tuple([hand_id for part in parts for hand_id in part.hand_ids]),
        source_index=_joined(source_index, np.int64),
        sources=tuple(sources),
    )


def skeletons_of(hands: Sequence[CanonicalHand]) -> NamedSkeletons:
    """Return the skeletons of hands, in order."""
    stream, chips = array("H"), array("d")
    lengths: list[int] = []
    sources: dict[str, int] = {}
    for hand in hands:
        stream_of_hand, chips_of_hand = skeleton(hand)
        stream.fromlist(stream_of_hand)
        chips.fromlist(chips_of_hand)
        lengths.append(len(stream_of_hand))
    tokens_of_hands = np.array(stream, dtype=np.uint16)
    chips_of_hands = np.array(chips, dtype=np.float64)
    length = np.array(lengths, dtype=np.int64)
    players = np.array([len(hand.stacks) for hand in hands], dtype=np.int64)
    combos = np.array([_COMBO_OF_HOLE[hole] for hand in hands for hole in hand.hole_cards], dtype=np.int16)
    is_shown = np.array([label is _SHOWN for hand in hands for label in hand.label_sources], dtype=np.bool_)
    blinds = np.array([(hand.small_blind, hand.big_blind, hand.ante) for hand in hands], dtype=np.float64).reshape(-1, 3)
    return NamedSkeletons(
        skeletons=Skeletons(
            tokens=tokens_of_hands,
            values=(chips_of_hands / np.repeat(blinds[:, 1], length)).astype(np.float32),
            lengths=length,
            num_players=players,
            combos=combos,
            is_shown=is_shown,
        ),
        digests=digests(
            tokens_of_hands,
            chips_of_hands,
            length,
            blinds=blinds,
            num_players=players,
            combos=combos,
            is_shown=is_shown,
            seat_numbers=np.array([seat & _WORD for hand in hands for seat in hand.seat_numbers], dtype=np.uint64),
            collected=np.array([won for hand in hands for won in hand.collected], dtype=np.float64),
        ),
        hand_ids=tuple([hand.hand_id for hand in hands]),
        source_index=np.array([sources.setdefault(hand.source, len(sources)) for hand in hands], dtype=np.int64),
        sources=tuple(sources),
    )


def skeleton(hand: CanonicalHand) -> tuple[list[int], list[float]]:
    """Return one hand's tokens and chips, uncut, with every hole slot hidden."""
    n = len(hand.stacks)
    stream = [tokens.BOS, *_SIT[:n], _IS_BUTTON[hand.button], tokens.PREFLOP, *_HIDE[:n]]
    chips = [0.0, *hand.stacks, *_NO_CHIPS[: n + 2]]
    for kind, seat, added, is_all_in, board in hand.events:
        if board:
            stream.append(_MARKS[kind])
            stream += [tokens.COMMUNITY_OFFSET + card for card in board]
            chips += _NO_CHIPS[: len(board) + 1]
        else:
            stream.append(_EVENT_TOKENS[kind][seat + MAX_SEATS if is_all_in else seat])
            chips.append(added)
    return stream, chips


def first_slot(num_players: int) -> int:
    """Return the position of seat 0's hole slot: after bos, the sits, the button and the preflop mark."""
    return num_players + 3


def digests(
    tokens_of_hands: npt.NDArray[np.uint16],
    chips: npt.NDArray[np.float64],
    lengths: npt.NDArray[np.int64],
    *,
    blinds: npt.NDArray[np.float64],
    num_players: npt.NDArray[np.int64],
    combos: npt.NDArray[np.int16],
    is_shown: npt.NDArray[np.bool_],
    seat_numbers: npt.NDArray[np.uint64],
    collected: npt.NDArray[np.float64],
) -> npt.NDArray[np.uint64]:
    """Return a 64-bit digest of each hand: a sum of mixed words, each of which knows its place.

    It tells hands of one id apart for the records' sake; nothing relies on it against an adversary.

    Args:
        tokens_of_hands: (P,) of skeletons.
        chips: (P,) as the source wrote them.
        lengths: (H,) positions.
        blinds: (H, 3) small, big, ante.
        num_players: (H,)
        combos: (S,) hole cards.
        is_shown: (S,)
        seat_numbers: (S,) the source's own.
        collected: (S,) chips won.
    """
    if not len(lengths):
        return np.zeros(0, dtype=np.uint64)
    starts = np.cumsum(lengths) - lengths
    words = _bits(chips) ^ (tokens_of_hands.astype(np.uint64) << np.uint64(40))
    words += _places(lengths, starts)
    total: npt.NDArray[np.uint64] = np.add.reduceat(_mixed(words), starts)
    first_seat = np.cumsum(num_players) - num_players
    words = _bits(collected) ^ (combos.astype(np.uint64) << np.uint64(36)) ^ (is_shown.astype(np.uint64) << np.uint64(35))
    words ^= seat_numbers << np.uint64(20)
    words += _places(num_players, first_seat)
    total += _mixed(np.add.reduceat(_mixed(words), first_seat))
    for column in range(blinds.shape[1]):
        total = _mixed(total ^ _bits(np.ascontiguousarray(blinds[:, column])))
    return total


def ragged_rows(lengths: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return where the items of the chosen ``rows`` (M,) lie in a flat array of rows of these ``lengths`` (H,), end to end."""
    chosen = lengths[rows]
    ends = np.cumsum(chosen)
    starts = np.cumsum(lengths) - lengths
    total = int(ends[-1]) if len(ends) else 0
    positions: npt.NDArray[np.int64] = np.arange(total, dtype=np.int64) + np.repeat(starts[rows] - (ends - chosen), chosen)
    return positions


def _joined(parts: Sequence[npt.NDArray[_Item]], dtype: type[_Item]) -> npt.NDArray[_Item]:
    return np.concatenate([np.zeros(0, dtype=dtype), *parts])


def _bits(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.uint64]:
    return (numbers + 0.0).view(np.uint64)  # -0.0 and 0.0 are the same chips


def _places(lengths: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return a constant for the place of each item in its row."""
    place = np.arange(int(lengths.sum()), dtype=np.int64) - np.repeat(starts, lengths)
    return place.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def _mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the words with every bit spread over all (the finaliser of MurmurHash3)."""
    mixed = words ^ (words >> np.uint64(33))
    mixed *= np.uint64(0xFF51AFD7ED558CCD)
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(0xC4CEB9FE1A85EC53)
    mixed ^= mixed >> np.uint64(33)
    return mixed


def _seat_tokens(action: BaseAction) -> tuple[int, ...]:
    return tuple(tokens.seat_token(action, seat) for seat in range(MAX_SEATS))


def _event_tokens() -> tuple[tuple[int, ...], ...]:
    """Return, by kind of event, the tokens of the 16 seats and then those for when the action empties the seat's stack."""
    plain = {kind: BaseAction[kind.name] for kind in EventKind if kind not in BOARD_CARDS}
    return tuple(
        _seat_tokens(action) + _seat_tokens(BaseAction.ALL_IN if kind in VOLUNTARY_CHIPS else action)
        for kind, action in plain.items()
    )


_WORD: Final = 2**64 - 1
_SHOWN: Final = LabelSource.SHOWN
_COMBO_OF_HOLE: Final[dict[tuple[int, int] | None, int]] = {None: NO_COMBO} | {
    (int(lo), int(hi)): combo for combo, (lo, hi) in enumerate(cards.COMBO_CARDS)
}
_NO_CHIPS: Final = (0.0,) * (MAX_SEATS + 2)
_SIT: Final = _seat_tokens(BaseAction.SIT)
_IS_BUTTON: Final = _seat_tokens(BaseAction.IS_BUTTON)
_HIDE: Final = _seat_tokens(BaseAction.HIDE_HOLE)
_EVENT_TOKENS: Final = _event_tokens()
_MARKS: Final = {EventKind.FLOP: tokens.FLOP, EventKind.TURN: tokens.TURN, EventKind.RIVER: tokens.RIVER}
EVENT_TOKENS: Final = np.array(_EVENT_TOKENS, dtype=np.uint16)  # (7 kinds, 32): the 16 seats, then all-in
