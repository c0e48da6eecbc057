"""What the sensor decides from the folder, the shards and the runs so far: one run per state, trainings when due."""

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from range_reader_pipeline import sensors
from range_reader_pipeline.catalogue import Catalogue, FileEntry, FileStatus
from range_reader_pipeline.retraining import Policy, Shards, When, policy_of
from range_reader_pipeline.run_store import TrainedOn
from range_reader_pipeline.sensors import MAX_ATTEMPTS, PastRun, Request, decide, state_names

NOW_NS = 1_000_000 * 10**9
QUIET_NS = NOW_NS - 60 * 10**9
OLD_NS = NOW_NS - 3600 * 10**9


def folder(**statuses: FileStatus) -> Catalogue:
    """Return a folder whose file ``a`` has content a, and so on; files that are not OK have no content yet."""
    entries = [
        FileEntry(
            name=f"{name}.ohh",
            size_bytes=1,
            ctime_ns=NOW_NS if status is FileStatus.UNSETTLED else QUIET_NS,
            sha256=name if status is FileStatus.OK else "",
            status=status,
            reason="" if status is FileStatus.OK else "no permission",
        )
        for name, status in statuses.items()
    ]
    return Catalogue(folder=Path("/in"), entries=tuple(entries), num_ignored=0)


TWO = folder(a=FileStatus.OK, b=FileStatus.OK)


SHARDS = Shards(version="d1", source_version=TWO.version, num_train_reads=100)
TRAINED = TrainedOn(run_id="t1", data_version="d1", num_train_reads=100)
GROWN = Policy(When.GROWN, 0.1)


def past(seen: Catalogue, status: dg.DagsterRunStatus, run_id: str = "r1") -> PastRun:
    return PastRun(run_id=run_id, job=sensors.REFRESH, states=state_names(seen), status=status)


def verdict(
    seen: Catalogue,
    consumed: str | None = None,
    runs: list[PastRun] | None = None,
    *,
    policy: Policy = GROWN,
    shards: Shards | None = SHARDS,
    trained: TrainedOn | None = TRAINED,
    published_ns: int = 0,
    held_since_ns: int | None = None,
) -> Request | str:
    return decide(
        seen,
        consumed=consumed,
        runs=runs or [],
        now_ns=NOW_NS,
        published_ns=published_ns,
        policy=policy,
        shards=shards,
        trained=trained,
        held_since_ns=held_since_ns,
    )


def test_a_new_state_is_asked_for_once() -> None:
    """The heart of it: changed contents start the chain, the same contents do not."""
    asked = verdict(TWO, consumed="older")
    assert isinstance(asked, Request)
    assert verdict(TWO) == asked  # nothing made yet
    assert verdict(TWO, consumed=TWO.version) == "2 files, up to date; trained on them"


def test_a_renamed_or_touched_file_starts_nothing() -> None:
    """Files are known by content; training again for a new name would waste a night."""
    renamed = replace(TWO, entries=(replace(TWO.entries[0], name="z.ohh", mtime_ns=7), TWO.entries[1]))
    assert renamed.listing_version != TWO.listing_version
    assert verdict(renamed, consumed=TWO.version) == "2 files, up to date; trained on them"


def test_a_removed_file_is_a_new_state() -> None:
    """Its reads must go."""
    assert isinstance(verdict(folder(a=FileStatus.OK), consumed=TWO.version), Request)


def test_unknown_contents_count_as_changed() -> None:
    """A tick has no time to read terabytes; the run has."""
    assert isinstance(verdict(folder(a=FileStatus.OK, b=FileStatus.PENDING), consumed=folder(a=FileStatus.OK).version), Request)


def test_a_file_still_written_holds_the_state_but_not_for_ever() -> None:
    """A download must not be encoded in pieces; a log that grows all day must not keep the others out."""
    growing = folder(a=FileStatus.OK, b=FileStatus.UNSETTLED)
    assert verdict(growing, consumed="older") == "waiting for b.ohh to be quiet for 20 s"
    long_settled = replace(growing, entries=(replace(growing.entries[0], ctime_ns=OLD_NS), growing.entries[1]))
    asked = verdict(long_settled, consumed="older")
    assert isinstance(asked, Request)
    assert asked.settle_seconds == sensors.SETTLE_SECONDS  # the run must leave it out as well
    assert verdict(growing, consumed=folder(a=FileStatus.OK).version) == (
        "1 file, up to date; trained on them; waiting for b.ohh to be quiet for 20 s"
    )
    assert "waiting" in str(verdict(folder(a=FileStatus.UNSETTLED)))


