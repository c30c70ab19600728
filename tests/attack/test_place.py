"""The place of a controller of root's: what other accounts can read of it, lock in it, or put into it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cohabit.app.serve.replaying import is_live, journal_of
from cohabit.live.controller.place import KEPT, Place, only_one, open_place
from cohabit.model.errors import InputError
from tests.attack.accounts import Account, act_as
from tests.attack.controllers import RootController, controller, shared_controller

SECRET = "bobs-secret-7f3a"
OPEN = ("cohabit.sock", "site.toml", "runs", "output", "account")  # what others may see of a place


@pytest.fixture(scope="module")
def up() -> Iterator[RootController]:
    """One controller for all tests here that do not stop it."""
    with shared_controller() as one:
        yield one


def cohabit(*words: object, umask: int = 0o022) -> subprocess.CompletedProcess[str]:
    """A verb, typed by root."""
    command = [sys.executable, "-m", "cohabit.cli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, cwd="/", umask=umask)


def readable(folder: Path) -> dict[str, bool]:
    """Every file below a folder that this process can open, and whether the secret is in it."""
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root, name)
            try:
                found[str(path.relative_to(folder))] = SECRET.encode() in path.read_bytes()
            except OSError:
                continue
    return found


def test_no_file_of_the_place_can_be_read_but_those_that_others_need(
    up: RootController, ann: Account, bob: Account
) -> None:
    job = up.submit(bob, "true", environment={"TOKEN": SECRET})
    assert up.over(job)["state"] == "done"
    up.ask(None, "POST", "/v1/tokens", {"label": "once"})
    place = Place(up.place)
    assert any(SECRET.encode() in path.read_bytes() for path in place.private.glob("journal.db*"))  # root finds it
    found = act_as(ann, lambda: readable(up.place))
    assert [name for name in found if name.split("/")[0] not in OPEN] == []
    assert not any(found.values())


def test_no_file_of_a_run_can_be_read_by_its_name(up: RootController, ann: Account, bob: Account) -> None:
    """The folder of runs cannot be listed, but names of jobs are easily guessed."""
    job = up.submit(bob, "sleep 60", limit_s=120)
    folder = up.place / "runs" / f"{job}.1"
    up.until(lambda: (folder / "started").exists())
    names = [one.name for one in folder.iterdir() if one.is_file()]
    assert {"spec", "claim", "started"} <= set(names)
    for account in (ann, bob):
        assert act_as(account, lambda: [name for name in names if os.access(folder / name, os.R_OK)]) == []
    up.ask(bob, "POST", f"/v1/jobs/{job}/cancel")


def test_the_lock_cannot_be_taken_by_others(up: RootController, ann: Account) -> None:
    def take() -> list[str]:
        taken = []
        for path in (Place(up.place).lock, up.place / "lock"):
            try:
                with open(path, "rb") as stream:
                    fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except FileNotFoundError:
                continue
            except PermissionError:
                continue
            except BlockingIOError:
                pass  # it can be opened: after a stop it can be locked
            taken.append(str(path))
        return taken

    assert act_as(ann, take) == []


def test_a_backup_can_be_read_by_its_owner_alone(up: RootController, ann: Account) -> None:
    file = up.place.parent / "copy.db"
    assert cohabit("backup", up.place, file).returncode == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert act_as(ann, lambda: readable(up.place.parent).get("copy.db")) is None


@pytest.mark.parametrize("call", [journal_of, is_live, lambda place: only_one(Place(place)), open_place])
def test_who_may_not_read_a_place_is_told_so(up: RootController, ann: Account, call: Callable[[Path], object]) -> None:
    """What `backup`, `replay`, `restore` and a controller ask first."""

    def ask() -> str:
        try:
            return f"got {call(up.place)}"
        except InputError as error:
            return str(error)

    assert "only the account its controller runs as may open it" in act_as(ann, ask)


def as_before(place: Path) -> None:
    """The form that a place had in versions without a private folder."""
    for path in Place(place).private.iterdir():
        path.rename(place / path.name)
        (place / path.name).chmod(0o644)
    Place(place).private.rmdir()


def test_an_old_place_is_moved_once_and_its_jobs_go_on(folder: Path, ann: Account, bob: Account) -> None:
    with controller(folder, "--nodes", "1") as one:
        mark = bob.home / f"go-{os.getpid()}"
        running = one.submit(bob, f"while [ ! -e {mark} ]; do sleep 0.1; done", environment={"TOKEN": SECRET})
        waiting = one.submit(bob, "echo after", processes=os.cpu_count() or 1)
        one.until(lambda: one.ask(None, "GET", f"/v1/jobs/{running}").body["state"] == "running")
        one.kill()
        as_before(one.place)
        assert (one.place / "journal.db-wal").exists()
        with open(one.place / "lock", "rb") as stream:  # an old controller that lives
            fcntl.flock(stream, fcntl.LOCK_EX)
            refused = cohabit("up", "--place", one.place)
            assert (refused.returncode, "another controller uses this folder" in refused.stderr) == (2, True)
            assert f"process {os.getpid()} of user 0" in refused.stderr
            assert (one.place / "journal.db").exists()
        one.start()
        assert "were moved to" in one.said()
        assert {path.name for path in one.place.iterdir()} & set(KEPT) == set()
        assert not any(act_as(ann, lambda: readable(one.place)).values())
        mark.touch()
        assert [one.over(job)["state"] for job in (running, waiting)] == ["done", "done"]
        mark.unlink()


def test_a_file_of_another_account_in_an_old_place_is_not_moved(folder: Path, ann: Account) -> None:
    """It could be a link to a file of root's, which would then be given away, or tokens of the attacker's."""
    place = folder / "place"
    place.mkdir()
    for name, make in (("tokens.json", ann.home / "t"), ("audit.jsonl", Path("/etc/shadow"))):
        before = os.stat(make) if make.exists() else None
        if before is None:
            (place / name).write_text("[]")
            os.chown(place / name, ann.uid, ann.gid)
        else:
            (place / name).symlink_to(make)
        refused = cohabit("up", "--place", place)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
        assert str(place / name) in refused.stderr
        assert {one.name for one in Place(place).private.iterdir()} <= {"lock"}
        (place / name).unlink()
        assert before is None or os.stat(make)[:6] == before[:6]
