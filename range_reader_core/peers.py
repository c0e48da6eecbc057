"""Processes that train one model together, each on its share of every batch: what they tell each other, and nothing else.

The gradient that all of them use is that of one process on the whole batch: sums are added up, and divided once by the number of
positions in all. Process 0 decides by its clock, validates and writes; the others follow it. Alone, nothing is sent. Processes are
started and connected elsewhere (``torchrun`` and ``torch.distributed.init_process_group``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """The place of this process among those that train together.

    Raises:
        ValueError: on construction, when the place is not among them.
    """

    rank: int = 0
    size: int = 1

    def __post_init__(self) -> None:
        """Check the place."""
        if not 0 <= self.rank < self.size:
            msg = f"peers: expected a rank in 0..{self.size - 1}, got {self.rank}"
            raise ValueError(msg)

    @classmethod
    def connected(cls) -> Self:
        """Return the place in the initialised process group; alone where there is none."""
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return cls()
        return cls(rank=torch.distributed.get_rank(), size=torch.distributed.get_world_size())

    @property
    def is_writer(self) -> bool:
        """Whether this process decides, validates and writes."""
        return self.rank == 0

    def share(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return this process's part of a batch of read numbers, (B,).

        A batch of fewer reads than processes is everybody's, which leaves means alike.
        """
        return indices if len(indices) < self.size else indices[self.rank :: self.size]

    def add_up(self, tensors: Sequence[torch.Tensor]) -> None:
        """Replace float32 tensors of one device by their sums over all processes: in place, of any shapes, one message for all."""
        if self.size == 1:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        torch.distributed.all_reduce(flat)
        for tensor, total in zip(tensors, torch.split(flat, [tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(total.view_as(tensor))

    def agree(self, number: float, device: torch.device) -> float:
        """Return the number that process 0 has."""
        if self.size == 1:
            return number
        told = torch.tensor([number], dtype=torch.float64, device=device)
        torch.distributed.broadcast(told, 0)
        return float(told)

    def wait(self) -> None:
        """Wait for all."""
        if self.size > 1:
            torch.distributed.barrier()
