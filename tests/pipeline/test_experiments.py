"""Claims about experiments: equal budgets, a verdict by intervals, rows once, nothing lost on Terminate, nothing kept replaced."""

from dataclasses import replace
from typing import Any

import dagster as dg
import pytest

from range_reader_core import training
from range_reader_core.presets import cpu, tiny
from range_reader_core.train_config import TrainConfig
from range_reader_core.train_events import Progress
from range_reader_pipeline.definitions import build_definitions
from range_reader_pipeline.experiment_config import SWITCHES, AblationsConfig, ExperimentConfig, PositionalEncodingConfig, switched
from range_reader_pipeline.experiments import Experiment, ExperimentOutcome, run_experiment
from range_reader_pipeline.reports import report_files
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.results_log import RunStatus, read_results
from tests.pipeline.test_training_events import FakeLog
from tests.pipeline.trained import Chain

QUICK: dict[str, Any] = {"max_steps": 2, "seeds": 2, "scored_reads": 40, "device": "cpu"}
ARMS = {"base": replace(tiny(), num_evaluations=1), "slow": replace(tiny(), num_evaluations=1, learning_rate=1e-5)}


def _run(chain: Chain, log: FakeLog | None = None, **config: Any) -> ExperimentOutcome:
    return run_experiment(
        chain.paths,
        Experiment(name="try", preset="tiny", arms=ARMS),
        ExperimentConfig(**{**QUICK, **config}),
        owner="a test",
        log=log or FakeLog(),
        observe=lambda _: None,
    )


def _materialize(chain: Chain, assets: list[str], config: dict[str, Any]) -> dg.ExecuteInProcessResult:
    definitions = build_definitions(resources={"home": HomeResource(home=str(chain.paths.root), ohh=str(chain.paths.ohh))})
    return definitions.resolve_implicit_global_asset_job_def().execute_in_process(
        run_config={
            "ops": {name: {"config": settings} for name, settings in config.items()},
            "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
        },
        instance=chain.instance,
        asset_selection=[dg.AssetKey(name) for name in assets],
    )


def test_arms_are_compared_remembered_once_and_not_trained_twice(own_copy: Chain) -> None:
    """Prevents a second press of Materialize from costing an hour, or from filling the log with the same rows."""
    before = (own_copy.paths.checkpoint.resolve(), len(read_results(own_copy.paths.results)))
    first = _run(own_copy)
    assert first.num_trained == 4
    base, slow = first.compared
    assert len(base.seed_gains) == 2
    assert slow.gain_nats.mean == pytest.approx(sum(slow.seed_gains) / 2)
    rows = read_results(own_copy.paths.results)[before[1] :]
    assert [row.status for row in rows] == [RunStatus.KEEP, slow.status]
    assert slow.verdict in rows[1].note
    text = report_files(own_copy.paths.reports, "try").text.read_text()
    assert "nats over static range" in text
    assert "slow" in text
    again = _run(own_copy)
    assert again.num_trained == 0
    assert again.compared == first.compared
    assert again.version == first.version
    assert len(read_results(own_copy.paths.results)) == before[1] + 2
    assert own_copy.paths.checkpoint.resolve() == before[0]
    more = _run(own_copy, seeds=3)
    assert more.num_trained == 2  # the third seed of each
    assert len(read_results(own_copy.paths.results)) == before[1] + 4


@pytest.mark.parametrize(
    "interrupt", [KeyboardInterrupt, pytest.param(dg.DagsterExecutionInterruptedError, marks=pytest.mark.slow)]
)
def test_terminate_costs_neither_finished_arms_nor_the_one_under_way(
    own_copy: Chain, monkeypatch: pytest.MonkeyPatch, interrupt: type[BaseException]
) -> None:
    """Prevents hours of arms from starting over, and a stopped experiment from looking like a crashed one."""
    original, num_trainings = training.train, 0

    def train(config: TrainConfig, *args: Any, on_event: Any, **kwargs: Any) -> Any:
        nonlocal num_trainings
        num_trainings += 1

        def stop(event: Any) -> None:
            if num_trainings == 3 and isinstance(event, Progress) and event.step == 1:
                raise interrupt
            on_event(event)

        return original(replace(config, report_every_s=1e-9), *args, on_event=stop, **kwargs)

    log = FakeLog()
    with monkeypatch.context() as patch:
        patch.setattr(training, "train", train)
        with pytest.raises(interrupt):
            _run(own_copy, log)
    assert any("materialize try again to go on" in line for line in log.warnings)
    assert not any(row.run_id.startswith("try") for row in read_results(own_copy.paths.results))
    log = FakeLog()
    resumed = _run(own_copy, log)
    assert resumed.num_trained == 2
    assert any("3/4 base, seed 1  resumed at step 1" in line for line in log.lines)


