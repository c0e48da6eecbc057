"""Claims about the code location as a whole."""

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from range_reader_pipeline.definitions import build_definitions, defs
from range_reader_pipeline.resources import HomeResource

GOLDEN = Path(__file__).parent.parent / "golden" / "graph.txt"


def _specs() -> list[dg.AssetSpec]:
    return sorted(defs.resolve_all_asset_specs(), key=lambda spec: spec.key.to_user_string())


def _graph() -> str:
    """Return the graph as text: one line an asset, then checks, jobs, sensors and schedules."""
    repository = defs.get_repository_def()
    lines = []
    for spec in _specs():
        parents = " ".join(sorted(dep.asset_key.to_user_string() for dep in spec.deps)) or "-"
        pools = repository.asset_graph.get(spec.key).pools
        tags = " ".join(f"{key}={value}" for key, value in sorted(spec.tags.items()) if not key.startswith("dagster/kind"))
        kinds = ",".join(sorted(spec.kinds))
        columns = (
            f"asset {spec.key.to_user_string()} <- {parents}",
            spec.group_name,
            kinds,
            tags,
            f"pools {','.join(pools) or '-'}",
        )
        lines.append(" | ".join(str(column) for column in columns))
    lines += [f"check {key.asset_key.to_user_string()}:{key.name}" for key in sorted(repository.asset_graph.asset_check_keys)]
    lines += [f"job {job.name}" for job in sorted(repository.get_all_jobs(), key=lambda job: job.name) if job.name != "__ASSET_JOB"]
    lines += [f"sensor {sensor.name} {sensor.default_status.value}" for sensor in repository.sensor_defs]
    lines += [f"schedule {schedule.name} {schedule.default_status.value}" for schedule in repository.schedule_defs]
    return "\n".join(lines) + "\n"


def test_the_definitions_load() -> None:
    """Prevents a code location that shows only an error in the UI."""
    dg.Definitions.validate_loadable(defs)


@pytest.mark.slow
def test_dagster_validates_the_workspace_without_a_warning(tmp_path: Path) -> None:
    """Prevents an interface that goes away with the next Dagster from being noticed then. Of `dg` we know."""
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    known = "ignore:Function `definitions_validate_command` is superseded"
    done = subprocess.run(
        [Path(sys.executable).parent / "dagster", "definitions", "validate", "-w", "workspace.yaml"],
        check=False,
        cwd=GOLDEN.parent.parent.parent,
        env={**os.environ, "DAGSTER_HOME": str(tmp_path), "PYTHONWARNINGS": known},
        capture_output=True,
        text=True,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "All code locations passed validation" in said
    assert "warn" not in said.lower(), said


def test_the_graph_is_the_one_on_record() -> None:
    """Prevents an unnoticed change of keys, lineage, groups, tags, pools, or of what runs by default."""
    assert _graph() == GOLDEN.read_text()


def test_importing_needs_nothing_loads_nothing_heavy_and_writes_nothing(tmp_path: Path) -> None:
    """Prevents a second and a quarter gigabyte more in every process, and settings frozen at import."""
    code = (
        "import sys, range_reader_pipeline.definitions\n"
        "heavy = {'torch', 'polars', 'pyarrow', 'matplotlib', 'pandas', 'sqlalchemy', 'fsspec'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    environment = {"PATH": os.environ["PATH"]}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("spec", _specs(), ids=lambda spec: spec.key.to_user_string())
def test_an_asset_tells_a_newcomer_what_it_holds(spec: dg.AssetSpec) -> None:
    """Prevents a card in the graph that says nothing but its name."""
    assert spec.description is not None
    assert len(spec.description) > 200
    assert spec.code_version
    assert spec.kinds
    assert not spec.owners


def test_another_home_is_one_argument() -> None:
    """Prevents tests and the command line from having to set environment variables."""
    other = build_definitions(resources={"home": HomeResource(home="elsewhere")}, sensors=[])
    assert other.resources is not None
    assert other.resources["home"].home == "elsewhere"
    assert not other.sensors
