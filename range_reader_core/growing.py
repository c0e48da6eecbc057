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

from range_reader_core.blocks import Block, LayerCache, rms_norm
from range_reader_core.cards import NUM_RELABELINGS
from range_reader_core.hand_kinds import HandKinds, hand_kinds
from range_reader_core.heads import Readout
from range_reader_core.model import OPENING_MARKS, RangeReaderModel, fold_opening
from range_reader_core.orbits import average_over_stabiliser, representative_of, representatives, stabiliser
from range_reader_core.suits import name_suits, relabelings_on
from range_reader_core.tokens import COMMUNITY_OFFSET, FLOP, MARK_OFFSET, MAX_SEATS, PAD, RIVER, TURN

_STREET_MARKS: Final = frozenset({FLOP, TURN, RIVER})


class _Named:
    """The streams in named suits, with what the names make of the answers at the last position."""

    def __init__(self, streams: torch.Tensor, num_read: int) -> None:
        """Begin with streams (V, M) of which so many positions are named."""
        self.streams = streams
        self.num_read = num_read
        self.relabeling = self.alike = torch.empty(0, dtype=torch.int64)  # (V,) each
        self.kinds: HandKinds | None = None  # None: not asked for since the last card

    def read(self, streams: torch.Tensor, num_shown: int) -> None:
        """Name streams (V, T), whose last card stands before ``num_shown``."""
        end = streams.shape[1]
        if self.num_read == 0 or self.num_read < num_shown:
            named, self.relabeling, alike = name_suits(streams)
            self.streams[:, :end], self.alike, self.kinds = named, alike[:, -1], None
        else:
            self.streams[:, self.num_read : end] = streams[:, self.num_read :]
        self.num_read = end

    def keep(self, chosen: torch.Tensor) -> None:
        """Go on with some of the villains."""
        self.streams, self.kinds = self.streams[chosen], None
        if self.num_read:
            self.relabeling, self.alike = self.relabeling[chosen], self.alike[chosen]


class GrowingStreams:
    """Streams of one hand that differ in their hole slots alone."""

    def __init__(
        self, model: RangeReaderModel, streams: npt.NDArray[np.int64], values: npt.NDArray[np.float32], *, is_averaged: bool
    ) -> None:
        """Begin with streams (V, T) through their hole slots and the values (T,) that they share.

        Args:
            model: in evaluation mode.
            streams: at least through the hole slots, at most ``max_positions`` long.
            values: big blinds.
            is_averaged: over suit relabelings; else a single forward, which is all that a model that names suits needs.
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
        self._num_read = 0  # positions that the caches hold
        self._named = _Named(self._streams.clone(), 0) if self.names_suits else None
        self._num_shown = self.length  # positions through the last card
        self._identity = torch.arange(NUM_RELABELINGS, device=self.device).eq(0).unsqueeze(0)  # (1, 24)
        self._pending = deque([(self.length, self._stabiliser())])
        self._is_fixing = self._pending[0][1]  # (1, 24), of the positions that the caches hold
        self._relabelings = self._representatives(self._is_fixing)  # (G,)
        self._caches = self._new_caches(num_villains * len(self._relabelings))
        self._hidden = torch.empty(0, device=self.device)  # (R, D), at the last position
        with torch.no_grad():
            self._combo_table = model.combo_table()

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
        if self._named is not None:
            self._named.keep(chosen)
        self._take_rows(rows)
        self._hidden = self._hidden[rows] if len(self._hidden) else self._hidden

    def probabilities(self, is_live: torch.Tensor) -> torch.Tensor:
        """Return the belief about each villain at the last position, float32 (V, C), zero where ``is_live`` (C,) is not."""
        with torch.inference_mode():
            self._catch_up()
            query = self.model.query(self._hidden)
            if self._named is not None:
                if self.model.config.reads_hands and self._named.kinds is None:
                    rows = torch.arange(len(self._streams), device=self.device)
                    self._named.kinds = hand_kinds(self._named.streams, rows, torch.full_like(rows, self._num_read - 1))
                of_kind = self.model.kind_scores(self._hidden, self._named.kinds)
                logits = Readout(query, *self._combo_table, self._named.alike, of_kind).logits()  # (V, C)
                logits = logits.gather(1, relabelings_on(self.device)[1][self._named.relabeling])
            else:
                logits = Readout(query, *self._combo_table).logits()  # (R, C)
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
        x = self.model.embedding(streams, self._values[:, :end].expand(len(streams), -1), self._num_read)  # (R, S, D)
        first = self._num_read
        if self.model.config.folds_opening:
            opening = OPENING_MARKS + int((streams[0] < MAX_SEATS).sum())
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
