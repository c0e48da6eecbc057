"""What reading costs: one belief, one step of a session, many trajectories, distinct renamings by street, and the service.

``python -m benchmarks.read [--preset cpu] [--checkpoint PATH] [--ohh FILE] [--seconds 15]``. Without a checkpoint the weights of
the preset are random, which costs the same. Hands are random legal ones; ``--ohh`` counts renamings and checks sessions on real
hands instead. Times are medians of the wall clock and of the reading thread's processor time, which other programs disturb
less; one thread reads unless ``--threads`` says more. The service and its clients are two processes on the loopback interface
that end by themselves.
"""

import argparse
import http.client
import itertools
import json
import multiprocessing
import os
import socket
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

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
from range_reader_pipeline.service_messages import KINDS
from tests.core.hands import random_hands

NUM_CLIENTS = 16
NUM_QUESTIONS = 64


def main() -> int:
    """Measure what was asked for, print it, and return 1 where an answer was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="cpu")
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--ohh", type=Path, help="a file of real hands")
    parser.add_argument("--hands", type=int, default=200, help="hands whose trajectories are read together")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=15.0, help="of asking the service; 0 leaves it out")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    reader = make_reader(options.preset, options.checkpoint, options.device)
    config = reader.model.config
    print(f"{config.num_layers} layers, width {config.width}, {config.head} head, {reader.device}, {options.threads} thread(s)")
    dealt = random_hands(3, 4 * options.hands, 6)
    print_beliefs(reader, dealt, options.repeats)
    print_sessions(reader, dealt, options.repeats)
    print_trajectories(reader, dealt[: options.hands])
    worst = 0.0
    if options.ohh is not None:
        real = [hand for hand in itertools.islice(parse_file(options.ohh), 5000) if isinstance(hand, CanonicalHand)]
        print_renamings(real)
        worst = print_agreement(reader, [hand for hand in real if augment_hand(hand)][:500])
    else:
        print_renamings(random_hands(5, 1000))
    num_failed = print_service(options) if options.seconds > 0 else 0
    return 1 if worst > 1e-4 or num_failed else 0


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


def print_beliefs(reader: RangeReader, dealt: Sequence[CanonicalHand], repeats: int) -> None:
    """Time one belief of a six-handed river spot whose suits can all be told apart, the dearest case."""
    spots = [hand for hand in dealt if len(hand.board) == 5 and _num_streams(hand) == cards.NUM_RELABELINGS][:10]
    lengths = [len(HandEncoder().encode(hand, 1, 0).tokens) for hand in spots]
    print(f"one belief, six-handed river, 24 distinct renamings, {min(lengths)}-{max(lengths)} positions:")
    for num_relabelings, name in ((1, "single forward"), (24, "suit-averaged")):
        times = [
            _seconds(lambda hand=hand, k=num_relabelings: reader.belief(hand, 1, 0, num_relabelings=k))
            for hand in spots * max(1, repeats // 4)
        ]
        print(f"  {name:<24} {_summary(times)}")


def print_sessions(reader: RangeReader, dealt: Sequence[CanonicalHand], repeats: int) -> None:
    """Time observing an event and reading every other live seat."""
    print("one step of a session, all other live seats of six:")
    for num_relabelings, name in ((1, "single forward"), (24, "suit-averaged")):
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
        print(f"  {name:<24} {_summary(times)}")


def print_trajectories(reader: RangeReader, dealt: Sequence[CanonicalHand]) -> None:
    """Compare reading trajectories together with reading them one at a time."""
    requests = [ReadRequest(hand=hand, villain=1, perspective=0) for hand in dealt]
    print("trajectories of six-handed hands, processor time:")
    for num_relabelings, num, name in ((1, len(requests), "single forward"), (24, max(1, len(requests) // 8), "suit-averaged")):
        chosen = requests[:num]
        _, together = _seconds(lambda chosen=chosen, k=num_relabelings: reader.trajectories(chosen, k))
        _, alone = _seconds(
            lambda chosen=chosen, k=num_relabelings: [reader.trajectory(request.hand, 1, 0, k) for request in chosen]
        )
        rates = f"{num / together:6.0f} a second together, {num / alone:6.0f} one at a time"
        print(f"  {name:<24} {rates}: {alone / together:.1f} times, {num} hands")


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
    print(f"sessions against full forwards: {num} beliefs at every step of {len(dealt)} hands, largest difference {worst:.1e}")
    return worst


def print_service(options: argparse.Namespace) -> int:
    """Ask a service from 16 clients at once; returns how many requests failed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    settings = (options.preset, options.checkpoint, options.device, options.threads, port)
    server = context.Process(target=_serve, args=settings, daemon=True)
    server.start()
    try:
        _wait_for(port)
        bodies = [json.dumps(_question(hand)).encode() for hand in random_hands(9, NUM_QUESTIONS, 6)]
        _ask_together(port, bodies, seconds=1.0)  # first requests are slower
        before, begin_cpu = _resident_mb(server.pid), _processor_s(server.pid)
        latencies, failures = _ask_together(port, bodies, seconds=options.seconds)
        after, cpu = _resident_mb(server.pid), _processor_s(server.pid) - begin_cpu
    finally:
        server.terminate()
        server.join(10)
    rate = len(latencies) / options.seconds
    print(f"service, {NUM_CLIENTS} clients, {options.seconds:g} s of single-forward beliefs:")
    median, p99 = np.quantile(latencies, [0.5, 0.99]) * 1e3 if latencies else (np.nan, np.nan)
    print(f"  {rate:.0f} requests a second, {len(failures)} failed, answered within {median:.0f} ms (median), {p99:.0f} ms (99%)")
    print(
        f"  {cpu / max(1, len(latencies)) * 1e3:.1f} ms of processor a request; memory {before:.0f} MB before, {after:.0f} MB after"
    )
    for failure in failures[:3]:
        print(f"  {failure}")
    return len(failures)


