"""The chi-square test against tables of the distribution, and against what chance and a bad shuffle really do."""

import numpy as np
import pytest

from range_reader_pipeline.uniformity import chi_square, upper_tail


@pytest.mark.parametrize(
    ("statistic", "num_degrees", "p"),
    [  # printed tables of the distribution
        (3.841459, 1, 0.05),
        (6.634897, 1, 0.01),
        (18.307038, 10, 0.05),
        (23.209251, 10, 0.01),
        (124.342113, 100, 0.05),
        (70.064895, 100, 0.99),
        (1118.9481, 1000, 0.005),
    ],
)
def test_tail_agrees_with_printed_tables(statistic: float, num_degrees: int, p: float) -> None:
    """A wrong tail makes the check either never or always fail."""
    assert upper_tail(statistic, num_degrees) == pytest.approx(p, rel=2e-4)


def test_tail_at_its_edges() -> None:
    """No deviation at all has probability one, an absurd one zero."""
    assert upper_tail(0.0, 5) == 1.0
    assert upper_tail(5000.0, 5) == pytest.approx(0.0, abs=1e-300)
    assert upper_tail(2.0, 2) == pytest.approx(np.exp(-1.0))  # two degrees: an exponential


def test_statistic_of_a_table_worked_by_hand() -> None:
    """Rows (10, 20) and (20, 10): every cell is expected at 15 and off by 5, so the statistic is 4 * 25 / 15."""
    result = chi_square(np.array([[10, 20], [20, 10]]))
    assert result.statistic == pytest.approx(100 / 15)
    assert result.num_degrees == 1
    assert result.p == pytest.approx(0.009823, rel=1e-3)


def test_fair_draws_are_rejected_as_often_as_said() -> None:
    """A check that cries wolf is switched off; one that never does is none."""
    rng = np.random.default_rng(0)
    tables = [np.array([rng.multinomial(500, [0.5, 0.3, 0.2]) for _ in range(8)]) for _ in range(600)]
    share = np.mean([chi_square(table).p < 0.05 for table in tables])
    assert 0.03 < share < 0.075


def test_files_in_a_row_are_rejected() -> None:
    """The fault it is there for: shards that inherit the order of files."""
    assert chi_square(np.array([[900, 100], [100, 900], [500, 500]])).p < 1e-12


def test_rare_kinds_are_joined_and_nothing_to_compare_passes() -> None:
    """One stray table size would make the approximation, and the alarm, worthless."""
    assert chi_square(np.array([[500, 500, 1, 0], [500, 500, 0, 0]])).num_degrees == 1
    assert chi_square(np.array([[500, 3, 3], [500, 4, 3]])).num_degrees == 1
    for table in ([[5, 6]], [[5], [6]], [[0, 0], [0, 0]], [[1, 0], [0, 1]]):
        assert chi_square(np.array(table)).p == 1.0
    assert chi_square(np.zeros((0, 0), dtype=np.int64)).p == 1.0
