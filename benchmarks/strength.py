"""Hand strength against an independent evaluator on a million hands, and what a board costs.

``python -m benchmarks.strength [number of hands]``. Needs ``phevaluator``, which numbers the same 7462 classes from the best
down. Prints disagreements, which must be none, and seconds of one core.
"""

import sys
import time

import numpy as np
from phevaluator import evaluate_cards

from range_reader_core import cards
from range_reader_core.strength import NUM_STRENGTHS, board_draws, board_percentile, board_strength, hand_strength

NUM_HANDS = 1_000_000
NUM_BOARDS = 4096
PART = 50_000


def main() -> int:
    """Compare, time, and return 1 where the evaluators disagree."""
    num_hands = int(sys.argv[1]) if len(sys.argv) > 1 else NUM_HANDS
    rng = np.random.default_rng(2024)
    hand_strength(_deal(rng, 1, 7))  # builds the tables
    num_wrong = num_done = 0
    seconds = 0.0
    while num_done < num_hands:
        hands = _deal(rng, min(PART, num_hands - num_done), 7)
        begin = time.process_time()
        seen = hand_strength(hands)
        seconds += time.process_time() - begin
        reference = NUM_STRENGTHS - np.array([evaluate_cards(*hand) for hand in hands.tolist()])
        num_wrong += int((seen != reference).sum())
        num_done += len(hands)
    print(f"{num_wrong} of {num_done:,} random 7-card hands disagree with phevaluator; {seconds / num_done * 1e6:.2f} us a hand")
    boards = _deal(rng, NUM_BOARDS, 5)
    for name, function, size in (("strength", board_strength, 5), ("percentile", board_percentile, 5), ("draws", board_draws, 4)):
        function(boards[:1, :size])
        begin = time.process_time()
        for start in range(0, NUM_BOARDS, 128):
            function(boards[start : start + 128, :size])
        print(f"{name} of all {cards.NUM_COMBOS} combos: {(time.process_time() - begin) / NUM_BOARDS * 1e6:.0f} us a board")
    return 1 if num_wrong else 0


def _deal(rng: np.random.Generator, num: int, size: int) -> np.ndarray:
    """Return hands of different cards, (num, size)."""
    return np.argpartition(rng.random((num, cards.NUM_CARDS)), size, axis=1)[:, :size]


if __name__ == "__main__":
    sys.exit(main())