def test_a_crash_is_a_row_that_names_the_arm(own_copy: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents a failed arm from vanishing."""

    def crash(*_: Any, **__: Any) -> None:
        msg = "step 7: loss nan"
        raise FloatingPointError(msg)

    monkeypatch.setattr(training, "train", crash)
    with pytest.raises(FloatingPointError):
        _run(own_copy)
    row = read_results(own_copy.paths.results)[-1]
    assert (row.status, row.note) == (RunStatus.CRASH, "base: step 7: loss nan")


@pytest.mark.slow
def test_every_arm_has_the_budget_that_is_set_and_its_own_seed(own_copy: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevents unequal time from passing as a better recipe."""
    seen: list[TrainConfig] = []
    original = training.train

    def train(config: TrainConfig, *args: Any, **kwargs: Any) -> Any:
        seen.append(config)
        return original(config, *args, **kwargs)

    monkeypatch.setattr(training, "train", train)
    log = FakeLog()
    _run(own_copy, log, max_steps=None, minutes=0.002)
    assert {(config.budget_seconds, config.max_steps) for config in seen} == {(0.12, None)}
    assert [config.seed for config in seen] == [0, 0, 1, 1]
    assert [config.learning_rate for config in seen] == [2e-3, 1e-5, 2e-3, 1e-5]
    assert sum("nats over the static range" in line for line in log.lines) == 4


@pytest.mark.slow
def test_both_assets_run_from_the_launchpad_and_show_a_table_and_a_picture(own_copy: Chain) -> None:
    """Prevents experiments that only work from Python."""
    config = {
        "positional_encoding_ab": {**QUICK, "preset": "tiny"},
        "ablations": {**QUICK, "preset": "tiny", "arms": ["uniform start", "learning_rate=0.01, model.num_layers=1"]},
    }
    result = _materialize(own_copy, list(config), config)
    arms = {"positional_encoding_ab": ["nope", "rope"], "ablations": ["default", *config["ablations"]["arms"]]}
    for name, expected in arms.items():
        (materialization,) = result.asset_materializations_for_node(name)
        metadata = {key: entry.value for key, entry in materialization.metadata.items()}
        assert [record.data["arm"] for record in metadata["arms"].records] == expected
        assert "data:image/png;base64," in metadata["picture"]
        assert all(arm in metadata["table"] for arm in expected)
        assert report_files(own_copy.paths.reports, name).parquet.exists()
        assert sum(row.run_id.startswith(name) for row in read_results(own_copy.paths.results)) == len(expected)
    observed = [event for event in result.all_events if event.event_type is dg.DagsterEventType.ASSET_OBSERVATION]
    assert len(observed) == 4 + 6  # one an arm and seed


@pytest.mark.slow
def test_they_stay_out_of_a_run_of_the_whole_graph(own_copy: Chain) -> None:
    """Prevents 'Materialize all' from starting hours of experiments."""
    chain = ["ohh_files", "encoded_shards", "checkpoint", "stratified_eval", "sharpening_report"]
    training_config = {"preset": "tiny", "device": "cpu"}
    result = _materialize(own_copy, [*chain, "ablations", "positional_encoding_ab"], {"checkpoint": training_config})
    assert result.success
    assert result.asset_materializations_for_node("checkpoint")
    assert not result.asset_materializations_for_node("ablations")
    assert not result.asset_materializations_for_node("positional_encoding_ab")


def test_no_job_sensor_or_schedule_launches_them() -> None:
    """Prevents an experiment that runs every night."""
    definitions = build_definitions()
    for job in ("everything", "train_and_evaluate", "refresh_dataset"):
        keys = {key.to_user_string() for key in definitions.resolve_job_def(job).asset_layer.selected_asset_keys}
        assert keys
        assert not keys & {"ablations", "positional_encoding_ab"}


@pytest.mark.parametrize("name", SWITCHES)
def test_every_switch_changes_the_default(name: str) -> None:
    """Prevents an arm that is the default under another name."""
    assert switched(cpu(), name) != cpu()


@pytest.mark.parametrize(
    ("arm", "message"),
    [
        ("flat", "expected a switch"),
        ("depth=3", "'depth' is neither a switch"),
        ("model.depth=3", "'model.depth' is neither a switch|'depth' is neither a switch"),
        ("batch_size=-1", "batch_size > 0"),
        ("seed=3", "'seed' is neither a switch"),
    ],
)
def test_an_arm_that_cannot_be_is_refused_with_what_can(arm: str, message: str) -> None:
    """Prevents a typo from being found out after the first hour."""
    with pytest.raises(ValueError, match=message):
        switched(cpu(), arm)


def test_fields_of_an_arm_are_read_as_json_or_text() -> None:
    """Prevents 'none' and numbers from becoming text."""
    arm = switched(
        cpu(), "positions_per_read=null, model.head=flat, model.names_suits=false, model.reads_hands=false, learning_rate=0.01"
    )
    assert (arm.positions_per_read, arm.model.head, arm.learning_rate) == (None, "flat", 0.01)


@pytest.mark.parametrize("config", [ExperimentConfig, PositionalEncodingConfig, AblationsConfig])
def test_every_field_has_help_and_a_default(config: type[dg.Config]) -> None:
    """Prevents a launchpad that explains nothing."""
    for name, field in config.model_fields.items():
        assert field.description, name
        assert not field.is_required(), name


def test_impossible_numbers_are_refused_at_once(own_copy: Chain) -> None:
    """Prevents a division by no seed after everything is loaded."""
    with pytest.raises(ValueError, match="above 0"):
        _run(own_copy, seeds=0)


def test_lines_of_an_arm_name_it(own_copy: Chain) -> None:
    """Prevents a log in which nobody knows which arm a line is about."""
    log = FakeLog()
    _run(own_copy, log, seeds=1)
    assert any(line.startswith("1/2 base, seed 0  ") and "parameters on cpu" in line for line in log.lines)
    assert any(line.startswith("2/2 slow, seed 0  step") for line in log.lines)
