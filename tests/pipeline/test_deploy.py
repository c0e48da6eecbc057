"""The example configurations parse, and the names in them fit together. What starts them is a person, see deploy/README.md."""

import ast
import re
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._config import validate_config
from dagster._core.instance.config import dagster_instance_config_schema
from dagster._core.workspace.config_schema import process_workspace_config

from range_reader_pipeline.definitions import build_definitions

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"


def load(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text())


def test_every_example_is_listed_with_whether_it_was_tried() -> None:
    """An example that nobody mentions is found by nobody, and one that never ran must say so."""
    listed = set(re.findall(r"`([\w.-]+\.(?:yaml|py|conf)|Dockerfile)`", (DEPLOY / "README.md").read_text()))
    assert {path.name for path in DEPLOY.iterdir()} - {"README.md", "__pycache__"} == listed


@pytest.mark.parametrize("path", [ROOT / "dagster.yaml", *sorted(DEPLOY.glob("dagster-*.yaml"))], ids=lambda path: path.name)
def test_an_instance_is_configured_as_dagster_understands_it(path: Path) -> None:
    """A key that Dagster does not know stops the server with a page of schema."""
    config = yaml.safe_load(path.read_text())
    assert (path.name == "dagster.yaml") is ("sqlite" in config["storage"])
    if "postgres" in config["storage"]:  # looked at by dagster-postgres, when it is loaded
        assert config["storage"].pop("postgres") == {"postgres_url": {"env": "DAGSTER_POSTGRES_URL"}}
        config["storage"]["sqlite"] = {"base_dir": "/tmp"}  # noqa: S108 - stands in for it, and is never opened
    result = validate_config(dagster_instance_config_schema(), config)
    assert result.success, result.errors
    assert config["concurrency"]["pools"]["default_limit"] == 1  # one training at a time
    assert config["run_retries"]["retry_on_asset_or_op_failure"] is False  # a terminated training stays ended
    assert config["telemetry"] == {"enabled": False}


@pytest.mark.parametrize("path", [ROOT / "workspace.yaml", DEPLOY / "two_locations.yaml", DEPLOY / "workspace-docker.yaml"])
def test_a_workspace_names_modules_that_are_there(path: Path) -> None:
    """A location that does not load shows nothing but an error."""
    config = yaml.safe_load(path.read_text())
    assert process_workspace_config(config).success
    for entry in config["load_from"]:
        ((kind, target),) = entry.items()
        if kind == "python_module":
            assert target["module_name"] == "range_reader_pipeline.definitions"
        elif kind == "python_file":
            assert (path.parent / target["relative_path"]).exists()


def test_a_second_location_has_no_second_sensor() -> None:
    """Two sensors on one folder would encode everything twice."""
    scope: dict[str, Any] = {}
    exec((DEPLOY / "multiprocess_definitions.py").read_text(), scope)  # noqa: S102 - our own file
    defs = scope["defs"]
    assert isinstance(defs, dg.Definitions)
    assert not defs.sensors
    assert not defs.schedules
    assert defs.resolve_job_def("everything").executor_def.name == "multiprocess"


def test_the_gpu_goes_to_the_step_that_trains() -> None:
    """A name that no step has would train on a node without a GPU, quietly."""
    text = (DEPLOY / "kubernetes_definitions.py").read_text()
    (steps,) = re.findall(r'"per_step_k8s_config": (\{.*?\})\}', text)
    names = {key.value for key in ast.parse(steps, mode="eval").body.keys}  # type: ignore[attr-defined]
    nodes = {node.name for node in build_definitions().resolve_job_def("everything").nodes}
    assert names == {"checkpoint"} <= nodes


def test_the_containers_share_what_they_need() -> None:
    """A run in a container that does not see the home would begin an empty one."""
    compose, instance = load("docker-compose.yaml"), load("dagster-docker.yaml")
    launcher = instance["run_launcher"]["config"]
    assert launcher["network"] in {network["name"] for network in compose["networks"].values()}
    volumes = {volume.get("name") for volume in compose["volumes"].values() if volume}
    assert {mount.split(":")[0] for mount in launcher["container_kwargs"]["volumes"]} <= volumes
    services = compose["services"]
    for name in ("code", "webserver", "viewer", "daemon"):
        assert set(launcher["env_vars"]) <= set(services[name]["environment"])
        assert set(services[name]["depends_on"]) <= set(services)
        assert all(port.startswith("127.0.0.1:") for port in services[name].get("ports", ()))
    assert "--read-only" in services["viewer"]["command"]
    (location,) = load("workspace-docker.yaml")["load_from"]
    assert location["grpc_server"]["host"] in services
    assert str(location["grpc_server"]["port"]) in services["code"]["command"]
    copied = re.findall(r"^COPY (.+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.M)
    assert all((ROOT / name).exists() for line in copied for name in line.split())


def test_the_chart_starts_the_file_that_is_in_the_image() -> None:
    """A path that is wrong by a letter is found out in the cluster."""
    values = load("helm-values.yaml")
    (deployment,) = values["dagster-user-deployments"]["deployments"]
    path = deployment["dagsterApiGrpcArgs"][1]
    assert (ROOT / path.removeprefix("/opt/range-reader/")).exists()
    assert {mount["name"] for mount in deployment["volumeMounts"]} == {volume["name"] for volume in deployment["volumes"]}
    assert values["runLauncher"]["type"] in {"K8sRunLauncher", "CeleryK8sRunLauncher"}
    assert values["telemetry"] == {"enabled": False}


def test_no_secret_and_no_open_port_is_in_the_examples() -> None:
    """What people copy, they copy with its mistakes."""
    for path in DEPLOY.iterdir():
        if path.is_file():
            text = path.read_text()
            assert not re.search(r"(password|secret|token)\s*[:=]\s*['\"]?\w{6,}['\"]?\s*$", text, re.I | re.M), path.name
    listens = re.findall(r"^\s*listen\s+(\S+);", (DEPLOY / "nginx.conf").read_text(), re.M)
    assert listens
    assert all(address.startswith("127.0.0.1:") for address in listens)
