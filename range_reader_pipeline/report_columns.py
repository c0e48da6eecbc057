"""What the columns of the reports' short tables mean, as the UI shows it beside them: name -> description, in order."""

from collections.abc import Mapping
from typing import Final

SCORE_COLUMNS: Final[Mapping[str, str]] = {
    "reader": "the model, or a baseline that it must beat",
    "group": "what became of the villain, or after what the villain is read",
    "mrr": "mean of 1 / rank of the true hand",
    "mrr_low": "95% interval, by bootstrap over hands",
    "mrr_high": "95% interval, by bootstrap over hands",
    "mean_rank": "mean rank of the true hand among 1326",
    "loss_nats": "mean -ln P(true hand)",
    "top64": "share of true hands among the 64 likeliest",
    "num_reads": "(villain, perspective) pairs",
    "num_positions": "positions scored",
}
FAILURE_COLUMNS: Final[Mapping[str, str]] = {
    "dimension": "by what the reads are grouped",
    "group": "which of them",
    "loss_nats": "the model's mean -ln P(true hand)",
    "lead_nats": "nats a position ahead of the best baseline of this group; negative: behind",
    "lead_nats_low": "95% interval, by bootstrap over hands",
    "lead_nats_high": "95% interval, by bootstrap over hands",
    "lead_nats_over": "the best baseline of this group",
    "num_hands": "hands in the group",
    "num_reads": "(villain, perspective) pairs",
    "num_positions": "positions scored",
}
CALIBRATION_COLUMNS: Final[Mapping[str, str]] = {
    "group": "street, or seats but the villain's that have not folded",
    "error": "mass a position in bins that promise too much or too little (expected calibration error)",
    "error_low": "95% interval",
    "error_high": "95% interval",
    "by_chance": "what perfect probabilities would show",
    "top16_promised": "mean mass on the 16 likeliest",
    "top16_happened": "share of true hands among them",
    "top64_promised": "mean mass on the 64 likeliest",
    "top64_happened": "share of true hands among them",
    "num_positions": "positions scored",
}
WORST_COLUMNS: Final[Mapping[str, str]] = {
    "hand_id": "source and game number",
    "villain_seat": "who is read",
    "perspective_seat": "who reads",
    "truth": "what the villain held",
    "position": "of the villain",
    "preflop_line": "as the flop fell",
    "loss_nats": "the model's mean loss over the hand",
    "mean_rank": "mean rank of the truth",
    "baseline_loss_nats": "of the baseline that reads this hand best",
    "page": "where the hand can be looked at, under reports/",
}
PAGE_COLUMNS: Final[Mapping[str, str]] = {
    "page": "file and place in it, under reports/",
    "title": "why it is shown, and what the hand was",
    "hand_id": "source and game number",
    "villain_seat": "who is read",
    "truth": "what the villain held",
    "rank_first": "rank of the truth at the first step",
    "rank_last": "and at the last",
}
