"""What ingestion costs, from hand history files to finished shards: each figure a ratio of two measurements of this run.

``python -m benchmarks.ingest [--ohh FOLDER] [--repeats 3]``. Without a folder it measures on random legal hands in rs-poker's
layout, written to a temporary folder. The folder's subfolders are sources of their own in the table of what was accepted; speed is
measured on the largest of them. Smaller corpora are the first fifth or tenth of each of its files, whose hands differ in the number
of players. Processor time for one worker, since other programs disturb it less; the wall clock for two, once more on copies of the
same hands. Every build is a process of its own with an empty home, so its peak of memory is its own.
"""

import argparse
import compileall
import importlib.util
import json
import multiprocessing
import os
import re
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

import zstandard

import range_reader_core
import range_reader_pipeline
from range_reader_pipeline.catalogue import Catalogue, HashMemo, list_folder, scan
from range_reader_pipeline.ingest import OTHER_GAMES, FileTask, ingest_file, open_cache
from range_reader_pipeline.paths import home_paths
from range_reader_pipeline.shard_build import build_shards
from range_reader_pipeline.shuffle import ShuffleConfig
from range_reader_pipeline.streams import HashingReader, PlainStream
from tests.core.hands import random_hands
from tests.pipeline.ohh_writer import write_ohh

COPIES: Final = 5  # of the hands, for two workers once more where what they cost to start weighs less

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Cost:
    """What one build took."""

    num_hands: int
    num_reads: int
    cpu_s: float  # of the process itself, not of its workers
    wall_s: float
    peak_mb: float  # of the process and all its workers at their worst
    json_s: float = 0.0  # processor time of json.loads over the same lines


def main() -> int:
    """Measure, print the table, and return 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ohh", type=Path, help="a folder of hand histories")
    parser.add_argument("--repeats", type=int, default=3, help="rounds of whole builds; medians count")
    options = parser.parse_args()
    for package in (range_reader_core, range_reader_pipeline):
        # As Python does by itself, unless it is told to write no such files: then workers would compile us at every start.
        compileall.compile_dir(Path(package.__file__ or "").parent, quiet=1)
    with tempfile.TemporaryDirectory(prefix="range_reader_bench_") as scratch:
        folder = options.ohh or _random_folder(Path(scratch) / "ohh")
        _measure(folder, Path(scratch), options.repeats)
    return 0


def _measure(folder: Path, scratch: Path, repeats: int) -> None:
    catalogue = scan(list_folder(folder), HashMemo(folder), now_ns=time.time_ns())
    names = [entry.name for entry in catalogue.readable]
    sources = sorted({name.partition("/")[0] if "/" in name else "." for name in names})
    by_source = {source: [name for name in names if source == "." or name.startswith(source + "/")] for source in sources}
    speed = max(
        by_source.values(), key=lambda group: sum(entry.size_bytes for entry in catalogue.entries if entry.name in set(group))
    )
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the beginning; speed on {len(speed)} files")
    has_compiled = importlib.util.find_spec("range_reader_core._ohh_layout") is not None
    print("plain lines are taken apart " + ("in C" if has_compiled else "by structs, without a C compiler"))

    every_file = replace(catalogue, entries=tuple(entry for entry in catalogue.entries if entry.name in set(speed)))

    def build(corpus: Catalogue, num_workers: int, *, with_json: bool = False) -> Cost:
        json_s = _apart(_json_seconds, corpus) if with_json else 0.0
        cost = _apart(_build, corpus, scratch / "home", num_workers)
        # Before and after, since the machine may be getting slower or faster.
        return replace(cost, json_s=(json_s + _apart(_json_seconds, corpus)) / 2.0) if with_json else cost

    few, tenth_of_all = (_apart(_part, every_file, scratch / f"part{share}", share) for share in (5, 10))
    # By turns, since the machine may be getting slower or faster.
    rounds = [
        (build(few, 1), build(tenth_of_all, 1), build(every_file, 1, with_json=True), build(every_file, 2)) for _ in range(repeats)
    ]
    five = _apart(_copies, every_file, scratch / "copies", COPIES)
    alone, by_two = build(five, 1), build(five, 2)
    ratios = sorted(every.cpu_s / every.json_s for _, _, every, _ in rounds)
    per_hand = 1e6 * statistics.median(every.json_s / every.num_hands for _, _, every, _ in rounds)
    growths = sorted(every.cpu_s / every.num_hands / (tenth.cpu_s / tenth.num_hands) * 10.0 for _, tenth, every, _ in rounds)
    gains = sorted(every.wall_s / pair.wall_s for _, _, every, pair in rounds)
    small_mb, every_mb, pair_mb = (statistics.median(costs[place].peak_mb for costs in rounds) for place in (0, 2, 3))
    small, tenth, everything, _ = rounds[0]
    spread = f"{_span(ratios)}, {per_hand:.1f} us a hand for json.loads"
    rows = [
        ("one worker / json.loads, cpu", f"{statistics.median(ratios):.2f}", "<= 1.5", spread),
        (
            "one worker / two, wall clock",
            f"{statistics.median(gains):.2f}",
            ">= 1.7",
            f"{_span(gains)}, {everything.num_hands:,} hands",
        ),
        (
            "the same, copies of all hands",
            f"{alone.wall_s / by_two.wall_s:.2f}",
            ">= 1.7",
            f"{alone.num_hands:,} hands under other ids, {alone.wall_s:.1f} and {by_two.wall_s:.1f} s, once",
        ),
        (
            "ten times the hands, cpu",
            f"{statistics.median(growths):.1f}",
            "<= 11",
            f"from {tenth.num_hands:,} and {everything.num_hands:,} hands, {tenth.num_reads / tenth.num_hands:.2f} and "
            f"{everything.num_reads / everything.num_hands:.2f} reads a hand",
        ),
        ("peak memory, all hands", f"{every_mb:,.0f} MB", "<= 1,500 MB", f"two workers {pair_mb:,.0f} MB"),
        (
            "the same / that of fewer hands",
            f"{every_mb / small_mb:.2f}",
            "<= 1.20",
            f"{small_mb:,.0f} MB at {small.num_hands:,} hands",
        ),
    ]
    for source, chosen in by_source.items():
        accepted, refused, others = _apart(_accepted, folder, tuple(chosen), scratch / "cache")
        share = accepted / max(1, accepted + refused)
        detail = f"{refused:,} refused, {others:,} of other games"
        rows.append((f"accepted, {source}", f"{share:.2%}", "", f"{accepted:,} hands, {detail}"))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for name, value, goal, detail in rows:
        print(f"{name:<{widths[0]}}  {value:>{widths[1]}}  {goal:<{widths[2]}}  {detail}")
    print(f"load {os.getloadavg()[0]:.1f} at the end")


def _span(ratios: Sequence[float]) -> str:
    return f"{ratios[0]:.2f}..{ratios[-1]:.2f}"


def _apart(function: Callable[..., _Result], *arguments: object) -> _Result:
    """Return what a function returns in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _build(catalogue: Catalogue, home: Path, num_workers: int) -> Cost:
    shutil.rmtree(home, ignore_errors=True)
    paths = home_paths(home=str(home), environment={})
    begin_cpu, begin = time.process_time(), time.perf_counter()
    result = build_shards(paths, catalogue, ShuffleConfig(), num_workers=num_workers)
    cpu_s, wall_s = time.process_time() - begin_cpu, time.perf_counter() - begin
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    workers = num_workers * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    peak_mb = (own + (workers if num_workers > 1 else 0)) * (1 if sys.platform == "darwin" else 1024) / 1e6
    counts = result.manifest["counts"]
    return Cost(counts["num_hands"], counts["num_reads"], cpu_s, wall_s, peak_mb)


