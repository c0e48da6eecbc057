"""Pictures for metadata and reports: plain numbers in, PNG bytes out.

Drawn without pyplot, so there is no global state and no window. A picture is an 8-bit palette PNG of less than
``MAX_BYTES``, because Dagster stores every picture several times in its event log. Each one shows the baselines beside ours: a
curve without its floor says nothing.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_BYTES: Final = 60_000
PALETTE_SIZE: Final = 64

INK: Final = "#1f2933"
GRID: Final = "#e4e7eb"
OURS: Final = "#1264a3"
VALIDATION: Final = "#c2410c"
PROBABILITY_TICKS: Final = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0)
SHADES: Final = ("#c9d8e6", "#7fa8cb", "#1264a3", "#0b3a5e")  # of one quantity, light to dark
FLOORS: Final = ("#6b7280", "#9a7b00", "#7c3aed", "#0f766e", "#b91c1c", "#4d7c0f")  # what the model is compared with


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One reader's scores over the rows of a table, with 95% intervals."""

    label: str
    values: Sequence[float]
    lows: Sequence[float]
    highs: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """Forecasts of one kind against what happened, bin by bin."""

    label: str
    promised: Sequence[float]
    happened: Sequence[float]
    lows: Sequence[float]  # 95% intervals of what happened; the value itself where there is none
    highs: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """The state of a training at one validation."""

    minutes: float  # wall clock since the training began
    train_loss_nats: float
    val_loss_nats: float
    val_mrr: float
    is_best: bool  # its weights were kept, until a later one's were


def training_curve(points: Sequence[CurvePoint], *, static_loss_nats: float, static_mrr: float) -> bytes:
    """Draw loss and val mrr over training time, the kept validation marked.

    The static range's scores are those of the finished run's comparison, on val reads that runs of all presets share; the curve
    is of the reads that this run was validated with. The line says so.

    Raises:
        ValueError: there is no point.
    """
    if not points:
        msg = "training_curve: there was no validation to draw"
        raise ValueError(msg)
    figure = _figure(width=8.0, height=3.2)
    loss_axes, mrr_axes = figure.subplots(1, 2)
    minutes = [point.minutes for point in points]
    marker = "o" if len(points) < 3 else ""
    loss_axes.plot(minutes, [point.train_loss_nats for point in points], color=OURS, marker=marker, alpha=0.55, label="training")
    loss_axes.plot(minutes, [point.val_loss_nats for point in points], color=VALIDATION, marker=marker, label="validation")
    _floor_line(loss_axes, static_loss_nats)
    _dress(loss_axes, title="loss, nats per position", x_label="minutes of training")
    loss_axes.legend(frameon=False, fontsize=8)
    if len(points) == 1:  # a point in the middle of an axis of milliseconds says nothing of time
        for axes in (loss_axes, mrr_axes):
            axes.set_xlim(0.0, 1.2 * minutes[0] or 1.0)
    mrr_axes.plot(minutes, [point.val_mrr for point in points], color=VALIDATION, marker=marker)
    kept = [point for point in points if point.is_best][-1:]
    mrr_axes.plot([point.minutes for point in kept], [point.val_mrr for point in kept], color=VALIDATION, marker="o", linestyle="")
    _floor_line(mrr_axes, static_mrr)
    _dress(
        mrr_axes, title="validation mrr" + "".join(f", kept {point.val_mrr:.4f}" for point in kept), x_label="minutes of training"
    )
    return _png(figure)


def sharpening_curve(labels: Sequence[str], ours: Series, floors: Sequence[Series]) -> bytes:
    """Draw mrr as the hand goes on, ours with its 95% interval: the same showdown hands at every point."""
    figure = _figure(width=6.4, height=3.6)
    axes = figure.subplots()
    rows = range(len(labels))
    for series, color in zip((ours, *floors), (OURS, *FLOORS), strict=False):
        if series is ours:  # bands of all of them would hide the lines; the table has their intervals
            axes.fill_between(rows, series.lows, series.highs, color=color, alpha=0.18, linewidth=0)
        axes.plot(rows, series.values, color=color, marker="o", linestyle="-" if series is ours else "--", label=series.label)
    axes.set_xticks(list(rows), labels)
    axes.set_ylim(bottom=0)
    _dress(axes, title="mean reciprocal rank of the true hand (showdown villains)", x_label="read after")
    _legend_below(figure)
    return _png(figure)


