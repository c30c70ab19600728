"""Attacks with tokens: making more of them, keeping them after they were revoked, taking them from a page."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cohabit.app.client.client import Client
from cohabit.app.client.connection import Address, Connection
from cohabit.model.errors import InputError
from tests.attack.accounts import Account
from tests.attack.asking import door_of, fresh_controller, holding, link_of, over_tcp, token_of
from tests.attack.controllers import RootController
from tests.live.api.page_visitor import visitor
from tests.live.api.serving import PATIENCE_S, ask
from tests.live.page.browsing import Tab, chromium

YEARS_S = 10 * 365 * 86400.0
SOON_S = 10.0


@pytest.fixture(scope="module")
def up() -> Iterator[RootController]:
    """One for all."""
    with fresh_controller() as one:
        yield one


def works(host: str, token: str) -> bool:
    """Whether the token opens the door."""
    status = over_tcp(host, "GET", "/v1/ping", token).status
    assert status in (200, 401)
    return status == 200


def test_a_stolen_token_of_a_user_neither_makes_nor_rotates_tokens(up: RootController, ann: Account) -> None:
    host, stolen = door_of(up), token_of(up, ann, expires_in_s=3600)
    long = token_of(up, ann, expires_in_s=YEARS_S)
    for path, body in (
        ("/v1/tokens", {"expires_in_s": YEARS_S}), (f"/v1/tokens/{stolen['id']}/rotate", {}),
        (f"/v1/tokens/{long['id']}/rotate", {"overlap_s": 0}),
    ):  # fmt: skip
        answer = over_tcp(host, "POST", path, stolen["token"], body)
        assert (answer.status, "over TCP only an admin" in answer.body["error"]) == (403, True), path
    assert works(host, long["token"])


def test_a_page_makes_no_token_not_even_an_admins(up: RootController, ann: Account) -> None:
    for account in (ann, None):
        page, long = visitor(link_of(up, account)), token_of(up, account, expires_in_s=YEARS_S)
        for path, body in (("/v1/tokens", {"expires_in_s": YEARS_S}), (f"/v1/tokens/{long['id']}/rotate", {}),
                           (f"/v1/tokens/{page.id}/rotate", {}), ("/v1/page/link", {})):  # fmt: skip
            assert page.ask("POST", path, body).status == 403, path


def test_no_token_outlives_the_one_it_was_made_with(up: RootController, ann: Account) -> None:
    host, stolen = door_of(up), token_of(up, None, expires_in_s=60)
    of_ann = token_of(up, ann, expires_in_s=YEARS_S)
    for path, body in (("/v1/tokens", {"expires_in_s": YEARS_S}), ("/v1/tokens", {"user": ann.name}),
                       (f"/v1/tokens/{of_ann['id']}/rotate", {})):  # fmt: skip
        made = over_tcp(host, "POST", path, stolen["token"], body)
        assert made.status == 201, made
        assert made.body["expires_at"] <= stolen["expires_at"]
    again = over_tcp(host, "POST", "/v1/tokens", made.body["token"], {})
    assert again.status == 403, "a token of ann's makes none"


def test_a_rotated_token_ends_when_the_first_was_to_end(up: RootController, ann: Account) -> None:
    first = token_of(up, ann, expires_in_s=60)
    second = up.ask(ann, "POST", f"/v1/tokens/{first['id']}/rotate", {}).body
    assert second["expires_at"] <= first["expires_at"]


def test_revoking_takes_what_was_made_with_a_token(up: RootController, ann: Account) -> None:
    host, first = door_of(up), token_of(up, ann)
    second = up.ask(ann, "POST", f"/v1/tokens/{first['id']}/rotate", {}).body
    assert works(host, second["token"])
    assert up.ask(ann, "DELETE", f"/v1/tokens/{first['id']}").status == 200
    assert not works(host, first["token"])
    assert not works(host, second["token"])
    admin, other = token_of(up, None), token_of(up, ann)
    child = over_tcp(host, "POST", "/v1/tokens", admin["token"], {}).body
    grandchild = over_tcp(host, "POST", "/v1/tokens", child["token"], {"user": ann.name}).body
    rotated = over_tcp(host, "POST", f"/v1/tokens/{other['id']}/rotate", child["token"], {}).body
    family = [one["token"] for one in (child, grandchild, rotated)]
    assert all(works(host, one) for one in family)
    assert up.ask(None, "DELETE", f"/v1/tokens/{admin['id']}").status == 200
    assert not any(works(host, one) for one in family)
    assert works(host, other["token"]), "it was made over the socket"


def test_revoking_ends_what_is_being_sent(up: RootController, ann: Account) -> None:
    host, token = door_of(up), token_of(up, ann)
    job = up.submit(ann, "sleep 30", hold=True)
    streams = []
    for path in ("/v1/events", f"/v1/jobs/{job}/output?follow=true", f"/v1/jobs/{job}/wait?timeout_s=600"):
        link = http.client.HTTPConnection(host, timeout=SOON_S)
        link.request("GET", path, headers={"Authorization": f"Bearer {token['token']}"})
        streams.append(link)
    events = streams[0].getresponse()
    assert b"listening" in events.readline()
    assert up.ask(ann, "DELETE", f"/v1/tokens/{token['id']}").status == 200
    while events.readline():
        pass
    streams[1].getresponse().read()
    assert streams[2].getresponse().status == 401
    for link in streams:
        link.close()
    up.ask(ann, "POST", f"/v1/jobs/{job}/cancel")


def test_revoking_a_pages_session_ends_it(up: RootController, ann: Account) -> None:
    page = visitor(link_of(up, ann))
    link = page.link()
    link.request("GET", "/v1/events", headers=page.headers("GET", "/v1/events"))
    events = link.getresponse()
    assert b"listening" in events.readline()
    assert up.ask(ann, "DELETE", f"/v1/tokens/{page.id}").status == 200
    if link.sock is not None:
        link.sock.settimeout(SOON_S)
    while events.readline():
        pass
    assert page.ask("GET", "/v1/ping").status == 401


def test_the_pages_door_shows_nothing_to_other_accounts(up: RootController, ann: Account, bob: Account) -> None:
    page = visitor(link_of(up, bob))
    for method, path in (
        ("GET", "/v1/ping"), ("GET", "/v1/jobs"), ("GET", "/v1/nodes"), ("GET", "/v1/openapi.json"),
        ("GET", "/metrics"), ("GET", "/v1/events"), ("GET", "/v1/page/about"), ("GET", "/v1/page/jobs"),
        ("POST", "/v1/page/leave"),
        ("GET", "/v1/tokens"), ("DELETE", f"/v1/tokens/{page.id}"), ("POST", "/v1/page/link"),
    ):  # fmt: skip
        assert over_tcp(page.host, method, path, account=ann).status == 401, path
        assert over_tcp(page.host, method, path, page.id, account=ann).status == 401, path
    assert page.ask("GET", "/v1/ping").body["user"] == bob.name


def test_a_pages_session_dies_with_the_server(ann: Account) -> None:
    with fresh_controller() as up:
        page, lasting = visitor(link_of(up, ann)), token_of(up, ann)
        assert page.ask("GET", "/v1/ping").status == 200
        files = [one for one in up.place.rglob("*") if one.is_file()]
        assert not [one for one in files if page.id.encode() in one.read_bytes() and "audit" not in one.name]
        up.kill()
        up.start()
        page.host = door_of(up)
        assert page.ask("GET", "/v1/ping").status == 401
        assert works(page.host, lasting["token"])


def test_whoever_sits_on_the_port_later_gets_nothing_that_opens_a_door(ann: Account, bob: Account) -> None:
    """Bob looks at the page; the server dies; Ann listens on its port, and uses what Bob's browser sent her."""
    with fresh_controller() as up, chromium() as browser, contextlib.closing(Tab(browser)) as tab:
        link = link_of(up, bob)
        tab.open(link)
        host, port = link.split("/")[2].split(":")
        up.kill()
        heard = up.place.parent / "heard"
        heard.touch()
        heard.chmod(0o666)

        def sit(report: Callable[[int], None]) -> None:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, int(port)))
            listener.listen(100)
            report(1)
            _record(listener, heard)

        with holding(ann, sit):
            up.until(lambda: "/v1/events" in heard.read_text(), 60)
            tab.page.wait_for_timeout(1500)
        requests = [json.loads(line) for line in heard.read_text().splitlines()]
        assert any("authorization" in one["headers"] for one in requests)
        up.start()
        there = door_of(up)
        for one in requests:
            proof = {"Authorization": one["headers"].get("authorization", "")}
            for path in ("/v1/ping", one["target"]):
                answer = ask(http.client.HTTPConnection(there, timeout=PATIENCE_S), "GET", path, None, proof)
                assert answer.status == 401, (path, answer)


