"""Tricks that must not work: files of others, places of others, requests that never end or cannot be read."""

from __future__ import annotations

import http.client
import os
import socket
import stat
import time
from pathlib import Path

import pytest

from cohabit.app.serve.serving import ServeConfig, open_parts
from cohabit.live.api import server as serving_module
from cohabit.live.api.settings import ApiSettings
from cohabit.live.api.tokens import Tokens
from cohabit.live.controller.place import Place, only_one, open_place
from cohabit.model.errors import InputError
from tests.live.api.serving import Answer, Server, ask_as, served

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")


def submit_as_nobody(server: Server, body: dict[str, object]) -> Answer:
    return ask_as(NOBODY, NOBODY, server, "POST", "/v1/jobs", {"command": ["echo", "mine"], "limit_s": 60, **body})


@as_root
@pytest.mark.parametrize("how", ["plainly", "by a link", "by a folder that is a link", "by a placeholder"])
def test_output_is_opened_with_the_users_rights_only(server: Server, how: str) -> None:
    """What root could write and the user may not is not written, whatever leads there."""
    there = server.config.place.parent / how.replace(" ", "-")
    there.mkdir(0o755)
    secret, own = there / "secret", there / "own"
    secret.mkdir(0o700)
    (secret / "file").write_text("as it was")
    own.mkdir()
    os.chown(own, NOBODY, NOBODY)
    (own / "link").symlink_to(secret / "file")
    (own / "folder").symlink_to(secret)
    path = {
        "plainly": str(secret / "file"), "by a link": "link", "by a folder that is a link": "folder/new",
        "by a placeholder": "folder/%j",
    }[how]  # fmt: skip
    for stream in ("stdout", "stderr"):
        answer = submit_as_nobody(server, {"folder": str(own), stream: path})
        view = server.over(answer.body["job"])
        assert (view["state"], "permission denied" in view["why"]) == ("failed", True), view
    assert (secret / "file").read_text() == "as it was"
    assert [one.name for one in secret.iterdir()] == ["file"]


@as_root
def test_a_file_a_job_makes_is_its_users(server: Server) -> None:
    job = submit_as_nobody(server, {}).body["job"]
    view = server.over(job)
    assert view["state"] == "done"
    found = os.stat(view["stdout"])
    assert (found.st_uid, found.st_gid) == (NOBODY, NOBODY)
    folder = Path(view["stdout"]).parent
    assert folder.stat().st_mode & 0o077 == 0
    assert folder.parent.stat().st_uid == 0  # nobody can put a link there


@as_root
def test_a_place_that_others_could_change_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    os.chown(place, NOBODY, NOBODY)
    with pytest.raises(InputError, match="belongs to user nobody"):
        open_parts(ServeConfig(place))
    os.chown(place, 0, 0)
    for mode in (0o777, 0o1777):
        place.chmod(mode)
        with pytest.raises(InputError, match="every account may write to it"):
            open_parts(ServeConfig(place))
    assert list(place.iterdir()) == []


def test_a_new_place_is_not_open_to_others_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        place = open_place(tmp_path / "above" / "place")
        only_one(place).close()
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(one.stat().st_mode) for one in (place.root.parent, place.root, place.private, place.lock)]
    assert modes == [0o755, 0o755, 0o700, 0o600]


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000, b'{"command": ' * 50_000, b'{"command": ["\xff\xfe"]}', b'{"command": ["\\ud800"]}',
        b'{"command": ["true"], "limit_s": NaN}', b'{"command": ["true"], "limit_s": 1e999}',
        b'{"command": ["true"], "processes": 1' + b"0" * 5000 + b"}", b"\0" * 1000, b"",
    ],
)  # fmt: skip
def test_bodies_that_cannot_be_read_are_refused_in_one_sentence(server: Server, body: bytes) -> None:
    answer = server.ask("POST", "/v1/jobs", body)
    assert 400 <= answer.status < 500, answer
    assert answer.body["error"]


def test_a_token_is_never_kept_and_never_told_again(server: Server) -> None:
    made = server.ask("POST", "/v1/tokens", {"label": "once"})
    secret = made.body["token"]
    kept = Place(server.config.place).tokens.read_text()
    assert secret not in kept
    assert secret.partition(".")[2] not in kept
    assert secret not in str(server.ask("GET", "/v1/tokens").body)
    assert secret not in str(server.ask("GET", "/v1/audit").body)
    assert Place(server.config.place).tokens.stat().st_mode & 0o077 == 0


def test_no_part_of_a_token_opens_the_door(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    made = tokens.add("ann", "", 60.0)
    name, _, secret = made.secret.partition(".")
    assert tokens.check(made.secret) == made.kept
    for wrong in (name, f"{name}.", secret, f".{secret}", made.secret[:-1], f"{made.secret}x", made.kept.hash,
                  f"{name}.{made.kept.hash}", "", "."):  # fmt: skip
        assert tokens.check(wrong) is None


def closed_within(link: socket.socket, seconds: float) -> bool:
    """Whether the server hangs up on us."""
    link.settimeout(seconds)
    try:
        while link.recv(65536):
            continue
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


@pytest.mark.parametrize("first", [b"", b"GET /v1/ping HTTP/1.1\r\nHost: x\r\n\r\n"])
def test_who_sends_a_request_by_and_by_is_hung_up_on(first: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after a first request that was sent as it should be."""
    monkeypatch.setattr(serving_module, "FIRST_REQUEST_S", 1.0)
    monkeypatch.setattr(serving_module, "KEEP_ALIVE_S", 1)
    with served(ApiSettings()) as server, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.connect(server.path)
        link.sendall(first)
        until = time.monotonic() + 60
        hung_up = False
        while not hung_up and time.monotonic() < until:
            try:
                link.sendall(b"G")
            except ConnectionError:
                hung_up = True
                break
            hung_up = closed_within(link, 0.2)
        assert hung_up
        assert server.ask("GET", "/v1/ping").status == 200


def test_many_connections_that_say_nothing_keep_nobody_out(server: Server) -> None:
    silent = []
    try:
        for _ in range(200):
            link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            link.connect(server.path)
            silent.append(link)
        assert server.over(server.submit("exit 0"))["state"] == "done"
    finally:
        for link in silent:
            link.close()


def test_headers_without_end_are_refused(server: Server) -> None:
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        link.putrequest("GET", "/v1/ping")
        for number in range(2000):
            link.putheader(f"X-{number}", "y" * 100)
        link.endheaders()
        status = link.getresponse().status
    except (ConnectionError, http.client.HTTPException):
        status = 400  # hung up on before it had said it all
    finally:
        link.close()
    assert 400 <= status < 500
    assert server.ask("GET", "/v1/ping").status == 200
