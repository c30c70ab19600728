"""Attacks on the channel from node daemons to the controller: a forged node, a replayed report, a user's process that
poses as a daemon. The listener is the controller's own, over real connections."""

from __future__ import annotations

import asyncio
import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cohabit.app.steer.node_channel import NodeKeys, NodesTable
from cohabit.live.nodes.door import NODE_PATH, NodeDoor
from cohabit.live.peers.keys import PairKeys, read_keys
from cohabit.live.peers.messages import CONTENT_TYPE, KEY_HEADER, SIGNATURE_HEADER
from cohabit.live.peers.server import PeerServer
from cohabit.model.errors import InputError
from cohabit.model.node_report import EndedRun, Report, encode, signed_bytes
from tests.attack.accounts import Account, act_as

LIE = EndedRun("1", 1.0, 1, True, 28, {"task_clock_mean": 28.0})


class Listener:
    """What came through, and what was refused."""

    def __init__(self, keys: NodeKeys) -> None:
        self.heard: list[Report] = []
        self.audited: list[tuple[str, str, str, int, str]] = []
        self.door = NodeDoor(keys.all, self._hear)
        self.door.refused = lambda *what: self.audited.append(what)
        self.port = 0

    def _hear(self, report: Report) -> bool:
        self.heard.append(report)
        return True

    @contextmanager
    def serving(self) -> Iterator[None]:
        ready, over = threading.Event(), asyncio.Event()
        loop = asyncio.new_event_loop()

        async def serve() -> None:
            server = PeerServer(self.door, "127.0.0.1", 0)
            self.port = await server.open()
            ready.set()
            await over.wait()
            await server.close()

        thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
        thread.start()
        assert ready.wait(30)
        try:
            yield
        finally:
            loop.call_soon_threadsafe(over.set)
            thread.join(30)
            loop.close()


def post(port: int, content: bytes, signature: str) -> int:
    """One report over a connection of its own; the status of the answer."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    link.request(
        "POST", NODE_PATH, content, {"content-type": CONTENT_TYPE, KEY_HEADER: "1", SIGNATURE_HEADER: signature}
    )
    status = link.getresponse().status
    link.close()
    return status


def report(node: str, number: int) -> bytes:
    return encode(Report(node, number, time.time_ns() // 1000, (LIE,)))


@pytest.fixture
def keys(folder: Path) -> NodeKeys:
    """Of two nodes, in a folder that anybody can pass."""
    made = NodeKeys(NodesTable(), folder, "site.toml")
    made.make("n0", new=False)
    made.make("n1", new=False)
    return made


def test_a_forged_node_and_a_replayed_report_are_refused(keys: NodeKeys) -> None:
    listener = Listener(keys)
    with listener.serving():
        own, stolen = read_keys(keys.file("n0")), PairKeys({"1": b"x" * 32})
        content = report("n0", 1)
        signature = own.seal(signed_bytes(content))
        assert post(listener.port, content, signature) == 202
        assert post(listener.port, content, signature) == 409, "heard before"
        for forged, signing in (("n0", stolen), ("n1", own), ("n9", own)):
            content = report(forged, 2)
            assert post(listener.port, content, signing.seal(signed_bytes(content))) in (401, 403)
        # a signature over the bare content, as a message of another protocol would have it
        content = report("n0", 3)
        assert post(listener.port, content, own.seal(content)) == 401
    assert len(listener.heard) == 1
    assert [one[3] for one in listener.audited] == [409, 401, 401, 403, 401]


def test_what_was_recorded_is_worth_nothing_for_the_next_controller(keys: NodeKeys) -> None:
    content = report("n0", 1)
    signature = read_keys(keys.file("n0")).seal(signed_bytes(content))
    listener = Listener(keys)
    with listener.serving():
        assert post(listener.port, content, signature) == 409
    assert listener.heard == []


def test_a_users_process_that_poses_as_a_daemon(keys: NodeKeys, ann: Account) -> None:
    """It reaches the port, cannot read a key, and every guess is refused and counted as hers."""
    listener = Listener(keys)
    with listener.serving():
        port, file = listener.port, keys.file("n0")

        def pose() -> list[int | str]:
            try:
                file.read_bytes()
                read = "read"
            except OSError as error:
                read = type(error).__name__
            content = report("n0", 5)
            return [read, post(port, content, ""), post(port, content, PairKeys({"1": b"0" * 32}).seal(content))]

        assert act_as(ann, pose) == ["PermissionError", 401, 401]
    assert listener.heard == []
    assert {one[0] for one in listener.audited} == {f"uid {ann.uid}"}


def test_a_key_that_users_may_read_is_not_used(keys: NodeKeys) -> None:
    keys.file("n1").chmod(0o644)
    with pytest.raises(InputError, match="others may read the key"):
        _ = keys.all
