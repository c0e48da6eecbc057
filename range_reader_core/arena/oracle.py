"""The best possible read of an arena hand: Bayes' rule over the very policies that played it.

P(villain's combo | history, perspective's cards) is the product of how often the villain's style does what the villain did with
each combo, and of how likely the others' actions are given that the villain holds it. Of the others only the cards that they take
from one another matter: each is summed over on its own, over the hands that leave the villain's, the perspective's and the board's
cards alone. That is exact for two and three players dealt in; with more it ignores that two hidden hands cannot share a card.
Styles are known, or each player's is drawn anew from a prior and summed over. All sums are of logarithms.

Legend: ``B`` reads of a batch, ``N`` positions, ``D`` decisions, ``C`` = 1326 combos, ``U`` distinct states of hidden players.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from range_reader_core import cards
from range_reader_core.arena.betting import NOBODY, NUM_SEATS
from range_reader_core.arena.deal import BOARD_SIZE
from range_reader_core.arena.policy import Holdings, Policy
from range_reader_core.arena.preflop_order import COMBO_QUANTILE
from range_reader_core.arena.public_record import PublicRecord, replay_reads
from range_reader_core.batching import Batch
from range_reader_core.strength import board_draws, board_percentile

KNOWN: Final = "oracle, styles known"
UNKNOWN: Final = "oracle, styles unknown"

_MAX_RECENT: Final = 512  # hands, 0.1 MB each
_DECISIONS_AT_ONCE: Final = 64  # of 1326 combos and 5 sizes: 3 MB a temporary
_LEAST_SHARE: Final = 1e-13  # of the weight of all hands; what is left of a subtraction below it is rounding
_CLASS_COMBO: Final = np.array([int(np.flatnonzero(index == cards.COMBO_CLASS)[0]) for index in range(cards.NUM_CLASSES)])

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]
_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleReader:
    """Reads what the arena dealt; implements ``evaluation.Reader``."""

    policy: Policy
    big_blind: int  # chips
    hand_index: _Ints  # (reads,) by ``Batch.read_index``: reads of one hand share what its players' actions say
    styles: _Ints | None  # (reads, S) who sits where; None: not known
    prior: _Floats  # (styles,) how often each style is dealt, where they are not known
    recent: dict[int, _Floats] = field(default_factory=dict, repr=False)  # likelihoods of the hands read lately

    @property
    def name(self) -> str:
        """What the rows of the tables call this reader."""
        return UNKNOWN if self.styles is None else KNOWN

    def position_logp(self, batch: Batch, rows: torch.Tensor, positions: torch.Tensor, is_live: torch.Tensor) -> torch.Tensor:
        """Return log-probabilities over the combos left at each position, float32 (N, C), -inf on dead combos.

        Raises:
            ValueError: a read that the arena cannot have dealt.
        """
        record = replay_reads(batch.tokens.cpu().numpy(), batch.values.cpu().double().numpy(), self.big_blind)
        likelihood = self._likelihoods(record, batch.read_index.cpu().numpy())  # (D, C)
        logp = _posterior(record, likelihood, rows.cpu().numpy(), positions.cpu().numpy(), is_live.cpu().numpy())
        return torch.from_numpy(logp).to(is_live.device, torch.float32)

    def _likelihoods(self, record: PublicRecord, read_index: _Ints) -> _Floats:
        """Return ``_likelihood``, worked out once for all reads of a hand that are alike in length, as batches hold them."""
        hands = self.hand_index[read_index]  # (B,)
        _, first = np.unique(hands, return_index=True)
        fresh = np.array([row for row in first.tolist() if int(hands[row]) not in self.recent], dtype=np.int64)
        part = record.take(np.flatnonzero(np.isin(record.row, fresh)))
        if len(part.row):
            found = self._likelihood(part, None if self.styles is None else self.styles[read_index])
            for row in fresh.tolist():
                self.recent[int(hands[row])] = found[part.row == row]
        needed = [self.recent[int(hand)] for hand in hands if int(hand) in self.recent]
        while len(self.recent) > _MAX_RECENT:
            self.recent.pop(next(iter(self.recent)))
        return np.concatenate(needed)

    def _likelihood(self, record: PublicRecord, styles: _Ints | None) -> _Floats:
        """Return the log-probability, given each combo, of what the player did up to and with each decision, (D, C)."""
        if styles is not None:
            total = _running_sum(record, action_logp(self.policy, record, styles[record.row, record.seat]))
            self._check_possible(record, total)
            return total
        total = np.full((len(record.row), cards.NUM_COMBOS), -np.inf)
        for style, share in enumerate(self.prior.tolist()):
            if share > 0:
                one = _running_sum(record, action_logp(self.policy, record, np.full(len(record.row), style)))
                total = np.logaddexp(total, one + np.log(share))
        self._check_possible(record, total)
        return total

    def _check_possible(self, record: PublicRecord, likelihood: _Floats) -> None:
        is_impossible = np.isneginf(likelihood).all(axis=1)
        if is_impossible.any():
            index = int(np.flatnonzero(is_impossible)[0])
            msg = (
                f"{self.name}: read {record.row[index]}, position {record.position[index]}: no hand puts in "
                f"{record.chips[index]} chips here; the hand was dealt with other styles"
            )
            raise ValueError(msg)


def action_logp(policy: Policy, record: PublicRecord, styles: _Ints) -> _Floats:
    """Return the log-probability of each decision given each combo of the player, (D, C); -inf for sizes a style never bets.

    Args:
        policy: what the styles do.
        record: the decisions.
        styles: (D,) of whoever decides.

    """
    logp = np.empty((len(styles), cards.NUM_COMBOS))
    is_preflop = record.state.street == 0
    for rows in _parts(np.flatnonzero(is_preflop)):
        quantile = np.broadcast_to(COMBO_QUANTILE[_CLASS_COMBO], (len(rows), cards.NUM_CLASSES))
        held = Holdings(quantile=quantile, percentile=np.zeros_like(quantile), draw=np.zeros(quantile.shape, dtype=np.int64))
        logp[rows] = _taken(policy, record, styles, rows, held)[:, cards.COMBO_CLASS]
    for street in (1, 2, 3):
        of_street = np.flatnonzero(record.state.street == street)
        boards, board = np.unique(record.boards[record.row[of_street], : BOARD_SIZE[street]], axis=0, return_inverse=True)
        if not len(of_street):
            continue
        percentile = np.nan_to_num(board_percentile(boards), nan=0.5).astype(np.float64)  # combos of board cards are dead anyway
        draw = board_draws(boards).astype(np.int64)
        for part in _parts(np.arange(len(of_street))):
            chosen = board.reshape(-1)[part]
            held = Holdings(
                quantile=np.broadcast_to(COMBO_QUANTILE, (len(part), cards.NUM_COMBOS)),
                percentile=percentile[chosen],
                draw=draw[chosen],
            )
            logp[of_street[part]] = _taken(policy, record, styles, of_street[part], held)
    return logp


def _taken(policy: Policy, record: PublicRecord, styles: _Ints, rows: _Ints, held: Holdings) -> _Floats:
    """Return the log-probability of what was done at some decisions, (n, combos asked for)."""
    state = record.state.take(rows)
    play = policy.frequencies(styles[rows], state, held)
    chips, is_fold = record.chips[rows], record.is_fold[rows]
    is_raise = state.committed + chips > state.highest
    is_size = policy.raise_chips(styles[rows], state) == chips[:, None]  # (n, K)
    raised = play.raise_ * (play.size * is_size[:, None, :]).sum(axis=2)
    taken = np.where(is_fold[:, None], play.fold, np.where(is_raise[:, None], raised, play.call))
    with np.errstate(divide="ignore"):  # a bet of a size that the style never makes
        result: _Floats = np.log(taken)
    return result


def _running_sum(record: PublicRecord, logp: _Floats) -> _Floats:
    """Add up each player's decisions so far, (D, C)."""
    total = logp.copy()
    player = record.row * NUM_SEATS + record.seat
    order = np.argsort(player, kind="stable")
    for before, after in pairwise(order.tolist()):
        if player[before] == player[after]:
            total[after] += total[before]
    return total


