"""The table of ``benchmarks.train``, from the files that its processes left."""

import json
import math
from pathlib import Path

import numpy as np

from benchmarks.arm_process import SPEED_NAME, Task
from benchmarks.goals import reached
from range_reader_core.evaluation import ReadScores
from range_reader_pipeline.arms import BASELINES, ArmRecord, finished_arm, is_scored, load_scores, with_last
from range_reader_pipeline.comparison import ComparedArm, Measured, compare

SPEED_GOAL = 5.0
MEMORY_GOAL_GB = 3.0
STATIC = "static range"


def print_speed(root: Path) -> None:
    """Print (a)."""
    if not (root / SPEED_NAME).exists():
        return
    speed = json.loads((root / SPEED_NAME).read_text())
    compiled = f"compiled in {speed['setup_s']:.0f} s" if speed["is_compiled"] else "not compiled"
    print(f"\n(a) reads/s on the reference architecture at cpu size, one core, batches of {speed['batch_size']}, by turns, medians")
    print(f"{'':60s}{'wall clock':>12s}{'processor time':>16s}")
    for name, who in (("eager reference recipe (padded to 96, all positions)", "reference"), (f"our code ({compiled})", "ours")):
        print(f"    {name:56s}{speed[f'{who}_reads_per_s']:12,.1f}{speed[f'{who}_reads_per_processor_s']:16,.1f}")
    print(f"    {'ratio':56s}{speed['wall_ratio']:12.2f}{speed['ratio']:16.2f}")
    spread = f"{speed['least_ratio']:.1f} to {speed['greatest_ratio']:.1f} in {speed['num_rounds']} rounds"
    print(f"    goal {SPEED_GOAL:g} by processor time ({spread}): {reached(speed['ratio'] >= SPEED_GOAL)}")


def print_table(root: Path, tasks: list[Task]) -> None:
    """Print (b) and (c) of the arms that are finished."""
    done = [(task, record) for task in tasks if (record := finished_arm(task.folder(), task.scorings())) is not None]
    names = list(dict.fromkeys(task.preset for task in tasks))
    seeds = [seed for seed in sorted({task.seed for task, _ in done}) if sum(task.seed == seed for task, _ in done) == len(names)]
    if not seeds:
        print("\n(b) no pair of arms is finished yet")
        return
    done = [(task, record) for task, record in done if task.seed in seeds]
    task, record = done[0]
    print(f"\n(b) {task.minutes:g} minutes an arm, one core each, {len(seeds)} seed(s), {record.num_train_reads:,} training reads")
    print(f"{'':28s}{'steps':>8s}{'reads/s':>9s}{'set-up s':>10s}{'kept step':>11s}{'peak GB':>9s}")
    for task, record in done:
        print(
            f"    {task.label:24s}{record.num_steps:8,d}{record.reads_per_s:9,.0f}{record.setup_s:10.0f}{record.best_step:11,d}"
            f"{record.peak_bytes / 1e9:9.2f}"
        )
    for scoring in done[0][0].scorings():
        baselines = load_scores(root / BASELINES, scoring.name)
        arms = {
            name: [_only(load_scores(task.folder(), scoring.name)) for task, _ in done if task.preset == name] for name in names
        }
        last = {
            f"{name}, last weights": [
                _only(load_scores(task.folder(), f"{scoring.name}_last"))
                for task, _ in done
                if task.preset == name and is_scored(task.folder(), with_last([scoring]))
            ]
            for name in names
        }
        _print_scoring(scoring.name.replace("_", ", "), arms, {name: seeds for name, seeds in last.items() if seeds}, baselines)
    _print_memory([record for _, record in done])


def _print_scoring(
    title: str, kept: dict[str, list[ReadScores]], last: dict[str, list[ReadScores]], baselines: dict[str, ReadScores]
) -> None:
    static = baselines[STATIC]
    num_hands = len(np.unique(static.hand_index))
    how = "suit-averaged" if "averaged" in title else "a single forward"
    print(f"\n    {title}: {len(static.num_positions):,} reads of {num_hands:,} hands, {how}; 95% by bootstrap over hands")
    print(f"    {'':28s}{'loss':27s}{'nats over static range':28s}{'mrr':27s}{'mean rank':>9s}")
    without_network = compare({name: [scores] for name, scores in baselines.items()}, static, STATIC)
    best = min(without_network, key=lambda row: row.loss_nats.mean)
    groups = []  # the default and one reference each
    for arms in (kept, last):
        if len(arms) == len(kept):
            (name, ours), *references = arms.items()
            groups += [compare({name: ours, other: theirs}, static, other) for other, theirs in references]
    with_network = {row.name: row for group in groups for row in group}
    for row in (*without_network, *with_network.values()):
        print(f"    {row.name:28s}{_text(row.loss_nats):27s}{_text(row.gain_nats):28s}{_text(row.mrr):27s}{row.mean_rank:9.1f}")
        if row not in without_network:
            gains, mrrs = (" ".join(f"{value:.4f}" for value in values) for values in (row.seed_gains, row.seed_mrrs))
            print(f"    {'  by seed':28s}{'':27s}{gains:28s}{mrrs:27s}")
    for ours, theirs in groups:
        print(f"    nats gained, {ours.name} over {theirs.name}: {_gain_ratio(ours, theirs)}")
        print(f"    nats gained, {ours.name} over {best.name}, the best without a network: {_ratio(ours, best)}")
        print(f"    mrr, {ours.name} less {theirs.name}: {_text(ours.lead_mrr)}; {_mrr_verdict(ours, theirs)}")


def _gain_ratio(ours: ComparedArm, theirs: ComparedArm) -> str:
    """Say the ratio of gains, or why there is none."""
    if theirs.gain_nats.low <= 0.0 or math.isnan(ours.gain_ratio.mean):
        return f"no ratio, because the latter gains nothing beyond its interval; {_text(ours.lead_nats)} nats more"
    return f"{_text(ours.gain_ratio, 2)} times"


def _mrr_verdict(ours: ComparedArm, theirs: ComparedArm) -> str:
    difference = ours.mrr.mean - theirs.mrr.mean
    widths = [max(row.mrr.high - row.mrr.mean, row.mrr.mean - row.mrr.low) for row in (ours, theirs)]
    goal = f"goal: more than both intervals' half-widths ({widths[0]:.4f}, {widths[1]:.4f})"
    return f"{goal}: {reached(difference > max(widths))}"


def _ratio(ours: ComparedArm, best: ComparedArm) -> str:
    return f"{ours.gain_nats.mean / best.gain_nats.mean:.2f} times" if best.gain_nats.mean > 0.0 else "which gains nothing"


def _print_memory(records: list[ArmRecord]) -> None:
    peak = max(record.peak_bytes for record in records) / 1e9
    print(
        f"\n(c) peak memory, all reads loaded, {records[0].num_train_reads:,} trained on: {peak:.2f} GB; goal {MEMORY_GOAL_GB:g}: "
        f"{reached(peak <= MEMORY_GOAL_GB)}"
    )


def _only(scores: dict[str, ReadScores]) -> ReadScores:
    (one,) = scores.values()
    return one


def _text(measured: Measured, digits: int = 4) -> str:
    if not math.isfinite(measured.low):
        return f"{measured.mean:.{digits}f} (one seed)"
    return f"{measured.mean:.{digits}f} ({measured.low:.{digits}f}..{measured.high:.{digits}f})"