def stratified_bars(labels: Sequence[str], ours: Series, floors: Sequence[Series]) -> bytes:
    """Draw mrr by how far the villain got, with 95% intervals."""
    figure = _figure(width=6.4, height=3.6)
    axes = figure.subplots()
    all_series = (ours, *floors)
    width = 0.8 / len(all_series)
    for index, (series, color) in enumerate(zip(all_series, (OURS, *FLOORS), strict=False)):
        left = [row + (index - (len(all_series) - 1) / 2) * width for row in range(len(labels))]
        below, above = _spread(series.values, series.lows, series.highs)
        axes.bar(left, series.values, width, yerr=(below, above), color=color, label=series.label, error_kw={"linewidth": 1})
    axes.set_xticks(range(len(labels)), labels, fontsize=8)
    _dress(axes, title="mean reciprocal rank of the true hand, by what became of the villain", x_label="")
    _legend_below(figure)
    return _png(figure)


def gains_by_arm(labels: Sequence[str], ours: Series, seeds: Sequence[Sequence[float]]) -> bytes:
    """Draw the nats that each arm gains over the static range, with 95% intervals and a point for each seed."""
    figure = _figure(width=6.4, height=1.2 + 0.4 * len(labels))
    axes = figure.subplots()
    rows = list(range(len(labels)))[::-1]  # the first arm on top
    left = [max(value - low, 0.0) for value, low in zip(ours.values, ours.lows, strict=True)]
    right = [max(high - value, 0.0) for value, high in zip(ours.values, ours.highs, strict=True)]
    axes.errorbar(ours.values, rows, xerr=(left, right), color=OURS, marker="o", linestyle="", label=ours.label)
    for row, gains in zip(rows, seeds, strict=True):
        axes.plot(gains, [row + 0.22] * len(gains), color=VALIDATION, marker=".", linestyle="", label="seeds" if not row else None)
    axes.set_yticks(rows, labels)
    axes.set_ylim(-0.6, len(labels) - 0.4)
    axes.axvline(ours.values[0], color=FLOORS[0], linestyle="--", linewidth=1)
    _dress(axes, title="nats gained over the static range, val hands", x_label="nats a position")
    axes.legend(frameon=False, fontsize=8)
    return _png(figure)


def reliability_curves(
    combos: Reliability, masses: Sequence[Reliability], groups: Sequence[str], errors: Series, by_chance: Sequence[float | None]
) -> bytes:
    """Draw what was promised against what happened, and the calibration error of groups of positions.

    Args:
        combos: single combos, on logarithmic axes.
        masses: the likeliest ones together, on plain axes.
        groups: names of the groups of positions.
        errors: the error of each, with its interval.
        by_chance: what perfect probabilities would show in each, None where that is unknown.
    """
    figure = _figure(width=11.0, height=3.6)
    combo_axes, mass_axes, error_axes = figure.subplots(1, 3)
    happened = [value for value in combos.happened if value > 0]
    low, high = min([*combos.promised, *happened]), max([*combos.promised, *happened, *combos.highs])
    combo_axes.plot([low, high], [low, high], color=FLOORS[0], linestyle="--", linewidth=1, label="as promised")
    _errors(combo_axes, combos, OURS)
    combo_axes.set_xscale("log")
    combo_axes.set_yscale("log", nonpositive="clip")
    for axis in (combo_axes.xaxis, combo_axes.yaxis):
        axis.set_ticks([tick for tick in PROBABILITY_TICKS if low <= tick <= high])
        axis.set_ticks([], minor=True)
        axis.set_major_formatter(lambda value, _: f"{value:.2%}" if value < 0.01 else f"{value:.0%}")
    _dress(combo_axes, title="one combo: how often it was the hand", x_label="probability promised")
    combo_axes.legend(frameon=False, fontsize=8)
    most = min(1.0, 1.1 * max(value for series in masses for value in (*series.promised, *series.happened)))
    mass_axes.plot([0, most], [0, most], color=FLOORS[0], linestyle="--", linewidth=1)
    for series, color in zip(masses, SHADES, strict=False):
        _errors(mass_axes, series, color)
    _dress(mass_axes, title="the K likeliest: how often the hand was one", x_label="mass promised")
    mass_axes.legend(frameon=False, fontsize=8)
    rows = range(len(groups))
    below, above = _spread(errors.values, errors.lows, errors.highs)
    error_axes.barh(rows, errors.values, 0.6, xerr=(below, above), color=SHADES[1], error_kw={"linewidth": 1}, label=errors.label)
    known = [(value, row) for row, value in zip(rows, by_chance, strict=True) if value is not None]
    error_axes.scatter(
        [value for value, _ in known], [row for _, row in known], s=18, color=VALIDATION, zorder=3, label="by chance"
    )
    error_axes.set_yticks(rows, groups, fontsize=8)
    error_axes.invert_yaxis()
    error_axes.locator_params(axis="x", nbins=5)
    _dress(error_axes, title="calibration error by street and opponents", x_label="mass promised wrongly")
    error_axes.legend(frameon=False, fontsize=8)
    return _png(figure)


