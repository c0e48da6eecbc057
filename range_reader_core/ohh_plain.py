"""Lines of a file -> skeletons, thousands of hands at once, for hands in which nothing is unusual.

Most files are one layout with ordinary hands in it, and reading those one by one costs three times as much. This way only ever
accepts: it checks on whole arrays what ``ohh_draft``, ``ohh_settle`` and ``replay`` check, and whatever is the least unusual
(another layout, a source whose amounts are not settled as chips added, a post of nothing, a wrong label) it leaves to them.
For what it accepts its result is the same to the last bit; a test compares the two on real and on mutated hands.

Legend: ``H`` hands, ``S`` seats, ``R`` rounds, ``A`` actions, ``N`` steps, ``P`` positions of all hands.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from range_reader_core import tokens
from range_reader_core.cards import COMBO_CARDS, NUM_CARDS
from range_reader_core.hand import EventKind
from range_reader_core.ohh_actions import Code
from range_reader_core.ohh_records import Lines
from range_reader_core.ohh_rejects import MAX_HAND_ID
from range_reader_core.ohh_settle import MIN_BIG_BLIND
from range_reader_core.ohh_tables import NO_CARDS, STREETS, Bytes, Ints, OhhTables, tables_of
from range_reader_core.replay import RELATIVE_SLACK
from range_reader_core.replay_arrays import Steps, play_plain
from range_reader_core.skeletons import EVENT_TOKENS, NO_COMBO, NamedSkeletons, Skeletons, digests, first_slot
from range_reader_core.tokens import MAX_SEATS, BaseAction

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PlainHands:
    """The hands that were read, in the order of their lines."""

    hands: NamedSkeletons
    line_index: Ints  # (H,) into the lines


def read_plain(lines: Lines, begin: int, sources: Collection[str]) -> PlainHands:
    """Return the plain hands among lines.

    Args:
        lines: one record each.
        begin: how many of them to leave out.
        sources: those whose amounts are known to be chips added; no other source is read.
    """
    tables = tables_of(lines, begin)
    drawn = _Drawn(tables, sources)
    rows = np.flatnonzero(drawn.is_plain)
    hands = drawn.named_skeletons()
    return PlainHands(hands if len(rows) == hands.num_hands else hands.take(rows), tables.line_index[rows])


class _Drawn:
    """The hands of tables, drafted and played. ``is_plain`` only ever loses hands."""

    def __init__(self, tables: OhhTables, sources: Collection[str]) -> None:
        self.tables = tables
        num_hands = len(tables.line_index)
        self.sources, self.source_index = _sources(tables)
        is_known = np.array([source in sources for source in self.sources], dtype=np.bool_)[self.source_index]
        has_blinds = (tables.blinds[:, 0] > 0.0) & (tables.blinds[:, 1] >= MIN_BIG_BLIND)
        self.is_plain = tables.is_game & is_known & has_blinds & _have_short_ids(tables, self.sources, self.source_index)
        self.big_blind = np.where(has_blinds, tables.blinds[:, 1], 1.0)
        self._seat()
        self._fill_pots()
        self._deal_board()
        self._act()
        self._deal_holes()
        self._check_cards()
        self.is_all_in = np.zeros(num_hands, dtype=np.bool_)
        self._play()

    def _lose(self, hands: Ints) -> None:
        self.is_plain[hands] = False

    def _seat(self) -> None:
        tables = self.tables
        players = tables.num_players
        num_hands = len(players)
        self.first_seat = np.cumsum(players) - players
        self.hand_of_seat = np.repeat(np.arange(num_hands), players)
        self.seat_of_seat = np.arange(len(self.hand_of_seat)) - self.first_seat[self.hand_of_seat]
        numbers = tables.seat_numbers
        is_first = self.seat_of_seat == 0
        is_rising = np.ones(len(numbers), dtype=np.bool_)
        is_rising[1:] = (numbers[1:] > numbers[:-1]) | is_first[1:]
        # Seat numbers below 0 are told apart by the careful way.
        is_odd = ~is_rising | (numbers < 0) | (tables.is_sitting_out != 0) | ~(tables.stacks > 0.0)
        self._lose(self.hand_of_seat[is_odd])
        at_or_before = numbers <= tables.dealer_seats[self.hand_of_seat]
        button = np.bincount(self.hand_of_seat[at_or_before], minlength=num_hands) - 1
        self.button = np.where(button < 0, players - 1, button)
        self.stacks = np.zeros((num_hands, MAX_SEATS), dtype=np.float64)
        self.stacks[self.hand_of_seat, self.seat_of_seat] = tables.stacks
        self._know_players()

    def _know_players(self) -> None:
        """Prepare finding seats by player id."""
        ids = self.tables.player_ids
        self.has_index_ids = bool((ids == self.seat_of_seat).all())
        if self.has_index_ids:
            return
        order = np.lexsort((ids, self.hand_of_seat))
        self.sorted_ids, self.sorted_hands, self.sorted_seats = ids[order], self.hand_of_seat[order], self.seat_of_seat[order]
        is_twice = (self.sorted_ids[1:] == self.sorted_ids[:-1]) & (self.sorted_hands[1:] == self.sorted_hands[:-1])
        self._lose(self.sorted_hands[1:][is_twice])

    def _seats(self, hands: Ints, ids: Ints) -> Ints:
        """Return the seats of players, 0 where there is none; such hands are lost."""
        if self.has_index_ids:
            is_seat = (ids >= 0) & (ids < self.tables.num_players[hands])
            self._lose(hands[~is_seat])
            return np.where(is_seat, ids, 0)
        # Both sides ranked together, so that one search finds a hand and an id at once.
        known, rank = np.unique(np.concatenate([self.sorted_ids, ids]), return_inverse=True)
        key = self.sorted_hands * len(known) + rank[: len(self.sorted_ids)]
        wanted = hands * len(known) + rank[len(self.sorted_ids) :]
        place = np.minimum(np.searchsorted(key, wanted), max(0, len(key) - 1))
        is_seat = key[place] == wanted if len(key) else np.zeros(len(wanted), dtype=np.bool_)
        self._lose(hands[~is_seat])
        return np.where(is_seat, self.sorted_seats[place], 0)

    def _fill_pots(self) -> None:
        """Add up the pots of each hand; each must pay out what it holds."""
        tables = self.tables
        num_hands = len(tables.num_pots)
        self.hand_of_pot = np.repeat(np.arange(num_hands), tables.num_pots)
        pot_of_win = np.repeat(np.arange(len(self.hand_of_pot)), tables.num_wins)
        # bincount adds in the order of the file, as the careful way does.
        paid = np.bincount(pot_of_win, weights=tables.win_amounts, minlength=len(self.hand_of_pot))
        self._lose(self.hand_of_pot[np.abs(tables.pot_amounts - paid) > RELATIVE_SLACK * tables.pot_amounts])
        pots = np.bincount(self.hand_of_pot, weights=tables.pot_amounts, minlength=num_hands)
        self.pots = np.where(tables.num_pots > 0, pots, np.nan)

    def _deal_board(self) -> None:
        tables = self.tables
        num_hands = len(tables.num_rounds)
        self.hand_of_round = np.repeat(np.arange(num_hands), tables.num_rounds)
        first_round = np.cumsum(tables.num_rounds) - tables.num_rounds
        is_first = np.arange(len(self.hand_of_round)) == first_round[self.hand_of_round]
        street = tables.streets.astype(np.int64)
        before = np.where(is_first, -1, np.concatenate([[-1], street[:-1]]))
        is_showdown = street == _SHOWDOWN
        is_next = (street == before + 1) | (is_showdown & (before >= 0) & (before < _SHOWDOWN))
        self._lose(self.hand_of_round[~is_next | (tables.num_cards != _CARDS_OF_STREET[street])])
        self.num_board = np.bincount(self.hand_of_round, weights=tables.num_cards, minlength=num_hands).astype(np.int64)
        self.first_card = np.cumsum(tables.num_cards, dtype=np.int64) - tables.num_cards  # of each round
        self.board = tables.board.astype(np.int64)
        flops = np.flatnonzero(tables.num_cards == _CARDS_OF_STREET[1])
        places = self.first_card[flops][:, None] + np.arange(3)
        self.board[places] = np.sort(self.board[places], axis=1)

    def _act(self) -> None:
        """Sort the actions into steps, cards and nothing."""
        tables = self.tables
        self.round_of_action = np.repeat(np.arange(len(tables.num_actions)), tables.num_actions)
        self.hand_of_action = self.hand_of_round[self.round_of_action]
        self.kind = _KIND_OF_CODE[tables.codes]
        self.seat_of_action = self._seats(self.hand_of_action, tables.action_ids)
        kind, amount = self.kind, tables.amounts
        is_still = (kind == EventKind.FOLD) | (kind == EventKind.CHECK)
        is_paying = (kind < EventKind.FLOP) & ~is_still
        is_odd = (kind == _UNUSUAL) | (is_still & (amount != 0.0)) | (is_paying & ~(amount > 0.0))
        self._lose(self.hand_of_action[is_odd])

    def _deal_holes(self) -> None:
        """Note the known hole cards; they are dealt before the flop and shown after it."""
        tables = self.tables
        num_hands = len(tables.num_players)
        combo = tables.action_combos.astype(np.int64) - 1
        has_cards = tables.action_combos != NO_CARDS
        is_preflop = tables.streets[self.round_of_action] == 0
        is_dealt = (self.kind == _DEALT) & has_cards
        is_shown = (self.kind == _SHOWN) & has_cards
        self._lose(self.hand_of_action[(has_cards & ~is_dealt & ~is_shown) | (is_dealt & ~is_preflop) | (is_shown & is_preflop)])
        place = self.hand_of_action * MAX_SEATS + self.seat_of_action
        known = np.full(num_hands * MAX_SEATS, NO_COMBO, dtype=np.int64)
        dealt_place = place[is_dealt]
        known[dealt_place] = combo[is_dealt]
        if len(dealt_place) > 1:
            times = np.bincount(dealt_place, minlength=len(known))
            self._lose(dealt_place[times[dealt_place] > 1] // MAX_SEATS)
        is_label_shown = np.zeros(len(known), dtype=np.bool_)
        shown_place, shown_combo = place[is_shown], combo[is_shown]
        is_new = known[shown_place] == NO_COMBO
        is_label_shown[shown_place[is_new]] = True
        known[shown_place[is_new]] = shown_combo[is_new]
        self._lose(shown_place[known[shown_place] != shown_combo] // MAX_SEATS)
        seats = self.hand_of_seat * MAX_SEATS + self.seat_of_seat
        self.combos, self.is_shown = known[seats].astype(np.int16), is_label_shown[seats]

    def _check_cards(self) -> None:
        is_known = self.combos != NO_COMBO
        holes = COMBO_CARDS[self.combos[is_known]]  # (known, 2)
        hand_of_hole = self.hand_of_seat[is_known]
        hand_of_card = np.repeat(self.hand_of_round, self.tables.num_cards)
        place = np.concatenate(
            [hand_of_hole * NUM_CARDS + holes[:, 0], hand_of_hole * NUM_CARDS + holes[:, 1], hand_of_card * NUM_CARDS + self.board]
        )
        times = np.bincount(place, minlength=1)
        self._lose(np.flatnonzero(times > 1) // NUM_CARDS)

    def _play(self) -> None:
        """Interleave actions and deals, play them, and see who collects."""
        tables = self.tables
        num_hands = len(tables.num_players)
        is_step = self.kind < EventKind.FLOP
        num_rounds, num_items = len(self.hand_of_round), len(self.hand_of_round) + len(self.kind)
        # A round's deal comes before its actions.
        at_round = np.arange(num_rounds) + np.cumsum(tables.num_actions) - tables.num_actions
        at_action = np.arange(len(self.kind)) + self.round_of_action + 1
        is_kept = np.zeros(num_items, dtype=np.bool_)
        is_kept[at_round] = tables.num_cards > 0
        is_kept[at_action] = is_step
        kind = np.zeros(num_items, dtype=np.uint8)
        kind[at_round] = _DEAL_OF_STREET[tables.streets]
        kind[at_action] = self.kind
        seat = np.zeros(num_items, dtype=np.int64)
        seat[at_action] = self.seat_of_action
        chips = np.zeros(num_items, dtype=np.float64)
        chips[at_action] = tables.amounts
        hand = np.zeros(num_items, dtype=np.int64)
        hand[at_round], hand[at_action] = self.hand_of_round, self.hand_of_action
        round_of_item = np.zeros(num_items, dtype=np.int64)
        round_of_item[at_round] = np.arange(num_rounds)
        self.step_round = round_of_item[is_kept]
        self.step_hand = hand[is_kept]
        self.steps = Steps(
            kind=kind[is_kept],
            seat=seat[is_kept],
            chips=chips[is_kept],
            num_steps=np.bincount(self.step_hand, minlength=num_hands),
            stacks=self.stacks,
            num_players=tables.num_players,
            num_board=self.num_board,
            big_blind=self.big_blind,
            pot=self.pots,
        )
        is_played, self.is_all_in, live = play_plain(self.steps)
        self.is_plain &= is_played
        hand_of_win = np.repeat(self.hand_of_pot, tables.num_wins)
        seat_of_win = self._seats(hand_of_win, tables.win_ids)
        place = hand_of_win * MAX_SEATS + seat_of_win
        collected = np.bincount(place, weights=tables.win_amounts, minlength=num_hands * MAX_SEATS).reshape(-1, MAX_SEATS)
        is_live = (live[:, None] >> np.arange(MAX_SEATS)) & 1 != 0
        self.is_plain &= ~((collected != 0.0) & ~is_live).any(axis=1)
        self.collected = collected[self.hand_of_seat, self.seat_of_seat].astype(np.float64)

    def named_skeletons(self) -> NamedSkeletons:
        """Return all hands, those that are not plain too."""
        tables = self.tables
        num_hands = len(tables.num_players)
        players = tables.num_players
        num_cards = np.where(self.steps.kind >= EventKind.FLOP, tables.num_cards[self.step_round], 0).astype(np.int64)
        width = 1 + num_cards
        head = 2 * players + 3
        lengths = head + np.bincount(self.step_hand, weights=width, minlength=num_hands).astype(np.int64)
        starts = np.cumsum(lengths) - lengths
        size = int(lengths.sum())
        stream = np.zeros(size, dtype=np.uint16)
        chips = np.zeros(size, dtype=np.float64)
        stream[starts] = tokens.BOS
        start_of_seat = starts[self.hand_of_seat]
        at_sit = start_of_seat + 1 + self.seat_of_seat
        stream[at_sit] = int(BaseAction.SIT) * MAX_SEATS + self.seat_of_seat
        chips[at_sit] = tables.stacks
        stream[starts + players + 1] = int(BaseAction.IS_BUTTON) * MAX_SEATS + self.button
        stream[starts + players + 2] = tokens.PREFLOP
        stream[start_of_seat + first_slot(0) + players[self.hand_of_seat] + self.seat_of_seat] = (
            int(BaseAction.HIDE_HOLE) * MAX_SEATS + self.seat_of_seat
        )
        # A step's place: after the head and all wider or narrower steps of its hand before it.
        before = np.cumsum(width) - width
        first_step = np.cumsum(self.steps.num_steps) - self.steps.num_steps
        base = np.concatenate([before, [int(width.sum())]])[first_step]
        at_step = before + (starts + head - base)[self.step_hand]
        is_deal = self.steps.kind >= EventKind.FLOP
        acts = ~is_deal
        column = self.steps.seat + MAX_SEATS * self.is_all_in
        stream[at_step[acts]] = EVENT_TOKENS[self.steps.kind[acts], column[acts]]
        chips[at_step] = self.steps.chips
        deals = np.flatnonzero(is_deal)
        stream[at_step[deals]] = tokens.FLOP + (self.steps.kind[deals].astype(np.int64) - EventKind.FLOP)
        card_of_deal = np.repeat(deals, num_cards[deals])
        within = np.arange(len(card_of_deal)) - np.repeat(np.cumsum(num_cards[deals]) - num_cards[deals], num_cards[deals])
        card = self.board[self.first_card[self.step_round[card_of_deal]] + within]
        stream[at_step[card_of_deal] + 1 + within] = tokens.COMMUNITY_OFFSET + card
        return NamedSkeletons(
            skeletons=Skeletons(
                tokens=stream,
                values=(chips / np.repeat(self.big_blind, lengths)).astype(np.float32),
                lengths=lengths,
                num_players=players,
                combos=self.combos,
                is_shown=self.is_shown,
            ),
            digests=digests(
                stream,
                chips,
                lengths,
                blinds=tables.blinds,
                num_players=players,
                combos=self.combos,
                is_shown=self.is_shown,
                seat_numbers=tables.seat_numbers.astype(np.uint64),
                collected=self.collected,
            ),
            hand_ids=_hand_ids(self.sources, self.source_index, tables.game_numbers),
            source_index=self.source_index,
            sources=self.sources,
        )


def _sources(tables: OhhTables) -> tuple[tuple[str, ...], Ints]:
    """Return the sources of the hands in order of first appearance, and which is each hand's, (H,)."""
    if len(set(tables.sites)) == 1 == len(set(tables.networks)):  # as a rule
        return (f"{tables.sites[0]}/{tables.networks[0]}",), np.zeros(len(tables.sites), dtype=np.int64)
    sources: dict[str, int] = {}
    names = [f"{site}/{network}" for site, network in zip(tables.sites, tables.networks, strict=True)]
    index = np.array([sources.setdefault(name, len(sources)) for name in names], dtype=np.int64)
    return tuple(sources), index


