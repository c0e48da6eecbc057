"""What the betting amounts to, read from tokens and values alone: positions, prices, who raised whom.

A stream says what each seat did; here it becomes what a player would call it: a limped pot, a 3-bet, the button. Like ``masks``
it needs no hand record, so it works on shards, and it looks at every position of a batch at once. An all-in is a raise where it
raises the price and a call where it does not, which only the chips can tell. Nothing here knows combos or readers.

Legend: ``B`` reads, ``T`` positions, ``S`` seats.
"""

from dataclasses import dataclass
from typing import Final

import torch

from range_reader_core import tokens
from range_reader_core.hand import BOARD_CARDS
from range_reader_core.masks import street_at
from range_reader_core.tokens import MAX_SEATS, BaseAction

POSITIONS: Final = (
    "button heads-up",
    "blind heads-up",
    "button",
    "small blind",
    "big blind",
    "cutoff",
    "hijack",
    "lojack",
    "early",
)
"""Seats by when they act before the flop; early is whoever acts before the lojack."""
SITUATIONS: Final = ("unopened", "limped", "raised", "3-bet", "4-bet+")
"""What a player faces before the flop."""

_BOARD_CARDS: Final = sum(BOARD_CARDS.values())
EPSILON_BB: Final = 1e-3  # values are float32 big blinds; a raise of less is rounding
PRICED_ACTIONS: Final = (BaseAction.POST_BLIND, BaseAction.CALL, BaseAction.BET, BaseAction.RAISE, BaseAction.ALL_IN)
RAISES: Final = (BaseAction.BET, BaseAction.RAISE)  # always; an all-in where the chips say so
CALLS: Final = (BaseAction.CALL, BaseAction.ALL_IN)  # an all-in that does not raise the price
FIRST_DECISION: Final = BaseAction.FOLD
LAST_DECISION: Final = BaseAction.ALL_IN  # the base actions between the two are all voluntary, a fold and a check included


@dataclass(frozen=True, slots=True, kw_only=True)
class Betting:
    """The state of the betting at every position of ``B`` reads; every field is (B, T). Padding keeps the last state."""

    street: torch.Tensor  # int64 into masks.STREETS
    is_decision: torch.Tensor  # bool, the token is a voluntary action, a fold or a check
    is_villain: torch.Tensor  # bool, and the villain's
    action: torch.Tensor  # int64, the token's BaseAction; meaningless where it has no seat
    is_aggressive: torch.Tensor  # bool, the token is a bet, a raise, or an all-in that raises the price
    num_raises: torch.Tensor  # int64, aggressive actions on this street so far, this one included; posts are none
    has_limper: torch.Tensor  # bool, somebody called before anybody raised, on this street so far, this token included
    pot_bb: torch.Tensor  # float64, all chips put in before this token
    added_bb: torch.Tensor  # float64, chips that this token adds
    to_call_bb: torch.Tensor  # float64, what the seat of this token owed before it acted; 0 for tokens without a seat
    has_initiative: torch.Tensor  # bool, the villain made the last aggressive action of the streets before this one
    has_checked: torch.Tensor  # bool, the villain checked earlier on this street

    @property
    def situation(self) -> torch.Tensor:
        """Return what whoever acts next before the flop faces, (B, T) int64 into ``SITUATIONS``."""
        return preflop_situation(self.num_raises, self.has_limper)

    @property
    def situation_faced(self) -> torch.Tensor:
        """Return what whoever acts at a decision before the flop has faced, (B, T) int64 into ``SITUATIONS``."""
        is_limp = self.is_decision & (self.num_raises == 0) & _is_call(self.action)
        # A limper in front remains one; the present limp alone is not what its author faced.
        has_limper = torch.where(is_limp, self.has_limper.roll(1, dims=1), self.has_limper)
        return preflop_situation(self.num_raises - self.is_aggressive.long(), has_limper)

    @property
    def is_check_raise(self) -> torch.Tensor:
        """Return where the villain raises after a check on the same street, (B, T) bool."""
        return self.is_villain & self.is_aggressive & self.has_checked


