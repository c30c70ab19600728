"""A change asked for by another site's page is refused, whatever it carries.

Nothing the page sends is sent by a browser on its own: the token is in a header that only our own script sets, there
are no cookies, so another site has nothing to ride on. This is the second lock: a browser says where a request comes
from (Origin, Sec-Fetch-Site), and a change that comes from elsewhere ends here. Programs that are no browsers send
neither header and pass. Every answer forbids a browser to guess what it is: data never becomes a page.
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
    """ASGI around ASGI."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on, or say no."""
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
    """The same, with our header on every answer that has not got it."""

    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ())]
            if NO_GUESSING[0] not in (name for name, _ in headers):
                message = {**message, "headers": [*headers, NO_GUESSING]}
        await send(message)

    return sending


def _foreign(headers: dict[bytes, bytes]) -> bool:
    """Whether a browser says that the request is another site's."""
    if headers.get(b"sec-fetch-site", b"").decode("latin-1") not in OWN_SITES:
        return True
    origin = headers.get(b"origin")
    if origin is None:
        return False
    try:
        return urlsplit(origin.decode("latin-1")).netloc != headers.get(b"host", b"").decode("latin-1")
    except ValueError:
        return True
