"""Who may do what: users by the kernel's word, tokens, roles, limits; and tricks that must not work."""

from __future__ import annotations

import http.client
import os
import shutil
import ssl
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from cohabit.app.serve.serving import ServeConfig
from cohabit.live.api.settings import ApiSettings, UserLimits
from cohabit.live.controller.place import Place
from cohabit.model.errors import InputError
from tests.live.api.serving import Answer, Server, ask, ask_as, served

NOBODY, STRANGER = 65534, 54321  # one with an account, one without
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")


@pytest.fixture(scope="module")
def limited() -> Iterator[Server]:
    """A server that knows an operator and limits others."""
    users = {str(STRANGER): UserLimits("operator"), "nobody": UserLimits(max_queued=4, max_running=1, qos=2)}
    with served(ApiSettings(users=users)) as one:
        yield one


def other(server: Server, method: str, path: str, body: object = None, uid: int = NOBODY) -> Answer:
    return ask_as(uid, uid, server, method, path, body)


# ---- users --------------------------------------------------------------------------------------------------------


@as_root
def test_the_kernel_says_who_calls(server: Server) -> None:
    assert other(server, "GET", "/v1/ping").body["role"] == "user"
    assert other(server, "GET", "/v1/ping").body["user"] == "nobody"
    assert other(server, "GET", "/v1/ping", uid=STRANGER).body["user"] == str(STRANGER)
    assert server.ask("GET", "/v1/ping", headers={"X-Remote-User": "nobody"}).body["user"] != "nobody"


@as_root
def test_jobs_of_others_are_neither_seen_nor_touched(server: Server) -> None:
    mine = server.submit("echo secret; sleep 60", name="of-root", environment={"KEY": "secret"})
    server.until(lambda: server.show(mine)["state"] == "running")
    for method, path, body in (
        ("GET", "", None), ("GET", "/why", None), ("GET", "/output", None), ("GET", "/wait?timeout_s=0", None),
        ("POST", "/cancel", None), ("POST", "/hold", None), ("POST", "/release", None), ("POST", "/requeue", None),
        ("PATCH", "", {"limit_s": 1}),
    ):  # fmt: skip
        answer = other(server, method, f"/v1/jobs/{mine}{path}", body)
        assert answer.status == 404, (method, path, answer)
        assert "secret" not in str(answer.body)
    assert other(server, "POST", "/v1/jobs", {"command": ["true"], "after": [mine]}).status == 404
    assert other(server, "GET", "/v1/jobs?state=all").body["jobs"] == []
    assert other(server, "GET", "/v1/jobs?user=root").status == 403
    assert mine not in str(other(server, "GET", "/v1/nodes").body)
    assert mine not in other(server, "GET", "/v1/accounting?format=csv").body
    assert server.show(mine)["state"] == "running"
    server.ask("POST", f"/v1/jobs/{mine}/cancel")


@as_root
def test_what_is_for_operators_is_refused_to_users(server: Server) -> None:
    window = {"name": "w", "nodes": "0", "begin": 0, "end": 9e9}
    contents = {"folder": "/etc/cohabit", "tables": "{}"}
    for method, path, body in (
        ("GET", "/v1/audit", None), ("POST", "/v1/nodes/0/drain", None), ("POST", "/v1/nodes/0/resume", None),
        ("POST", "/v1/windows", window), ("DELETE", "/v1/windows/w", None), ("POST", "/v1/reload", contents),
    ):  # fmt: skip
        assert other(server, method, path, body).status == 403
    assert server.ask("POST", "/v1/reload", contents).status == 409  # a controller of one machine has no such file
    job = other(server, "POST", "/v1/jobs", {"command": ["true"], "hold": True, "limit_s": 60}).body["job"]
    assert other(server, "PATCH", f"/v1/jobs/{job}", {"limit_s": 50}).status == 200
    assert other(server, "PATCH", f"/v1/jobs/{job}", {"limit_s": 70}).status == 403
    assert other(server, "PATCH", f"/v1/jobs/{job}", {"qos": 9}).status == 403
    assert other(server, "POST", "/v1/jobs", {"command": ["true"], "qos": 9}).status == 403
    assert server.ask("GET", f"/v1/jobs/{job}").body["user"] == "nobody"
    assert server.ask("POST", f"/v1/jobs/{job}/cancel").status == 200


@as_root
def test_a_job_runs_as_who_submitted_it(server: Server) -> None:
    for uid in (NOBODY, STRANGER):
        script = {"command": ["/bin/sh", "-c", "id -u; id -G; cat /etc/shadow"], "limit_s": 60}
        job = other(server, "POST", "/v1/jobs", script, uid).body["job"]
        assert server.over(job)["state"] == "failed"
        text = other(server, "GET", f"/v1/jobs/{job}/output", uid=uid).body
        assert text.splitlines()[0] == str(uid)
        assert "0" not in text.splitlines()[1].split()
        assert "denied" in text.lower()


