"""On a node: which processes count as a job's. Real processes of an account that say they are Slurm's."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cohabit.agent.node import job_notices
from cohabit.agent.node.processes import Processes
from cohabit.model.errors import InputError
from tests.attack.accounts import Account, become

JOB = "77777777"  # of no Slurm on this machine
TITLE = f"slurmstepd: [{JOB}.0]"
AROUND = {"SLURM_JOB_ID": JOB, "SLURMD_NODENAME": "n0"}
SLEEP = shutil.which("sleep") or "/bin/sleep"


@contextlib.contextmanager
def running(program: Path, before: Callable[[], object] = lambda: None) -> Iterator[int]:
    """`program`, with the title of a step daemon, left to init as Slurm leaves its own; its process id."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            before()
            os.write(writes, b"%d " % os.getpid())
            os.execve(program, [TITLE, "100"], AROUND)
        os._exit(0)
    os.waitpid(child, 0)
    pid = int(os.read(reads, 20))
    until_s = time.monotonic() + 10
    while TITLE.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes():
        assert time.monotonic() < until_s
    try:
        yield pid
    finally:
        os.close(reads)
        os.close(writes)
        os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            while Path(f"/proc/{pid}/cmdline").read_bytes():  # else the next test could still see it
                time.sleep(0.01)


def named(folder: Path, name: str = "slurmstepd", mode: int = 0o755) -> Path:
    """A program of this name that sleeps."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    shutil.copy(SLEEP, folder / name)
    (folder / name).chmod(mode)
    return folder / name


def found() -> list[int]:
    """What is taken for step daemons of the job on node n0."""
    return Processes().step_daemons(JOB, "n0")


def test_slurms_own_step_daemon_counts_with_what_is_below_it(folder: Path) -> None:
    """Root's, of a file of root's, left to init."""
    with running(named(folder / "bin")) as pid:
        assert found() == [pid]
        (folder / "bin" / "slurmstepd").unlink()  # as an upgrade does while jobs run
        assert found() == [pid]


def test_a_process_of_an_account_is_nobodys_step_daemon(folder: Path, ann: Account) -> None:
    with running(named(folder / "bin"), lambda: become(ann)) as pid:
        assert Path(f"/proc/{pid}/comm").read_text() == "slurmstepd\n"
        assert found() == []


def test_effective_rights_do_not_count(folder: Path, ann: Account) -> None:
    """A program that takes root's rights, called by an account under Slurm's name."""
    with running(named(folder / "bin", mode=0o4755), lambda: become(ann)) as pid:
        status = Path(f"/proc/{pid}/status").read_text()
        assert f"Uid:\t{ann.uid}\t0\t0\t0\n" in status
        assert found() == []


def test_another_program_of_roots_does_not_count(folder: Path, ann: Account) -> None:
    """Through a link of the right name, or of a file that belongs to an account."""
    (folder / "slurmstepd").symlink_to(SLEEP)
    own = named(folder / "bin")
    with running(folder / "slurmstepd"):
        assert found() == []
    os.chown(own, ann.uid, ann.gid)
    with running(own):
        assert found() == []


def test_a_step_daemon_that_an_account_has_started_does_not_count(folder: Path, ann: Account) -> None:
    """The chain of parents: a process of ann's is above it."""
    program = named(folder / "bin")
    reads, writes = os.pipe()
    above = os.fork()
    if above == 0:
        child = os.fork()
        if child == 0:
            os.execve(program, [TITLE, "100"], AROUND)
        become(ann)
        os.write(writes, b"%d " % child)
        signal.pause()
    try:
        child = int(os.read(reads, 20))
        time.sleep(0.2)
        assert Path(f"/proc/{child}/cmdline").read_bytes().startswith(TITLE.encode())
        assert found() == []
    finally:
        os.kill(child, signal.SIGKILL)
        os.kill(above, signal.SIGKILL)
        os.waitpid(above, 0)
        os.close(reads)
        os.close(writes)


def test_a_daemon_of_an_accounts_does_not_count_as_a_node(folder: Path, ann: Account) -> None:
    """Where there is one node, a fresh step daemon is that node's; with more of them nobody would know."""
    before = Processes()._slurmds
    with running(named(folder / "bin", "slurmd"), lambda: become(ann)):
        assert Processes()._slurmds == before


def test_a_folder_of_notices_that_others_can_write_is_refused(folder: Path, ann: Account) -> None:
    place = job_notices.prepare(folder / "node", "n0")
    os.chown(place, ann.uid, ann.gid)
    with pytest.raises(InputError, match="belongs to another account"):
        job_notices.prepare(folder / "node", "n0")
    shutil.rmtree(place)
    (folder / "ann").mkdir()
    os.chown(folder / "ann", ann.uid, ann.gid)
    place.symlink_to(folder / "ann")
    with pytest.raises(InputError, match="belongs to another account"):
        job_notices.prepare(folder / "node", "n0")
