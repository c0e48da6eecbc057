"""The reader: factored embedding, decoder blocks, and a head that scores the villain's 1326 combos at every position.

Legend: ``B`` reads, ``T`` positions, ``Q`` asked positions, ``D`` width, ``N`` chosen positions, ``E`` width of a query,
``C`` = 1326 combos. A head turns hidden vectors into queries that are dotted with one vector a combo, plus a bias a combo;
both heads do, so the loss can be fused with that product (``objective``). Logits are float32 whatever the blocks run in.
Dead combos are not masked here: that is the reader's business (``masks``), and it differs between training and use.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, get_args

import torch
from torch import nn
from torch.nn import functional

from range_reader_core import cards
from range_reader_core.blocks import Attention, Block, FeedForward, rms_norm
from range_reader_core.embedding import RangeReaderEmbedding
from range_reader_core.suits import NUM_SUITS, mean_over_alike, name_suits, relabelings_on

HeadKind = Literal["flat", "composed"]
QUERY_WIDTH: Final = 64  # of the composed head; wider gained nothing in short trials


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
    names_suits: bool = False  # names suits by what they hold: exactly indifferent to what suits are called; composed head

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


class Readout(NamedTuple):
    """A head applied to hidden vectors: ``logits = query @ combo_vectors[alike].T + combo_bias``, all float32."""

    query: torch.Tensor  # (N, E)
    combo_vectors: torch.Tensor  # (G, C, E), a table for each kind of suits alike; G = 1 where suits are not named
    combo_bias: torch.Tensor  # (C,)
    alike: torch.Tensor | None = None  # (N,) int64 into the tables; None where there is one

    def logits(self) -> torch.Tensor:
        """Return unmasked scores (N, C)."""
        if self.alike is None:
            return torch.addmm(self.combo_bias, self.query, self.combo_vectors[0].T)
        order, runs = self.runs()
        query = self.query[order]
        parts = [torch.addmm(self.combo_bias, query[run], self.combo_vectors[kind].T) for kind, run in runs]
        return torch.cat(parts)[order.argsort()]

    def runs(self) -> tuple[torch.Tensor, list[tuple[int, slice]]]:
        """Return an order (N,) of the rows that puts those of a table together, and each table's stretch of it."""
        num = len(self.query)
        if self.alike is None:
            return torch.arange(num, device=self.query.device), [(0, slice(0, num))]
        counts = self.alike.bincount(minlength=len(self.combo_vectors)).tolist()
        ends = itertools.accumulate(counts)
        runs = [(kind, slice(end - count, end)) for kind, (count, end) in enumerate(zip(counts, ends, strict=True)) if count]
        return self.alike.argsort(stable=True), runs


