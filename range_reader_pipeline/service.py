"""The reader over HTTP, so that an arena in another language can ask: beliefs, ranges of all seats, joint deals.

``build_app`` makes the application around a loaded reader; ``serve`` runs it, on the loopback interface unless told otherwise.
There is no authentication: whoever can reach the port can ask. Bad input is answered with 4xx and the reason. For study and
simulation, not for use at a table.
"""

import functools
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any, Final, cast

import msgspec
import numpy as np
import uvicorn
from fastapi import Body, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError

from range_reader_core import cards
from range_reader_core.estimator import OpponentRanges, Worlds, estimate, sample_worlds
from range_reader_core.inference import RangeReader, ReadRequest
from range_reader_pipeline.service_limits import MAX_BODY_BYTES, MAX_REQUESTS_PER_S, RequestLimits
from range_reader_pipeline.service_messages import (
    BeliefAnswer,
    BeliefQuestion,
    CombosAnswer,
    EstimateAnswer,
    EstimateQuestion,
    Health,
    hand_of,
)
from range_reader_pipeline.service_page import service_page
from range_reader_pipeline.service_queue import BusyError, ReadQueue

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8326
MAX_CONNECTIONS: Final = 256

_DESCRIPTION: Final = (
    "What a No-Limit Hold'em player is believed to hold, given the public record of the hand and the cards of the seat that reads. "
    "For study and simulation, not for use at a table."
)
_HAND: Final = {
    "stacks": [200.0, 150.0, 100.0],
    "button": 0,
    "big_blind": 2.0,
    "hole_cards": {"2": "TdTc"},
    "events": [
        {"kind": "blind", "seat": 1, "chips": 1.0},
        {"kind": "blind", "seat": 2, "chips": 2.0},
        {"kind": "raise", "seat": 0, "chips": 6.0},
        {"kind": "fold", "seat": 1},
        {"kind": "call", "seat": 2, "chips": 4.0},
        {"kind": "flop", "board": ["2c", "7d", "Ts"]},
        {"kind": "check", "seat": 2},
        {"kind": "bet", "seat": 0, "chips": 9.0},
    ],
}
BELIEF_EXAMPLE: Final[dict[str, Any]] = {"hand": _HAND, "villain": 0, "perspective": 2, "single_forward": True}
ESTIMATE_EXAMPLE: Final[dict[str, Any]] = {"hand": _HAND, "perspective": 2, "num_worlds": 2, "seed": 1}
_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    400: {"description": "It makes no hand, or the question has no answer; `detail` says why."},
    413: {"description": "The request is too large."},
    422: {"description": "A field is missing, unknown or out of its range; `detail` says which."},
    429: {"description": "Too many requests, or too many waiting."},
}