def _posterior(record: PublicRecord, likelihood: _Floats, rows: _Ints, positions: _Ints, is_live: _Bools) -> _Floats:
    """Return the log-probabilities at each position, (N, C)."""
    last = _last_decision(record, rows, positions)  # (N, S)
    place = np.arange(len(rows))
    villain, perspective = record.villain[rows], record.perspective[rows]
    of_villain = last[place, villain]
    logp = np.where((of_villain == NOBODY)[:, None], 0.0, likelihood[of_villain])
    others = last.copy()
    others[place, villain] = NOBODY
    has_perspective = perspective != NOBODY
    others[place[has_perspective], perspective[has_perspective]] = NOBODY

    at, seat = np.nonzero(others != NOBODY)
    num_dead = cards.NUM_COMBOS - np.count_nonzero(is_live, axis=1)  # tells how much of the board lies there
    keys = np.stack([others[at, seat], num_dead[at]], axis=1)
    unique, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    if len(unique):
        leaves = _leaves(likelihood[unique[:, 0]], is_live[at[first]])  # (U, C)
        for number in range(NUM_SEATS):
            chosen = seat == number
            logp[at[chosen]] += leaves[inverse.reshape(-1)[chosen]]
    logp = np.where(is_live, logp, -np.inf)
    logp -= logp.max(axis=1, keepdims=True)
    result: _Floats = logp - np.log(np.exp(logp).sum(axis=1, keepdims=True))
    return result


def _leaves(likelihood: _Floats, is_live: _Bools) -> _Floats:
    """Return the log-weight of a hidden player's hands that a villain's combo leaves possible, (U, C), up to a constant a row."""
    weight = np.where(is_live, likelihood, -np.inf)
    weight = np.exp(weight - weight.max(axis=1, keepdims=True))
    total = weight.sum(axis=1, keepdims=True)
    by_card = weight @ _HAS_CARD  # (U, 52)
    left = total - by_card[:, cards.COMBO_CARDS[:, 0]] - by_card[:, cards.COMBO_CARDS[:, 1]] + weight
    result: _Floats = np.log(np.maximum(left, _LEAST_SHARE * total))
    return result


def _last_decision(record: PublicRecord, rows: _Ints, positions: _Ints) -> _Ints:
    """Return each seat's last decision at or before each position, (N, S); NOBODY where it had none."""
    last = np.full((len(rows), NUM_SEATS), NOBODY)
    start = np.searchsorted(record.row, rows, side="left")
    stop = np.searchsorted(record.row, rows, side="right")
    for step in range(int((stop - start).max(initial=0))):
        index = start + step
        is_in = index < stop
        is_in[is_in] = record.position[index[is_in]] <= positions[is_in]
        last[np.flatnonzero(is_in), record.seat[index[is_in]]] = index[is_in]
    return last


def _parts(rows: _Ints) -> Iterator[_Ints]:
    for start in range(0, len(rows), _DECISIONS_AT_ONCE):
        yield rows[start : start + _DECISIONS_AT_ONCE]


_HAS_CARD: Final = cards.COMBO_HAS_CARD.astype(np.float64)