class FlatHead(nn.Module):
    """A plain linear layer: one free vector and one bias a combo."""

    def __init__(self, width: int) -> None:
        """Leave the weights unset; ``init_weights`` sets them."""
        super().__init__()
        self.weight = nn.Parameter(torch.empty(cards.NUM_COMBOS, width))
        self.bias = nn.Parameter(torch.empty(cards.NUM_COMBOS))

    def query(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the queries (N, E) of hidden vectors (N, D)."""
        return hidden

    def combo_table(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return combo vectors (1, C, E) and biases (C,)."""
        return self.weight.unsqueeze(0), self.bias

    def start_at(self, combo_logp: torch.Tensor) -> None:
        """Start the bias at log-probabilities (C,), such as those of a static range."""
        self.bias.data.copy_(combo_logp)


class ComposedHead(nn.Module):
    """Combo vectors as sums over cards, ranks, shape and class, so that every label teaches every combo that shares a part."""

    def __init__(self, width: int, *, names_suits: bool) -> None:
        """Leave the weights unset; ``init_weights`` sets them."""
        super().__init__()
        self.to_query = nn.Parameter(torch.empty(QUERY_WIDTH, width))
        self.card = nn.Parameter(torch.empty(cards.NUM_CARDS, QUERY_WIDTH))
        self.card_rank = nn.Parameter(torch.empty(len(cards.RANKS), QUERY_WIDTH))
        self.shape = nn.Parameter(torch.empty(3, QUERY_WIDTH))
        self.combo_class = nn.Parameter(torch.empty(cards.NUM_CLASSES, QUERY_WIDTH))
        self.class_bias = nn.Parameter(torch.empty(cards.NUM_CLASSES))
        mean = mean_over_alike() if names_suits else torch.eye(NUM_SUITS).unsqueeze(0)
        self.register_buffer("mean_over_alike", mean, persistent=False)  # (G, 4, 4)
        self.register_buffer("combo_cards", torch.from_numpy(cards.COMBO_CARDS), persistent=False)  # (C, 2)
        self.register_buffer("shape_of_combo", torch.from_numpy(cards.COMBO_SHAPE), persistent=False)  # (C,)
        self.register_buffer("class_of_combo", torch.from_numpy(cards.COMBO_CLASS), persistent=False)  # (C,)

    mean_over_alike: torch.Tensor
    combo_cards: torch.Tensor
    shape_of_combo: torch.Tensor
    class_of_combo: torch.Tensor

    def query(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the queries (N, E) of hidden vectors (N, D)."""
        return functional.linear(hidden, self.to_query)

    def combo_table(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return combo vectors (G, C, E), averaged over the suits alike, and biases (C,).

        Cards enter a combo as a sum, so the mean over renamings of a combo is the sum of the means over renamings of its cards.
        """
        of_suit = self.card.view(len(cards.RANKS), NUM_SUITS, QUERY_WIDTH)
        card = torch.einsum("gst,rte->rsge", self.mean_over_alike, of_suit)  # (13, 4, G, E)
        card = (card + self.card_rank[:, None, None]).flatten(2).flatten(0, 1)  # (52, G * E)
        pair = functional.embedding(self.combo_cards, card).sum(dim=1)  # (C, 2, G * E) -> (C, G * E)
        same = functional.embedding(self.shape_of_combo, self.shape) + functional.embedding(self.class_of_combo, self.combo_class)
        vectors = pair.view(cards.NUM_COMBOS, -1, QUERY_WIDTH).transpose(0, 1) + same  # (G, C, E)
        return vectors, self.class_bias[self.class_of_combo]

    def start_at(self, combo_logp: torch.Tensor) -> None:
        """Start the bias at log-probabilities (C,) that are equal within each class, such as those of a static range."""
        self.class_bias.data[self.class_of_combo] = combo_logp.to(self.class_bias.dtype)


class RangeReaderModel(nn.Module):
    """P(villain's combo | stream so far) as logits at every position.

    Where the configuration names suits, ``forward`` takes and gives any names, and all other methods know named streams alone
    (``suits.name_suits``): it is then the caller who names the stream once and the answers back.
    """

    def __init__(self, config: ModelConfig) -> None:
        """Build the model with the weights of a fixed seed; ``init_weights`` draws others."""
        super().__init__()
        self.config = config
        self.embedding = RangeReaderEmbedding(config.width)
        self.blocks = nn.ModuleList(
            Block(config.width, config.num_heads, config.mlp_ratio, config.dropout, is_rotary=config.rope)
            for _ in range(config.num_layers)
        )
        self.head: FlatHead | ComposedHead = (
            FlatHead(config.width) if config.head == "flat" else ComposedHead(config.width, names_suits=config.names_suits)
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
        logits = self.logits(self.hidden(named, values).flatten(0, 1), alike.flatten()).view(*tokens.shape, -1)
        back = relabelings_on(tokens.device)[1][relabeling]  # (B, C)
        return logits.gather(2, back.unsqueeze(1).expand_as(logits))

    def hidden(self, tokens: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Return normalised hidden vectors (B, T, D); arguments and errors as ``forward``."""
        return self.trunk(self.embed(tokens, values))

    def hidden_at(self, tokens: torch.Tensor, values: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Return normalised hidden vectors (B, Q, D) at positions (B, Q) int64 alone; the last block skips the others."""
        return self.trunk(self.embed(tokens, values), positions)

    def logits(self, hidden: torch.Tensor, alike: torch.Tensor | None = None) -> torch.Tensor:
        """Return logits (N, C) float32 of hidden vectors (N, D); ``alike`` as in ``readout``."""
        return self.readout(hidden, alike).logits()

    def combo_table(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what logits need beside ``query``: combo vectors (G, C, E) and biases (C,), float32."""
        return self.head.combo_table()

    def query(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the queries (N, E) float32 of hidden vectors (N, D)."""
        return self.head.query(hidden.float())

    def readout(self, hidden: torch.Tensor, alike: torch.Tensor | None = None) -> Readout:
        """Return queries, combo vectors and biases of hidden vectors (N, D), in float32 outside any autocast.

        Where suits are named, ``alike`` (N,) int64 tells which of ``suits.ALIKE`` each vector's position is.
        """
        if (alike is None) == self.config.names_suits:
            msg = "readout: expected the suits alike of each vector where, and only where, the model names suits"
            raise ValueError(msg)
        with torch.autocast(hidden.device.type, enabled=False):
            return Readout(self.head.query(hidden.float()), *self.head.combo_table(), alike)

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
            for table in (head.card, head.card_rank, head.shape, head.combo_class):
                draw(table, 0.05)  # ten times this and the first steps overshoot: 0.06 nats behind after 64k reads (2026-11)