def build_app(
    reader: RangeReader, *, max_body_bytes: int = MAX_BODY_BYTES, max_requests_per_s: float = MAX_REQUESTS_PER_S
) -> FastAPI:
    """Return the application around a reader. Its only state is the requests that wait."""
    queue = ReadQueue(reader)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        del app
        yield
        queue.close()

    app = FastAPI(title="Range reader", description=_DESCRIPTION, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.add_middleware(RequestLimits, max_body_bytes=max_body_bytes, max_requests_per_s=max_requests_per_s)
    app.add_exception_handler(RequestValidationError, _explain_field)
    app.add_exception_handler(ValueError, _explain_value)
    app.add_exception_handler(BusyError, _explain_busy)

    @app.get("/healthz", response_model=Health)
    async def healthz() -> Response:
        """Say that the service is up and what answers."""
        config, sidecar = reader.model.config, reader.sidecar
        return _json(
            {
                "status": "ok",
                "device": str(reader.device),
                "num_layers": config.num_layers,
                "width": config.width,
                "step": sidecar.step,
                "metrics": dict(sidecar.metrics),
            }
        )

    @app.get("/combos", response_model=CombosAnswer)
    async def combos() -> Response:
        """Name the 1326 combos in the order of all probabilities: cards lo < hi are combo hi * (hi - 1) / 2 + lo."""
        return _json({"combos": [cards.format_combo(combo) for combo in range(cards.NUM_COMBOS)]})

    @app.post("/belief", response_model=BeliefAnswer, responses=_ERRORS)
    async def belief(question: Annotated[BeliefQuestion, _example(BELIEF_EXAMPLE)]) -> Response:
        """Read one seat. Requests that arrive together are read together."""
        request = ReadRequest(
            hand=hand_of(question), villain=question.villain, perspective=question.perspective, step=question.step
        )
        answer = await queue.belief(request, question.num_relabelings)
        return _json({"probabilities": answer.tolist()})

    @app.post("/estimate", response_model=EstimateAnswer, responses=_ERRORS)
    async def estimate_all(question: Annotated[EstimateQuestion, _example(ESTIMATE_EXAMPLE)]) -> Response:
        """Read every other live seat, and deal worlds that agree with all the ranges."""
        ranges, worlds = await queue.call(functools.partial(_estimate, reader, question))
        return _json(
            {
                "ranges": [None if belief is None else belief.tolist() for belief in ranges.by_seat],
                "worlds": None
                if worlds is None
                else {"seats": worlds.seats, "combos": worlds.combos.tolist(), "is_exact": worlds.is_exact},
            }
        )

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return Response(service_page(app.openapi()), media_type="text/html")

    return app


def serve(
    reader: RangeReader,
    *,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    max_body_bytes: int = MAX_BODY_BYTES,
    max_requests_per_s: float = MAX_REQUESTS_PER_S,
    listener: socket.socket | None = None,
) -> None:
    """Answer requests until interrupted.

    Args:
        reader: what answers.
        host: address to listen on; anything but the loopback interface opens the service to others.
        port: TCP port.
        max_body_bytes: larger requests are answered 413.
        max_requests_per_s: what comes faster is answered 429.
        listener: a socket that has the port already.

    Raises:
        ValueError: the port or a bound is out of range.
    """
    if not 0 < port < 2**16 or max_body_bytes < 1 or not max_requests_per_s >= 1:
        msg = f"expected a port in 1..65535 and bounds of at least 1, got {port}, {max_body_bytes}, {max_requests_per_s}"
        raise ValueError(msg)
    app = build_app(reader, max_body_bytes=max_body_bytes, max_requests_per_s=max_requests_per_s)
    config = uvicorn.Config(app, host=host, port=port, log_level="warning", access_log=False, limit_concurrency=MAX_CONNECTIONS)
    with suppress(KeyboardInterrupt):  # Ctrl-C is how it ends
        uvicorn.Server(config).run(sockets=None if listener is None else [listener])


def _estimate(reader: RangeReader, question: EstimateQuestion) -> tuple[OpponentRanges, Worlds | None]:
    ranges = estimate(reader, hand_of(question), question.perspective, question.num_relabelings)
    if not question.num_worlds:
        return ranges, None
    return ranges, sample_worlds(ranges, question.num_worlds, np.random.default_rng(question.seed))


def _json(answer: dict[str, Any], status: int = 200) -> Response:
    return Response(msgspec.json.encode(answer), status_code=status, media_type="application/json")


def _example(value: dict[str, Any]) -> Any:
    return Body(openapi_examples={"a hand": {"value": value}})


async def _explain_field(request: Request, error: Exception) -> Response:
    del request
    problems = cast(RequestValidationError, error).errors()
    # The input itself stays out of the answer: it may hold what JSON cannot say.
    reasons = [f"{'.'.join(map(str, problem['loc'][1:])) or 'body'}: {problem['msg']}" for problem in problems]
    return _json({"detail": reasons}, 422)


async def _explain_value(request: Request, error: Exception) -> Response:
    del request
    return _json({"detail": str(error)}, 400)


async def _explain_busy(request: Request, error: Exception) -> Response:
    del request
    return _json({"detail": str(error)}, 429)
