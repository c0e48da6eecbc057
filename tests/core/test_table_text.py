"""The two tables as text, compared whole: a shifted column or a zero for nothing shows at a glance."""

from range_reader_core.intervals import Interval
from range_reader_core.metrics import METRICS
from range_reader_core.table_text import format_sharpening, format_stratified
from range_reader_core.tables import TOTAL, Estimate, Gain, Lead, ScoreRow, SharpeningTable, StratifiedTable

STRATIFIED = """\
evaluated 146,785 samples, 2,000,000 positions of 30,211 hands (test split, suit-averaged over 24 relabelings)

bucket                    samples   %pos    loss   top16   top32   top64  top128  mean_rank     mrr     loss 95%        mrr 95%
-------------------------------------------------------------------------------------------------------------------------------
river-fold                      0   0.0%       -       -       -       -       -          -       -            -              -
showdown                   86,655  59.3%   6.531   0.052   0.094   0.163   0.287      322.9  0.0189            -              -
TOTAL                     146,785 100.0%   6.549   0.046   0.086   0.154   0.278      324.6  0.0174  6.540-6.558  0.0172-0.0176
-------------------------------------------------------------------------------------------------------------------------------
uniform over live combos  146,785 100.0%   7.057   0.013   0.027   0.055   0.111      582.0  0.0066  7.050-7.060  0.0066-0.0066

lead over the best baseline: +0.508 (95% +0.501 to +0.515) nats a position, over uniform over live combos
lead over the best baseline: +0.0108 (no interval from one hand) mrr, over uniform over live combos
lead over uniform over live combos: +0.508 (95% +0.501 to +0.515) nats a position, +0.0108 (no interval from one hand) mrr

random baseline: loss=7.190  mean_rank=663.5  mrr=0.0059"""

SHARPENING = """\
showdown villains: 86,655 reads of 30,211 hands

model
read after   samples  mean_rank      mrr  mean_rank 95%        mrr 95%
----------------------------------------------------------------------
flop          86,655      351.4   0.0164              -              -
showdown      86,655      305.5   0.0209    304.0-307.0  0.0206-0.0212
flop to showdown: mean_rank -45.9 (95% -47.0 to -44.0), mrr +0.0045 (95% +0.0041 to +0.0049)

random baseline: mrr=0.0059  mean_rank=663.5"""


def _row(reader: str, group: str, num_reads: int, share: float, means: tuple[float, ...], **intervals: Interval) -> ScoreRow:
    return ScoreRow(
        reader=reader,
        group=group,
        num_reads=num_reads,
        num_hands=30211,
        num_positions=2_000_000,
        share_positions=share,
        scores={name: Estimate(mean=mean, interval=intervals.get(name)) for name, mean in zip(METRICS, means, strict=False)},
    )


def test_stratified_text_is_the_reference_layout_with_intervals_and_baselines() -> None:
    """People lay this table beside the reference's; a column out of place compares the wrong numbers."""
    uniform = "uniform over live combos"
    table = StratifiedTable(
        readers=("model", uniform),
        rows=(
            _row("model", "river-fold", 0, 0.0, ()),
            _row("model", "showdown", 86655, 0.593, (6.531, 0.0189, 322.9, 0.052, 0.094, 0.163, 0.287)),
            _row(
                "model",
                TOTAL,
                146785,
                1.0,
                (6.549, 0.0174, 324.6, 0.046, 0.086, 0.154, 0.278),
                loss_nats=Interval(low=6.54, high=6.558),
                mrr=Interval(low=0.0172, high=0.0176),
            ),
            _row(uniform, "showdown", 86655, 0.593, (7.05, 0.0066, 580.0, 0.013, 0.027, 0.055, 0.111)),
            _row(
                uniform,
                TOTAL,
                146785,
                1.0,
                (7.057, 0.0066, 582.0, 0.013, 0.027, 0.055, 0.111),
                loss_nats=Interval(low=7.05, high=7.06),
                mrr=Interval(low=0.0066, high=0.0066),
            ),
        ),
        leads=(
            Lead(
                baseline=uniform,
                group=TOTAL,
                loss_nats=Estimate(mean=0.508, interval=Interval(low=0.501, high=0.515)),
                mrr=Estimate(mean=0.0108, interval=None),
            ),
        ),
    )
    assert format_stratified(table, note="test split, suit-averaged over 24 relabelings") == STRATIFIED


def test_sharpening_text_is_the_reference_layout_with_intervals() -> None:
    """The climb is read down one column; the sign of the gain says which way is better."""
    table = SharpeningTable(
        readers=("model",),
        num_reads=86655,
        num_hands=30211,
        rows=(
            _row("model", "flop", 86655, 0.25, (6.6, 0.0164, 351.4)),
            _row(
                "model",
                "showdown",
                86655,
                0.25,
                (6.5, 0.0209, 305.5),
                mean_rank=Interval(low=304.0, high=307.0),
                mrr=Interval(low=0.0206, high=0.0212),
            ),
        ),
        leads=(),
        gains=(
            Gain(
                reader="model",
                scores={
                    "mean_rank": Estimate(mean=-45.9, interval=Interval(low=-47.0, high=-44.0)),
                    "mrr": Estimate(mean=0.0045, interval=Interval(low=0.0041, high=0.0049)),
                },
            ),
        ),
    )
    assert format_sharpening(table) == SHARPENING
