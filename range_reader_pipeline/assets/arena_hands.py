"""The asset in front of all others: hands for those who have none, dealt by players whose policies are known."""

import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import dagster as dg
from dagster._core.definitions.data_version import DATA_VERSION_TAG

from range_reader_core.wording import counted
from range_reader_pipeline import metadata
from range_reader_pipeline.arena_config import ArenaConfig
from range_reader_pipeline.arena_folder import (
    ARENA_VERSION,
    deal_files,
    dealing,
    dealt_before,
    foreign_files,
    own_files,
    planned,
    withdraw,
)
from range_reader_pipeline.failures import clear_failures
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.stages import DATA, GROUP, STAGE_TAG
from range_reader_pipeline.storage import read_json

STYLE_COLUMNS = {
    "style": "how these players play",
    "seats": "hands dealt to them",
    "vpip": "share of hands in which they put chips in before the flop by choice",
    "pfr": "share of hands in which they raise before the flop",
    "aggression": "bets and raises after the flop for each call",
    "showdown": "share of hands that they show down",
}


@dg.asset(
    group_name=GROUP,
    kinds={"file", "zstandard"},
    tags={STAGE_TAG: DATA},
    code_version=ARENA_VERSION,
    description=(
        "**What:** hands of No-Limit Hold'em that the arena deals itself, every hole card written down, for those who have none of "
        "their own yet.\n\n"
        "**When:** while the folder of hand histories holds no others. Put your own there and the arena takes its hands away. The "
        "launchpad has the number of hands, tables, stakes and styles.\n\n"
        "**Why it is worth having:** the players' policies are known, so the best possible read is too; the reports show it."
    ),
)
def arena_hands(context: dg.AssetExecutionContext, config: ArenaConfig, home: HomeResource) -> dg.MaterializeResult[None]:
    """Deal, unless there are hands already."""
    begin_s = time.monotonic()
    paths = home.paths()
    with clear_failures(), _alone(context, config, paths):
        reason = _why_not(config, paths)
        if reason:
            num_removed = withdraw(paths) if config.when == "auto" and paths.is_default_ohh else 0
            text = f"nothing dealt: {reason}" + (f"; took away {counted(num_removed, 'file')} dealt before" if num_removed else "")
            context.log.info(text)
            return _nothing(text, num_removed)
        try:
            deal = planned(config, paths)
        except ValueError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        manifest = dealt_before(paths, deal.identity)
        is_reused = manifest is not None
        if manifest is None:
            context.log.info(f"dealing {counted(deal.num_hands, 'hand')}, seed {deal.seed}, to {paths.arena_hands}")
            manifest = deal_files(deal, paths, context.log.info)
    seconds = time.monotonic() - begin_s
    if is_reused:
        context.log.info(f"{counted(deal.num_hands, 'arena hand')} there already, nothing changed")
    return dg.MaterializeResult(
        data_version=dg.DataVersion(deal.identity),
        metadata=_metadata(manifest, deal.policy, paths, is_reused=is_reused, seconds=seconds),
    )


def check_own_deal(context: dg.AssetExecutionContext, paths: HomePaths) -> None:
    """Make sure that the hands which this run has dealt are still those of the home; a run that dealt none has nothing to check.

    Raises:
        dagster.Failure: another run has dealt others, or taken them away, meanwhile.
    """
    for entry in context.instance.all_logs(context.run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION):
        event = entry.asset_materialization
        if event is None or event.asset_key != arena_hands.key or not event.metadata["dealt"].value:
            continue
        manifest = read_json(paths.arena_manifest)
        identity = manifest["identity"] if isinstance(manifest, dict) else None
        if (event.tags or {}).get(DATA_VERSION_TAG) != identity:
            others = f"dealt {counted(manifest['num_hands'], 'other hand')}" if isinstance(manifest, dict) else "taken them away"
            message = (
                f"this run dealt {counted(int(event.metadata['hands'].value), 'hand')}, but another run has {others} in the same "
                "home meanwhile, so what is encoded need not be this run's: start this one again when the other is done, or give "
                "each a home of its own (HOME_DIR=<folder>, or RANGE_READER_HOME)"
            )
            raise dg.Failure(message, allow_retries=False)


def _alone(context: dg.AssetExecutionContext, config: ArenaConfig, paths: HomePaths) -> AbstractContextManager[None]:
    """Return the lock for dealing, nothing where the arena's folder is not touched."""
    if config.when == "never" or not paths.is_default_ohh:
        return nullcontext()
    return dealing(paths, context.log.info)


def _why_not(config: ArenaConfig, paths: HomePaths) -> str:
    """Return why nothing is dealt, empty if something is."""
    if config.when == "never":
        return "the configuration says never"
    if not paths.is_default_ohh:
        return f"hand histories are read from {paths.ohh_source}"
    if config.when == "auto" and (files := foreign_files(paths)):
        return f"{counted(len(files), 'hand history file')} of your own in {paths.ohh} (the first: {files[0]})"
    return ""


def _nothing(text: str, num_removed: int) -> dg.MaterializeResult[None]:
    return dg.MaterializeResult(
        data_version=dg.DataVersion("none"),
        metadata={"hands": 0, "dealt": False, "why": text, "files_removed": num_removed},
    )


def _metadata(manifest: dict[str, Any], policy: Any, paths: HomePaths, *, is_reused: bool, seconds: float) -> dict[str, Any]:
    from range_reader_core import cards
    from range_reader_pipeline.arena_statistics import opening_frequencies
    from range_reader_pipeline.plots import range_grids

    statistics = manifest["statistics"]
    png = range_grids(
        policy.book.names, opening_frequencies(policy).tolist(), cards.RANKS[::-1], title="how often each style opens with a raise"
    )
    entries: dict[str, Any] = {
        "hands": manifest["num_hands"],
        "dealt": True,
        "styles": metadata.table(statistics["styles"], STYLE_COLUMNS),
        "openings": metadata.picture(png, "what each style opens, 13x13"),
        **{f"reach_{name}": share for name, share in statistics["reached"].items()},
        "pots_a_hand": statistics["pots_a_hand"],
        "files": len(manifest["files"]),
        "megabytes": round(sum(path.stat().st_size for path in own_files(paths)) / 1e6, 3),
        "seed": manifest["seed"],
        "settings": dg.MetadataValue.json(manifest["settings"]),
        "reused": is_reused,
        "seconds": round(seconds, 2),
        "path": dg.MetadataValue.path(str(paths.arena_hands)),
    }
    if not is_reused:
        entries["hands_per_second"] = round(manifest["num_hands"] / max(seconds, 1e-3))
    return entries
