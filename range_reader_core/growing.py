"""The streams of one hand as they grow: each new position is forwarded once, against the keys and values of those before it.

One stream a villain where the model names suits: a position is named by what came before it alone (``suits``). Else, under suit
averaging, one a villain and distinguishable renaming of the suits. Every card that comes in sight can tell more renamings apart,
so rows multiply at a board deal and not before: until then one row stands for all renamings that it cannot tell apart
(``orbits``). Nothing is forwarded before an answer is asked for, and then everything new goes in one pass per set of rows. Suits
are named anew when a card falls: nothing else has one. Which seats are read and which combos are live is the business of
``session``.

Legend: ``V`` villains, ``G`` distinct renamings, ``R`` = V * G rows, villain by villain, ``T`` positions so far, ``S`` new
positions, ``M`` = ``max_positions``, ``D`` width, ``C`` = 1326 combos.
"""

from collections import deque
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from range_reader_core.betting_walk import walk
from range_reader_core.blocks import Block, LayerCache, rms_norm
from range_reader_core.cards import NUM_RELABELINGS
from range_reader_core.hand_kinds import hand_kinds
from range_reader_core.heads import Readout
from range_reader_core.lines import villain_seat
from range_reader_core.model import OPENING_MARKS, RangeReaderModel, fold_opening
from range_reader_core.orbits import average_over_stabiliser, representative_of, representatives, stabiliser
from range_reader_core.suits import name_suits, relabelings_on
from range_reader_core.tokens import COMMUNITY_OFFSET, FLOP, MARK_OFFSET, PAD, RIVER, TURN

_STREET_MARKS: Final = frozenset({FLOP, TURN, RIVER})
_ALL: Final = slice(None)


