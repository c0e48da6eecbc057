"""What the amounts of a file mean: chips added by the action, or totals for the street. Decided by replay and vote.

Most writers give the chips an action adds; some give the street total for bets, raises and calls, some for raises
only. One hand rarely tells (most fit several readings), so every hand that does not fit all of them votes for those it
fits, and a source's reading holds for all of its hands in a file. Without a single vote, amounts are chips added.
"""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from range_reader_core.hand import Event, EventKind
from range_reader_core.ohh_draft import Draft
from range_reader_core.ohh_rejects import RejectError
from range_reader_core.ohh_settle import play_steps

NUM_DECISIVE: Final = 8  # a lead of this many votes decides


class AmountMode(StrEnum):
    """Readings of an amount."""

    ADDED = "chips added"
    STREET_TOTAL = "street totals of bets, raises and calls"
    RAISE_TOTAL = "street totals of raises"


def fitting_modes(built: Draft) -> list[AmountMode]:
    """Return the readings under which a hand is legal and its pots add up."""
    fitting = []
    for mode in AmountMode:
        try:
            play_steps(built, added_steps(built.steps, mode))
        except RejectError:
            continue
        fitting.append(mode)
    return fitting


def vote(votes: Counter[AmountMode], built: Draft) -> None:
    """Give one vote to each reading that fits, if some fit and some do not."""
    fitting = fitting_modes(built)
    if len(fitting) < len(AmountMode):
        votes.update(fitting)


def is_decided(votes: Counter[AmountMode]) -> bool:
    """Whether one reading leads every other by enough."""
    ranked = sorted((votes[mode] for mode in AmountMode), reverse=True)
    return ranked[0] - ranked[1] >= NUM_DECISIVE


def winner(votes: Counter[AmountMode]) -> AmountMode:
    """Return the reading with the most votes; the first of ``AmountMode`` where votes tie or there are none."""
    return max(AmountMode, key=lambda mode: votes[mode])


def added_steps(steps: Sequence[Event], mode: AmountMode) -> list[Event]:
    """Return steps whose chips are what each action adds, given steps in a reading.

    Posts add in every reading. A total below what the seat already has in gives negative chips, which replay refuses.
    """
    if mode is AmountMode.ADDED:
        return list(steps)
    totals = _TOTAL_KINDS[mode]
    street: dict[int, float] = {}
    added = []
    for step in steps:
        own = street.get(step.seat, 0.0)
        if step.kind >= EventKind.FLOP:
            street.clear()
        elif step.kind in totals:
            street[step.seat] = step.chips
            step = step._replace(chips=step.chips - own)
        elif step.kind is not EventKind.POST_ANTE:
            street[step.seat] = own + step.chips
        added.append(step)
    return added


_TOTAL_KINDS: Final = {
    AmountMode.STREET_TOTAL: frozenset({EventKind.CALL, EventKind.BET, EventKind.RAISE}),
    AmountMode.RAISE_TOTAL: frozenset({EventKind.RAISE}),
}
