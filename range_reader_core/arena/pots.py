"""Who gets what: the uncalled bet goes back, main and side pots go to their best hands, odd chips to a fixed seat.

Pots are layers of what the players still in have put in, antes included, so nobody wins more from another player than was
matched. Chips that do not divide evenly go to the winner nearest the left of the button. Every pot is paid whole.

Legend: ``T`` tables, ``S`` seats, ``K`` pots, at most one a seat.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """How the chips of ``T`` tables are paid out."""

    pots: _Ints  # (T, K) main pot first; 0 where there is none
    wins: _Ints  # (T, K, S) chips of each pot to each seat
    stacks: _Ints  # (T, S) at the end


def settle(
    *,
    stacks: _Ints,
    contributed: _Ints,
    uncalled: _Ints,
    is_live: npt.NDArray[np.bool_],
    strength: _Ints,
    button: _Ints,
    num_players: _Ints,
) -> Settlement:
    """Return how finished hands are paid.

    Args:
        stacks: (T, S) behind, before anything is paid.
        contributed: (T, S) everything put in.
        uncalled: (T, S) of it, what nobody matched.
        is_live: (T, S) not folded; at least one a table.
        strength: (T, S) of the seven cards, the greater the better; only compared among live seats.
        button: (T,).
        num_players: (T,).
    """
    num_tables, num_seats = stacks.shape
    matched = contributed - uncalled

    levels = np.sort(np.where(is_live, matched, 0), axis=1)  # (T, S) ascending; repeated levels make empty layers
    below = np.concatenate([np.zeros((num_tables, 1), dtype=np.int64), levels[:, :-1]], axis=1)
    layers = np.clip(matched[:, None, :] - below[:, :, None], 0, (levels - below)[:, :, None]).sum(axis=2)  # (T, K)
    assert (layers.sum(axis=1) == matched.sum(axis=1)).all()

    is_eligible = is_live[:, None, :] & (matched[:, None, :] >= levels[:, :, None])  # (T, K, S)
    best = np.where(is_eligible, strength[:, None, :], -1).max(axis=2, keepdims=True)
    is_winner = is_eligible & (strength[:, None, :] == best)
    num_winners = np.maximum(is_winner.sum(axis=2), 1)
    wins = is_winner * (layers // num_winners)[:, :, None]
    order = (np.arange(num_seats) - button[:, None] - 1) % num_players[:, None]  # (T, S)
    first = np.where(is_winner, order[:, None, :], num_seats).argmin(axis=2)  # (T, K)
    np.put_along_axis(
        wins,
        first[:, :, None],
        np.take_along_axis(wins, first[:, :, None], axis=2) + (layers - wins.sum(axis=2))[:, :, None],
        axis=2,
    )
    return Settlement(pots=layers, wins=wins, stacks=stacks + uncalled + wins.sum(axis=1))
