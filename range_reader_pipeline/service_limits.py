"""What keeps requests from filling memory or the processor: a bound on size and one on rate, before anything is parsed.

Pure ASGI: a body is collected up to its bound and handed on whole, so nothing behind it sees an endless stream.
"""

import time
from collections.abc import Callable
from typing import Final

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES: Final = 256 * 1024  # a large hand history object has 20 kB
MAX_REQUESTS_PER_S: Final = 1000.0


class RequestLimits:
    """Answers 413 to a body that is too large and 429 to requests that come too fast."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        max_body_bytes: int = MAX_BODY_BYTES,
        max_requests_per_s: float = MAX_REQUESTS_PER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Allow bursts of a second's requests."""
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._rate = max_requests_per_s
        self._allowed = max_requests_per_s
        self._clock = clock
        self._then = clock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not self._is_allowed():
            await _refuse(send, 429, f"more than {self._rate:g} requests a second; try again later", [(b"retry-after", b"1")])
            return
        body = await self._body(scope, receive)
        if body is None:
            await _refuse(send, 413, f"a request may have at most {self._max_body_bytes} bytes", [(b"connection", b"close")])
            return
        is_given = False

        async def receive_whole() -> Message:
            nonlocal is_given
            if is_given:
                return await receive()  # only ever a disconnect
            is_given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, receive_whole, send)

    def _is_allowed(self) -> bool:
        now = self._clock()
        self._allowed = min(self._rate, self._allowed + (now - self._then) * self._rate)
        self._then = now
        if self._allowed < 1.0:
            return False
        self._allowed -= 1.0
        return True

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """Return the whole body, None where it is too large."""
        said = dict(scope["headers"]).get(b"content-length", b"0")
        if not said.isdigit() or int(said) > self._max_body_bytes:
            return None
        body = bytearray()
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > self._max_body_bytes:
                return None
            if not message.get("more_body", False):
                return bytes(body)


async def _refuse(send: Send, status: int, reason: str, headers: list[tuple[bytes, bytes]]) -> None:
    body = msgspec.json.encode({"detail": reason})
    own = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": own + headers})
    await send({"type": "http.response.body", "body": body})
