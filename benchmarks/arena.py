"""What the arena deals and what its oracle knows: hands a second, memory, calibration, and a model's share of the ceiling.

``python -m benchmarks.arena [--hands 20000] [--skip-oracle] [--train-seconds 240] [--home HOME]``. Dealing is at six players on
this process's one thread, writing included, by the wall clock and by processor time, which other programs disturb less. The oracle
reads heads-up hands; bins are of the probability of single combos, ten of them, and an error counts against the spread of whole
hands. Beside it read a ``cpu`` model and the counting baselines, which learnt on as many other hands. ``--home`` grades the kept
checkpoint of a home of arena hands beside both oracles, at all positions and from the villain's first chips on, which is where
they can be compared.
"""

import argparse
import os
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from range_reader_core.baselines import LiveUniformReader, StaticRangeReader
from range_reader_core.ceilings import EnteredScores, format_share, share_of_reads
from range_reader_core.encoder import HandEncoder
from range_reader_core.evaluation import Reader, ReadScores, ScoredPositions, evaluate
from range_reader_core.hand import CanonicalHand
from range_reader_core.metrics import LOSS, MRR
from range_reader_core.presets import cpu
from range_reader_core.reads import Reads
from range_reader_core.tracker_baselines import fit_trackers
from range_reader_core.training import train
from range_reader_pipeline.arena_ceiling import oracles
from range_reader_pipeline.arena_config import ArenaConfig
from range_reader_pipeline.arena_folder import deal_files, own_files, planned
from range_reader_pipeline.grading import model_reader, readers
from range_reader_pipeline.hand_files import parse_file
from range_reader_pipeline.paths import HomePaths, home_paths

EDGES = np.concatenate([[0.0], np.logspace(-4.5, -0.9, 9), [1.0 + 1e-9]])  # ten bins of a combo's probability
COMPARED_READS = 3_000
SEED = 20_240_607


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hands", type=int, default=20_000, help="hands dealt for each figure")
    parser.add_argument("--skip-oracle", action="store_true", help="only deal")
    parser.add_argument("--train-seconds", type=float, default=240.0, help="of the model beside the oracle; 0 leaves it out")
    parser.add_argument("--home", help="a home whose kept checkpoint is graded on its test reads")
    parser.add_argument("--max-reads", type=int, default=6_000, help="reads graded of --home")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if options.home:
        grade_home(home_paths(home=options.home), options.max_reads)
        return
    with tempfile.TemporaryDirectory() as folder:
        dealing(Path(folder), options.hands)
        if not options.skip_oracle:
            heads_up(Path(folder), options.hands, options.train_seconds)


