"""The factored embedding: a position's vector is a sum of pieces, each of which is a poker concept.

Legend: ``B`` reads, ``T`` positions, ``D`` width, ``F`` = 8 features of a chip amount.
Everything but the chip amounts comes from the tokens: seat, place relative to the button, table size and players still
in are derived here, so they can never disagree with the actions they summarise. Table size and button are facts of the
whole stream (both stand before the hole slots); players still in are counted up to and including each position.
Hole combos have no rows: their vectors are composed from cards, ranks and shape. Attention lives in ``blocks``.
"""

import itertools
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from range_reader_core import cards
from range_reader_core.betting_embedding import NUM_PHI, BettingEmbedding, BettingFacts, betting_facts, phi
from range_reader_core.betting_walk import WalkedFacts, walk
from range_reader_core.tokens import (
    CHIP_ACTIONS,
    COMBO_OFFSET,
    MAX_SEATS,
    NUM_BASE_ACTIONS,
    NUM_SEAT_TOKENS,
    PREFLOP,
    VOCAB_SIZE,
    BaseAction,
)

NO_SEAT_ROW: Final = MAX_SEATS  # the row for "nobody" in the tables of seats
NUM_ACTION_ROWS: Final = NUM_BASE_ACTIONS + COMBO_OFFSET - NUM_SEAT_TOKENS
NUM_SEAT_ROWS: Final = MAX_SEATS + 1
_ALL: Final = slice(None)
_FEW_READS: Final = 4  # of so few the facts are walked


class PositionFacts(NamedTuple):
    """What the stream says at each position, as row numbers of the embedding's tables; each (B, T) int64."""

    seat: torch.Tensor  # 0..15, NO_SEAT_ROW where the token belongs to nobody
    relpos: torch.Tensor  # (seat - button) mod players, NO_SEAT_ROW where the token belongs to nobody
    num_players: torch.Tensor  # players dealt in
    num_live: torch.Tensor  # players who have not folded up to and including this position


