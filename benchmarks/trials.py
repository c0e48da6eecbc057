"""Changes of the default at equal processor time, over seeds: nats gained over the static range on val reads, side by side.

``python -m benchmarks.trials --home HOME --out FOLDER [--seconds 120] [--seeds 3] ARM ...``. An arm is a switch of
``experiment_config`` or fields with values, such as ``learning_rate=0.004, model.num_layers=3``; the default always runs too.
Seconds are of processor time of one thread, so programs that run beside it matter less; compilation and what is counted before the
first step are left out. Seeds come outermost, so that a run that was cut short has compared all arms on the seeds it has. What is
trained and scored lies in the folder and is not trained again. The weights compared are the average at the end, not the validation
that a training would have kept; what mrr decides is too noisy for that (``docs/experiments.md``).
"""

import argparse
import hashlib
import json
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from range_reader_core.baselines import StaticRangeReader
from range_reader_core.evaluation import ReadScores, evaluate
from range_reader_core.inference import ModelReader
from range_reader_core.learner import Learner
from range_reader_core.optim import learning_rate_factor
from range_reader_core.presets import cpu
from range_reader_core.reads import Reads
from range_reader_core.train_config import TrainConfig
from range_reader_core.validation import choose_reads
from range_reader_pipeline.comparison import compare
from range_reader_pipeline.experiment_config import switched
from range_reader_pipeline.shards import load_split

DEFAULT = "default"
STATIC = "static"
DEVICE = torch.device("cpu")


def main() -> int:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True, help="a home with encoded shards")
    parser.add_argument("--out", type=Path, required=True, help="where scores are kept")
    parser.add_argument("--seconds", type=float, default=120.0, help="processor time of each training")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--scored-reads", type=int, default=6000, help="val reads, one a hand and villain")
    parser.add_argument("--most", type=int, default=1000, help="train at most so many arms now")
    parser.add_argument("--table-only", action="store_true", help="print what is there")
    parser.add_argument("arms", nargs="*", help="what to change")
    options = parser.parse_args()
    torch.set_num_threads(1)
    arms = {DEFAULT: "", **{arm: arm for arm in options.arms}}
    options.out.mkdir(parents=True, exist_ok=True)
    wanted = [(arm, seed) for seed in range(options.seeds) for arm in arms]
    todo = [] if options.table_only else [pair for pair in wanted if not _file(options, *pair).exists()][: options.most]
    if todo:
        train_reads = load_split(options.home / "data", "train")
        val_reads = choose_reads(load_split(options.home / "data", "val"), options.scored_reads)
        if not _file(options, STATIC, 0).exists():
            _keep(_file(options, STATIC, 0), evaluate([StaticRangeReader.fit(train_reads)], val_reads)[0], {})
        for arm, seed in todo:
            config = replace(switched(cpu(), arms[arm]) if arms[arm] else cpu(), seed=seed)
            scores, told = train(config, train_reads, val_reads, options.seconds)
            _keep(_file(options, arm, seed), scores, told)
            print(f"{time.strftime('%H:%M:%S')} {arm}, seed {seed}: {told}", flush=True)
    print_table(options, list(arms))
    return 0


def train(config: TrainConfig, train_reads: Reads, val_reads: Reads, seconds: float) -> tuple[ReadScores, dict[str, float]]:
    """Return the scores of the weight average after ``seconds`` of processor time, set-up not counted, and what it took."""
    learner = Learner(config, train_reads, DEVICE)
    if config.is_compiled and (reason := learner.compile()) is not None:
        sys.exit(f"not compiled: {reason}")
    step, start = 0, time.process_time()
    while (progress := (time.process_time() - start) / seconds) < 1.0:
        factor = learning_rate_factor(progress, warmup=config.warmup_fraction, final=config.final_fraction)
        loss = learner.step(step, config.learning_rate * factor)
        learner.settle()
        step += 1
    (scores,) = evaluate([ModelReader(model=learner.average, num_relabelings=1)], val_reads)
    count = scores.num_positions.sum()
    return scores, {
        "steps": step,
        "ms": round(1000.0 * seconds / step, 1),
        "parameters": learner.model.num_parameters(),
        "train_loss": round(loss.sum_nats / loss.num_positions, 4),
        "val_loss": round(float(scores.metric_sums[:, 0].sum() / count), 4),
    }


def print_table(options: argparse.Namespace, arms: list[str]) -> None:
    """Print the arms of which the same seeds are there as the default's."""
    if not _file(options, STATIC, 0).exists():
        return
    static, _ = _load(_file(options, STATIC, 0))
    titles = f"{'nats gained (by seed)':34s}{'lead over the default':32s}mrr (by seed); lead"
    print(f"{'':44s}{'seeds':>6s}{'steps':>7s}{'ms':>6s}  {titles}")
    for arm in arms:
        seeds = [s for s in range(options.seeds) if all(_file(options, name, s).exists() for name in (arm, DEFAULT))]
        if not seeds:
            continue
        found = {name: [_load(_file(options, name, seed)) for seed in seeds] for name in {arm: 0, DEFAULT: 0}}
        rows = compare({name: [scores for scores, _ in pairs] for name, pairs in found.items()}, static, DEFAULT)
        row = next(row for row in rows if row.name == arm)
        steps, ms = (statistics.mean(told[key] for _, told in found[arm]) for key in ("steps", "ms"))
        gains, mrrs = (" ".join(f"{value:.4f}" for value in values) for values in (row.seed_gains, row.seed_mrrs))
        leads = ("", "") if arm == DEFAULT else (str(row.lead_nats), str(row.lead_mrr))
        print(
            f"{arm:44s}{len(seeds):6d}{steps:7.0f}{ms:6.1f}  {f'{row.gain_nats.mean:.4f} ({gains})':34s}"
            f"{leads[0]:32s}{row.mrr.mean:.4f} ({mrrs}); {leads[1]}"
        )


def _file(options: argparse.Namespace, arm: str, seed: int) -> Path:
    text = json.dumps([arm, seed, 0.0 if arm == STATIC else options.seconds, options.scored_reads])
    name = "".join(letter if letter.isalnum() else "-" for letter in arm)[:60]
    folder: Path = options.out
    return folder / f"{name}-{seed}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.npz"


def _keep(path: Path, scores: ReadScores, told: dict[str, float]) -> None:
    np.savez(
        path,
        metric_sums=scores.metric_sums,
        num_positions=scores.num_positions,
        stratum=scores.stratum,
        hand_index=scores.hand_index,
        told=np.array(json.dumps(told)),
    )


def _load(path: Path) -> tuple[ReadScores, dict[str, float]]:
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in ("metric_sums", "num_positions", "stratum", "hand_index")}
        return ReadScores(reader=path.stem, **arrays), json.loads(str(stored["told"]))


if __name__ == "__main__":
    sys.exit(main())
