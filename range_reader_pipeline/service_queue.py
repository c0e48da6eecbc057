"""Requests that arrive while the model is busy are read together: no timer, no wait when it is idle.

One thread runs the model, because a second would only share the same cores; the event loop goes on taking requests meanwhile.
What waits is bounded, so a service that is asked too much says so at once instead of answering late.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from range_reader_core.inference import RangeReader, ReadRequest

MAX_BATCH: Final = 32  # single forwards read together
MAX_AVERAGED_BATCH: Final = 4  # suit-averaged ones, each up to 24 forwards, so that others do not wait long
MAX_WAITING: Final = 256

_T = TypeVar("_T")
Belief = npt.NDArray[np.float64]


class BusyError(Exception):
    """Too much is waiting already."""


class _Waiting(NamedTuple):
    request: ReadRequest
    num_relabelings: int
    answer: "asyncio.Future[Belief]"


class ReadQueue:
    """The way from concurrent requests to one model."""

    def __init__(self, reader: RangeReader, *, max_waiting: int = MAX_WAITING) -> None:
        """Own the thread that reads; ``close`` ends it."""
        self.reader = reader
        self._max_waiting = max_waiting
        self._waiting: deque[_Waiting] = deque()
        self._num_calls = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="reader")
        self._task: asyncio.Task[None] | None = None

    def close(self) -> None:
        """End the thread; what waits is dropped."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    async def belief(self, request: ReadRequest, num_relabelings: int) -> Belief:
        """Return ``RangeReader.belief`` of a request, read with others that wait.

        Raises:
            BusyError: too much is waiting.
            ValueError: as ``RangeReader.belief``.
        """
        self._check_room()
        waiting = _Waiting(request, num_relabelings, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._drain())
        return await waiting.answer

    async def call(self, function: Callable[[], _T]) -> _T:
        """Return what a function returns, called on the reading thread.

        Raises:
            BusyError: too much is waiting.
        """
        self._check_room()
        self._num_calls += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, function)
        finally:
            self._num_calls -= 1

    def _check_room(self) -> None:
        if len(self._waiting) + self._num_calls >= self._max_waiting:
            msg = f"{self._max_waiting} requests are waiting already; try again later"
            raise BusyError(msg)

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch = self._next_batch()
            answers = await loop.run_in_executor(self._thread, self._read, batch)
            for waiting, answer in zip(batch, answers, strict=True):
                if waiting.answer.done():  # its client has gone
                    continue
                if isinstance(answer, ValueError):
                    waiting.answer.set_exception(answer)
                else:
                    waiting.answer.set_result(answer)

    def _next_batch(self) -> list[_Waiting]:
        """Return the oldest request and those of its kind that came next, in order."""
        kind = self._waiting[0].num_relabelings
        most = MAX_BATCH if kind == 1 else MAX_AVERAGED_BATCH
        batch = [waiting for waiting in self._waiting if waiting.num_relabelings == kind][:most]
        chosen = set(map(id, batch))
        self._waiting = deque(waiting for waiting in self._waiting if id(waiting) not in chosen)
        return batch

    def _read(self, batch: list[_Waiting]) -> list[Belief | ValueError]:
        """Return an answer or a reason for each; one that cannot be read does not spoil the others."""
        num_relabelings = batch[0].num_relabelings
        try:
            return list(self.reader.beliefs([waiting.request for waiting in batch], num_relabelings))
        except ValueError as error:
            if len(batch) == 1:
                return [error]
        return [answer for waiting in batch for answer in self._read([waiting])]
