"""What reading costs: one belief, one step of a session, many trajectories, distinct renamings by street, and the service.

``python -m benchmarks.read [--preset cpu] [--checkpoint PATH] [--ohh FILE] [--hands 1000] [--seconds 60]``. Without a checkpoint
the weights of the preset are random, which costs the same. The goals are those for ``cpu``; ``base`` is measured beside it, always
with random weights, and has none. Hands are random legal ones; ``--ohh`` counts renamings and checks sessions on real hands
instead. Times are medians of the wall clock and of the reading thread's processor time, which other programs disturb less; one
thread reads unless ``--threads`` says more, and trajectories are read by as many as there are cores too. The service and its
clients are two processes on the loopback interface that end by themselves (``read_service``).
"""

import argparse
import functools
import itertools
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.goals import at_least, at_most
from benchmarks.read_service import print_service
from range_reader_core import cards
from range_reader_core.checkpoint import CheckpointSidecar
from range_reader_core.encoder import HandEncoder, augment_hand
from range_reader_core.hand import CanonicalHand
from range_reader_core.inference import RangeReader, ReadRequest
from range_reader_core.masks import STREETS, is_supervised, street_at
from range_reader_core.model import RangeReaderModel
from range_reader_core.orbits import representatives, stabiliser
from range_reader_core.presets import preset
from range_reader_core.session import HandSession
from range_reader_pipeline.hand_files import parse_file
from tests.core.hands import random_hands

GOAL_PRESET = "cpu"
BELIEF_GOALS_MS = {1: 6.0, 24: 40.0}  # by relabelings
STEP_GOAL_MS = 3.0
BATCH_GOAL = 5.0  # times the throughput of one at a time
AGREEMENT_GOAL = 1e-4  # of a probability
_NUM_TURNS = 5
_READINGS = ((1, "single forward"), (24, "suit-averaged"))


def main() -> int:
    """Measure what was asked for, print it, and return 1 where an answer was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default=GOAL_PRESET)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--ohh", type=Path, help="a file of real hands")
    parser.add_argument("--hands", type=int, default=1000, help="hands whose trajectories are read together")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=60.0, help="of asking the service; 0 leaves it out")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(
        f"load of the machine {', '.join(f'{load:.1f}' for load in os.getloadavg())} (1, 5 and 15 minutes), {os.cpu_count()} cores"
    )
    reader = make_reader(options.preset, options.checkpoint, options.device)
    print_model(options.preset, reader, options)
    has_goals = options.preset == GOAL_PRESET
    dealt = random_hands(3, 2 * options.hands, 6)
    print_beliefs(reader, dealt, options.repeats, has_goals=has_goals)
    print_sessions(reader, dealt, options.repeats, has_goals=has_goals)
    for threads in dict.fromkeys((options.threads, os.cpu_count() or 1)):
        torch.set_num_threads(threads)
        print_trajectories(reader, dealt, has_goals=has_goals)
    torch.set_num_threads(options.threads)
    worst = 0.0
    if options.ohh is not None:
        real = [hand for hand in itertools.islice(parse_file(options.ohh), 5000) if isinstance(hand, CanonicalHand)]
        print_renamings(real)
        worst = print_agreement(reader, [hand for hand in real if augment_hand(hand)][:500])
    else:
        print_renamings(random_hands(5, options.hands))
        worst = print_agreement(reader, dealt[:50])
    serve_on = functools.partial(_serve, options.preset, options.checkpoint, options.device, options.threads)
    num_failed = print_service(serve_on, options.seconds) if options.seconds > 0 else 0
    if has_goals and options.checkpoint is None:
        base = make_reader("base", None, options.device)
        print_model("base", base, options)
        print_beliefs(base, dealt, 4, has_goals=False)
        print_sessions(base, dealt[:4], 4, has_goals=False)
    return 1 if worst > AGREEMENT_GOAL or num_failed else 0


def print_model(name: str, reader: RangeReader, options: argparse.Namespace) -> None:
    """Say what reads."""
    config, size = reader.model.config, reader.model.num_parameters() / 1e6
    weights = "random weights" if options.checkpoint is None else f"weights of {options.checkpoint}"
    shape = f"{config.num_layers} layers, width {config.width}, {config.head} head, {size:.1f} million parameters, {weights}"
    print(f"{name}: {shape}, {reader.device}, {options.threads} thread(s)")


def make_reader(name: str, checkpoint: Path | None, device: str) -> RangeReader:
    """Return the reader of a checkpoint, or one of a preset's size with random weights."""
    if checkpoint is not None:
        return RangeReader.load(checkpoint, device)
    model = RangeReaderModel(preset(name).model).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.05)
    chosen = torch.device(device)
    return RangeReader(model.to(chosen), CheckpointSidecar(model=model.config), chosen)


