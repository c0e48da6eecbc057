"""One decoded record -> a ``Draft``: seats, cards and steps, everything but what depends on the reading of amounts.

So a file can vote on how its amounts are to be read (``ohh_amounts``) before any hand is settled (``ohh_settle``).
Positions come from seat numbers, the order of events from the order of the arrays; ids, action numbers and labels of
bets are taken as hints. Cards shown are kept as labels; they never become steps.
"""

from bisect import bisect_right
from itertools import permutations
from operator import attrgetter
from typing import Final, Never

import msgspec

from range_reader_core.cards import CARD_BY_NAME
from range_reader_core.hand import NO_SEAT, Event, EventKind, LabelSource
from range_reader_core.ohh_actions import CODES, PASSIVE, POST_KINDS, Code
from range_reader_core.ohh_cards import HIDDEN_CARD
from range_reader_core.ohh_rejects import RejectError, RejectReason
from range_reader_core.ohh_schema import OhhAction, OhhHand, OhhPlayer, OhhPot, OhhRound
from range_reader_core.ohh_tags import HandTag
from range_reader_core.replay import RELATIVE_SLACK, cent_slack
from range_reader_core.tokens import MAX_SEATS


class Draft(msgspec.Struct, gc=False):
    """A hand read but not yet settled: everything except what depends on the reading of the amounts."""

    hand_id: str
    source: str
    seat_numbers: tuple[int, ...]
    button: int
    blinds: tuple[float, float, float]  # small, big, ante
    stacks: list[float]
    hole_cards: list[tuple[int, int] | None]
    label_sources: list[LabelSource | None]
    steps: list[Event]
    pot_chips: float | None  # None: the source names no pots
    added_chips: float  # put into the pot by nobody's stack
    collected: list[float]
    top_ups: dict[int, float]  # chips added to a stack during the hand
    board: list[int]  # all community cards so far
    tags: set[str]


def hand_id_of(hand: OhhHand) -> str:
    """Return the id under which a record is known: source and game number; "" without a number."""
    return f"{hand.site_name}/{hand.network_name}#{hand.game_number}" if hand.game_number else ""


def draft(hand: OhhHand, tags: set[str]) -> Draft:
    """Return the seats, cards and steps of a record.

    Rounds are read in the order of the array, which is the truth; only where that makes no sense and their ids differ,
    in the order of the ids.

    Raises:
        RejectError: the record is not a readable no-limit hold'em hand.
    """
    try:
        return _draft(hand, set(tags))
    except _NotSittingOutError as error:
        error.player.is_sitting_out = False
        return draft(hand, tags)
    except RejectError as error:
        ids = [played_round.id for played_round in hand.rounds]
        if error.reason not in {RejectReason.STREET, RejectReason.BOARD_SHAPE} or len(set(ids)) < len(ids) or ids == sorted(ids):
            raise
    hand.rounds.sort(key=lambda played_round: played_round.id)
    return _draft(hand, set(tags))


# A fold or a check of a seat is always the same event: shared, not built again.
_FOLDS: Final = [Event(EventKind.FOLD, seat) for seat in range(MAX_SEATS)]
_CHECKS: Final = [Event(EventKind.CHECK, seat) for seat in range(MAX_SEATS)]
_DEALS: Final = {"Flop": (EventKind.FLOP, 0, 3), "Turn": (EventKind.TURN, 3, 4), "River": (EventKind.RIVER, 4, 5)}
_RAISE: Final = EventKind.RAISE
_FOLD: Final = EventKind.FOLD
_CHECK: Final = EventKind.CHECK
_CALL: Final = EventKind.CALL
_BET: Final = EventKind.BET
_DEALT: Final = Code.DEALT
_SHOWS: Final = Code.SHOWS
_POST_ANTE: Final = Code.POST_ANTE
_POST_SB: Final = Code.POST_SB
_POST_BB: Final = Code.POST_BB
_LABEL_DEALT: Final = LabelSource.DEALT
_PAIRS: Final[dict[tuple[str, ...] | None, tuple[int, int]]] = {
    (first, second): (min(pair), max(pair))
    for first, second in permutations(CARD_BY_NAME, 2)
    for pair in [(CARD_BY_NAME[first], CARD_BY_NAME[second])]
}
_new = tuple.__new__


