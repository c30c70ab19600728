"""One controller for all attacks of a module, and ways to knock at its door on loopback as an ordinary account."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.attack.accounts import Account, act_as, become
from tests.attack.controllers import RootController, controller
from tests.live.api.serving import PATIENCE_S, Answer, ask


@contextlib.contextmanager
def fresh_controller() -> Iterator[RootController]:
    """In a place of its own."""
    made = Path(tempfile.mkdtemp(prefix="cohabit-attack-"))
    made.chmod(0o711)
    try:
        with controller(made) as one:
            yield one
    finally:
        shutil.rmtree(made)


def link_of(up: RootController, account: Account | None) -> str:
    """A link to the page for this account."""
    answer = up.ask(account, "POST", "/v1/page/link", {})
    assert answer.status == 201, answer
    return str(answer.body["url"])


def door_of(up: RootController) -> str:
    """HOST:PORT of the page's door; it is open from now on."""
    return link_of(up, None).split("/")[2]


def token_of(up: RootController, account: Account | None, **wish: Any) -> dict[str, Any]:
    """A token, made over the socket."""
    answer = up.ask(account, "POST", "/v1/tokens", wish)
    assert answer.status == 201, answer
    return dict(answer.body)


def over_tcp(
    host: str, method: str, path: str, token: str = "", body: Any = None, account: Account | None = None
) -> Answer:
    """One request over TCP with a token, in a process of this account."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    def call() -> list[Any]:
        return list(ask(http.client.HTTPConnection(host, timeout=PATIENCE_S), method, path, body, headers))

    return Answer(*(call() if account is None else act_as(account, call)))


@contextlib.contextmanager
def holding(account: Account, work: Callable[[Callable[[int], None]], object]) -> Iterator[int]:
    """A process of the account that does `work` and keeps what it got (connections) until the block ends. The block
    begins when `work` reports a number, and gets it."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reads)
            become(account)
            kept = work(lambda count: os.write(writes, f"{count}\n".encode()) and None)
            signal.pause()
            del kept
        except BaseException:
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(1)
    os.close(writes)
    try:
        with open(reads) as stream:
            line = stream.readline()
        assert line, f"what {account.name} did failed"
        yield int(line)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
