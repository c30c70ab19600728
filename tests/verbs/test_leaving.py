"""Schedulers that come and go, callers that are stopped in the middle, and callers who may not."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.cli_calls import COMMAND, Answer, cohabit
from tests.live.peers.test_peers import make_certificates
from tests.verbs.living import AN_ACCOUNT, ROOT_JOBS, Scheduler

TICKS = "i=0; while [ $i -lt 6000 ]; do echo tick $i; i=$((i+1)); sleep 0.1; done"


def begun(*words: str | Path, **environment: str) -> subprocess.Popen[str]:
    """The real program, on its own."""
    return subprocess.Popen(
        [COMMAND, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests may run where it is ignored
    )  # fmt: skip


def connected(process: subprocess.Popen[str]) -> bool:
    """Whether it has a socket; it opens and closes other files while we look."""
    for one in os.listdir(f"/proc/{process.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(f"/proc/{process.pid}/fd/{one}").startswith("socket:"):
                return True
    return False


def wait_until_connected(process: subprocess.Popen[str], patience_s: float = 120.0) -> None:
    """Its interpreter has long begun by then."""
    deadline = time.monotonic() + patience_s
    while not connected(process):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.2)  # the answer it waits for


def own_terminal() -> None:
    """Ctrl-C comes from the terminal a program belongs to; tests may run where it is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def ended(process: subprocess.Popen[str]) -> Answer:
    out, err = process.communicate(timeout=180)
    assert "Traceback" not in err, err
    return Answer(process.returncode, out, err)


def test_following_ends_with_the_job(living: Scheduler) -> None:
    job = living.submit("--", "sh", "-c", "echo first; sleep 0.5; echo last")
    answer = ended(begun("logs", job, "--follow", "--server", living.socket))
    assert (answer.code, answer.out, answer.err) == (0, "first\nlast\n", "")


@pytest.mark.parametrize("verb", ["logs", "wait"])
def test_ctrl_c_leaves_the_job_alone(living: Scheduler, verb: str) -> None:
    job = living.submit("--", "sh", "-c", TICKS)
    living.until(job, "running")
    process = begun(verb, job, *(["--follow"] if verb == "logs" else []), "--server", living.socket)
    if verb == "logs":
        assert process.stdout is not None
        assert process.stdout.readline() == "tick 0\n"
    else:
        wait_until_connected(process)
    process.send_signal(signal.SIGINT)
    answer = ended(process)
    assert answer.code == 130, answer
    assert "continue" in answer.err
    assert answer.err.count("\n") == 1
    assert living.show(job)["state"] == "running"
    living.ok("cancel", job)


def read_until(descriptor: int, word: str, patience_s: float = 120.0) -> str:
    seen, deadline = "", time.monotonic() + patience_s
    while word not in seen:
        assert time.monotonic() < deadline, seen
        try:
            seen += os.read(descriptor, 65536).decode(errors="replace")
        except OSError:  # the other side is closed
            raise AssertionError(seen) from None
    return seen


@pytest.mark.parametrize("key", [b"q", b"\x03"])
def test_top_on_a_terminal(living: Scheduler, key: bytes) -> None:
    job = living.submit("--name", f"screen-{len(key)}-{key[0]}", "--", "sleep", "600")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, "top", "--every", "0.2s", "--server", str(living.socket)], stdin=theirs, stdout=theirs, stderr=theirs,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "150", "LINES": "40"}, start_new_session=True,
        preexec_fn=own_terminal,
    )  # fmt: skip
    os.close(theirs)
    try:
        read_until(ours, job)
        os.write(ours, key)
        deadline = time.monotonic() + 90
        while process.poll() is None:
            assert time.monotonic() < deadline
            try:
                os.read(ours, 65536)
            except OSError:
                break
        assert process.wait(90) == 0
    finally:
        process.kill()
        os.close(ours)
        living.call("cancel", job)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Scheduler]:
    """One that a test may kill."""
    scheduler = Scheduler(tmp_path / "place").start()
    yield scheduler
    assert scheduler.process is not None
    if scheduler.process.poll() is not None:
        scheduler.start()
    scheduler.call("cancel", "--all")
    assert scheduler.stop() == 0, scheduler.errors()


@pytest.mark.slow
def test_a_scheduler_that_is_killed_in_the_middle(own: Scheduler) -> None:
    job = own.submit("--", "sh", "-c", TICKS)
    own.until(job, "running")
    started = own.show(job)["started_at"]
    followers = [begun("logs", job, "--follow", "--server", own.socket), begun("wait", job, "--server", own.socket)]
    assert followers[0].stdout is not None
    assert followers[0].stdout.readline() == "tick 0\n"
    wait_until_connected(followers[1])
    own.stop(signal.SIGKILL)
    for process in followers:
        answer = ended(process)
        assert answer.code == 1, answer
        assert "went away" in answer.err
        assert answer.err.count("\n") == 1
    sentence = own.call("queue").sentence()
    assert "no scheduler is there" in sentence
    own.start()
    view = own.show(job)
    assert (view["state"], view["attempt"]) == ("running", 1), "the same run, found again"
    assert view["started_at"] == pytest.approx(started, abs=1)


