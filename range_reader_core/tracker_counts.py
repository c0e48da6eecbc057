"""What a hand-history tracker counts: who came along which preflop line with which cards, and which hands took which action later.

A line is the villain's position, what it faces now, and its last two decisions before the flop with what each had faced. After
the flop each decision is counted by its context (street, what was faced, who had the initiative), the action, and the kind of
hand: how strong it was on that board as its holder saw it, and what it drew to. Counts of narrow groups lean on those of broader
ones. Everything comes from tokens and values; readers that use the counts are in ``tracker_baselines``.

Legend: ``B`` reads, ``T`` positions, ``E`` decisions after the flop, ``G`` boards, ``C`` = 1326 combos.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import torch

from range_reader_core import cards
from range_reader_core.baselines import StaticRangeReader
from range_reader_core.batching import Batch, DeviceReads
from range_reader_core.lines import POSITIONS, SITUATIONS, Betting, board_cards, last_index, read_betting, villain_position
from range_reader_core.masks import STREETS, is_supervised
from range_reader_core.reads import Reads
from range_reader_core.strength import DRAWS, board_draws, board_percentile
from range_reader_core.tokens import MAX_SEATS, BaseAction

ACTIONS: Final = ("fold", "check", "call", "small bet", "large bet", "all-in")
"""What a villain did; a raise is a bet of its size, a call that empties the stack is a call."""
FACED: Final = ("no bet", "small bet", "large bet", "raise")
"""What a villain faced after the flop."""
LARGE_BET: Final = 0.6  # of the pot; more is a large bet
STRENGTH_EDGES: Final = np.array([0.1, 0.25, 0.4, 0.55, 0.7, 0.82, 0.92, 0.97])
"""Where strength is cut: shares of the combos beaten. Finer at the top, where bets and raises live; chosen on val (2026-11)."""

NUM_KINDS: Final = (len(STRENGTH_EDGES) + 1) * len(DRAWS)  # of hand
NUM_CONTEXTS: Final = (len(STREETS) - 1) * len(FACED) * 2
_NUM_DECISIONS: Final = 1 + len(SITUATIONS) * len(ACTIONS)  # none yet, or what was faced and what was done
_LEVELS: Final = (len(POSITIONS) * _NUM_DECISIONS, _NUM_DECISIONS, 1)
"""What a line's number is divided by: last decision alone, with position, with the decision before; broad to narrow."""
_BATCH_READS: Final = 512
_MIX_STEPS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCounts:
    """Training villains by line and starting hand, from broad lines to narrow ones."""

    static: StaticRangeReader  # whatever they did
    lines: tuple[npt.NDArray[np.int64], ...]  # (K,) ascending, of each level
    counts: tuple[npt.NDArray[np.float64], ...]  # (K, 169) of each level, villains who came along the line

    @classmethod
    def fit(cls, reads: Reads) -> Self:
        """Count villains: one counts once in a line, from however many seats and at however many positions it is read there.

        Raises:
            ValueError: there are no reads.
        """
        static = StaticRangeReader.fit(reads)
        line_parts, class_parts = [], []
        for batch in _villains(reads):
            line = preflop_line(batch, read_betting(batch.tokens, batch.values))  # (B, T)
            row, position = is_supervised(batch.tokens).nonzero(as_tuple=True)
            visited = torch.unique(torch.stack([row, line[row, position]], dim=1), dim=0).numpy()
            line_parts.append(visited[:, 1])
            class_parts.append(cards.COMBO_CLASS[batch.targets.numpy()[visited[:, 0]]])
        line_of, class_of = np.concatenate(line_parts), np.concatenate(class_parts)
        levels = [_count_classes(line_of // divisor, class_of) for divisor in _LEVELS]
        return cls(static=static, lines=tuple(lines for lines, _ in levels), counts=tuple(counts for _, counts in levels))

    def combo_logp(self, lines: npt.NDArray[np.int64], smoothing_counts: float) -> npt.NDArray[np.float64]:
        """Return log-probabilities after each line (K,) before any card is seen, (K, 1326).

        Each level starts as ``smoothing_counts`` villains of the broader one. The broadest starts as villains of the mix of the
        static range and random hands that fits its line best: who checks a blind holds anything, whatever others enter with.
        """
        probabilities = np.zeros((len(lines), cards.NUM_CLASSES))
        for level, (divisor, known, counts) in enumerate(zip(_LEVELS, self.lines, self.counts, strict=True)):
            wanted = lines // divisor
            place = np.searchsorted(known, wanted).clip(max=len(known) - 1)
            seen = np.where((known[place] == wanted)[:, None], counts[place], 0.0)  # (K, 169)
            broader = probabilities if level else self._mixes(seen)
            probabilities = (seen + smoothing_counts * broader) / (seen.sum(axis=1, keepdims=True) + smoothing_counts)
        logp: npt.NDArray[np.float64] = np.log(probabilities / np.bincount(cards.COMBO_CLASS))[:, cards.COMBO_CLASS]
        return logp

    def _mixes(self, seen: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the likeliest mix of the static range and random hands for counts (K, 169), found by expectation maximisation."""
        static = np.bincount(cards.COMBO_CLASS, np.exp(self.static.combo_logp()))  # (169,)
        random = np.bincount(cards.COMBO_CLASS) / cards.NUM_COMBOS
        share = np.full((len(seen), 1), 0.5)  # of the static range
        num_seen = seen.sum(axis=1, keepdims=True)
        for _ in range(_MIX_STEPS):
            of_static = share * static / (share * static + (1 - share) * random)
            share = ((seen * of_static).sum(axis=1, keepdims=True) + 1) / (num_seen + 1)  # one villain of the static range
        return share * static + (1 - share) * random


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionCounts:
    """Training villains' decisions after the flop."""

    counts: npt.NDArray[np.float64]  # (NUM_CONTEXTS, len(ACTIONS), NUM_KINDS)

    @classmethod
    def fit(cls, reads: Reads) -> Self:
        """Count decisions: each counts once, from however many seats it is read."""
        shape = (NUM_CONTEXTS, len(ACTIONS), NUM_KINDS)
        counts = np.zeros(int(np.prod(shape)))
        for batch in _villains(reads):
            decisions = decisions_after_flop(batch, read_betting(batch.tokens, batch.values))
            kind = decisions.combo_kinds()[np.arange(len(decisions.row)), batch.targets.numpy()[decisions.row]]
            cell = (decisions.context * len(ACTIONS) + decisions.action) * NUM_KINDS + kind
            counts += np.bincount(cell, minlength=len(counts))
        return cls(counts=counts.reshape(shape))

    def logp(self, smoothing_counts: float) -> npt.NDArray[np.float64]:
        """Return the log-probability of each action in each context by kind of hand, of the shape of ``counts``.

        Frequencies by strength and draw start as ``smoothing_counts`` decisions of that strength, those as decisions of any hand,
        and these as one decision spread over all actions.
        """
        by_kind = self.counts.reshape(NUM_CONTEXTS, len(ACTIONS), -1, len(DRAWS))
        of_any_hand = by_kind.sum(axis=(2, 3), keepdims=True)
        broader = (of_any_hand + 1 / len(ACTIONS)) / (of_any_hand.sum(axis=1, keepdims=True) + 1)
        for seen in (by_kind.sum(axis=3, keepdims=True), by_kind):
            broader = (seen + smoothing_counts * broader) / (seen.sum(axis=1, keepdims=True) + smoothing_counts)
        logp: npt.NDArray[np.float64] = np.log(broader).reshape(self.counts.shape)
        return logp


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionsAfterFlop:
    """The villains' ``E`` decisions after the flop in a batch, in the order of rows and positions."""

    row: npt.NDArray[np.int64]  # (E,)
    position: npt.NDArray[np.int64]  # (E,)
    context: npt.NDArray[np.int64]  # (E,) 0..NUM_CONTEXTS - 1
    action: npt.NDArray[np.int64]  # (E,) into ACTIONS
    street: npt.NDArray[np.int64]  # (E,) into masks.STREETS
    board: npt.NDArray[np.int64]  # (E, 5) cards on the table in the order of their streets; -1 where not yet dealt

    def combo_kinds(self) -> npt.NDArray[np.int64]:
        """Return the kind of hand that every combo is on the board of each decision, (E, 1326) in 0..NUM_KINDS - 1."""
        kinds = np.zeros((len(self.row), cards.NUM_COMBOS), dtype=np.int64)
        for street in range(1, len(STREETS)):
            is_on_street = self.street == street
            if is_on_street.any():
                boards, inverse = np.unique(self.board[is_on_street, : street + 2], axis=0, return_inverse=True)
                strength = np.searchsorted(STRENGTH_EDGES, board_percentile(boards))  # NaN, of the dead, goes last
                kinds[is_on_street] = (strength * len(DRAWS) + board_draws(boards))[inverse.ravel()]
        return kinds


def preflop_line(batch: Batch, betting: Betting) -> torch.Tensor:
    """Number the line at each position, (B, T) int64; it stays as it is once the flop falls."""
    action = torch.where(betting.is_aggressive & (betting.action != BaseAction.ALL_IN), _ANY_RAISE, action_class(betting))
    decision = 1 + betting.situation_faced * len(ACTIONS) + action
    last = last_index(betting.is_villain & (betting.street == 0))  # (B, T)
    before = torch.cat([torch.full_like(last[:, :1], -1), last[:, :-1]], dim=1)
    previous = _at(before, last, otherwise=-1)
    facing = betting.situation.gather(1, last_index(betting.street == 0))
    line = facing * _NUM_DECISIONS + _at(decision, last, otherwise=0)
    line = line * len(POSITIONS) + villain_position(batch.tokens)[:, None]
    return line * _NUM_DECISIONS + _at(decision, previous, otherwise=0)


def decisions_after_flop(batch: Batch, betting: Betting) -> DecisionsAfterFlop:
    """Return the decisions that the villains of a batch take after the flop; ``betting`` is of the same batch."""
    is_own = betting.is_villain & (betting.street > 0)
    row, position = is_own.nonzero(as_tuple=True)
    bet = betting.to_call_bb / (betting.pot_bb - betting.to_call_bb).clamp(min=1e-9)
    before = betting.num_raises - betting.is_aggressive.long()
    faced = torch.where(before == 0, FACED.index("no bet"), torch.where(bet > LARGE_BET, _LARGE_FACED, _LARGE_FACED - 1))
    faced = torch.where(before > 1, FACED.index("raise"), faced)
    context = ((betting.street - 1) * len(FACED) + faced) * 2 + betting.has_initiative.long()
    street = betting.street[is_own].cpu().numpy()
    board = board_cards(batch.tokens)[row].cpu().numpy()
    return DecisionsAfterFlop(
        row=row.cpu().numpy(),
        position=position.cpu().numpy(),
        context=context[is_own].cpu().numpy(),
        action=action_class(betting)[is_own].cpu().numpy(),
        street=street,
        board=np.where(np.arange(board.shape[1]) < street[:, None] + 2, board, -1),
    )


def action_class(betting: Betting) -> torch.Tensor:
    """Return what each decision amounts to, (B, T) int64 into ``ACTIONS``; meaningless where the token is no decision."""
    size = betting.added_bb / betting.pot_bb.clamp(min=1e-9)
    bet = torch.where(size > LARGE_BET, _LARGE, _LARGE - 1)
    bet = torch.where(betting.action == BaseAction.ALL_IN, ACTIONS.index("all-in"), bet)
    action = torch.where(betting.is_aggressive, bet, ACTIONS.index("call"))
    action = torch.where(betting.action == BaseAction.CHECK, ACTIONS.index("check"), action)
    return torch.where(betting.action == BaseAction.FOLD, ACTIONS.index("fold"), action)


def _villains(reads: Reads) -> Iterator[Batch]:
    """Yield one read of each villain of each hand, alike in length within a batch, on the host."""
    _, first = np.unique(reads.hand_index * MAX_SEATS + reads.villain_seat, return_index=True)
    order = first[np.argsort(reads.lengths[first], kind="stable")]
    resident = DeviceReads.from_reads(reads, torch.device("cpu"))
    for start in range(0, len(order), _BATCH_READS):
        yield resident.batch(order[start : start + _BATCH_READS])


def _count_classes(
    line_of: npt.NDArray[np.int64], class_of: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the distinct lines (K,), ascending, and how often each class came along each, (K, 169)."""
    lines, inverse = np.unique(line_of, return_inverse=True)
    cells = np.bincount(inverse * cards.NUM_CLASSES + class_of, minlength=len(lines) * cards.NUM_CLASSES)
    return lines, cells.reshape(-1, cards.NUM_CLASSES).astype(np.float64)


def _at(state: torch.Tensor, index: torch.Tensor, *, otherwise: int) -> torch.Tensor:
    """Return the state (B, T) at an index (B, T) of the same read; ``otherwise`` where the index is -1."""
    return torch.where(index >= 0, state.gather(1, index.clamp(min=0)), otherwise)


_ANY_RAISE: Final = ACTIONS.index("large bet")  # before the flop a raise is a raise: telling sizes apart there gained nothing
_LARGE: Final = ACTIONS.index("large bet")
_LARGE_FACED: Final = FACED.index("large bet")