class _Named:
    """The streams in named suits, with what the names make of the answers at the last position.

    Streams of one hand show the same cards, so they share names, and the tables of the head are named back once a card.
    """

    def __init__(self, model: RangeReaderModel, streams: torch.Tensor, combo_table: tuple[torch.Tensor, torch.Tensor]) -> None:
        """Begin with streams (V, M) of which nothing is named yet, and the model's combo vectors and biases."""
        self.model = model
        self.streams = streams
        self.num_read = 0
        self._combo_table = combo_table
        self._vectors = self._bias = self._kind = torch.empty(0)  # (1, C, E), (C,) and (C,) in the names asked for
        self._has_board = False

    def read(self, streams: torch.Tensor, num_shown: int) -> None:
        """Name streams (V, T), whose last card stands before ``num_shown``."""
        end = streams.shape[1]
        if self.num_read == 0 or self.num_read < num_shown:
            first = streams[:1]
            named, (relabeling,), alike = name_suits(first)
            self.streams[:, :end] = torch.where(streams == first, named, streams)  # where they differ there is no card
            back = relabelings_on(streams.device)[1][relabeling]  # (C,)
            vectors, bias = self._combo_table
            self._vectors, self._bias = vectors[alike[:, -1]].index_select(1, back), bias[back]
            if self.model.config.reads_hands:
                row = torch.zeros(1, dtype=torch.int64, device=streams.device)
                kinds = hand_kinds(named, row, row + end - 1).with_board(_ALL)[1]  # (0 or 1, C)
                self._has_board = len(kinds) > 0
                self._kind = kinds.flatten()[back] if self._has_board else self._kind
        else:
            self.streams[:, self.num_read : end] = streams[:, self.num_read :]
        self.num_read = end

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return scores (V, C) of hidden vectors (V, D), named as asked."""
        logits = Readout(self.model.query(hidden), self._vectors, self._bias).logits()
        if not self._has_board:
            return logits
        return logits.add_(self.model.scores_of_kinds(hidden).index_select(1, self._kind))


class GrowingStreams:
    """Streams of one hand that differ in their hole slots alone."""

    def __init__(
        self,
        model: RangeReaderModel,
        streams: npt.NDArray[np.int64],
        values: npt.NDArray[np.float32],
        *,
        is_averaged: bool,
        combo_table: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> None:
        """Begin with streams (V, T) through their hole slots and the values (T,) that they share.

        Args:
            model: in evaluation mode.
            streams: at least through the hole slots, at most ``max_positions`` long.
            values: big blinds.
            is_averaged: over suit relabelings; else a single forward, which is all that a model that names suits needs.
            combo_table: the model's, where the caller keeps it.
        """
        self.model = model
        self.device = next(model.parameters()).device
        self.names_suits = model.config.names_suits
        self.is_averaged = is_averaged and not self.names_suits
        num_villains, self.length = streams.shape
        most = model.config.max_positions
        self._streams = torch.full((num_villains, most), PAD, device=self.device)  # (V, M)
        self._streams[:, : self.length] = torch.from_numpy(streams)
        self._values = torch.zeros(1, most, device=self.device)  # (1, M)
        self._values[0, : self.length] = torch.from_numpy(values)
        self._walk = walk(streams[0].tolist(), values.tolist())
        self._villains = villain_seat(self._streams).tolist()
        self._num_read = 0  # positions that the caches hold
        self._num_shown = self.length  # positions through the last card
        self._identity = torch.arange(NUM_RELABELINGS, device=self.device).eq(0).unsqueeze(0)  # (1, 24)
        self._pending = deque([(self.length, self._stabiliser())])
        self._is_fixing = self._pending[0][1]  # (1, 24), of the positions that the caches hold
        self._relabelings = self._representatives(self._is_fixing)  # (G,)
        self._caches = self._new_caches(num_villains * len(self._relabelings))
        self._hidden = torch.empty(0, device=self.device)  # (R, D), at the last position
        with torch.no_grad():
            self._combo_table = model.combo_table() if combo_table is None else combo_table
        self._named = _Named(model, self._streams.clone(), self._combo_table) if self.names_suits else None

    @property
    def num_rows(self) -> int:
        """Number of rows that the last forward took."""
        return len(self._streams) * len(self._relabelings)

    def append(self, tokens: npt.NDArray[np.int64], values: npt.NDArray[np.float32]) -> None:
        """Add the positions (S,) of what happened, the same for every villain.

        Raises:
            ValueError: the stream would be longer than ``max_positions``.
        """
        start, end = self.length, self.length + len(tokens)
        if end > self._streams.shape[1]:
            msg = f"expected at most {self._streams.shape[1]} positions, got {end}"
            raise ValueError(msg)
        self._streams[:, start:end] = torch.from_numpy(tokens).to(self.device)
        self._values[0, start:end] = torch.from_numpy(values).to(self.device)
        for token, value in zip(tokens.tolist(), values.tolist(), strict=True):
            self._walk.append(token, value)
        shown = np.flatnonzero((tokens >= COMMUNITY_OFFSET) & (tokens < MARK_OFFSET))
        if len(shown):
            self._num_shown = start + int(shown[-1]) + 1
        streets = [start + place for place, token in enumerate(tokens.tolist()) if token in _STREET_MARKS and place]
        for self.length in (*streets, end):
            self._pending.append((self.length, self._stabiliser()))

    def keep(self, villains: list[int]) -> None:
        """Go on with the villains (V',) at these places alone."""
        chosen = torch.tensor(villains, device=self.device)
        per_villain = len(self._relabelings)
        rows = (chosen.unsqueeze(1) * per_villain + torch.arange(per_villain, device=self.device)).flatten()  # (R',)
        self._streams = self._streams[chosen]
        self._villains = [self._villains[place] for place in villains]
        if self._named is not None:
            self._named.streams = self._named.streams[chosen]
        self._take_rows(rows)
        self._hidden = self._hidden[rows] if len(self._hidden) else self._hidden

    def probabilities(self, is_live: torch.Tensor) -> torch.Tensor:
        """Return the belief about each villain at the last position, float32 (V, C), zero where ``is_live`` (C,) is not."""
        with torch.inference_mode():
            self._catch_up()
            if self._named is not None:
                logits = self._named.logits(self._hidden)
            else:
                logits = Readout(self.model.query(self._hidden), *self._combo_table).logits()  # (R, C)
            if not self.is_averaged:
                return logits.masked_fill_(~is_live, -torch.inf).softmax(dim=1)
            back = relabelings_on(self.device)[1][self._relabelings]  # (G, C)
            named_back = logits.view(len(self._streams), len(back), -1).gather(2, back.expand(len(self._streams), -1, -1))
            mean = named_back.masked_fill_(~is_live, -torch.inf).softmax(dim=2).mean(dim=1)  # (V, G, C) -> (V, C)
            return average_over_stabiliser(mean, self._is_fixing.expand(len(mean), -1))

    def _catch_up(self) -> None:
        """Forward everything that was appended, as many positions at a time as the same renamings tell apart."""
        while self._pending:
            end, is_fixing = self._pending.popleft()
            while self._pending and torch.equal(self._pending[0][1], is_fixing):
                end, _ = self._pending.popleft()
            self._tell_apart(is_fixing)
            self._forward(end)

    def _forward(self, end: int) -> None:
        streams = self._streams[:, :end]
        if self._named is not None:
            self._named.read(streams, self._num_shown)
            streams = self._named.streams[:, :end]  # (V, T)
        if self.is_averaged:
            renamed = relabelings_on(self.device)[0][self._relabelings[:, None], streams[:, None]]  # (V, G, T)
            streams = renamed.flatten(0, 1)  # (R, T)
        facts = [self._walk.facts(self._num_read, villain, end) for villain in self._villains]
        walked = [of_villain for of_villain in facts for _ in range(len(self._relabelings))]
        x = self.model.embedding(streams, self._values[:, :end].expand(len(streams), -1), self._num_read, walked)  # (R, S, D)
        first = self._num_read
        if self.model.config.folds_opening:
            opening = OPENING_MARKS + self._walk.num_players
            x = x if first else fold_opening(x, streams)[0]
            first = max(first - opening, 0)
        last = len(self._caches) - 1
        for index, (block, cache) in enumerate(zip(self.model.blocks, self._caches, strict=True)):
            assert isinstance(block, Block)
            x = block.extend(x, 1 if index == last else x.shape[1], first, cache)
        self._hidden = rms_norm(x)[:, -1]  # (R, D)
        self._num_read = end

    def _tell_apart(self, is_fixing: torch.Tensor) -> None:
        """Multiply the rows to those of a smaller stabiliser (1, 24)."""
        relabelings = self._representatives(is_fixing)  # (G',)
        if len(relabelings) > len(self._relabelings):
            stood_for = representative_of(self._is_fixing)[0, relabelings]  # (G',), each among the old ones
            old = torch.searchsorted(self._relabelings, stood_for)  # (G',)
            first = torch.arange(len(self._streams), device=self.device).unsqueeze(1) * len(self._relabelings)  # (V, 1)
            self._relabelings = relabelings
            self._take_rows((first + old).flatten())
        self._is_fixing = is_fixing

    def _take_rows(self, rows: torch.Tensor) -> None:
        old = self._caches
        self._caches = self._new_caches(len(rows))
        read = slice(self._num_read)
        for new, cache in zip(self._caches, old, strict=True):
            for target, source in zip(new, cache, strict=True):
                target[:, :, read] = source[rows, :, read]

    def _new_caches(self, num_rows: int) -> list[LayerCache]:
        config = self.model.config
        shape = (num_rows, config.num_heads, config.max_positions, config.width // config.num_heads)
        return [
            LayerCache(torch.empty(shape, device=self.device), torch.empty(shape, device=self.device)) for _ in self.model.blocks
        ]

    def _stabiliser(self) -> torch.Tensor:
        """Return the stabiliser of the streams so far, (1, 24): they show the same cards. A single forward renames nothing."""
        return stabiliser(self._streams[:1, : self.length]) if self.is_averaged else self._identity

    def _representatives(self, is_fixing: torch.Tensor) -> torch.Tensor:
        if not self.is_averaged:
            return torch.zeros(1, dtype=torch.int64, device=self.device)
        return representatives(is_fixing)[0].nonzero()[:, 0]