@as_root
def test_output_is_read_with_the_rights_of_the_jobs_user(server: Server, tmp_path: Path) -> None:
    """A job puts a link to a secret file where its output was; the server could read it, its user cannot."""
    secret, place = server.config.place / "secret", server.config.place.parent / "of-nobody"
    secret.write_text("secret")
    secret.chmod(0o600)
    place.mkdir()
    os.chown(place, NOBODY, NOBODY)
    for script in (f"rm out; ln -s {secret} out", f"rm out; ln {secret} out", "rm out; mkfifo out"):
        body = {"command": ["/bin/sh", "-c", script], "folder": str(place), "stdout": "out", "limit_s": 60}
        job = other(server, "POST", "/v1/jobs", body).body["job"]
        server.over(job)
        for answer in (other(server, "GET", f"/v1/jobs/{job}/output"), server.ask("GET", f"/v1/jobs/{job}/output")):
            assert "secret" not in str(answer.body), script
        for left in place.iterdir():
            left.unlink()
    named = {"command": ["true"], "stdout": str(secret), "limit_s": 60}
    job = other(server, "POST", "/v1/jobs", named).body["job"]
    assert server.over(job)["state"] != "done"
    assert other(server, "GET", f"/v1/jobs/{job}/output").status == 403
    assert secret.read_text() == "secret"


@as_root
def test_everything_somebody_changed_is_in_the_audit_log(server: Server) -> None:
    job = other(server, "POST", "/v1/jobs", {"command": ["true"], "hold": True}).body["job"]
    other(server, "POST", f"/v1/jobs/{job}/release")
    other(server, "POST", f"/v1/jobs/{job}/release")
    entries = [one for one in server.ask("GET", "/v1/audit?limit=50").body["entries"] if one["about"] == job]
    done = [(one["user"], one["action"], one["status"]) for one in reversed(entries)]
    assert done == [("nobody", "submit", 201), ("nobody", "release", 200), ("nobody", "release", 409)]
    assert all("process" in one["from"] and one["at"] > 1e9 for one in entries)
    kept = Place(server.config.place).audit
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


@as_root
def test_events_of_others_are_not_told(server: Server) -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:  # reads events as somebody else while both submit, and hands on what it saw
        try:
            os.setgroups([])
            os.setuid(NOBODY)
            from tests.live.api.serving import UnixConnection

            link = UnixConnection(server.path)
            link.request("GET", "/v1/events")
            answer = link.getresponse()
            link.sock.settimeout(3)
            try:
                while True:
                    os.write(writing, answer.readline())
            except OSError:
                os._exit(0)
        finally:
            os._exit(2)
    os.close(writing)
    assert b"listening" in os.read(reading, 100)
    job = server.submit("exit 0")
    own = other(server, "POST", "/v1/jobs", {"command": ["true"], "limit_s": 60}).body["job"]
    server.over(job)
    server.over(own)
    with os.fdopen(reading, "rb") as handed:
        seen = handed.read()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert f'"job":"{own}"'.encode() in seen
    assert f'"job":"{job}"'.encode() not in seen


# ---- limits and roles ---------------------------------------------------------------------------------------------


@as_root
def test_an_operator_of_the_site_file_may_touch_jobs_of_others(limited: Server) -> None:
    job = limited.submit("sleep 60")
    assert other(limited, "GET", f"/v1/jobs/{job}", uid=STRANGER).body["command"]
    assert other(limited, "POST", f"/v1/jobs/{job}/cancel", uid=STRANGER).status == 200
    assert other(limited, "POST", "/v1/nodes/1/drain", uid=STRANGER).body["state"] == "drained"
    assert other(limited, "POST", "/v1/nodes/1/resume", uid=STRANGER).body["state"] in ("idle", "busy")
    assert other(limited, "POST", "/v1/tokens", {"user": "root"}, uid=STRANGER).status == 403


@as_root
def test_queued_jobs_are_counted_and_the_priority_is_bounded(limited: Server) -> None:
    body = {"command": ["true"], "hold": True}
    jobs = [other(limited, "POST", "/v1/jobs", body).body["job"] for _ in range(4)]
    full = other(limited, "POST", "/v1/jobs", body)
    assert (full.status, "may have 4" in full.body["error"]) == (429, True)
    assert other(limited, "POST", "/v1/jobs", {**body, "array": "1-2"}).status == 429
    assert limited.ask("POST", "/v1/jobs", body).status == 201
    for job in jobs:
        assert other(limited, "POST", f"/v1/jobs/{job}/cancel").status == 200
    low = other(limited, "POST", "/v1/jobs", {**body, "qos": 2})
    assert low.status == 201
    assert other(limited, "POST", "/v1/jobs", {**body, "qos": 3}).status == 403
    other(limited, "POST", f"/v1/jobs/{low.body['job']}/cancel")