def _serve(name: str, checkpoint: Path | None, device: str, threads: int, port: int) -> None:
    from range_reader_pipeline.service import serve

    torch.set_num_threads(threads)
    serve(make_reader(name, checkpoint, device), port=port, max_requests_per_s=100_000)


def _ask_together(port: int, bodies: Sequence[bytes], *, seconds: float) -> tuple[list[float], list[str]]:
    latencies: list[float] = []
    failures: list[str] = []
    end = time.perf_counter() + seconds

    def ask(client: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for body in itertools.islice(itertools.cycle(bodies), client, None):
            begin = time.perf_counter()
            if begin >= end:
                break
            connection.request("POST", "/belief", body, {"content-type": "application/json"})
            response = connection.getresponse()
            text = response.read()
            if response.status == 200:
                latencies.append(time.perf_counter() - begin)
            else:
                failures.append(f"{response.status} {text[:200]!r}")
        connection.close()

    clients = [threading.Thread(target=ask, args=(client,)) for client in range(NUM_CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return latencies, failures


def _question(hand: CanonicalHand) -> dict[str, object]:
    names = {kind: name for name, kind in KINDS.items()}
    events = [
        {"kind": names[event.kind], "board": [cards.format_card(card) for card in event.board]}
        if event.board
        else {"kind": names[event.kind], "seat": event.seat, "chips": event.chips}
        for event in hand.events
    ]
    return {
        "hand": {
            "stacks": hand.stacks,
            "button": hand.button,
            "big_blind": hand.big_blind,
            "hole_cards": {"0": cards.format_combo(cards.combo_index(*hand.hole_cards[0]))},
            "events": events,
        },
        "villain": 1,
        "perspective": 0,
        "single_forward": True,
    }


def _wait_for(port: int) -> None:
    for _ in range(600):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/healthz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.1)
    msg = "the service did not come up within a minute"
    raise TimeoutError(msg)


def _resident_mb(pid: int | None) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return float("nan")
    lines = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(lines[0].split()[1]) / 1024 if lines else float("nan")


def _processor_s(pid: int | None) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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


def _summary(seconds: Sequence[tuple[float, float]]) -> str:
    wall, cpu = np.array(seconds).T * 1e3
    return (
        f"median {np.median(wall):6.2f} ms (processor {np.median(cpu):6.2f}), p90 {np.quantile(wall, 0.9):6.2f} ms, n {len(wall)}"
    )


def _mean(counted: Counter[int]) -> float:
    total = sum(counted.values())
    return sum(number * count for number, count in counted.items()) / total if total else float("nan")


if __name__ == "__main__":
    sys.exit(main())