def dealing(folder: Path, num_hands: int) -> None:
    """Print hands a second at six players and what memory does as hands grow."""
    config = {"min_players": 6, "max_players": 6}
    deal_to(folder / "warm", ArenaConfig(hands=500, **config))
    peaks = []
    for hands in (num_hands // 2, num_hands * 2):
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        paths = deal_to(folder / f"deal{hands}", ArenaConfig(hands=hands, **config))
        wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        megabytes = sum(path.stat().st_size for path in own_files(paths)) / 1e6
        print(
            f"{hands:>8,} hands of six players: {hands / wall_s:,.0f} hands/s by the clock, {hands / cpu_s:,.0f} by processor "
            f"time, {megabytes:.1f} MB, peak memory {peaks[-1]:,.0f} MB"
        )
    print(f"four times the hands: {peaks[1] - peaks[0]:+.0f} MB of peak memory")


def heads_up(folder: Path, num_hands: int, train_seconds: float) -> None:
    """Print the oracle's calibration and its loss beside every reader that has no policies."""
    paths = deal_to(folder / "heads_up", ArenaConfig(hands=num_hands, min_players=2, max_players=2, seed=1))
    reads = reads_of(paths)
    known, unknown = oracles(paths, reads, print)
    others = deal_to(folder / "heads_up_train", ArenaConfig(hands=num_hands, min_players=2, max_players=2, seed=2))
    learnt_on = reads_of(others)
    print(f"{num_hands:,} heads-up hands, {reads.num_reads:,} reads; other readers learnt on as many other hands")
    bins = Bins(reads)
    print_scores(evaluate([known], reads, observers=[bins.observe]))
    for line in bins.lines():
        print(line)
    some = reads.take(np.arange(min(COMPARED_READS, reads.num_reads)))
    print(f"all readers on {some.num_reads:,} of these reads")
    readers: list[Reader] = [
        known,
        unknown,
        LiveUniformReader(),
        StaticRangeReader.fit(learnt_on),
        *fit_trackers(learnt_on, learnt_on),
    ]
    if train_seconds > 0:
        readers.append(trained(learnt_on, train_seconds, folder / "run"))
    entered = EnteredScores(len(readers), some.num_reads)
    scores = evaluate(readers, some, observers=[entered.observe])
    print_scores(scores)
    print_scores(entered.of(scores), "from the villain's first chips on")


def trained(reads: Reads, seconds: float, run_folder: Path) -> Reader:
    """Return a ``cpu`` model trained for so long on nine tenths of the hands; the others choose its checkpoint."""
    is_val = reads.hand_index % 10 == 0
    config = replace(cpu(), budget_seconds=seconds)
    train(
        config,
        reads.take(np.flatnonzero(~is_val)),
        reads.take(np.flatnonzero(is_val)),
        run_folder,
        device=torch.device("cpu"),
        identity="heads-up",
    )
    return model_reader(run_folder, num_relabelings=1, device="cpu")


class Bins:
    """Promised and happened of the first reader's single combos, by bin and hand."""

    def __init__(self, reads: Reads) -> None:
        """Start at zero."""
        self._hands = reads.hand_index
        self._sums = np.zeros((int(reads.hand_index.max()) + 1, len(EDGES) - 1, 2))
        self._counts = np.zeros(len(EDGES) - 1, dtype=np.int64)

    def observe(self, scored: ScoredPositions) -> None:
        """Take a batch's answers."""
        if scored.reader:
            return
        part = scored.part
        probability = scored.logp.double().exp().numpy()  # (N, C)
        hand = self._hands[part.batch.read_index.numpy()[part.rows.numpy()]]
        place = np.searchsorted(EDGES, probability, side="right") - 1
        live = part.is_live.numpy()
        for number in range(len(EDGES) - 1):
            is_in = live & (place == number)
            np.add.at(self._sums[:, number, 0], hand, np.where(is_in, probability, 0.0).sum(axis=1))
            self._counts[number] += is_in.sum()
        targets = part.targets.numpy()
        np.add.at(self._sums[:, :, 1], (hand, place[np.arange(len(targets)), targets]), 1.0)

    def lines(self) -> list[str]:
        """Return a line a bin, and the largest error in standard errors of whole hands."""
        promised, happened = self._sums.sum(axis=0).T
        error = np.sqrt(((self._sums[:, :, 1] - self._sums[:, :, 0]) ** 2).sum(axis=0))
        z = (happened - promised) / np.maximum(error, 1e-12)
        lines = [f"{'probability of a combo':<24}{'combos':>12}{'promised':>11}{'happened':>10}{'ratio':>8}{'errors':>8}"]
        lines += [
            f"{low:>10.6f} to {min(high, 1.0):<10.6f}{count:>12,}{said:>11.1f}{came:>10.0f}"
            f"{came / max(said, 1e-12):>8.3f}{errors:>+8.2f}"
            for low, high, count, said, came, errors in zip(
                EDGES[:-1], EDGES[1:], self._counts.tolist(), promised, happened, z, strict=True
            )
        ]
        return [*lines, f"largest deviation: {np.abs(z).max():.2f} standard errors in {len(z)} bins"]


def grade_home(paths: HomePaths, max_reads: int) -> None:
    """Print the share of the ceiling of a home's kept checkpoint."""
    from range_reader_pipeline.run_store import RunStore
    from range_reader_pipeline.shards import load_split

    run = RunStore(paths).kept()
    if run is None:
        print(f"{paths.checkpoint} holds no kept checkpoint")
        return
    reads = load_split(paths.data.resolve(), "test", max_reads)
    best = oracles(paths, reads, print)
    few = readers(paths.runs / run.run_id, run.static_class_counts, num_relabelings=24, device="cpu")
    print(f"run {run.run_id}: {run.seconds / 60:.1f} minutes, {reads.num_reads:,} test reads")
    entered = EnteredScores(len(few) + len(best), reads.num_reads)
    everywhere = evaluate([*few, *best], reads, observers=[entered.observe])
    print_scores(everywhere)
    scores = entered.of(everywhere)
    print_scores(scores, "from the villain's first chips on")
    for oracle in best:
        print(format_share(share_of_reads(scores, floor=few[1].name, oracle=oracle.name, generator=np.random.default_rng(SEED))))
    by_outcome(scores[0], scores[1], scores[-2])


def by_outcome(model: ReadScores, floor: ReadScores, oracle: ReadScores) -> None:
    """Print the share in nats by what became of the villain."""
    from range_reader_core.masks import STRATA

    for number, name in enumerate(STRATA):
        is_in = model.stratum == number
        losses = [part.metric_sums[is_in, LOSS].sum() for part in (model, floor, oracle)]
        count = model.num_positions[is_in].sum()
        if count:
            share = (losses[1] - losses[0]) / (losses[1] - losses[2])
            print(f"  {name:<14}{count:>9,} positions  oracle gains {(losses[1] - losses[2]) / count:.3f} nats, share {share:.1%}")


def print_scores(scores: tuple[ReadScores, ...], where: str = "everywhere") -> None:
    """Print loss and mrr of each reader."""
    print(f"{where}, {scores[0].num_positions.sum():,} positions of {len(scores[0].num_positions):,} reads:")
    for part in scores:
        count = part.num_positions.sum()
        loss, mrr = (part.metric_sums[:, metric].sum() / count for metric in (LOSS, MRR))
        print(f"  {part.reader:<28} loss {loss:.4f} nats  mrr {mrr:.4f}")


def deal_to(home: Path, config: ArenaConfig) -> HomePaths:
    """Deal into a home of its own."""
    paths = home_paths(home=str(home), environment={})
    paths.create()
    deal_files(planned(config, paths), paths, lambda _: None)
    return paths


def reads_of(paths: HomePaths) -> Reads:
    """Return all reads of what was dealt."""
    hands = [item for path in own_files(paths) for item in parse_file(path) if isinstance(item, CanonicalHand)]
    return HandEncoder().encode_hands(hands)[0]


if __name__ == "__main__":
    main()
