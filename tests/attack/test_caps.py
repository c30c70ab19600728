"""One account tries to take all there is of something: connections, listeners, links, tokens, places in the queue."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from cohabit.live.peers.keys import PairKeys
from cohabit.live.peers.messages import CONTENT_TYPE, KEY_HEADER, SIGNATURE_HEADER, Peer
from cohabit.live.peers.server import Doorkeeper, PeerServer
from cohabit.live.peers.threshold import Decider, Round
from cohabit.live.peers.threshold_door import Hello, Sources, Threshold, Wanted
from cohabit.model.peer import Announce, encode
from tests.attack.accounts import Account, act_as
from tests.attack.asking import door_of, fresh_controller, holding, over_tcp, token_of
from tests.attack.controllers import RootController
from tests.live.api.serving import UnixConnection, ask


@pytest.fixture(scope="module")
def up() -> Iterator[RootController]:
    """One for all."""
    with fresh_controller() as one:
        yield one


Connect = Callable[[], socket.socket]


def many(connect: Connect, count: int, said: bytes, wanted: bytes) -> tuple[int, list[socket.socket]]:
    """So many connections, each of which says something and, if anything is wanted, waits for it; how many got it."""
    held: list[socket.socket] = []
    for _ in range(count):
        try:
            one = connect()
            one.sendall(said)
        except OSError:
            continue
        held.append(one)
    got = 0
    for one in held if wanted else []:
        one.settimeout(20)
        try:
            got += wanted in one.recv(4096)
        except OSError:
            continue
    return got, held


def over(path: str) -> Connect:
    """Connections to a UNIX socket."""

    def connect() -> socket.socket:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        one.connect(path)  # waits while others are being let in
        one.settimeout(20)
        return one

    return connect


def test_one_account_cannot_take_all_listeners(up: RootController, ann: Account, bob: Account) -> None:
    asked, path = b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n", str(up.socket)

    def listen(report: Callable[[int], None]) -> object:
        got, held = many(over(path), 180, asked, b" 200 ")
        more, others = many(over(path), 30, asked, b" 200 ")
        report(got + more)
        return held + others

    def one() -> int:
        return many(over(path), 1, asked, b" 200 ")[0]

    with holding(ann, listen) as got:
        assert got == 20
        assert act_as(bob, one) == 1
        assert one() == 1


def test_one_account_cannot_take_all_connections_of_the_pages_door(
    up: RootController, ann: Account, bob: Account
) -> None:
    host, token = door_of(up), token_of(up, bob)["token"]
    address = (host.split(":")[0], int(host.split(":")[1]))

    def connect(report: Callable[[int], None]) -> object:
        got, held = many(lambda: socket.create_connection(address, 20), 1100, b"GET / HTTP/1.1\r\nx: ", b"")
        report(got)
        return held

    with holding(ann, connect):
        for account in (bob, None):
            assert over_tcp(host, "GET", "/v1/ping", token, account=account).status == 200
        assert up.ask(bob, "GET", "/v1/ping").status == 200
        assert up.ask(None, "GET", "/v1/ping").status == 200


def test_one_account_cannot_take_all_links(up: RootController, ann: Account, bob: Account) -> None:
    def links() -> list[int]:
        return [ask(UnixConnection(str(up.socket)), "POST", "/v1/page/link", {}).status for _ in range(210)]

    statuses = act_as(ann, links)
    assert (statuses.count(201), statuses.count(429)) == (10, 200)
    assert up.ask(bob, "POST", "/v1/page/link", {}).status == 201
    assert up.ask(None, "POST", "/v1/page/link", {}).status == 201


def test_tokens_of_one_account_are_counted_and_forgotten(up: RootController, ann: Account, bob: Account) -> None:
    def tokens() -> list[list[Any]]:
        return [list(ask(UnixConnection(str(up.socket)), "POST", "/v1/tokens", {}))[:2] for _ in range(55)]

    made = act_as(ann, tokens)
    assert [status for status, _ in made] == [201] * 50 + [429] * 5
    assert "may have 50" in made[-1][1]["error"]
    assert token_of(up, bob)["token"]

    def again_and_again() -> int:
        for _ in range(120):
            one = ask(UnixConnection(str(up.socket)), "POST", "/v1/tokens", {}).body["id"]
            ask(UnixConnection(str(up.socket)), "DELETE", f"/v1/tokens/{one}")
        return len(ask(UnixConnection(str(up.socket)), "GET", "/v1/tokens").body["tokens"])

    up.ask(ann, "DELETE", f"/v1/tokens/{made[0][1]['id']}")
    assert act_as(ann, again_and_again) <= 50 + 101


def test_one_account_cannot_fill_the_queue(up: RootController, ann: Account, bob: Account) -> None:
    array = {"command": ["true"], "array": "1-1000", "hold": True}

    def fill() -> list[list[Any]]:
        return [list(ask(UnixConnection(str(up.socket)), "POST", "/v1/jobs", array)) for _ in range(11)]

    answers = act_as(ann, fill)
    assert [one[0] for one in answers] == [201] * 10 + [429]
    assert "may have 10000" in answers[-1][1]["error"]
    assert up.ask(bob, "POST", "/v1/jobs", {"command": ["true"], "hold": True}).status == 201


def test_a_submission_has_a_bound_of_bytes(up: RootController, ann: Account) -> None:
    large: list[dict[str, Any]] = [
        {"command": ["true", *["x" * 1000] * 300]}, {"command": ["true"], "environment": {"A": "é" * 140_000}},
    ]  # fmt: skip
    for body in large:
        answer = up.ask(ann, "POST", "/v1/jobs", {**body, "hold": True})
        assert (answer.status, "262,144 are allowed" in answer.body["error"]) == (413, True)


# ---- the threshold and peers ----------------------------------------------------------------------------------------


def test_one_account_cannot_take_all_places_at_the_threshold(folder: Path, ann: Account, bob: Account) -> None:
    """Ann holds 900 connections: silent ones, for a job that is none, for a job of hers. Bob's run comes in."""
    path = str(folder / "threshold.sock")

    async def no_round(name: str, attempt: int) -> Round | None:
        return None

    async def no_answer(_: object) -> bool | None:
        return None

    def knock(report: Callable[[int], None]) -> object:
        held = many(over(path), 300, b"", b"")[1]
        for job in ("9", "8"):
            held += many(over(path), 300, msgspec.json.encode(Hello(job, "r", "of-ann")) + b"\n", b"")[1]
        report(len(held))
        return held

    def run() -> str:
        one = over(path)()
        one.sendall(msgspec.json.encode(Hello("7", "r", "secret")) + b"\n")
        return one.recv(100).decode()

    async def scene() -> None:
        tokens = {"7": "secret", "8": "of-ann"}
        sources = Sources(
            lambda job: Wanted(f"job {job}", 1, bound=job == "8", stands=True) if job in tokens else None, tokens.get,
            no_round, no_answer,
        )  # fmt: skip
        threshold = Threshold(f"unix:{path}", Decider("alpha", {}, lambda opened: None), sources)
        await threshold.open()

        def attack() -> str:
            with holding(ann, knock):
                return str(act_as(bob, run))

        assert await asyncio.to_thread(attack) == "open\n"
        await threshold.close()

    asyncio.run(scene())


