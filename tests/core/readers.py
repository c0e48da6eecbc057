"""A small reader with every weight random, for tests of what stands around the model."""

from dataclasses import replace

import torch

from range_reader_core.checkpoint import CheckpointSidecar
from range_reader_core.hand import CanonicalHand
from range_reader_core.inference import RangeReader
from range_reader_core.model import HeadKind, ModelConfig, RangeReaderModel
from range_reader_core.session import HandSession


def random_model(*, head: HeadKind = "composed", seed: int = 1, **switches: bool) -> RangeReaderModel:
    """Return a small model in evaluation mode in which nothing is zero by initialisation, with switches of its configuration."""
    config = replace(ModelConfig(num_layers=2, width=24, num_heads=3, dropout=0.0, head=head), **switches)  # type: ignore[arg-type]  # all are bool
    model = RangeReaderModel(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return model


def random_reader(model: RangeReaderModel | None = None) -> RangeReader:
    """Return a reader of a model, of ``random_model()`` unless given."""
    chosen = random_model() if model is None else model
    return RangeReader(chosen, CheckpointSidecar(model=chosen.config), torch.device("cpu"))


def open_session(reader: RangeReader, hand: CanonicalHand, perspective: int | None, num_relabelings: int = 1) -> HandSession:
    """Return a session at the table of a hand before its first event, as the perspective sees it; None is a watcher."""
    return reader.session(
        stacks=hand.stacks,
        button=hand.button,
        big_blind=hand.big_blind,
        hero=perspective,
        hero_cards=None if perspective is None else hand.hole_cards[perspective],
        num_relabelings=num_relabelings,
    )
