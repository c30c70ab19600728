"""The processes of a Slurm job on this node: its shepherds (slurmstepd), all below them, what their environment says.

Slurm names a shepherd `slurmstepd: [JOB.STEP]`. Where several nodes are played on one machine, the environment of the
processes below tells whose they are. Only reads; nothing is signalled or moved from here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

PROC = Path("/proc")
_TITLE = re.compile(rb"^slurmstepd: \[(\d+)\.")
NODE, JOB, CONF = "SLURMD_NODENAME", "SLURM_JOB_ID", "SLURM_CONF"


class Processes:
    """One look at /proc, by parents. Make a new one for a new look."""

    def __init__(self, root: Path = PROC) -> None:
        self.root = root
        self._children: dict[int, list[int]] = {}
        self._shepherds: dict[str, list[int]] = {}
        self._slurmds = 0
        for entry in os.listdir(root):
            if entry.isdigit():
                self._note(int(entry))

    def _note(self, pid: int) -> None:
        try:
            stat = (self.root / str(pid) / "stat").read_bytes()
        except OSError:
            return
        name, fields = stat.partition(b"(")[2].rpartition(b")")[0], stat.rpartition(b")")[2].split()
        if fields[0] in (b"Z", b"X"):
            return
        self._children.setdefault(int(fields[1]), []).append(pid)
        self._slurmds += name == b"slurmd"
        if name.startswith(b"slurmstepd"):
            title = _TITLE.match(_bytes(self.root / str(pid) / "cmdline"))
            if title is not None:
                self._shepherds.setdefault(title[1].decode(), []).append(pid)

    def shepherds(self, number: str, node: str, conf: str = "") -> list[int]:
        """Of one job on one node, of the Slurm with this slurm.conf if one is named."""
        return [pid for pid in self._shepherds.get(number, ()) if self._belongs(pid, node, conf)]

    def _belongs(self, shepherd: int, node: str, conf: str) -> bool:
        """One that has started nothing yet says only whose job it is: enough where the machine is one node."""
        own = _environment(self.root, shepherd).get(CONF, "")
        if conf and own and own != conf:
            return False
        said = self.words(self.below([shepherd])).get(NODE, "")
        return said == node if said else self._slurmds <= 1

    def below(self, pids: Collection[int]) -> list[int]:
        """These and all their descendants."""
        found, waiting = list[int](), list(pids)
        while waiting:
            pid = waiting.pop()
            found.append(pid)
            waiting += self._children.get(pid, ())
        return found

    def threads(self, pids: Collection[int]) -> list[int]:
        """The ids of all threads of these processes."""
        found = []
        for pid in pids:
            try:
                found += [int(name) for name in os.listdir(self.root / str(pid) / "task")]
            except OSError:  # it has ended
                continue
        return found

    def words(self, pids: Collection[int]) -> dict[str, str]:
        """Slurm's part of the environment of the first of these that has one."""
        for pid in pids:
            found = _environment(self.root, pid)
            if JOB in found:
                return found
        return {}

    def allowed(self, pids: Collection[int]) -> str:
        """The CPUs these may run on, as the kernel lists them, if they agree; "" otherwise."""
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
