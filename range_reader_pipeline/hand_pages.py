"""From tokens and beliefs to what the range page shows: steps with names, boards, and the static range beside each belief.

Works on streams alone, so hands from shards and hands from files are drawn alike. A step is something a player would name: the
blinds together, an action, the cards of a street together. Nothing here computes a belief or writes a file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from range_reader_core import cards, tokens
from range_reader_core.encoder import HandEncoder
from range_reader_core.hand import CanonicalHand
from range_reader_core.inference import Trajectory
from range_reader_core.tokens import MAX_SEATS, BaseAction
from range_reader_pipeline.range_page import HandRead, ReadStep, render_range_page

_VERBS: Final[Mapping[BaseAction, str]] = {
    BaseAction.FOLD: "folds",
    BaseAction.CHECK: "checks",
    BaseAction.CALL: "calls ",
    BaseAction.BET: "bets ",
    BaseAction.RAISE: "raises +",
    BaseAction.ALL_IN: "all-in +",
}
_POSTS: Final = (BaseAction.POST_BLIND, BaseAction.POST_ANTE)
_STREETS: Final[Mapping[int, str]] = {3: "flop", 4: "turn", 5: "river"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStep:
    """Something that happened in a stream."""

    index: int  # into the positions given
    label: str
    board: tuple[int, ...]  # community cards so far


def stream_steps(
    stream: npt.NDArray[np.uint16], values: npt.NDArray[np.float32], positions: Sequence[int]
) -> tuple[StreamStep, ...]:
    """Return the positions at which something a player would name is complete, in order.

    Args:
        stream: (T,) token ids.
        values: (T,) big blinds.
        positions: where the villain is read, ascending.
    """
    steps: list[StreamStep] = []
    board: list[int] = []
    is_posting = False
    place = {position: index for index, position in enumerate(positions)}
    for position, token in enumerate(stream.tolist()):
        label = ""
        if token < tokens.NUM_SEAT_TOKENS:
            action, seat = BaseAction(token // MAX_SEATS), token % MAX_SEATS
            if action in _POSTS:
                label = "blinds posted"
            elif action in _VERBS:
                chips = float(values[position])
                label = f"seat {seat} {_VERBS[action]}{f'{chips:.3g} bb' if chips else ''}".rstrip(" +")
        elif tokens.COMMUNITY_OFFSET <= token < tokens.MARK_OFFSET:
            board.append(token - tokens.COMMUNITY_OFFSET)
            if len(board) in _STREETS:
                fallen = board if len(board) == 3 else board[-1:]
                label = f"{_STREETS[len(board)]} {' '.join(cards.format_card(card) for card in fallen)}"
        if not label or position not in place:
            continue
        step = StreamStep(index=place[position], label=label, board=tuple(board))
        was_posting, is_posting = is_posting, label == "blinds posted"
        if was_posting and is_posting:
            steps[-1] = step
        else:
            steps.append(step)
    return tuple(steps)


def visible_combo(stream: npt.NDArray[np.uint16]) -> int | None:
    """Return the combo that the perspective holds, None where the stream hides every hand."""
    seen = stream[stream >= tokens.COMBO_OFFSET]
    return int(seen[0]) - tokens.COMBO_OFFSET if len(seen) else None


def baseline_belief(prior: npt.NDArray[np.float64], seen: Sequence[int]) -> npt.NDArray[np.float64]:
    """Return a distribution over combos (1326,) without those that hold a card in sight."""
    left = np.where(cards.COMBO_HAS_CARD[:, sorted(seen)].any(axis=1), 0.0, prior)
    belief: npt.NDArray[np.float64] = left / left.sum()
    return belief


def hand_read(
    stream: npt.NDArray[np.uint16],
    values: npt.NDArray[np.float32],
    positions: Sequence[int],
    probabilities: npt.NDArray[np.float64],
    *,
    prior: npt.NDArray[np.float64],
    title: str,
    description: str,
    hand_id: str,
    villain_seat: int,
    perspective_seat: int | None,
    truth: int | None,
) -> HandRead:
    """Return one read as the page shows it.

    Args:
        stream: (T,) token ids of the read.
        values: (T,) big blinds.
        positions: the supervised positions, ascending.
        probabilities: (len(positions), 1326) the beliefs there.
        prior: (1326,) the baseline before any card is seen.
        title: one line for the selector.
        description: a sentence or two.
        hand_id: of the hand.
        villain_seat: who is read.
        perspective_seat: who reads, None for a watcher.
        truth: the villain's combo, None where unknown.

    Raises:
        ValueError: nothing happens at any of the positions.
    """
    hole = visible_combo(stream)
    own = () if hole is None else cards.combo_cards(hole)
    steps = tuple(
        ReadStep(
            label=step.label,
            board=step.board,
            belief=probabilities[step.index],
            baseline=baseline_belief(prior, [*step.board, *own]),
        )
        for step in stream_steps(stream, values, positions)
    )
    return HandRead(
        title=title,
        description=description,
        hand_id=hand_id,
        villain_seat=villain_seat,
        perspective_seat=perspective_seat,
        perspective_cards=own if len(own) == 2 else None,
        truth=truth,
        steps=steps,
    )


def hand_page(
    hand: CanonicalHand,
    trajectory: Trajectory,
    *,
    villain: int,
    perspective: int | None,
    prior: npt.NDArray[np.float64] | None,
) -> str:
    """Return the page of one villain of one hand.

    Args:
        hand: what was read.
        trajectory: the beliefs.
        villain: who is read.
        perspective: who reads, None for a watcher.
        prior: (1326,) the static range before any card is seen; None shows a uniform one instead.

    Raises:
        ValueError: nothing happens in the hand.
    """
    read = HandEncoder().encode(hand, villain, perspective)
    hole = hand.hole_cards[villain]
    who = "a watcher who sees nobody's cards" if perspective is None else f"seat {perspective}"
    page = hand_read(
        read.tokens,
        read.values,
        [step.position for step in trajectory.steps],
        trajectory.probabilities,
        prior=np.full(cards.NUM_COMBOS, 1.0 / cards.NUM_COMBOS) if prior is None else prior,
        title=f"Hand {hand.hand_id}: seat {villain} read by {who}",
        description=f"{hand.num_players} players, blinds {hand.small_blind:g}/{hand.big_blind:g}. Seats count from 0, clockwise.",
        hand_id=hand.hand_id,
        villain_seat=villain,
        perspective_seat=perspective,
        truth=None if hole is None else cards.combo_index(*hole),
    )
    return render_range_page([page], baseline="uniform range" if prior is None else "static range")
