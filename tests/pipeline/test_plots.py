"""Claims about the pictures."""

import io
import math
import subprocess
import sys
from collections.abc import Callable

import pytest
from PIL import Image

from range_reader_pipeline import plots
from range_reader_pipeline.plots import CurvePoint, Reliability, Series

LABELS = ("preflop-fold", "flop-fold", "turn-fold", "river-fold", "showdown", "uncontested", "TOTAL")


def _series(label: str, level: float) -> Series:
    values = [level + 0.001 * row for row in range(len(LABELS))]
    return Series(label=label, values=values, lows=[0.9 * v for v in values], highs=[1.2 * v for v in values])


def _points(num_points: int) -> list[CurvePoint]:
    return [
        CurvePoint(
            minutes=0.1 * i,
            train_loss_nats=6.6 + math.sin(97.0 * i) / 9,
            val_loss_nats=6.6 - 0.001 * i,
            val_mrr=0.02 + 1e-5 * i,
            is_best=i % 2 == 0,
        )
        for i in range(num_points)
    ]


def _reliability(label: str, num_bins: int) -> Reliability:
    promised = [(bin_ + 0.5) / num_bins for bin_ in range(num_bins)]
    happened = [0.0, *(0.9 * value for value in promised[1:])]
    return Reliability(label=label, promised=promised, happened=happened, lows=happened, highs=[1.1 * value for value in happened])


PICTURES: dict[str, Callable[[], bytes]] = {
    "long training": lambda: plots.training_curve(_points(600), static_loss_nats=6.75, static_mrr=0.017),
    "one validation": lambda: plots.training_curve(_points(1), static_loss_nats=6.75, static_mrr=0.017),
    "reliability": lambda: plots.reliability_curves(
        _reliability("combo", 20),
        [_reliability(f"top{k}", 20) for k in (16, 32, 64, 128)],
        LABELS,
        _series("error", 0.05),
        [None, *([0.01] * (len(LABELS) - 1))],
    ),
    "sharpening": lambda: plots.sharpening_curve(
        LABELS, _series("m", 0.02), [_series(f"baseline {i}", 0.006 + 0.003 * i) for i in range(6)]
    ),
    "strata": lambda: plots.stratified_bars(
        LABELS, _series("m", 0.02), [_series(f"baseline {i}", 0.006 + 0.003 * i) for i in range(6)]
    ),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_a_palette_png_small_enough_for_the_event_log(name: str) -> None:
    """Prevents pictures that blow up Dagster's database, which stores each of them several times."""
    png = PICTURES[name]()
    assert len(png) < plots.MAX_BYTES
    with Image.open(io.BytesIO(png)) as image:
        assert (image.format, image.mode) == ("PNG", "P")
        assert len(set(image.getdata() if not hasattr(image, "get_flattened_data") else image.get_flattened_data())) > 3


def test_the_same_numbers_give_the_same_bytes() -> None:
    """Prevents a report from changing when nothing was measured anew."""
    assert PICTURES["strata"]() == PICTURES["strata"]()


def test_an_interval_that_misses_its_mean_is_drawn() -> None:
    """Prevents a report on a dozen hands from failing: their bootstrap interval may lie to one side of the mean."""
    odd = Series(label="m", values=[0.02], lows=[0.03], highs=[0.04])
    assert plots.stratified_bars(["showdown"], odd, [])


def test_a_training_without_validation_is_an_error() -> None:
    """Prevents an empty picture that looks like a result."""
    with pytest.raises(ValueError, match="no validation"):
        plots.training_curve([], static_loss_nats=6.75, static_mrr=0.017)


def test_importing_the_module_loads_no_drawing_library() -> None:
    """Prevents half a second of matplotlib in every process that only loads the definitions."""
    code = "import range_reader_pipeline.plots, sys; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