def print_beliefs(reader: RangeReader, dealt: Sequence[CanonicalHand], repeats: int, *, has_goals: bool) -> None:
    """Time one belief of a six-handed river spot whose suits can all be told apart, the dearest case."""
    spots = [hand for hand in dealt if len(hand.board) == 5 and _num_streams(hand) == cards.NUM_RELABELINGS][:10]
    lengths = [len(HandEncoder().encode(hand, 1, 0).tokens) for hand in spots]
    print(f"one belief, six-handed river, 24 distinct renamings, {min(lengths)}-{max(lengths)} positions:")
    for num_relabelings, name in _READINGS:
        times = [
            _seconds(lambda hand=hand, k=num_relabelings: reader.belief(hand, 1, 0, num_relabelings=k))
            for hand in spots * max(1, repeats // 4)
        ]
        print(f"  {name:<24} {_summary(times, BELIEF_GOALS_MS[num_relabelings] if has_goals else None)}")


def print_sessions(reader: RangeReader, dealt: Sequence[CanonicalHand], repeats: int, *, has_goals: bool) -> None:
    """Time observing an event and reading every other live seat."""
    print("one step of a session, all other live seats of six:")
    for num_relabelings, name in _READINGS:
        times: list[tuple[float, float]] = []
        for hand in dealt[: max(2, repeats // (2 if num_relabelings == 1 else 8))]:
            session = reader.session(
                stacks=hand.stacks,
                button=hand.button,
                big_blind=hand.big_blind,
                hero=0,
                hero_cards=hand.hole_cards[0],
                num_relabelings=num_relabelings,
            )
            session.observe(hand.events[0])
            session.beliefs()  # reads the slots too, once a hand
            times += [
                _seconds(lambda session=session, event=event: (session.observe(event), session.beliefs()))
                for event in hand.events[1:]
            ]
        print(f"  {name:<24} {_summary(times, STEP_GOAL_MS if has_goals else None)}")


def print_trajectories(reader: RangeReader, dealt: Sequence[CanonicalHand], *, has_goals: bool) -> None:
    """Compare reading trajectories together with reading them one at a time.

    What hands are worth on a board is worked out once a board and kept, so boards that neither way has met are compared apart from
    boards that both have: each way reads one half of the hands first. Then the first half is read again in turns, all of it
    together and a part of it one at a time, and the quickest turn of each way counts, which other programs disturbed least.
    """
    num = len(dealt) // 2
    requests = [ReadRequest(hand=hand, villain=1, perspective=0) for hand in dealt]
    averages = not reader.model.config.names_suits  # else both are the same forward
    threads = torch.get_num_threads()
    kind = "processor time of one thread" if threads == 1 else f"wall clock, {threads} threads"
    print(f"trajectories of six-handed hands, {kind}:")
    for num_relabelings, name in _READINGS if averages else _READINGS[:1]:
        first, second = requests[: num // num_relabelings or 1], requests[num:][: num // num_relabelings or 1]
        new = _together_s(reader, first, num_relabelings), _alone_s(reader, second, num_relabelings)
        parts = [first[turn::_NUM_TURNS] for turn in range(_NUM_TURNS) if first[turn::_NUM_TURNS]]
        turns = [
            (_together_s(reader, first, num_relabelings), _alone_s(reader, part, num_relabelings) * len(first) / len(part))
            for part in parts
        ]
        known = min(together_s for together_s, _ in turns), min(alone_s for _, alone_s in turns)
        for boards, (together_s, alone_s) in (("new boards", new), ("boards met before", known)):
            rates = f"{len(first) / together_s:6.0f} a second together, {len(first) / alone_s:6.0f} one at a time"
            verdict = f"; {at_least(alone_s / together_s, BATCH_GOAL, 'times')}" if has_goals else ""
            print(f"  {name}, {boards:<18} {rates}: {alone_s / together_s:.1f} times, {len(first)} hands{verdict}")


def _together_s(reader: RangeReader, requests: Sequence[ReadRequest], num_relabelings: int) -> float:
    return _seconds(lambda: reader.trajectories(requests, num_relabelings))[_clock()]


def _alone_s(reader: RangeReader, requests: Sequence[ReadRequest], num_relabelings: int) -> float:
    return _seconds(
        lambda: [reader.trajectory(request.hand, request.villain, request.perspective, num_relabelings) for request in requests]
    )[_clock()]


def _clock() -> int:
    """Return which of ``_seconds`` counts: threads that work side by side save no processor time."""
    return 1 if torch.get_num_threads() == 1 else 0


def print_renamings(dealt: Sequence[CanonicalHand]) -> None:
    """Count the forwards that suit averaging takes, by the street of the read."""
    counts: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    encoder = HandEncoder()
    for hand in dealt:
        for villain, perspective in augment_hand(hand)[:2]:
            for seat, name in ((perspective, "seat"), (None, "watcher")):
                stream = torch.from_numpy(encoder.encode(hand, villain, seat).tokens.astype(np.int64))[None]
                streets = street_at(stream)[0]
                supervised = is_supervised(stream)[0]
                for street in streets[supervised].unique().tolist():
                    last = int(((streets == street) & supervised).nonzero()[-1])
                    num = int(representatives(stabiliser(stream[:, : last + 1])).sum())
                    num_steps = int(((streets == street) & supervised).sum())
                    counts[name, STREETS[street]][num] += num_steps
    print(f"forwards of a suit-averaged belief instead of 24, over the steps of {len(dealt)} hands:")
    for name in ("seat", "watcher"):
        every: Counter[int] = Counter()
        for street in STREETS:
            counted = counts[name, street]
            every += counted
            print(f"  {name:<8} {street:<8} {_mean(counted):5.1f}   {dict(sorted(counted.items()))}")
        print(f"  {name:<8} {'all':<8} {_mean(every):5.1f}")


def print_agreement(reader: RangeReader, dealt: Sequence[CanonicalHand]) -> float:
    """Compare sessions with full forwards at every step; returns the largest difference of a probability."""
    worst, num = 0.0, 0
    for number, hand in enumerate(dealt):
        perspective = augment_hand(hand)[number % len(augment_hand(hand))][1]
        villains = [seat for seat in range(hand.num_players) if seat != perspective]
        requests = [ReadRequest(hand=hand, villain=villain, perspective=perspective) for villain in villains]
        full = dict(zip(villains, reader.trajectories(requests, 1), strict=True))
        session = HandSession(reader.model, _opening(hand), perspective, num_relabelings=1)
        position = 2 * hand.num_players + 2
        for event in hand.events:
            session.observe(event)
            position += 1 + len(event.board)
            if position >= reader.model.config.max_positions:
                break
            for villain, belief in session.beliefs().items():
                step = position - full[villain].steps[0].position
                worst = max(worst, float(np.abs(belief - full[villain].probabilities[step]).max()))
                num += 1
    print(
        f"sessions against full forwards: {num} beliefs at every step of {len(dealt)} hands, largest difference {worst:.1e}; "
        f"{at_most(worst, AGREEMENT_GOAL, 'of a probability')}"
    )
    return worst


def _serve(name: str, checkpoint: Path | None, device: str, threads: int, port: int) -> None:
    from range_reader_pipeline.service import serve

    torch.set_num_threads(threads)
    serve(make_reader(name, checkpoint, device), port=port, max_requests_per_s=100_000)


def _num_streams(hand: CanonicalHand) -> int:
    stream = torch.from_numpy(HandEncoder().encode(hand, 1, 0).tokens.astype(np.int64))[None]
    return int(representatives(stabiliser(stream)).sum())


def _opening(hand: CanonicalHand) -> CanonicalHand:
    return replace(hand, events=())


def _seconds(function: Callable[[], object]) -> tuple[float, float]:
    """Return wall-clock and processor seconds of a call."""
    begin, begin_cpu = time.perf_counter(), time.thread_time()
    function()
    return time.perf_counter() - begin, time.thread_time() - begin_cpu


def _summary(seconds: Sequence[tuple[float, float]], goal_ms: float | None) -> str:
    wall, cpu = np.array(seconds).T * 1e3
    median = float(np.median(wall))
    verdict = "" if goal_ms is None else f"; {at_most(median, goal_ms, 'ms')}"
    return (
        f"median {median:6.2f} ms (processor {np.median(cpu):6.2f}), p90 {np.quantile(wall, 0.9):6.2f} ms, n {len(wall)}{verdict}"
    )


def _mean(counted: Counter[int]) -> float:
    total = sum(counted.values())
    return sum(number * count for number, count in counted.items()) / total if total else float("nan")


if __name__ == "__main__":
    sys.exit(main())
