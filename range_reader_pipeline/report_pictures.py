"""From tables of scores to what ``plots`` draws of them: which rows become which series."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from range_reader_pipeline.plots import Reliability, Series, reliability_curves, sharpening_curve, stratified_bars

if TYPE_CHECKING:
    from range_reader_core.calibration import ReliabilityCurve
    from range_reader_core.tables import Estimate, ScoreRow, SharpeningTable, StratifiedTable


def strata_picture(table: "StratifiedTable") -> bytes:
    """Return the mrr of every reader by what became of the villain, strata without reads left out."""
    groups = [row.group for row in table.rows if row.reader == table.readers[0] and row.scores]
    ours, *floors = (_series(reader, [table.row(reader, group) for group in groups]) for reader in table.readers)
    return stratified_bars(groups, ours, floors)


def sharpening_picture(table: "SharpeningTable") -> bytes:
    """Return the mrr of every reader as the hand goes on."""
    points = [row.group for row in table.rows if row.reader == table.readers[0]]
    ours, *floors = (_series(reader, [table.row(reader, point) for point in points]) for reader in table.readers)
    return sharpening_curve(points, ours, floors)


def calibration_picture(curves: "Sequence[ReliabilityCurve]") -> bytes:
    """Return promised against happened over all positions, and the error by street and number of opponents."""
    from range_reader_core.calibration import COMBO
    from range_reader_core.tables import TOTAL

    combos, *masses = (_reliability(curve) for curve in curves if curve.group == TOTAL)
    if combos.label != COMBO:
        msg = f"expected the curve of single combos first, got {combos.label!r}"
        raise ValueError(msg)
    of_combos = [curve for curve in curves if curve.forecast == COMBO]
    errors = [curve.error for curve in of_combos]
    return reliability_curves(
        combos,
        masses,
        [curve.group for curve in of_combos],
        Series(
            label="error",
            values=[error.mean for error in errors],
            lows=[_low(error) for error in errors],
            highs=[_high(error) for error in errors],
        ),
        [curve.chance_error for curve in of_combos],
    )


def _reliability(curve: "ReliabilityCurve") -> Reliability:
    happened = [part.happened for part in curve.bins]
    return Reliability(
        label=curve.forecast,
        promised=[part.promised for part in curve.bins],
        happened=[estimate.mean for estimate in happened],
        lows=[_low(estimate) for estimate in happened],
        highs=[_high(estimate) for estimate in happened],
    )


def _series(label: str, rows: "Sequence[ScoreRow]") -> Series:
    estimates = [row.scores["mrr"] for row in rows]
    return Series(
        label=label,
        values=[estimate.mean for estimate in estimates],
        lows=[_low(estimate) for estimate in estimates],
        highs=[_high(estimate) for estimate in estimates],
    )


def _low(estimate: "Estimate") -> float:
    return estimate.interval.low if estimate.interval else estimate.mean


def _high(estimate: "Estimate") -> float:
    return estimate.interval.high if estimate.interval else estimate.mean