def _draft(hand: OhhHand, tags: set[str]) -> Draft:
    limit = hand.bet_limit
    if hand.game_type != "Holdem" or limit.bet_type != "NL" or limit.bet_cap or hand.tournament:
        _check_game(hand, tags)
    players = _playing(hand)
    seat_of: dict[int | str | None, int] = {}
    stacks: list[float] = []
    seat_numbers: list[int] = []
    for player in players:
        seat_of[player.id] = len(stacks)
        stacks.append(player.starting_stack)
        seat_numbers.append(player.seat)
    num_players = len(players)
    hole_cards: list[tuple[int, int] | None] = [None] * num_players
    label_sources: list[LabelSource | None] = [None] * num_players
    steps: list[Event] = []
    board: list[int] = []
    source = f"{hand.site_name}/{hand.network_name}"
    built = Draft(
        f"{source}#{hand.game_number}" if hand.game_number else "",
        source,
        tuple(seat_numbers),
        0,
        (hand.small_blind_amount, hand.big_blind_amount, hand.ante_amount),
        stacks,
        hole_cards,
        label_sources,
        steps,
        None,
        0.0,
        [0.0] * num_players,
        {},
        board,
        tags,
    )
    append = steps.append
    has_shown = False
    small_blind_seat = big_blind_seat = -1
    for played_round in hand.rounds:
        if played_round.cards or board or played_round.street != "Preflop":
            _deal_street(played_round, built)
            if has_shown and played_round.cards:
                tags.add(HandTag.MID_SHOWDOWN)
        for action in played_round.actions:
            code = CODES[action.action]
            seat = seat_of.get(action.player_id, -1)
            if seat < 0:
                _absent_action(action, code, hand, built)
            elif code is _DEALT:
                pair = _PAIRS.get(action.cards)
                if pair is not None and hole_cards[seat] is None:
                    hole_cards[seat] = pair
                    label_sources[seat] = _LABEL_DEALT
                else:
                    _know_cards(action.cards, seat, built, _LABEL_DEALT)
            elif code is _FOLD:
                if action.amount:
                    _refuse_amount(action)
                append(_FOLDS[seat])
            elif code is _CHECK:
                if action.amount:
                    _refuse_amount(action)
                append(_CHECKS[seat])
            elif code is _CALL or code is _RAISE or code is _BET:
                chips = action.amount
                if chips is None:
                    _refuse_no_amount(action)
                append(_new(Event, (code, seat, chips, action.is_allin is not False, ())))
            elif code in POST_KINDS:
                chips = action.amount
                if chips is None:
                    _refuse_no_amount(action)
                if code is _POST_SB:
                    small_blind_seat = seat
                elif code is _POST_BB:
                    big_blind_seat = seat
                elif code is not _POST_ANTE:
                    tags.add(HandTag.EXTRA_POST)
                if chips:
                    append(_new(Event, (POST_KINDS[code], seat, chips, action.is_allin is not False, ())))
                else:
                    tags.add(HandTag.ZERO_POST)
            elif code is _SHOWS:
                has_shown = True
                _know_cards(action.cards, seat, built, LabelSource.SHOWN)
                if _FOLDS[seat] in steps:
                    tags.add(HandTag.FOLDED_SHOW)
            else:
                _odd_action(action, code, seat, built)
    button = bisect_right(seat_numbers, hand.dealer_seat) - 1
    if button < 0 or seat_numbers[button] != hand.dealer_seat:  # the nearest occupied seat before an empty one
        tags.add(HandTag.DEAD_BUTTON)
        button %= num_players
    built.button = button
    if small_blind_seat < 0:
        tags.add(HandTag.NO_SMALL_BLIND)
    elif small_blind_seat == big_blind_seat:
        tags.add(HandTag.DOUBLE_BLIND)
    if num_players == 2 and 0 <= small_blind_seat != button:
        tags.add(HandTag.SMALL_BLIND_OFF_BUTTON)
    if not hand.big_blind_amount or not hand.small_blind_amount:
        _find_blinds(hand, built)
    if label_sources.count(None) == num_players:
        tags.add(HandTag.NO_HOLE_CARDS)
    _read_pots(hand, seat_of, built)
    return built


