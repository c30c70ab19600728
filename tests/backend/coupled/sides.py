"""Both sides of a pair: a real Slurm or Grid Engine, a controller in its own process, and what the jobs noted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

from cohabit.backend.steered.fuses import boot_us, read_fuses
from cohabit.backend.steered.lease import fuse_file
from tests.backend.gridengine import steering as of_gridengine
from tests.backend.slurm import steering as of_slurm
from tests.backend.slurm.steering import forget_lease, stop, until
from tests.ports import free_port
from tests.support.gridengine_cluster import GridEngineCluster
from tests.support.slurm_cluster import SlurmCluster

SCRIPT = "#!/bin/sh\ndate +'begin %s.%N' >> {log}\nsleep {seconds} || exit 1\ndate +'end %s.%N' >> {log}\n"
STEERED_S = 180  # longer than a killed controller needs to come back on a busy machine: jobs are not given back
STARTED_S = 300  # a controller, kernels of a fresh checkout compiled beside whatever else goes on
WITHIN_S = 3.0  # a released mate that its manager has not started by then is held again
MATES = """
[domain]
name = "{name}"
listen = "127.0.0.1:{port}"
{scheme}
[peer.{other}]
url = "http://127.0.0.1:{other_port}"
key = "{key}"
[mates]
lease_s = {lease_s}
lead_s = 1
late_s = 1
round_trip_s = 2
ask_s = 1
retry_s = 2
dead_after_s = 600
when_dead = "wait"
threshold = "{threshold}"
threshold_program = "{program}"
{key_line}
"""


class Side(ABC):
    """One cluster under its manager, and whoever steers it."""

    module: str  # the command as a process of its own
    verb: str
    daemon: str
    threshold: str  # where its runs ask
    key_line = ""  # of the site file: how they prove who they are

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder, self.site = name, folder, Path()
        self.process: subprocess.Popen[bytes] | None = None

    def attach(self) -> None:
        """A controller; returns when it steers."""
        log = self.folder / "attach.log"
        before = log.read_text().count("cohabit: steering") if log.exists() else 0
        with log.open("ab") as said:
            self.process = process = subprocess.Popen(
                [sys.executable, "-m", self.module, self.verb, "attach", str(self.site)], stdout=said, stderr=said,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )  # fmt: skip

        def steers() -> bool:
            assert process.poll() is None, log.read_text()
            return log.read_text().count("cohabit: steering") > before

        until(steers, STARTED_S, lambda: f"the controller did not start: {log.read_text()}")

    def detach(self, hard: bool = False) -> None:
        """End the controller."""
        if self.process is not None:
            stop(self.process, hard)

    def script(self, name: str, seconds: float) -> Path:
        """A job that notes when it begins and ends."""
        path = self.folder / f"{name}.sh"
        path.write_text(SCRIPT.format(log=self.folder / f"{name}.log", seconds=seconds))
        return path

    def submit(self, mates: str, seconds: float) -> str:
        """A job of one node with mates, called like them; its number."""
        return self.submit_job(mates, seconds, mates)

    def said(self, name: str, word: str) -> list[float]:
        """When its job of this name said so."""
        log = self.folder / f"{name}.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [float(line.split()[1]) for line in lines if line.startswith(word)]

    def write_site(self, text: str) -> None:
        """The site file, with what makes it one side of a pair."""
        self.site = self.plain_site()
        self.site.write_text(
            self.site.read_text().replace("poll_s = 0.5", f"poll_s = 0.3\nmates_within_s = {WITHIN_S}") + text
        )

    @property
    @abstractmethod
    def cluster(self) -> Path:
        """The folder of its manager, with the lease."""

    def ordered(self) -> bool:
        """A start with mates was decided upon; its manager is told just now."""
        fuses = read_fuses(fuse_file(self.cluster / "lease"))
        return any(fuse.burns_us > boot_us() for fuse in fuses.values())

    @abstractmethod
    def launched(self) -> bool:
        """A run of its manager's is on a node; its program may be waiting."""

    @abstractmethod
    def plain_site(self) -> Path:
        """The site file of a side without a domain."""

    @abstractmethod
    def submit_job(self, name: str, seconds: float, mates: str = "", nodes: int = 1) -> str:
        """A job on whole nodes that may take ten minutes; its number."""

    @abstractmethod
    def cancel(self, number: str) -> None:
        """As its owner does."""

    @abstractmethod
    def send(self, number: signal.Signals) -> None:
        """A signal to the manager's own daemon."""

    @abstractmethod
    def restart(self) -> None:
        """Kill the manager's daemon and start it again."""

    @abstractmethod
    def clear(self) -> None:
        """Without jobs, without a lease."""

    @abstractmethod
    def standing(self) -> str:
        """For a failure: what its manager says."""