def test_files_that_are_all_replaced_all_the_time_are_taken_too() -> None:
    """No file is ever old, so the wait itself is what grows old."""
    replaced = folder(a=FileStatus.OK, b=FileStatus.UNSETTLED)
    held = verdict(replaced, consumed="older", held_since_ns=NOW_NS - 60 * 10**9)
    assert isinstance(held, sensors.Held)
    assert "waiting for b.ohh" in held
    assert isinstance(verdict(replaced, consumed="older", held_since_ns=NOW_NS - 121 * 10**9), Request)
    up_to_date = verdict(replaced, consumed=folder(a=FileStatus.OK).version, held_since_ns=NOW_NS - 121 * 10**9)
    assert isinstance(up_to_date, str)
    assert not isinstance(up_to_date, sensors.Held)  # nothing waits


def test_files_that_come_all_the_time_are_taken_every_few_minutes() -> None:
    """A tracker that writes a file a minute never leaves the folder quiet; the oldest arrival counts, not the newest."""
    steady = folder(a=FileStatus.OK, b=FileStatus.OK, c=FileStatus.UNSETTLED)
    waiting = replace(steady.entries[0], ctime_ns=NOW_NS - int((sensors.MAX_HOLD_SECONDS + 1) * 1e9))
    steady = replace(steady, entries=(waiting, *steady.entries[1:]))
    assert isinstance(verdict(steady, consumed="older"), Request)
    assert "waiting for c.ohh" in str(verdict(steady, consumed="older", published_ns=waiting.ctime_ns + 1))


def test_nothing_there_and_nothing_readable_say_so() -> None:
    """A skip without a reason looks like a broken sensor."""
    assert verdict(folder()) == "no hand histories in /in"
    assert verdict(folder(a=FileStatus.UNREADABLE)) == "1 file, none of which can be read; the first: no permission"


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING])
def test_a_state_under_way_is_not_asked_for_again(status: dg.DagsterRunStatus) -> None:
    """The chain takes longer than a tick."""
    assert verdict(TWO, runs=[past(TWO, status)]) == "2 files, changed; a run for this state is under way"


def test_a_new_state_during_a_run_is_asked_for_and_waits() -> None:
    """What lands in the middle of a run must not be lost, and a hundred arrivals must not queue a hundred runs."""
    before = past(folder(a=FileStatus.OK), dg.DagsterRunStatus.STARTED)
    assert isinstance(verdict(TWO, runs=[before]), Request)
    queued = past(TWO, dg.DagsterRunStatus.QUEUED, "r2")
    newer = folder(a=FileStatus.OK, b=FileStatus.OK, c=FileStatus.OK)
    assert "a run is queued" in str(verdict(newer, runs=[queued, before]))


def test_a_failed_state_is_tried_again_a_few_times_under_new_keys() -> None:
    """Dagster takes a run key only once, so a repeated key would never retry; trying for ever would fill the log."""
    runs: list[PastRun] = []
    keys = set()
    for attempt in range(MAX_ATTEMPTS):
        asked = verdict(TWO, runs=runs)
        assert isinstance(asked, Request)
        assert verdict(TWO, runs=runs) == asked  # the same until it has become a run
        keys.add(asked.run_key)
        runs.insert(0, past(TWO, dg.DagsterRunStatus.FAILURE, f"r{attempt}"))
    assert len(keys) == MAX_ATTEMPTS
    assert "given up after 3 runs" in str(verdict(TWO, runs=runs))
    other = folder(a=FileStatus.OK)
    assert isinstance(verdict(other, runs=runs), Request)


