"""The login of a browser: a link that works once, requested over the socket, becomes a session of twelve hours.

The key is in the part of the link after '#', which browsers do not send; it is valid once and for two minutes. The
page proves that it has the key, and the server that it knows it; the key is not sent. A token that a user types in is
sent once, after the server has proved that it knows the token's hash; the page then keeps a session, too. Sessions are
tokens in this process's memory (tokens.py) that sign requests (sessions.py). They cannot make tokens. There is no
cookie: a browser would send it to every port of this machine.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from cohabit.live.api.credentials import Caller
from cohabit.live.api.page.sessions import Entered, enter, same, signature
from cohabit.live.api.problems import Refusal
from cohabit.live.api.routes import Identified, Service, reply
from cohabit.live.api.tokens import Token, hash_of

router = APIRouter(prefix="/v1/page", include_in_schema=False)
KEY_S = 120.0
MOST_KEYS = 200
MOST_OF_ONE = 10  # unopened links of one user
KEPT_KEYS = 50  # of all keys, reserved for operators
Nonce = Annotated[str, Field(pattern="^[0-9A-Za-z_-]{16,64}$")]


class Entry(BaseModel):
    """With a link: its key's name and proof. With a token: the token."""

    model_config = ConfigDict(extra="forbid")
    nonce: Nonce
    key: Annotated[str, Field(max_length=100)] = ""
    proof: Annotated[str, Field(max_length=100)] = ""
    token: Annotated[str, Field(max_length=200)] = ""


class Challenge(BaseModel):
    """A request that the server prove that it knows a token."""

    model_config = ConfigDict(extra="forbid")
    id: Annotated[str, Field(max_length=40)]
    nonce: Nonce


class _Waiting(NamedTuple):
    caller: Caller
    secret: str
    until: float


class PageDoor:
    """Keys that were given out and not used yet; `address` returns the page's URL for browsers on this machine."""

    def __init__(self) -> None:
        self._keys: dict[str, _Waiting] = {}
        self._no_token = secrets.token_hex(32)  # for proofs of tokens that do not exist
        self.address: Callable[[], Awaitable[str]] | None = None

    def new_key(self, caller: Caller) -> str:
        """Make a key for this caller: NAME.SECRET."""
        now = time.monotonic()
        self._keys = {key: one for key, one in self._keys.items() if one.until > now}
        own = sum(one.caller.number == caller.number for one in self._keys.values())
        if own >= MOST_OF_ONE or len(self._keys) >= MOST_KEYS - (0 if caller.operates else KEPT_KEYS):
            raise Refusal(429, "too many links wait to be opened", "page", "open one of them, or wait two minutes")
        name, secret = secrets.token_hex(8), secrets.token_urlsafe(24)
        self._keys[name] = _Waiting(caller, secret, now + KEY_S)
        return f"{name}.{secret}"

    def use(self, entry: Entry) -> tuple[Caller, Entered] | None:
        """Use up a key and return its caller and the session. None: the key is unknown or too old."""
        found = self._keys.get(entry.key)
        if found is None or not same(entry.proof, signature(found.secret.encode(), "enter", entry.nonce)):
            return None
        del self._keys[entry.key]
        return (found.caller, enter(found.secret.encode(), entry.nonce)) if found.until > time.monotonic() else None

    def prove(self, token: Token | None, challenge: Challenge) -> str:
        """Prove that this server knows the token, without revealing whether a token exists."""
        known = hash_of(f"{self._no_token}{challenge.id}") if token is None else token.hash
        return signature(known.encode(), "prove", challenge.nonce)


@router.post("/link", status_code=201)
async def link(request: Request, parts: Service, caller: Identified) -> Response:
    """Make a link for the caller's browser; over the socket only: a token opens the page without a link."""
    door: PageDoor = request.app.state.page_door
    if not caller.local or door.address is None:
        raise Refusal(403, "links are made over the socket only", "page", "open the page and give it your token")
    if parts.tokens.number_of(caller.user) != caller.number:
        raise Refusal(403, "the user has no account of that name here", caller.user, "ask an administrator")
    address = await door.address()
    return reply({"url": f"{address}/#key={door.new_key(caller)}", "good_for_s": KEY_S}, 201)


@router.post("/prove")
async def prove(challenge: Challenge, request: Request, parts: Service) -> Response:
    """Prove that this server issued a token; a page asks for this before it sends the token."""
    door: PageDoor = request.app.state.page_door
    token = parts.tokens.get(challenge.id)
    usable = token if token is not None and not token.page and token.valid(time.time()) else None
    return reply({"proof": door.prove(usable, challenge)})


@router.post("/enter")
async def enter_page(entry: Entry, request: Request, parts: Service) -> Response:
    """Open a session for a link or a token; a link is used up."""
    door: PageDoor = request.app.state.page_door
    state = request.scope["state"]
    if entry.token:
        caller = parts.door.of_token(entry.token, state)
        entered = enter(hash_of(entry.token).encode(), entry.nonce)
    else:
        used = door.use(entry)
        if used is None:
            raise Refusal(401, "this link was used before, or is too old", "key", "make a new one: cohabit page")
        caller, entered = used

    async def add() -> Token:
        return parts.tokens.add_page(caller.user, caller.number, parts.tokens.get(caller.token))

    made = await parts.change(caller, "enter page", f"for {caller.user}", add())
    parts.sessions.open(made.id, entered.secret)
    return reply(
        {"id": made.id, "nonce": entered.nonce, "proof": entered.proof, "user": caller.user, "at": time.time()}
    )


@router.post("/leave")
async def leave(parts: Service, caller: Identified) -> Response:
    """End the session."""
    if not caller.page:
        raise Refusal(403, "this is not a page", "page", "revoke a token instead: cohabit token revoke")

    async def revoke() -> None:
        parts.tokens.revoke(caller.token)

    await parts.change(caller, "leave page", f"for {caller.user}", revoke())
    return reply({"id": caller.token})
