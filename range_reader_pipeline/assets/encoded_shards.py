"""The second asset: every readable hand as encoded reads, shuffled and split, in shards of parquet."""

import time
from typing import Any

import dagster as dg

from range_reader_core.encoder import ENCODER_VERSION
from range_reader_core.partition import SPLITS
from range_reader_core.wording import counted
from range_reader_pipeline import metadata
from range_reader_pipeline.assets.ohh_files import ohh_files
from range_reader_pipeline.catalogue import Catalogue, read_catalogue
from range_reader_pipeline.data_config import EncodedShardsConfig, shuffle_config
from range_reader_pipeline.failures import clear_failures
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.plots import stacked_bars
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.stages import DATA, GROUP, STAGE_TAG

MANY_READS = 5_000  # from here on a bar is counted in thousands


@dg.asset(
    group_name=GROUP,
    kinds={"parquet", "polars"},
    tags={STAGE_TAG: DATA},
    deps=[ohh_files],
    code_version=ENCODER_VERSION,
    description=(
        "**What:** every accepted hand as reads, one per (villain, perspective) pair of seats with known cards: tokens, chip "
        "values and the villain's two cards, in shuffled parquet shards `data/{train,val,test}/shard_*.parquet`.\n\n"
        "**From:** the files of `ohh_files`. A file is parsed and encoded once, whatever others come and go; hands that occur "
        "twice count once; a hand is on one side of the split for ever.\n\n"
        "**Read it:** `hands` against `hands_rejected` and its reasons; `picture` shows what the model will have seen."
    ),
)
def encoded_shards(
    context: dg.AssetExecutionContext, config: EncodedShardsConfig, home: HomeResource
) -> dg.MaterializeResult[None]:
    """Encode what is new and publish the shards."""
    from range_reader_pipeline.shard_build import build_shards

    begin_s = time.monotonic()
    paths = home.paths()
    with clear_failures():
        result = build_shards(
            paths, _catalogue(context, paths), shuffle_config(config), num_workers=config.workers, on_progress=context.log.info
        )
    for name, problem in result.problems.items():
        context.log.warning(f"{name} was left out: {problem}; the sensor will take it up, or materialize again")
    counts = result.manifest["counts"]
    context.log.info(
        f"{counted(counts['num_hands'], 'hand')}, {counts['num_rejected']:,} rejected, {counted(counts['num_reads'], 'read')}"
        + _without_reads(counts)
        + (", nothing changed" if result.is_reused else "")
    )
    entries = _metadata(paths, result.manifest)
    entries["reused"] = dg.MetadataValue.bool(result.is_reused)
    entries["files_encoded"] = dg.MetadataValue.int(result.num_files_encoded)
    entries["seconds"] = dg.MetadataValue.float(round(time.monotonic() - begin_s, 2))
    return dg.MaterializeResult(data_version=dg.DataVersion(str(result.manifest["version"])), metadata=entries)


def _without_reads(counts: dict[str, Any]) -> str:
    """Say of how many hands the reads are, and why the others have none: the next lines of the log count the former alone."""
    num_with = sum(counts["hands_by_split"].values())
    num_without = counts["num_hands"] - num_with
    if not num_without:
        return ""
    causes = {
        "nobody put in a voluntary chip": counts["num_walks"],
        "no two players' cards are known": counts["num_unlabelled_hands"],
    }
    # Repeated hands are in these numbers too, and hands whose cards `labels` leaves out are not: then the causes go without.
    is_exact = sum(causes.values()) == num_without
    told = [f"in {number:,} {cause}" if is_exact else cause for cause, number in causes.items() if number]
    if sum(causes.values()) < num_without:
        told.append("their cards were shown and not dealt (config labels)")
    return f" of {counted(num_with, 'hand')}; {num_without:,} without a read: {(' and ' if is_exact else ' or ').join(told)}"


def _catalogue(context: dg.AssetExecutionContext, paths: HomePaths) -> Catalogue:
    """Return the catalogue that ``ohh_files`` made.

    Raises:
        dagster.Failure: there is none, or another run has put that of another folder in the place of this run's own.
    """
    try:
        catalogue = read_catalogue(paths.ohh_files)
    except (FileNotFoundError, ValueError, KeyError) as error:
        message = f"{paths.ohh_files} is not there or cannot be read: materialize ohh_files first (or run all assets)"
        raise dg.Failure(message, allow_retries=False) from error
    own = _folder_of_run(context)
    if own is not None and own != str(catalogue.folder):
        message = (
            f"this run catalogued {own}, but another run has catalogued {catalogue.folder} for the same home meanwhile: "
            "start this one again when the other is done, or give each folder a home of its own (RANGE_READER_HOME)"
        )
        raise dg.Failure(message, allow_retries=False)
    return catalogue


