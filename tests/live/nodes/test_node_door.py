"""Reports of node daemons over real HTTP: who may speak, what is refused and why, and what waits while nobody hears."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path

import httpx
import msgspec
import pytest

from cohabit.app.steer.node_channel import NodeKeys, NodesTable
from cohabit.live.nodes.door import NODE_PATH, NodeDoor
from cohabit.live.nodes.sender import Controller, Sender
from cohabit.live.peers.keys import PairKeys
from cohabit.live.peers.messages import CONTENT_TYPE, KEY_HEADER, SIGNATURE_HEADER
from cohabit.live.peers.server import PeerServer
from cohabit.model.errors import InputError
from cohabit.model.node_report import (
    MOST_RUNS,
    AtWays,
    EndedRun,
    NodeMeters,
    Report,
    Sample,
    encode,
    signed_bytes,
    what_is_wrong,
)

KEYS = {"n0": PairKeys({"1": b"a" * 32}), "n1": PairKeys({"1": b"b" * 32})}
RUN = EndedRun("7", 60.0, 1_000_000, True, 4, {"task_clock_mean": 1.0})


def stepped(*steps: AtWays) -> EndedRun:
    return msgspec.structs.replace(RUN, steps=steps)


def now_us() -> int:
    return time.time_ns() // 1000


class Hearing:
    """A controller's listener; `heard` are the reports that came through."""

    def __init__(self, port: int = 0) -> None:
        self.heard: list[Report] = []
        self.busy = False
        self.door = NodeDoor(KEYS, self.hear)
        self.server = PeerServer(self.door, "127.0.0.1", port)
        self.port = 0

    def hear(self, report: Report) -> bool:
        if not self.busy:
            self.heard.append(report)
        return not self.busy

    async def __aenter__(self) -> Hearing:
        self.port = await self.server.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.close()

    async def post(self, report: Report, keys: PairKeys = KEYS["n0"], signed: bytes | None = None) -> tuple[int, str]:
        content = encode(report)
        seal = keys.seal(signed_bytes(signed or content))
        given = {"content-type": CONTENT_TYPE, KEY_HEADER: "1", SIGNATURE_HEADER: seal}
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.post(f"http://127.0.0.1:{self.port}{NODE_PATH}", content=content, headers=given)
        return answer.status_code, answer.text


def test_a_report_is_heard_once_and_only_with_the_nodes_own_key() -> None:
    async def go() -> None:
        async with Hearing() as here:
            first = Report("n0", 5, now_us(), (RUN,), (Sample(now_us(), {"load.load_1m": 1.0}),))
            assert (await here.post(first))[0] == 202
            assert here.heard == [first]
            refused = {
                "was received before": (first, KEYS["n0"]),
                "received before": (msgspec.structs.replace(first, number=4, instant_us=now_us()), KEYS["n0"]),
                "not signed with the key of node n1": (Report("n1", 9, now_us()), KEYS["n0"]),
                "has no key here": (Report("n7", 9, now_us()), KEYS["n0"]),
                "at most 60 s are allowed": (Report("n0", 9, now_us() - 61_000_000), KEYS["n0"]),
                "s from the controller's": (Report("n0", 9, now_us() + 90_000_000), KEYS["n0"]),
                "signed before this controller started": (Report("n0", 9, here.door._since_us), KEYS["n0"]),
                "out of range": (Report("n0", 9, now_us(), (EndedRun("7", -1.0, 0, True, 1),)), KEYS["n0"]),
            }
            for words, (report, keys) in refused.items():
                status, said = await here.post(report, keys)
                assert status in (401, 403, 409, 422), said
                assert words in said
            assert here.heard == [first]
            assert here.door.turned_away.total() == len(refused)
            # a changed content under a signature that was right for another
            changed = msgspec.structs.replace(first, number=10, instant_us=now_us())
            assert (await here.post(changed, signed=encode(first)))[0] == 401

    asyncio.run(go())


def test_a_refusal_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> None:
        async with Hearing() as here:
            for far in (70, 80, 90):
                await here.post(Report("n0", far, now_us() - far * 1_000_000))
            assert here.door.turned_away[409] == 3

    asyncio.run(go())
    assert sum("the clock of node n0" in one.getMessage() for one in caplog.records) == 1


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (Report("n0", 1, 1, (EndedRun("../7", 1.0, 0, True, 1),)), "no usable name"),
        (Report("n0", 1, 1, (RUN,) * (MOST_RUNS + 1)), "more than"),
        (Report("n0", 1, 1, (EndedRun("7", 1.0, 0, True, 1, {"x": float("nan")}),)), "out of range"),
        (Report("n0", 1, 1, (EndedRun("7", 1.0, 0, True, 1, {"A b": 1.0}),)), "impossible name"),
        (Report("n0", 1, 1, (stepped(AtWays(0, 1.0)),)), "by ways of the cache is out of range"),
        (Report("n0", 1, 1, (stepped(*[AtWays(2, 1.0)] * 5),)), "by ways of the cache is out of range"),
        (Report("n0", 1, 1, (stepped(AtWays(2, 1.0, {"cycles": -1.0})),)), "by ways of the cache is out of range"),
        (Report("n0", 1, 1, (stepped(AtWays(2, 40.0), AtWays(4, 40.0)),)), "took longer than the job"),
        (Report("n0", 1, 1, meters=NodeMeters(-1)), "the ways of the node are out of range"),
        (Report("n0", 1, 1, (), (Sample(1, {"nothing.known": 1.0}),)), "there is no counter"),
        (Report("n0", 1, 1, (), (Sample(1, {"load.load_1m": -1.0}),)), "out of range"),
    ],
)
def test_what_cannot_be_true_is_refused(report: Report, words: str) -> None:
    assert words in what_is_wrong(report)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_what_a_node_has_to_say_waits_for_the_controller() -> None:
    port = free_port()
    sender = Sender("n0", Controller("127.0.0.1", port, KEYS["n0"]), every_s=0.1)
    sender.start()
    sender.ended(RUN)
    sender.sampled(Sample(now_us(), {"load.load_1m": 1.0}))
    sender.sampled(Sample(now_us() - 3_600_000_000, {"load.load_1m": 2.0}))
    time.sleep(0.5)
    away = sender.standing(time.time())
    assert (away["sent"], away["runs_waiting"]) == (0, 1)
    assert "not reached" in away["trouble"]

    async def go() -> None:
        async with Hearing(port) as here:
            here.busy = True
            await asyncio.sleep(1.0)
            here.busy = False
            for _ in range(100):
                await asyncio.sleep(0.1)
                if here.heard:
                    break
            assert [run for report in here.heard for run in report.runs] == [RUN]
            sender.ended(msgspec.structs.replace(RUN, job="8"))
            await asyncio.to_thread(sender.stop)  # what is left is sent at the end
            assert [run.job for report in here.heard for run in report.runs] == ["7", "8"]

    asyncio.run(go())
    assert sender.standing(time.time())["trouble"] == ""


def test_a_key_is_made_once(tmp_path: Path) -> None:
    keys = NodeKeys(NodesTable(), tmp_path, "site.toml")
    path = keys.make("n0", new=False)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    before = path.read_text()
    with pytest.raises(InputError, match="has a key"):
        keys.make("n0", new=False)
    keys.make("n0", new=True)
    assert path.read_text() != before
    assert set(keys.all) == {"n0"}
    with pytest.raises(InputError, match="not the name of a node"):
        keys.make("../n0", new=False)
