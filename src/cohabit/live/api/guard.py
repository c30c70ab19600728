"""The outermost layer of the app: it accepts bodies of at most 1 MiB of valid text that arrive in time, and answers
whatever goes wrong.

An internal error is logged with its traceback and answered with 503 and one sentence; callers never see more of it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

BODY_MOST = 2**20
THROWN_MOST = 16 * BODY_MOST
BODY_S = 30.0
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
log = logging.getLogger(__name__)


class Guard:
    """ASGI middleware around the app."""

    def __init__(
        self,
        app: Callable[[Scope, Receive, Send], Awaitable[None]],
        answered: Callable[[int], None],
        refused: Callable[[Scope, int], Awaitable[None]],
    ) -> None:
        self._app, self._answered, self._refused = app, answered, refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return
        begun, since = False, time.monotonic()

        async def noted(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                self._answered(message["status"])
                _note(scope, message["status"], time.monotonic() - since)
                if 400 <= message["status"] < 500:
                    await self._refused(scope, message["status"])
            await send(message)

        try:
            body = await asyncio.wait_for(_body(scope, receive), BODY_S)
        except TimeoutError:
            scope["state"]["refused"] = "the request did not arrive in time"
            await _say(noted, 408, "the request did not arrive in time", "body", "send it faster")
            return
        if body is None:
            scope["state"]["refused"] = f"larger than {BODY_MOST >> 20} MiB"
            await _say(noted, 413, f"the request is larger than {BODY_MOST >> 20} MiB", "body", "send less")
            return
        if wrong := wrong_in_body(body):
            await _say(noted, 422, wrong, "body", "send JSON in UTF-8")
            return
        try:
            scope["state"]["body"] = body  # a page's signature covers it
            await self._app(scope, _replay(body, receive), noted)
        except Exception:
            log.exception("%s %r failed", scope["method"], scope["path"])
            if not begun:
                fix = "try again; if it stays, the server's log says why"
                await _say(noted, 503, "the server failed to answer this", scope["path"], fix)


def wrong_in_body(body: bytes) -> str:
    """Return why the text of a body cannot be stored, in one sentence; empty: it can. Python's own JSON reader accepts
    halves of surrogate pairs, and other encodings than UTF-8."""
    if b"\0" in body:
        return "the body is not JSON in UTF-8"
    try:
        body.decode()
        if _SURROGATE.search(body):
            msgspec.json.decode(body)
    except UnicodeDecodeError:
        return "the body is not JSON in UTF-8"
    except (msgspec.DecodeError, RecursionError):
        return "the body is not JSON, or has half a surrogate pair in it, which is not text in any encoding"
    return ""


def _note(scope: Scope, status: int, took_s: float) -> None:
    """Log a request, if the log level includes every request."""
    if log.isEnabledFor(logging.INFO):
        state, method, path = scope.get("state", {}), scope["method"], scope["path"]
        more = {
            "method": method,
            "path": path,
            "status": status,
            "user": state.get("user", ""),
            "ms": round(1000 * took_s, 1),
        }
        log.info("%s %r by %s: %d", method, path, more["user"] or "no user", status, extra=more)


async def _body(scope: Scope, receive: Receive) -> bytes | None:
    """Return the whole body; None: it is too large. The excess is read for a while and thrown away, because a caller
    that is still sending does not read the answer."""
    headers = dict(scope["headers"])
    if b"content-length" not in headers and b"transfer-encoding" not in headers:
        return b""
    parts: list[bytes] = []
    size = 0
    while size <= THROWN_MOST:
        message = await receive()
        if message["type"] != "http.request":
            break  # the caller is gone and will not read the answer
        size += len(message.get("body", b""))
        if size <= BODY_MOST:
            parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            break
    return b"".join(parts) if size <= BODY_MOST else None


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def again() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again


async def _say(send: Send, status: int, error: str, where: str, fix: str) -> None:
    content = msgspec.json.encode({"error": error, "where": where, "fix": fix})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