class SlurmSide(Side):
    """A Slurm."""

    module, verb, daemon = "tests.backend.slurm.attach", "slurm", "slurmctld"

    def __init__(self, name: str, folder: Path, slurm: SlurmCluster) -> None:
        super().__init__(name, folder)
        self.slurm, self.threshold = slurm, f"127.0.0.1:{free_port()}"

    @property
    def cluster(self) -> Path:
        return self.slurm.folder

    def launched(self) -> bool:
        return any(self.cluster.glob("spool.n*/job*/slurm_script"))

    def plain_site(self) -> Path:
        return of_slurm.write_site(self.slurm, self.folder, "ce", lease_s=STEERED_S)

    def submit_job(self, name: str, seconds: float, mates: str = "", nodes: int = 1) -> str:
        words = ("sbatch", "--parsable", "--output=/dev/null", f"-n{4 * nodes}", "-t10")
        comment = (f"--comment=cohabit:mates={mates}",) if mates else ()
        return self.slurm.run(*words, *comment, str(self.script(name, seconds))).strip()

    def cancel(self, number: str) -> None:
        self.slurm.run("scancel", number)

    def send(self, number: signal.Signals) -> None:
        self.slurm.daemons["slurmctld"].send_signal(number)

    def restart(self) -> None:
        self.slurm.stop("slurmctld", hard=True)
        self.slurm.start("slurmctld")
        self.slurm.await_controller()

    def clear(self) -> None:
        forget_lease(self.slurm.folder)
        self.slurm.run("scancel", "--user=root", check=False)
        until(lambda: not self.slurm.run("squeue", "--noheader").strip(), 90, self.standing)
        self.slurm.await_nodes()

    def standing(self) -> str:
        return self.slurm.run("squeue", check=False)


class GridEngineSide(Side):
    """A Grid Engine."""

    module, verb, daemon = "tests.backend.gridengine.attach", "gridengine", "qmaster"

    def __init__(self, name: str, folder: Path, ge: GridEngineCluster) -> None:
        super().__init__(name, folder)
        self.ge, self.threshold = ge, f"unix:{ge.folder}/threshold.sock"  # its hosts have a network of their own
        self.key_line = f'threshold_key = "{ge.folder}/threshold.key"'

    @property
    def cluster(self) -> Path:
        return self.ge.folder

    def launched(self) -> bool:
        return any(self.cluster.glob("root/execd/*/active_jobs/*"))

    def plain_site(self) -> Path:
        return of_gridengine.write_site(self.ge, self.folder, "ce", lease_s=STEERED_S)

    def submit_job(self, name: str, seconds: float, mates: str = "", nodes: int = 1) -> str:
        words = ("qsub", "-terse", "-o", "/dev/null", "-j", "y", "-l", "h_rt=600", "-pe", "mpi", str(4 * nodes))
        context = ("-ac", f"mates={mates}") if mates else ()
        return self.ge.run(*words, *context, str(self.script(name, seconds))).strip()

    def cancel(self, number: str) -> None:
        self.ge.run("qdel", number)

    def send(self, number: signal.Signals) -> None:
        self.ge.signal("qmaster", number)

    def restart(self) -> None:
        self.ge.stop("qmaster", hard=True)
        self.ge.start("qmaster")
        self.ge.await_master()

    def clear(self) -> None:
        forget_lease(self.ge.folder)
        self.ge.run("qdel", "-u", "*", check=False)
        until(lambda: not of_gridengine.jobs_of(self.ge), 90, self.standing)
        self.ge.await_hosts()

    def standing(self) -> str:
        return self.ge.run("qstat", check=False)


def couple(
    sides: Sequence[Side], key: Path, lease_s: float, program: Path, schemes: Sequence[str] = ('scheme = "hold"',) * 2
) -> None:
    """Site files of two sides that know each other. `schemes`: lines of their [domain]."""
    ports = [free_port() for _ in sides]
    for at, side in enumerate(sides):
        other = sides[1 - at]
        side.write_site(MATES.format(
            name=side.name, port=ports[at], other=other.name, other_port=ports[1 - at], key=key, lease_s=lease_s,
            threshold=side.threshold, program=program, key_line=side.key_line, scheme=schemes[at],
        ))  # fmt: skip


def why(sides: list[Side]) -> Callable[[], str]:
    """All that is known, when a wait was in vain."""
    return lambda: "\n".join(
        f"{side.name}: {(side.folder / 'attach.log').read_text()[-3000:]}\n{side.standing()}" for side in sides
    )
