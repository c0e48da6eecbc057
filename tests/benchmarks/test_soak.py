"""Claims about the soak's own measuring: what it weighs, and that it needs nothing but the standard library for it."""

import subprocess
import sys

from benchmarks.soak import is_of_sensor, process_tree


def test_a_process_is_weighed_with_everything_it_started_and_runs_are_told_apart() -> None:
    """A leak in a grandchild must not go unseen, and a run's memory must not count as the server's."""
    wait = "import sys; print(flush=True); sys.stdin.read()"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {wait!r}, 'execute' + '_run'])"
    with subprocess.Popen([sys.executable, "-c", nested], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # the grandchild is there
        tree = sorted(process_tree(process.pid), key=lambda entry: entry[1])
        process.communicate(b"")
    assert [is_run for _, is_run in tree] == [False, True]
    assert all(1.0 < mb < 1000.0 for mb, _ in tree)
    assert list(process_tree(process.pid)) == []


def test_the_sensors_runs_are_known_by_their_tag() -> None:
    """A soak in which the sensor slept shows nothing about it."""
    assert is_of_sensor({"tags": [{"key": "dagster/sensor_name", "value": "ohh_folder"}]})
    assert not is_of_sensor({"tags": [{"key": "dagster/run_key", "value": "x"}]})
