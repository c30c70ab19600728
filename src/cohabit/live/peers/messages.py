"""Sends signed messages to the controllers of other domains over HTTP, with a bounded queue for each.

The protocol in the core asks again by itself, so a message that is not delivered soon is dropped, the oldest first.
Delivery of a message means nothing here: only an answer of the protocol counts. An unreachable peer delays
no other.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cohabit.live.peers.keys import PairKeys
from cohabit.model.peer import Message, encode

if TYPE_CHECKING:
    import httpx

PATH, THRESHOLD_PATH = "/peer", "/threshold"
CONTENT_TYPE = "application/msgpack"
KEY_HEADER, SIGNATURE_HEADER = "cohabit-key", "cohabit-signature"
QUEUE_MOST = 256
TRIES = 3
FIRST_PAUSE_S = 0.1
CONNECT_S, EXCHANGE_S = 2.0, 5.0
STALE_S = 10.0  # a message that has waited this long is not worth sending
_HEARD = (202, 409)  # taken, or taken before
_BUSY = 503
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Peer:
    """Another domain: the address of its controller, and the keys shared with it (None: its certificate proves it)."""

    domain: str
    url: str
    keys: PairKeys | None


@dataclass
class _Link:
    peer: Peer
    waiting: deque[tuple[float, Message]] = field(default_factory=lambda: deque(maxlen=QUEUE_MOST))
    filled: asyncio.Event = field(default_factory=asyncio.Event)
    sent: int = 0
    dropped: int = 0
    trouble: str = ""  # the last failure; empty since the last success


def http_client(
    context: ssl.SSLContext | None, connections: int, exchange_s: float, connect_s: float
) -> httpx.AsyncClient:
    """Return a client for requests to peers. `context`: for https, with our own certificate where peers ask for one."""
    import httpx  # 8 MB, with what it loads: only where there are peers

    limits = httpx.Limits(max_connections=connections, keepalive_expiry=60.0)
    timeout = httpx.Timeout(exchange_s, connect=connect_s)
    return httpx.AsyncClient(limits=limits, timeout=timeout, verify=context or True, trust_env=False)


class PeerLinks:
    """The connections to all peers. `context`: for https, with our own certificate where peers ask for one."""

    def __init__(self, peers: Mapping[str, Peer], context: ssl.SSLContext | None = None) -> None:
        self._links = {name: _Link(peer) for name, peer in peers.items()}
        self._context = context
        self._client: httpx.AsyncClient | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Start to send."""
        if not self._links:
            return
        self._client = http_client(self._context, 4 * len(self._links), EXCHANGE_S, CONNECT_S)
        self._tasks = [asyncio.create_task(self._serve(link)) for link in self._links.values()]

    async def close(self) -> None:
        """Stop sending; waiting messages are lost."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()

    def post(self, domain: str, message: Message) -> None:
        """Queue a message; return at once. If too many wait, the oldest is dropped."""
        link = self._links.get(domain)
        if link is None:
            log.warning("a message for the unknown domain %s is dropped", domain)
            return
        link.dropped += len(link.waiting) == link.waiting.maxlen
        link.waiting.append((time.monotonic(), message))
        link.filled.set()

    def standing(self) -> dict[str, tuple[int, int, str]]:
        """Return for each peer: messages taken, messages dropped, and the present error."""
        return {name: (link.sent, link.dropped, link.trouble) for name, link in self._links.items()}

    async def _serve(self, link: _Link) -> None:
        while True:
            await link.filled.wait()
            if not link.waiting:
                link.filled.clear()
                continue
            since, message = link.waiting.popleft()
            if time.monotonic() - since > STALE_S:
                link.dropped += 1
                continue
            trouble = await self._deliver(link.peer, message)
            if trouble and trouble != link.trouble:
                log.warning("domain %s: %s", link.peer.domain, trouble)
            link.trouble = trouble
            link.sent += not trouble
            link.dropped += bool(trouble)

    async def _deliver(self, peer: Peer, message: Message) -> str:
        """Try a few times; return what is wrong if the message was not taken."""
        import httpx

        assert self._client is not None
        headers = {"content-type": CONTENT_TYPE}
        if peer.keys is not None:
            headers |= {KEY_HEADER: peer.keys.current, SIGNATURE_HEADER: peer.keys.sign(message)}
        content, pause_s, trouble = encode(message), FIRST_PAUSE_S, ""
        for left in reversed(range(TRIES)):
            try:
                answer = await self._client.post(peer.url.rstrip("/") + PATH, content=content, headers=headers)
            except (httpx.HTTPError, OSError) as error:
                trouble = f"is not reached: {error or type(error).__name__}"
            else:
                if answer.status_code in _HEARD:
                    return ""
                trouble = f"does not take a message: {answer.status_code} {answer.text[:200].strip()}"
                if answer.status_code != _BUSY:
                    return trouble
            if left:
                await asyncio.sleep(pause_s)
                pause_s *= 4
        return trouble
