"""The first asset: the catalogue of hand history files, by content."""

import time

import dagster as dg

from range_reader_core.wording import byte_count, counted, first_of
from range_reader_pipeline import metadata
from range_reader_pipeline.catalogue import Catalogue, FileEntry, HashMemo, list_folder, read_catalogue, scan, write_catalogue
from range_reader_pipeline.data_config import OhhFilesConfig
from range_reader_pipeline.failures import clear_failures
from range_reader_pipeline.mirror import Mirrored, mirror
from range_reader_pipeline.paths import HomePaths, is_url
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.stages import DATA, GROUP, STAGE_TAG
from range_reader_pipeline.storage import write_json
from range_reader_pipeline.suffixes import CODECS, CONTENT_SUFFIXES

CATALOGUE_VERSION = "1"  # raise it when the same folder would be catalogued differently
COLUMNS = {
    "name": ("string", "path below the folder"),
    "size_bytes": ("int", "size on disk"),
    "mtime_ns": ("int", "time of the last change, nanoseconds since 1970"),
    "sha256": ("string", "hash of the content, which is what a file is known by; empty where it is not read"),
    "status": ("string", "ok, or why it is not read"),
    "reason": ("string", "the same in words"),
}


@dg.asset(
    deps=["arena_hands"],
    group_name=GROUP,
    kinds={"file", "parquet"},
    tags={STAGE_TAG: DATA},
    code_version=CATALOGUE_VERSION,
    description=(
        "**What:** one row per Open Hand History file: name, size, content hash, and whether it is read or why not.\n\n"
        "**From:** the folder of hand histories, or a copy of it that is fetched from an object store first. A file is known by "
        "its bytes, so renaming or touching one changes nothing.\n\n"
        "**Read it:** `left_out` should be 0; `newest` shows what arrived last."
    ),
)
def ohh_files(context: dg.AssetExecutionContext, config: OhhFilesConfig, home: HomeResource) -> dg.MaterializeResult[None]:
    """Catalogue the folder of hand histories."""
    begin_s = time.monotonic()
    if is_url(config.folder):
        message = "config folder: expected a folder; a URL is given where the server is started (OHH=<url>, or RANGE_READER_OHH)"
        raise dg.Failure(message, allow_retries=False)
    paths = home.paths(config.folder)
    with clear_failures():
        paths.create()
        mirrored = mirror(paths, context.log.info) if paths.ohh_url else None
        catalogue = _scan(context, paths, config.settle_seconds, mirrored)
        is_reused = _publish(paths, catalogue)
    num_files = len(catalogue.readable)
    context.log.info(
        f"{counted(num_files, 'file')} in {paths.ohh_source}, {len(catalogue.left_out):,} left out"
        + (", nothing changed" if is_reused else "")
    )
    if catalogue.left_out:
        context.log.warning("left out: " + first_of([f"{entry.name} ({entry.reason})" for entry in catalogue.left_out]))
    entries = _metadata(paths, catalogue, is_reused=is_reused, seconds=time.monotonic() - begin_s)
    if mirrored is not None:
        entries |= _fetched(paths, mirrored)
    return dg.MaterializeResult(data_version=dg.DataVersion(catalogue.version), metadata=entries)


def _scan(context: dg.AssetExecutionContext, paths: HomePaths, settle_seconds: float, mirrored: Mirrored | None) -> Catalogue:
    """Return the catalogue of the folder.

    Raises:
        dagster.Failure: there is no folder, or no file in it that can be read.
    """
    try:
        listing = list_folder(paths.ohh, skip=paths.root) if mirrored is None else mirrored.listing
    except (FileNotFoundError, NotADirectoryError) as error:
        message = f"there is no folder {paths.ohh}: set OHH=<folder> (or RANGE_READER_OHH, or config folder) to your hand histories"
        raise dg.Failure(message, allow_retries=False) from error
    memo = HashMemo.load(paths.hash_memo, paths.ohh)
    num_bytes = sum(entry.size_bytes for entry in listing.entries if memo.known(entry) is None)
    if num_bytes:
        context.log.info(f"looking at {counted(len(listing.entries), 'file')}, {byte_count(num_bytes)} of them new or changed")
    settle_seconds = settle_seconds if mirrored is None else 0.0  # files just fetched are young and whole
    catalogue = scan(listing, memo, now_ns=time.time_ns(), settle_seconds=settle_seconds)
    memo.save(paths.hash_memo)
    if not catalogue.entries:
        kinds = ", ".join(CONTENT_SUFFIXES)
        message = (
            f"no hand histories found in {paths.ohh_source} (looked for {kinds}, each also {' or '.join(CODECS)}; "
            f"{counted(listing.num_ignored, 'other file')}): put some there, or point OHH=<folder> (or RANGE_READER_OHH, or config "
            "folder) at yours"
        )
        raise dg.Failure(message, allow_retries=False)
    if not catalogue.readable:
        message = f"none of {counted(len(catalogue.entries), 'file')} in {paths.ohh_source} can be read: " + first_of(
            [f"{entry.name}: {entry.reason}" for entry in catalogue.left_out]
        )
        raise dg.Failure(message, metadata={"left_out_files": _left_out_table(catalogue)}, allow_retries=False)
    return catalogue


