"""One training by several processes, a GPU each: ``torchrun --nproc-per-node gpu -m range_reader_pipeline.train_together``.

Process 0 does all that a materialization of ``checkpoint`` does: it holds the training lock, decides what is to be trained,
validates, writes, and keeps the better run. The others are told what is trained and train along. The batch is that of the
configuration, divided among the processes, so the run is called the same and reads the same, within noise, as one of a single
process; to see it in Dagster, materialize ``checkpoint`` with the same settings: it finds the run finished.
"""

import os
import time
from pathlib import Path
from typing import Any

import click
import torch

from range_reader_core.peers import Peers
from range_reader_pipeline.config import TrainingConfig
from range_reader_pipeline.paths import home_paths
from range_reader_pipeline.process import prepare_process
from range_reader_pipeline.shards import load_split
from range_reader_pipeline.training_run import Session, train_or_reuse

LOCAL_RANK_VARIABLE = "LOCAL_RANK"  # set by torchrun


class PrintedLog:
    """Prints lines with the time of day."""

    def info(self, msg: str) -> None:
        """Print a line."""
        click.echo(f"{time.strftime('%H:%M:%S')}  {msg}")

    def warning(self, msg: str) -> None:
        """Print a line on the error stream."""
        click.echo(f"{time.strftime('%H:%M:%S')}  {msg}", err=True)


@click.command()
@click.option("--home", metavar="FOLDER", help="Where the shards are. Default: $RANGE_READER_HOME, else ./range_reader_home.")
@click.option("--preset", default="auto", show_default=True, help="tiny, cpu, base, reference or reference_cpu.")
@click.option(
    "--minutes", "train_minutes", type=float, help="Wall-clock budget. Default: $RANGE_READER_TRAIN_MINUTES, else the preset's own."
)
@click.option("--max-steps", type=int, help="End after so many steps instead.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--init-from", default="scratch", show_default=True, help="scratch, kept or kept_or_scratch.")
@click.option("--retrain", is_flag=True, help="Train again although this configuration has finished on these shards.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
def main(home: str | None, device: str, **settings: Any) -> None:
    """Train on the shards of a home with all processes that torchrun has started."""
    if LOCAL_RANK_VARIABLE not in os.environ:
        msg = "start it with torchrun: torchrun --nproc-per-node gpu -m range_reader_pipeline.train_together"
        raise click.UsageError(msg)
    paths = home_paths(home=home)
    prepare_process(paths)
    is_on_gpu = device != "cpu" and torch.cuda.is_available()
    if is_on_gpu:
        torch.cuda.set_device(int(os.environ[LOCAL_RANK_VARIABLE]))
    torch.distributed.init_process_group("nccl" if is_on_gpu else "gloo")
    peers = Peers.connected()
    try:
        if not peers.is_writer:
            _train_along(peers)
            return

        def tell(session: Session | None) -> Peers:
            torch.distributed.broadcast_object_list([session])
            return peers

        outcome = train_or_reuse(
            paths,
            TrainingConfig(device=device, **settings),
            owner=f"torchrun, {peers.size} processes",
            log=PrintedLog(),
            observe=lambda _: None,
            on_session=tell,
        )
        run = outcome.run
        click.echo(f"run {run.run_id}: val mrr {run.val_mrr:.4f}, val loss {run.val_loss_nats:.3f} nats: {outcome.status}")
    finally:
        torch.distributed.destroy_process_group()


def _train_along(peers: Peers) -> None:
    told: list[Session | None] = [None]
    torch.distributed.broadcast_object_list(told)
    (session,) = told
    if session is None:
        return
    folder: Path = session.paths.data_versions / session.data_version
    session.train_weights(load_split(folder, "train"), load_split(folder, "val"), lambda _: None, peers)


if __name__ == "__main__":
    main()
