"""Attacks leave a trace: a line in the audit log for every refusal, and no flood fills the disk."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from cohabit.live.peers.messages import CONTENT_TYPE, KEY_HEADER, SIGNATURE_HEADER
from cohabit.live.peers.threshold import Decider
from cohabit.live.peers.threshold_door import Hello, Sources, Threshold, Wanted
from cohabit.model.peer import Announce, encode
from tests.attack.accounts import Account, act_as
from tests.attack.asking import door_of, fresh_controller, over_tcp, token_of
from tests.attack.controllers import RootController
from tests.live.api.serving import PATIENCE_S, UnixConnection, ask
from tests.live.page.stages import coupled


@pytest.fixture(scope="module")
def up() -> Iterator[RootController]:
    """One for all."""
    with fresh_controller() as one:
        yield one


def noted(up: RootController, status: int, about: str) -> dict[str, Any]:
    """The newest line about this with this status."""
    entries = up.ask(None, "GET", "/v1/audit?limit=1000").body["entries"]
    found = [one for one in entries if (one["status"], one["about"]) == (status, about)]
    assert found, (status, about, entries[:5])
    return dict(found[0])


def test_every_refusal_of_a_local_user_is_noted(up: RootController, ann: Account, bob: Account) -> None:
    job, own = up.submit(bob, "sleep 60"), up.submit(ann, "true", hold=True)
    refused: list[tuple[str, str, Any, int, str]] = [
        ("GET", f"/v1/jobs/{job}", None, 404, "another user's"),
        ("GET", f"/v1/jobs/{job}/output", None, 404, "another user's"),
        ("POST", f"/v1/jobs/{job}/cancel", None, 404, "another user's"),
        ("GET", "/v1/jobs/no-such-job", None, 404, "no such job"),
        ("POST", "/v1/nodes/0/drain", None, 403, "operators"), ("GET", "/v1/audit", None, 403, "operators"),
        ("PATCH", f"/v1/jobs/{own}", {"limit_s": 1e6}, 403, "operators"),
        ("PATCH", f"/v1/jobs/{own}", {"limit_s": "soon"}, 422, "limit_s"),
        ("POST", "/v1/jobs", {"command": []}, 422, "command"), ("POST", "/v1/jobs", b"{", 422, "JSON"),
        ("GET", f"/v1/jobs?user={bob.name}", None, 403, "operators"),
        ("POST", "/v1/jobs", b"x" * 2_000_000, 413, "MiB"),
        ("DELETE", "/v1/nothing", None, 404, "nothing"),
    ]  # fmt: skip
    for method, path, body, status, why in refused:
        assert up.ask(ann, method, path, body).status == status, path
        line = noted(up, status, path.partition("?")[0])
        assert (line["user"], line["action"], why in line["said"]) == (ann.name, method, True), line
        assert (line["from"].startswith("socket, process"), abs(line["at"] - time.time()) < 60) == (True, True), line


def test_refused_changes_are_noted_by_their_names(up: RootController, ann: Account) -> None:
    assert up.ask(ann, "POST", "/v1/tokens", {"user": "root"}).status == 403
    assert noted(up, 403, "for root") | {"at": 0, "from": ""} == {
        "at": 0, "user": ann.name, "role": "user", "from": "", "action": "add token", "about": "for root",
        "status": 403, "said": "only an admin may make tokens for others",
    }  # fmt: skip
    large = {"command": ["true"], "name": "big", "environment": {"A": "x" * 150_000, "B": "x" * 150_000}}
    assert up.ask(ann, "POST", "/v1/jobs", large).status == 413
    assert noted(up, 413, "big")["action"] == "submit"


def test_refused_tokens_are_noted_with_the_address_and_the_user(up: RootController, ann: Account) -> None:
    host, ended, good = door_of(up), token_of(up, ann), token_of(up, ann)
    up.ask(ann, "DELETE", f"/v1/tokens/{ended['id']}")
    for token, why in (
        ("", "no token was given"), ("0123.guess", "no such token"),
        (ended["token"], f"token {ended['id']} was revoked"),
        (f"{good['id']}.guess", f"not the secret of token {good['id']}"),
    ):  # fmt: skip
        assert over_tcp(host, "GET", "/v1/ping", token, account=ann).status == 401
        line = noted(up, 401, "/v1/ping")
        assert (line["from"], line["said"]) == (f"127.0.0.1 (uid {ann.uid})", why)
    assert over_tcp(host, "POST", "/v1/tokens", good["token"], {}, ann).status == 403
    assert good["id"] in noted(up, 403, f"for {ann.name}")["from"]
    kept = "".join(path.read_text() for path in up.place.rglob("audit.jsonl*"))
    assert good["token"].partition(".")[2] not in kept


def test_other_sites_and_links_beyond_the_limit_are_noted(up: RootController, bob: Account) -> None:
    def work() -> list[int]:
        link = UnixConnection(str(up.socket))
        foreign = ask(link, "POST", "/v1/jobs", {"command": ["true"]}, {"Origin": "http://evil.example"}).status
        return [foreign, *(ask(UnixConnection(str(up.socket)), "POST", "/v1/page/link", {}).status for _ in range(11))]

    assert act_as(bob, work) == [403] + [201] * 10 + [429]
    assert "another site" in noted(up, 403, "/v1/jobs")["said"]
    assert noted(up, 429, "/v1/page/link")["user"] == bob.name


def test_a_flood_of_refusals_is_counted_not_written(ann: Account, bob: Account) -> None:
    with fresh_controller() as up:
        host = door_of(up)

        def flood() -> int:
            link = http.client.HTTPConnection(host, timeout=PATIENCE_S)
            for number in range(500):
                link.request("GET", "/v1/ping", headers={"Authorization": f"Bearer {number}.x"})
                link.getresponse().read()
            return 0

        act_as(ann, flood)
        assert up.ask(bob, "POST", "/v1/nodes/0/drain").status == 403
        assert noted(up, 403, "/v1/nodes/0/drain")["user"] == bob.name, "the flood of one hides nobody else"
        path = next(up.place.rglob("audit.jsonl"))
        up.stop()
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert sum(one["status"] == 401 for one in lines) == 30
        rest = [one for one in lines if one["action"] == "refused"]
        assert [(one["from"], one["said"]) for one in rest] == [(f"uid {ann.uid}", "470 more refusals within a minute")]


def test_a_wrong_signature_of_a_peer_is_noted(ann: Account) -> None:
    said = Announce(group="pair", sender="beta", receiver="alpha", epoch=1, seq=1, job="job")
    with coupled() as (alpha, _):
        port = alpha.service.port
        given = {"content-type": CONTENT_TYPE, KEY_HEADER: "1", SIGNATURE_HEADER: "0" * 64}

        def knock() -> int:
            with httpx.Client(trust_env=False) as client:
                return client.post(f"http://127.0.0.1:{port}/peer", content=encode(said), headers=given).status_code

        assert act_as(ann, knock) == 401
        entries = alpha.ask("GET", "/v1/audit?limit=20").body["entries"]
        lines = [one for one in entries if one["action"] == "peer message"]
        assert (lines[0]["from"], lines[0]["status"], lines[0]["about"]) == (f"uid {ann.uid}", 401, "POST /peer")


def test_what_is_no_message_of_a_peers_is_noted(ann: Account) -> None:
    """Also what is nested so deep that no reader gets to its end: it must not be an error of ours."""
    with coupled() as (alpha, _):
        port = alpha.service.port

        def knock(content: bytes) -> int:
            with httpx.Client(trust_env=False) as client:
                given = {"content-type": CONTENT_TYPE}
                return client.post(f"http://127.0.0.1:{port}/peer", content=content, headers=given).status_code

        for content in (b"\x91" * 60_000, b"\x81\xa1a" * 20_000, b"\xc1", b""):
            assert act_as(ann, lambda content=content: knock(content)) == 400
        entries = alpha.ask("GET", "/v1/audit?limit=20").body["entries"]
        found = [(one["from"], one["status"]) for one in entries if one["action"] == "peer message"]
        assert found == [(f"uid {ann.uid}", 400)] * 4


def test_a_wrong_token_at_the_threshold_is_noted(folder: Path, ann: Account) -> None:
    path, kept = str(folder / "threshold.sock"), list[tuple[str, str, str, int, str]]()

    async def nothing(*_: object) -> None:
        return None

    def knock() -> str:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
            one.connect(path)
            one.sendall(msgspec.json.encode(Hello("7", "r", "guess")) + b"\n")
            return one.recv(100).decode()

    async def scene() -> None:
        sources = Sources(lambda job: Wanted("mine", 1, True, True), lambda job: "secret", nothing, nothing)
        threshold = Threshold(f"unix:{path}", Decider("alpha", {}, lambda opened: None), sources)
        threshold.refused = lambda *one: kept.append(one)
        await threshold.open()
        assert await asyncio.to_thread(act_as, ann, knock) == "refused\n"
        await threshold.close()

    asyncio.run(scene())
    assert kept == [(f"uid {ann.uid}", "stand at the threshold", "job 7", 401, "wrong token")]