def _check_game(hand: OhhHand, tags: set[str]) -> None:
    """Refuse what is not uncapped no-limit hold'em."""
    limit = hand.bet_limit
    if hand.game_type != "Holdem":
        raise RejectError(RejectReason.GAME_TYPE, f"expected game_type Holdem, got {hand.game_type!r}")
    if limit.bet_type != "NL":
        raise RejectError(RejectReason.BET_TYPE, f"expected bet_type NL, got {limit.bet_type!r}")
    if limit.bet_cap:
        raise RejectError(RejectReason.CAPPED, f"expected no bet cap, got {limit.bet_cap}")
    if hand.tournament:
        tags.add(HandTag.TOURNAMENT)


def _playing(hand: OhhHand) -> list[OhhPlayer]:
    """Return the players dealt in, in seat order."""
    players = hand.players
    last_seat = -1
    ids = set()
    is_plain = True  # in seat order and all playing
    for player in players:
        if player.seat <= last_seat or player.is_sitting_out or not player.starting_stack:
            is_plain = False
        last_seat = player.seat
        ids.add(player.id)
    if len(ids) < len(players):
        raise RejectError(RejectReason.PLAYERS, f"expected different player ids, got {[player.id for player in players]}")
    if not is_plain:
        seats = [player.seat for player in players]
        if len(set(seats)) < len(seats):
            reason = RejectReason.PLAYERS if any(seats) else RejectReason.SEATS
            raise RejectError(reason, f"expected different seats, got {seats}")
        players = [player for player in players if player.starting_stack and not player.is_sitting_out]
        players.sort(key=_seat)
    if len(players) < 2:
        raise RejectError(RejectReason.PLAYERS, f"expected two players with chips, got {len(players)}")
    if len(players) > MAX_SEATS:
        raise RejectError(RejectReason.TOO_MANY, f"expected at most {MAX_SEATS} players, got {len(players)}")
    return players


_seat = attrgetter("seat")


def _deal_street(played_round: OhhRound, built: Draft) -> None:
    """Add a street's deal to the steps."""
    street, names, board = played_round.street, played_round.cards, built.board
    deal = _DEALS.get(street)
    if deal is None:
        if street not in {"Preflop", "Showdown"}:
            raise RejectError(RejectReason.STREET, f"expected Preflop, Flop, Turn, River or Showdown, got {street!r}")
        if names:
            raise RejectError(RejectReason.BOARD_SHAPE, f"the {street} round deals board cards: {names}")
        if street == "Preflop" and board:
            raise RejectError(RejectReason.STREET, f"Preflop follows {len(board)} board cards")
        return
    kind, num_before, num_after = deal
    if len(board) >= num_after:
        if names:
            built.tags.add(HandTag.RUN_TWICE)
        elif len(board) > num_after and played_round.actions:
            raise RejectError(RejectReason.STREET, f"{street} follows {len(board)} board cards")
        return
    if not names and not played_round.actions:
        return
    cards = [_board_card(name) for name in names or ()]
    if num_before and len(cards) == num_after and set(cards[:num_before]) == set(board):
        cards = cards[num_before:]
    if len(board) != num_before or len(cards) != num_after - num_before:
        raise RejectError(RejectReason.BOARD_SHAPE, f"{street} deals {len(cards)} cards after {len(board)}")
    cards.sort()
    board += cards
    built.steps.append(_new(Event, (kind, NO_SEAT, 0.0, False, tuple(cards))))


def _board_card(name: str) -> int:
    card = CARD_BY_NAME.get(name)
    if card is None:
        raise RejectError(RejectReason.BAD_CARD, f"expected a board card such as 'Ts', got {name!r}")
    return card


def _know_cards(names: tuple[str, ...] | None, seat: int, built: Draft, source: LabelSource) -> None:
    """Note what an action tells of a seat's hole cards; one card of two, or a hidden one, tells nothing usable."""
    if not names or HIDDEN_CARD in names:
        return
    cards = [CARD_BY_NAME.get(name, -1) for name in names]
    if -1 in cards or len(cards) > 2:
        raise RejectError(RejectReason.BAD_CARD, f"expected two hole cards such as 'Ts', got {names}")
    known = built.hole_cards[seat]
    if len(cards) == 1:
        if known is None:
            built.tags.add(HandTag.PARTIAL_SHOW)
        elif cards[0] not in known:
            raise RejectError(RejectReason.BAD_CARD, f"seat {seat} shows {names} but holds other cards")
        return
    first, second = cards
    if first == second:
        raise RejectError(RejectReason.DUP_CARD, f"seat {seat} holds {names[0]} twice")
    pair = (first, second) if first < second else (second, first)
    if known is None:
        built.hole_cards[seat] = pair
        built.label_sources[seat] = source
    elif known != pair:
        raise RejectError(RejectReason.BAD_CARD, f"seat {seat} has two different hands, {names} the later")


