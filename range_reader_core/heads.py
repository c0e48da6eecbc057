"""What scores the villain's 1326 combos from a hidden vector: a query that is dotted with one vector a combo, plus a bias a combo.

Both heads do so, and the loss can be fused with that product (``objective``). The composed one may have a table of combo vectors
for each kind of suits alike (``suits``), and may add a score for the kind of hand that a combo is on the board (``hand_kinds``).
Everything here is float32.

Legend: ``N`` chosen positions, ``D`` width, ``E`` width of a query, ``G`` tables, ``K`` kinds of hands, ``C`` = 1326 combos.
"""

import itertools
from typing import Final, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from range_reader_core import cards
from range_reader_core.hand_kinds import NUM_DRAWS, NUM_KINDS, NUM_STRENGTHS, HandKinds
from range_reader_core.suits import NUM_SUITS, mean_over_alike

QUERY_WIDTH: Final = 64  # of the composed head; wider gained nothing in short trials


class KindScores(NamedTuple):
    """What the kind of hand that a combo is on the board adds to its score."""

    scores: torch.Tensor  # (N, K), of each kind at each position
    kinds: HandKinds  # of the combos on the boards of the positions

    def take(self, order: torch.Tensor) -> "KindScores":
        """Return those of some positions."""
        return KindScores(self.scores[order], self.kinds.take(order))


class Readout(NamedTuple):
    """A head applied to hidden vectors: ``query @ combo_vectors[alike].T + combo_bias``, plus scores of the kinds of hands."""

    query: torch.Tensor  # (N, E)
    combo_vectors: torch.Tensor  # (G, C, E), a table for each kind of suits alike; G = 1 where suits are not named
    combo_bias: torch.Tensor  # (C,)
    alike: torch.Tensor | None = None  # (N,) int64 into the tables; None where there is one
    of_kind: KindScores | None = None

    def logits(self) -> torch.Tensor:
        """Return unmasked scores (N, C)."""
        if self.alike is None:
            logits = torch.addmm(self.combo_bias, self.query, self.combo_vectors[0].T)
        else:
            order, runs = self.runs()
            query = self.query[order]
            parts = [torch.addmm(self.combo_bias, query[run], self.combo_vectors[table].T) for table, run in runs]
            # Rows are put where they belong once: sewn together and put in order they would be copied twice.
            logits = parts[0]
            if len(runs) > 1:
                logits = query.new_empty(len(query), len(self.combo_bias))
                for part, (_, run) in zip(parts, runs, strict=True):
                    logits.index_copy_(0, order[run], part)
        if self.of_kind is not None:
            scores, kinds = self.of_kind
            rows, kind = kinds.with_board(slice(None))
            logits = logits.index_add_(0, rows, scores[rows].gather(1, kind))
        return logits

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

    def __init__(self, width: int, *, names_suits: bool, reads_hands: bool) -> None:
        """Leave the weights unset; ``init_weights`` sets them."""
        super().__init__()
        self.to_query = nn.Parameter(torch.empty(QUERY_WIDTH, width))
        self.card = nn.Parameter(torch.empty(cards.NUM_CARDS, QUERY_WIDTH))
        self.card_rank = nn.Parameter(torch.empty(len(cards.RANKS), QUERY_WIDTH))
        self.shape = nn.Parameter(torch.empty(3, QUERY_WIDTH))
        self.combo_class = nn.Parameter(torch.empty(cards.NUM_CLASSES, QUERY_WIDTH))
        self.class_bias = nn.Parameter(torch.empty(cards.NUM_CLASSES))
        self.kinds = KindHead(width) if reads_hands else None
        mean = mean_over_alike() if names_suits else torch.eye(NUM_SUITS).unsqueeze(0)
        self.register_buffer("mean_over_alike", mean, persistent=False)  # (G, 4, 4)
        self.register_buffer("has_card", torch.from_numpy(cards.COMBO_HAS_CARD).float(), persistent=False)  # (C, 52)
        self.register_buffer("shape_of_combo", torch.from_numpy(cards.COMBO_SHAPE), persistent=False)  # (C,)
        self.register_buffer("class_of_combo", torch.from_numpy(cards.COMBO_CLASS), persistent=False)  # (C,)

    mean_over_alike: torch.Tensor
    has_card: torch.Tensor
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
        pair = self.has_card @ card  # (C, G * E): a third of the time of looking both cards up, backward included
        same = functional.embedding(self.shape_of_combo, self.shape) + functional.embedding(self.class_of_combo, self.combo_class)
        vectors = pair.view(cards.NUM_COMBOS, -1, QUERY_WIDTH).transpose(0, 1) + same  # (G, C, E)
        return vectors, self.class_bias[self.class_of_combo]

    def start_at(self, combo_logp: torch.Tensor) -> None:
        """Start the bias at log-probabilities (C,) that are equal within each class, such as those of a static range."""
        self.class_bias.data[self.class_of_combo] = combo_logp.to(self.class_bias.dtype)


class KindHead(nn.Module):
    """A score for each kind of hand at each position: its strength, its draw, and what the two make together."""

    def __init__(self, width: int) -> None:
        """Leave the weights unset; ``init_weights`` sets them."""
        super().__init__()
        self.strength = nn.Parameter(torch.empty(NUM_STRENGTHS, width))
        self.draw = nn.Parameter(torch.empty(NUM_DRAWS, width))
        self.both = nn.Parameter(torch.empty(NUM_KINDS, width))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return scores (N, K) of hidden vectors (N, D)."""
        return functional.linear(hidden, (self.strength.unsqueeze(1) + self.draw).flatten(0, 1) + self.both)