def stacked_bars(labels: Sequence[str], parts: Mapping[str, Sequence[float]], *, title: str, x_label: str) -> bytes:
    """Draw one bar a label, made of parts from the bottom up.

    Args:
        labels: under the bars.
        parts: name of a part -> its height in each bar.
        title: what is counted.
        x_label: what the labels are.
    """
    figure = _figure(width=6.4, height=3.2)
    axes = figure.subplots()
    bottom = [0.0] * len(labels)
    for (name, heights), color in zip(parts.items(), SHADES, strict=False):
        axes.bar(range(len(labels)), heights, 0.7, bottom=bottom, color=color, label=name)
        bottom = [below + height for below, height in zip(bottom, heights, strict=True)]
    axes.set_xticks(range(len(labels)), labels, fontsize=8)
    _dress(axes, title=title, x_label=x_label)
    axes.legend(frameon=False, fontsize=8)
    return _png(figure)


def range_grids(labels: Sequence[str], grids: Sequence[Sequence[Sequence[float]]], ranks: str, *, title: str) -> bytes:
    """Draw a 13x13 picture of starting hands for each label, pale for never and dark for always.

    Args:
        labels: above the pictures.
        grids: (13, 13) shares in 0..1, aces first, suited hands above the diagonal.
        ranks: names of the ranks, the highest first.
        title: what is shown.
    """
    columns = min(3, len(labels))
    rows = -(-len(labels) // columns)
    figure = _figure(width=2.4 * columns, height=2.5 * rows + 0.3)
    axes = figure.subplots(rows, columns, squeeze=False)
    for place, axis in enumerate(axes.flat):
        axis.set_axis_off()
        if place >= len(labels):
            continue
        axis.imshow(grids[place], cmap="Blues", vmin=0.0, vmax=1.0)
        axis.set_title(labels[place], fontsize=9, color=INK)
        for index, rank in enumerate(ranks):
            axis.text(index, index, rank, ha="center", va="center", fontsize=6, color=VALIDATION)
    figure.suptitle(title, fontsize=9, color=INK)
    return _png(figure)


def _figure(*, width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=100, layout="constrained")


def _legend_below(figure: "Figure") -> None:
    """Put the legend where no curve can run."""
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)


def _errors(axes: "Axes", series: Reliability, color: str) -> None:
    below = [max(value - low, 0.0) for value, low in zip(series.happened, series.lows, strict=True)]
    above = [max(high - value, 0.0) for value, high in zip(series.happened, series.highs, strict=True)]
    axes.errorbar(
        series.promised,
        series.happened,
        yerr=(below, above),
        color=color,
        marker="o",
        markersize=3,
        linewidth=1,
        label=series.label,
    )


def _spread(values: Sequence[float], lows: Sequence[float], highs: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return how far intervals reach below and above; of very few hands a bootstrap interval may miss its mean."""
    below = [max(value - low, 0.0) for value, low in zip(values, lows, strict=True)]
    above = [max(high - value, 0.0) for value, high in zip(values, highs, strict=True)]
    return below, above


def _floor_line(axes: "Axes", value: float) -> None:
    axes.axhline(value, color=FLOORS[0], linestyle="--", linewidth=1)
    axes.annotate(
        "static range, shared val reads",
        (1.0, value),
        xycoords=("axes fraction", "data"),
        xytext=(-4, 3),
        textcoords="offset points",
        ha="right",
        fontsize=8,
        color=FLOORS[0],
    )


def _dress(axes: "Axes", *, title: str, x_label: str) -> None:
    axes.set_title(title, loc="left", fontsize=9, color=INK)
    axes.set_xlabel(x_label, fontsize=8, color=INK)
    axes.tick_params(labelsize=8, colors=INK)
    axes.grid(visible=True, axis="y", color=GRID)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _png(figure: "Figure") -> bytes:
    from PIL import Image

    full, small = io.BytesIO(), io.BytesIO()
    figure.savefig(full, format="png")
    Image.open(full).convert("RGB").quantize(PALETTE_SIZE, dither=Image.Dither.NONE).save(small, format="png", optimize=True)
    png = small.getvalue()
    if len(png) >= MAX_BYTES:
        msg = f"a picture for metadata must stay below {MAX_BYTES} bytes, this one has {len(png)}"
        raise ValueError(msg)
    return png