@as_root
def test_no_more_than_so_many_run_at_once_and_the_rest_follow(limited: Server) -> None:
    go = limited.config.place.parent / "go"  # where others may look
    body = {"command": ["/bin/sh", "-c", f"while ! test -e {go}; do sleep 0.05; done; sleep 0.2"], "limit_s": 600}
    jobs = [other(limited, "POST", "/v1/jobs", body).body["job"] for _ in range(3)]
    assert "as may run" in other(limited, "GET", f"/v1/jobs/{jobs[2]}/why").body["why"]
    listed = {one["job"]: one["why"] for one in other(limited, "GET", "/v1/jobs").body["jobs"]}
    assert "as may run" in listed[jobs[2]]
    assert other(limited, "POST", f"/v1/jobs/{jobs[2]}/release").status == 409
    go.touch()
    views = [limited.over(job) for job in jobs]
    assert [one["state"] for one in views] == ["done"] * 3
    for first, second in pairwise(views):
        assert second["started_at"] >= first["ended_at"] - 0.001


@as_root
@pytest.mark.slow
def test_who_is_kept_back_is_let_go_after_a_restart(tmp_path: Path) -> None:
    place = Path(tempfile.mkdtemp(prefix="cohabit-api-"))
    place.chmod(0o755)
    settings = ApiSettings(users={"nobody": UserLimits(max_running=1)})
    config = ServeConfig(place / "state", 2, api=settings)
    first = Server(config)
    body = {"command": ["/bin/sh", "-c", "sleep 1"], "limit_s": 60}
    jobs = [other(first, "POST", "/v1/jobs", body).body["job"] for _ in range(3)]
    mine = other(first, "POST", "/v1/jobs", {**body, "hold": True}).body["job"]
    first.close()
    second = Server(config)
    try:
        views = [second.over(job) for job in jobs]
        for one, following in pairwise(views):
            assert following["started_at"] >= one["ended_at"] - 0.001
        assert second.show(mine)["state"] == "held", "a hold of its owner is not lifted by us"
    finally:
        second.close()
        shutil.rmtree(place)


@as_root
def test_a_server_without_root_takes_nothing_from_users_it_does_not_know(limited: Server) -> None:
    """As if it ran as another user; what it would run as that user is never started here."""
    assert limited.service.api is not None
    taking = limited.service.api.parts.taking
    before = taking.runs_as
    taking.runs_as = before._replace(own=4242)
    try:
        answer = other(limited, "POST", "/v1/jobs", {"command": ["true"], "hold": True}, uid=33333)
        assert (answer.status, "[users.33333]" in answer.body["fix"]) == (403, True)
        known = other(limited, "POST", "/v1/jobs", {"command": ["true"], "hold": True})
        assert known.status == 201
    finally:
        taking.runs_as = before
    limited.ask("POST", f"/v1/jobs/{known.body['job']}/cancel")


# ---- names, sizes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "a/b", "..", ".hidden", "-rf", "a b", "a\n", "", "x" * 65, "é", "12", "a_1", "a\0", "a;b",
     "$(id)"],
)  # fmt: skip
def test_names_that_are_tricks_are_refused(server: Server, name: str) -> None:
    before = sorted(path.name for path in server.config.place.rglob("*.out"))
    answer = server.ask("POST", "/v1/jobs", {"command": ["true"], "name": name})
    assert (answer.status, answer.body["where"]) == (422, "name")
    assert sorted(path.name for path in server.config.place.rglob("*.out")) == before


@pytest.mark.parametrize("path", ["..%2f..%2fjournal.db", "%00", "../../../etc/passwd", "%2e%2e", "x" * 3000])
def test_paths_that_are_tricks_find_nothing(server: Server, path: str) -> None:
    for what in ("", "/output", "/why"):
        assert server.ask("GET", f"/v1/jobs/{path}{what}").status in (404, 422)


