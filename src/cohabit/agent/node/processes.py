"""The processes of a Slurm job on this node: its step daemons (slurmstepd), descendants, and their Slurm environment.

Slurm names a step daemon `slurmstepd: [JOB.STEP]`, but any user can give a process that name. A process counts as a
step daemon only if it belongs to root (real, effective and saved uid), runs a file named slurmstepd that root owns, and
descends through processes of root from slurmd or, as Slurm leaves it behind, from init. A job's processes are the
descendants of such a step daemon. Where several nodes run on one machine, the environment of the processes tells which
node they belong to. Only reads; no process is signalled or moved from here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

PROC = Path("/proc")
ROOT = 0
NODE, JOB, CONF = "SLURMD_NODENAME", "SLURM_JOB_ID", "SLURM_CONF"


class Processes:
    """One look at /proc, by parents. Make a new object for a new look. `owner` is the uid of Slurm's daemons."""

    STEP_DAEMON, DAEMON = "slurmstepd", "slurmd"
    TITLE = re.compile(rb"^slurmstepd: \[(\d+)\.")

    def __init__(self, root: Path = PROC, owner: int = ROOT) -> None:
        self.root, self._owner = root, owner
        self._parents: dict[int, int] = {}
        self._children: dict[int, list[int]] = {}
        self._titled: dict[str, list[int]] = {}  # processes with the title of a step daemon, by job
        pids = [int(entry) for entry in os.listdir(root) if entry.isdigit()]
        daemons = [pid for pid in pids if self._note(pid) == self.DAEMON.encode()]
        self._slurmds = sum(self._runs(pid, self.DAEMON) for pid in daemons)

    def _note(self, pid: int) -> bytes:
        """Record a process and return its name."""
        try:
            stat = (self.root / str(pid) / "stat").read_bytes()
        except OSError:
            return b""
        name, fields = stat.partition(b"(")[2].rpartition(b")")[0], stat.rpartition(b")")[2].split()
        if fields[0] in (b"Z", b"X"):
            return b""
        self._parents[pid] = int(fields[1])
        self._children.setdefault(int(fields[1]), []).append(pid)
        if name.startswith(self.STEP_DAEMON.encode()):
            title = self.TITLE.match(_bytes(self.root / str(pid) / "cmdline"))
            if title is not None:
                self._titled.setdefault(title[1].decode(), []).append(pid)
        return name

    def _is_step_daemon(self, pid: int) -> bool:
        """Return whether it is Slurm's own: it and all its ancestors up to slurmd or init belong to root."""
        if not self._runs(pid, self.STEP_DAEMON):
            return False
        above = self._parents[pid]
        while above > 1 and not self._runs(above, self.DAEMON):
            if above not in self._parents or not self._owned(above):
                return False
            above = self._parents[above]
        return True

    def _runs(self, pid: int, name: str) -> bool:
        """Return whether a process of the owner runs a program of this name that no other account can have written."""
        link = self.root / str(pid) / "exe"
        try:
            program, file = os.readlink(link).removesuffix(" (deleted)"), link.stat()
        except OSError:
            return False
        named = os.path.basename(program).split("-")[0] == name  # also slurmd-wlm
        return named and self._owned(pid) and file.st_uid == self._owner and not file.st_mode & 0o022

    def _owned(self, pid: int) -> bool:
        """Return whether its real, effective, saved and file system uid are all the owner's."""
        for line in _bytes(self.root / str(pid) / "status").splitlines():
            if line.startswith(b"Uid:"):
                return set(line.split()[1:]) == {str(self._owner).encode()}
        return False

    def step_daemons(self, number: str, node: str, conf: str = "") -> list[int]:
        """Return the step daemons of a job on a node, of the Slurm with this slurm.conf if one is named."""
        titled = self._titled.get(number, ())
        return [pid for pid in titled if self._is_step_daemon(pid) and self._belongs(pid, node, conf)]

    def _belongs(self, step_daemon: int, node: str, conf: str) -> bool:
        """Return whether the step daemon is of this node. Without child processes only its job is known: that is enough
        if the machine is one node."""
        own = _environment(self.root, step_daemon).get(CONF, "")
        if conf and own and own != conf:
            return False
        said = self.words(self.below([step_daemon])).get(NODE, "")
        return said == node if said else self._slurmds <= 1

    def below(self, pids: Collection[int]) -> list[int]:
        """Return these processes and all their descendants."""
        found, waiting = list[int](), list(pids)
        while waiting:
            pid = waiting.pop()
            found.append(pid)
            waiting += self._children.get(pid, ())
        return found

    def threads(self, pids: Collection[int]) -> list[int]:
        """Return the ids of all threads of these processes."""
        found = []
        for pid in pids:
            try:
                found += [int(name) for name in os.listdir(self.root / str(pid) / "task")]
            except OSError:  # it has ended
                continue
        return found

    def words(self, pids: Collection[int]) -> dict[str, str]:
        """Return Slurm's part of the environment of the first of these processes that has one."""
        for pid in pids:
            found = _environment(self.root, pid)
            if JOB in found:
                return found
        return {}

    def allowed(self, pids: Collection[int]) -> str:
        """Return the CPUs these processes may run on, in the kernel's list format, if they agree; "" otherwise."""
        lists = set()
        for pid in pids:
            for line in _bytes(self.root / str(pid) / "status").splitlines():
                if line.startswith(b"Cpus_allowed_list:"):
                    lists.add(line.partition(b":")[2].strip().decode())
        return lists.pop() if len(lists) == 1 else ""


def _environment(root: Path, pid: int) -> dict[str, str]:
    parts = _bytes(root / str(pid) / "environ").split(b"\0")
    return dict(
        part.decode(errors="replace").split("=", 1) for part in parts if part.startswith(b"SLURM") and b"=" in part
    )


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
