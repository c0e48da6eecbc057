"""A ``CanonicalHand`` as PHH text, written with PokerKit's own ``HandHistory.dumps``: the other half of the round trip."""

from collections.abc import Iterable
from decimal import Decimal

from pokerkit import HandHistory

from range_reader_core import cards
from range_reader_core.hand import BOARD_CARDS, CanonicalHand, EventKind, LabelSource

_POSTS = (EventKind.POST_ANTE, EventKind.POST_BLIND)


def history_of(hand: CanonicalHand) -> HandHistory:
    """Return the hand in PHH notation: players from the left of the button, hidden cards dealt ``????`` and shown at the end."""
    n = hand.num_players
    seat_of = [(player + hand.button + 1) % n for player in range(n)]
    player_of = {seat: player for player, seat in enumerate(seat_of)}
    antes, blinds = [Decimal(0)] * n, [Decimal(0)] * n
    holes = [_hole(hand, seat) for seat in seat_of]
    actions = [
        f"d dh p{player + 1} {hole if hand.label_sources[seat_of[player]] is LabelSource.DEALT else '????'}"
        for player, hole in enumerate(holes)
    ]
    live = [Decimal(0)] * n
    has_folded = [False] * n
    for event in hand.events:
        if event.kind in BOARD_CARDS:
            actions.append("d db " + "".join(cards.format_card(card) for card in event.board))
            live = [Decimal(0)] * n
            continue
        player, chips = player_of[event.seat], Decimal(repr(event.chips))
        name = f"p{player + 1}"
        if event.kind is EventKind.POST_ANTE:
            antes[player] += chips
            continue
        live[player] += chips
        if event.kind is EventKind.POST_BLIND:
            blinds[player] += chips
        elif event.kind is EventKind.FOLD:
            has_folded[player] = True
            actions.append(f"{name} f")
        elif event.kind in (EventKind.CHECK, EventKind.CALL):
            actions.append(f"{name} cc")
        else:
            actions.append(f"{name} cbr {live[player]}")
    if has_folded.count(False) > 1:
        actions += [f"p{player + 1} sm {hole}" for player, hole in enumerate(holes) if not has_folded[player]]
    if n == 2:  # the notation takes forced bets in reverse heads-up
        antes.reverse()
        blinds.reverse()
    venue, _, number = hand.hand_id.partition("#")
    return HandHistory(
        variant="NT",
        antes=antes,
        blinds_or_straddles=blinds,
        min_bet=Decimal(repr(hand.big_blind)),
        starting_stacks=[Decimal(repr(hand.stacks[seat])) for seat in seat_of],
        actions=actions,
        venue=venue,
        hand=number,
        seats=[hand.seat_numbers[seat] for seat in seat_of],
    )


def write_phhs(hands: Iterable[CanonicalHand]) -> bytes:
    """Return a ``.phhs`` file of the hands."""
    return HandHistory.dumps_all(history_of(hand) for hand in hands).encode()


def _hole(hand: CanonicalHand, seat: int) -> str:
    pair = hand.hole_cards[seat]
    return "????" if pair is None else "".join(cards.format_card(card) for card in pair)
