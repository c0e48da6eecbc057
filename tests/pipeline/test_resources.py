"""Claims about what a launch can and cannot set."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from range_reader_pipeline.definitions import build_definitions
from range_reader_pipeline.resources import HomeResource, NothingStored
from tests.core.hands import random_hands
from tests.pipeline.encoded import home_with


@pytest.mark.parametrize("name", ["home", "io_manager"])
def test_a_launch_cannot_write_outside_the_home(tmp_path: Path, name: str) -> None:
    """Prevents whoever reaches the UI from writing anywhere that the server's user may."""
    paths = home_with(tmp_path, {"a.ohh": random_hands(1, 20)})
    outside = tmp_path / "outside"
    definitions = build_definitions(resources={"home": HomeResource(home=str(paths.root))})
    config = {"home": {"home": str(outside)}, "io_manager": {"base_dir": str(outside)}}[name]
    before = sorted(tmp_path.iterdir())
    result = definitions.resolve_job_def("refresh_dataset").execute_in_process(
        run_config={"resources": {name: {"config": config}}}, raise_on_error=False
    )
    assert not result.success
    assert sorted(tmp_path.iterdir()) == before
    assert not (paths.root / "data").exists()
    text = " ".join(str(event.event_specific_data) for event in result.all_events if event.is_failure)
    assert "resources cannot be configured at launch" in text


def test_no_setting_of_an_asset_names_a_place_to_write() -> None:
    """Prevents a new setting from becoming the way out: these are all that take free text, and none is written to."""
    job = build_definitions().resolve_job_def("everything")
    texts = set()
    for node in job.nodes:
        schema = node.definition.config_schema.config_type
        for field_name, field in getattr(schema, "fields", {}).items():
            kind: Any = field.config_type
            if "String" in str(getattr(kind, "given_name", "")) or "String" in str(kind.key):
                texts.add(f"{node.name}.{field_name}")
    assert "ohh_files.folder" in texts  # only ever read from
    names = {name.split(".")[1] for name in texts}
    assert names <= {"folder", "preset", "device", "precision", "split", "init_from", "hands", "cards", "style", "styles"}


def test_nothing_is_pickled() -> None:
    """Prevents an asset that returns its data from filling Dagster's folder with pickles."""

    @dg.asset
    def careless() -> list[int]:
        return [1]

    with pytest.raises(TypeError, match="assets write files"):
        dg.materialize([careless], resources={"io_manager": NothingStored()})
