"""The actions of one PHH hand, played on PokerKit's state machine: what happened, and which cards are known.

PokerKit decides turn order, prices and legality, and what it refuses is refused: none of its repairs are used. Showdown lines
move no chips, so they are kept out of the play; they are labels, and only where the file names no result are they handed to
PokerKit at the end, to see who wins. Players are numbered as PHH numbers them: small blind first, button last; heads-up, the
big blind first and the button, who posts the small blind, last.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from pokerkit import Automation, HandHistory, State
from pokerkit.notation import parse_action
from pokerkit.state import (
    AntePosting,
    BlindOrStraddlePosting,
    BoardDealing,
    CheckingOrCalling,
    CompletionBettingOrRaisingTo,
    Folding,
)

from range_reader_core import cards
from range_reader_core.hand import BOARD_CARDS, NO_SEAT, Event, EventKind, LabelSource
from range_reader_core.ohh_rejects import RejectError, RejectReason
from range_reader_core.ohh_tags import HandTag

Chips = int | Decimal  # exact, as PokerKit reads them
Cards = tuple[int | None, ...]  # None where a card is unknown

AUTOMATIONS: Final = (
    Automation.ANTE_POSTING,
    Automation.BLIND_OR_STRADDLE_POSTING,
    Automation.BET_COLLECTION,
    Automation.RUNOUT_COUNT_SELECTION,
)
_STREETS: Final = (EventKind.FLOP, EventKind.TURN, EventKind.RIVER)
_UNKNOWN: Final = "??"
_DEALER = re.compile(r"d (?:dh p(?P<player>[1-9][0-9]?)|db) (?P<cards>\S+)")
_PLAYER = re.compile(r"p(?P<player>[1-9][0-9]?) (?:(?P<verb>f|cc)|cbr (?P<amount>\S+)|(?P<show>sm)(?: (?P<cards>\S+))?)")
_AMOUNT = re.compile(r"[0-9]{1,16}(?:\.[0-9]{1,16})?")


class PlayedHand:
    """One hand while it is played, and what it came to."""

    def __init__(self, history: HandHistory) -> None:
        """Post the antes and blinds.

        Raises:
            RejectError: there are no forced bets.
        """
        self.num_players = len(history.starting_stacks)
        self.left: list[Chips] = list(history.starting_stacks)
        self.contributed: list[Chips] = [0] * self.num_players
        self.uncalled: list[Chips] = [0] * self.num_players
        self.has_folded = [False] * self.num_players
        self.has_mucked = [False] * self.num_players
        self.dealt: list[Cards] = [()] * self.num_players
        self.shown: list[Cards] = [()] * self.num_players
        self.board: list[int] = []
        self.events: list[Event] = []
        self.tags: set[str] = set()
        self._live: list[Chips] = [0] * self.num_players  # committed on this street, antes left out
        self._num_taken = 0
        try:
            self._state: State = history.create_state()
        except ValueError as err:
            raise RejectError(RejectReason.NO_BLINDS, str(err)) from err
        self._take_operations()
        blinds = history.blinds_or_straddles or []
        if not all(blinds[:2]):
            self.tags.add(HandTag.NO_SMALL_BLIND)
        if any(blinds[2:]):
            self.tags.add(HandTag.EXTRA_POST)
        if self.num_players == 2:  # it posts by player, but the small blind is the second one
            self.events.sort(key=lambda event: (event.kind, -event.seat if event.kind is EventKind.POST_BLIND else event.seat))

    def play(self, actions: list[str]) -> None:
        """Play all actions.

        Raises:
            RejectError: an action is not PHH, or PokerKit refuses it.
        """
        for number, action in enumerate(actions, start=1):
            words = " ".join(action.partition("#")[0].split())
            if not words:
                continue
            try:
                self._play_one(words)
            except RejectError as err:
                raise RejectError(err.reason, f"action {number} {words[:40]!r}: {err}") from err
            except (ValueError, AssertionError) as err:  # PokerKit asserts where it takes its own word for a rule
                raise RejectError(RejectReason.ILLEGAL_ACTION, f"action {number} {words[:40]!r}: {err}") from err
        self._check_complete()
        self._return_uncalled()

    def live_players(self) -> list[int]:
        """Return the players who neither folded nor gave up their cards at the showdown."""
        unfolded = [player for player in range(self.num_players) if not self.has_folded[player]]
        # Where everyone mucks, as the last one may who takes the pot unseen, nobody has lost by it.
        return [player for player in unfolded if not self.has_mucked[player]] or unfolded

    def known_hole(self, player: int) -> tuple[int, int] | None:
        """Return both hole cards, the lower first, however they are known; None where one is missing."""
        for hole in (self.dealt[player], self.shown[player]):
            known = [card for card in hole if card is not None]
            if len(known) == 2:
                return min(known), max(known)
        return None

    def label_source(self, player: int) -> LabelSource | None:
        """Return how the hole cards are known, None where they are not."""
        if self.known_hole(player) is None:
            return None
        return LabelSource.DEALT if self.is_dealt_known(player) else LabelSource.SHOWN

    def is_dealt_known(self, player: int) -> bool:
        """Whether the deal itself names both hole cards."""
        return len(self.dealt[player]) == 2 and None not in self.dealt[player]

    def pot_winnings(self) -> list[Chips] | None:
        """Return what each player wins where all others gave up, None where a showdown decides: cards are not compared."""
        live = self.live_players()
        if len(live) != 1:
            return None
        pot = sum(self.contributed) - sum(self.uncalled)
        return [pot if player == live[0] else 0 for player in range(self.num_players)]

    def _play_one(self, words: str) -> None:
        if match := _DEALER.fullmatch(words):
            dealt = parse_cards(match["cards"])
            if match["player"] is None:
                self._deal_board(dealt)
            else:
                self._deal_hole(self._player(match["player"]), dealt, words)
        elif match := _PLAYER.fullmatch(words):
            player = self._player(match["player"])
            if match["show"]:
                self._show(player, match["cards"])
                return
            if match["amount"] is not None and not _AMOUNT.fullmatch(match["amount"].replace(",", "")):
                raise RejectError(RejectReason.BAD_NUMBER, f"expected an amount in plain digits, got {match['amount'][:40]!r}")
            parse_action(self._state, words)
            self._take_operations()
        else:
            raise RejectError(RejectReason.UNKNOWN_ACTION, "expected one of: d dh, d db, f, cc, cbr, sm")

    def _player(self, digits: str) -> int:
        player = int(digits) - 1
        if player >= self.num_players:
            raise RejectError(RejectReason.PLAYERS, f"there are {self.num_players} players")
        return player

    def _deal_hole(self, player: int, dealt: Cards, words: str) -> None:
        if len(dealt) > 2:
            raise RejectError(RejectReason.GAME_TYPE, f"expected two hole cards, got {len(dealt)}")
        parse_action(self._state, words)
        self.dealt[player] += dealt

    def _deal_board(self, dealt: Cards) -> None:
        state = self._state
        if len(self.board) == 5 and state.actor_index is None and len(self.live_players()) > 1:
            self.tags.add(HandTag.RUN_TWICE)  # the betting was over; the first board is the one on record
            return
        if None in dealt:
            raise RejectError(RejectReason.BAD_CARD, "a hidden board card")
        while state.showdown_indices:
            state.show_or_muck_hole_cards(())  # an all-in whose cards the file shows later, or never
        if state.can_burn_card("??"):
            state.burn_card("??")
        state.deal_board("".join(cards.format_card(card) for card in dealt if card is not None))
        self._take_operations()

    def _show(self, player: int, text: str | None) -> None:
        if text is None:
            self.has_mucked[player] = True
            return
        shown = self.dealt[player] if text == "-" else parse_cards(text)
        if len(shown) > 2:
            raise RejectError(RejectReason.BAD_CARD, "expected at most two hole cards")
        if self.is_dealt_known(player) and not {card for card in shown if card is not None} <= set(self.dealt[player]):
            raise RejectError(RejectReason.BAD_CARD, "shows other cards than were dealt")
        if len(shown) == 2 and None not in shown:
            self.shown[player] = shown
        elif any(card is not None for card in shown) and not self.is_dealt_known(player):
            self.tags.add(HandTag.PARTIAL_SHOW)
        if self.has_folded[player]:
            self.tags.add(HandTag.FOLDED_SHOW)
        if 0 < len(self.board) < 5:
            self.tags.add(HandTag.MID_SHOWDOWN)

    def _take_operations(self) -> None:
        """Turn what PokerKit recorded since the last call into events."""
        operations = self._state.operations
        for operation in operations[self._num_taken :]:
            if isinstance(operation, AntePosting):
                self._put(EventKind.POST_ANTE, operation.player_index, operation.amount)
            elif isinstance(operation, BlindOrStraddlePosting):
                self._put(EventKind.POST_BLIND, operation.player_index, operation.amount)
            elif isinstance(operation, Folding):
                self.has_folded[operation.player_index] = True
                self.events.append(Event(EventKind.FOLD, operation.player_index))
            elif isinstance(operation, CheckingOrCalling):
                self._put(EventKind.CALL if operation.amount else EventKind.CHECK, operation.player_index, operation.amount)
            elif isinstance(operation, CompletionBettingOrRaisingTo):
                kind = EventKind.RAISE if max(self._live) else EventKind.BET
                self._put(kind, operation.player_index, operation.amount - self._live[operation.player_index])
            elif isinstance(operation, BoardDealing):
                self._put_board([cards.parse_card(repr(card)) for card in operation.cards])
        self._num_taken = len(operations)

    def _put(self, kind: EventKind, player: int, chips: Chips) -> None:
        self.left[player] -= chips
        self.contributed[player] += chips
        if kind is not EventKind.POST_ANTE:
            self._live[player] += chips
        self.events.append(Event(kind, player, float(chips), is_all_in=chips > 0 and self.left[player] == 0))

    def _put_board(self, dealt: list[int]) -> None:
        """Add board cards, which may come one at a time; a street is an event once it is whole."""
        self._return_uncalled()
        self.board += dealt
        size = 0
        for street in _STREETS:
            size += BOARD_CARDS[street]
            if size == len(self.board):
                self.events.append(Event(street, NO_SEAT, board=tuple(sorted(self.board[-BOARD_CARDS[street] :]))))

    def _return_uncalled(self) -> None:
        """End a street: what nobody matched belongs to its owner still."""
        highest = max(self._live)
        if highest and self._live.count(highest) == 1:
            owner = self._live.index(highest)
            self.uncalled[owner] += highest - sorted(self._live)[-2]
        self._live = [0] * self.num_players

    def _check_complete(self) -> None:
        if not any(self.dealt) or self._state.actor_index is not None:
            raise RejectError(RejectReason.INCOMPLETE, "the actions end while a player is still to act")
        if len(self.live_players()) > 1 and len(self.board) < 5:
            raise RejectError(
                RejectReason.INCOMPLETE, f"the actions end at {len(self.board)} board cards with several live players"
            )


def parse_cards(text: str) -> Cards:
    """Return the cards of a PHH text such as ``"AcKd"`` or ``"Ac??"``.

    Raises:
        RejectError: a part of it is no card.
    """
    return tuple(_parse_cards(text))


def _parse_cards(text: str) -> Iterator[int | None]:
    for start in range(0, len(text), 2):
        name = text[start : start + 2]
        card = cards.CARD_BY_NAME.get(name)
        if card is None and name != _UNKNOWN:
            raise RejectError(RejectReason.BAD_CARD, f"expected cards such as 'AcKd' or '????', got {text[:20]!r}")
        yield card
