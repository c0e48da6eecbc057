"""From a hand to its reads: who reads whom, and the stream of tokens and values that a reader sees.

The stream is ``bos, sit x n, is_button, preflop``, one hole slot per seat, then everything public in the order in which it
happened: posts, actions, board deals (those of an all-in run-out included). Shown cards and results never become tokens, so
dealing the hidden seats other cards changes no input. All reads of a hand share one skeleton and differ in their hole slots
alone, which is why many hands are encoded as flat arrays and not read by read. Values are big blinds; chips end here.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from range_reader_core import cards, tokens
from range_reader_core.hand import BOARD_CARDS, VOLUNTARY_CHIPS, CanonicalHand, EventKind, LabelSource
from range_reader_core.reads import Reads
from range_reader_core.tokens import MAX_SEATS, BaseAction

ENCODER_VERSION: Final = "1"  # part of every cache key: raise it when the same hand would encode differently
MAX_POSITIONS: Final = 96
WATCHER: Final = 255  # perspective_seat of a read that sees no cards

_T = TypeVar("_T", np.int64, np.bool_)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRead:
    """The inputs of one read."""

    tokens: npt.NDArray[np.uint16]  # (T,)
    values: npt.NDArray[np.float32]  # (T,) big blinds
    num_cut: int  # positions beyond the limit


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodingCounts:
    """What became of the hands given to ``encode_hands``. Counts add up over parts with ``+``."""

    num_hands: int = 0  # hands given
    num_walks: int = 0  # dropped: nobody put in a voluntary chip
    num_unlabelled_hands: int = 0  # no read: no villain with known cards, or nobody else with known cards to read from
    num_reads: int = 0
    num_positions: int = 0  # of all reads, after the cut
    num_cut_reads: int = 0
    num_cut_positions: int = 0  # of all reads

    def __add__(self, other: "EncodingCounts") -> "EncodingCounts":
        """Return the sum, field by field."""
        return EncodingCounts(
            num_hands=self.num_hands + other.num_hands,
            num_walks=self.num_walks + other.num_walks,
            num_unlabelled_hands=self.num_unlabelled_hands + other.num_unlabelled_hands,
            num_reads=self.num_reads + other.num_reads,
            num_positions=self.num_positions + other.num_positions,
            num_cut_reads=self.num_cut_reads + other.num_cut_reads,
            num_cut_positions=self.num_cut_positions + other.num_cut_positions,
        )


def augment_hand(hand: CanonicalHand) -> tuple[tuple[int, int], ...]:
    """Return the (villain, perspective) pairs that the hand is read as, ascending.

    Both seats' cards are known. A seat that folded without a voluntary chip is no villain but remains a perspective. Empty
    where nobody put in a voluntary chip.
    """
    has_voluntary = {event.seat for event in hand.events if event.kind in VOLUNTARY_CHIPS}
    has_folded = {event.seat for event in hand.events if event.kind is EventKind.FOLD}
    if not has_voluntary:
        return ()
    known = [seat for seat, hole in enumerate(hand.hole_cards) if hole is not None]
    villains = [seat for seat in known if seat in has_voluntary or seat not in has_folded]
    return tuple((villain, perspective) for villain in villains for perspective in known if perspective != villain)


@dataclass(frozen=True, slots=True)
class HandEncoder:
    """Encodes hands into streams of at most ``max_positions``; what is longer is cut and counted.

    Raises:
        ValueError: on construction, when the hole slots of a full table would not fit.
    """

    max_positions: int = MAX_POSITIONS

    def __post_init__(self) -> None:
        """Check that the cut never falls before the events."""
        least = _first_slot(MAX_SEATS) + MAX_SEATS
        if self.max_positions < least:
            msg = f"max_positions must be at least {least}, so that {MAX_SEATS} hole slots fit; got {self.max_positions}"
            raise ValueError(msg)

    def encode(self, hand: CanonicalHand, villain: int, perspective: int | None) -> EncodedRead:
        """Return the inputs of one read; ``perspective=None`` hides every slot. The villain's cards need not be known.

        Raises:
            ValueError: a seat is not in the hand, both are the same, or the perspective's cards are unknown.
        """
        n = hand.num_players
        if not 0 <= villain < n or villain == perspective or (perspective is not None and not 0 <= perspective < n):
            msg = (
                f"hand {hand.hand_id}: expected two different seats in 0..{n - 1}, got villain {villain}, perspective {perspective}"
            )
            raise ValueError(msg)
        stream, chips = _skeleton(hand)
        stream[_first_slot(n) + villain] = _PREDICT[villain]
        if perspective is not None:
            hole = hand.hole_cards[perspective]
            if hole is None:
                msg = f"hand {hand.hand_id}: the cards of perspective seat {perspective} are unknown"
                raise ValueError(msg)
            stream[_first_slot(n) + perspective] = tokens.combo_token(cards.combo_index(*hole))
        kept = slice(self.max_positions)
        return EncodedRead(
            tokens=np.array(stream[kept], dtype=np.uint16),
            values=(np.array(chips[kept], dtype=np.float64) / hand.big_blind).astype(np.float32),
            num_cut=max(0, len(stream) - self.max_positions),
        )

    def encode_hands(self, hands: Sequence[CanonicalHand]) -> tuple[Reads, EncodingCounts]:
        """Return every read of the hands, hand by hand in the order of ``augment_hand``, and what was dropped or cut.

        Hands of one id share an entry of ``hand_ids``. Memory is about 20 bytes per position of the result, so a large
        corpus comes in parts.
        """
        stream, chips = array("H"), array("d")  # skeletons of all hands, end to end
        lengths: list[int] = []
        num_players: list[int] = []
        combos: list[int] = []  # of all seats of all hands
        sources_of_labels: list[LabelSource | None] = []
        hand_ids: dict[str, int] = {}
        sources: dict[str, int] = {}
        for hand in hands:
            stream_of_hand, chips_of_hand = _skeleton(hand)
            stream.fromlist(stream_of_hand)
            chips.fromlist(chips_of_hand)
            lengths.append(len(stream_of_hand))
            num_players.append(len(hand.stacks))
            combos += [_COMBO_OF_HOLE[hole] for hole in hand.hole_cards]
            sources_of_labels += hand.label_sources
        skeletons = np.array(stream, dtype=np.uint16)
        length = np.array(lengths, dtype=np.int64)  # (H,)
        players = np.array(num_players, dtype=np.int64)  # (H,)
        combo = _per_seat(np.array(combos, dtype=np.int64), players, fill=_NO_COMBO)  # (H, S)
        is_shown = _per_seat(
            np.array([label is _SHOWN for label in sources_of_labels], dtype=np.bool_), players, fill=False
        )  # (H, S)
        is_pair, is_walk = _pairs_of_hands(skeletons, length, combo != _NO_COMBO)
        of_hand, villain, perspective = np.nonzero(is_pair)  # (N,) each, in the order of ``augment_hand``

        kept = np.minimum(length, self.max_positions)[of_hand]  # (N,)
        offsets = np.concatenate([[0], np.cumsum(kept)])  # (N + 1,)
        start = (np.cumsum(length) - length)[of_hand]
        source_positions = np.arange(offsets[-1]) + np.repeat(start - offsets[:-1], kept)  # (P,)
        tokens_of_reads = skeletons[source_positions]
        first_slot = offsets[:-1] + _first_slot(0) + players[of_hand]
        tokens_of_reads[first_slot + villain] = _PREDICT[0] + villain
        tokens_of_reads[first_slot + perspective] = tokens.COMBO_OFFSET + combo[of_hand, perspective]
        big_blind = np.repeat(np.array([hand.big_blind for hand in hands], dtype=np.float64), length)
        values = (np.array(chips, dtype=np.float64) / big_blind).astype(np.float32)

        has_reads = np.bincount(of_hand, minlength=len(hands)) > 0  # (H,)
        read_hands = [hand for hand, is_read in zip(hands, has_reads.tolist(), strict=True) if is_read]
        hand_index = np.array([hand_ids.setdefault(hand.hand_id, len(hand_ids)) for hand in read_hands], dtype=np.int64)
        source_index = np.array([sources.setdefault(hand.source, len(sources)) for hand in read_hands], dtype=np.int64)
        of_read_hand = (np.cumsum(has_reads) - 1)[of_hand]
        reads = Reads(
            tokens=tokens_of_reads,
            values=values[source_positions],
            offsets=offsets,
            villain_combo=combo[of_hand, villain].astype(np.uint16),
            villain_seat=villain.astype(np.uint8),
            perspective_seat=perspective.astype(np.uint8),
            num_players=players[of_hand].astype(np.uint8),
            hand_index=hand_index[of_read_hand],
            hand_ids=tuple(hand_ids),
            source_index=source_index[of_read_hand],
            sources=tuple(sources),
            is_label_shown=is_shown[of_hand, villain],
        )
        num_cut = length[of_hand] - kept
        counts = EncodingCounts(
            num_hands=len(hands),
            num_walks=int(np.count_nonzero(is_walk)),
            num_unlabelled_hands=int(np.count_nonzero(~is_walk & ~has_reads)),
            num_reads=len(of_hand),
            num_positions=len(tokens_of_reads),
            num_cut_reads=int(np.count_nonzero(num_cut)),
            num_cut_positions=int(num_cut.sum()),
        )
        return reads, counts


def as_watched(reads: Reads) -> Reads:
    """Return the reads as a watcher without cards has them: one a hand and villain, every slot hidden but the villain's.

    Reads of one villain from several seats become one, the first. ``perspective_seat`` is ``WATCHER``.
    """
    keys = reads.hand_index * MAX_SEATS + reads.villain_seat
    kept = reads.take(np.sort(np.unique(keys, return_index=True)[1]))
    tokens_of_reads = kept.tokens.copy()
    shown = np.flatnonzero(tokens_of_reads >= tokens.COMBO_OFFSET)
    of_read = np.searchsorted(kept.offsets, shown, side="right") - 1
    seat = shown - kept.offsets[of_read] - _first_slot(0) - kept.num_players[of_read]
    tokens_of_reads[shown] = _HIDE[0] + seat
    return replace(kept, tokens=tokens_of_reads, perspective_seat=np.full(kept.num_reads, WATCHER, dtype=np.uint8))


def _first_slot(num_players: int) -> int:
    """Return the position of seat 0's hole slot: after bos, the sits, the button and the preflop mark."""
    return num_players + 3


