"""The tables of ``tables`` as text: aligned columns, the model's groups first, then the readers that ignore the betting.

The columns are those of the reference system's reports, so that results can be laid side by side, with intervals after
them. A group without reads shows dashes, never zeros.
"""

from collections.abc import Sequence
from typing import Final

from range_reader_core.metrics import uniform_floor
from range_reader_core.tables import BestLead, Estimate, ScoreRow, SharpeningTable, StratifiedTable
from range_reader_core.wording import counted

_TOP: Final = ("top16", "top32", "top64", "top128")
_DECIMALS: Final = {"loss_nats": 3, "mrr": 4, "mean_rank": 1}


def format_stratified(table: StratifiedTable, *, note: str = "") -> str:
    """Return the model's rows by bucket, a row a baseline, the model's lead over the best and each, and the floor of a blind guess.

    Args:
        table: what ``stratified_table`` returned.
        note: how and on what the readers were scored, such as "test split, suit-averaged over 24 relabelings".
    """
    model, *baselines = table.readers
    total = table.row(model)
    labels = [row.group for row in table.rows] + baselines
    width = max(len(label) for label in labels)
    header = (
        f"{'bucket':<{width}}{'samples':>9}{'%pos':>7}{'loss':>8}{''.join(f'{name:>8}' for name in _TOP)}"
        f"{'mean_rank':>11}{'mrr':>8}{'loss 95%':>13}{'mrr 95%':>15}"
    )
    rule = "-" * len(header)
    lines = [
        f"evaluated {counted(total.num_reads, 'sample')}, {counted(total.num_positions, 'position')} "
        f"of {counted(total.num_hands, 'hand')}" + _in_brackets(note),
        "",
        header,
        rule,
        *(_stratified_line(row, row.group, width) for row in table.rows if row.reader == model),
    ]
    if baselines:
        lines += [rule, *(_stratified_line(table.row(name), name, width) for name in baselines), ""]
    lines += _best_lines(table.best_lead("loss_nats"), table.best_lead("mrr"))
    for name in baselines:
        lead = table.lead(name)
        lines.append(f"lead over {name}: {signed(lead.loss_nats, 'loss_nats')} nats a position, {signed(lead.mrr, 'mrr')} mrr")
    return "\n".join([*lines, "", _floor_line(("loss_nats", "mean_rank", "mrr"))])


def format_sharpening(table: SharpeningTable, *, note: str = "") -> str:
    """Return each reader's rows by point, what it gains after the flop, and the floor of a blind guess.

    Args:
        table: what ``sharpening_table`` returned.
        note: how and on what the readers were scored, such as "test split, single forward".
    """
    header = f"{'read after':<11}{'samples':>9}{'mean_rank':>11}{'mrr':>9}{'mean_rank 95%':>15}{'mrr 95%':>15}"
    lines = [f"showdown villains: {counted(table.num_reads, 'read')} of {counted(table.num_hands, 'hand')}{_in_brackets(note)}"]
    for reader, gain in zip(table.readers, table.gains, strict=True):
        lines += ["", reader, header, "-" * len(header)]
        for row in (row for row in table.rows if row.reader == reader):
            lines.append(
                f"{row.group:<11}{row.num_reads:>9,}{_mean(row, 'mean_rank'):>11}{_mean(row, 'mrr'):>9}"
                f"{_range(row, 'mean_rank'):>15}{_range(row, 'mrr'):>15}"
            )
        rank, mrr = gain.scores["mean_rank"], gain.scores["mrr"]
        lines.append(f"flop to showdown: mean_rank {signed(rank, 'mean_rank')}, mrr {signed(mrr, 'mrr')}")
    last = table.rows[-1].group
    best = _best_lines(table.best_lead("loss_nats", last), table.best_lead("mrr", last))
    lines += ["", f"at the {last}:", *best] if best else []
    return "\n".join([*lines, "", _floor_line(("mrr", "mean_rank"))])


def signed(estimate: Estimate, metric: str) -> str:
    """Return a difference in a metric with its sign and its interval."""
    decimals, interval = _DECIMALS[metric], estimate.interval
    spread = (
        "no interval from one hand" if interval is None else f"95% {interval.low:+.{decimals}f} to {interval.high:+.{decimals}f}"
    )
    return f"{estimate.mean:+.{decimals}f} ({spread})"


def _best_lines(nats: BestLead | None, mrr: BestLead | None) -> list[str]:
    """Return the lead over the best baseline by each metric; nothing where there is no baseline."""
    parts = ((nats, "loss_nats", "nats a position"), (mrr, "mrr", "mrr"))
    return [
        f"lead over the best baseline: {signed(best.lead, metric)} {unit}, over {best.baseline}"
        for best, metric, unit in parts
        if best is not None
    ]


def _stratified_line(row: ScoreRow, label: str, width: int) -> str:
    top = "".join(f"{_mean(row, name):>8}" for name in _TOP)
    return (
        f"{label:<{width}}{row.num_reads:>9,}{row.share_positions:>7.1%}{_mean(row, 'loss_nats'):>8}{top}"
        f"{_mean(row, 'mean_rank'):>11}{_mean(row, 'mrr'):>8}{_range(row, 'loss_nats'):>13}{_range(row, 'mrr'):>15}"
    )


def _mean(row: ScoreRow, metric: str) -> str:
    estimate = row.scores.get(metric)
    return "-" if estimate is None else f"{estimate.mean:.{_DECIMALS.get(metric, 3)}f}"


def _range(row: ScoreRow, metric: str) -> str:
    interval = row.scores[metric].interval if metric in row.scores else None
    decimals = _DECIMALS[metric]
    return "-" if interval is None else f"{interval.low:.{decimals}f}-{interval.high:.{decimals}f}"


def _in_brackets(note: str) -> str:
    return f" ({note})" if note else ""


def _floor_line(names: Sequence[str]) -> str:
    floor = uniform_floor()
    shown = (f"{'loss' if name == 'loss_nats' else name}={floor[name]:.{_DECIMALS[name]}f}" for name in names)
    return "random baseline: " + "  ".join(shown)
