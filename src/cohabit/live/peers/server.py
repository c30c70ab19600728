"""The HTTP endpoint for peers: it takes only signed messages and, where there is one, questions about the threshold.

Everything about a request is checked before its content is used, and its size before it is read. A refusal has a
reason. An accepted message is put into the controller's inbox; it is not durable, and need not be: the protocol asks
again. It listens on loopback unless configured otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import h11

from cohabit.live.controller.slots import Held, Slots
from cohabit.live.peers.messages import CONTENT_TYPE, KEY_HEADER, PATH, SIGNATURE_HEADER, THRESHOLD_PATH, Peer
from cohabit.live.peers.origins import NoteRefusal, no_note, origin_of
from cohabit.model.errors import InputError
from cohabit.model.peer import Message, decode

MOST_BYTES = 64 * 1024
MOST_CONNECTIONS, OF_ONE_PEER = 256, 32  # of authenticated peers
MOST_STRANGERS, OF_ONE_ORIGIN = 64, 24  # of others, by address or local user
REQUEST_S, IDLE_S = 10.0, 120.0
REMEMBERED = 1024  # messages of each peer, so that a repeated one costs nothing
log = logging.getLogger(__name__)


class Refusal(Exception):
    """A refused request: an HTTP status and a sentence."""

    def __init__(self, status: int, reason: str) -> None:
        self.status, self.reason = status, reason
        super().__init__(reason)


class Request(NamedTuple):
    """A request of a peer. `certificate`: the names its certificate proves, if it showed one. `proven` is called with
    the sender as soon as it is authenticated, and refuses one that has too many connections."""

    method: str
    path: str
    headers: Mapping[str, str]
    certificate: frozenset[str] = frozenset()
    proven: Callable[[str], None] = lambda sender: None


class Reply(NamedTuple):
    """The reply to a question of a peer."""

    status: int
    body: bytes
    kind: str  # content type
    headers: Mapping[str, str] = {}


class Doorkeeper:
    """Checks requests, without any network access."""

    path, about = PATH, "peer"  # where messages are posted, and the callers' kind for the audit log

    def __init__(self, domain: str, peers: Mapping[str, Peer], hear: Callable[[Message], bool]) -> None:
        self._domain, self._peers, self._hear = domain, peers, hear
        self._heard: dict[str, tuple[int, dict[int, None]]] = {}  # for each peer its epoch and latest numbers
        self.threshold: Callable[[Request, bytes], Awaitable[Reply]] | None = None  # answers questions about it
        self.refused: NoteRefusal = no_note

    def check_head(self, request: Request) -> int:
        """Refuse what is wrong before the content is read; return the length to read."""
        if request.path != self.path and not (request.path == THRESHOLD_PATH and self.threshold is not None):
            raise Refusal(404, "there is only " + self.path)
        if request.method != "POST":
            raise Refusal(405, "messages are posted")
        if request.headers.get("content-type", "") != CONTENT_TYPE:
            raise Refusal(415, f"the content must be {CONTENT_TYPE}")
        length = request.headers.get("content-length", "")
        if not length.isdigit() or "transfer-encoding" in request.headers:
            raise Refusal(411, "the length of the content must be given")
        if int(length) > MOST_BYTES:
            raise Refusal(413, f"a message has at most {MOST_BYTES} bytes")
        return int(length)

    def admit(self, request: Request, content: bytes) -> None:
        """Accept a message, or refuse it."""
        try:
            message = decode(content)
        except InputError as error:
            raise Refusal(400, error.what) from None
        peer = self._peers.get(message.sender)
        if peer is None:
            raise Refusal(403, "the sender is not a peer of this domain")
        if not _proven(peer, request, message):
            raise Refusal(401, "the sender could not be authenticated")
        request.proven(message.sender)
        if message.receiver != self._domain:
            raise Refusal(421, "the message is for another domain")
        epoch, numbers = self._heard.get(message.sender, (0, {}))
        if message.epoch < epoch or (message.epoch == epoch and message.seq in numbers):
            raise Refusal(409, "the message was received before, or its sender has restarted since")
        if not self._hear(message):
            raise Refusal(503, "too busy, try again")
        if message.epoch > epoch:
            numbers = {}
        numbers[message.seq] = None
        if len(numbers) > REMEMBERED:
            del numbers[next(iter(numbers))]
        self._heard[message.sender] = (message.epoch, numbers)

    def log_refusal(self, caller: object, refusal: Refusal) -> None:
        """Log a refusal, except of messages that are repeated by design."""
        if refusal.status != 409:
            log.warning("a message from %s was refused: %s", caller, refusal.reason)


def _proven(peer: Peer, request: Request, message: Message) -> bool:
    if peer.keys is None:
        return peer.domain in request.certificate
    return peer.keys.signed(message, request.headers.get(KEY_HEADER, ""), request.headers.get(SIGNATURE_HEADER, ""))


class PeerServer:
    """The listener for peers."""

    def __init__(
        self,
        door: Doorkeeper,
        host: str,
        port: int,
        context: ssl.SSLContext | None = None,
        listener: socket.socket | None = None,
    ) -> None:
        self._door, self._host, self._port, self._context, self._listener = door, host, port, context, listener
        self._server: asyncio.Server | None = None
        self._talking: dict[asyncio.StreamWriter, asyncio.Event] = {}  # connections, and whether each has ended
        self._peers = Slots(MOST_CONNECTIONS, OF_ONE_PEER)
        self._strangers = Slots(MOST_STRANGERS, OF_ONE_ORIGIN)

    async def open(self) -> int:
        """Start to listen; return the port."""
        try:
            where = {"host": self._host, "port": self._port} if self._listener is None else {"sock": self._listener}
            handshake_s = None if self._context is None else REQUEST_S
            self._server = await asyncio.start_server(
                self._serve, **where, ssl=self._context, ssl_handshake_timeout=handshake_s
            )
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InputError(f"cannot listen: {reason}", f"{self._host}:{self._port}", "choose another port") from error
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            self._server.close()
        for writer, over in list(self._talking.items()):
            writer.transport.abort()
            await over.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        origin = origin_of(writer.transport)
        held = Held()
        if not held.move(self._strangers, origin.counted):
            self._door.refused(origin.counted, f"{self._door.about} connects", "", 429, "too many connections")
            writer.close()
            return

        def proven(sender: str) -> None:
            if not held.move(self._peers, sender):
                raise Refusal(429, f"{sender} has too many connections")

        over = self._talking[writer] = asyncio.Event()
        try:
            await _Conversation(self._door, reader, writer, proven).hold()
        except (TimeoutError, ConnectionError, ssl.SSLError):
            pass  # the peer is gone
        except h11.RemoteProtocolError as error:
            self._door.refused(origin.counted, f"{self._door.about} connects", "", 400, str(error))
        finally:
            held.leave()
            del self._talking[writer]
            over.set()
            writer.close()


class _Conversation:
    """One connection: requests one after the other."""

    def __init__(
        self,
        door: Doorkeeper,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        proven: Callable[[str], None],
    ) -> None:
        self._door, self._reader, self._writer, self._proven = door, reader, writer, proven
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=16 * 1024)
        self._names = _names(writer.get_extra_info("peercert"))

    async def hold(self) -> None:
        patience_s = REQUEST_S
        while True:
            async with asyncio.timeout(patience_s):
                head = await self._next()
            if not isinstance(head, h11.Request):
                return
            async with asyncio.timeout(REQUEST_S):
                if not await self._answer(head):
                    return
            self._http.start_next_cycle()
            patience_s = IDLE_S

    async def _answer(self, head: h11.Request) -> bool:
        """Handle a request; return whether the connection can be used again."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in head.headers}
        request = Request(
            head.method.decode("latin-1"),
            head.target.decode("latin-1").partition("?")[0],
            headers,
            self._names,
            self._proven,
        )
        try:
            self._door.check_head(request)
            content = b""
            while isinstance(part := await self._next(), h11.Data):
                content += part.data
            if request.path == THRESHOLD_PATH and self._door.threshold is not None:
                await self._send(await self._unless_gone(self._door.threshold(request, content)))
            else:
                self._door.admit(request, content)
                await self._say(202, "taken")
        except Refusal as refusal:
            self._note(request, refusal)
            await self._say(refusal.status, refusal.reason)
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    def _note(self, request: Request, refusal: Refusal) -> None:
        """Write a refusal to the log and the audit log: a wrong signature or a repeated message may be an attack."""
        if refusal.status != 503:
            self._door.log_refusal(self._writer.get_extra_info("peername"), refusal)
            origin, about = origin_of(self._writer.transport).counted, f"{request.method} {request.path}"
            self._door.refused(origin, f"{self._door.about} message", about, refusal.status, refusal.reason)

    async def _next(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(64 * 1024))
        return event

    async def _unless_gone(self, answer: Awaitable[Reply]) -> Reply:
        """Return the answer; stop if the peer disconnects, because its run does not wait at the threshold any more."""
        coming, more = asyncio.ensure_future(answer), asyncio.ensure_future(self._reader.read(64 * 1024))
        try:
            await asyncio.wait({coming, more}, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done() and not more.result():
                raise ConnectionResetError
            reply = await coming
            if more.done():  # its next question
                self._http.receive_data(more.result())
            return reply
        finally:
            for task in (coming, more):
                task.cancel()
            await asyncio.gather(coming, more, return_exceptions=True)

    async def _say(self, status: int, sentence: str) -> None:
        await self._send(Reply(status, sentence.encode() + b"\n", "text/plain; charset=utf-8"))

    async def _send(self, reply: Reply) -> None:
        headers = [("content-type", reply.kind), ("content-length", str(len(reply.body))), *reply.headers.items()]
        if self._http.their_state is not h11.DONE:
            headers.append(("connection", "close"))
        answer: list[h11.Event] = [h11.Response(status_code=reply.status, headers=headers), h11.Data(data=reply.body)]
        for event in (*answer, h11.EndOfMessage()):
            data = self._http.send(event)
            if data:
                self._writer.write(data)
        await self._writer.drain()


def _names(certificate: dict[str, Any] | None) -> frozenset[str]:
    """Return the names a peer's certificate proves: its alternative names, or its common name where there are none."""
    if not certificate:
        return frozenset()
    alternative = {value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"}
    common = {value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"}
    return frozenset(alternative or common)
