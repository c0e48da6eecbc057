"""How much of a card's arithmetic a training step uses: FLOPs that the model needs on real tokens, against a matrix product.

``python benchmarks/gpu.py [--preset base] [--seconds 20] [--batch N] [--reads 20000] [--device cuda] [--eager]`` from the clone.
Needs numpy and torch alone, and makes its own reads, so it runs on a bare GPU box. Counted are the products of the blocks and the
head, forwards and twice that backwards, on tokens that are no padding, causal attention by half; what padding, recomputation, the
embedding or the optimizer cost counts as waste. The product they are held against is one of the same number format, measured in the
same run. On a CPU it runs in a small form: ``--preset tiny --device cpu --seconds 2 --reads 500``.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # also where only this file is named

import numpy as np
import numpy.typing as npt
import torch

from range_reader_core import cards
from range_reader_core.learner import Learner, resolve_precision
from range_reader_core.masks import is_supervised
from range_reader_core.model import ModelConfig
from range_reader_core.presets import preset
from range_reader_core.reads import Reads
from range_reader_core.tokens import BOS, FLOP, PREFLOP, RIVER, TURN, BaseAction, combo_token, community_token, seat_token
from range_reader_core.train_config import TrainConfig

GOAL = 0.45
SAMPLED_READS = 2048  # from which FLOPs a read are taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """What stepping for a while came to."""

    reads_per_s: float
    step_ms: float
    peak_bytes: int  # of device memory; 0 on a CPU


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="base")
    parser.add_argument("--seconds", type=float, default=20.0, help="of stepping, for each line")
    parser.add_argument("--batch", type=int, help="reads a step; default: the preset's")
    parser.add_argument("--reads", type=int, default=20_000, help="synthetic reads to make")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--eager", action="store_true", help="leave compiling out")
    options = parser.parse_args()
    device = torch.device(options.device)
    config = preset(options.preset)
    config = replace(config, batch_size=options.batch or config.batch_size)
    dtype = resolve_precision(config.precision, device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}, preset {options.preset}, batches of {config.batch_size}")
    peak = matmul_flops_per_s(dtype, device)
    print(f"matrix product in {str(dtype).removeprefix('torch.')}: {peak / 1e12:.3f} TFLOP/s")
    reads = synthetic_reads(options.reads, seed=0)
    print(f"{reads.num_reads:,} synthetic reads of {reads.lengths.mean():.1f} tokens, {reads.lengths.max()} at most")
    for is_compiled in (False,) if options.eager else (False, True):
        learner = Learner(replace(config, is_compiled=is_compiled), reads, device)
        if is_compiled and (reason := learner.compile()) is not None:
            print(f"compiled: {reason}")
            continue
        flops = flops_per_read(learner)
        speed = step_speed(learner, options.seconds)
        used = speed.reads_per_s * flops / peak
        print(
            f"{'compiled' if is_compiled else 'eager':9s}{speed.reads_per_s:10,.0f} reads/s  "
            f"{speed.reads_per_s * reads.lengths.mean():12,.0f} tokens/s  {speed.step_ms:8.1f} ms a step  "
            f"{speed.reads_per_s * flops / 1e12:8.3f} TFLOP/s  utilisation {used:.1%} (goal for base on a GPU {GOAL:.0%})  "
            f"peak {speed.peak_bytes / 1e9:.1f} GB"
        )


def matmul_flops_per_s(dtype: torch.dtype, device: torch.device) -> float:
    """Return FLOPs a second of the best of several large square products."""
    size, rounds = (8192, 20) if device.type == "cuda" else (1024, 5)
    generator = torch.Generator(device).manual_seed(0)
    a, b = (torch.randn(size, size, generator=generator, device=device).to(dtype) for _ in range(2))
    best = float("inf")
    for _ in range(rounds):
        best = min(best, _timed(lambda: a @ b, device))
    return 2.0 * size**3 / best


def step_speed(learner: Learner, seconds: float) -> Speed:
    """Return how fast a learner steps, after it has warmed up for a quarter of the time."""
    device, step = learner.device, 0
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)

    def run(duration: float) -> tuple[int, int, float]:
        nonlocal step
        num_steps = num_reads = 0
        begin = time.perf_counter()
        while (passed := time.perf_counter() - begin) < duration or not num_steps:
            num_reads += learner.step(step, 1e-5).num_reads
            step, num_steps = step + 1, num_steps + 1
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return num_steps, num_reads, max(passed, time.perf_counter() - begin)

    run(seconds / 4)
    num_steps, num_reads, passed = run(seconds)
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
    return Speed(reads_per_s=num_reads / passed, step_ms=1000.0 * passed / num_steps, peak_bytes=peak)


def flops_per_read(learner: Learner) -> float:
    """Return the mean FLOPs that a training step needs for a read, over a sample of the reads."""
    config, resident = learner.config, learner.reads
    query_width = learner.model.combo_table()[0].shape[-1]
    total = 0.0
    num = min(SAMPLED_READS, resident.num_reads)
    for start in range(0, num, 256):
        indices = np.arange(start, min(start + 256, num))
        batch = resident.batch(indices)
        with torch.no_grad():
            first = learner.model.enter(batch.tokens, batch.values)[1].cpu().numpy()  # where the blocks begin
        scored = is_supervised(batch.tokens).sum(dim=1).cpu().numpy()
        for length, num_scored in zip(resident.lengths[indices] - first, scored, strict=True):
            total += training_flops(config, query_width, int(length), int(num_scored))
    return total / num


def training_flops(config: TrainConfig, query_width: int, num_tokens: int, num_supervised: int) -> float:
    """Return the FLOPs that one read needs in a step: forward, and twice that for the two gradients of every product.

    Args:
        config: how it is trained.
        query_width: of the head's product.
        num_tokens: that enter the blocks.
        num_supervised: positions, of which the configuration may score fewer.
    """
    model = config.model
    asked = config.positions_per_read
    num_scored = num_supervised if asked is None else min(asked, num_supervised)
    num_queries = num_tokens if asked is None else num_scored  # of the last block, which answers only where it is asked
    forward = (model.num_layers - 1) * _block_flops(model, num_tokens, num_tokens) + _block_flops(model, num_tokens, num_queries)
    to_query = 0 if model.head == "flat" else 2 * model.width * query_width
    forward += num_scored * (to_query + 2 * query_width * cards.NUM_COMBOS)
    return 3.0 * forward


def _block_flops(model: ModelConfig, num_tokens: int, num_queries: int) -> float:
    width = model.width
    keys_and_values = num_tokens * 4 * width * width
    queries_out_and_mlp = num_queries * (4 + 4 * model.mlp_ratio) * width * width
    attention = 4 * width * num_queries * (num_tokens + 1) / 2  # a query sees half the stream on average
    return float(keys_and_values + queries_out_and_mlp + attention)


def _timed(work: Callable[[], object], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    begin = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begin


def synthetic_reads(num_reads: int, seed: int) -> Reads:
    """Return reads of made-up hands of two to six players, in the lengths of real ones."""
    rng = np.random.default_rng(seed)
    combo_of = {(int(low), int(high)): combo for combo, (low, high) in enumerate(np.sort(cards.COMBO_CARDS, axis=1))}
    tokens: list[int] = []
    values: list[float] = []
    offsets, combos, seats = [0], [], []
    for _ in range(num_reads):
        num_players = int(rng.integers(2, 7))
        villain, perspective = (int(seat) for seat in rng.permutation(num_players)[:2])
        deck = [int(card) for card in rng.permutation(cards.NUM_CARDS)[:9]]
        own, theirs = (combo_of[tuple(sorted(deck[i : i + 2]))] for i in (0, 2))  # type: ignore[index]
        for token, value in _hand(rng, num_players, villain, perspective, own, deck[4:]):
            tokens.append(token)
            values.append(value)
        offsets.append(len(tokens))
        combos.append(theirs)
        seats.append((villain, perspective, num_players))
    by_seat: npt.NDArray[np.uint8] = np.array(seats, dtype=np.uint8)
    return Reads(
        tokens=np.array(tokens, dtype=np.uint16),
        values=np.array(values, dtype=np.float32),
        offsets=np.array(offsets, dtype=np.int64),
        villain_combo=np.array(combos, dtype=np.uint16),
        villain_seat=by_seat[:, 0].copy(),
        perspective_seat=by_seat[:, 1].copy(),
        num_players=by_seat[:, 2].copy(),
        hand_index=np.arange(num_reads, dtype=np.int64),
        hand_ids=tuple(f"synthetic:{index}" for index in range(num_reads)),
        source_index=np.zeros(num_reads, dtype=np.int64),
        sources=("synthetic",),
        is_label_shown=np.zeros(num_reads, dtype=np.bool_),
    )


def _hand(
    rng: np.random.Generator, num_players: int, villain: int, perspective: int, own: int, board: list[int]
) -> Iterator[tuple[int, float]]:
    """Yield tokens and values of one hand: blinds, one round before the flop, then streets of checks, bets and calls."""
    yield BOS, 0.0
    for seat in range(num_players):
        yield seat_token(BaseAction.SIT, seat), float(rng.uniform(40.0, 250.0))
    yield seat_token(BaseAction.IS_BUTTON, num_players - 1), 0.0
    yield PREFLOP, 0.0
    for seat in range(num_players):
        hidden = BaseAction.PREDICT_HOLE if seat == villain else BaseAction.HIDE_HOLE
        yield (combo_token(own) if seat == perspective else seat_token(hidden, seat)), 0.0
    yield seat_token(BaseAction.POST_BLIND, 0), 0.5
    yield seat_token(BaseAction.POST_BLIND, 1), 1.0
    paid = [0.5, 1.0] + [0.0] * (num_players - 2)
    price, live = 1.0, list(range(num_players))
    for seat in [*range(2, num_players), 0, 1]:
        if seat != villain and len(live) > 2 and rng.random() < 0.55:
            live.remove(seat)
            yield seat_token(BaseAction.FOLD, seat), 0.0
        elif price == 1.0 and rng.random() < 0.4:
            price = 3.0
            yield seat_token(BaseAction.RAISE, seat), price - paid[seat]
        elif price == paid[seat]:
            yield seat_token(BaseAction.CHECK, seat), 0.0
        else:
            yield seat_token(BaseAction.CALL, seat), price - paid[seat]
    pot = price * len(live)
    for mark, dealt in ((FLOP, sorted(board[:3])), (TURN, board[3:4]), (RIVER, board[4:5])):
        if rng.random() < 0.35:
            return
        yield mark, 0.0
        for card in dealt:
            yield community_token(card), 0.0
        bet = 0.0
        for seat in live:
            if bet:
                yield seat_token(BaseAction.CALL, seat), bet
            elif rng.random() < 0.35:
                bet = round(pot * float(rng.uniform(0.3, 1.0)), 2)
                yield seat_token(BaseAction.BET, seat), bet
            else:
                yield seat_token(BaseAction.CHECK, seat), 0.0
        pot += bet * len(live)


if __name__ == "__main__":
    main()
