"""Refuse changes requested by another site's page, whatever they carry.

A browser sends no credentials on its own: the token is in a header that only the page's own script sets, and there are
no cookies, so another site's request has none. This is a second check: a browser states where a request comes from
(Origin, Sec-Fetch-Site), and a change from another site is refused. Programs that are not browsers send neither header
and pass. Every answer forbids a browser to guess its type: data is never shown as a page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from cohabit.live.api.guard import Receive, Scope, Send

SAFE = ("GET", "HEAD", "OPTIONS")
OWN_SITES = ("same-origin", "none", "")
NO_GUESSING = (b"x-content-type-options", b"nosniff")


class SameOrigin:
    """ASGI middleware that refuses changes from other sites."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] in SAFE or not _foreign(dict(scope["headers"])):
            await self._app(scope, receive, _without_guessing(send))
            return
        scope.setdefault("state", {})["refused"] = "a change was asked for by another site's page"
        said = {"error": "a change was asked for by another site's page", "where": "Origin", "fix": "use our own page"}
        content = msgspec.json.encode(said)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode()), NO_GUESSING]
        await send({"type": "http.response.start", "status": 403, "headers": headers})
        await send({"type": "http.response.body", "body": content})


def _without_guessing(send: Send) -> Send:
    """Return a `send` that adds the nosniff header to every answer without it."""

    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ())]
            if NO_GUESSING[0] not in (name for name, _ in headers):
                message = {**message, "headers": [*headers, NO_GUESSING]}
        await send(message)

    return sending


def _foreign(headers: dict[bytes, bytes]) -> bool:
    """Return whether the headers say that the request comes from another site."""
    if headers.get(b"sec-fetch-site", b"").decode("latin-1") not in OWN_SITES:
        return True
    origin = headers.get(b"origin")
    if origin is None:
        return False
    try:
        return urlsplit(origin.decode("latin-1")).netloc != headers.get(b"host", b"").decode("latin-1")
    except ValueError:
        return True
