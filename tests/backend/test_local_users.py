"""Jobs run as the user who submitted them: with that user's rights and no others, whatever the user prepared."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from cohabit.backend.local.executor import LocalBackend
from cohabit.backend.protocol import BackendError, Launch
from cohabit.launcher.runs import RunFolder
from cohabit.model.command import CancelJob
from cohabit.model.event import JobFinished
from tests.backend.scenes import ending, facts, play, start, until

NAP = f"88.{os.getpid()}"  # seconds that nobody else sleeps: they are found by them

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
OTHERS = [one for one in pwd.getpwall() if one.pw_uid > 0]
SOMEBODY, ANOTHER = (OTHERS[0].pw_uid, OTHERS[1].pw_uid) if len(OTHERS) > 1 else (65534, 65533)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder other users can reach: pytest's own are closed to them."""
    folder = Path(tempfile.mkdtemp(prefix="cohabit-users-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


def as_user(text: str, uid: int = SOMEBODY, **rest: object) -> Launch:
    return Launch(("/bin/sh", "-c", text), uid=uid, folder="/", **rest)  # type: ignore[arg-type]


@pytest.fixture
def in_many_groups() -> Iterator[None]:
    """Whoever serves may be in groups that jobs must not be in."""
    before = os.getgroups()
    os.setgroups([*before, 0, 4242])
    yield
    os.setgroups(before)


@as_root
@pytest.mark.usefixtures("in_many_groups")
def test_a_job_is_its_user_and_nothing_else(place: Path) -> None:
    async def scene(backend: LocalBackend) -> None:
        ask = "id -u; id -g; id -G; echo $USER; echo $HOME; umask; grep -E '^(Uid|Gid|CapEff):' /proc/self/status"
        await backend.execute(start(), as_user(ask))
        assert JobFinished("job", 1) in await facts(backend, 2)
        said = backend.output("job", SOMEBODY)
        uid, gid, groups, name, home, mask, *status = said.read_text().splitlines()
        known = pwd.getpwuid(SOMEBODY)
        assert (int(uid), int(gid), name) == (known.pw_uid, known.pw_gid, known.pw_name)
        assert {int(one) for one in groups.split()} == set(os.getgrouplist(name, known.pw_gid))
        assert (mask, home) == ("0022", known.pw_dir if os.path.isdir(known.pw_dir) else "/")
        assert status[0].split()[1:] == [uid] * 4
        assert status[1].split()[1:] == [gid] * 4
        assert int(status[2].split()[1], 16) == 0
        assert (said.stat().st_uid, said.parent.stat().st_mode & 0o777) == (SOMEBODY, 0o700)

    play(place / "place", scene)


@as_root
@pytest.mark.parametrize("forbidden", ["stdout", "stderr", "folder"])
def test_files_and_folders_are_opened_as_the_user(place: Path, forbidden: str) -> None:
    """A file that only root may write to, named directly or behind a link of the user's."""
    target = place / "root-only"
    target.mkdir() if forbidden == "folder" else target.write_text("precious\n")
    target.chmod(0o700)
    theirs = place / "theirs"
    theirs.mkdir()
    (theirs / "link").symlink_to(target)
    os.lchown(theirs / "link", SOMEBODY, SOMEBODY)
    os.chown(theirs, SOMEBODY, SOMEBODY)

    async def scene(backend: LocalBackend) -> None:
        plain = Launch(("/bin/echo", "overwritten"), folder="/", uid=SOMEBODY)
        await backend.execute(start(), msgspec.structs.replace(plain, **{forbidden: str(theirs / "link")}))
        assert await ending(backend) == JobFinished("job", 1, "failed")
        ended = RunFolder(place / "place" / "runs", "job", 1).ended()
        assert ended is not None
        assert "permission denied" in ended["fault"]

    play(place / "place", scene)
    if forbidden != "folder":
        assert target.read_text() == "precious\n"


@as_root
def test_a_user_sees_nothing_of_the_folders_of_runs(place: Path) -> None:
    async def scene(backend: LocalBackend) -> None:
        secret = as_user("sleep 60", ANOTHER, environment={"TOKEN": "secret"})
        await backend.execute(start("theirs"), secret)
        await facts(backend, 1)
        runs = place / "place" / "runs"
        spy = f"ls {runs}; cat {runs}/theirs.1/spec; ls {runs}/theirs.1/job; echo > {runs}/theirs.1/ended; " \
              f"cat {place}/place/output/{ANOTHER}/theirs.out"  # fmt: skip
        await backend.execute(start("spy", nodes=((1, 1),)), as_user(spy))
        assert (await facts(backend, 2))[1] == JobFinished("spy", 1, "failed")
        assert backend.output("spy", SOMEBODY).read_text().lower().count("permission denied") == 5
        await backend.execute(CancelJob("theirs", 1))

    play(place / "place", scene)


@as_root
def test_a_tree_of_another_user_is_killed(place: Path) -> None:
    async def scene(backend: LocalBackend) -> None:
        tree = f"trap '' TERM; (setsid env -i sleep {NAP} &); sleep {NAP} & sleep {NAP}"
        await backend.execute(start(), as_user(tree))
        await facts(backend, 1)
        await until(lambda: sleepers() == [SOMEBODY] * 3)
        await backend.execute(CancelJob("job", 1))
        assert sleepers() == []

    play(place / "place", scene)


@as_root
def test_files_of_a_launcher_are_the_users(place: Path) -> None:
    async def scene(backend: LocalBackend) -> None:
        launch = Launch(
            ("/bin/sh", "-c", "id -u; echo $COHABIT_RANK"), uid=SOMEBODY, framework="replicated", folder="/"
        )
        await backend.execute(start(), launch)
        assert JobFinished("job", 1) in await facts(backend, 2)
        assert str(SOMEBODY) in backend.output("job", SOMEBODY).read_text().split()
        await backend.settled("job", 1)
        await until(lambda: not os.listdir(place / "place" / "runs"))

    play(place / "place", scene)


def test_only_root_can_run_jobs_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)

    async def scene(backend: LocalBackend) -> None:
        with pytest.raises(BackendError, match="only a service that runs as root"):
            await backend.execute(start(), Launch(("/bin/true",), uid=SOMEBODY))
        await backend.execute(start("own"), Launch(("/bin/true",), uid=4711))
        assert JobFinished("own", 1) in await facts(backend, 2)

    play(tmp_path, scene)


def sleepers() -> list[int]:
    """Owners of the processes that sleep so long."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path("/proc", entry, "cmdline").read_bytes() == f"sleep\0{NAP}\0".encode():
                found.append(os.stat(f"/proc/{entry}").st_uid)
        except OSError:
            continue
    return found
