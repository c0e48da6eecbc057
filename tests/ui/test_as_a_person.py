"""The product as a newcomer meets it: the graph, the button, the report, the sensor, in the real UI and a real browser."""

import re
import time
from pathlib import Path
from typing import Any, Final

import pytest

from tests.core.hands import random_hands
from tests.pipeline.ohh_writer import write_ohh
from tests.ui.conftest import Shoot
from tests.ui.live_server import LiveServer, live_server

RUN_S: Final = 360.0
ARRIVAL_S: Final = 180.0  # to settle, to be noticed, to be launched
SENSOR: Final = "/locations/range_reader/sensors/ohh_folder"
NAMES: Final = ("ohh_files", "encoded_shards", "checkpoint", "stratified_eval", "sharpening_report")


@pytest.mark.ui
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_from_an_empty_home_to_reports_and_runs_that_start_by_themselves(tmp_path: Path, page: Any, shoot: Shoot) -> None:
    """Everything else may pass while nobody could use it: a button that is gone, a picture that does not show."""
    with live_server(tmp_path / "clone") as server:
        set_sensor(server, page, is_on=False)  # else it would be faster than the person
        write_ohh(server.ohh / "a.ohh", random_hands(1, 300, num_players=4))
        materialize_all(server, page, shoot)
        look_at_report(server, page, shoot)
        look_at_checks(server, page, shoot)
        set_sensor(server, page, is_on=True)
        drop_a_file(server, page, shoot)


def materialize_all(server: LiveServer, page: Any, shoot: Shoot) -> None:
    """Open the graph, press the button, watch the run to its end."""
    from playwright.sync_api import expect  # not there where the UI is not looked at

    page.goto(f"{server.url}/asset-groups")
    for name in NAMES:
        page.get_by_text(name, exact=True).first.wait_for()
    page.get_by_role("button", name=re.compile("Materialize all")).first.click()
    page.get_by_text("Launched run").first.wait_for()
    (run, *others) = server.runs()
    assert not others
    page.goto(f"{server.url}/runs/{run['runId']}")
    page.get_by_text("Executing (1)").first.wait_for()
    page.get_by_text(re.compile("encoded 1 of 1 files|published version|reads to learn from|reads/s")).first.wait_for()
    shoot("run")
    server.wait_for("SUCCESS", run["runId"], RUN_S)
    page.get_by_text("Success", exact=True).first.wait_for()
    page.set_viewport_size({"width": 2100, "height": 1000})
    page.goto(f"{server.url}/asset-groups")
    page.get_by_role("button", name="Hide navigation").click()
    page.wait_for_timeout(3000)  # the layout settles
    expect(page.locator("body")).not_to_contain_text("Loading...", timeout=30_000)
    shoot("graph")
    page.set_viewport_size({"width": 1500, "height": 900})


def look_at_report(server: LiveServer, page: Any, shoot: Shoot) -> None:
    """See the report's table and its picture."""
    page.goto(f"{server.url}/assets/sharpening_report")
    page.get_by_text("[Show Markdown]").first.wait_for()
    page.get_by_text("[Show Markdown]").nth(0).click()
    page.get_by_text(re.compile("mean_rank|mean rank")).last.wait_for()
    text = page.locator("pre, code").all_inner_texts()
    assert any("flop" in part and "showdown" in part for part in text), text
    page.keyboard.press("Escape")
    page.get_by_text("[Show Markdown]").nth(1).click()
    picture = page.locator("img[src^='data:image/png']").last
    picture.wait_for()
    width = picture.evaluate("image => image.complete ? image.naturalWidth : 0")
    assert width >= 600
    page.wait_for_timeout(500)
    shoot("report")
    page.keyboard.press("Escape")


def look_at_checks(server: LiveServer, page: Any, shoot: Shoot) -> None:
    """See what was checked, and that nothing failed that would make the numbers wrong."""
    page.goto(f"{server.url}/assets/encoded_shards?view=checks")
    page.get_by_text("inputs_hide_cards").first.click()
    page.get_by_text(re.compile("change with cards that nobody could see")).first.wait_for()
    shoot("checks")


def set_sensor(server: LiveServer, page: Any, *, is_on: bool) -> None:
    """Press the sensor's switch and see what became of it."""
    page.goto(server.url + SENSOR)
    page.locator("label:has(input[type=checkbox])").first.click()
    wanted = "RUNNING" if is_on else "STOPPED"
    end_s = time.monotonic() + 30.0
    while time.monotonic() < end_s and sensor_status(server) != wanted:
        page.wait_for_timeout(300)
    assert sensor_status(server) == wanted


def sensor_status(server: LiveServer) -> str:
    query = """{sensorOrError(sensorSelector: {repositoryLocationName: "range_reader", repositoryName: "__repository__",
                sensorName: "ohh_folder"}) {... on Sensor {sensorState {status}}}}"""
    return str(server.ask(query)["sensorOrError"]["sensorState"]["status"])


def drop_a_file(server: LiveServer, page: Any, shoot: Shoot) -> None:
    """Put a file into the folder and see a run that nobody started."""
    before = {run["runId"] for run in server.runs()}
    write_ohh(server.ohh / "b.ohh", random_hands(2, 100, num_players=6))
    end_s = time.monotonic() + ARRIVAL_S
    new: list[dict[str, Any]] = []
    while time.monotonic() < end_s and not new:
        page.wait_for_timeout(1000)
        new = [run for run in server.runs() if run["runId"] not in before]
    assert [run["jobName"] for run in new] == ["refresh_dataset"]
    tags = {tag["key"]: tag["value"] for tag in new[0]["tags"]}
    assert tags["dagster/sensor_name"] == "ohh_folder"
    page.goto(f"{server.url}/runs")
    page.get_by_text("refresh_dataset").first.wait_for()
    server.wait_for("SUCCESS", new[0]["runId"], RUN_S)
    page.goto(server.url + SENSOR)
    page.get_by_text("1 run requested").first.wait_for()
    shoot("sensor")