def test_one_account_cannot_take_all_connections_of_peers(ann: Account) -> None:
    keys = PairKeys({"1": b"k" * 32})
    said = Announce(group="pair", sender="alpha", receiver="beta", epoch=1, seq=1, job="job")
    given = {"content-type": CONTENT_TYPE, KEY_HEADER: "1", SIGNATURE_HEADER: keys.sign(said)}

    async def scene() -> None:
        server = PeerServer(Doorkeeper("beta", {"alpha": Peer("alpha", "", keys)}, lambda _: True), "127.0.0.1", 0)
        port = await server.open()

        def knock(report: Callable[[int], None]) -> object:
            held = many(lambda: socket.create_connection(("127.0.0.1", port), 20), 100, b"POST /peer", b"")[1]
            report(len(held))
            return held

        def attack() -> int:
            with holding(ann, knock), httpx.Client(trust_env=False) as client:
                return client.post(f"http://127.0.0.1:{port}/peer", content=encode(said), headers=given).status_code

        assert await asyncio.to_thread(attack) == 202
        await server.close()

    asyncio.run(scene())


def test_one_account_cannot_take_all_dry_runs(up: RootController, ann: Account, bob: Account) -> None:
    """Ann's wait for each other; Bob waits for at most three of them."""
    asked = json.dumps({"command": ["true"]}).encode()
    said = b"POST /v1/jobs?dry_run=true HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    said += b"content-length: %d\r\n\r\n%s" % (len(asked), asked)

    def flood() -> list[int]:
        held = many(over(str(up.socket)), 60, said, b"")[1]
        return [int(one.recv(4096).split()[1]) for one in held]

    statuses = act_as(ann, flood)
    assert set(statuses) == {200, 429}
    assert up.ask(bob, "POST", "/v1/jobs?dry_run=true", {"command": ["true"]}).status == 200
