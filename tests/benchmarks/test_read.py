"""The reading benchmark runs through and says of each figure whether it is good enough."""

import sys

import pytest

from benchmarks import read
from benchmarks.goals import at_least, at_most


def test_every_part_but_the_service_is_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A benchmark that breaks is noticed on the day that its figure is wanted."""
    monkeypatch.setattr(sys, "argv", ["read", "--preset", "tiny", "--hands", "12", "--repeats", "4", "--seconds", "0"])
    assert read.main() == 0
    printed = capsys.readouterr().out
    for part in (
        "one belief",
        "one step of a session",
        "boards met before",
        "instead of 24",
        "goal at most 0.0001 of a probability",
    ):
        assert part in printed
    assert "ms; goal" not in printed  # those are meant for another size


def test_a_goal_that_is_just_met_is_reached() -> None:
    """The sign of a comparison decides what is written down as reached."""
    assert [at_most(value, 6.0, "ms").split(": ")[1] for value in (5.9, 6.0, 6.1)] == ["reached", "reached", "not reached"]
    assert [at_least(value, 5.0, "times").split(": ")[1] for value in (4.9, 5.0, 5.1)] == ["not reached", "reached", "reached"]