def _publish(paths: HomePaths, catalogue: Catalogue) -> bool:
    """Write the catalogue unless it is there already, and return whether it was."""
    try:
        if _stable(read_catalogue(paths.ohh_files)) == _stable(catalogue):
            return True
    except (OSError, ValueError, KeyError):  # none yet, or none that this code wrote
        pass
    write_catalogue(paths.ohh_files, catalogue)
    write_json(
        paths.catalogue_manifest,
        {
            "catalogue_version": CATALOGUE_VERSION,
            "folder": str(catalogue.folder),
            "num_files": len(catalogue.readable),
            "num_left_out": len(catalogue.left_out),
            "num_ignored": catalogue.num_ignored,
            "num_bytes": sum(entry.size_bytes for entry in catalogue.readable),
            "version": catalogue.version,
        },
    )
    return False


def _stable(catalogue: Catalogue) -> tuple[object, ...]:
    """Return what the file of a catalogue holds."""
    rows = [(e.name, e.size_bytes, e.mtime_ns, e.sha256, e.status, e.reason) for e in catalogue.entries]
    return (catalogue.folder, catalogue.num_ignored, rows)


def _metadata(paths: HomePaths, catalogue: Catalogue, *, is_reused: bool, seconds: float) -> dict[str, dg.MetadataValue]:
    newest = sorted(catalogue.readable, key=lambda entry: (-entry.mtime_ns, entry.name))
    entries: dict[str, dg.MetadataValue] = {
        "files": dg.MetadataValue.int(len(catalogue.readable)),
        "distinct_contents": dg.MetadataValue.int(len({entry.sha256 for entry in catalogue.readable})),
        "left_out": dg.MetadataValue.int(len(catalogue.left_out)),
        "other_files": dg.MetadataValue.int(catalogue.num_ignored),
        "megabytes": dg.MetadataValue.float(round(sum(entry.size_bytes for entry in catalogue.readable) / 1e6, 3)),
        "reused": dg.MetadataValue.bool(is_reused),
        "seconds": dg.MetadataValue.float(round(seconds, 2)),
        "version": dg.MetadataValue.text(catalogue.version),
        "folder": dg.MetadataValue.path(str(catalogue.folder)),
        "path": dg.MetadataValue.path(str(paths.ohh_files)),
        "newest": metadata.table([_row(entry) for entry in newest[: metadata.MAX_TABLE_ROWS]]),
        "dagster/row_count": dg.MetadataValue.int(len(catalogue.entries)),
        "dagster/column_schema": metadata.column_schema(COLUMNS),
    }
    if catalogue.left_out:
        entries["left_out_files"] = _left_out_table(catalogue)
    return entries


def _fetched(paths: HomePaths, mirrored: Mirrored) -> dict[str, dg.MetadataValue]:
    return {
        "url": dg.MetadataValue.text(paths.ohh_url),
        "files_fetched": dg.MetadataValue.int(mirrored.num_fetched),
        "megabytes_fetched": dg.MetadataValue.float(round(mirrored.num_bytes / 1e6, 3)),
        "files_removed": dg.MetadataValue.int(mirrored.num_removed),
    }


def _row(entry: FileEntry) -> dict[str, metadata.Cell]:
    changed = time.strftime("%Y-%m-%d %H:%M", time.gmtime(entry.mtime_ns / 1e9))
    return {"file": entry.name, "kB": round(entry.size_bytes / 1e3, 1), "changed (UTC)": changed}


def _left_out_table(catalogue: Catalogue) -> dg.TableMetadataValue:
    return metadata.table([{"file": e.name, "status": e.status.value, "reason": e.reason} for e in catalogue.left_out])