class RangeReaderEmbedding(nn.Module):
    """Tokens and chip amounts -> vectors. At width ``D`` it holds ``211 D + 104 D`` numbers."""

    def __init__(self, width: int, *, reads_betting: bool = False) -> None:
        """Leave the weights unset; ``init_weights`` sets them."""
        super().__init__()
        self.action = nn.Parameter(torch.empty(NUM_ACTION_ROWS, width))
        self.seat = nn.Parameter(torch.empty(NUM_SEAT_ROWS, width))
        self.relpos = nn.Parameter(torch.empty(NUM_SEAT_ROWS, width))
        self.num_players = nn.Parameter(torch.empty(NUM_SEAT_ROWS, width))
        self.num_live = nn.Parameter(torch.empty(NUM_SEAT_ROWS, width))
        self.card = nn.Parameter(torch.empty(cards.NUM_CARDS, width))
        self.card_rank = nn.Parameter(torch.empty(len(cards.RANKS), width))
        self.combo_type = nn.Parameter(torch.empty(3, width))
        self.value = nn.Parameter(torch.empty(NUM_BASE_ACTIONS, width, NUM_PHI))
        self.betting = BettingEmbedding(width) if reads_betting else None
        tables = {
            "row_of_token": _row_of_token(),  # (1596,) row of the action table followed by the combos
            "seat_of_token": _seat_of_token(),  # (1596,)
            "chips_of_token": _chips_of_token(),  # (1596, 13) one-hot of the base action where it carries chips
            "combo_cards": torch.from_numpy(cards.COMBO_CARDS),  # (1326, 2)
            "combo_shape": torch.from_numpy(cards.COMBO_SHAPE),  # (1326,)
        }
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)

    row_of_token: torch.Tensor
    seat_of_token: torch.Tensor
    chips_of_token: torch.Tensor
    combo_cards: torch.Tensor
    combo_shape: torch.Tensor

    def position_facts(self, tokens: torch.Tensor) -> PositionFacts:
        """Return seat, button-relative place, table size and live players of each position, each (B, T) int64."""
        is_sit = tokens < MAX_SEATS  # (B, T): SIT is base action 0
        num_players = is_sit.sum(dim=1, keepdim=True)  # (B, 1)
        base = tokens // MAX_SEATS  # (B, T): equals a BaseAction below NUM_BASE_ACTIONS
        button = ((base == BaseAction.IS_BUTTON) * (tokens % MAX_SEATS)).sum(dim=1, keepdim=True)  # (B, 1)
        num_live = num_players - (base == BaseAction.FOLD).cumsum(dim=1)  # (B, T)

        # A visible combo belongs to the seat whose slot it stands in; slots follow `preflop` in seat order.
        preflop_at = (tokens == PREFLOP).int().argmax(dim=1, keepdim=True)  # (B, 1)
        slot = torch.arange(tokens.shape[1], device=tokens.device) - preflop_at - 1  # (B, T)
        seat = torch.where(tokens >= COMBO_OFFSET, slot, self.seat_of_token[tokens])  # (B, T)
        relpos = torch.where(seat == NO_SEAT_ROW, NO_SEAT_ROW, (seat - button) % num_players.clamp(min=1))  # (B, T)
        return PositionFacts(seat, relpos, num_players.expand_as(tokens), num_live)

    def combo_vectors(self, combos: torch.Tensor | slice = _ALL) -> torch.Tensor:
        """Return the vectors of hole combos, (1326, D) or those of (...) combos: both cards, both ranks and the shape."""
        card = self.card + self.card_rank.repeat_interleave(len(cards.SUITS), dim=0)  # (52, D)
        pair = functional.embedding(self.combo_cards[combos], card).sum(dim=-2)  # (..., 2, D) -> (..., D)
        return pair + functional.embedding(self.combo_shape[combos], self.combo_type)

    def forward(
        self, tokens: torch.Tensor, values: torch.Tensor, first: int = 0, walked: Sequence[WalkedFacts] | None = None
    ) -> torch.Tensor:
        """Return vectors (B, T, D) for tokens (B, T) int64 and chip amounts (B, T) float32 in big blinds.

        With ``first`` > 0 the vectors (B, T - first, D) of the positions from there on, which must come after the hole slots.
        ``walked`` are the facts of these positions, a read each, where the caller has walked the hand.
        """
        is_light = tokens.device.type == "cpu" and not torch.is_grad_enabled()
        if walked is None and is_light and len(tokens) <= _FEW_READS:
            walked = [walk(*row).facts(first) for row in zip(tokens.tolist(), values.tolist(), strict=True)]
        facts, of_betting = self._facts(tokens, values, first) if walked is None else self._walked(walked, tokens.device)
        tokens, values = tokens[:, first:], values[:, first:]
        chips = (self.chips_of_token[tokens].unsqueeze(-1) * phi(values).unsqueeze(-2)).flatten(2)  # (B, T, 13 * F)
        projection = self.value.transpose(1, 2).flatten(0, 1)  # (13, D, F) -> (13 * F, D)
        if is_light:
            x = self._summed_rows(tokens, facts, of_betting).addmm_(chips.flatten(0, 1), projection)
            if self.betting is not None and of_betting is not None:
                x.addmm_(phi(of_betting.amounts).flatten(2).flatten(0, 1), self.betting.amount)
            return x.view(*tokens.shape, -1)
        table = torch.cat([self.action, self.combo_vectors()])  # (75 + 1326, D)
        x = functional.embedding(self.row_of_token[tokens], table)  # (B, T, D)
        x = x + functional.embedding(facts.seat, self.seat) + functional.embedding(facts.relpos, self.relpos)
        x = x + functional.embedding(facts.num_players, self.num_players) + functional.embedding(facts.num_live, self.num_live)
        x = x + chips @ projection
        return x if self.betting is None or of_betting is None else x + self.betting(of_betting)

    def _facts(self, tokens: torch.Tensor, values: torch.Tensor, first: int) -> tuple[PositionFacts, BettingFacts | None]:
        """Return the facts of the positions from ``first`` on, of a batch."""
        facts = self.position_facts(tokens)
        of_betting = None if self.betting is None else betting_facts(tokens, values, facts.seat, facts.relpos, first)
        return PositionFacts(*(fact[:, first:] for fact in facts)), of_betting

    def _walked(self, walked: Sequence[WalkedFacts], device: torch.device) -> tuple[PositionFacts, BettingFacts | None]:
        """Return facts that were walked as tensors."""
        rows = torch.tensor([facts.rows for facts in walked], device=device).unbind(dim=2)  # 9 of (B, S)
        if self.betting is None:
            return PositionFacts(*rows[:4]), None
        role, situation, position, villain_position, initiative = rows[4:]
        amounts = torch.tensor([facts.amounts for facts in walked], device=device)
        return PositionFacts(*rows[:4]), BettingFacts(role, situation, position, villain_position, initiative, amounts)

    def _summed_rows(self, tokens: torch.Tensor, facts: PositionFacts, of_betting: BettingFacts | None) -> torch.Tensor:
        """Return the sum (B * T, D) of what ``forward`` looks up, in one pass over all tables instead of two a table.

        For a CPU without gradients. A stream shows one hand at most, so combo vectors are made where they stand alone.
        """
        is_combo = tokens >= COMBO_OFFSET  # (B, T)
        tables = [self.action, self.seat, self.relpos, self.num_players, self.num_live]
        columns = [self.row_of_token[tokens], *facts]
        if self.betting is not None and of_betting is not None:
            tables += self.betting.tables()
            columns += of_betting[:-1]
        first_rows = list(itertools.accumulate((len(table) for table in tables), initial=0))
        rows = torch.stack([column.expand_as(tokens) for column in columns], dim=2).flatten(0, 1)  # (B * T, K)
        rows += torch.tensor(first_rows[:-1])
        rows[:, 0].masked_fill_(is_combo.flatten(), first_rows[-1])  # the row of zeros
        table = torch.cat([*tables, self.action.new_zeros(1, self.action.shape[1])])
        x = functional.embedding_bag(rows, table, mode="sum")  # (B * T, D)
        x[is_combo.flatten()] += self.combo_vectors(tokens[is_combo] - COMBO_OFFSET)
        return x


def _row_of_token() -> torch.Tensor:
    row = np.arange(VOCAB_SIZE)
    is_seat_token = row < NUM_SEAT_TOKENS
    return torch.from_numpy(np.where(is_seat_token, row // MAX_SEATS, row - NUM_SEAT_TOKENS + NUM_BASE_ACTIONS))


def _seat_of_token() -> torch.Tensor:
    token = np.arange(VOCAB_SIZE)
    return torch.from_numpy(np.where(token < NUM_SEAT_TOKENS, token % MAX_SEATS, NO_SEAT_ROW))


def _chips_of_token() -> torch.Tensor:
    one_hot = torch.zeros(VOCAB_SIZE, NUM_BASE_ACTIONS)
    for action in CHIP_ACTIONS:
        one_hot[action * MAX_SEATS : (action + 1) * MAX_SEATS, action] = 1.0
    return one_hot
