"""Questions of one controller to another about the threshold: a signed request, and a signed answer that may take a
second. This module decides nothing, and rejects what is not authenticated.
"""

from __future__ import annotations

import logging
import secrets
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from cohabit.live.peers.messages import (
    CONTENT_TYPE,
    KEY_HEADER,
    SIGNATURE_HEADER,
    THRESHOLD_PATH,
    Peer,
    http_client,
)
from cohabit.live.peers.server import Refusal, Reply, Request
from cohabit.live.peers.threshold import Ask

if TYPE_CHECKING:
    import httpx

ASK_S = 4.0  # an answer that has not come by then will not come
MOST_AT_ONCE = 16
LIVES, REMEMBERED = 8, 1024  # of a peer; questions of each
_ASKED, _ANSWERED = b"cohabit threshold asks\0", b"cohabit threshold answers\0"
log = logging.getLogger(__name__)


class _Question(msgspec.Struct, frozen=True):
    """A question with `life` and `number` of the asking process; a question heard before is refused."""

    ask: Ask
    life: str
    number: int


class _Answer(msgspec.Struct, frozen=True):
    opened: bool
    life: str
    number: int


class ThresholdLinks:
    """The client for questions to other domains."""

    def __init__(self, peers: Mapping[str, Peer], context: ssl.SSLContext | None = None) -> None:
        self._peers, self._context = peers, context
        self._client: httpx.AsyncClient | None = None
        self._life, self._number = secrets.token_hex(8), 0
        self._trouble: dict[str, str] = {}

    async def open(self) -> None:
        """Create the HTTP client."""
        self._client = http_client(self._context, MOST_AT_ONCE, ASK_S, ASK_S)

    async def close(self) -> None:
        """Close the HTTP client."""
        if self._client is not None:
            await self._client.aclose()

    async def ask(self, ask: Ask) -> bool | None:
        """Return whether the threshold is open; None: there was no authenticated answer."""
        import httpx

        peer = self._peers.get(ask.receiver)
        if peer is None or self._client is None:
            return None
        self._number += 1
        question = _Question(ask, self._life, self._number)
        content = msgspec.msgpack.encode(question)
        headers = {"content-type": CONTENT_TYPE}
        if peer.keys is not None:
            headers |= {KEY_HEADER: peer.keys.current, SIGNATURE_HEADER: peer.keys.seal(_ASKED + content)}
        try:
            said = await self._client.post(peer.url.rstrip("/") + THRESHOLD_PATH, content=content, headers=headers)
        except (httpx.HTTPError, OSError) as error:
            answer, trouble = None, f"is not reached: {error or type(error).__name__}"
        else:
            answer, trouble = _read(said, peer, question)
        if trouble and self._trouble.get(peer.domain) != trouble:
            log.warning("the threshold of domain %s: %s", peer.domain, trouble)
        self._trouble[peer.domain] = trouble
        return None if answer is None else answer.opened


def _read(said: httpx.Response, peer: Peer, question: _Question) -> tuple[_Answer | None, str]:
    """Return the answer to this question, or what is wrong with it."""
    if said.status_code != 200:
        return None, f"does not answer: {said.status_code} {said.text[:200].strip()}"
    signed = said.headers.get(SIGNATURE_HEADER, "")
    if peer.keys is not None and not peer.keys.sealed(_ANSWERED + said.content, peer.keys.current, signed):
        return None, "did not prove that the answer is its own"
    try:
        answer = msgspec.msgpack.decode(said.content, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None, "answers something else"
    if (answer.life, answer.number) != (question.life, question.number):
        return None, "answers another question"
    return answer, ""


class ThresholdEar:
    """Checks the questions of other domains before it calls `decide`."""

    def __init__(
        self, peers: Mapping[str, Peer], wrong: Callable[[Ask], str], decide: Callable[[Ask], Awaitable[bool]]
    ) -> None:
        self._peers, self._wrong, self._decide = peers, wrong, decide
        self._heard: dict[str, dict[str, dict[int, None]]] = {}  # for each peer its lives and the numbers of each

    async def answer(self, request: Request, content: bytes) -> Reply:
        """Return the reply to a peer; Refusal says why there is none."""
        try:
            question = msgspec.msgpack.decode(content, type=_Question)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refusal(400, f"is not a question: {error}") from None
        ask, keys = question.ask, ""
        peer = self._peers.get(ask.sender)
        if peer is None:
            raise Refusal(403, "the sender is not a peer of this domain")
        if peer.keys is None:
            proven = peer.domain in request.certificate
        else:
            keys = request.headers.get(KEY_HEADER, "")
            proven = peer.keys.sealed(_ASKED + content, keys, request.headers.get(SIGNATURE_HEADER, ""))
        if not proven:
            raise Refusal(401, "the sender could not be authenticated")
        request.proven(ask.sender)
        if wrong := self._wrong(ask):
            raise Refusal(421, wrong)
        if not self._is_new(question):
            raise Refusal(409, "the question was received before")
        body = msgspec.msgpack.encode(_Answer(await self._decide(ask), question.life, question.number))
        signed = {} if peer.keys is None else {SIGNATURE_HEADER: peer.keys.seal(_ANSWERED + body, keys)}
        return Reply(200, body, CONTENT_TYPE, signed)

    def _is_new(self, question: _Question) -> bool:
        """Return whether it was not heard before; a number too old to be remembered counts as heard."""
        lives = self._heard.setdefault(question.ask.sender, {})
        if question.life not in lives and len(lives) >= LIVES:
            del lives[next(iter(lives))]
        numbers = lives.setdefault(question.life, {})
        if question.number in numbers or (len(numbers) >= REMEMBERED and question.number < next(iter(numbers))):
            return False
        numbers[question.number] = None
        if len(numbers) > REMEMBERED:
            del numbers[next(iter(numbers))]
        return True
