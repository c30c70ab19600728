"""The way in for a browser: a link that opens once, asked for over the socket, becomes a token of twelve hours.

The key is in the part of the link after '#', which browsers keep to themselves; it is good once and for two minutes.
The token lives in the browser's tab. There is no cookie: a browser would send it to every port of this machine.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from cohabit.live.api.credentials import Caller
from cohabit.live.api.problems import Refusal
from cohabit.live.api.routes import Service, Who, reply
from cohabit.live.api.tokens import Made

router = APIRouter(prefix="/v1/page", include_in_schema=False)
KEY_S = 120.0
TOKEN_S = 12 * 3600.0
MOST_KEYS = 200
LABEL = "page"


class Key(BaseModel):
    """What a link carries."""

    model_config = ConfigDict(extra="forbid")
    key: str = Field(min_length=1, max_length=100)


class _Waiting(NamedTuple):
    caller: Caller
    until: float


class PageDoor:
    """Keys that were handed out and not used yet; `address` says where a browser of this machine finds us."""

    def __init__(self) -> None:
        self._keys: dict[str, _Waiting] = {}
        self.address: Callable[[], Awaitable[str]] | None = None

    def new_key(self, caller: Caller) -> str:
        """A key for this caller."""
        now = time.monotonic()
        self._keys = {key: one for key, one in self._keys.items() if one.until > now}
        if len(self._keys) >= MOST_KEYS:
            raise Refusal(429, "too many links wait to be opened", "page", "open one of them, or wait two minutes")
        key = secrets.token_urlsafe(24)
        self._keys[key] = _Waiting(caller, now + KEY_S)
        return key

    def use(self, key: str) -> Caller | None:
        """Whose key this is; it opens nothing after that. None: nobody's, or too old."""
        found = self._keys.pop(key, None)
        return found.caller if found is not None and found.until > time.monotonic() else None


@router.post("/link", status_code=201)
async def link(request: Request, parts: Service, caller: Who) -> Response:
    """A link for the caller's browser; over the socket only: a token opens the page as it is."""
    door: PageDoor = request.app.state.page_door
    if not caller.local or door.address is None:
        raise Refusal(403, "links are made over the socket only", "page", "open the page and give it your token")
    if parts.tokens.number_of(caller.user) != caller.number:
        raise Refusal(403, "the user has no account of that name here", caller.user, "ask an administrator")
    address = await door.address()
    return reply({"url": f"{address}/#key={door.new_key(caller)}", "good_for_s": KEY_S}, 201)


@router.post("/enter")
async def enter(key: Key, request: Request, parts: Service) -> Response:
    """The token a link stands for; the link is used up."""
    door: PageDoor = request.app.state.page_door
    caller = door.use(key.key)
    if caller is None:
        raise Refusal(401, "this link was used before, or is too old", "key", "make a new one: cohabit page")

    async def add() -> Made:
        return parts.tokens.add(caller.user, LABEL, TOKEN_S)

    made = await parts.change(caller, "enter page", f"token for {caller.user}", add(), 201)
    return reply({"token": made.secret, "id": made.kept.id, "user": caller.user})
