"""The page's own files: read from the package once, sent with headers that forbid everything the page does not need.

They are the same for all users and hold no data, so they need no token. No file is opened by a name from a request.
"""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib import resources
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from cohabit.live.api.problems import Refusal

router = APIRouter(include_in_schema=False)
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
POLICY = "; ".join((
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
    "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
    "trusted-types 'none'",
))  # fmt: skip
HEADERS = {
    "content-security-policy": POLICY, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin", "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()", "cache-control": "no-cache",
    "vary": "accept-encoding",
}  # fmt: skip


class Asset(NamedTuple):
    """One file, plain and compressed."""

    kind: str
    content: bytes
    packed: bytes
    tag: str


@cache
def assets() -> dict[str, Asset]:
    """Every file of the page by its name."""
    found: dict[str, Asset] = {}
    for file in (resources.files("cohabit") / "page").iterdir():
        kind = KINDS.get(file.name.rpartition(".")[2])
        if kind is not None:
            content = file.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
            found[file.name] = Asset(kind, content, gzip.compress(content, 9, mtime=0), tag)
    return found


@router.get("/")
async def index(request: Request) -> Response:
    """Return the page; it shows no data before login."""
    return _answer(request, "index.html")


@router.get("/page/{name}")
async def asset(name: str, request: Request) -> Response:
    """Return one of the page's files."""
    return _answer(request, name)


def _answer(request: Request, name: str) -> Response:
    found = assets().get(name)
    if found is None:
        raise Refusal(404, "there is no such file of the page", name[:80], "open / instead")
    headers = {**HEADERS, "etag": found.tag}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(found.packed, headers={**headers, "content-encoding": "gzip"}, media_type=found.kind)
    return Response(found.content, headers=headers, media_type=found.kind)
