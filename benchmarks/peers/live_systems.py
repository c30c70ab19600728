"""Living batch systems on one node, behind one interface: Cohabit, Slurm, task-spooler and nq.

Each is started in a folder of its own with as many slots as the machine has cores, takes the same jobs by the command a
user would type, and can be killed and started again. Slurm runs with the configuration of the project's own tests, with
its scheduler set to look at every event (the tests let it rest for 100 ms). Slurm 22.05 starts batch jobs in rounds
about a second apart, so its rate grows with the slots it is told of: `SlurmWide` shows that.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from benchmarks.processes import UnixConnection, below, typed, words
from tests.support import slurm_cluster

SLOTS = os.cpu_count() or 1
COHABIT = [str(Path(sys.executable).with_name("cohabit"))]
UNLIMITED = 'nodes = "machine"\nplace = "."\n[policy]\nname = "cs"\n[limits]\nmax_queued = -1\n'
SLURM_MORE = "SchedulerParameters=sched_interval=1,sched_min_interval=2\nMaxJobCount=20000"
START_S = 120.0


class System:
    """A batch system; the parts that all of them have in common."""

    name = ""
    how = ""  # how to get it
    filling = ""  # how many jobs are queued at once
    keeps = ""  # where the queue is kept
    program = ""  # what must be installed, and the name of its processes
    slots = SLOTS
    only_drain = False  # a second form of a system, for one figure

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = dict(os.environ)

    @classmethod
    def missing(cls) -> str:
        """Return what stands in the way; empty: nothing."""
        return f"{cls.program} is not installed" if cls.program and not shutil.which(cls.program) else ""

    @classmethod
    def version(cls) -> str:
        """Return the version as it names itself."""
        raise AssertionError(cls.name)

    def start(self) -> None:
        """Start the service; also after `kill`."""

    def submit(self, *command: str) -> list[str]:
        """Return what a user types to hand in one job."""
        raise AssertionError(self.name)

    def type(self, *command: str) -> tuple[float, float]:
        """Type it: wall and processor seconds."""
        return typed(self.submit(*command), self.environment, self.folder)

    def fill(self, count: int, command: tuple[str, ...], limit_s: float = 1e9) -> int:
        """Queue many jobs, one by one; how many were taken within the time."""
        deadline_s, taken = time.monotonic() + limit_s, 0
        while taken < count and time.monotonic() < deadline_s:
            try:
                self.type(*command)
            except RuntimeError:
                break
            taken += 1
        return taken

    def service(self) -> list[int]:
        """Return the processes without which nothing more would start: by default those of its program."""
        found = [one.pid for one in below() if words(one.pid)[:1] == [self.program] and one.state != "Z"]
        return sorted(found)

    def owned(self) -> set[int]:
        """Children that this object waits for itself."""
        return set()

    def kill(self) -> None:
        """kill -9 of the service."""
        for pid in self.service():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        """An orderly end."""


class Cohabit(System):
    """`cohabit up`, as a user starts it; as root its controller has an account of its own, as always."""

    name, how = "Cohabit", "this project"
    filling = "its HTTP API over one connection, a request per job"
    keeps = "a journal in SQLite, on disk before `submit` answers"
    _up: subprocess.Popen[bytes] | None = None

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.place = folder / "place"
        self.environment |= {"COHABIT_SERVER": str(self.place)}

    @classmethod
    def version(cls) -> str:
        return subprocess.check_output([*COHABIT, "--version"], text=True).split()[-1]

    def start(self) -> None:
        if not self.place.exists():
            self.place.mkdir(mode=0o755)
            (self.place / "site.toml").write_text(UNLIMITED + ("[launcher]\nuids = [0]\n" if not os.geteuid() else ""))
        log = self.folder / "up.log"
        with log.open("wb") as stream:
            self._up = subprocess.Popen(
                [*COHABIT, "up", "--place", str(self.place)], stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
            )
        deadline_s = time.monotonic() + START_S
        while "listens on" not in log.read_text(errors="replace"):
            if self._up.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"`cohabit up` did not start: {log.read_text(errors='replace')[-500:]}")
            time.sleep(0.05)

    def submit(self, *command: str) -> list[str]:
        return [*COHABIT, "submit", "--", *command]

    def fill(self, count: int, command: tuple[str, ...], limit_s: float = 1e9) -> int:
        body = json.dumps({"command": list(command), "limit_s": 3600, "environment": {"PATH": os.defpath}})
        link, deadline_s, taken = UnixConnection(self.place / "cohabit.sock"), time.monotonic() + limit_s, 0
        while taken < count and time.monotonic() < deadline_s:
            link.request("POST", "/v1/jobs", body, {"Content-Type": "application/json"})
            answer = link.getresponse()
            said = answer.read()
            if answer.status != 201:
                raise RuntimeError(f"the API answered {answer.status}: {said.decode()}")
            taken += 1
        link.close()
        return taken

    def service(self) -> list[int]:
        """Controller and launcher, its child; runners watch over single jobs, have no parent and are not among them."""
        if self._up is None:
            return []
        return [self._up.pid, *(one.pid for one in below(self._up.pid) if one.parent == self._up.pid)]

    def owned(self) -> set[int]:
        return set() if self._up is None else {self._up.pid}

    def kill(self) -> None:
        super().kill()
        if self._up is not None:
            self._up.wait()

    def stop(self) -> None:
        if self._up is not None and self._up.poll() is None:
            self._up.terminate()
            self._up.wait(60)


class Slurm(System):
    """slurmctld, one slurmd and munge, from Debian, on this machine."""

    name, how = "Slurm", "`apt-get install slurmctld slurmd slurm-client munge`; needs root"
    filling = "`sbatch`, once per job"
    keeps = "state files, written a few seconds after the event"
    _context: AbstractContextManager[slurm_cluster.SlurmCluster] | None = None
    _cluster: slurm_cluster.SlurmCluster | None = None

    @classmethod
    def missing(cls) -> str:
        return slurm_cluster.missing()

    @classmethod
    def version(cls) -> str:
        program = shutil.which("slurmctld", path=os.environ.get("PATH", "") + ":/usr/sbin") or ""
        return subprocess.check_output([program, "-V"], text=True).split()[-1]

    def start(self) -> None:
        if self._cluster is None:
            place = self.folder / "slurm"
            self._context = slurm_cluster.running_slurm(place, nodes=1, cores=self.slots, more=SLURM_MORE)
            self._cluster = self._context.__enter__()
            self.environment = self._cluster.environment
            return
        self._cluster.start("slurmctld")
        self._cluster.start("n0")
        self._cluster.await_controller()

    def submit(self, *command: str) -> list[str]:
        script = self.folder / "job.sh"
        if not script.exists():
            script.write_text('#!/bin/sh\nexec "$@"\n')
        return ["sbatch", "--parsable", "--output=/dev/null", "-n1", "--time=60", str(script), *command]

    def service(self) -> list[int]:
        assert self._cluster is not None
        return [self._cluster.daemons[name].pid for name in ("slurmctld", "n0")]

    def owned(self) -> set[int]:
        return set() if self._cluster is None else {one.pid for one in self._cluster.daemons.values()}

    def kill(self) -> None:
        assert self._cluster is not None
        self._cluster.stop("slurmctld", "n0", hard=True)

    def stop(self) -> None:
        if self._context is not None:
            self._context.__exit__(None, None, None)


class SlurmWide(Slurm):
    """The same Slurm told that the node has 64 cores."""

    name, slots, only_drain = "Slurm told of 64 cores", 64, True


class TaskSpooler(System):
    """tsp: a server that the first call starts; every queued job is a client process that waits for its turn."""

    program, name, how = "tsp", "task-spooler", "`apt-get install task-spooler`"
    filling = "`tsp`, once per job"
    keeps = "the memory of its server"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.environment |= {"TS_SOCKET": str(folder / "socket"), "TS_SLOTS": str(self.slots), "TS_MAXCONN": "20000"}

    @classmethod
    def version(cls) -> str:
        return subprocess.check_output(["tsp", "-V"], text=True).split()[2].removeprefix("v")

    def start(self) -> None:
        typed(["tsp", "-S", str(self.slots)], self.environment, self.folder)

    def submit(self, *command: str) -> list[str]:
        return ["tsp", "-B", "-n", *command]  # -B: a full queue is an error, not a wait

    def service(self) -> list[int]:
        """Return the server: the oldest of its processes."""
        return super().service()[:1]

    def stop(self) -> None:
        subprocess.run(["tsp", "-K"], env=self.environment, capture_output=True, check=False)


class Nq(System):
    """nq: no service; every queued job is a process that waits for a file lock. One folder per slot, used in turn."""

    program, name, how = "nq", "nq", "`apt-get install nq`"
    filling = "`nq`, once per job"
    keeps = "the processes that wait"
    _turn = 0

    @classmethod
    def version(cls) -> str:
        asked = ["dpkg-query", "-W", "-f", "${Version}", "nq"]
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout or "unknown"

    def submit(self, *command: str) -> list[str]:
        self._turn += 1
        self.environment["NQDIR"] = str(self.folder / f"slot{self._turn % self.slots}")
        return ["nq", "-c", "-q", *command]


SYSTEMS: tuple[type[System], ...] = (Cohabit, Slurm, SlurmWide, TaskSpooler, Nq)
