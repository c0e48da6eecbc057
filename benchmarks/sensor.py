"""What a tick of the sensor costs on a folder of many files: ``make bench-sensor``, or ``python -m benchmarks.sensor --files N``.

The whole tick is timed, as the code server runs it: listing, hashing of what is new, Dagster's records, the decision. Files are
ordinary one-hand files in subfolders. The first tick reads everything; the others show what a quiet folder costs every half minute,
and what one arrival adds. Median of several ticks, with the machine's load beside it.
"""

import argparse
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import dagster as dg

from range_reader_pipeline import sensors
from range_reader_pipeline.paths import home_paths
from range_reader_pipeline.resources import HomeResource

FILE_BYTES = 3_000
OLD_S = 3600.0


def main() -> None:
    """Time the ticks and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--ticks", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, dg.DagsterInstance.ephemeral() as instance:
        paths = home_paths(home=folder, environment={})
        paths.create()
        for index in range(arguments.files):
            write(paths.ohh / f"{index // 500:03d}" / f"{index:06d}.ohh", index)
        real_ns = time.time_ns
        sensors.time.time_ns = lambda: real_ns() + int(OLD_S * 1e9)  # the files have been quiet for an hour

        def tick() -> str:
            resources = {"home": HomeResource(home=folder)}
            with dg.build_sensor_context(instance=instance, resources=resources) as context:
                result = sensors.ohh_folder(context)
            return result.job_name if isinstance(result, dg.RunRequest) else str(result.skip_message)

        print(f"{arguments.files} files of {FILE_BYTES} bytes, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        show("first tick, everything is read", [timed(tick)])
        show("nothing changed", [timed(tick) for _ in range(arguments.ticks)])
        times = []
        for index in range(arguments.ticks):
            write(paths.ohh / "late" / f"{index}.ohh", -index)
            times.append(timed(tick))
        show("one file arrived", times)
        print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB, load now {os.getloadavg()[0]:.1f}")


def write(path: Path, index: int) -> None:
    """Write a file whose content no other has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{{"ohh": {{"game_number": "{index}"}}}}'.ljust(FILE_BYTES) + "\n")


def timed(tick: Callable[[], str]) -> tuple[float, float]:
    """Return the seconds of a tick on the clock and of the processor."""
    begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
    tick()
    return time.perf_counter() - begin_s, time.process_time() - begin_cpu_s


def show(what: str, times: list[tuple[float, float]]) -> None:
    """Print median and worst."""
    clock, cpu = zip(*times, strict=True)
    print(
        f"  {what:<32} median {statistics.median(clock):.3f} s, worst {max(clock):.3f} s; "
        f"processor median {statistics.median(cpu):.3f} s ({len(times)} ticks)"
    )


if __name__ == "__main__":
    main()