def test_data_are_encoded_at_once_and_trained_on_when_due() -> None:
    """Encoding every arrival is cheap; training on every arrival would keep the machine busy for ever."""
    changed = verdict(TWO, consumed="older")
    assert isinstance(changed, Request)
    assert changed.job == sensors.REFRESH
    assert getattr(verdict(TWO, consumed="older", policy=Policy(When.AT_ONCE)), "job", "") == sensors.EVERYTHING
    assert getattr(verdict(TWO, shards=None, trained=None), "job", "") == sensors.EVERYTHING
    for when in (When.NIGHTLY, When.NEVER):
        assert getattr(verdict(TWO, shards=None, trained=None, policy=Policy(when)), "job", "") == sensors.REFRESH


@pytest.mark.parametrize(
    ("policy", "num_reads", "job", "told"),
    [
        (GROWN, 105, None, "+5.0% reads since the last training; the next is due at +10%"),
        (GROWN, 110, sensors.TRAIN, ""),
        (GROWN, 50, None, "-50.0% reads"),
        (Policy(When.AT_ONCE), 100, sensors.TRAIN, ""),
        (Policy(When.NIGHTLY), 900, None, "trains at night"),
        (Policy(When.NEVER), 900, None, "RANGE_READER_RETRAIN=never"),
    ],
    ids=["too little more", "a tenth more", "less", "at once", "nightly", "never"],
)
def test_the_policy_decides_once_the_shards_are_up_to_date(policy: Policy, num_reads: int, job: str | None, told: str) -> None:
    """A person has to see in the tick why nothing is trained."""
    shards = replace(SHARDS, version="d2", num_train_reads=num_reads)
    asked = verdict(TWO, consumed=TWO.version, policy=policy, shards=shards)
    if job is None:
        assert isinstance(asked, str)
        assert asked.startswith("2 files, up to date; ")
        assert told in asked
    else:
        assert isinstance(asked, Request)
        assert asked.job == job


def test_a_training_is_asked_for_once_for_its_shards() -> None:
    """What a person terminated must not start again half a minute later; more data may."""
    shards = replace(SHARDS, version="d2", num_train_reads=200)
    asked = verdict(TWO, consumed=TWO.version, shards=shards)
    assert isinstance(asked, Request)
    training = PastRun(run_id="r9", job=sensors.TRAIN, states=frozenset({"d2"}), status=dg.DagsterRunStatus.STARTED)
    assert "a training is under way" in str(verdict(TWO, consumed=TWO.version, shards=shards, runs=[training]))
    ended = replace(training, status=dg.DagsterRunStatus.CANCELED)
    assert "ended or failed" in str(verdict(TWO, consumed=TWO.version, shards=shards, runs=[ended]))
    chain = replace(ended, job=sensors.EVERYTHING, states=frozenset({SHARDS.source_version}))
    assert "ended or failed" in str(verdict(TWO, consumed=TWO.version, shards=shards, runs=[chain]))
    more = replace(shards, version="d3", source_version="other")
    again = verdict(TWO, consumed=TWO.version, shards=more, runs=[ended])
    assert isinstance(again, Request)
    assert again.run_key != asked.run_key


def test_arrivals_are_encoded_while_a_training_runs_or_waits() -> None:
    """A night of training must not hold up what is looked at in the morning."""
    for status in (dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.QUEUED):
        training = PastRun(run_id="r9", job=sensors.TRAIN, states=frozenset({"d1"}), status=status)
        assert isinstance(verdict(TWO, consumed="older", runs=[training]), Request)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Policy(When.GROWN, 0.1)),
        ("25%", Policy(When.GROWN, 0.25)),
        (" At-Once ", Policy(When.AT_ONCE)),
        ("nightly", Policy(When.NIGHTLY)),
        ("never", Policy(When.NEVER)),
    ],
)
def test_the_environment_sets_the_policy(text: str, expected: Policy) -> None:
    """One variable, in the words of the README."""
    assert policy_of({"RANGE_READER_RETRAIN": text}) == expected
    assert policy_of({}) == Policy(When.GROWN, 0.1)


def test_a_state_that_comes_back_is_no_failure() -> None:
    """Taking a file out and putting it back, again and again, is not an error."""
    other = folder(a=FileStatus.OK)
    runs = [past(seen, dg.DagsterRunStatus.SUCCESS, f"r{i}") for i, seen in enumerate([other, TWO] * 4)]
    asked = verdict(TWO, consumed=other.version, runs=runs)
    assert isinstance(asked, Request)
    assert asked.run_key.endswith("r0")
