"""Shares: together they encode every file once, and the shards are the same bytes as without them."""

from pathlib import Path

import dagster as dg

from range_reader_pipeline.assets.encoded_shards import encoded_shards
from range_reader_pipeline.assets.ohh_files import ohh_files
from range_reader_pipeline.ingest import open_cache
from range_reader_pipeline.resources import HomeResource
from range_reader_pipeline.shares import NUM_SHARES, encode_in_shares, share_of
from tests.core.hands import random_hands
from tests.pipeline.encoded import catalogue_of, folder_bytes, home_with


def test_shares_fill_the_cache_and_the_shards_are_the_same(tmp_path: Path) -> None:
    """Whoever spreads the work over machines must get the data of whoever does not."""
    files = {f"{seed}.ohh": random_hands(seed, 12) for seed in range(12)}
    spread, plain = home_with(tmp_path / "spread", files), home_with(tmp_path / "plain", files)
    resources = {"home": HomeResource(home=str(spread.root))}
    assert dg.materialize([ohh_files], resources=resources).success
    assert encode_in_shares.execute_in_process(resources=resources).success
    cache = open_cache(spread.reads_cache)
    contents = [entry.content for entry in catalogue_of(spread).readable]
    assert all(cache.counts(content) is not None for content in contents)
    assert len({share_of(content) for content in contents}) > NUM_SHARES // 2
    result = dg.materialize([ohh_files, encoded_shards], resources=resources)
    (event,) = result.asset_materializations_for_node("encoded_shards")
    assert event.metadata["files_encoded"].value == 0
    assert dg.materialize([ohh_files, encoded_shards], resources={"home": HomeResource(home=str(plain.root))}).success
    assert folder_bytes(spread.data.resolve()) == folder_bytes(plain.data.resolve())


def test_without_a_catalogue_a_share_says_what_to_do(tmp_path: Path) -> None:
    """A traceback of a missing parquet file tells nobody which asset comes first."""
    home = home_with(tmp_path, {})
    result = encode_in_shares.execute_in_process(resources={"home": HomeResource(home=str(home.root))}, raise_on_error=False)
    assert not result.success
    errors = [event.step_failure_data.user_failure_data for event in result.get_step_failure_events()]
    assert errors
    assert all(error is not None and "materialize ohh_files first" in str(error.description) for error in errors)