def _record(listener: socket.socket, path: Path) -> None:
    """Every request somebody sends to the API, a line of JSON each; nobody gets an answer."""
    while True:
        end, _ = listener.accept()
        with end:
            end.settimeout(1.0)
            with contextlib.suppress(OSError):
                lines = end.recv(65536).decode("latin-1").split("\r\n\r\n")[0].split("\r\n")
                words = lines[0].split()
                if len(words) == 3 and words[1].startswith("/v1/"):
                    headers = {line.partition(": ")[0].lower(): line.partition(": ")[2] for line in lines[1:]}
                    with path.open("a") as stream:
                        stream.write(json.dumps({"target": words[1], "headers": headers}) + "\n")


def test_the_commands_send_no_token_to_another_program_on_the_port(ann: Account, folder: Path) -> None:
    """Ann listens where a server was, and answers everything with what a server might say."""
    heard, token = folder / "heard", "0123abcd.secret-of-bob"
    heard.touch()
    heard.chmod(0o666)

    def sit(report: Callable[[int], None]) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        report(listener.getsockname()[1])
        while True:
            end, _ = listener.accept()
            with end, contextlib.suppress(OSError):
                end.settimeout(2.0)
                while content := end.recv(65536):
                    with heard.open("ab") as stream:
                        stream.write(content)
                    said = b'{"proof": "' + b"0" * 64 + b'", "jobs": [], "next": null}'
                    end.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                                b"content-length: %d\r\n\r\n%s" % (len(said), said))  # fmt: skip

    with holding(ann, sit) as port:
        client = Client(Connection(Address(url=f"http://127.0.0.1:{port}"), token))
        with pytest.raises(InputError, match="it was not sent"):
            client.jobs()
    assert b"0123abcd" in heard.read_bytes()
    assert b"secret-of-bob" not in heard.read_bytes()