def _pairs_of_hands(
    skeletons: npt.NDArray[np.uint16], length: npt.NDArray[np.int64], has_cards: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return ``augment_hand`` of many hands as (hand, villain, perspective) flags, and which hands are walks.

    Reads the uncut skeletons: a fold beyond the cut still counts.
    """
    action, seat = np.divmod(skeletons, MAX_SEATS)
    of_hand = np.repeat(np.arange(len(length)), length)
    is_voluntary = (action >= BaseAction.CALL) & (action <= BaseAction.ALL_IN)
    is_fold = action == BaseAction.FOLD
    has_voluntary = np.zeros(has_cards.shape, dtype=np.bool_)
    has_voluntary[of_hand[is_voluntary], seat[is_voluntary]] = True
    has_folded = np.zeros(has_cards.shape, dtype=np.bool_)
    has_folded[of_hand[is_fold], seat[is_fold]] = True
    is_walk = has_voluntary.sum(axis=1) == 0
    is_read = has_cards & (has_voluntary | ~has_folded) & ~is_walk[:, None]
    return is_read[:, :, None] & has_cards[:, None, :] & ~np.eye(MAX_SEATS, dtype=np.bool_), is_walk


def _per_seat(flat: npt.NDArray[_T], num_players: npt.NDArray[np.int64], *, fill: int) -> npt.NDArray[_T]:
    """Return a value per seat of all hands, end to end, as a table of shape (H, S) with ``fill`` where nobody sits."""
    table = np.full((len(num_players), MAX_SEATS), fill, dtype=flat.dtype)
    table[np.arange(MAX_SEATS) < num_players[:, None]] = flat
    return table


def _skeleton(hand: CanonicalHand) -> tuple[list[int], list[float]]:
    """Return tokens and chips, uncut, with every hole slot hidden."""
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


def _seat_tokens(action: BaseAction) -> tuple[int, ...]:
    return tuple(tokens.seat_token(action, seat) for seat in range(MAX_SEATS))


def _event_tokens() -> tuple[tuple[int, ...], ...]:
    """Return, by kind of event, the tokens of the 16 seats and then those for when the action empties the seat's stack."""
    plain = {kind: BaseAction[kind.name] for kind in EventKind if kind not in BOARD_CARDS}
    return tuple(
        _seat_tokens(action) + _seat_tokens(BaseAction.ALL_IN if kind in VOLUNTARY_CHIPS else action)
        for kind, action in plain.items()
    )


_SHOWN: Final = LabelSource.SHOWN
_NO_COMBO: Final = -1
_COMBO_OF_HOLE: Final[dict[tuple[int, int] | None, int]] = {None: _NO_COMBO} | {
    (int(lo), int(hi)): combo for combo, (lo, hi) in enumerate(cards.COMBO_CARDS)
}
_NO_CHIPS: Final = (0.0,) * (MAX_SEATS + 2)
_SIT: Final = _seat_tokens(BaseAction.SIT)
_IS_BUTTON: Final = _seat_tokens(BaseAction.IS_BUTTON)
_HIDE: Final = _seat_tokens(BaseAction.HIDE_HOLE)
_PREDICT: Final = _seat_tokens(BaseAction.PREDICT_HOLE)
_EVENT_TOKENS: Final = _event_tokens()
_MARKS: Final = {EventKind.FLOP: tokens.FLOP, EventKind.TURN: tokens.TURN, EventKind.RIVER: tokens.RIVER}
