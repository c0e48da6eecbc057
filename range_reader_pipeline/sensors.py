"""The sensor that encodes hand histories when they come, change or go, and has the reader trained again when the policy says so.

It is level-triggered: each tick compares the folder as it is with what the newest shards were made from, and
the shards with what the newest training was on, so nothing is lost by a missed tick, a restart, a failed run or a file that lands
in the middle of one. A folder in which somebody is still writing is left until it is quiet, though not for ever: the cursor holds
since when a change has been waiting for that, and nothing else. What to do is decided by ``decide``, a pure function of what was
seen.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

import dagster as dg

from range_reader_core.wording import counted
from range_reader_pipeline.catalogue import Catalogue, FileStatus, HashMemo, list_folder, scan
from range_reader_pipeline.data_config import SETTLE_SECONDS, OhhFilesConfig
from range_reader_pipeline.jobs import everything, refresh_dataset, train_and_evaluate
from range_reader_pipeline.mirror import look
from range_reader_pipeline.object_store import StoreError
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.retraining import Policy, Shards, When, decide_training, policy_of
from range_reader_pipeline.run_store import RunStore, TrainedOn
from range_reader_pipeline.shards_on_record import shards_on_record
from range_reader_pipeline.storage import read_json

VERSION_TAG: Final = "range_reader/source_version"
LISTING_TAG: Final = "range_reader/listing_version"
SENSOR_NAME: Final = "ohh_folder"
SENSOR_NAME_TAG: Final = "dagster/sensor_name"  # which Dagster puts on a sensor's runs
EVERYTHING: Final = "everything"
REFRESH: Final = "refresh_dataset"
TRAIN: Final = "train_and_evaluate"
DATA_VERSION_TAG: Final = "range_reader/data_version"
INTERVAL_SECONDS: Final = 30
MAX_HOLD_SECONDS: Final = 120.0  # files that come or grow all the time hold the others up no longer than this
MAX_ATTEMPTS: Final = 3
HASH_BYTES_PER_TICK: Final = 500_000_000  # about half a second; what is not hashed counts as changed
STORE_TIMEOUT_S: Final = 30.0  # an object store lists about 10,000 objects a second; a tick has a deadline of minutes

RUNS_LOOKED_AT: Final = 20

_WAITING: Final = (dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED)
_RUNNING: Final = (dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A run that the sensor asked for."""

    run_id: str
    job: str
    states: frozenset[str]  # names of the state of the folder or of the shards that it was asked for
    status: dg.DagsterRunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A run is wanted."""

    job: str
    run_key: str
    settle_seconds: float = 0.0  # leave out files that changed more lately than this


class Held(str):
    """Why a change of the folder waits: a file is still being written."""

    __slots__ = ()


def decide(
    seen: Catalogue,
    *,
    consumed: str | None,
    runs: Sequence[PastRun],
    now_ns: int,
    published_ns: int,
    policy: Policy,
    shards: Shards | None,
    trained: TrainedOn | None,
    held_since_ns: int | None = None,
    settle_seconds: float = SETTLE_SECONDS,
) -> Request | str:
    """Return the run to ask for, or why none is; ``Held`` where a change waits for files that are still written.

    Args:
        seen: the folder, with hashes as far as the tick's time went and unsettled files marked.
        consumed: the version of contents that the published shards were made from; None where there are none.
        runs: the sensor's latest runs, newest first.
        now_ns: the present.
        published_ns: when the shards were published, 0 before; what came since is waiting.
        policy: when to train again.
        shards: what is published.
        trained: what the newest training was on.
        held_since_ns: since when every tick has returned ``Held``; None if the last one did not.
        settle_seconds: a file younger than this may still be written.
    """
    if not seen.entries:
        return f"no hand histories in {seen.folder}"
    unsettled = [entry for entry in seen.entries if entry.status in (FileStatus.UNSETTLED, FileStatus.CHANGING)]
    settled = [entry for entry in seen.entries if entry.status in (FileStatus.OK, FileStatus.PENDING)]
    still_written = f"waiting for {unsettled[0].name} to be quiet for {settle_seconds:g} s" if unsettled else ""
    if not settled and unsettled:
        return Held(still_written)
    if not settled:
        return f"{counted(len(seen.entries), 'file')}, none of which can be read; the first: {seen.entries[0].reason}"
    if seen.is_complete and seen.version == consumed:
        verdict = _training(policy, shards, trained, runs)
        if isinstance(verdict, Request):
            return verdict
        return f"{counted(len(settled), 'file')}, up to date; {verdict}" + (f"; {still_written}" if unsettled else "")
    times_ns = [entry.ctime_ns for entry in settled]
    waits_since_ns = min((ctime_ns for ctime_ns in times_ns if ctime_ns > published_ns), default=max(times_ns))
    if held_since_ns is not None:  # files that are replaced again and again are all young, however long the change has waited
        waits_since_ns = min(waits_since_ns, held_since_ns)
    if unsettled and (now_ns - waits_since_ns) / 1e9 < MAX_HOLD_SECONDS:
        return Held(still_written)
    if any(run.status in _WAITING for run in runs if run.job != TRAIN):
        return f"{counted(len(settled), 'file')}, changed; a run is queued and will look at them when it starts"
    states = state_names(seen)
    attempts = list(takewhile(lambda run: run.states & states, (run for run in runs if run.job != TRAIN)))
    if any(run.status in _RUNNING for run in attempts):
        return f"{counted(len(settled), 'file')}, changed; a run for this state is under way"
    if len(attempts) >= MAX_ATTEMPTS:
        given_up = f"given up after {counted(len(attempts), 'run')}; materialize by hand, or change a file, to go on"
        return f"{counted(len(settled), 'file')}, {given_up}"
    after = runs[0].run_id if runs else "none"  # makes the key new after each run and the same until then
    is_all_due = trained is None and policy.when not in (When.NEVER, When.NIGHTLY)
    return Request(
        job=EVERYTHING if is_all_due or policy.when is When.AT_ONCE else REFRESH,
        run_key=f"{seen.listing_version}:{after}",
        settle_seconds=settle_seconds if unsettled else 0.0,
    )


def _training(policy: Policy, shards: Shards | None, trained: TrainedOn | None, runs: Sequence[PastRun]) -> Request | str:
    """Return the training to ask for, or why none is. One attempt a state of the shards: what a person ended stays ended."""
    decision = decide_training(policy, shards, trained)
    if not decision.is_due or shards is None:
        return decision.reason
    trainings = [run for run in runs if run.job in (TRAIN, EVERYTHING)]
    if any(run.status in (*_WAITING, *_RUNNING) for run in trainings):
        return f"{decision.reason}; a training is under way"
    names = {shards.version, shards.source_version}
    if any(run.states & names for run in trainings):
        return f"{decision.reason}; the training of these shards was ended or failed, so materialize checkpoint to train"
    encoding = next((run for run in runs if run.states & names), None)
    if encoding is not None and encoding.status is dg.DagsterRunStatus.FAILURE:
        return (
            f"{decision.reason}; a check of these shards failed: look at encoded_shards, or materialize checkpoint to train anyway"
        )
    return Request(job=TRAIN, run_key=f"{shards.version}:{trainings[0].run_id if trainings else 'none'}")


def state_names(seen: Catalogue) -> frozenset[str]:
    """Return what names a state: names, sizes and times, and its contents once all are known."""
    return frozenset({seen.listing_version, seen.version} if seen.is_complete else {seen.listing_version})


@dg.sensor(
    name=SENSOR_NAME,
    jobs=[everything, refresh_dataset, train_and_evaluate],
    minimum_interval_seconds=INTERVAL_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Watches the folder of hand histories, or lists it where an object store has it. When its contents differ from what the "
        "shards were made from, and every file has been quiet for a while, it has them encoded, once per state. Training "
        "follows when RANGE_READER_RETRAIN says so: at-once, nightly, never, or once there are so many more reads (10% by "
        "default). Each tick says what it saw."
    ),
)
def ohh_folder(context: dg.SensorEvaluationContext, home: HomeResource) -> dg.RunRequest | dg.SkipReason:
    """Compare the folder with the shards."""
    paths = home.paths()
    now_ns = time.time_ns()
    try:
        seen = _look_at_store(paths, now_ns) if paths.ohh_url else _look(paths, now_ns)
    except StoreError as error:
        return dg.SkipReason(f"{error}; the next tick asks again")
    try:
        shards = shards_on_record(paths)
    except ValueError as error:  # such shards are not believed, and what is asked for below makes them again
        context.log.warning(str(error))
        shards = None
    held_since_ns = int(context.cursor) if context.cursor and context.cursor.isdecimal() else None
    verdict = decide(
        seen,
        consumed=_consumed(context.instance, shards),
        runs=_past_runs(context.instance),
        now_ns=now_ns,
        published_ns=_published_ns(paths),
        policy=policy_of(os.environ),
        shards=shards,
        trained=_trained(paths, shards),
        held_since_ns=held_since_ns,
    )
    context.update_cursor(str(held_since_ns or now_ns) if isinstance(verdict, Held) else "")
    if isinstance(verdict, str):
        return dg.SkipReason(verdict)
    if verdict.job == TRAIN and shards is not None:
        return dg.RunRequest(run_key=verdict.run_key, job_name=TRAIN, tags={DATA_VERSION_TAG: shards.version})
    return dg.RunRequest(
        run_key=verdict.run_key,
        job_name=verdict.job,
        tags={LISTING_TAG: seen.listing_version, **({VERSION_TAG: seen.version} if seen.is_complete else {})},
        run_config=dg.RunConfig({"ohh_files": OhhFilesConfig(settle_seconds=verdict.settle_seconds)}),
    )


def _look(paths: HomePaths, now_ns: int) -> Catalogue:
    """Return the folder as it is now.

    Raises:
        FileNotFoundError: it is gone. The tick fails, because an unmounted disk is not an emptied folder.
    """
    if paths.is_default_ohh and not paths.ohh.exists() and not _was_catalogued(paths):
        return Catalogue(folder=paths.ohh, entries=(), num_ignored=0)  # nothing has run here yet, or only on a folder elsewhere
    try:
        listing = list_folder(paths.ohh, skip=paths.root)
    except FileNotFoundError as error:
        msg = f"the folder of hand histories {paths.ohh} is gone; the shards are left as they are"
        raise FileNotFoundError(msg) from error
    return _hashed(paths, listing, now_ns, SETTLE_SECONDS)


def _look_at_store(paths: HomePaths, now_ns: int) -> Catalogue:
    """Return what an object store holds now: what was fetched is hashed, the rest is PENDING or has just come.

    Raises:
        StoreError: the store does not answer, or holds no hand histories.
    """
    listing, others = look(paths, timeout_s=STORE_TIMEOUT_S)
    seen = _hashed(paths, listing, now_ns, 0.0)  # files fetched a moment ago are young and whole
    reason = f"came less than {SETTLE_SECONDS:g} s ago"
    others = tuple(
        replace(entry, status=FileStatus.UNSETTLED, reason=reason)
        if entry.status is FileStatus.PENDING and now_ns - entry.ctime_ns < SETTLE_SECONDS * 1e9
        else entry
        for entry in others
    )
    entries = sorted((*seen.entries, *others), key=lambda entry: entry.name)
    if not entries:
        msg = f"no hand histories in {paths.ohh_url}"
        raise StoreError(msg)
    return replace(seen, entries=tuple(entries))


def _hashed(paths: HomePaths, listing: Catalogue, now_ns: int, settle_seconds: float) -> Catalogue:
    """Return a listing with hashes, as far as a tick's time goes."""
    memo = HashMemo.load(paths.hash_memo, paths.ohh)
    known = dict(memo.hashes)
    seen = scan(listing, memo, now_ns=now_ns, settle_seconds=settle_seconds, max_bytes=HASH_BYTES_PER_TICK)
    if memo.hashes != known:
        memo.save(paths.hash_memo)
    return seen


