"""Reads for the tests that train, and one thread where sums have to agree bit for bit."""

from collections.abc import Iterator

import pytest
import torch

from range_reader_core.encoder import HandEncoder
from range_reader_core.reads import Reads
from tests.core.hands import random_hands


@pytest.fixture(scope="session")
def reads() -> tuple[Reads, Reads]:
    """Return train and val reads of different hands."""
    encoder = HandEncoder()
    return encoder.encode_hands(random_hands(1, 40))[0], encoder.encode_hands(random_hands(2, 10))[0]


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Sums of matrix products depend on how many threads share them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
