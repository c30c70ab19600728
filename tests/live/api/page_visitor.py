"""A page without a browser: it enters by a link or a token and signs requests, as src/cohabit/page/source.js does."""

from __future__ import annotations

import hashlib
import http.client
import json
import secrets
import time
from typing import Any
from urllib.parse import urlsplit

from cohabit.live.api.page.sessions import Asked, request_signature, signature
from tests.live.api.serving import PATIENCE_S, Answer, ask


class Visitor:
    """A session with the server at HOST:PORT."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.id, self.secret = "", b""

    def enter(self, link: str) -> Answer:
        """By a link."""
        name, _, secret = link.partition("#key=")[2].partition(".")
        nonce = secrets.token_urlsafe(16)
        entry = {"key": name, "nonce": nonce, "proof": signature(secret.encode(), "enter", nonce)}
        return self._enter(entry, secret.encode(), nonce)

    def sign_in(self, token: str) -> Answer:
        """By a token."""
        nonce = secrets.token_urlsafe(16)
        return self._enter({"token": token, "nonce": nonce}, hashlib.sha256(token.encode()).hexdigest().encode(), nonce)

    def _enter(self, entry: dict[str, str], known: bytes, nonce: str) -> Answer:
        answer = ask(self.link(), "POST", "/v1/page/enter", entry)
        if answer.status == 200:
            self.id = answer.body["id"]
            self.secret = bytes.fromhex(signature(known, "session", nonce, answer.body["nonce"]))
            assert answer.body["proof"] == signature(self.secret, "server")
        return answer

    def link(self) -> http.client.HTTPConnection:
        """A connection."""
        return http.client.HTTPConnection(self.host, timeout=PATIENCE_S)

    def headers(self, method: str, target: str, content: bytes = b"", at: float | None = None) -> dict[str, str]:
        """The signature of one request."""
        when, nonce = str(round(1000 * (time.time() if at is None else at))), secrets.token_urlsafe(16)
        signed = request_signature(self.secret, Asked(method, target, content), when, nonce)
        return {"Authorization": f"Page {self.id} {when} {nonce} {signed}"}

    def ask(self, method: str, target: str, body: Any = None) -> Answer:
        """One signed request."""
        content = b"" if body is None else json.dumps(body).encode()
        return ask(self.link(), method, target, content or None, self.headers(method, target, content))


def visitor(link: str) -> Visitor:
    """Somebody who has opened this link."""
    one = Visitor(urlsplit(link).netloc)
    answer = one.enter(link)
    assert answer.status == 200, answer
    return one
