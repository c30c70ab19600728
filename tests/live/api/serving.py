"""A real server for tests: the whole service on an event loop of its own thread, reached over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cohabit.app.serve.serving import ServeConfig, Service
from cohabit.live.api.settings import ApiSettings

T = TypeVar("T")
SHELL = ["/bin/sh", "-c"]
PATIENCE_S = 180.0  # with an answer, on a machine that may be busy


class Answer(NamedTuple):
    """What came back."""

    status: int
    body: Any  # a document, or text
    headers: dict[str, str]


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a UNIX socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(self._path)


class Server:
    """One service, living in a thread."""

    def __init__(self, config: ServeConfig) -> None:
        self.config = config
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.service: Service = self.run(self._open())

    async def _open(self) -> Service:
        service = Service(self.config)
        await service.open()
        return service

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Something on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(300)

    def close(self) -> None:
        """End in good order."""
        self.run(self.service.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    @property
    def path(self) -> str:
        """Of the socket."""
        assert self.service.api is not None
        return str(self.service.api.server.path)

    @property
    def port(self) -> int:
        """Of TCP."""
        assert self.service.api is not None
        return self.service.api.server.port

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """One request over the UNIX socket, as this process."""
        return ask(UnixConnection(self.path), method, path, body, headers)

    def ask_tcp(self, method: str, path: str, token: str = "", body: Any = None) -> Answer:
        """One request over TCP."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        return ask(link, method, path, body, headers)

    def submit(self, script: str, **others: Any) -> str:
        """A shell script as a job; its name."""
        answer = self.ask("POST", "/v1/jobs", {"command": [*SHELL, script], "limit_s": 60, **others})
        assert answer.status == 201, answer
        return str(answer.body["job"])

    def over(self, job: str, timeout_s: float = 120) -> dict[str, Any]:
        """The job once it has ended."""
        answer = self.ask("GET", f"/v1/jobs/{job}/wait?timeout_s={timeout_s}")
        assert answer.status == 200, answer
        return dict(answer.body)

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for it."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, "it did not come to this"
            time.sleep(0.02)

    def idle(self) -> None:
        """Wait until no node has work: jobs that a test left may still be ending."""
        self.until(lambda: {one["state"] for one in self.ask("GET", "/v1/nodes").body["nodes"]} == {"idle"})

    def show(self, job: str) -> dict[str, Any]:
        """The job as it is."""
        answer = self.ask("GET", f"/v1/jobs/{job}")
        assert answer.status == 200, answer
        return dict(answer.body)


def ask(
    link: http.client.HTTPConnection, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> Answer:
    """One request over a connection."""
    given = {"Content-Type": "application/json", **(headers or {})}
    content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    with contextlib.closing(link):
        link.request(method, path, content, given)
        answer = link.getresponse()
        raw, kind = answer.read(), answer.headers.get("content-type", "")
        text = raw.decode(errors="replace")
        return Answer(answer.status, json.loads(text) if kind.startswith("application/json") else text,
                      {key.lower(): value for key, value in answer.headers.items()})  # fmt: skip


@contextlib.contextmanager
def served(api: ApiSettings | None = None, **others: Any) -> Iterator[Server]:
    """A server in a place that other users can reach."""
    place = Path(tempfile.mkdtemp(prefix="cohabit-api-"))
    place.chmod(0o755)
    server = Server(ServeConfig(place / "state", 2, api=api or ApiSettings(), **others))
    try:
        yield server
    finally:
        server.close()
        shutil.rmtree(place)


def ask_as(uid: int, gid: int, server: Server, method: str, path: str, body: Any = None) -> Answer:
    """One request over the UNIX socket by a process of another user."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)
            answer = ask(UnixConnection(server.path), method, path, body)
            os.write(writing, json.dumps([answer.status, answer.body, answer.headers]).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as stream:
        said = stream.read()
    os.waitpid(pid, 0)
    return Answer(*json.loads(said))
