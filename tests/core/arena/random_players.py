"""Players who do anything the rules allow, short all-ins and minimum raises more often than people would."""

import numpy as np
import numpy.typing as npt

from range_reader_core.arena.betting import PublicState
from range_reader_core.arena.deal import PlayedHands, Seating, TableSettings, deal_cards, play_hands, seat_players


class RandomPlayers:
    """Folds, calls, raises and shoves at random."""

    def __init__(self, generator: np.random.Generator, *, raise_share: float = 0.3) -> None:
        """Draw from a generator."""
        self.generator = generator
        self.raise_share = raise_share

    def see_board(self, rows: npt.NDArray[np.int64], street: int, is_live: npt.NDArray[np.bool_]) -> None:
        """Cards do not matter."""

    def choose(
        self, rows: npt.NDArray[np.int64], seats: npt.NDArray[np.int64], state: PublicState
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return anything legal."""
        draw, how, size = self.generator.random((3, len(rows)))
        least = state.highest + state.min_raise - state.committed
        most = np.minimum(state.stack, least + 3 * state.pot)
        some = least + np.floor(size * size * np.maximum(most - least, 0)).astype(np.int64)
        chips = np.select([how < 0.15, how < 0.4], [state.stack, least], some)
        is_raise = state.can_raise & (draw < self.raise_share)
        is_fold = ~is_raise & (state.price > 0) & (draw > 0.85)
        return np.where(is_fold, 0, np.where(is_raise, np.minimum(chips, state.stack), state.price)), is_fold


def random_hands(settings: TableSettings, num_hands: int, seed: int, *, raise_share: float = 0.3) -> PlayedHands:
    """Return hands of random players."""
    generator = np.random.default_rng(seed)
    return random_play(settings, seat_players(settings, num_hands, generator), generator, raise_share=raise_share)


def random_play(
    settings: TableSettings, seating: Seating, generator: np.random.Generator, *, raise_share: float = 0.3
) -> PlayedHands:
    """Return a seating played by random players."""
    dealt = deal_cards(len(seating.button), generator)
    return play_hands(settings, seating, dealt, RandomPlayers(generator, raise_share=raise_share))
