"""Which hands of a split are worth looking at, and their reads as pages.

The worst are those that ``stratified_eval`` listed. The most telling are showdown villains whose hand ends among the model's
likeliest and whom it reads furthest ahead of the static range; beside them stand as many that are typical, because the best alone
would flatter the model. All come from one sample of the split, one villain a hand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from range_reader_pipeline.hand_pages import hand_read
from range_reader_pipeline.range_page import HandRead

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from range_reader_core.evaluation import Reader
    from range_reader_core.inference import ModelReader
    from range_reader_core.reads import Reads

SAMPLE_READS: Final = 2000
FOUND_RANK: Final = 64.0  # a hand that ends below counts as found


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenRead:
    """A read and why it is shown."""

    read: int  # its number among the reads
    kind: str  # a word or two, such as "Worst"
    reason: str  # a sentence without its full stop


def telling_reads(reads: "Reads", model: "Reader", static: "Reader", *, num: int, device: str) -> list[ChosenRead]:
    """Return showdown reads: those found with the greatest lead over the static range at the end, then as many typical ones.

    Args:
        reads: a split; the first ``SAMPLE_READS`` are looked at.
        model: whose reads they are.
        static: what it is compared with.
        num: how many of each.
        device: where the model lies.

    Raises:
        NothingToScoreError: no villain came to a showdown.
    """
    import numpy as np

    from range_reader_core.evaluation import evaluate_points
    from range_reader_core.inference import choose_device
    from range_reader_core.metrics import LOSS, MEAN_RANK

    sample = np.arange(min(SAMPLE_READS, reads.num_reads))
    ours, theirs = evaluate_points([model, static], reads.take(sample), device=choose_device(device))
    lead = theirs.metrics[:, -1, LOSS] - ours.metrics[:, -1, LOSS]  # nats, at the final position
    order = np.argsort(-lead, kind="stable")
    _, first = np.unique(ours.hand_index[order], return_index=True)  # the best read of each hand
    order = order[np.sort(first)]
    middle = len(order) // 2 - num // 2
    typical = order[max(middle, num) : max(middle, num) + num]
    is_found = ours.metrics[order, -1, MEAN_RANK] <= FOUND_RANK
    best = [place for place in np.concatenate([order[is_found], order[~is_found]])[:num] if place not in typical]
    return [
        ChosenRead(
            read=int(ours.read_index[place]),
            kind=kind,
            reason=f"{where} of {len(order):,} showdown hands: {lead[place]:+.2f} nats ahead of the static range at the end",
        )
        for kind, where, places in (("Best", "Among the best", best), ("Typical", "In the middle", typical))
        for place in places
    ]


def find_reads(reads: "Reads", hand_id: str) -> list[int]:
    """Return the reads of a hand, by villain and perspective; none where the split does not hold it."""
    import numpy as np

    if hand_id not in reads.hand_ids:
        return []
    found = np.flatnonzero(reads.hand_index == reads.hand_ids.index(hand_id))
    return [int(read) for read in found[np.lexsort((reads.perspective_seat[found], reads.villain_seat[found]))]]


def read_pages(
    reads: "Reads", chosen: Sequence[ChosenRead], model: "ModelReader", prior: "npt.NDArray[np.float64]"
) -> list[HandRead]:
    """Return the chosen reads step by step, in order.

    Args:
        reads: where they come from.
        chosen: which, each once.
        model: reads them.
        prior: (1326,) the static range before any card is seen.
    """
    import numpy as np
    import torch

    from range_reader_core import cards
    from range_reader_core.evaluation import supervised_batches
    from range_reader_core.lines import POSITIONS, SITUATIONS
    from range_reader_core.masks import STRATA, outcome
    from range_reader_core.strata import read_groups
    from range_reader_core.suit_averaging import normalised

    part = reads.take(np.array([one.read for one in chosen], dtype=np.int64))
    groups = read_groups(part)
    pages: dict[int, HandRead] = {}
    for batch in supervised_batches(part, device=next(model.model.parameters()).device):
        with torch.no_grad():
            logp = model.position_logp(batch.batch, batch.rows, batch.positions, batch.is_live)
        beliefs = normalised(logp.exp())
        ends = outcome(batch.batch.tokens).tolist()
        rows, positions = batch.rows.cpu().numpy(), batch.positions.cpu().numpy()
        for row, index in enumerate(batch.batch.read_index.tolist()):
            stream, values = part.read(index)
            villain, truth = int(part.villain_seat[index]), int(part.villain_combo[index])
            position, line = POSITIONS[groups.position[index]], SITUATIONS[groups.preflop_line[index]]
            pages[index] = hand_read(
                stream,
                values,
                positions[rows == row].tolist(),
                beliefs[rows == row],
                prior=prior,
                title=f"{chosen[index].kind}: {position}, {line}, {cards.format_combo(truth)}, {STRATA[ends[row]]}",
                description=f"{chosen[index].reason}. {int(part.num_players[index])} players; the villain is the {position}.",
                hand_id=part.hand_ids[part.hand_index[index]],
                villain_seat=villain,
                perspective_seat=int(part.perspective_seat[index]),
                truth=truth,
            )
    return [pages[index] for index in range(len(chosen))]
