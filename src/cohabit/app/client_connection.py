"""One question to a living scheduler, over its UNIX socket or a URL: JSON in and out, every refusal one sentence.

The standard library's HTTP and not httpx, whose import alone takes 0.2 s: somebody who submits in a loop would wait for
it every time. A connection serves one question. It must never send a token in the clear to another machine, nor over
plain HTTP to a program that does not know the token: any user of this machine can listen where a server was.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from cohabit.live.place import Place
from cohabit.model.errors import InputError

SERVER, TOKEN = "COHABIT_SERVER", "COHABIT_TOKEN"
CONNECT_S, ANSWER_S = 5.0, 60.0
PIECE = 65536
MACHINE = Path("/var/lib/cohabit")  # the place of a scheduler that root started for all accounts
LOOPBACK = ("localhost", "127.0.0.1", "::1")
BUSY = (429, 503)


class Unavailable(Exception):
    """The scheduler went away, or cannot do it now: the call was right, and may be made again later."""


class Refused(InputError):
    """The scheduler said no; the status says in which way."""

    def __init__(self, status: int, what: str, where: str = "", fix: str = "") -> None:
        super().__init__(what, where, fix)
        self.status = status


@dataclass(frozen=True)
class Address:
    """Where a scheduler listens: the path of its socket, or a URL."""

    path: str = ""
    url: str = ""

    def __str__(self) -> str:
        return self.path or self.url


def default_place() -> Path:
    """Where `cohabit up` keeps everything unless told otherwise: root where other accounts reach it, others at home."""
    if not _state_home() and os.geteuid() == 0:
        return MACHINE
    return home_place()


def home_place() -> Path:
    """The default place of an ordinary account; earlier versions had root's there, too."""
    return Path(_state_home() or Path.home() / ".local" / "state") / "cohabit"


def _state_home() -> str:
    state = os.environ.get("XDG_STATE_HOME", "")
    return state if state.startswith("/") else ""


def _usual_server() -> Path:
    """One's own scheduler, if its socket is there, else the machine's, if that is there."""
    own, machine = Place(default_place()).socket, Place(MACHINE).socket
    return machine if not os.path.exists(own) and os.path.exists(machine) else own


def find_server(given: str | None) -> Address:
    """By option, else by COHABIT_SERVER, else one's own scheduler or the machine's; a folder means the socket in it."""
    text = given or os.environ.get(SERVER, "") or str(_usual_server())
    if text.startswith(("http://", "https://")):
        parts = urlsplit(text)
        if not parts.hostname:
            raise InputError(f"{text!r} names no machine", "--server", "write https://MACHINE:PORT")
        return Address(url=text.rstrip("/"))
    path = Path(text.removeprefix("unix:")).expanduser()
    is_socket = path.suffix == ".sock" or path.is_socket()
    return Address(path=str(path if is_socket else Place(path).socket))


def find_token() -> str:
    """The token for schedulers on other machines: the variable COHABIT_TOKEN, else a file only its owner reads."""
    if token := os.environ.get(TOKEN, "").strip():
        return token
    home = os.environ.get("XDG_CONFIG_HOME", "")
    path = (Path(home) if home.startswith("/") else Path.home() / ".config") / "cohabit" / "token"
    try:
        return path.read_text().strip()
    except OSError:
        return ""


class _Local(http.client.HTTPConnection):
    """HTTP over a UNIX socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=CONNECT_S)
        self._path = path

    def connect(self) -> None:
        """Reach the socket instead of a machine."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(CONNECT_S)
        self.sock.connect(self._path)


