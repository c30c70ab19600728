"""Identify callers: by the kernel's credentials over the UNIX socket, by a token over TCP. All others are refused.

What a connection proves is stored with it when it is opened (server.py) and never comes from a header. User names come
from the machine's accounts, looked up in a thread and cached for a minute: a slow directory blocks no other request.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from cohabit.live.api.page.sessions import Asked, PageSessions
from cohabit.live.api.problems import Refusal
from cohabit.live.api.settings import ADMIN, OPERATOR, USER, ApiSettings
from cohabit.live.api.tokens import FIRST_NUMBER, Token, Tokens
from cohabit.live.peers.origins import Peer

REMEMBERED_S = 60.0


class Account(NamedTuple):
    """An account of this machine."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str


@dataclass(frozen=True)
class Caller:
    """A caller with a proven identity."""

    user: str
    number: int  # uid, or a number assigned by the server to users without an account here
    role: str
    origin: str  # for the audit log
    local: bool  # over the UNIX socket
    gid: int = -1  # of the calling process, if the kernel reports it
    token: str = ""  # the ID of the presented token; empty: over the socket
    page: bool = False  # the token belongs to a page

    @property
    def operates(self) -> bool:
        """True if the caller may see and change what belongs to other users."""
        return self.role in (OPERATOR, ADMIN)

    @property
    def administers(self) -> bool:
        """True if the caller may make tokens for other users."""
        return self.role == ADMIN


class Accounts:
    """The machine's accounts, cached for a minute."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._known: dict[int | str, tuple[float, Account | None]] = {}

    async def find(self, uid_or_name: int | str) -> Account | None:
        """Return an account by uid or name; None: there is none."""
        known = self._known.get(uid_or_name)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        found = await asyncio.to_thread(_look_up, uid_or_name)
        if len(self._known) > 10_000:
            self._known.clear()
        self._known[uid_or_name] = (time.monotonic() + REMEMBERED_S, found)
        return found

    async def name_of(self, number: int) -> str:
        """Return the name of a user."""
        if number < 0:
            return ""
        if number >= FIRST_NUMBER:
            return self._tokens.name_of(number) or str(number)
        account = await self.find(number)
        return account.name if account is not None else str(number)

    async def number_of(self, name: str) -> int | None:
        """Return the number of a user by name; None: the name is unknown."""
        account = await self.find(name)
        if account is not None:
            return account.uid
        if name.isascii() and name.isdigit() and int(name) < FIRST_NUMBER:
            return int(name)
        return next((one.number for one in self._tokens.all() if one.user == name), None)


class Door:
    """Turns a connection and its headers into a caller, or refuses."""

    def __init__(self, settings: ApiSettings, tokens: Tokens, accounts: Accounts, sessions: PageSessions) -> None:
        self._settings, self._tokens, self._accounts, self._sessions = settings, tokens, accounts, sessions
        self._own = os.geteuid()
        found = (
            _look_up(int(name) if name.isdigit() else name) for name, one in settings.users.items() if one.role != USER
        )
        self._favoured = {0, self._own, *(one.uid for one in found if one is not None)}

    async def caller(self, state: Mapping[str, Any], headers: Mapping[str, str], asked: Asked) -> Caller:
        """Return the caller, or refuse."""
        peer = state.get("peer")
        if isinstance(peer, Peer):
            name = await self._accounts.name_of(peer.uid)
            return Caller(name, peer.uid, self.role_of(name, peer.uid), f"socket, process {peer.pid}", True, peer.gid)
        kind, _, text = headers.get("authorization", "").partition(" ")
        if kind.lower() == "page":
            return self._of_page(text.strip(), asked, state)
        if kind.lower() != "bearer" or not text.strip():
            raise Refusal(401, "no token was given", "Authorization", "send: Authorization: Bearer TOKEN")
        return self.of_token(text.strip(), state)

    def of_token(self, text: str, state: Mapping[str, Any]) -> Caller:
        """Return the caller for a token that was sent."""
        token = self._tokens.check(text)
        if token is None:
            raise Refusal(
                401,
                "the token is wrong, expired or revoked",
                "Authorization",
                "ask for a new one",
                noted=self._what_is_wrong(text),
            )
        return self._known(token, state)

    def _of_page(self, text: str, asked: Asked, state: Mapping[str, Any]) -> Caller:
        name = self._sessions.check(text, asked)
        token = None if name is None else self._tokens.get(name)
        if token is None:
            raise Refusal(
                401,
                "the session has ended, or the request is not signed correctly",
                "Authorization",
                "open the page again: cohabit page",
            )
        return self._known(token, state)

    def _known(self, token: Token, state: Mapping[str, Any]) -> Caller:
        return Caller(
            token.user,
            token.number,
            self.role_of(token.user, token.number),
            f"{state.get('address', '')}, token {token.id}",
            False,
            token=token.id,
            page=token.page,
        )

    def _what_is_wrong(self, text: str) -> str:
        """For the audit log only."""
        found = self._tokens.get(text.partition(".")[0])
        if found is None:
            return "no such token"
        if found.revoked_at is not None:
            return f"token {found.id} was revoked"
        if not found.valid(time.time()):
            return f"token {found.id} has expired"
        return f"not the secret of token {found.id}"

    def still(self, caller: Caller) -> bool:
        """Return whether the caller's token is still valid; checked again during long answers."""
        return not caller.token or self._tokens.valid(caller.token)

    def favours(self, uid: int) -> bool:
        """Return whether a local user is root, the serving user or an operator: some connections are theirs alone."""
        return uid in self._favoured

    def role_of(self, name: str, number: int) -> str:
        """Return a user's role: admin for the serving user and root, otherwise as in the site file."""
        if number in (0, self._own):
            return ADMIN
        return self._settings.limits_of(name).role


def _look_up(uid_or_name: int | str) -> Account | None:
    try:
        found = pwd.getpwuid(uid_or_name) if isinstance(uid_or_name, int) else pwd.getpwnam(uid_or_name)
    except (KeyError, OverflowError, ValueError):
        return None
    groups = tuple(os.getgrouplist(found.pw_name, found.pw_gid))
    return Account(found.pw_name, found.pw_uid, found.pw_gid, groups, found.pw_dir, found.pw_shell)
