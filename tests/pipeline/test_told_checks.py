"""What does not pass is in the log, and nothing else is."""

import logging
from pathlib import Path

import dagster as dg
import pytest

from range_reader_pipeline.hand_files import find_hand
from range_reader_pipeline.model_checks import stratified_checks
from range_reader_pipeline.told_checks import told
from tests.core.hands import random_hands
from tests.pipeline.encoded import home_with


def test_only_what_does_not_pass_is_told_at_its_severity(caplog: pytest.LogCaptureFixture) -> None:
    """A model that has learnt nothing must say so on the terminal; a line for each check that passes would drown it."""
    log = logging.getLogger("told")
    results = stratified_checks(None, "no hands")
    results.append(dg.AssetCheckResult(check_name="fine", passed=True, description="All is well."))
    results.append(dg.AssetCheckResult(check_name="wrong", passed=False, description="Stop."))
    with caplog.at_level(logging.INFO, logger="told"):
        assert told(log, results) == results
    levels = {record.getMessage().split(" does not pass: ")[0]: record.levelno for record in caplog.records}
    assert levels["beats_static_range"] == logging.WARNING
    assert levels["wrong"] == logging.ERROR
    assert "fine" not in levels


def test_an_index_beyond_a_single_hand_names_the_only_one(tmp_path: Path) -> None:
    """A range of one number reads as a mistake."""
    home = home_with(tmp_path, {"a.ohh": random_hands(1, 1)})
    with pytest.raises(ValueError, match=r"holds 1 readable hand, so expected index 0, got 3$"):
        find_hand(home.ohh / "a.ohh", 3)