def _have_short_ids(tables: OhhTables, sources: tuple[str, ...], source_index: Ints) -> Bools:
    sizes = np.array(list(map(len, sources)), dtype=np.int64)[source_index]
    is_short: Bools = sizes + np.array(list(map(len, tables.game_numbers)), dtype=np.int64) < MAX_HAND_ID  # and a # between
    return is_short


def _hand_ids(sources: tuple[str, ...], source_index: Ints, game_numbers: list[str]) -> tuple[str, ...]:
    prefixes = [f"{source}#" for source in sources]
    if len(prefixes) == 1:
        prefix = prefixes[0]
        return tuple([prefix + number for number in game_numbers])
    return tuple([prefixes[source] + number for source, number in zip(source_index.tolist(), game_numbers, strict=True)])


_SHOWDOWN: Final = STREETS["Showdown"]
_CARDS_OF_STREET: Final = np.array([0, 3, 1, 1, 0], dtype=np.uint8)
_DEAL_OF_STREET: Final = np.array([0, EventKind.FLOP, EventKind.TURN, EventKind.RIVER, 0], dtype=np.uint8)

# What an action is to this way of reading: an EventKind, cards, nothing, or a reason to leave the hand to the careful way.
_DEALT: Final = 20
_SHOWN: Final = 21
_NOTHING: Final = 22
_UNUSUAL: Final = 23


def _kinds() -> Bytes:
    kinds = np.full(256, _UNUSUAL, dtype=np.uint8)
    for kind in (EventKind.FOLD, EventKind.CHECK, EventKind.CALL, EventKind.BET, EventKind.RAISE):
        kinds[kind] = kind
    kinds[Code.POST_ANTE] = EventKind.POST_ANTE
    kinds[Code.POST_DEAD] = EventKind.POST_ANTE
    for code in (Code.POST_SB, Code.POST_BB, Code.STRADDLE, Code.EXTRA_BLIND):
        kinds[code] = EventKind.POST_BLIND
    kinds[Code.DEALT] = _DEALT
    kinds[Code.SHOWS] = kinds[Code.MUCKS] = _SHOWN
    kinds[Code.NOTHING] = _NOTHING
    return kinds


_KIND_OF_CODE: Final = _kinds()
