"""What the betting amounts to at each position, as vectors: who acts, in which position, facing what, for how much of the pot.

All of it follows from the tokens and amounts up to the position (``lines``) and from who is read by whom, so nothing is told that
the blocks could not work out; told outright, it need not be learned from few hands, and a small model can spend itself on cards.

Legend: ``B`` reads, ``T`` positions, ``D`` width, ``A`` = 6 amounts, ``F`` = 8 features of an amount.
"""

from typing import Final, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from range_reader_core.lines import POSITIONS, SITUATIONS, position, read_betting, villain_position, villain_seat
from range_reader_core.masks import STREETS
from range_reader_core.tokens import COMBO_OFFSET, MAX_SEATS

ROLES: Final = ("other", "villain", "perspective")
NUM_AMOUNTS: Final = 6
NUM_PHI: Final = 8
RATIO_SCALE: Final = 4.0  # a bet of the pot counts like four big blinds
MAX_RATIO: Final = 16.0
MIN_POT_BB: Final = 0.5  # a smaller pot counts as one of this size where it divides
NUM_SITUATIONS: Final = len(SITUATIONS)
NO_POSITION: Final = len(POSITIONS)


class BettingFacts(NamedTuple):
    """What the betting amounts to at ``S`` positions, as row numbers of the tables and amounts."""

    role: torch.Tensor  # (B, S) int64 into ROLES, of the seat of the token
    situation: torch.Tensor  # (B, S) int64, street and what is faced on it
    position: torch.Tensor  # (B, S) int64 into POSITIONS, NO_POSITION where the token has no seat
    villain_position: torch.Tensor  # (B, S or 1) int64 into POSITIONS
    initiative: torch.Tensor  # (B, S) int64, whether the villain has it
    amounts: torch.Tensor  # (B, S, A) float32


class BettingEmbedding(nn.Module):
    """Tokens and amounts -> vectors to be added to those of the tokens themselves."""

    def __init__(self, width: int) -> None:
        """Leave the weights unset; ``model.init_weights`` sets them."""
        super().__init__()
        self.role = nn.Parameter(torch.empty(len(ROLES), width))
        self.situation = nn.Parameter(torch.empty(len(STREETS) * NUM_SITUATIONS, width))
        self.position = nn.Parameter(torch.empty(len(POSITIONS) + 1, width))
        self.villain_position = nn.Parameter(torch.empty(len(POSITIONS), width))
        self.initiative = nn.Parameter(torch.empty(2, width))
        self.amount = nn.Parameter(torch.empty(NUM_AMOUNTS * NUM_PHI, width))

    def tables(self) -> tuple[nn.Parameter, ...]:
        """Return the tables of the row numbers, in the order of ``BettingFacts``."""
        return self.role, self.situation, self.position, self.villain_position, self.initiative

    def forward(self, facts: BettingFacts) -> torch.Tensor:
        """Return the vectors (B, S, D) of facts."""
        x = functional.embedding(facts.role, self.role)
        x = x + functional.embedding(facts.situation, self.situation)
        x = x + functional.embedding(facts.position, self.position)
        x = x + functional.embedding(facts.villain_position, self.villain_position)
        x = x + functional.embedding(facts.initiative, self.initiative)
        return x + phi(facts.amounts).flatten(2) @ self.amount


def betting_facts(tokens: torch.Tensor, values: torch.Tensor, seat: torch.Tensor, relpos: torch.Tensor, first: int) -> BettingFacts:
    """Return the facts of the positions from ``first`` on of streams (B, T); ``betting_walk`` has them of one hand."""
    betting = read_betting(tokens, values)
    villain = villain_seat(tokens).unsqueeze(1)  # (B, 1)
    is_shown = tokens >= COMBO_OFFSET
    perspective = torch.where(is_shown, seat, -1).amax(dim=1, keepdim=True)
    role = (seat == villain) * ROLES.index("villain") + (seat == perspective) * ROLES.index("perspective")
    num_players = (tokens < MAX_SEATS).sum(dim=1, keepdim=True)
    faced = torch.where(betting.street == 0, betting.situation, betting.num_raises.clamp(max=NUM_SITUATIONS - 1))

    is_own = seat == villain
    put_in = torch.where(is_own, betting.added_bb, 0.0).cumsum(dim=1)
    stack = torch.where(is_own & (tokens < MAX_SEATS), values, 0.0).sum(dim=1, keepdim=True)
    pot = betting.pot_bb + betting.added_bb
    left = (stack - put_in).clamp(min=0.0)
    size = (betting.added_bb * betting.is_decision / betting.pot_bb.clamp(min=MIN_POT_BB)).clamp(max=MAX_RATIO)
    odds = betting.to_call_bb / (betting.pot_bb + betting.to_call_bb).clamp(min=MIN_POT_BB)
    depth = (left / pot.clamp(min=MIN_POT_BB)).clamp(max=MAX_RATIO)
    amounts = torch.stack(
        [pot, betting.to_call_bb, put_in, RATIO_SCALE * size, RATIO_SCALE * odds, RATIO_SCALE * depth], dim=-1
    )  # (B, T, A)

    here = slice(first, None)
    return BettingFacts(
        role=role[:, here],
        situation=(betting.street * NUM_SITUATIONS + faced)[:, here],
        position=torch.where(relpos == MAX_SEATS, NO_POSITION, position(relpos, num_players))[:, here],
        villain_position=villain_position(tokens).unsqueeze(1),
        initiative=betting.has_initiative.long()[:, here],
        amounts=amounts[:, here].float(),
    )


def phi(values: torch.Tensor) -> torch.Tensor:
    """Return the eight features of chip amounts in big blinds, shape (...) -> (..., 8).

    The amount is taken through ``log1p`` because ratios are what matters; the frequencies stop at 4 because faster ones wrap
    around between bets that have nothing in common.
    """
    u = torch.log1p(values)
    waves = [wave for frequency in (1.0, 2.0, 4.0) for wave in (torch.sin(frequency * u), torch.cos(frequency * u))]
    return torch.stack([u, u * u, *waves], dim=-1)