def test_large_bodies_are_refused(server: Server) -> None:
    big = {"command": ["true"], "environment": {"A": "x" * 2_000_000}}
    answer = server.ask("POST", "/v1/jobs", big)
    assert (answer.status, "1 MiB" in answer.body["error"]) == (413, True)
    link = http.client.HTTPConnection("127.0.0.1", server.port)
    link.putrequest("POST", "/v1/jobs")
    link.putheader("Transfer-Encoding", "chunked")
    link.endheaders()
    try:
        for _ in range(40):
            link.send(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        link.send(b"0\r\n\r\n")
    except OSError:
        pass  # it was told off already
    assert link.getresponse().status in (401, 413)
    link.close()
    assert server.ask("GET", "/v1/ping").status == 200


# ---- tokens -------------------------------------------------------------------------------------------------------


def add_token(server: Server, **wish: object) -> dict[str, str]:
    answer = server.ask("POST", "/v1/tokens", wish)
    assert answer.status == 201, answer
    return dict(answer.body)


def test_over_tcp_a_token_is_needed(server: Server) -> None:
    for token in ("", "wrong", "a.b", "é", "x" * 5000):
        answer = server.ask_tcp("GET", "/v1/ping", token if token.isascii() else "wrong")
        assert (answer.status, set(answer.body)) == (401, {"error", "where", "fix"})
        assert answer.headers["www-authenticate"] == "Bearer"
    assert server.ask_tcp("GET", "/metrics").status == 401
    assert server.ask("GET", "/metrics").status == 200


def test_a_token_is_its_users(server: Server) -> None:
    made = add_token(server, user="ann", label="laptop")
    answer = server.ask_tcp("GET", "/v1/ping", made["token"])
    assert (answer.status, answer.body["user"], answer.body["role"]) == (200, "ann", "user")
    assert server.ask_tcp("POST", "/v1/tokens", made["token"], {}).status == 403
    assert [one["id"] for one in server.ask_tcp("GET", "/v1/tokens", made["token"]).body["tokens"]] == [made["id"]]
    kept = Place(server.config.place).tokens
    assert made["token"] not in kept.read_text()
    assert made["token"].partition(".")[2] not in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def expire(server: Server, token: str, soonest: float, latest: float) -> None:
    """Ask with it until it is refused, which must not be too soon, and must be in time."""
    while True:
        asked_at = time.time()
        status = server.ask_tcp("GET", "/v1/ping", token).status
        if status == 401:
            assert time.time() > soonest, "refused too soon"
            return
        assert (status, asked_at < latest + 1) == (200, True), "taken too long"
        time.sleep(0.1)


def test_tokens_expire_and_are_revoked(server: Server) -> None:
    short = add_token(server, user="ann", expires_in_s=2)
    expire(server, short["token"], short["expires_at"] - 0.1, short["expires_at"])
    other_one = add_token(server, user="ann")
    assert server.ask("DELETE", f"/v1/tokens/{other_one['id']}").body["revoked_at"] is not None
    assert server.ask_tcp("GET", "/v1/ping", other_one["token"]).status == 401
    assert server.ask("POST", f"/v1/tokens/{other_one['id']}/rotate", {}).status == 409


def test_two_tokens_are_valid_while_one_takes_over(server: Server) -> None:
    old = add_token(server, user="ben")
    asked_at = time.time()
    new = server.ask("POST", f"/v1/tokens/{old['id']}/rotate", {"overlap_s": 2}).body
    expire(server, old["token"], asked_at + 1.9, time.time() + 2)
    assert server.ask_tcp("GET", "/v1/ping", new["token"]).body["user"] == "ben"


@as_root
def test_a_root_server_runs_nothing_for_users_without_an_account(server: Server) -> None:
    made = add_token(server, user="nobody-of-this-machine")
    answer = server.ask_tcp("POST", "/v1/jobs", made["token"], {"command": ["true"]})
    assert (answer.status, "no account" in answer.body["error"]) == (403, True)


@as_root
def test_a_token_of_a_local_user_runs_jobs_as_that_user(server: Server) -> None:
    made = add_token(server, user="nobody")
    answer = server.ask_tcp("POST", "/v1/jobs", made["token"], {"command": ["id", "-u"], "limit_s": 60})
    assert answer.status == 201
    server.over(answer.body["job"])
    assert server.ask_tcp("GET", f"/v1/jobs/{answer.body['job']}/output", made["token"]).body == f"{NOBODY}\n"


# ---- TCP and TLS --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.org"])
def test_other_addresses_than_loopback_need_a_certificate(host: str) -> None:
    with pytest.raises(InputError, match="unencrypted"):
        ApiSettings(host=host)
    ApiSettings(host=host, certificate=Path("some.pem"), key=Path("some.key"))


def test_tls_and_tokens(tmp_path: Path) -> None:
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    with served(ApiSettings(host="0.0.0.0", certificate=certificate, key=key)) as server:
        token = add_token(server)["token"]
        context = ssl.create_default_context(cafile=str(certificate))
        link = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=30)
        answer = ask(link, "GET", "/v1/ping", headers={"Authorization": f"Bearer {token}"})
        assert (answer.status, answer.body["role"]) == (200, "admin")
        plain = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        with pytest.raises((OSError, http.client.HTTPException)):
            ask(plain, "GET", "/v1/ping")
