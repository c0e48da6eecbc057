"""The command ``range-reader``: run the pipeline headless, ask about one hand, look at what a file holds.

Commands parse, call and print. What a person can mend is one line on stderr without a traceback: exit code 2 for a wrong call, 1
for work that failed, 130 after Ctrl-C. Heavy libraries are imported by the command that needs them.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from range_reader_core.wording import counted
from range_reader_pipeline.paths import home_paths
from range_reader_pipeline.process import prepare_process

if TYPE_CHECKING:
    from range_reader_pipeline.paths import HomePaths

INTERRUPTED: Final = 130


class HandsToDeal(click.IntRange):
    """A number of hands, whose errors name the knob that `make run` has for it as well."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number.

        Raises:
            click.UsageError: it is none, or below the range.
        """
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            msg = f"HANDS (--arena-hands): expected a whole number of hands from {self.min} on, got {value!r}"
            raise click.UsageError(msg, ctx=ctx) from error  # a BadParameter would name the option once more


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def main() -> None:
    """Read a No-Limit Hold'em player's hole cards from the public record of the hand.

    \b
    range-reader run --ohh FOLDER        from hand history files to a trained reader and two reports
    range-reader query --ohh FILE ...    what one villain of one hand is believed to hold
    range-reader ingest FILE ...         what files hold and what is refused, and why
    range-reader serve                   the same reads over HTTP on this machine, for programs

    Everything that is made lies in RANGE_READER_HOME (default ./range_reader_home).

    For study and simulation, not for use at a table.
    """


@main.command()
@click.option(
    "--ohh",
    metavar="FOLDER",
    help=(
        "Hand histories: .ohh .jsonl .ndjson .json .phh .phhs, each also .gz or .zst; a folder, or one in an object store such as "
        "s3://bucket/hands (docs/scale.md). Default: $RANGE_READER_OHH, else HOME/ohh."
    ),
)
@click.option(
    "--home", metavar="FOLDER", help="Where everything made is kept. Default: $RANGE_READER_HOME, else ./range_reader_home."
)
@click.option(
    "--preset",
    metavar="NAME",
    help="tiny, cpu, base, reference, reference_cpu. Default: $RANGE_READER_PRESET, else base with a CUDA GPU, else cpu.",
)
@click.option(
    "--minutes",
    type=float,
    metavar="N",
    help="Wall-clock budget of the training. Default: $RANGE_READER_TRAIN_MINUTES, else the preset's own.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the training.")
@click.option(
    "--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True, help="Where to train and grade."
)
@click.option(
    "--arena-hands",
    type=HandsToDeal(min=1),
    metavar="N",
    help="How many hands to deal where there are none (HANDS= of make run). Default: 20000.",
)
@click.option("--retrain", is_flag=True, help="Train again although this configuration has finished on these hands.")
def run(
    ohh: str | None,
    home: str | None,
    preset: str | None,
    minutes: float | None,
    seed: int,
    device: str,
    arena_hands: int | None,
    retrain: bool,
) -> None:
    """Materialize everything and print both tables.

    Without hand histories of yours in HOME/ohh the arena deals some: legal self-play of known styles, every hole card known.

    What is unchanged is reused: files that were encoded, and a training that finished. A training that was stopped or killed goes
    on where it was saved. The run is recorded in the Dagster instance that `make ui` shows.

    \b
    range-reader run                                  no hands at hand: 20,000 of the arena's
    range-reader run --ohh hands/                     default preset of this machine
    range-reader run --ohh hands/ --preset tiny       a look at the whole chain in a minute
    """
    from rich.console import Console

    paths = home_paths(home=home, ohh=ohh)
    prepare_process(paths)
    console = Console()
    training: dict[str, Any] = {"seed": seed, "device": device, "retrain": retrain}
    training |= {name: value for name, value in (("preset", preset), ("train_minutes", minutes)) if value is not None}
    ops = {"checkpoint": {"config": training}}
    ops |= {name: {"config": {"device": device}} for name in ("stratified_eval", "sharpening_report", "range_report")}
    if arena_hands is not None:
        ops["arena_hands"] = {"config": {"hands": arena_hands}}
    console.print(f"hand histories  {paths.ohh_source}\nhome            {paths.root}", highlight=False)
    with _one_line_errors():
        from range_reader_core.inference import choose_device
        from range_reader_pipeline.arena_folder import will_deal
        from range_reader_pipeline.config import TrainingConfig, first_look_minutes
        from range_reader_pipeline.headless import run_everything
        from range_reader_pipeline.preflight import check_folders, check_knobs

        check_folders(paths)
        has_gpu = choose_device(device).type == "cuda"
        if will_deal(paths):
            text = "no hand histories of yours there: the arena deals some"
            if (budget := first_look_minutes(preset, minutes, has_gpu=has_gpu)) is not None:
                training["train_minutes"] = budget
                text += f", and the training takes {budget:g} minutes (--minutes or TRAIN_MINUTES= for longer)"
            console.print(text, highlight=False)
        check_knobs(paths, TrainingConfig(**training), has_gpu=has_gpu)
        run_everything(paths, {"ops": ops}, console)
        _print_reports(paths, console)


@main.command()
@click.option(
    "--ohh",
    "path",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File that holds the hand.",
)
@click.option(
    "--hand-index", required=True, type=click.IntRange(min=0), metavar="N", help="Which of the file's readable hands, from 0."
)
@click.option(
    "--villain",
    required=True,
    type=click.IntRange(min=0),
    metavar="S",
    help="Seat to read: 0, 1, ... clockwise among those dealt in.",
)
@click.option(
    "--perspective",
    type=click.IntRange(min=0),
    metavar="S",
    help="Seat that reads; its two cards must be in the file. Default: a watcher who sees nobody's cards.",
)
@click.option("--show-steps", is_flag=True, help="Show the read at the end of every street, not only the final one.")
@click.option(
    "--range-text",
    type=click.Choice(["combos", "classes"]),
    help="Print the range in the notation of solvers as well: exact combos, or a mean weight a class such as AKs:0.5.",
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the hand as a page that opens in any browser: the 13x13 grid step by step. A missing folder is made.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1, max=1326),
    default=8,
    show_default=True,
    metavar="K",
    help="How many of the likeliest combos to show.",
)
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Folder or .safetensors file. Default: HOME/checkpoint, the kept one.",
)
@click.option("--home", metavar="FOLDER", help="Default: $RANGE_READER_HOME, else ./range_reader_home.")
@click.option("--single-forward", is_flag=True, help="Do not average over the 24 suit relabelings: faster and a little noisier.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True, help="Where to compute.")
def query(
    path: Path,
    hand_index: int,
    villain: int,
    perspective: int | None,
    show_steps: bool,
    range_text: str | None,
    html: Path | None,
    top: int,
    checkpoint: Path | None,
    home: str | None,
    single_forward: bool,
    device: str,
) -> None:
    """Print what one villain of one hand is believed to hold, and how likely the truth was held to be.

    \b
    range-reader query --ohh hands/a.ohh --hand-index 0 --villain 1 --perspective 0 --show-steps
    range-reader query --ohh hands/a.ohh --hand-index 0 --villain 1 --html hand.html      as a watcher, to look at

    Seats are numbered 0, 1, ... clockwise among the players dealt in; the output lists them beside the file's own numbers.
    """
    paths = home_paths(home=home)
    prepare_process(paths)
    with _one_line_errors():
        from range_reader_core.inference import RangeReader
        from range_reader_pipeline.hand_files import find_hand
        from range_reader_pipeline.hand_view import hand_lines, read_lines, villain_combo
        from range_reader_pipeline.reading import latest_reader

        hand = find_hand(path, hand_index)
        for name, seat in (("--villain", villain), ("--perspective", perspective)):
            if seat is not None and seat >= hand.num_players:
                msg = f"{name}: hand {hand_index} has seats 0..{hand.num_players - 1}, got {seat}"
                raise click.UsageError(msg)
        reader = RangeReader.load(checkpoint, device=device) if checkpoint else latest_reader(home, device)
        trajectory = reader.trajectory(hand, villain, perspective, num_relabelings=1 if single_forward else 24)
        lines = hand_lines(hand, villain=villain, perspective=perspective)
        truth = villain_combo(hand, villain)
        lines += ["", *read_lines(trajectory, truth, num_top=top, is_every_step=show_steps, range_text=range_text)]
        if html is not None:  # before the answer is printed, so that an error is not its last line
            from range_reader_pipeline.hand_pages import hand_page
            from range_reader_pipeline.reading import static_prior

            prior = static_prior(checkpoint or paths.checkpoint)
            page = hand_page(hand, trajectory, villain=villain, perspective=perspective, prior=prior)
            lines += ["", _write_page(html, page)]
        click.echo("\n".join(lines))


@main.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE...")
def ingest(files: tuple[Path, ...]) -> None:
    """Say what hand history files hold and what is refused, and why. Nothing is stored.

    Exit code 1 if a file holds no hand that can be read.
    """
    with _one_line_errors():
        from range_reader_pipeline.hand_files import contents

        is_any_empty = False
        for path in files:
            found = contents(path)
            is_any_empty |= not found.num_hands
            num_refused = sum(count for reason, count in found.num_by_code.items() if not reason.is_file_level)
            click.echo(f"{path}: {counted(found.num_hands, 'hand')}, {num_refused:,} refused")
            if found.problem:
                click.echo(f"  {found.problem}")
            elif not found.num_hands and not found.num_by_code:
                click.echo(f"  nothing in it: {path.stat().st_size} bytes without a single record")
            for reason, count in sorted(found.num_by_code.items(), key=lambda item: -item[1]):
                click.echo(f"  {reason:<16} {count:>7}")
            for reject in found.first_rejects:
                where = f"line {reject.line}" if reject.line else "file"
                click.echo(f"  {where:<10} {reject.reason}: {reject.message}")
            if num_more := sum(found.num_by_code.values()) - len(found.first_rejects):
                click.echo(f"  and {num_more:,} more")
    if is_any_empty:
        sys.exit(1)


@main.command()
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Folder or .safetensors file. Default: the kept run of HOME, after checking its weights.",
)
@click.option("--home", metavar="FOLDER", help="Default: $RANGE_READER_HOME, else ./range_reader_home.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True, help="Where to compute.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on. Others can ask unless it is loopback.")
@click.option("--port", type=click.IntRange(1, 65535), default=8326, show_default=True, help="TCP port.")
def serve(checkpoint: Path | None, home: str | None, device: str, host: str, port: int) -> None:
    """Answer beliefs about hands over HTTP until Ctrl-C.

    The page at / shows how to ask; /openapi.json describes every request. Requests are bounded in size and rate. There is no
    login: whoever reaches the address can ask.
    """
    with _one_line_errors():
        from range_reader_core.inference import RangeReader
        from range_reader_pipeline import service
        from range_reader_pipeline.ports import bound_socket
        from range_reader_pipeline.reading import latest_reader

        with bound_socket(host, port, knob="--port N") as listener:
            reader = RangeReader.load(checkpoint, device=device) if checkpoint else latest_reader(home, device)
            click.echo(f"answering on http://{host}:{port} (Ctrl-C ends it)")
            service.serve(reader, host=host, port=port, listener=listener)


def _write_page(target: Path, page: str) -> str:
    """Write a page, and return what to say of it."""
    from range_reader_pipeline.storage import written_aside

    is_new_folder = not target.parent.exists()
    try:
        with written_aside(target) as aside:
            aside.write_text(page, encoding="utf-8")
    except OSError as error:
        msg = f"--html: {target} cannot be written ({error.strerror})"
        raise click.ClickException(msg) from error
    made = f" into the folder {target.parent}, which was not there before" if is_new_folder else ""
    return f"wrote {target} ({len(page.encode()) / 1e3:.0f} kB){made}; open it in a browser"


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turn what a person can mend into one line; anything else is a bug and keeps its traceback."""
    import dagster as dg
    from dagster._core.errors import DagsterAssetCheckFailedError

    from range_reader_pipeline.storage import explain_os_error

    try:
        yield
    except dg.Failure as error:
        raise click.ClickException(error.description or str(error)) from None
    except DagsterAssetCheckFailedError as error:  # what to do was told when the check was made
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(explain_os_error(error)) from None
    except (ValueError, FloatingPointError) as error:
        raise click.ClickException(str(error)) from None
    except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError):
        click.echo("stopped; the same command goes on where it was saved", err=True)
        sys.exit(INTERRUPTED)


def _print_reports(paths: "HomePaths", console: Any) -> None:
    from range_reader_pipeline.reports import report_files

    for name in ("stratified_eval", "sharpening_report"):
        text = report_files(paths.reports, name).text.read_text(encoding="utf-8")
        console.print(f"\n[bold]{name}[/bold]")
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    console.print("[bold]made[/bold]")
    for what, where in (
        ("catalogue", paths.ohh_files),
        ("rejects", paths.rejects),
        ("shards", paths.data),
        ("checkpoint", paths.checkpoint),
        ("reports", paths.reports),
        ("hands", paths.reports / "range_report.html"),
        ("results", paths.results),
    ):
        console.print(f"  {what:<11} {where}", markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
