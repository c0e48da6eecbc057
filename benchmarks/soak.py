"""Ten minutes in place of months: ``make soak``, or ``python -m benchmarks.soak --minutes 10``.

The real ``make ui`` on a fresh home, retraining at once. Files land every few seconds, each in the place of an older one, so the
amount of data stays the same; a person presses Materialize now and then while the sensor works. What has to hold: every run that
started has ended well and the queue is empty at the end; the shards are of the files that are there; neither the memory of the
processes that stay nor the home grow between the first and the last third, and old runs are removed. Dagster's records do grow, by
a run at a time, until housekeeping removes the oldest; what a run costs is printed. Exits with 1 where something does not hold.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from range_reader_pipeline.catalogue import HashMemo, list_folder, scan
from range_reader_pipeline.run_store import KEPT_ASIDE
from range_reader_pipeline.sensors import SENSOR_NAME_TAG
from range_reader_pipeline.storage import read_json
from tests.core.hands import random_hands
from tests.pipeline.ohh_writer import write_ohh
from tests.ui.live_server import LiveServer, live_server

NUM_FILES = 12
HANDS_PER_FILE = 40
LAND_EVERY_S = 5.0
PRESS_EVERY_S = 160.0  # longer than the sensor holds files up that come all the time, so that it has its turns
SAMPLE_EVERY_S = 5.0
LEAST_SAMPLES = 12  # after warming up
DRAIN_S = 180.0
MAX_GROWTH = 0.15
_LAUNCH = """mutation($job: String!) {launchRun(executionParams: {selector: {repositoryLocationName: "range_reader",
  repositoryName: "__repository__", pipelineName: $job}, runConfigData: {}}) {__typename}}"""


@dataclass
class Samples:
    """What was measured over time."""

    is_warm: list[bool] = field(default_factory=list)  # two versions of the shards and a training are there, as ever after
    staying_mb: list[float] = field(default_factory=list)  # server, daemon and code server
    all_mb: list[float] = field(default_factory=list)  # with the runs
    home_mb: list[float] = field(default_factory=list)  # without the runs
    runs_mb: list[float] = field(default_factory=list)
    records_mb: list[float] = field(default_factory=list)

    def take(self, server: LiveServer) -> None:
        """Measure once."""
        tree = list(process_tree(server.process.pid))
        parts = (server.home / "data_versions" / "previous", server.home / "runs" / "trained.json")
        self.is_warm.append(all(part.exists() for part in parts))
        self.staying_mb.append(sum(mb for mb, is_run in tree if not is_run))
        self.all_mb.append(sum(mb for mb, _ in tree))
        runs_mb = folder_mb(server.home / "runs")
        self.home_mb.append(folder_mb(server.home) - runs_mb)
        self.runs_mb.append(runs_mb)
        self.records_mb.append(folder_mb(server.folder / ".dagster_home"))

    def thirds(self, values: list[float]) -> tuple[float, float]:
        """Return the medians of the first and the last third after warming up."""
        kept = [value for is_warm, value in zip(self.is_warm, values, strict=True) if is_warm] or values
        third = max(1, len(kept) // 3)
        return statistics.median(kept[:third]), statistics.median(kept[-third:])


def main() -> None:
    """Run the soak and print what held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="in all, the end included")
    minutes = parser.parse_args().minutes
    samples = Samples()
    with tempfile.TemporaryDirectory() as folder:
        settings = {"RETRAIN": "at-once", "TRAIN_MINUTES": "0.1"}
        with live_server(Path(folder) / "clone", settings) as server:
            num_landed, num_pressed = soak(server, samples, max(60.0 * minutes - DRAIN_S, DRAIN_S))
            end_s = time.monotonic() + DRAIN_S
            while time.monotonic() < end_s and not is_at_rest(server):
                time.sleep(3.0)
            problems = [*verdict(server, samples), *([] if is_at_rest(server) else ["runs were left in the queue"])]
            report(server, samples, num_landed, num_pressed)
    print("everything holds" if not problems else "does not hold: " + "; ".join(problems))
    sys.exit(1 if problems else 0)


