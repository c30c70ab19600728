"""A page in a browser authenticates by signing every request. No secret is sent after login.

A port can pass to another process: the server ends, or an ssh tunnel does, and another process listens there. A page
that sends a token gives it to that process. So the link's key, the token of a session and what is derived from them
stay in the browser, and requests carry

    Authorization: Page ID AT NONCE SIGNATURE

with SIGNATURE = HMAC-SHA256(secret, "request", METHOD, TARGET, AT, NONCE, sha256(BODY)), lines joined by a line feed.
AT is the server's time in milliseconds. A signature is valid once and for a minute. Secrets are in memory only.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from typing import NamedTuple

GOOD_S = 60.0  # how much a signature's time may differ from the server's
MOST_SEEN = 20_000  # signatures of one session within two minutes
_FORM = re.compile(r"([0-9a-f]{4,40}) ([0-9]{1,16}) ([0-9A-Za-z_-]{16,64}) ([0-9a-f]{64})")


class Asked(NamedTuple):
    """The parts of a request that a signature covers."""

    method: str
    target: str  # path and query as they were sent
    body: bytes


class Entered(NamedTuple):
    """A new session: the server's nonce, the secret, and the server's proof that it knows the key."""

    nonce: str
    secret: bytes
    proof: str


def signature(secret: bytes, *words: str) -> str:
    """Return the HMAC of some words."""
    return hmac.new(secret, "\n".join(words).encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def request_signature(secret: bytes, asked: Asked, at: str, nonce: str) -> str:
    """Return the signature that a page sends with a request."""
    body = hashlib.sha256(asked.body).hexdigest()
    return signature(secret, "request", asked.method, asked.target, at, nonce, body)


def enter(key: bytes, nonce: str) -> Entered:
    """Derive the secret of a session from a shared key and a nonce of each side; the key itself is not sent."""
    own = secrets.token_urlsafe(16)
    secret = bytes.fromhex(signature(key, "session", nonce, own))
    return Entered(own, secret, signature(secret, "server"))


def same(given: str, expected: str) -> bool:
    """Return whether two signatures are the same, in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


class PageSessions:
    """The secrets of sessions by their ID. `lives` returns whether a session is still valid."""

    def __init__(self, lives: Callable[[str], bool]) -> None:
        self._lives = lives
        self._secrets: dict[str, bytes] = {}
        self._seen: dict[str, dict[str, float]] = {}

    def open(self, name: str, secret: bytes) -> None:
        """Add a session and forget those that have ended."""
        for old in [one for one in self._secrets if not self._lives(one)]:
            del self._secrets[old], self._seen[old]
        self._secrets[name], self._seen[name] = secret, {}

    def check(self, text: str, asked: Asked) -> str | None:
        """Return the session that made a signature; None: it is wrong, too old, or was used before."""
        found = _FORM.fullmatch(text)
        if found is None:
            return None
        name, at, nonce, given = found.groups()
        secret, now = self._secrets.get(name), time.time()
        expected = request_signature(secret if secret is not None else b"", asked, at, nonce)
        if not same(given, expected) or secret is None or abs(int(at) / 1000 - now) > GOOD_S:
            return None
        if not self._lives(name):
            return None
        return name if self._is_new(self._seen[name], nonce, now) else None

    def _is_new(self, seen: dict[str, float], nonce: str, now: float) -> bool:
        while seen and (oldest := next(iter(seen))) and seen[oldest] < now - 2 * GOOD_S:
            del seen[oldest]
        if nonce in seen or len(seen) >= MOST_SEEN:
            return False
        seen[nonce] = now
        return True