class Connection:
    """Asks one scheduler; remembers nothing between two questions."""

    def __init__(self, address: Address, token: str = "") -> None:
        self.address, self._token = address, token
        if token and address.url.startswith("http://") and urlsplit(address.url).hostname not in LOOPBACK:
            raise InputError("would get your token in the clear", str(address), "use https://")

    def ask(
        self, method: str, path: str, body: Any = None, query: Mapping[str, Any] | None = None,
        patience_s: float = ANSWER_S,
    ) -> tuple[int, Any]:  # fmt: skip
        """The status and the document of the answer."""
        with self._answer(method, path, body, query, patience_s) as answer:
            return answer.status, self._document(answer.read())

    def text(self, path: str, query: Mapping[str, Any] | None = None) -> str:
        """An answer that is plain text."""
        with self._answer("GET", path, None, query, ANSWER_S) as answer:
            return answer.read().decode()

    def stream(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[bytes]:
        """An answer as it comes, for as long as it takes."""
        with self._answer("GET", path, None, query, None) as answer:
            while piece := answer.read1(PIECE):
                yield piece

    @contextmanager
    def _answer(
        self, method: str, path: str, body: Any, query: Mapping[str, Any] | None, patience_s: float | None
    ) -> Iterator[http.client.HTTPResponse]:
        given = {key: _plain(value) for key, value in (query or {}).items() if value is not None}
        target = f"/v1{path}" + (f"?{urlencode(given)}" if given else "")
        headers = {"Accept": "*/*"}
        if self._token and self.address.url:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        link = self._connected()
        try:
            assert link.sock is not None
            if headers.get("Authorization") and self.address.url.startswith("http://"):
                self._check_server(link)
            link.sock.settimeout(patience_s)
            link.request(method, target, None if body is None else json.dumps(body).encode(), headers)
            answer = link.getresponse()
            if answer.status >= 400:
                self._refused(answer.status, answer.read())
            yield answer
        except TimeoutError:
            raise Unavailable(f"{self.address}: the scheduler does not answer; ask again later") from None
        except (http.client.HTTPException, OSError) as error:
            raise Unavailable(f"{self.address}: the scheduler went away before it had answered") from error
        finally:
            link.close()

    def _connected(self) -> http.client.HTTPConnection:
        link: http.client.HTTPConnection
        if self.address.path:
            link = _Local(self.address.path)
        else:
            parts = urlsplit(self.address.url)
            assert parts.hostname is not None
            kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
            link = kind(parts.hostname, parts.port, timeout=CONNECT_S)
        try:
            link.connect()
        except ssl.SSLCertVerificationError as error:
            fix = "let SSL_CERT_FILE name the file of the authority that signed it"
            raise InputError(
                f"its certificate is not trusted ({error.verify_message})", str(self.address), fix
            ) from error
        except PermissionError as error:
            raise InputError("you may not talk to this scheduler", str(self.address), "ask who runs it") from error
        except (FileNotFoundError, ConnectionRefusedError) as error:
            fix = "start one with `cohabit up`, or name another with --server"
            raise InputError("no scheduler is there", str(self.address), fix) from error
        except (OSError, UnicodeError) as error:
            reason = str(getattr(error, "strerror", None) or error).lower()
            fix = "check the address, or name another with --server"
            raise InputError(f"no scheduler can be reached ({reason})", str(self.address), fix) from error
        return link

    def _check_server(self, link: http.client.HTTPConnection) -> None:
        """Have it prove on this connection that it knows our token (live/api/page_door.py)."""
        import hashlib
        import hmac
        import secrets

        link.auto_open = 0  # another connection might lead to another program
        nonce, known = secrets.token_urlsafe(16), hashlib.sha256(self._token.encode()).hexdigest()
        asked = json.dumps({"id": self._token.partition(".")[0][:40], "nonce": nonce})
        link.request("POST", "/v1/page/prove", asked, {"Content-Type": "application/json"})
        told = self._document(link.getresponse().read())
        proof = told.get("proof") if isinstance(told, dict) else None
        expected = hmac.new(known.encode(), f"prove\n{nonce}".encode(), hashlib.sha256).hexdigest()
        if not isinstance(proof, str) or not hmac.compare_digest(proof.encode(), expected.encode()):
            what = "the token is wrong, expired or revoked, or another program listens there; it was not sent"
            raise Refused(401, what, str(self.address), "ask for a new one, or check the address")

    def _refused(self, status: int, body: bytes) -> None:
        """Say it in the server's words: what is wrong with the call, or why it cannot be answered now."""
        try:
            told = json.loads(body)
            what, where, fix = str(told["error"]), str(told.get("where") or ""), str(told.get("fix") or "")
        except (ValueError, KeyError, TypeError, AttributeError):
            what, where, fix = f"answered {status}, which is not an answer of a scheduler", str(self.address), ""
        if status == 401 and not self._token and self.address.url:
            fix = f"put the token you were given into {TOKEN}"
        sentence = Refused(status, what, where, fix)
        if status in BUSY or status >= 500:
            raise Unavailable(str(sentence))
        raise sentence

    def _document(self, body: bytes) -> Any:
        try:
            return json.loads(body)
        except ValueError:
            raise InputError("does not answer like a scheduler", str(self.address), "check the address") from None


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value