def soak(server: LiveServer, samples: Samples, duration_s: float) -> tuple[int, int]:
    """Let files land and press buttons; return how many."""
    begin_s = time.monotonic()
    num_landed = num_pressed = 0
    next_press_s = PRESS_EVERY_S
    next_sample_s = 0.0
    while (at_s := time.monotonic() - begin_s) < duration_s:
        write_ohh(server.ohh / f"{num_landed % NUM_FILES}.ohh", random_hands(100 + num_landed, HANDS_PER_FILE, num_players=4))
        num_landed += 1
        if at_s >= next_press_s:
            for job in ("refresh_dataset", "train_and_evaluate"):
                server.ask(_LAUNCH, job=job)
                num_pressed += 1
            next_press_s += PRESS_EVERY_S
        if at_s >= next_sample_s:
            samples.take(server)
            next_sample_s = at_s + SAMPLE_EVERY_S
        time.sleep(LAND_EVERY_S)
    return num_landed, num_pressed


def process_tree(root: int) -> Iterator[tuple[float, bool]]:
    """Yield the proportional memory in MB of each process below the server, and whether it belongs to a run. From Linux's /proc."""
    below = {root}
    parents = dict(_parents())
    while found := {child for child, parent in parents.items() if parent in below} - below:
        below |= found
    for process in below:
        folder = Path("/proc") / str(process)
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            rollup = (folder / "smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            continue
        pss_kb = sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
        yield pss_kb * 1024 / 1e6, any(name in command for name in ("execute_run", "examination", "spawn_main", "forkserver"))


def _parents() -> Iterator[tuple[int, int]]:
    """Yield every process and its parent."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = status.read_text(errors="replace").rpartition(")")[2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        yield int(status.parent.name), int(after_name.split()[1])


def folder_mb(folder: Path) -> float:
    """Return the MB that a folder takes."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size  # noqa: PTH118 - a run may remove it meanwhile
            except FileNotFoundError:
                continue
    return total / 1e6


def is_at_rest(server: LiveServer) -> bool:
    """Tell whether no run is waiting or running and the shards are of what lies in the folder."""
    ended = {"SUCCESS", "FAILURE", "CANCELED"}
    manifest = read_json(server.home / "data" / "manifest.json")
    seen = scan(list_folder(server.ohh), HashMemo(server.ohh), now_ns=time.time_ns())
    is_current = isinstance(manifest, dict) and manifest["source_version"] == seen.version
    return is_current and all(run["status"] in ended for run in server.runs())


def is_of_sensor(run: dict[str, Any]) -> bool:
    """Tell whether the sensor asked for a run."""
    return any(tag["key"] == SENSOR_NAME_TAG for tag in run["tags"])


def verdict(server: LiveServer, samples: Samples) -> list[str]:
    """Return what does not hold."""
    problems = []
    if sum(samples.is_warm) < LEAST_SAMPLES:
        problems.append(f"only {sum(samples.is_warm)} measurements after warming up; give it more minutes, or a quieter machine")
    for name, values in (("memory of the processes that stay", samples.staying_mb), ("home", samples.home_mb)):
        first, last = samples.thirds(values)
        if last > first * (1.0 + MAX_GROWTH):
            problems.append(f"{name} grew from {first:.1f} to {last:.1f} MB")
    folders = [folder for folder in (server.home / "runs").iterdir() if folder.is_dir()]
    if len(folders) > KEPT_ASIDE + 3:  # the kept one, that of the shards before, and that of the shards as they are
        problems.append(f"{len(folders)} runs are kept")
    if not any(is_of_sensor(run) for run in server.runs()):
        problems.append("the sensor asked for no run")
    bad = Counter(run["status"] for run in server.runs() if run["status"] != "SUCCESS")
    if bad:
        problems.append(f"runs that did not succeed: {dict(bad)}")
    return problems


def report(server: LiveServer, samples: Samples, num_landed: int, num_pressed: int) -> None:
    """Print what was measured."""
    runs = Counter((run["jobName"], run["status"], "the sensor" if is_of_sensor(run) else "a person") for run in server.runs())
    print(
        f"{num_landed} files landed, {num_pressed} runs launched by hand, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    for (job, status, asker), count in sorted(runs.items()):
        print(f"  {job:<20} {status:<10} {count:>3}  asked for by {asker}")
    for name, values in (
        ("processes that stay, MB", samples.staying_mb),
        ("with runs, MB", samples.all_mb),
        ("home without runs, MB", samples.home_mb),
        (f"runs, MB, {KEPT_ASIDE + 3} at most", samples.runs_mb),
        ("Dagster's records, MB", samples.records_mb),
    ):
        first, last = samples.thirds(values)
        print(f"  {name:<26} first third {first:8.1f}   last third {last:8.1f}   highest {max(values):8.1f}")
    print(f"  a run adds {samples.records_mb[-1] / max(1, sum(runs.values())):.2f} MB to Dagster's records, until housekeeping")


if __name__ == "__main__":
    main()
