"""The controller of root is not root: what it is, what it may ask its launcher for, and what it is refused."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cohabit.app.serve.closed_folders import open_ways
from cohabit.launcher import wire
from cohabit.launcher.process import begin
from tests.attack.accounts import Account, act_as, become, shell
from tests.attack.controllers import PATIENCE_S, RootController, controller, shared_controller

SERVICE = 61999  # a uid that no account has


@pytest.fixture(scope="module")
def up() -> Iterator[RootController]:
    with shared_controller() as one:
        yield one


def status_of(pid: int) -> dict[str, str]:
    lines = (line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {key: value.strip() for key, value in lines}


def test_the_process_that_parses_requests_is_not_root(up: RootController) -> None:
    assert up.process is not None
    found = status_of(up.process.pid)
    uids = {int(word) for word in found["Uid"].split()}
    assert (len(uids), 0 in uids) == (1, False)
    assert 0 not in {int(word) for word in (found["Gid"] + " " + found["Groups"]).split()}
    assert [int(found[key], 16) for key in ("CapInh", "CapPrm", "CapEff", "CapAmb")] == [0, 0, 0, 0]
    assert found["NoNewPrivs"] == "1"
    assert {int(word) for word in status_of(up.launcher())["Uid"].split()} == {0}
    assert "there is no account cohabit here: the controller runs as uid" in up.said()


def test_its_account_owns_nothing_but_the_private_folder(up: RootController) -> None:
    assert up.process is not None
    uid = int(status_of(up.process.pid)["Uid"].split()[0])
    owned = {path.name for path in up.place.iterdir() if path.lstat().st_uid == uid}
    assert owned == {"private"}
    assert (up.place / "private").stat().st_mode & 0o777 == 0o700


def test_jobs_of_root_are_refused_with_the_remedy(up: RootController) -> None:
    answer = up.ask(None, "POST", "/v1/jobs", {"command": ["id"], "limit_s": 60})
    assert answer.status == 403
    assert "jobs of root are not run here" in answer.body["error"]
    assert "uids in [launcher] of the site file" in answer.body["fix"]


def test_without_a_launcher_the_controller_ends_with_a_sentence(folder: Path, ann: Account) -> None:
    one = RootController(folder / "place")
    one.start()
    job = one.submit(ann, f"sleep 4; touch {folder}/done")
    one.until(lambda: one.ask(ann, "GET", f"/v1/jobs/{job}").body["state"] == "running")
    os.kill(one.launcher(), 9)
    assert one.process is not None
    assert one.process.wait(PATIENCE_S) != 0
    assert "the launcher, which runs jobs, has ended" in one.said()
    assert "Traceback" not in one.said()
    one.start()
    assert one.over(job)["state"] in ("done", "failed")  # it went on meanwhile
    one.stop()


@pytest.mark.parametrize("verb", [["controller"], ["serve"]])
def test_production_refuses_without_its_account(tmp_path: Path, verb: list[str]) -> None:
    site = tmp_path / "site.toml"
    site.write_text('place = "state"\n[launcher]\naccount = "no-such-account"\n')
    words = [sys.executable, "-m", "cohabit.cli", *verb, str(site)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "useradd --system --no-create-home --shell /usr/sbin/nologin no-such-account" in done.stderr
    assert not (tmp_path / "state").exists()


def test_an_ordinary_users_scheduler_is_that_users(ann: Account, bob: Account) -> None:
    """Both processes and all jobs; jobs of other users are refused, for they would run as its user."""

    def be_ann() -> None:
        open_ways([Path(one) for one in (sys.base_prefix, sys.prefix, *sys.path) if one], ann.uid, [ann.gid])
        os.environ["HOME"] = str(ann.home)
        become(ann)

    ann.home.chmod(0o711)
    one = RootController(ann.home / "place", before=be_ann)
    one.log = ann.home / "place.log"
    one.start()
    try:
        assert one.process is not None
        for pid in (one.process.pid, one.launcher()):
            assert {int(word) for word in status_of(pid)["Uid"].split()} == {ann.uid}
        job = one.submit(ann, "id -u")
        assert one.over(job)["state"] == "done"
        assert one.ask(ann, "GET", f"/v1/jobs/{job}/output").body.strip() == str(ann.uid)
        answer = one.ask(bob, "POST", "/v1/jobs", {"command": ["id"], "limit_s": 60})
        assert (answer.status, "does not know you" in answer.body["error"]) == (403, True)
    finally:
        one.stop()
        shutil.rmtree(ann.home / "place")


# ---- a controller in the hands of an attacker ---------------------------------------------------------------------


class Captured:
    """The end of the channel that a controller has, in the hands of its account."""

    def __init__(self, end: socket.socket) -> None:
        self._end, self._number = end, 1000

    def ask(self, op: str, **fields: Any) -> Any:
        """The answer, or a text that says why not; a descriptor as its content."""
        self._number += 1
        wire.send(self._end, {"id": self._number, "op": op, **fields})
        while True:
            found = wire.receive(self._end)
            assert found is not None, "the launcher has ended"
            message, descriptors = found
            if message.get("id") == self._number:
                if descriptors:
                    return os.pread(descriptors[0], 4096, 0).decode()
                return message.get("ok", message.get("error"))


RUN = {"job": "mine", "attempt": 1}
NOBODY_ELSE: dict[str, Any] = {"gid": -1, "groups": []}
START: dict[str, Any] = {
    "command": ["/usr/bin/id"], "environment": {}, "folder": "/", "stdout": "", "stderr": "", "files": {}, "nodes": [],
    "cores_each": 0, "bandwidth_mbs": 0, "limit_us": 10_000_000, "grace_us": 0, "memory_bytes": 0, "joins": [],
    "fuse_us": -1,
}  # fmt: skip


@pytest.fixture
def captured(folder: Path) -> Iterator[Captured]:
    """A real launcher as root has it for a controller of account SERVICE."""
    begun = begin({"place": str(folder / "place"), "own": [SERVICE, SERVICE], "strict": True})
    yield Captured(begun.end)
    begun.end.close()
    begun.process.wait(PATIENCE_S)
    assert (folder / "place" / "launcher" / "log").read_text() == "", "no request surprises it"


def test_root_and_system_accounts_are_not_run_whatever_the_controller_says(captured: Captured, ann: Account) -> None:
    for uid in (0, 1, 33, SERVICE):
        said = captured.ask("start", **RUN, uid=uid, **NOBODY_ELSE, **START)
        assert "refused" in said or "the account of the service itself" in said
        said = captured.ask("probe", **RUN, uid=uid, **NOBODY_ELSE, framework="mpi", environment={}, memory_bytes=0)
        assert "refused" in said or "the account of the service itself" in said
        said = captured.ask("open_output", **RUN, uid=uid, **NOBODY_ELSE, path="/etc/shadow")
        assert "refused" in said or "the account of the service itself" in said
    said = captured.ask("start", **RUN, uid=-1, **NOBODY_ELSE, **START)
    assert said == "it names no user, and no program runs as the account of the service"
    said = captured.ask("probe", **RUN, uid=-1, **NOBODY_ELSE, framework="mpi", environment={}, memory_bytes=0)
    assert said == "it names no user, and no program runs as the account of the service"
    for groups in ({"gid": 0, "groups": []}, {"gid": -1, "groups": [0]}, {"gid": ann.gid, "groups": [ann.gid, 42]}):
        assert "is not in group" in captured.ask("start", **RUN, uid=ann.uid, **groups, **START)


def test_files_are_opened_with_their_users_rights_only(captured: Captured, ann: Account, folder: Path) -> None:
    secret = folder / "secret"
    secret.write_text("precious")
    secret.chmod(0o600)
    link = ann.home / "link"
    act_as(ann, lambda: (link.unlink(missing_ok=True), link.symlink_to(secret))[1])
    for path in (str(secret), str(link), "/etc/shadow", "/proc/1/environ"):
        assert captured.ask("open_output", **RUN, uid=ann.uid, **NOBODY_ELSE, path=path) == "permission denied"
    for path in ("/dev/zero", "/", "/dev/tty"):
        said = captured.ask("open_output", **RUN, uid=ann.uid, **NOBODY_ELSE, path=path)
        assert said in ("it is not a plain file", "permission denied", os.strerror(errno.ENXIO).lower())
    own = ann.home / "own"
    act_as(ann, lambda: own.write_text("hers"))
    assert captured.ask("open_output", **RUN, uid=ann.uid, **NOBODY_ELSE, path=str(own)) == "hers"


def test_outputs_are_removed_of_jobs_that_are_over_and_nothing_else(
    captured: Captured, ann: Account, folder: Path
) -> None:
    captured.ask("observe")  # it has made its folders
    own, others = folder / "place" / "output" / str(ann.uid), folder / "precious"
    own.mkdir(0o700)
    os.chown(own, ann.uid, ann.gid)
    others.mkdir()
    for name in (own / "over.out", own / "runs.out", own / "kept.txt", own.parent / "over.out", others / "x.out"):
        name.write_text("x" * 5000)
    os.link(own / "over.out", own / "same")
    act_as(ann, lambda: ((own / "link.out").symlink_to(others / "x.out"), (own / "folder.out").mkdir())[1])
    (folder / "place" / "runs" / "runs.1").mkdir()
    jobs = ["over", "runs", "link", "folder", "never", "../over", "../../precious/x", "."]

    def ask(uid: int, dry_run: bool) -> Any:
        return captured.ask("remove_outputs", uid=uid, jobs=jobs, dry_run=dry_run)

    for uid in (0, 1, 33, SERVICE):
        assert "refused" in ask(uid, False) or "the account of the service itself" in ask(uid, False)
    left = ["job runs: it has a run that is not over", "job link: its output is not a plain file",
            "job folder: its output is not a plain file"]  # fmt: skip
    assert ask(ann.uid, True) == {"files": 1, "bytes": 8192, "left": left}
    assert (own / "over.out").exists()
    assert ask(ann.uid, False) == {"files": 1, "bytes": 8192, "left": left}
    assert ask(ann.uid, False)["files"] == 0
    assert {one.name for one in own.iterdir()} == {"runs.out", "kept.txt", "same", "link.out", "folder.out"}
    assert (own.parent / "over.out").exists()
    assert (others / "x.out").exists()
    shutil.rmtree(own)
    own.symlink_to(others)  # only root could do that
    assert captured.ask("remove_outputs", uid=ann.uid, jobs=["x"], dry_run=False) == os.strerror(errno.ENOTDIR).lower()
    for fields in ({"dry_run": 1}, {"jobs": "x"}, {"jobs": [""]}, {"jobs": ["x"] * 1001}, {"path": "/etc"}):
        said = captured.ask("remove_outputs", **{"uid": ann.uid, "jobs": ["x"], "dry_run": True, **fields})
        assert "cannot be used" in said or "unknown field" in said
    assert (others / "x.out").exists()
    shutil.rmtree(folder / "place" / "runs" / "runs.1")


def test_a_user_whose_jobs_are_not_run_any_more_keeps_no_retention_from_its_work(
    folder: Path, ann: Account, bob: Account
) -> None:
    site = "[keep]\noutputs_days = 0\n[launcher]\n"
    with controller(folder, site=site) as up:
        jobs = {account: up.submit(account, "echo something") for account in (ann, bob)}
        outputs = {account: up.place / "output" / str(account.uid) / f"{job}.out" for account, job in jobs.items()}
        assert [up.over(job)["state"] for job in jobs.values()] == ["done", "done"]
        up.stop()
        (up.place / "site.toml").write_text(f'place = "."\n{site}min_uid = 60000\nuids = [{bob.uid}]\n')
        up.start()
        assert up.ask(None, "POST", "/v1/prune").body["outputs"]["count"] == 1
        assert {account: path.exists() for account, path in outputs.items()} == {ann: True, bob: False}


HOSTILE = [
    ("start", START | {"joins": ["../../../etc"]}), ("start", START | {"joins": ["info"]}),
    ("start", START | {"files": {"../../../../etc/cron.d/x": "* * * * * root id"}}),
    ("start", START | {"files": {"a/b": ""}}), ("start", START | {"command": "id"}),
    ("start", START | {"environment": {"A=B": "c"}}), ("start", START | {"environment": {"A": "b\0c"}}),
    ("start", START | {"nodes": [[0, [-1]]]}), ("start", START | {"limit_us": 10**30}),
    ("start", START | {"limit_us": True}), ("start", START | {"memory_bytes": 1.5}),
    ("start", START | {"groups_of_mine": ["/sys/fs/cgroup"]}), ("start", START | {"command": ["\ud800"]}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "fields"), HOSTILE)
def test_what_is_not_exactly_a_request_is_refused(captured: Captured, ann: Account, op: str, fields: Any) -> None:
    said = captured.ask(op, **{**RUN, "uid": ann.uid, **NOBODY_ELSE, **fields})
    assert "cannot be used" in said or "unknown field" in said
    assert captured.ask("observe") == []


def test_resctrl_and_unknown_requests_reach_nothing_else(captured: Captured) -> None:
    for group in ("..", "../etc", "", "info", "mon_groups", "cohabit.class1/../../x", "/etc", "cohabit.class1/x"):
        for op, fields in (("resctrl_make", {"group": group}), ("resctrl_remove", {"group": group}),
                           ("resctrl_move", {"source": group, "target": "cohabit.class1"})):  # fmt: skip
            assert "cannot be used" in captured.ask(op, **fields)
    said = captured.ask("resctrl_write", group="cohabit.class1", file="../../x", text="")
    assert "cannot be used" in said
    assert "belongs to user 0" in captured.ask("resctrl_write", group="cohabit.class1", file="tasks", text="1\n")
    for op in ("exec", "", "__init__", "serve", "command"):
        said = captured.ask(op)
        assert "knows no request" in said or "lacks" in said
    assert captured.ask("observe") == []


def test_random_bytes_do_not_end_the_launcher(captured: Captured) -> None:
    import random

    rng = random.Random(5)
    for _ in range(300):
        captured._end.send(rng.randbytes(rng.randrange(1, 200)))
    for text in (b"[]", b"{}", b"null", b"*", b'{"id": 1}', b'{"id": "x", "op": "observe"}', b"[" * 50_000):
        captured._end.send(text)
    assert captured.ask("observe") == []


def test_a_runs_folder_cannot_be_written_by_the_controllers_account(up: RootController, ann: Account) -> None:
    job = up.submit(ann, "sleep 30")
    up.until(lambda: up.ask(ann, "GET", f"/v1/jobs/{job}").body["state"] == "running")
    assert up.process is not None
    uid = int(status_of(up.process.pid)["Uid"].split()[0])
    service = Account("", uid, uid, Path("/"))
    said = shell(service, f"cat {up.place}/runs/{job}.1/spec; echo > {up.place}/runs/{job}.1/stop; "
                          f"mv {up.place}/runs {up.place}/gone; touch {up.place}/x")  # fmt: skip
    assert said.stderr.lower().count("permission denied") == 4
    up.ask(ann, "POST", f"/v1/jobs/{job}/cancel")
    assert up.over(job)["state"] == "cancelled"
    assert json.dumps(up.ask(None, "GET", "/v1/nodes").body)
