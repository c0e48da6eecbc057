"""From a hand to its reads: who reads whom, and the stream of tokens and values that a reader sees.

The stream is ``bos, sit x n, is_button, preflop``, one hole slot per seat, then everything public in the order in which it
happened: posts, actions, board deals (those of an all-in run-out included). Shown cards and results never become tokens, so
dealing the hidden seats other cards changes no input. All reads of a hand share one skeleton (``skeletons``) and differ in their
hole slots alone, which is why many hands are encoded as flat arrays and not read by read. Values are big blinds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from range_reader_core import cards, tokens
from range_reader_core.hand import VOLUNTARY_CHIPS, CanonicalHand, EventKind
from range_reader_core.reads import Reads
from range_reader_core.skeletons import NO_COMBO, NamedSkeletons, Skeletons, first_slot, skeleton, skeletons_of
from range_reader_core.tokens import MAX_SEATS, BaseAction

ENCODER_VERSION: Final = "1"  # part of every cache key: raise it when the same hand would encode differently
MAX_POSITIONS: Final = 96
BLOCK_READS: Final = 1 << 11  # made at a time
WATCHER: Final = 255  # perspective_seat of a read that sees no cards


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
        least = first_slot(MAX_SEATS) + MAX_SEATS
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
        stream, chips = skeleton(hand)
        stream[first_slot(n) + villain] = _PREDICT + villain
        if perspective is not None:
            hole = hand.hole_cards[perspective]
            if hole is None:
                msg = f"hand {hand.hand_id}: the cards of perspective seat {perspective} are unknown"
                raise ValueError(msg)
            stream[first_slot(n) + perspective] = tokens.combo_token(cards.combo_index(*hole))
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
        named = skeletons_of(hands)
        pairs = pairs_of(named.skeletons)
        return self.reads_of(named, pairs), self.counts_of(named.skeletons, pairs)

    def reads_of(self, named: NamedSkeletons, pairs: "Pairs") -> Reads:
        """Return the reads of these pairs, in their order."""
        skeletons, of_hand = named.skeletons, pairs.of_hand
        tokens_of_reads, values, offsets = self.inputs_of(skeletons, pairs)
        read_hands, hand_of_read = np.unique(of_hand, return_inverse=True)
        hand_ids: dict[str, int] = {}
        sources: dict[str, int] = {}
        hand_index = [hand_ids.setdefault(named.hand_ids[hand], len(hand_ids)) for hand in read_hands.tolist()]
        source_index = [
            sources.setdefault(named.sources[source], len(sources)) for source in named.source_index[read_hands].tolist()
        ]
        villain_seat = pairs.villain_places(skeletons)
        return Reads(
            tokens=tokens_of_reads,
            values=values,
            offsets=offsets,
            villain_combo=skeletons.combos[villain_seat].astype(np.uint16),
            villain_seat=pairs.villain.astype(np.uint8),
            perspective_seat=pairs.perspective.astype(np.uint8),
            num_players=skeletons.num_players[of_hand].astype(np.uint8),
            hand_index=np.array(hand_index, dtype=np.int64)[hand_of_read],
            hand_ids=tuple(hand_ids),
            source_index=np.array(source_index, dtype=np.int64)[hand_of_read],
            sources=tuple(sources),
            is_label_shown=skeletons.is_shown[villain_seat],
        )

    def inputs_of(
        self, skeletons: Skeletons, pairs: "Pairs"
    ) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Return tokens (P,), values (P,) and offsets (N + 1,) of the reads of these pairs, in their order."""
        of_hand = pairs.of_hand
        kept = np.minimum(skeletons.lengths, self.max_positions)[of_hand]  # (N,)
        offsets = np.concatenate([[0], np.cumsum(kept)])  # (N + 1,)
        start = (np.cumsum(skeletons.lengths) - skeletons.lengths)[of_hand]
        tokens_of_reads = np.empty(offsets[-1], dtype=np.uint16)  # (P,)
        values = np.empty(offsets[-1], dtype=np.float32)  # (P,)
        for first in range(0, len(kept), BLOCK_READS):  # so that the positions stay in the processor's cache
            block = slice(first, first + BLOCK_READS)
            begin, end = offsets[first], offsets[min(first + BLOCK_READS, len(kept))]
            positions = np.arange(begin, end) + np.repeat(start[block] - offsets[:-1][block], kept[block])
            np.take(skeletons.tokens, positions, out=tokens_of_reads[begin:end], mode="clip")
            np.take(skeletons.values, positions, out=values[begin:end], mode="clip")
        first_seat = np.cumsum(skeletons.num_players) - skeletons.num_players
        slot = offsets[:-1] + first_slot(0) + skeletons.num_players[of_hand]
        tokens_of_reads[slot + pairs.villain] = _PREDICT + pairs.villain
        seen = skeletons.combos[first_seat[of_hand] + pairs.perspective].astype(np.int64)
        tokens_of_reads[slot + pairs.perspective] = tokens.COMBO_OFFSET + seen
        return tokens_of_reads, values, offsets

    def counts_of(self, skeletons: Skeletons, pairs: "Pairs") -> EncodingCounts:
        """Return what becomes of hands that are read as these pairs, all of theirs."""
        length = skeletons.lengths[pairs.of_hand]
        num_cut = np.maximum(0, length - self.max_positions)
        has_reads = np.bincount(pairs.of_hand, minlength=skeletons.num_hands) > 0
        return EncodingCounts(
            num_hands=skeletons.num_hands,
            num_walks=int(np.count_nonzero(pairs.is_walk)),
            num_unlabelled_hands=int(np.count_nonzero(~pairs.is_walk & ~has_reads)),
            num_reads=len(pairs.of_hand),
            num_positions=int((length - num_cut).sum()),
            num_cut_reads=int(np.count_nonzero(num_cut)),
            num_cut_positions=int(num_cut.sum()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Who reads whom in many hands; ascending by hand, villain, perspective."""

    of_hand: npt.NDArray[np.int64]  # (N,)
    villain: npt.NDArray[np.int64]  # (N,) seats
    perspective: npt.NDArray[np.int64]  # (N,) seats
    is_walk: npt.NDArray[np.bool_]  # (H,) nobody put in a voluntary chip

    def take(self, order: npt.NDArray[np.int64]) -> "Pairs":
        """Return some of the pairs, in the order of these numbers, (M,)."""
        return replace(self, of_hand=self.of_hand[order], villain=self.villain[order], perspective=self.perspective[order])

    def villain_places(self, skeletons: Skeletons) -> npt.NDArray[np.int64]:
        """Return where each pair's villain is among the seats of all hands, (N,)."""
        first_seat = np.cumsum(skeletons.num_players) - skeletons.num_players
        places: npt.NDArray[np.int64] = first_seat[self.of_hand] + self.villain
        return places


def pairs_of(skeletons: Skeletons) -> Pairs:
    """Return ``augment_hand`` of many hands. Looks at uncut skeletons: a fold beyond the cut still counts."""
    length, players = skeletons.lengths, skeletons.num_players
    width = int(players.max(initial=1))  # seats that anybody sits in
    has_cards = np.zeros((len(length), width), dtype=np.bool_)
    has_cards[np.arange(width) < players[:, None]] = skeletons.combos != NO_COMBO
    acting = np.flatnonzero(skeletons.tokens - np.uint16(_FIRST_FOLD) < _END_ALL_IN - _FIRST_FOLD)  # below it wraps around
    action, seat = np.divmod(skeletons.tokens[acting], MAX_SEATS)
    place = np.repeat(np.arange(len(length)) * width, length)[acting] + seat
    has_voluntary = np.zeros(has_cards.shape, dtype=np.bool_)
    has_voluntary.reshape(-1)[place[action >= BaseAction.CALL]] = True
    has_folded = np.zeros(has_cards.shape, dtype=np.bool_)
    has_folded.reshape(-1)[place[action == BaseAction.FOLD]] = True
    is_walk: npt.NDArray[np.bool_] = ~np.any(has_voluntary, axis=1)
    is_villain = has_cards & (has_voluntary | ~has_folded) & ~is_walk[:, None]
    # Pairs are few: spread each villain over the seats of its hand, and keep those with cards.
    hand, villain = np.nonzero(is_villain)
    row, perspective = np.nonzero(has_cards[hand])
    is_other = perspective != villain[row]
    row, perspective = row[is_other], perspective[is_other]
    return Pairs(of_hand=hand[row], villain=villain[row], perspective=perspective, is_walk=is_walk)


def as_watched(reads: Reads) -> Reads:
    """Return the reads as a watcher without cards has them: one a hand and villain, every slot hidden but the villain's.

    Reads of one villain from several seats become one, the first. ``perspective_seat`` is ``WATCHER``.
    """
    keys = reads.hand_index * MAX_SEATS + reads.villain_seat
    kept = reads.take(np.sort(np.unique(keys, return_index=True)[1]))
    tokens_of_reads = kept.tokens.copy()
    shown = np.flatnonzero(tokens_of_reads >= tokens.COMBO_OFFSET)
    of_read = np.searchsorted(kept.offsets, shown, side="right") - 1
    seat = shown - kept.offsets[of_read] - first_slot(0) - kept.num_players[of_read]
    tokens_of_reads[shown] = _HIDE + seat
    return replace(kept, tokens=tokens_of_reads, perspective_seat=np.full(kept.num_reads, WATCHER, dtype=np.uint8))


_FIRST_FOLD: Final = int(BaseAction.FOLD) * MAX_SEATS
_END_ALL_IN: Final = (int(BaseAction.ALL_IN) + 1) * MAX_SEATS
_HIDE: Final = tokens.seat_token(BaseAction.HIDE_HOLE, 0)
_PREDICT: Final = tokens.seat_token(BaseAction.PREDICT_HOLE, 0)