def villain_seat(stream: torch.Tensor) -> torch.Tensor:
    """Return the seat that each read of (B, T) tokens is about, (B,) int64; 0 where the stream names none."""
    first = int(BaseAction.PREDICT_HOLE) * MAX_SEATS
    is_predict = (stream >= first) & (stream < first + MAX_SEATS)
    return ((stream - first) * is_predict).sum(1)


def table_size(stream: torch.Tensor) -> torch.Tensor:
    """Return the number of players dealt in, (B,) int64, from (B, T) tokens."""
    return (_action(stream) == BaseAction.SIT).sum(1)


def num_opponents(stream: torch.Tensor) -> torch.Tensor:
    """Return how many seats other than the villain's have not folded at each position, (B, T) int64, from (B, T) tokens."""
    first = int(BaseAction.FOLD) * MAX_SEATS
    is_fold = (stream >= first) & (stream < first + MAX_SEATS)
    is_opponents_fold = is_fold & (stream - first != villain_seat(stream)[:, None])
    return table_size(stream)[:, None] - 1 - is_opponents_fold.long().cumsum(1)


def villain_position(stream: torch.Tensor) -> torch.Tensor:
    """Return the villain's position, (B,) int64 into ``POSITIONS``, from (B, T) tokens.

    Taken from the button and the table size; a dead button or blind is not noticed.
    """
    first = int(BaseAction.IS_BUTTON) * MAX_SEATS
    is_button = (stream >= first) & (stream < first + MAX_SEATS)
    button = ((stream - first) * is_button).sum(1)
    size = table_size(stream)
    return position(villain_seat(stream) - button, size)


def position(after_button: torch.Tensor, num_players: torch.Tensor) -> torch.Tensor:
    """Return the position, int64 into ``POSITIONS``, so many seats after the button at tables of these sizes; shapes broadcast."""
    after_button = after_button % num_players.clamp(min=1)  # 0 is the button
    big_blind = POSITIONS.index("big blind")
    before_button = (num_players - after_button).clamp(max=len(POSITIONS) - 1 - big_blind)
    ring = torch.where(after_button <= 2, POSITIONS.index("button") + after_button, big_blind + before_button)
    return torch.where(num_players == 2, after_button, ring)


def preflop_situation(num_raises: torch.Tensor, has_limper: torch.Tensor) -> torch.Tensor:
    """Return what so many raises make of a pot before the flop, int64 into ``SITUATIONS``; with none, whether anybody limped."""
    raised = (SITUATIONS.index("raised") - 1 + num_raises).clamp(max=len(SITUATIONS) - 1)
    return torch.where(num_raises == 0, has_limper.long(), raised)