def _odd_action(action: OhhAction, code: int, seat: int, built: Draft) -> None:
    """Read an action that moves no chips of a player's into the pot."""
    if code is Code.ADD_TO_POT:
        built.added_chips += action.amount or 0.0
        built.tags.add(HandTag.ADDED_TO_POT)
    elif code is Code.ADDED_CHIPS:
        built.top_ups[seat] = built.top_ups.get(seat, 0.0) + (action.amount or 0.0)
    elif code is Code.MUCKS:
        _know_cards(action.cards, seat, built, LabelSource.SHOWN)


def _absent_action(action: OhhAction, code: int, hand: OhhHand, built: Draft) -> None:
    """Let pass what somebody outside the hand may do; refuse the rest."""
    absent = next((player for player in hand.players if player.id == action.player_id), None)
    if code is Code.ADD_TO_POT:
        _odd_action(action, code, -1, built)
        return
    if absent is None:
        if code is Code.NOTHING:
            return
        raise RejectError(RejectReason.PLAYERS, f"{action.action} names player {action.player_id!r}, who is not at the table")
    if code in PASSIVE or (code > _RAISE and not action.amount):
        return
    if absent.starting_stack:
        raise _NotSittingOutError(absent)
    reason = RejectReason.OVERSPEND if action.amount else RejectReason.ILLEGAL_ACTION
    raise RejectError(reason, f"{action.action} of player {action.player_id!r}, who has no chips")


def _refuse_no_amount(action: OhhAction) -> Never:
    raise RejectError(RejectReason.NO_AMOUNT, f"{action.action} of player {action.player_id!r} has no amount")


def _refuse_amount(action: OhhAction) -> Never:
    raise RejectError(RejectReason.ILLEGAL_ACTION, f"{action.action} of player {action.player_id!r} puts in {action.amount} chips")


class _NotSittingOutError(Exception):
    """Raised when a player marked as sitting out acts, so that the record is read again with that player in it."""

    def __init__(self, player: OhhPlayer) -> None:
        super().__init__(player.id)
        self.player = player


def _find_blinds(hand: OhhHand, built: Draft) -> None:
    """Take blinds that the record does not name from the posts."""
    small_blind, big_blind, ante = built.blinds
    for played_round in hand.rounds:
        for action in played_round.actions:
            if action.action == "Post BB" and not hand.big_blind_amount:
                big_blind = max(big_blind, action.amount or 0.0)
            elif action.action == "Post SB" and not hand.small_blind_amount:
                small_blind = max(small_blind, action.amount or 0.0)
    if not big_blind:
        raise RejectError(RejectReason.NO_BLINDS, "no big blind is named or posted")
    built.blinds = (small_blind, big_blind, ante)


def _read_pots(hand: OhhHand, seat_of: dict[int | str | None, int], built: Draft) -> None:
    """Add up the pots and what each seat wins."""
    if not hand.pots:
        built.tags.add(HandTag.NO_POTS)
        return
    total = 0.0
    for pot in hand.pots:
        won = 0.0
        for win in pot.player_wins:
            won += win.win_amount
            seat = seat_of.get(win.player_id, -1)
            if seat >= 0:
                built.collected[seat] += win.win_amount
            elif win.win_amount:
                raise RejectError(RejectReason.WINNER, f"player {win.player_id!r} wins {win.win_amount} but does not play")
        total += pot.amount
        gap = pot.amount - won - (pot.unpaid or 0.0)
        if gap:
            _check_pot(pot, won, gap, built)
    built.pot_chips = total


def _check_pot(pot: OhhPot, won: float, gap: float, built: Draft) -> None:
    """Refuse a pot that pays more than it holds, or less than it holds without the rake that it names."""
    slack_chips = max(RELATIVE_SLACK * pot.amount, cent_slack([pot.amount, *[win.win_amount for win in pot.player_wins]]))
    if abs(gap) <= slack_chips:
        return
    if gap < 0.0 or pot.unpaid is not None:
        msg = f"a pot of {pot.amount} pays {won}, with {pot.unpaid} in rake and fees"
        raise RejectError(RejectReason.POT_MISMATCH, msg)
    built.tags.add(HandTag.UNSTATED_RAKE)