@pytest.mark.slow
def test_jobs_go_on_without_the_scheduler(tmp_path: Path) -> None:
    scheduler = Scheduler(tmp_path / "place").start()
    wait = f"while [ ! -e {tmp_path}/go ]; do sleep 0.1; done"
    job = scheduler.submit("--", "sh", "-c", f"{wait}; echo over > {tmp_path}/over")
    scheduler.until(job, "running")
    assert scheduler.stop() == 0
    assert "continue" in scheduler.errors()
    (tmp_path / "go").touch()
    deadline = time.monotonic() + 60
    while not (tmp_path / "over").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    scheduler.start()
    assert scheduler.over(job)["state"] == "done"
    assert scheduler.stop(signal.SIGTERM) == 0


@pytest.mark.slow
def test_up_until_idle_and_its_refusals(tmp_path: Path) -> None:
    place = tmp_path / "place"
    answer = ended(begun("up", "--place", place, "--until-idle", "--json", *ROOT_JOBS))
    assert answer.code == 0, answer
    assert isinstance(json.loads(answer.out), dict)
    assert "says nodes = machine, not 2" in ended(begun("up", "--place", place, "--nodes", "2")).sentence()
    scheduler = Scheduler(place, ()).start()
    assert "another controller" in ended(begun("up", "--place", place)).sentence()
    assert scheduler.stop() == 0
    for words in (("--nodes", "none"), ("--policy", "nobody"), ("--listen", "here")):
        ended(begun("up", "--place", tmp_path / "other", *words)).sentence()


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scheduler, str]]:
    """One that also listens on a port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    place = tmp_path_factory.mktemp("remote") / "place"
    scheduler = Scheduler(place, ("--listen", address)).start()
    yield scheduler, f"http://{address}"
    assert scheduler.stop() == 0, scheduler.errors()


@pytest.mark.slow
def test_tokens(remote: tuple[Scheduler, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scheduler, url = remote
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("COHABIT_TOKEN", raising=False)
    assert "COHABIT_TOKEN" in cohabit("queue", "--server", url).sentence()
    monkeypatch.setenv("COHABIT_TOKEN", "wrong")
    assert "wrong, expired or revoked" in cohabit("queue", "--server", url).sentence()
    told = cohabit("token", "add", "--label", "laptop", "--server", scheduler.socket, "--json")
    assert told.code == 0, told
    made = told.document
    monkeypatch.setenv("COHABIT_TOKEN", made["token"])
    assert cohabit("queue", "--server", url, "--json").code == 0
    listed = cohabit("token", "list", "--server", scheduler.socket, "--json").document["tokens"]
    assert [(one["id"], one["label"]) for one in listed] == [(made["id"], "laptop")]
    assert made["token"] not in json.dumps(listed)
    assert "laptop" in cohabit("token", "list", "--server", scheduler.socket).out
    new = cohabit("token", "rotate", made["id"], "--overlap", "0s", "--server", scheduler.socket, "--json").document
    cohabit("queue", "--server", url).sentence()
    monkeypatch.setenv("COHABIT_TOKEN", new["token"])
    assert cohabit("queue", "--server", url, "--json").code == 0
    assert cohabit("token", "revoke", new["id"], "--server", scheduler.socket).code == 0
    assert "revoked" in cohabit("queue", "--server", url).sentence()
    cohabit("token", "revoke", "nonesuch", "--server", scheduler.socket).sentence()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes the certificates, is not installed")
def test_over_tls(tmp_path: Path) -> None:
    make_certificates(tmp_path, "cluster")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    tls = '[tls]\ncertificate = "cluster.pem"\nkey = "cluster.key"\n'
    site = f'nodes = 1\nplace = "place"\n[api]\nlisten = "127.0.0.1:{port}"\n{tls}'
    (tmp_path / "site.toml").write_text(f"{site}{AN_ACCOUNT}")
    scheduler = Scheduler(tmp_path / "place", command=("controller", str(tmp_path / "site.toml"))).start()
    try:
        token = cohabit("token", "add", "--server", scheduler.socket).out.strip()
        known = {"COHABIT_TOKEN": token, "COHABIT_SERVER": f"https://127.0.0.1:{port}"}
        assert "not trusted" in ended(begun("queue", **known)).sentence()
        known["SSL_CERT_FILE"] = str(tmp_path / "ca.pem")
        job = json.loads(ended(begun("submit", "--json", "--", "echo", "safely", **known)).out)["job"]
        assert ended(begun("wait", job, **known)).code == 0
        assert ended(begun("logs", job, **known)).out == "safely\n"
    finally:
        assert scheduler.stop() == 0, scheduler.errors()


@pytest.mark.slow
def test_an_address_where_something_else_answers(tmp_path: Path) -> None:
    """A server that speaks another language is not taken for ours."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        process = begun("queue", "--server", f"http://127.0.0.1:{port}", XDG_CONFIG_HOME=str(tmp_path))
        stranger, _ = listener.accept()
        stranger.recv(65536)
        stranger.sendall(b"220 mail.example ESMTP\r\n")
        stranger.close()
        answer = ended(process)
    assert answer.code in (1, 2), answer
    assert re.search(r"went away|not an answer|not answer", answer.err), answer