def _folder_of_run(context: dg.AssetExecutionContext) -> str | None:
    """Return the folder that this run has catalogued itself, None where it has not."""
    for entry in context.instance.all_logs(context.run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION):
        event = entry.asset_materialization
        if event is not None and event.asset_key == ohh_files.key:
            return str(event.metadata["folder"].value)
    return None


def _metadata(paths: HomePaths, manifest: dict[str, Any]) -> dict[str, dg.MetadataValue]:
    from range_reader_pipeline.shards import COLUMN_DESCRIPTIONS, SHARD_SCHEMA

    counts = manifest["counts"]
    num_records = counts["num_accepted"] + counts["num_rejected"]
    numbers = {
        "files": counts["num_files"],
        "files_failed": counts["num_failed_files"],
        "hands": counts["num_hands"],
        "hands_rejected": counts["num_rejected"],
        "hands_repeated": counts["num_repeats"],
        "hands_in_conflict": counts["num_conflicts"],
        "hands_nobody_entered": counts["num_walks"],
        "hands_without_known_pair": counts["num_unlabelled_hands"],
        **{f"hands_{split}": counts["hands_by_split"][split] for split in SPLITS},
        "reads": counts["num_reads"],
        **{f"reads_{split}": counts["reads_by_split"][split] for split in SPLITS},
        "positions": counts["num_positions"],
        "positions_cut": counts["num_cut_positions"],
        "shards": len(manifest["shards"]),
        "dagster/row_count": counts["num_reads"],
    }
    entries: dict[str, dg.MetadataValue] = {"picture": _picture(manifest)}
    entries |= {name: dg.MetadataValue.int(number) for name, number in numbers.items()}
    entries |= {
        "reject_rate": dg.MetadataValue.float(round(counts["num_rejected"] / max(1, num_records), 6)),
        "megabytes": dg.MetadataValue.float(round(counts["num_bytes"] / 1e6, 3)),
        "version": dg.MetadataValue.text(manifest["version"]),
        "source_version": dg.MetadataValue.text(manifest["source_version"]),
        "path": dg.MetadataValue.path(str(paths.data)),
        "rejects_path": dg.MetadataValue.path(str(paths.rejects)),
        "sources": metadata.table(_source_rows(manifest)),
        "dagster/column_schema": metadata.column_schema(
            {field.name: (str(field.type), COLUMN_DESCRIPTIONS[field.name]) for field in SHARD_SCHEMA}
        ),
    }
    if counts["rejected_by_code"]:
        by_count = sorted(counts["rejected_by_code"].items(), key=lambda item: (-item[1], item[0]))
        rows: list[dict[str, metadata.Cell]] = [
            {"code": code, "count": count, "% of hands read": 100.0 * count / max(1, num_records)} for code, count in by_count
        ]
        entries["rejected_by_reason"] = metadata.table(rows)
    return entries


def _source_rows(manifest: dict[str, Any]) -> list[dict[str, metadata.Cell]]:
    totals: dict[str, int] = {}
    for shard in manifest["shards"]:
        for source, count in shard["reads_by_source"].items():
            totals[source] = totals.get(source, 0) + count
    return [{"source": source, "reads": count} for source, count in sorted(totals.items(), key=lambda item: -item[1])]


def _picture(manifest: dict[str, Any]) -> dg.MetadataValue:
    """Draw reads by table size and last street dealt."""
    totals: dict[tuple[int, str], int] = {}
    for shard in manifest["shards"]:
        for key, count in shard["reads_by_size_and_street"].items():
            size, street = key.split(" ")
            totals[int(size), street] = totals.get((int(size), street), 0) + count
    sizes = sorted({size for size, _ in totals})
    unit, name = (1e3, "thousands of reads") if max(totals.values(), default=0) >= MANY_READS else (1, "reads")
    parts = {street: [totals.get((size, street), 0) / unit for size in sizes] for street in ("preflop", "flop", "turn", "river")}
    title = f"{name} by the last street dealt"
    png = stacked_bars([str(size) for size in sizes], parts, title=title, x_label="players dealt in")
    return metadata.picture(png, "reads by table size and last street dealt")