def _was_catalogued(paths: HomePaths) -> bool:
    """Tell whether the folder of hand histories is the one that was looked at last."""
    manifest = read_json(paths.catalogue_manifest)
    return isinstance(manifest, dict) and manifest.get("folder") == str(paths.ohh)


def _published_ns(paths: HomePaths) -> int:
    try:
        return paths.data_manifest.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _trained(paths: HomePaths, shards: Shards | None) -> TrainedOn | None:
    """Return what the newest training was on."""
    store = RunStore(paths)
    trained = store.last_trained()
    kept = store.kept_data_version()
    if trained is None and shards is not None and kept == shards.version:  # a home from before this was recorded
        return TrainedOn(run_id="", data_version=shards.version, num_train_reads=shards.num_train_reads)
    return trained


def _consumed(instance: dg.DagsterInstance, shards: Shards | None) -> str | None:
    """Return the version of contents that the newest shards were made from, if they are still published."""
    event = instance.get_latest_materialization_event(dg.AssetKey("encoded_shards"))
    if event is None or event.asset_materialization is None or shards is None:
        return None
    recorded = event.asset_materialization.metadata.get("source_version")
    version = None if recorded is None else recorded.value
    return str(version) if version == shards.source_version else None


def _past_runs(instance: dg.DagsterInstance) -> list[PastRun]:
    """Return the sensor's latest runs, newest first."""
    runs = instance.get_runs(dg.RunsFilter(tags={SENSOR_NAME_TAG: SENSOR_NAME}), limit=RUNS_LOOKED_AT)
    return [
        PastRun(
            run_id=run.run_id,
            job=run.job_name,
            states=frozenset(run.tags[tag] for tag in (VERSION_TAG, LISTING_TAG, DATA_VERSION_TAG) if tag in run.tags),
            status=run.status,
        )
        for run in runs
    ]
