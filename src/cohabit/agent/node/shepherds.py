"""Jobs of Grid Engine on this node, by their shepherds: found in /proc, and noted as Slurm's prolog and epilog would.

Grid Engine needs no prolog for it: execd starts a shepherd for every job, and for every part of a parallel job, in the
job's folder below its own spool folder, which also names the host. A process counts as a shepherd only if root started
it (its real uid, which no other account can have; the effective one is Grid Engine's administrator), it runs a file
named sge_shepherd that root owns, and it comes from execd or init over such processes. Only reads /proc; no process is
signalled.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

from cohabit.agent.node import job_notices
from cohabit.agent.node.processes import PROC, ROOT, Processes

EVERY_S = 0.5  # between two looks
_FOLDER = re.compile(r"/([^/]+)/active_jobs/(\d+)\.(\d+)(?:/|$)")
_TASKS = 1_000_000  # tasks of an array are told apart in the number of a notice


class ShepherdProcesses(Processes):
    """One look at /proc on a host of Grid Engine; a job's number is that of its notice."""

    STEP_DAEMON, DAEMON = "sge_shepherd", "sge_execd"
    TITLE = re.compile(rb"^sge_shepherd-(\d+)")

    def __init__(self, root: Path = PROC, owner: int = ROOT) -> None:
        super().__init__(root, owner)
        self._folders = {pid: found for pids in self._titled.values() for pid in pids if (found := self._folder(pid))}

    def jobs(self, node: str) -> dict[str, tuple[str, float]]:
        """Return the jobs on a host: number -> Grid Engine's name of it, and since when it runs, in Unix time."""
        found: dict[str, tuple[str, float]] = {}
        for pid, (host, job, task) in self._folders.items():
            if host == node and self._is_step_daemon(pid):
                name, begun_s = job if task == "1" else f"{job}_{task}", self._begun_s(pid)
                number = _number(job, task)
                found[number] = name, min(begun_s, found.get(number, (name, begun_s))[1])
        return found

    def step_daemons(self, number: str, node: str, conf: str = "") -> list[int]:
        """Return the shepherds of a job on a host."""
        own = (pid for pid, (host, job, task) in self._folders.items() if host == node and _number(job, task) == number)
        return [pid for pid in own if self._is_step_daemon(pid)]

    def _folder(self, pid: int) -> tuple[str, str, str] | None:
        try:
            found = _FOLDER.search(os.readlink(self.root / str(pid) / "cwd"))
        except OSError:
            return None
        return None if found is None else (found[1], found[2], found[3])

    def _owned(self, pid: int) -> bool:
        """Return whether root started it: its real uid is the owner's."""
        try:
            lines = (self.root / str(pid) / "status").read_text().splitlines()
        except OSError:
            return False
        uids = next((line.split()[1:] for line in lines if line.startswith("Uid:")), [])
        return uids[:1] == [str(self._owner)]

    def _begun_s(self, pid: int) -> float:
        """Return when a process began, from the kernel's ticks since the machine was started."""
        try:
            ticks = int((self.root / str(pid) / "stat").read_text().rpartition(")")[2].split()[19])
            up_s = float((self.root / "uptime").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return time.time()
        return time.time() - up_s + ticks / os.sysconf("SC_CLK_TCK")


class Noter:
    """Write what a prolog and an epilog would, for the jobs of one host."""

    def __init__(self, node: str, place: Path) -> None:
        self._node, self._place, self._looked_s = node, place, 0.0

    def step(self, now_s: float) -> None:
        """Look again if it is time."""
        if 0 <= now_s - self._looked_s < EVERY_S:
            return
        self._looked_s = now_s
        here, noted = ShepherdProcesses().jobs(self._node), job_notices.read(self._place)
        for number in here.keys() - noted.keys():
            name, begun_s = here[number]
            path = self._place / number
            path.write_text(f"job={name}\n{job_notices.LAST_LINE}\n")
            os.utime(path, (begun_s, begun_s))
        for number, notice in noted.items():
            if number not in here and not notice.ended_s:
                with contextlib.suppress(OSError):
                    (self._place / f"{number}{job_notices.ENDED}").write_text(f"{job_notices.LAST_LINE}\n")


def _number(job: str, task: str) -> str:
    return str(int(job) * _TASKS + int(task))
