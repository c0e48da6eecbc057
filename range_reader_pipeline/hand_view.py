"""One hand and the read of one villain in it, as lines of text."""

from typing import TYPE_CHECKING, Final

from range_reader_core import cards
from range_reader_core.ranges import combo_rank, format_class_range, format_range

if TYPE_CHECKING:
    from range_reader_core.hand import CanonicalHand
    from range_reader_core.inference import Trajectory

UNKNOWN: Final = "unknown"


def hand_lines(hand: "CanonicalHand", *, villain: int, perspective: int | None) -> list[str]:
    """Return who sits where with what, and the board; ``perspective=None`` is a watcher who sees no cards."""
    lines = [f"hand {hand.hand_id}, blinds {hand.small_blind:g}/{hand.big_blind:g}"]
    roles = {villain: "  <- villain", perspective: "  <- perspective"}
    for seat in range(hand.num_players):
        button = " button" if seat == hand.button else ""
        stack = f"{hand.stacks[seat] / hand.big_blind:g} bb"
        number = f"(seat {hand.seat_numbers[seat]} in the file)"
        lines.append(f"  seat {seat} {number:<22} {stack:>10}  {_holding(hand, seat):<8}{button}{roles.get(seat, '')}")
    if perspective is None:
        lines.append("  read by a watcher who sees nobody's cards")
    board = " ".join(cards.format_card(card) for card in hand.board)
    return [*lines, f"  board {board or '-'}"]


def read_lines(
    trajectory: "Trajectory", truth: int | None, *, num_top: int, is_every_step: bool, range_text: str | None = None
) -> list[str]:
    """Return what the villain is believed to hold.

    Args:
        trajectory: the beliefs.
        truth: the villain's combo, None where unknown.
        num_top: how many of the likeliest combos to show.
        is_every_step: show the end of each street, else the final belief alone.
        range_text: "combos" or "classes" adds the range in the notation of solvers, None does not.
    """
    shown = list(trajectory.last_steps().values()) if is_every_step else [len(trajectory.steps) - 1]
    lines = []
    for index in shown:
        step, belief = trajectory.steps[index], trajectory.probabilities[index]
        lines.append(f"{step.street}, after {step.description}")
        best = belief.argsort(kind="stable")[::-1][:num_top]
        lines.append("  " + "  ".join(f"{cards.format_combo(int(combo))} {belief[combo]:.2%}" for combo in best))
        if range_text is not None:
            dead = sorted(set(range(cards.NUM_CARDS)) - set(cards.COMBO_CARDS[belief > 0].ravel().tolist()))
            lines.append(f"  range {format_range(belief) if range_text == 'combos' else format_class_range(belief, dead)}")
        if truth is not None:
            name = cards.format_combo(truth)
            lines.append(
                f"  truth {name}: rank {combo_rank(belief, truth):g} of {cards.NUM_COMBOS}, probability {belief[truth]:.3%}"
            )
    if truth is None:
        lines.append(f"the villain's cards are {UNKNOWN}, so there is no rank of the truth")
    return lines


def villain_combo(hand: "CanonicalHand", villain: int) -> int | None:
    """Return the villain's combo, None where the cards are unknown."""
    holding = hand.hole_cards[villain]
    return None if holding is None else cards.combo_index(*holding)


def _holding(hand: "CanonicalHand", seat: int) -> str:
    holding = hand.hole_cards[seat]
    return UNKNOWN if holding is None else cards.format_combo(cards.combo_index(*holding))
