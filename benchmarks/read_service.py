"""How many beliefs a second the HTTP service answers to 16 clients at once, on the loopback interface, and what memory it takes.

The service is a process of its own, its clients are threads of this one; both end by themselves. Part of ``benchmarks.read``.
"""

import http.client
import itertools
import json
import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.goals import reached
from range_reader_core import cards
from range_reader_core.hand import CanonicalHand
from range_reader_pipeline.service_messages import KINDS
from tests.core.hands import random_hands

NUM_CLIENTS = 16
NUM_QUESTIONS = 64
RATE_GOAL = 200.0  # requests a second
SECONDS_GOAL = 60.0
GROWTH_GOAL = 0.02  # of the memory before


def print_service(serve_on: Callable[[int], None], seconds: float) -> int:
    """Ask a service from 16 clients at once; returns how many requests failed.

    Args:
        serve_on: serves on a port until it is ended; run in a process of its own.
        seconds: how long the clients ask.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    server = context.Process(target=serve_on, args=(port,), daemon=True)
    server.start()
    try:
        _wait_for(port)
        bodies = [json.dumps(_question(hand)).encode() for hand in random_hands(9, NUM_QUESTIONS, 6)]
        _ask_together(port, bodies, seconds=1.0)  # first requests are slower
        before, begin_cpu = _resident_mb(server.pid), _processor_s(server.pid)
        latencies, failures = _ask_together(port, bodies, seconds=seconds)
        after, cpu = _resident_mb(server.pid), _processor_s(server.pid) - begin_cpu
    finally:
        server.terminate()
        server.join(10)
    rate = len(latencies) / seconds
    is_reached = rate >= RATE_GOAL and not failures and after <= before * (1 + GROWTH_GOAL) and seconds >= SECONDS_GOAL
    print(f"service, {NUM_CLIENTS} clients, {seconds:g} s of single-forward beliefs:")
    median, p99 = np.quantile(latencies, [0.5, 0.99]) * 1e3 if latencies else (np.nan, np.nan)
    print(f"  {rate:.0f} requests a second, {len(failures)} failed, answered within {median:.0f} ms (median), {p99:.0f} ms (99%)")
    print(
        f"  {cpu / max(1, len(latencies)) * 1e3:.1f} ms of processor a request; memory {before:.0f} MB before, {after:.0f} MB after"
    )
    print(
        f"  goal {RATE_GOAL:g} requests a second for {SECONDS_GOAL:g} s, none failed, memory grown by at most {GROWTH_GOAL:.0%}: "
        f"{reached(is_reached)}"
    )
    for failure in failures[:3]:
        print(f"  {failure}")
    return len(failures)


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
