"""One request to a running scheduler, over its UNIX socket or a URL: JSON in and out, every refusal one sentence.

Every command pays for every import here: what only some calls need is imported there. A connection serves one request.
It must never send a token in the clear to another machine, nor over plain HTTP to a program that does not know the
token: any user of this machine can listen on a port that a server has left.
"""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from cohabit.app.client.wire import Answer, Garbled, Link
from cohabit.live.socket_path import socket_of
from cohabit.model.errors import InputError

if TYPE_CHECKING:
    from urllib.parse import SplitResult

SERVER, TOKEN = "COHABIT_SERVER", "COHABIT_TOKEN"
CONNECT_S, ANSWER_S = 5.0, 60.0
MACHINE = "/var/lib/cohabit"  # the place of a scheduler that root started for all accounts
LOOPBACK = ("localhost", "127.0.0.1", "::1")
BUSY = (429, 503)
_AS_IT_IS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class Unavailable(Exception):
    """The scheduler is gone or cannot answer now: the call was valid and may be repeated later."""


class Refused(InputError):
    """The scheduler refused the request; the status gives the kind of refusal."""

    def __init__(self, status: int, what: str, where: str = "", fix: str = "") -> None:
        super().__init__(what, where, fix)
        self.status = status


class Address(NamedTuple):
    """The address of a scheduler: the path of its socket, or a URL."""

    path: str = ""
    url: str = ""

    def __str__(self) -> str:
        return self.path or self.url


def default_place() -> str:
    """Return the default place of `cohabit up`: for root where other accounts reach it, for others in the home."""
    return MACHINE if not _state_home() and os.geteuid() == 0 else home_place()


def home_place() -> str:
    """Return the default place of an ordinary account; earlier versions used it for root, too."""
    return os.path.join(_state_home() or os.path.expanduser("~/.local/state"), "cohabit")


def _state_home() -> str:
    state = os.environ.get("XDG_STATE_HOME", "")
    return state if state.startswith("/") else ""


def _usual_server() -> str:
    """Return the caller's own scheduler if its socket exists, else the machine's if that exists."""
    own, machine = socket_of(default_place()), socket_of(MACHINE)
    return machine if not os.path.exists(own) and os.path.exists(machine) else own


def find_server(given: str | None) -> Address:
    """Find a server by option, COHABIT_SERVER, or the default places (own, then machine); a folder means its socket."""
    text = given or os.environ.get(SERVER, "") or _usual_server()
    if text.startswith(("http://", "https://")):
        _parts(text)
        return Address(url=text.rstrip("/"))
    path = os.path.expanduser(text.removeprefix("unix:"))
    return Address(path=path if path.endswith(".sock") or _is_socket(path) else socket_of(path))