def effective_stack_bb(stream: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return what the villain can lose to one opponent, (B,) float32: the smaller of its stack and the largest other one."""
    seat = stream % MAX_SEATS
    is_sit = _action(stream) == BaseAction.SIT
    is_own = seat == villain_seat(stream)[:, None]
    own = torch.where(is_sit & is_own, values, 0.0).amax(1)
    other = torch.where(is_sit & ~is_own, values, 0.0).amax(1)
    return torch.minimum(own, other)


def board_cards(stream: torch.Tensor) -> torch.Tensor:
    """Return the board of each read of (B, T) tokens in the order of its streets, (B, 5) int64; -1 where no card was dealt."""
    is_board = (stream >= tokens.COMMUNITY_OFFSET) & (stream < tokens.MARK_OFFSET)
    place = torch.where(is_board, is_board.cumsum(1) - 1, _BOARD_CARDS)  # a spare column for everything that is no card
    board = torch.full((len(stream), _BOARD_CARDS + 1), -1, dtype=torch.int64, device=stream.device)
    return board.scatter_(1, place, stream - tokens.COMMUNITY_OFFSET)[:, :_BOARD_CARDS]


def read_betting(stream: torch.Tensor, values: torch.Tensor) -> Betting:
    """Return the state of the betting at every position.

    Args:
        stream: (B, T) int64 tokens, right-padded.
        values: (B, T) float32 big blinds.

    Raises:
        ValueError: shapes or dtypes are not as above.
    """
    if values.shape != stream.shape or not values.is_floating_point():
        msg = f"read_betting: expected values of shape {tuple(stream.shape)}, got {values.dtype} {tuple(values.shape)}"
        raise ValueError(msg)
    street = street_at(stream)  # checks the stream
    action, seat = _action(stream), stream % MAX_SEATS
    is_seated = stream < tokens.NUM_SEAT_TOKENS
    is_decision = is_seated & (action >= FIRST_DECISION) & (action <= LAST_DECISION)
    is_villain = is_decision & (seat == villain_seat(stream)[:, None])
    starts = _street_starts(stream)  # (B, T)

    is_priced = is_seated & torch.isin(action, torch.tensor(PRICED_ACTIONS, device=stream.device))
    is_ante = is_seated & (action == BaseAction.POST_ANTE)
    added = torch.where(is_priced | is_ante, values.double(), 0.0)  # (B, T)
    own = torch.zeros((*stream.shape, MAX_SEATS), dtype=torch.float64, device=stream.device)
    own.scatter_(2, torch.where(is_seated, seat, 0)[:, :, None], torch.where(is_priced, added, 0.0)[:, :, None])
    committed = _since(own.cumsum(1), starts)  # (B, T, S) on this street, this token included
    price = committed.amax(2)  # (B, T) grows within a street
    price_before = _before(price, starts)
    owed = price_before - (committed - own).gather(2, seat[:, :, None])[:, :, 0]
    is_raise = (action == RAISES[0]) | (action == RAISES[1])
    is_raising_all_in = (action == BaseAction.ALL_IN) & (price > price_before + EPSILON_BB)
    is_aggressive = is_decision & (is_raise | is_raising_all_in)
    num_raises = _since(is_aggressive.long().cumsum(1), starts)
    is_limp = is_decision & (num_raises == 0) & _is_call(action)
    is_check = is_villain & (action == BaseAction.CHECK)
    return Betting(
        street=street,
        is_decision=is_decision,
        is_villain=is_villain,
        action=action,
        is_aggressive=is_aggressive,
        num_raises=num_raises,
        has_limper=_since(is_limp.long().cumsum(1), starts) > 0,
        pot_bb=added.cumsum(1) - added,
        added_bb=added,
        to_call_bb=torch.where(is_seated, owed.clamp(min=0.0), 0.0),
        has_initiative=_is_last_aggressor(is_aggressive, is_villain, starts),
        has_checked=_since(is_check.long().cumsum(1), starts) - is_check.long() > 0,
    )


def last_index(flags: torch.Tensor) -> torch.Tensor:
    """Return the latest position at or before each one where a flag (B, T) is set, (B, T) int64; -1 where there is none."""
    positions = torch.arange(flags.shape[1], device=flags.device)
    return torch.where(flags, positions, -1).cummax(1).values


def _action(stream: torch.Tensor) -> torch.Tensor:
    return stream.div(MAX_SEATS, rounding_mode="floor")


def _is_call(action: torch.Tensor) -> torch.Tensor:
    """Return where an action that does not raise the price puts chips in."""
    return (action == CALLS[0]) | (action == CALLS[1])


def _street_starts(stream: torch.Tensor) -> torch.Tensor:
    """Return the position of the mark that began the street of each position, (B, T); 0 before the flop."""
    return last_index((stream >= tokens.FLOP) & (stream <= tokens.RIVER)).clamp_(min=0)


def _since(total: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    """Return what a running total (B, T, ...) has grown by since the start of the street; nothing happens at a start itself."""
    index = starts if total.dim() == 2 else starts[:, :, None].expand(-1, -1, total.shape[2])
    return total - total.gather(1, index)


def _before(state: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    """Return the state one position earlier, (B, T); 0 at the start of a street."""
    previous = torch.zeros_like(state)
    previous[:, 1:] = state[:, :-1]
    positions = torch.arange(state.shape[1], device=state.device)
    return torch.where(starts == positions, 0.0, previous)


def _is_last_aggressor(is_aggressive: torch.Tensor, is_villain: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    last = last_index(is_aggressive)  # (B, T)
    at_start = last.gather(1, starts)
    return is_villain.gather(1, at_start.clamp(min=0)) & (at_start >= 0)
