"""Experiments: arms trained one after the other for equal time, several seeds each, compared with intervals and remembered.

Arms take turns within each seed, so a machine that gets busier is unfair to none. Every arm goes on where it was stopped and is not
trained twice (``arms``), so Terminate, Ctrl-C or a kill costs at most a minute, and adding an arm or a seed costs that alone.
Nothing here touches the kept checkpoint.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import dagster as dg

from range_reader_core.wording import counted
from range_reader_pipeline.arms import (
    BASELINES,
    ArmRecord,
    Scoring,
    arm_folder,
    finished_arm,
    load_scores,
    run_arm,
    score_baselines,
)
from range_reader_pipeline.comparison import ComparedArm, Measured, compare
from range_reader_pipeline.experiment_config import ExperimentConfig
from range_reader_pipeline.metadata import Cell
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.plots import Series, gains_by_arm
from range_reader_pipeline.provenance import git_commit
from range_reader_pipeline.reports import Part, Report, SavedReport, report_version, write_report
from range_reader_pipeline.results_log import ResultRow, RunStatus, append_result, read_results
from range_reader_pipeline.run_store import RunStore
from range_reader_pipeline.training_events import Log, TrainingReporter, telling_where_it_stopped
from range_reader_pipeline.training_run import published_version

if TYPE_CHECKING:
    from range_reader_core.reads import Reads
    from range_reader_core.train_config import TrainConfig

STATIC: Final = "static range"


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What is compared."""

    name: str  # of the asset
    preset: str
    arms: Mapping[str, "TrainConfig"]  # the first is what the others are compared with; budget and seed are set here


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentOutcome:
    """What a materialization of an experiment has to show."""

    compared: tuple[ComparedArm, ...]
    report: SavedReport
    version: str
    num_trained: int  # arms and seeds trained now; the others were on record


class _PrefixedLog:
    """A log whose lines begin with the arm they are about."""

    def __init__(self, log: Log, prefix: str) -> None:
        self._log, self._prefix = log, prefix

    def info(self, msg: str) -> None:
        self._log.info(f"{self._prefix}  {msg}")

    def warning(self, msg: str) -> None:
        self._log.warning(f"{self._prefix}  {msg}")


def run_experiment(
    paths: HomePaths,
    experiment: Experiment,
    config: ExperimentConfig,
    *,
    owner: str,
    log: Log,
    observe: Callable[[Mapping[str, float]], None],
) -> ExperimentOutcome:
    """Train and score what is not on record, compare, write the report and the rows of ``results.tsv``.

    Args:
        paths: the home.
        experiment: the arms.
        config: how long and how often.
        owner: tells whoever waits for the training lock who holds it.
        log: where progress goes.
        observe: receives the gain of each arm as it is finished.

    Raises:
        ValueError: there are no shards, or a setting that cannot be used.
        OSError: the home cannot be written.
    """
    from range_reader_pipeline.shards import load_split

    if config.seeds < 1 or config.scored_reads < 1 or not config.minutes > 0.0:
        msg = f"expected minutes, seeds and scored_reads above 0, got {config.minutes}, {config.seeds} and {config.scored_reads}"
        raise ValueError(msg)
    with RunStore(paths).locked(owner, lambda other: log.warning(f"waiting for another training to end ({other})")):
        data_version = published_version(paths)
        data_folder, root = paths.data_versions / data_version, paths.runs / "experiments"
        scoring = Scoring(name=f"val_{config.scored_reads}", split="val", max_reads=config.scored_reads, num_relabelings=1)
        todo = [
            (name, config_of_seed, arm_folder(root, _file_name(name), config_of_seed, data_version))
            for seed in range(config.seeds)
            for name, arm in experiment.arms.items()
            for config_of_seed in (_budgeted(arm, config, seed),)
        ]
        reads = {split: load_split(data_folder, split) for split in ("train", "val")}
        baselines = root / f"{BASELINES}-{data_version}"
        score_baselines(baselines, reads, [scoring], has_trackers=False, device=config.device)
        num_trained = 0
        records: list[ArmRecord] = []
        for number, (name, arm, folder) in enumerate(todo, start=1):
            label = f"{number}/{len(todo)} {name}, seed {arm.seed}"
            is_new = finished_arm(folder, [scoring]) is None
            num_trained += is_new
            records.append(_run(paths, experiment, name, arm, folder, reads, scoring, data_version, config.device, log, label))
            gain = _gain(folder, baselines, scoring)
            log.info(f"{label}: {gain:.4f} nats over the static range{'' if is_new else ' (on record)'}")
            if is_new:
                observe({"live/arms_done": number, f"live/gain_nats {name}": gain})
        static = load_scores(baselines, scoring.name)[STATIC]
        scores = {
            name: [load_scores(folder, scoring.name)["model"] for key, _, folder in todo if key == name] for name in experiment.arms
        }
        compared = compare(scores, static, next(iter(experiment.arms)))
        made_from = {
            "preset": experiment.preset,
            "data version": data_version,
            "budget": counted(config.max_steps, "step") if config.max_steps else f"{config.minutes:g} minutes",
            "seeds": counted(config.seeds, "seed"),
            "scored": f"first {len(static.num_positions)} val reads, a single forward",
            "arms": ", ".join(sorted(folder.name for _, _, folder in todo)),
        }
        version = report_version(experiment.name, made_from)
        saved = write_report(paths.reports, _report(experiment, compared, records), version=version, made_from=made_from)
        for row in compared:
            _remember(paths.results, experiment, row, made_from, records)
    return ExperimentOutcome(compared=compared, report=saved, version=version, num_trained=num_trained)


