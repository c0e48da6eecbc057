"""Asset checks on the data: what must hold before anybody trains on it, and what somebody should look into.

A check blocks when numbers downstream would be wrong: a hand counted twice, or one that is both trained on and graded on. It warns
when the data are right but less than they could be. All of them look at the shards themselves.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import dagster as dg
import numpy as np
import numpy.typing as npt

from range_reader_core.wording import counted, first_of
from range_reader_pipeline import metadata
from range_reader_pipeline.assets.encoded_shards import encoded_shards
from range_reader_pipeline.data_config import BLOCK, DataChecksConfig, failed_files
from range_reader_pipeline.paths import HomePaths
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.told_checks import told

MAX_REJECT_RATE: Final = 0.01
SIGNIFICANCE: Final = 0.01
LEAK_SEED: Final = 20_240_607
MAX_EXAMPLES: Final = 3  # files named in a sentence

_SPECS: Final = [
    dg.AssetCheckSpec(
        "hands_counted_once",
        asset=encoded_shards,
        blocking=True,
        description="No read is in the shards twice, and they hold as many hands as were encoded. Else frequent hands weigh more.",
    ),
    dg.AssetCheckSpec(
        "splits_share_no_hand",
        asset=encoded_shards,
        blocking=True,
        description="No hand has reads in two of train, val and test. Else the model is graded on hands it was trained on.",
    ),
    dg.AssetCheckSpec(
        "inputs_hide_cards",
        asset=encoded_shards,
        blocking=True,
        description=(
            "The leak rule on a sample of real hands: dealt other hidden cards and encoded again, they give the inputs that lie "
            "in the shards. Else the reader is told what it should guess, and every grade is a lie."
        ),
    ),
    dg.AssetCheckSpec(
        "shards_are_uniform",
        asset=encoded_shards,
        description=(
            "Every train shard mixes sources and table sizes alike (chi-square, 1%). Sound data fail this once in fifty times, so "
            "look again when it fails repeatedly."
        ),
    ),
    dg.AssetCheckSpec(
        "few_hands_rejected",
        asset=encoded_shards,
        description=f"At most {MAX_REJECT_RATE:.0%} of the hands were refused. More usually has one systematic cause.",
    ),
    dg.AssetCheckSpec(
        "every_file_readable",
        asset=encoded_shards,
        blocking=True,
        description=(
            "No file was refused as a whole. One that cannot be read or opened is often no hand history, or cut off while copying: "
            "it blocks, unless failed_files says warn. Files of other games alone only warn, and so do links out of the folder."
        ),
    ),
]


@dg.multi_asset_check(specs=_SPECS)
def data_checks(
    context: dg.AssetCheckExecutionContext, config: DataChecksConfig, home: HomeResource
) -> Iterator[dg.AssetCheckResult]:
    """Check the published shards."""
    from range_reader_pipeline.census import take_census
    from range_reader_pipeline.publication import published

    paths = home.paths()
    manifest = published(paths)
    if manifest is None:
        message = f"{paths.data} holds no whole version of the shards: materialize encoded_shards"
        raise dg.Failure(message, allow_retries=False)
    census = take_census(paths.data)
    counts = manifest["counts"]
    num_reads, num_hands = sum(census.num_reads.values()), sum(census.num_hands.values())
    context.log.info(f"checked {counted(num_reads, 'read')} of {counted(num_hands, 'hand')} that can be learnt from")
    results = [
        _counted_once(census.num_twice, census.twice_examples, census.num_hands, census.num_reads, counts),
        _none_shared(census.num_shared, census.num_hands),
        _hidden_cards(paths),
        _uniform(census.reads_by_source, census.reads_by_size),
        _few_rejected(counts, paths.rejects),
        _files_readable(paths, counts, does_block=failed_files(config) == BLOCK),
    ]
    yield from told(context.log, results)


def _none_shared(num_shared: int, num_hands: dict[str, int]) -> dg.AssetCheckResult:
    text = f"{counted(num_shared, 'hand')} in more than one split."
    return dg.AssetCheckResult(
        check_name="splits_share_no_hand",
        passed=num_shared == 0,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={"shared_hands": num_shared, **{f"hands_{split}": count for split, count in num_hands.items()}},
        description=text + (" This is a bug; do not trust any grade." if num_shared else ""),
    )


def _counted_once(
    num_twice: int, examples: tuple[str, ...], num_hands: dict[str, int], num_reads: dict[str, int], counts: dict[str, Any]
) -> dg.AssetCheckResult:
    is_complete = num_hands == counts["hands_by_split"] and num_reads == counts["reads_by_split"]
    entries: dict[str, Any] = {
        "reads_twice": num_twice,
        "hands": sum(num_hands.values()),
        "hands_encoded": sum(counts["hands_by_split"].values()),
    }
    if examples:
        entries["first"] = ", ".join(examples)
    return dg.AssetCheckResult(
        check_name="hands_counted_once",
        passed=num_twice == 0 and is_complete,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata=entries,
        description=(
            f"{counted(num_twice, 'read')} there twice; {counted(entries['hands'], 'hand')} in the shards, "
            f"{entries['hands_encoded']:,} encoded. On "
            "failure remove the folder data_versions in the home and materialize encoded_shards again."
        ),
    )


def _hidden_cards(paths: HomePaths) -> dg.AssetCheckResult:
    import numpy as np

    from range_reader_core.redeal import count_leaks
    from range_reader_pipeline.catalogue import read_catalogue
    from range_reader_pipeline.hand_sample import sample_hands, stored_inputs

    hands = sample_hands(read_catalogue(paths.ohh_files))
    stored = stored_inputs(paths.data, {hand.hand_id for hand in hands})
    count = count_leaks(hands, stored.get, np.random.default_rng(LEAK_SEED))
    entries: dict[str, Any] = {
        "leaks": len(count.leaks),
        "threshold": 0,
        "hands": len(hands),
        "reads_compared": count.num_compared,
        "reads_with_another_answer": count.num_other_cards,
        "reads_not_as_in_their_file": count.num_not_alike,
    }
    text = (
        f"{len(count.leaks):,} of {counted(count.num_compared, 'read')} of {counted(len(hands), 'hand')} change with cards that "
        "nobody could see."
    )
    if count.leaks:
        entries["first"] = "; ".join(count.leaks[:3])
        text += " This is a bug; do not trust any grade."
    elif not count.num_compared:
        text += " Nothing could be compared: are the hand history files still where the catalogue saw them?"
    elif count.num_not_alike > count.num_compared:
        text += " Most reads differ from their files: materialize ohh_files and encoded_shards again."
    return dg.AssetCheckResult(
        check_name="inputs_hide_cards",
        passed=not count.leaks and count.num_compared > 0 and count.num_not_alike <= count.num_compared,
        severity=dg.AssetCheckSeverity.ERROR if count.leaks else dg.AssetCheckSeverity.WARN,
        metadata=entries,
        description=text,
    )


def _uniform(by_source: npt.NDArray[np.int64], by_size: npt.NDArray[np.int64]) -> dg.AssetCheckResult:
    from range_reader_pipeline.uniformity import chi_square

    tests = {"source": chi_square(by_source), "table size": chi_square(by_size)}
    rows: list[dict[str, metadata.Cell]] = [
        {"over": name, "chi_square": test.statistic, "degrees_of_freedom": test.num_degrees, "p": test.p}
        for name, test in tests.items()
    ]
    return dg.AssetCheckResult(
        check_name="shards_are_uniform",
        passed=all(test.p >= SIGNIFICANCE for test in tests.values()),
        severity=dg.AssetCheckSeverity.WARN,
        metadata=metadata.rounded(
            {
                "tests": metadata.table(rows),
                "smallest_p": min(test.p for test in tests.values()),
                "threshold": SIGNIFICANCE,
                "shards": len(by_source),
            }
        ),
        description=(
            "p below 1% for source or table size means that a shard is no fair sample of the whole. If it stays so, materialize "
            "encoded_shards with another shuffle_seed."
            if len(by_source) > 1
            else "There is one train shard, so there is nothing to compare it with."
        ),
    )


def _few_rejected(counts: dict[str, Any], rejects: Path) -> dg.AssetCheckResult:
    num_records = counts["num_accepted"] + counts["num_rejected"]
    rate = counts["num_rejected"] / max(1, num_records)
    worst = sorted(counts["rejected_by_code"].items(), key=lambda item: (-item[1], item[0]))
    reasons = ", ".join(f"{code} {count:,}" for code, count in worst[:MAX_EXAMPLES]) + (
        ", ..." if len(worst) > MAX_EXAMPLES else ""
    )
    entries: dict[str, Any] = {
        "reject_rate": rate,
        "threshold": MAX_REJECT_RATE,
        "hands_rejected": counts["num_rejected"],
        "rejects": dg.MetadataValue.path(str(rejects)),
    }
    if worst:
        entries["reasons"] = metadata.table([{"code": code, "count": count} for code, count in worst])
    return dg.AssetCheckResult(
        check_name="few_hands_rejected",
        passed=rate <= MAX_REJECT_RATE,
        severity=dg.AssetCheckSeverity.WARN,
        metadata=metadata.rounded(entries),
        description=(
            f"{rate:.2%} of {counted(num_records, 'hand')} refused"
            + (f" ({reasons}); {_place(rejects)} gives file, line and reason of each." if worst else ".")
        ),
    )


def _files_readable(paths: HomePaths, counts: dict[str, Any], *, does_block: bool) -> dg.AssetCheckResult:
    from range_reader_pipeline.catalogue import read_catalogue
    from range_reader_pipeline.refused_files import closed_files, refused_files

    refused = refused_files(paths.rejects)
    closed = closed_files(read_catalogue(paths.ohh_files))
    num_failed, others = counts["num_failed_files"], list(refused.other_games)
    text = f"{num_failed:,} of {counted(counts['num_files'], 'file')} cannot be read as hand histories"
    if num_failed:
        text += f": {_named(refused.broken)}. {_place(paths.rejects)} lists why, and so does `range-reader ingest <file>`"
    text += "."
    if closed.locked:
        text += f" {counted(len(closed.locked), 'more file')} cannot be opened: {_named(closed.locked)}."
    num_bad = num_failed + len(closed.locked)
    if num_bad:
        them = "it" if num_bad == 1 else "them"
        text += f" Take {them} out of the folder, mend {them} or copy {them} again"
        text += f", or set failed_files: warn (FAILED_FILES=warn) to go on without {them}." if does_block else "."
    if closed.passed_over:
        text += f" {counted(len(closed.passed_over), 'name')} of hand histories passed over: {_named(closed.passed_over)}."
    if others:
        hold = "holds" if len(others) == 1 else "hold"
        text += f" {counted(len(others), 'file')} {hold} other games alone, which is no fault, but no hand of theirs is read: "
        text += f"{first_of(others, MAX_EXAMPLES)}."
    entries: dict[str, Any] = {
        "failed_files": num_failed,
        "files_not_opened": len(closed.locked),
        "files_passed_over": len(closed.passed_over),
        "files_of_other_games": len(others),
        "threshold": 0,
        "rejects": dg.MetadataValue.path(str(paths.rejects)),
    }
    groups = (refused.broken, closed.locked, closed.passed_over, refused.other_games)
    rows: list[dict[str, metadata.Cell]] = [{"file": name, "why": why} for files in groups for name, why in files.items()]
    if rows:
        entries["refused"] = metadata.table(rows)
    return dg.AssetCheckResult(
        check_name="every_file_readable",
        passed=not (num_bad or closed.passed_over or others),
        severity=dg.AssetCheckSeverity.ERROR if num_bad and does_block else dg.AssetCheckSeverity.WARN,
        metadata=entries,
        description=text,
    )


def _named(files: dict[str, str]) -> str:
    return first_of([f"{name} ({why})" for name, why in files.items()], MAX_EXAMPLES)


def _place(rejects: Path) -> str:
    """Return the file as a person finds it in the home."""
    return f"{rejects.parent.name}/{rejects.name}"


checks: Final = [data_checks]
