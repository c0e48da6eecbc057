"""The default against the reference recipe: speed of the code, what each reads after equal time, and memory, as one table.

``make bench-train OHH=FOLDER [MINUTES=15] [SEEDS=2] [HOME_DIR=...]``. Hands are encoded first where they are not. Then: (a) reads a
second of our code on the reference architecture against the eager reference recipe, by turns in one process; (b) three arms trained
for equal time on the same reads, two at a time, each on a core of its own with one thread: the default, the reference recipe in our
engine (ragged batches, fused loss), cores swapped from seed to seed, and the reference recipe as in (a), padded and eager, its
seeds side by side; (c) peak memory of those trainings. An arm is shown with the weights that its recipe keeps and with its last
ones, because the reference keeps the highest of many noisy val mrr, which may be an early one. The test split, a twentieth of the
hands, cannot tell two readers' mrr apart, so ``--held-out`` takes a share of all hands from the training ones, for all arms alike,
and grades them: one read a hand and villain, several times as many hands. Results lie under HOME_DIR/bench_train; a killed run goes
on there when started again, arm by arm, and a finished one is printed again. Needs two cores for arms to be at the same time.
"""

import argparse
import os
import subprocess
import sys

from rich.console import Console

from benchmarks.arm_process import EAGER, REFERENCE, SPEED_NAME, Task, as_argument
from benchmarks.train_table import print_speed, print_table
from range_reader_pipeline.arms import BASELINES, core_version, finished_arm, is_scored, with_last
from range_reader_pipeline.headless import run_everything
from range_reader_pipeline.paths import home_paths
from range_reader_pipeline.process import prepare_process

PAIR = ("cpu", REFERENCE)


def main() -> int:
    """Measure what is not measured yet, print the table, and return 1 where a process failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15.0, help="budget of an arm")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--scored-reads", type=int, default=20_000, help="of val and of test, a single forward")
    parser.add_argument(
        "--averaged-reads", type=int, default=3_000, help="of test, suit-averaged, which costs 24 forwards; 0: none"
    )
    parser.add_argument("--held-out", type=float, default=0.3, help="share of all hands to grade instead of training on them")
    parser.add_argument("--held-out-reads", type=int, default=60_000, help="of those, at most so many reads, a single forward")
    parser.add_argument("--speed-rounds", type=int, default=6)
    parser.add_argument("--speed-round-s", type=float, default=5.0)
    parser.add_argument("--no-eager", action="store_true", help="leave out the reference recipe without our engine")
    parser.add_argument("--table-only", action="store_true", help="print what is there")
    options = parser.parse_args()
    if not 0.0 <= options.held_out <= 0.8:
        parser.error(f"--held-out must be in 0..0.8, got {options.held_out:g}")
    paths = home_paths()
    prepare_process(paths)
    console = Console()
    if not options.table_only:
        run_everything(paths, {}, console, job="refresh_dataset")
    data = paths.data.resolve()
    root = paths.root / "bench_train" / f"{data.name}-{core_version()}-{options.held_out:g}"
    root.mkdir(parents=True, exist_ok=True)
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0, 1]

    def task(kind: str, core: int, preset: str = "", seed: int = 0) -> Task:
        return Task(
            kind=kind,
            root=str(root),
            data=str(data),
            core=core,
            preset=preset,
            seed=seed,
            minutes=options.minutes,
            scored_reads=options.scored_reads,
            averaged_reads=options.averaged_reads,
            held_out=options.held_out,
            held_out_reads=options.held_out_reads,
            speed_rounds=options.speed_rounds,
            speed_round_s=options.speed_round_s,
        )

    pairs = [
        [task("arm", cores[(i + seed) % len(cores)], name, seed) for i, name in enumerate(PAIR)] for seed in range(options.seeds)
    ]
    if not options.no_eager:
        eager = [task("arm", cores[seed % len(cores)], EAGER, seed) for seed in range(options.seeds)]
        pairs += [eager[first : first + 2] for first in range(0, len(eager), 2)]
    if not options.table_only:
        todo = [[one] for name, one in ((SPEED_NAME, task("speed", cores[-1])),) if not (root / name).exists()]
        baselines = task(BASELINES, cores[0])
        if not is_scored(root / BASELINES, baselines.scorings()):
            todo.append([baselines])
        todo += [pair for pair in pairs if any(finished_arm(one.folder(), with_last(one.scorings())) is None for one in pair)]
        for together in todo if len(cores) > 1 else [[one] for group in todo for one in group]:
            if not run_together(together):
                return 1
    print_speed(root)
    print_table(root, [one for pair in pairs for one in pair])
    return 0


def run_together(tasks: list[Task]) -> bool:
    """Run processes side by side to their end; returns whether all succeeded. Ctrl-C reaches them too, and they save."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen([sys.executable, "-m", "benchmarks.arm_process", as_argument(task)], env=environment) for task in tasks
    ]
    try:
        codes = [process.wait() for process in processes]
    except KeyboardInterrupt:
        for process in processes:
            process.wait()
        raise
    for task, code in zip(tasks, codes, strict=True):
        if code:
            print(f"{task.label} ended with {code}; run the same again to go on", file=sys.stderr)
    return not any(codes)


if __name__ == "__main__":
    sys.exit(main())