def _run(
    paths: HomePaths,
    experiment: Experiment,
    name: str,
    arm: "TrainConfig",
    folder: Path,
    reads: Mapping[str, "Reads"],
    scoring: Scoring,
    data_version: str,
    device: str,
    log: Log,
    label: str,
) -> ArmRecord:
    prefixed = _PrefixedLog(log, label)
    reporter = TrainingReporter(prefixed, lambda _: None)
    try:
        with telling_where_it_stopped(log, folder, asset=experiment.name):
            return run_arm(
                folder, name, arm, reads, [scoring], data_version=data_version, device=device, on_event=reporter, log=prefixed.info
            )
    except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError):
        raise
    except BaseException as error:
        append_result(
            paths.results,
            _row(experiment, f"{experiment.name}.{folder.name}", data_version, 0.0, None, RunStatus.CRASH, f"{name}: {error}"),
        )
        raise


def _budgeted(arm: "TrainConfig", config: ExperimentConfig, seed: int) -> "TrainConfig":
    return replace(
        arm,
        seed=seed,
        budget_seconds=60.0 * config.minutes,
        max_steps=config.max_steps,
        report_every_s=max(5.0, 60.0 * config.minutes / 40.0),
    )


def _gain(folder: Path, baselines: Path, scoring: Scoring) -> float:
    """Return the nats gained over the static range by one arm and seed."""
    from range_reader_core.metrics import LOSS

    ours, static = load_scores(folder, scoring.name)["model"], load_scores(baselines, scoring.name)[STATIC]
    return float((static.metric_sums[:, LOSS] - ours.metric_sums[:, LOSS]).sum() / static.num_positions.sum())


