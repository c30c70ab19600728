"""Run uvicorn on the controller's event loop: a UNIX socket that identifies callers, and TCP with optional TLS.

It handles no signals (the controller's process does) and never waits for a client: each connection has its own task,
stops reading and writing when its client is slow, and is closed if no request comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
import ssl
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from cohabit.live.api.credentials import Caller
from cohabit.live.api.settings import ApiSettings, is_loopback
from cohabit.live.controller.place import Place
from cohabit.live.controller.slots import Held, Slots
from cohabit.live.peers.origins import Origin, origin_of, peer_of
from cohabit.model.errors import InputError

FIRST_REQUEST_S = 30.0
KEEP_ALIVE_S = 75
MOST_CONNECTIONS = 1000  # of all users; fewer where the process may not open so many files
MOST_OF_ONE = 200  # of one user
MOST_OF_STRANGER = 64  # of one address, before a token was presented
CLOSE_S = 3.0
FREE_PORTS = 1024  # lower ports need root
_BACKLOG = 512
_SAID = b'{"error": "too many connections", "where": "connection", "fix": "close some of them"}'
_TOO_MANY = b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nconnection: close\r\n"
_TOO_MANY += b"content-length: %d\r\n\r\n%s" % (len(_SAID), _SAID)


class Room:
    """The limits on concurrent connections per user and per address, over all listeners of one server.

    The kernel identifies local users, over the socket and over loopback. A connection from another machine counts for
    its address until a token identifies its user.
    """

    def __init__(self, favours: Callable[[int], bool], refused: Callable[[Origin, int, str], None]) -> None:
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        most = min(MOST_CONNECTIONS, files // 2)
        self.users = Slots(most, min(MOST_OF_ONE, most // 3), most // 5)
        self.strangers = Slots(most // 4, min(MOST_OF_STRANGER, most // 8))
        self.favours, self.refused = favours, refused


class _Patient(H11Protocol):
    """Closes a connection without a complete (next) request in time, and connections beyond the limit."""

    room: Room
    origin = Origin(None, "?")

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._held = Held()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(FIRST_REQUEST_S, self._give_up, None)
        self.origin = origin_of(transport)
        self.app_state = {**self.app_state, "origin": self.origin, "connection": self, **self._about(transport)}
        uid = self.origin.uid
        if uid is None:
            fits = self._held.move(self.room.strangers, self.origin.address)
        else:  # the kernel may report root for a closed socket: over TCP a uid gives no priority
            fits = self._held.move(self.room.users, uid, not self.origin.address and self.room.favours(uid))
        if not fits:
            self.room.refused(self.origin, 429, "too many connections")
            transport.write(_TOO_MANY)
            transport.close()

    def send_400_response(self, msg: str) -> None:
        """Record input that is not HTTP as a refusal, too."""
        self.room.refused(self.origin, 400, msg)
        super().send_400_response(msg)

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the slot of the connection."""
        super().connection_lost(exc)
        self._held.leave()

    def is_of(self, caller: Caller) -> bool:
        """Count the connection for this user from now on; False: the user has too many."""
        return caller.local or self._held.move(self.room.users, caller.number, caller.operates)

    def _about(self, transport: asyncio.Transport) -> dict[str, Any]:
        raise AssertionError("each door says what it knows of a caller")

    def on_response_complete(self) -> None:
        """Allow the next request the keep-alive time for its first byte, then as long as the first request had."""
        super().on_response_complete()
        self.loop.call_later(KEEP_ALIVE_S + FIRST_REQUEST_S, self._give_up, self.cycle)

    def _give_up(self, last: object) -> None:
        if self.cycle is last and not self.transport.is_closing():
            self.transport.close()


class _Local(_Patient):
    """Stores the kernel's credentials of the caller with the connection."""

    def _about(self, transport: asyncio.Transport) -> dict[str, Any]:
        return {"peer": peer_of(transport)}


