"""The real ``make ui`` in a folder of its own: started as from a terminal, asked over GraphQL, stopped as with Ctrl-C."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

CLONE: Final = Path(__file__).parent.parent.parent
START_S: Final = 180.0
STOP_S: Final = 60.0
_LONG_AGO_S: Final = 1e9
_FILES: Final = ("Makefile", "workspace.yaml", "dagster.yaml", "pyproject.toml", "requirements.lock")


@dataclass(frozen=True, slots=True)
class LiveServer:
    """A running UI."""

    url: str
    folder: Path  # where it was started: .dagster_home lies here
    home: Path
    process: "subprocess.Popen[bytes]"

    @property
    def ohh(self) -> Path:
        """The folder of hand histories that the sensor watches."""
        return self.home / "ohh"

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """Return the data of a GraphQL answer.

        Raises:
            RuntimeError: the answer holds errors.
        """
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})  # noqa: S310
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - our own server
            told = json.load(answer)
        if told.get("errors"):
            raise RuntimeError(str(told["errors"]))
        return dict(told["data"])

    def runs(self) -> list[dict[str, Any]]:
        """Return id, job, status and tags of all runs, newest first."""
        data = self.ask("{runsOrError {... on Runs {results {runId jobName status tags {key value}}}}}")
        return list(data["runsOrError"]["results"])

    def wait_for(self, status: str, run_id: str, timeout_s: float) -> None:
        """Wait until a run has this status.

        Raises:
            TimeoutError: it has another one by then, or ended in another one.
        """
        end_s = time.monotonic() + timeout_s
        while time.monotonic() < end_s:
            seen = next((run["status"] for run in self.runs() if run["runId"] == run_id), "none")
            if seen == status:
                return
            if seen in {"SUCCESS", "FAILURE", "CANCELED"}:
                break
            time.sleep(1.0)
        msg = f"run {run_id} is {seen}, expected {status}"
        raise TimeoutError(msg)


@contextmanager
def live_server(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[LiveServer]:
    """Start ``make ui`` in ``folder`` with a fresh home, yield it when it answers, and stop it with everything it started."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in _FILES:
        shutil.copy2(CLONE / name, folder / name)
        os.utime(folder / name, (_LONG_AGO_S, _LONG_AGO_S))  # else make could install the clone's .venv anew, from here
    if not (folder / ".venv").exists():
        (folder / ".venv").symlink_to(CLONE / ".venv")
    home = folder / "home"
    (home / "ohh").mkdir(parents=True, exist_ok=True)
    port = _free_port()
    command = ["make", "ui", f"HOME_DIR={home}", f"PORT={port}", "PRESET=tiny"]
    command += [f"{name}={value}" for name, value in (settings or {}).items()]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RANGE_READER", "DAGSTER", "MAKE"))}
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True, preexec_fn=_heed_ctrl_c
        )
    server = LiveServer(f"http://127.0.0.1:{port}", folder, home, process)
    try:
        _wait_until_up(server)
        yield server
    finally:
        stop(process)


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Press Ctrl-C, and kill what does not heed it."""
    for sent, patience_s in ((signal.SIGINT, STOP_S), (signal.SIGKILL, STOP_S)):
        if _is_gone(process.pid):
            break
        os.killpg(process.pid, sent)
        end_s = time.monotonic() + patience_s
        while time.monotonic() < end_s and not _is_gone(process.pid):
            process.poll()
            time.sleep(0.2)
    process.wait(STOP_S)


def _heed_ctrl_c() -> None:
    # A process that a script starts in the background ignores Ctrl-C, and its children with it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def _wait_until_up(server: LiveServer) -> None:
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s:
        if server.process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{server.url}/server_info", timeout=5):  # noqa: S310 - our own server
                locations = server.ask("{workspaceOrError {... on Workspace {locationEntries {loadStatus}}}}")
                if [entry["loadStatus"] for entry in locations["workspaceOrError"]["locationEntries"]] == ["LOADED"]:
                    return
        except (OSError, urllib.error.URLError):
            pass
        time.sleep(0.5)
    tail = (server.folder / "server.log").read_text(errors="replace")[-3000:]
    msg = f"the UI did not come up in {START_S:.0f} s:\n{tail}"
    raise RuntimeError(msg)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