def _report(experiment: Experiment, compared: Sequence[ComparedArm], records: Sequence[ArmRecord]) -> Report:
    base = compared[0]
    speeds = {row.name: [record.reads_per_s for record in records if record.name == row.name] for row in compared}
    width = max(len(row.name) for row in compared)
    lines = [
        f"{len(base.seed_gains)} seed(s) an arm, preset {experiment.preset}; 95% intervals, of leads with the spread of seeds",
        "",
        f"{'arm':<{width}}  {'nats over static range':<28}{'lead, nats':<28}{'mrr':<28}{'lead, mrr':<28}{'reads/s':>8}  verdict",
    ]
    table: list[dict[str, Cell]] = []
    for row in compared:
        speed = sum(speeds[row.name]) / len(speeds[row.name])
        is_base = row is base
        verdict = "compared with" if is_base else f"{row.verdict}: {row.status}"
        leads = ("", "") if is_base else (_text(row.lead_nats), _text(row.lead_mrr))
        cells = f"{_text(row.gain_nats):<28}{leads[0]:<28}{_text(row.mrr):<28}{leads[1]:<28}{speed:>8,.0f}"
        lines.append(f"{row.name:<{width}}  {cells}  {verdict}")
        lines.append(f"{'':<{width}}  by seed {' '.join(f'{gain:.4f}' for gain in row.seed_gains)}")
        record: dict[str, Cell] = {"arm": row.name, "verdict": verdict, "reads_per_s": speed, "mean_rank": row.mean_rank}
        for name in ("gain_nats", "lead_nats", "mrr", "lead_mrr", "loss_nats"):
            measured: Measured = getattr(row, name)
            record |= {name: measured.mean, f"{name}_low": _cell(measured.low), f"{name}_high": _cell(measured.high)}
        table.append(record)
    lines += ["", "keep: better by more than the interval. discard: worse, or not told apart."]
    values, lows, highs = zip(*((row.gain_nats.mean, row.gain_nats.low, row.gain_nats.high) for row in compared), strict=True)
    png = gains_by_arm(
        [row.name for row in compared],
        Series(label="mean of seeds, 95% over hands", values=values, lows=lows, highs=highs),
        [row.seed_gains for row in compared],
    )
    numbers = {f"gain_nats {row.name}": row.gain_nats.mean for row in compared}
    short = [{"arm": row["arm"], "verdict": row["verdict"], "gain_nats": row["gain_nats"], "mrr": row["mrr"]} for row in table]
    part = Part(name=experiment.name, text="\n".join(lines), records=table, png=png)
    return Report(parts=(part,), numbers=numbers, tables={"arms": short})


def _remember(
    results: Path, experiment: Experiment, row: ComparedArm, made_from: Mapping[str, str], records: Sequence[ArmRecord]
) -> None:
    """Append an arm's row unless it is there."""
    digest = hashlib.sha256(repr((sorted(made_from.items()), row.name)).encode()).hexdigest()[:12]
    run_id = f"{experiment.name}.{_file_name(row.name)}.{digest}"
    if any(known.run_id == run_id for known in read_results(results)):
        return
    minutes = sum(record.seconds for record in records if record.name == row.name) / 60.0
    note = f"lead {_text(row.lead_nats)} nats over the first arm: {row.verdict}; {made_from['seeds']} of {made_from['budget']}"
    is_base = row.lead_nats.mean == row.lead_nats.low == row.lead_nats.high == 0.0
    status, text = (RunStatus.KEEP, f"first arm; {made_from['seeds']} of {made_from['budget']}") if is_base else (row.status, note)
    append_result(results, _row(experiment, run_id, made_from["data version"], minutes, row, status, text))


def _row(
    experiment: Experiment, run_id: str, data_version: str, minutes: float, row: ComparedArm | None, status: RunStatus, note: str
) -> ResultRow:
    return ResultRow(
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        run_id=run_id,
        git_commit=git_commit(),
        data_version=data_version,
        preset=experiment.preset,
        minutes=minutes,
        split="val",
        mrr=row.mrr.mean if row else None,
        loss_nats=row.loss_nats.mean if row else None,
        mean_rank=row.mean_rank if row else None,
        nats_below_static_range=row.gain_nats.mean if row else None,
        status=status,
        note=note,
    )


def _file_name(arm: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in arm)[:40]


def _text(measured: Measured) -> str:
    if not measured.low > -1e9:
        return f"{measured.mean:+.4f} (one seed)"
    return f"{measured.mean:.4f} ({measured.low:.4f} to {measured.high:.4f})"


def _cell(value: float) -> float | None:
    return value if -1e9 < value < 1e9 else None
