"""Who calls: the kernel's word for callers over the UNIX socket, a token for those over TCP. Nobody else is heard.

What a connection proves is put beside it when it is made (server.py) and can come from no header. Names of users come
from the machine's accounts, asked in a thread and remembered for a minute: a slow directory stops nobody else.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from socket import SO_PEERCRED, SOL_SOCKET
from typing import Any, NamedTuple

from cohabit.live.api.problems import Refusal
from cohabit.live.api.settings import ADMIN, OPERATOR, ApiSettings
from cohabit.live.api.tokens import FIRST_NUMBER, Tokens

REMEMBERED_S = 60.0
_FORM = "3i"


class Peer(NamedTuple):
    """What the kernel says of the process at the other end of a UNIX socket."""

    pid: int
    uid: int
    gid: int


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
    """Somebody whose identity is proven."""

    user: str
    number: int  # uid, or a number of ours for users without an account here
    role: str
    origin: str  # for the audit log
    local: bool  # over the UNIX socket
    gid: int = -1  # of the calling process, where the kernel says so

    @property
    def operates(self) -> bool:
        """May see and touch what is not theirs."""
        return self.role in (OPERATOR, ADMIN)

    @property
    def administers(self) -> bool:
        """May hand out tokens to others."""
        return self.role == ADMIN


def peer_of(transport: asyncio.BaseTransport) -> Peer:
    """The credentials of whoever connected."""
    socket = transport.get_extra_info("socket")
    return Peer(*struct.unpack(_FORM, socket.getsockopt(SOL_SOCKET, SO_PEERCRED, struct.calcsize(_FORM))))


class Accounts:
    """The machine's users, remembered for a while."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._known: dict[int | str, tuple[float, Account | None]] = {}

    async def find(self, who: int | str) -> Account | None:
        """An account by uid or name; None: there is none."""
        known = self._known.get(who)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        found = await asyncio.to_thread(_look_up, who)
        if len(self._known) > 10_000:
            self._known.clear()
        self._known[who] = (time.monotonic() + REMEMBERED_S, found)
        return found

    async def name_of(self, number: int) -> str:
        """What a user is called."""
        if number < 0:
            return ""
        if number >= FIRST_NUMBER:
            return self._tokens.name_of(number) or str(number)
        account = await self.find(number)
        return account.name if account is not None else str(number)

    async def number_of(self, name: str) -> int | None:
        """The number of a user by name; None: nobody of that name is known."""
        account = await self.find(name)
        if account is not None:
            return account.uid
        if name.isascii() and name.isdigit() and int(name) < FIRST_NUMBER:
            return int(name)
        return next((one.number for one in self._tokens.all() if one.user == name), None)


class Door:
    """Turns a connection and its headers into a caller, or refuses."""

    def __init__(self, settings: ApiSettings, tokens: Tokens, accounts: Accounts) -> None:
        self._settings, self._tokens, self._accounts = settings, tokens, accounts
        self._own = os.geteuid()

    async def caller(self, state: Mapping[str, Any], headers: Mapping[str, str]) -> Caller:
        """Who this is."""
        peer, address = state.get("peer"), state.get("address", "")
        if isinstance(peer, Peer):
            name = await self._accounts.name_of(peer.uid)
            return Caller(name, peer.uid, self.role_of(name, peer.uid), f"socket, process {peer.pid}", True,
                          peer.gid)  # fmt: skip
        kind, _, text = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not text.strip():
            raise Refusal(401, "no token was given", "Authorization", "send: Authorization: Bearer TOKEN")
        token = self._tokens.check(text.strip())
        if token is None:
            raise Refusal(401, "the token is wrong, expired or revoked", "Authorization", "ask for a new one")
        return Caller(token.user, token.number, self.role_of(token.user, token.number),
                      f"{address}, token {token.id}", False)  # fmt: skip

    def role_of(self, name: str, number: int) -> str:
        """The serving user and root administer; the site file says who else does."""
        if number in (0, self._own):
            return ADMIN
        return self._settings.limits_of(name).role


def _look_up(who: int | str) -> Account | None:
    try:
        found = pwd.getpwuid(who) if isinstance(who, int) else pwd.getpwnam(who)
    except (KeyError, OverflowError, ValueError):
        return None
    groups = tuple(os.getgrouplist(found.pw_name, found.pw_gid))
    return Account(found.pw_name, found.pw_uid, found.pw_gid, groups, found.pw_dir, found.pw_shell)