class _Remote(_Patient):
    """Stores the caller's address with the connection."""

    def _about(self, transport: asyncio.Transport) -> dict[str, Any]:
        return {"address": self.origin.address}


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the controller."""
        yield


class Listeners(NamedTuple):
    """Sockets opened by a process with more rights; None: not opened by it."""

    path: Path
    local: socket.socket | None = None
    api: socket.socket | None = None
    peers: socket.socket | None = None

    @property
    def inode(self) -> int:
        """The inode of the socket at `path`; 0: there is no socket."""
        return 0 if self.local is None else os.lstat(self.path).st_ino


def open_listeners(settings: ApiSettings | None, place: Place, peer_host: str, peer_port: int) -> Listeners:
    """Open all sockets of a controller. The port for peers is opened only if that needs root; 0: there are no peers."""
    peers = _tcp_socket(peer_host, peer_port) if 0 < peer_port < FREE_PORTS else None
    if settings is None:
        return Listeners(place.socket, peers=peers)
    path = settings.socket or place.socket
    tcp = _tcp_socket(settings.host, settings.port) if settings.host else None
    return Listeners(path, _unix_socket(path), tcp, peers)


class ApiServer:
    """Both listeners of one app. `listeners`: sockets already open; `context`: the TLS context for callers over TCP."""

    def __init__(
        self,
        app: FastAPI,
        settings: ApiSettings,
        place: Path,
        room: Room,
        listeners: Listeners | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._app, self._settings, self._context = app, settings, context
        self._local, self._remote = (type(one.__name__, (one,), {"room": room}) for one in (_Local, _Remote))
        self._listeners = listeners or Listeners(settings.socket or Place(place).socket)
        self.path = self._listeners.path
        self.port = 0  # of TCP, once open
        self._page_port, self._opening = 0, asyncio.Lock()  # of the page, if TCP is not on loopback
        self._running: list[tuple[_Server, asyncio.Task[None]]] = []

    async def open(self) -> None:
        """Listen; return when callers can connect."""
        await self._serve(self._local, self._listeners.local or _unix_socket(self.path))
        if self._settings.host:
            listener = self._listeners.api or _tcp_socket(self._settings.host, self._settings.port)
            self.port = listener.getsockname()[1]
            await self._serve(self._remote, listener, tls=True)

    async def loopback(self) -> str:
        """Return the page's URL for a browser on this machine; a listener on loopback is opened when first needed."""
        settings = self._settings
        if settings.host and is_loopback(settings.host) and settings.certificate is None:
            return f"http://{settings.host}:{self.port}"
        async with self._opening:
            if not self._page_port:
                listener = _tcp_socket("127.0.0.1", 0)
                self._page_port = listener.getsockname()[1]
                await self._serve(self._remote, listener)
        return f"http://127.0.0.1:{self._page_port}"

    async def close(self) -> None:
        """Stop listening; requests in progress get `CLOSE_S` seconds to finish."""
        for server, _ in self._running:
            server.should_exit = True
        await asyncio.gather(*(task for _, task in self._running), return_exceptions=True)
        self._running = []
        with contextlib.suppress(PermissionError):  # in a folder of another user: the launcher removes it
            self.path.unlink(missing_ok=True)

    async def _serve(self, protocol: type[H11Protocol], listener: socket.socket, tls: bool = False) -> None:
        config = uvicorn.Config(
            self._app,
            http=protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=_BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=round(CLOSE_S),
        )
        config.load()
        config.ssl = self._context if tls else None
        server = _Server(config)
        task = asyncio.create_task(server.serve([listener]))
        self._running.append((server, task))
        while not server.started:
            if task.done():
                task.result()
            await asyncio.sleep(0.005)


def _unix_socket(path: Path) -> socket.socket:
    """Open a socket for every user of this machine; the identity of a caller decides what it may do."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise InputError("is there and is not a socket", str(path), "choose another place")
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        os.chmod(path, 0o666)
    except OSError as error:
        listener.close()
        what = "is too long for a socket" if "too long" in str(error) else (error.strerror or str(error)).lower()
        raise InputError(f"cannot be listened on: {what}", str(path), "set [api] socket to a short path") from error
    listener.setblocking(False)
    return listener


def _tcp_socket(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be listened on: {reason}", f"{host}:{port}", "choose another address") from error
    listener.setblocking(False)
    return listener