def _copies(catalogue: Catalogue, folder: Path, times: int) -> Catalogue:
    """Return a corpus of so many copies of each file, whose hands have ids of their own."""
    for entry in catalogue.readable:
        with PlainStream(HashingReader(catalogue.folder / entry.name), entry.name) as stream:
            text = stream.read()
        for copy in range(times):
            path = folder / f"{copy}" / f"{entry.name.removesuffix('.zst')}.zst"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(zstandard.compress(re.sub(rb'("game_number": ?")', rb"\g<1>%d" % (copy + 1), text), level=1))
    return scan(list_folder(folder), HashMemo(folder), now_ns=time.time_ns())


def _part(catalogue: Catalogue, folder: Path, share: int) -> Catalogue:
    """Return a corpus of the first so manieth of the hands of each file, written to a folder as the files are."""
    for entry in catalogue.readable:
        with PlainStream(HashingReader(catalogue.folder / entry.name), entry.name) as stream:
            lines = [line for line in stream.read().split(b"\n") if line.strip()]
        text = b"".join(line + b"\n\n" for line in lines[: len(lines) // share])
        path = folder / entry.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(zstandard.compress(text) if path.suffix == ".zst" else text)
    return scan(list_folder(folder), HashMemo(folder), now_ns=time.time_ns())


def _json_seconds(catalogue: Catalogue) -> float:
    total = 0.0
    for entry in catalogue.readable:
        path = catalogue.folder / entry.name
        with PlainStream(HashingReader(path), path.name) as stream:
            lines = [line for line in stream.read().split(b"\n") if line.startswith(b'{"')]
        begin = time.process_time()
        for line in lines:
            json.loads(line)
        total += time.process_time() - begin
    return total


def _accepted(folder: Path, names: Sequence[str], cache_folder: Path) -> tuple[int, int, int]:
    """Return how many records were accepted, refused, and refused because they are another game."""
    cache = open_cache(cache_folder)
    accepted = refused = others = 0
    for index, name in enumerate(names):
        path = folder / name
        source = HashingReader(path)
        content = source.sha256_to_end() + f".{index}"
        source.close()
        counts = ingest_file(FileTask(path=path, name=name, content=content, cache=cache)).counts
        assert counts is not None
        other = sum(count for code, count in counts.by_code.items() if code in OTHER_GAMES and not code.startswith("FILE_"))
        accepted += counts.encoding.num_hands
        refused += counts.num_rejected - other
        others += other
    return accepted, refused, others


def _random_folder(folder: Path) -> Path:
    for index in range(20):
        hands = random_hands(index, 1_000)
        write_ohh(folder / f"{index}.ohh", [replace(hand, hand_id=f"random/hands#{index}.{row}") for row, hand in enumerate(hands)])
    return folder


if __name__ == "__main__":
    raise SystemExit(main())
