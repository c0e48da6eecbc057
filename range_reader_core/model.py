"""The reader: factored embedding, decoder blocks, and a head that scores the villain's 1326 combos at every position.

Legend: ``B`` reads, ``T`` positions, ``Q`` asked positions, ``D`` width, ``N`` chosen positions, ``E`` width of a query,
``C`` = 1326 combos. Logits are float32 whatever the blocks run in (``heads``).
Dead combos are not masked here: that is the reader's business (``masks``), and it differs between training and use.
"""

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

import torch
from torch import nn
from torch.nn import functional

from range_reader_core.blocks import Attention, Block, FeedForward, rms_norm
from range_reader_core.embedding import RangeReaderEmbedding
from range_reader_core.hand_kinds import HandKinds, hand_kinds
from range_reader_core.heads import ComposedHead, FlatHead, KindScores, Readout
from range_reader_core.suits import name_suits, relabelings_on
from range_reader_core.tokens import MAX_SEATS

HeadKind = Literal["flat", "composed"]
OPENING_MARKS: Final = 3  # bos, the button and the preflop mark stand before the hole slots, beside a stack a seat


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Shape of a reader.

    Raises:
        ValueError: on construction, when a size is impossible.
    """

    num_layers: int  # decoder blocks, > 0
    width: int  # of the residual stream; a multiple of num_heads
    num_heads: int  # attention heads; width / num_heads must be even
    dropout: float = 0.15  # on embedding, attention and MLP outputs, 0 <= p < 1
    rope: bool = False  # rotate queries and keys by their index in the stream
    max_positions: int = 96  # longest stream accepted
    mlp_ratio: int = 4  # hidden width of the MLP over width
    head: HeadKind = "flat"  # "flat": a vector a combo; "composed": combo vectors from cards, ranks, shape and class
    reads_betting: bool = False  # tells the blocks what the betting amounts to: roles, positions, what is faced, shares of the pot
    folds_opening: bool = False  # the blocks begin at the hole slots; stacks are added to them and the marks before are left out
    names_suits: bool = False  # names suits by what they hold: exactly indifferent to what suits are called; composed head
    reads_hands: bool = False  # scores the kind of hand that a combo is on the board; needs named suits, evaluated on the CPU

    def __post_init__(self) -> None:
        """Check the sizes."""
        for name in ("num_layers", "width", "num_heads", "max_positions", "mlp_ratio"):
            if getattr(self, name) < 1:
                msg = f"model: expected {name} >= 1, got {getattr(self, name)}"
                raise ValueError(msg)
        if self.width % (2 * self.num_heads):
            msg = f"model: width {self.width} does not split into {self.num_heads} heads of an even width"
            raise ValueError(msg)
        if not 0.0 <= self.dropout < 1.0:
            msg = f"model: expected 0 <= dropout < 1, got {self.dropout}"
            raise ValueError(msg)
        if self.head not in get_args(HeadKind):
            msg = f"model: expected a head of {get_args(HeadKind)}, got {self.head!r}"
            raise ValueError(msg)
        if self.names_suits and self.head != "composed":
            msg = f"model: names_suits needs the composed head, got {self.head!r}"
            raise ValueError(msg)
        if self.reads_hands and not self.names_suits:
            msg = "model: reads_hands needs names_suits"
            raise ValueError(msg)


class RangeReaderModel(nn.Module):
    """P(villain's combo | stream so far) as logits at every position.

    Where the configuration names suits, ``forward`` takes and gives any names, and all other methods know named streams alone
    (``suits.name_suits``): it is then the caller who names the stream once and the answers back.
    """

    def __init__(self, config: ModelConfig) -> None:
        """Build the model with the weights of a fixed seed; ``init_weights`` draws others."""
        super().__init__()
        self.config = config
        self.embedding = RangeReaderEmbedding(config.width, reads_betting=config.reads_betting)
        self.blocks = nn.ModuleList(
            Block(config.width, config.num_heads, config.mlp_ratio, config.dropout, is_rotary=config.rope)
            for _ in range(config.num_layers)
        )
        self.head: FlatHead | ComposedHead = (
            FlatHead(config.width)
            if config.head == "flat"
            else ComposedHead(config.width, names_suits=config.names_suits, reads_hands=config.reads_hands)
        )
        init_weights(self, torch.Generator().manual_seed(0))

    def forward(self, tokens: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Return logits (B, T, C) float32 for tokens (B, T) int64 and chip amounts (B, T) float32 in big blinds.

        Raises:
            ValueError: a wrong shape or dtype, or a stream longer than ``max_positions``.
        """
        if not self.config.names_suits:
            return self.logits(self.hidden(tokens, values).flatten(0, 1)).view(*tokens.shape, -1)
        named, relabeling, alike = name_suits(tokens)
        kinds = None
        if self.config.reads_hands:
            rows = torch.arange(tokens.numel(), device=tokens.device)
            kinds = hand_kinds(named, rows // tokens.shape[1], rows % tokens.shape[1])
        logits = self.logits(self.hidden(named, values).flatten(0, 1), alike.flatten(), kinds).view(*tokens.shape, -1)
        back = relabelings_on(tokens.device)[1][relabeling]  # (B, C)
        return logits.gather(2, back.unsqueeze(1).expand_as(logits))

    def hidden(self, tokens: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Return normalised hidden vectors (B, T, D); zero in an opening that is folded. Arguments and errors as ``forward``."""
        x, start = self.enter(tokens, values)
        hidden = self.trunk(x)
        if not self.config.folds_opening:
            return hidden
        places = torch.arange(tokens.shape[1], device=tokens.device) - start.unsqueeze(1)  # (B, T)
        index = places.clamp(min=0, max=x.shape[1] - 1).unsqueeze(-1).expand(-1, -1, x.shape[-1])
        return torch.where((places >= 0).unsqueeze(-1), hidden.gather(1, index), 0.0)

    def hidden_at(self, tokens: torch.Tensor, values: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Return normalised hidden vectors (B, Q, D) at positions (B, Q) int64 alone; the last block skips the others."""
        x, start = self.enter(tokens, values)
        return self.trunk(x, (positions - start.unsqueeze(1)).clamp(min=0))

    def enter(self, tokens: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what enters the blocks, (B, T', D), and the position in the stream where it begins, (B,) int64.

        That is the stream itself, or the hole slots and all after them, with the opening before them folded in (``fold_opening``).
        """
        x = self.embed(tokens, values)
        if not self.config.folds_opening:
            return x, torch.zeros(len(tokens), dtype=torch.int64, device=tokens.device)
        return fold_opening(x, tokens)

    def logits(self, hidden: torch.Tensor, alike: torch.Tensor | None = None, kinds: HandKinds | None = None) -> torch.Tensor:
        """Return logits (N, C) float32 of hidden vectors (N, D); ``alike`` as in ``readout``."""
        return self.readout(hidden, alike, kinds).logits()

    def combo_table(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what logits need beside ``query``: combo vectors (G, C, E) and biases (C,), float32."""
        return self.head.combo_table()

    def query(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the queries (N, E) float32 of hidden vectors (N, D)."""
        return self.head.query(hidden.float())

    def readout(self, hidden: torch.Tensor, alike: torch.Tensor | None = None, kinds: HandKinds | None = None) -> Readout:
        """Return queries, combo vectors and biases of hidden vectors (N, D), in float32 outside any autocast.

        Where suits are named, ``alike`` (N,) int64 tells which of ``suits.ALIKE`` each vector's position is; where hands are read,
        ``kinds`` tells what they are there.
        """
        if (alike is None) == self.config.names_suits:
            msg = "readout: expected the suits alike of each vector where, and only where, the model names suits"
            raise ValueError(msg)
        with torch.autocast(hidden.device.type, enabled=False):
            hidden = hidden.float()
            return Readout(self.head.query(hidden), *self.head.combo_table(), alike, self.kind_scores(hidden, kinds))

    def kind_scores(self, hidden: torch.Tensor, kinds: HandKinds | None) -> KindScores | None:
        """Return what the kinds of hands add at hidden vectors (N, D) float32; None where the model does not read hands."""
        if (kinds is None) == self.config.reads_hands:
            msg = "readout: expected the kinds of hands at each vector's position where, and only where, the model reads hands"
            raise ValueError(msg)
        return None if kinds is None else KindScores(self.scores_of_kinds(hidden), kinds)

    def scores_of_kinds(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the score (N, K) of every kind of hand at hidden vectors (N, D) float32; for a model that reads hands."""
        assert isinstance(self.head, ComposedHead)
        assert self.head.kinds is not None
        scores: torch.Tensor = self.head.kinds(hidden)
        return scores

    def embed(self, tokens: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Return the vectors that enter the blocks, (B, T, D)."""
        if tokens.ndim != 2 or tokens.shape != values.shape:
            msg = f"expected tokens and values of one shape (B, T), got {tuple(tokens.shape)} and {tuple(values.shape)}"
            raise ValueError(msg)
        if tokens.dtype != torch.int64 or values.dtype != torch.float32:
            msg = f"expected int64 tokens and float32 values, got {tokens.dtype} and {values.dtype}"
            raise ValueError(msg)
        if tokens.shape[1] > self.config.max_positions:
            msg = f"expected at most {self.config.max_positions} positions, got {tokens.shape[1]}; cut longer streams when encoding"
            raise ValueError(msg)
        x: torch.Tensor = self.embedding(tokens, values)
        return functional.dropout(x, self.config.dropout, self.training) if self.config.dropout else x

    def trunk(self, x: torch.Tensor, positions: torch.Tensor | None = None) -> torch.Tensor:
        """Return hidden vectors of an embedded stream (B, T, D): everywhere, or at positions (B, Q). What ``training`` compiles."""
        last = len(self.blocks) - 1
        for index, block in enumerate(self.blocks):
            x = block(x, positions if index == last else None)
        return rms_norm(x)

    def num_parameters(self) -> int:
        """Return how many numbers are learned."""
        return sum(parameter.numel() for parameter in self.parameters())


def init_weights(model: RangeReaderModel, generator: torch.Generator) -> None:
    """Set every parameter. Outputs of blocks and head start at zero, so an untrained reader is uniform.

    The embedding's pieces start such that their sum has about unit size; chip features reach 20 or so, hence their smaller
    start. Drawn on the CPU, so a seed means the same weights on every device.
    """

    def draw(parameter: nn.Parameter, std: float) -> None:
        parameter.data.copy_(torch.randn(parameter.shape, generator=generator) * std)

    embedding = model.embedding
    with torch.no_grad():
        for table in (embedding.action, embedding.seat, embedding.relpos, embedding.num_players, embedding.num_live):
            draw(table, 0.4)
        for table in (embedding.card, embedding.card_rank, embedding.combo_type):
            draw(table, 0.2)
        draw(embedding.value, 0.03)
        if (betting := embedding.betting) is not None:
            for table in (betting.role, betting.situation, betting.position, betting.villain_position, betting.initiative):
                draw(table, 0.4)
            draw(betting.amount, 0.03)
        for module in model.modules():
            if isinstance(module, Attention):
                draw(module.query, 1.0 / math.sqrt(model.config.width))
                draw(module.key_value, 1.0 / math.sqrt(model.config.width))
                module.out.zero_()
            elif isinstance(module, FeedForward):
                draw(module.expand, 1.0 / math.sqrt(model.config.width))
                module.out.zero_()
        head = model.head
        if isinstance(head, FlatHead):
            head.weight.zero_()
            head.bias.zero_()
        else:
            head.to_query.zero_()
            head.class_bias.zero_()
            if head.kinds is not None:
                for table in head.kinds.parameters():
                    table.zero_()
            for table in (head.card, head.card_rank, head.shape, head.combo_class):
                draw(table, 0.05)  # ten times this and the first steps overshoot: 0.06 nats behind after 64k reads (2026-11)


def fold_opening(x: torch.Tensor, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return vectors (B, T', D) from the hole slots on, each with that of its seat's stack added, and where they begin, (B,)."""
    num_players = (tokens < MAX_SEATS).sum(dim=1)  # (B,)
    start = num_players + OPENING_MARKS
    length = max(int(x.shape[1] - start.min()), 1)
    column = torch.arange(length, device=x.device)
    places = (start.unsqueeze(1) + column).clamp(max=x.shape[1] - 1)  # (B, T')
    folded = x.gather(1, places.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
    seats = min(length, int(num_players.max()), x.shape[1] - 1)
    is_slot = (column[:seats] < num_players.unsqueeze(1)).unsqueeze(-1)  # (B, S, 1)
    stacks = torch.where(is_slot, x[:, 1 : seats + 1], 0.0)
    return torch.cat([folded[:, :seats] + stacks, folded[:, seats:]], dim=1), start