def _parts(url: str) -> SplitResult:
    """Parse and check a URL."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        if parts.hostname and parts.port != 0:
            return parts
    except ValueError:  # unclosed brackets, or an invalid port
        pass
    raise InputError(f"{url!r} names no machine", "--server", "write https://MACHINE:PORT")


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def find_token() -> str:
    """Return the token for schedulers on other machines: COHABIT_TOKEN, else a file that only its owner can read."""
    if token := os.environ.get(TOKEN, "").strip():
        return token
    home = os.environ.get("XDG_CONFIG_HOME", "")
    folder = home if home.startswith("/") else os.path.expanduser("~/.config")
    try:
        with open(os.path.join(folder, "cohabit", "token")) as stream:
            return stream.read().strip()
    except (OSError, UnicodeError):
        return ""


class Connection:
    """Sends requests to one scheduler; keeps no state between two requests."""

    def __init__(self, address: Address, token: str = "") -> None:
        self.address, self._token = address, token
        if not (token.isascii() and token.isprintable()):
            raise InputError("has characters that no token has", TOKEN, "copy it again")
        if token and address.url.startswith("http://") and _parts(address.url).hostname not in LOOPBACK:
            raise InputError("would get your token unencrypted", str(address), "use https://")

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        patience_s: float = ANSWER_S,
    ) -> tuple[int, Any]:
        """Return the status and the document of the answer."""
        with self._answer(method, path, body, query, patience_s) as answer:
            return answer.status, self._document(answer.body())

    def text(self, path: str, query: Mapping[str, Any] | None = None) -> str:
        """Return an answer that is plain text."""
        with self._answer("GET", path, None, query, ANSWER_S) as answer:
            return answer.body().decode()

    def stream(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[bytes]:
        """Yield an answer as it arrives, without a time limit."""
        with self._answer("GET", path, None, query, None) as answer:
            yield from answer.pieces()

    @contextmanager
    def _answer(
        self, method: str, path: str, body: Any, query: Mapping[str, Any] | None, patience_s: float | None
    ) -> Iterator[Answer]:
        headers = {}
        if self._token and self.address.url:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        link = self._connected()
        try:
            if headers.get("Authorization") and self.address.url.startswith("http://"):
                self._check_server(link)
            link.sock.settimeout(patience_s)
            written = None if body is None else json.dumps(body).encode()
            answer = link.ask(method, f"/v1{path}{_written(query)}", written, headers)
            if answer.status >= 400:
                self._refused(answer.status, answer.body())
            yield answer
        except TimeoutError:
            raise Unavailable(f"{self.address}: the scheduler does not answer; ask again later") from None
        except (Garbled, OSError) as error:
            raise Unavailable(f"{self.address}: the scheduler went away before it had answered") from error
        finally:
            link.close()

    def _connected(self) -> Link:
        try:
            return _over_url(self.address.url) if self.address.url else _over_socket(self.address.path)
        except PermissionError as error:
            raise InputError("you have no access to this scheduler", str(self.address), "ask who runs it") from error
        except (FileNotFoundError, ConnectionRefusedError) as error:
            fix = "start one with `cohabit up`, or name another with --server"
            raise InputError("no scheduler is there", str(self.address), fix) from error
        except (OSError, ValueError) as error:
            if distrust := getattr(error, "verify_message", ""):  # set by TLS
                fix = "let SSL_CERT_FILE name the file of the authority that signed it"
                raise InputError(f"its certificate is not trusted ({distrust})", str(self.address), fix) from error
            reason = str(getattr(error, "strerror", None) or error).lower()
            fix = "check the address, or name another with --server"
            raise InputError(f"no scheduler can be reached ({reason})", str(self.address), fix) from error

    def _check_server(self, link: Link) -> None:
        """Make the server prove on this connection that it knows our token (live/api/page/door.py)."""
        import hashlib
        import hmac
        import secrets

        nonce, known = secrets.token_urlsafe(16), hashlib.sha256(self._token.encode()).hexdigest()
        asked = json.dumps({"id": self._token.partition(".")[0][:40], "nonce": nonce})
        headers = {"Content-Type": "application/json"}
        told = self._document(link.ask("POST", "/v1/page/prove", asked.encode(), headers, last=False).body())
        proof = told.get("proof") if isinstance(told, dict) else None
        expected = hmac.new(known.encode(), f"prove\n{nonce}".encode(), hashlib.sha256).hexdigest()
        if not isinstance(proof, str) or not hmac.compare_digest(proof.encode(), expected.encode()):
            what = "the token is wrong, expired or revoked, or another program listens there; it was not sent"
            raise Refused(401, what, str(self.address), "ask for a new one, or check the address")

    def _refused(self, status: int, body: bytes) -> None:
        """Raise the server's own message: what is wrong with the call, or why it cannot be answered now."""
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


def _over_socket(path: str) -> Link:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(CONNECT_S)
        sock.connect(path)
    except BaseException:
        sock.close()
        raise
    return Link(sock, "localhost")


def _over_url(url: str) -> Link:
    parts = _parts(url)
    host, secure = str(parts.hostname), parts.scheme == "https"
    sock = socket.create_connection((host, parts.port or (443 if secure else 80)), CONNECT_S)
    try:
        if secure:
            import ssl

            context = ssl.create_default_context()
            context.set_alpn_protocols(["http/1.1"])
            sock = context.wrap_socket(sock, server_hostname=host)
    except BaseException:
        sock.close()
        raise
    name = f"[{host}]" if ":" in host else host.encode("idna").decode()
    return Link(sock, name if parts.port is None else f"{name}:{parts.port}")


def quoted(text: str) -> str:
    """Return a text quoted as part of a URL; bytes that are not text, as a shell may pass them, are kept."""
    if _AS_IT_IS.issuperset(text):
        return text
    return "".join(
        chr(one) if chr(one) in _AS_IT_IS else f"%{one:02X}" for one in text.encode(errors="surrogateescape")
    )


def _written(query: Mapping[str, Any] | None) -> str:
    """Return the query of a URL without values that are None."""
    given = [f"{key}={quoted(_plain(value))}" for key, value in (query or {}).items() if value is not None]
    return f"?{'&'.join(given)}" if given else ""


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
