"""A real Slurm of Debian in a folder of its own: munge, a controller and some nodes, all on this machine.

Started as root, without systemd, on ports of its own that no other such cluster takes; every daemon is stopped by its
process id, jobs and their steps included. Where something is missing, `missing()` says what to install. It must never
touch a Slurm that is not its own: every daemon and command gets its slurm.conf by name. Another version's programs are
used by putting them first in PATH (scripts/slurm-version).
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")
WATCHDOG = b"cohabit.backend.slurm.watchdog"
START_S = 90.0
UNPRIVILEGED = "daemon"  # a user of every Debian
PORT_BLOCK = 80  # a controller and up to 64 nodes
FIRST_PORT, LAST_PORT = 20_000, 31_000
CONF = """
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
AllowSpecResourcesUsage=YES
ReturnToService=2
MpiDefault=none
SchedulerParameters=sched_interval=1,sched_min_interval=100000{scheduler}
{more}
NodeName=n[0-{last}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{final}] CPUs={cores} {shape} {node}
{partitions}
"""
ONE_PARTITION = "PartitionName=all Nodes=ALL Default=YES OverSubscribe=NO State=UP"


def rest_missing() -> str:
    """Return what prevents a slurmrestd here; empty: nothing."""
    return "" if _program("slurmrestd") else "slurmrestd is not installed (Debian: apt-get install slurmrestd)"


def missing() -> str:
    """Return what prevents a cluster here; empty: nothing."""
    absent = [name for name in DAEMONS if _program(name) is None]
    if absent:
        return f"{absent[0]} is not installed (Debian: apt-get install slurmctld slurmd slurm-client munge)"
    return "" if os.geteuid() == 0 else "a Slurm cluster can be started by root only"


@dataclass
class SlurmCluster:
    """Daemons that run, and the file that leads commands to them (SLURM_CONF)."""

    folder: Path
    nodes: int
    conf: Path
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    public: Path | None = None  # what a slurmrestd without privileges may read and write

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of this process with the settings of this Slurm."""
        return os.environ | {"SLURM_CONF": str(self.conf)}

    def run(self, *words: str, check: bool = True) -> str:
        """Run one of Slurm's commands; return its output."""
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        assert not check or done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    @property
    def rest(self) -> Path:
        """The socket of its slurmrestd, if that was started."""
        return (self.public or self.folder) / "rest.socket"

    @property
    def rest_token(self) -> Path | None:
        """Return the token to send; None: slurmrestd asks the kernel for the caller's account."""
        return self.folder / "rest.token" if self.public else None

    def start_rest(self) -> None:
        """Start slurmrestd; returns when it answers. Newer ones must not run as root or Slurm's user: they run
        as a user without rights and act for a token's bearer. (Without a plug-in named, 22.05 wants slurmdbd.)"""
        words, around = ["-a", "rest_auth/local"], self.environment | {"SLURMRESTD_SECURITY": "disable_user_check"}
        conf = self.conf
        if (self.folder / "jwt.key").exists():
            self.public = self.public or Path(tempfile.mkdtemp(prefix="cohabit-rest-"))
            conf = Path(shutil.copy(self.conf, self.public))
            shutil.chown(self.public, UNPRIVILEGED, UNPRIVILEGED)
            said = self.run("scontrol", "token", "lifespan=36000")
            self.folder.joinpath("rest.token").write_text(said.strip().partition("=")[2], encoding="ascii")
            words = ["-a", "rest_auth/jwt", "-u", UNPRIVILEGED, "-g", UNPRIVILEGED]
            around = self.environment | {"SLURM_CONF": str(conf), "SLURM_JWT": "daemon"}
        self.rest.unlink(missing_ok=True)
        words = ["-f", str(conf), *words, "-s"]
        listed = subprocess.run(
            [_program("slurmrestd") or "", *words, "list"],
            env=around,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        plugin = max(re.findall(r"openapi/(?:slurmctld|v[0-9.]+)", listed.stdout + listed.stderr))
        self.daemons["slurmrestd"] = _daemon(
            self.folder, "slurmrestd", *words, plugin, f"unix:{self.rest}", environment=around
        )
        _await_file(self.rest, self.daemons["slurmrestd"], "slurmrestd")

    def start(self, name: str) -> None:
        """Start `slurmctld`, or the slurmd of a node by the node's name."""
        words = ["slurmd", "-D", "-N", name, "-d", _program("slurmstepd") or ""]
        if name == "slurmctld":
            words = ["slurmctld", "-D"]
            if (self.folder / "job_submit.lua").exists() and _version() < "21":  # looks for it in /etc/slurm only
                Path("/etc/slurm").mkdir(exist_ok=True)
                there = f'mount --bind {self.folder} /etc/slurm && exec {_program("slurmctld")} -D "$@"'
                words = ["unshare", "--mount", "sh", "-c", there, "slurmctld"]
        elif (own := self.folder / "pmix").exists():  # every node of one machine would make the same folders there
            there = f'mount -t tmpfs none {own} && exec {_program("slurmd")} "$@"'
            words = ["unshare", "--mount", "sh", "-c", there, *words]
        self.daemons[name] = _daemon(self.folder, *words, "-f", str(self.conf), environment=self.environment)

    def stop(self, *names: str, hard: bool = False) -> None:
        """End daemons by their process ids; returns when they are gone."""
        found = [self.daemons.pop(name) for name in names if name in self.daemons]
        for one in found:
            one.send_signal(signal.SIGKILL if hard else signal.SIGTERM)
        for one in found:
            try:
                one.wait(15)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()

    def await_controller(self) -> None:
        """Wait until slurmctld answers."""
        deadline_s = time.monotonic() + START_S
        while subprocess.run(["scontrol", "ping"], env=self.environment, capture_output=True, check=False).returncode:
            assert time.monotonic() < deadline_s, "slurmctld does not answer"
            time.sleep(0.1)

    def await_nodes(self) -> None:
        """Wait until every node is idle."""
        deadline_s = time.monotonic() + START_S
        while True:
            said = subprocess.run(
                ["sinfo", "-h", "-N", "-o", "%N %T"], env=self.environment, capture_output=True, text=True, check=False
            )
            states = {line.split()[0]: line.split()[1] for line in said.stdout.splitlines()}
            if len(states) == self.nodes and set(states.values()) == {"idle"}:
                return
            log = (self.folder / "daemons.log").read_text(errors="replace")[-2000:]
            ended = [name for name, one in self.daemons.items() if one.poll() is not None]
            assert not ended, f"{ended[0]} ended: {log}"
            assert time.monotonic() < deadline_s, f"nodes are {states}: {said.stderr} {log}"
            time.sleep(0.2)


@contextmanager
def running_slurm(
    folder: Path,
    nodes: int = 2,
    cores: int = 4,
    sockets: int = 1,
    partitions: str = ONE_PARTITION,
    more: str = "",
    node: str = "",
    job_submit: str = "",
    name: str = "cohabit",
    scheduler: str = "",
    first: Callable[[], None] = lambda: None,
    pmix: bool = False,
) -> Iterator[SlurmCluster]:
    """A cluster of so many nodes, until the block ends. `more` are lines of slurm.conf, `node` more about every node,
    `job_submit` the text of a job_submit.lua, `name` the cluster's, `scheduler` more options of
    SchedulerParameters, `first` is called when munge answers, `pmix`: every node has a folder of its own for
    it. Several may run at once."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    for place in ("state", *(f"spool.n{number}" for number in range(nodes))):
        (folder / place).mkdir()
    if pmix:
        (folder / "pmix").mkdir()
        (folder / "mpi.conf").write_text(f"PMIxCliTmpDirBase={folder}/pmix\n", encoding="utf-8")
    if job_submit:
        (folder / "job_submit.lua").write_text(job_submit, encoding="utf-8")
        more += "\nJobSubmitPlugins=lua"
    unpacked = Path(_program("slurmctld") or "").parents[1] / "plugins"  # beside programs that are not installed
    if unpacked.is_dir():
        more += f"\nPluginDir={unpacked}"
    if (unpacked / "auth_slurm.so").exists():  # 23.11 and later
        more += f"\nAuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={folder}/jwt.key"
        (folder / "jwt.key").touch(mode=0o400)
        (folder / "jwt.key").write_bytes(os.urandom(32))
    ports, kept = _own_ports(nodes + 1)
    cluster = SlurmCluster(folder, nodes, folder / "slurm.conf")
    shape = f"Sockets={sockets} CoresPerSocket={cores // sockets} ThreadsPerCore=1"
    cluster.conf.write_text(
        CONF.format(
            name=name,
            host=socket.gethostname().split(".")[0],
            port=ports,
            folder=folder,
            last=nodes - 1,
            first=ports + 1,
            final=ports + nodes,
            cores=cores,
            shape=shape,
            node=node,
            more=more,
            partitions=partitions,
            scheduler=scheduler,
        ),
        encoding="utf-8",
    )
    try:
        cluster.daemons["munged"] = _munge(folder)
        first()
        for daemon in ("slurmctld", *(f"n{number}" for number in range(nodes))):
            cluster.start(daemon)
        cluster.await_nodes()
        yield cluster
    finally:
        if "slurmctld" in cluster.daemons:  # jobs end before the daemons that watch them
            subprocess.run(
                ["scancel", "--full", "-s", "KILL", "--me"],
                env=cluster.environment,
                capture_output=True,
                timeout=30,
                check=False,
            )
        cluster.stop(*(f"n{number}" for number in range(nodes)))
        cluster.stop("slurmrestd", "slurmctld")
        _end_steps(folder)
        cluster.stop("munged")
        kept.close()
        if cluster.public:
            shutil.rmtree(cluster.public)


def _end_steps(folder: Path) -> None:
    """End job managers (slurmstepd), which outlive their slurmd, and our watchdogs, which outlive controllers: those of
    this cluster have its file in their environment or arguments."""
    mark = f"SLURM_CONF={folder}/slurm.conf".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            names = (entry / "comm").read_text(encoding="utf-8", errors="replace").strip()
            step = names.startswith("slurmstepd") and mark in (entry / "environ").read_bytes().split(b"\0")
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if step or (WATCHDOG in words and f"{folder}/slurm.conf".encode() in words):
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:
            continue


def _munge(folder: Path) -> subprocess.Popen[bytes]:
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    found = _daemon(
        folder,
        "munged",
        "--foreground",
        "--force",
        f"--key-file={key}",
        f"--socket={folder}/munge.socket",
        f"--pid-file={folder}/munge.pid",
        f"--log-file={folder}/munge.log",
        f"--seed-file={folder}/munge.seed",
    )
    _await_file(folder / "munge.socket", found, "munged")
    return found


def _await_file(path: Path, daemon: subprocess.Popen[bytes], name: str) -> None:
    deadline_s = time.monotonic() + START_S
    while not path.exists():
        assert daemon.poll() is None, f"{name} ended"
        assert time.monotonic() < deadline_s, f"{name} did not start"
        time.sleep(0.05)


def _program(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin")


def _version() -> str:
    """Return the version, such as 22.05.8."""
    return subprocess.check_output([_program("slurmctld") or "", "-V"], text=True, timeout=60).split()[-1]


def _daemon(folder: Path, name: str, *words: str, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    program = _program(name)
    assert program is not None
    with (folder / "daemons.log").open("ab") as log:
        return subprocess.Popen(
            [program, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=folder
        )


def _own_ports(count: int) -> tuple[int, IO[bytes]]:
    """The first of so many ports in a row that are free now, and a lock that keeps other clusters off them."""
    place = Path(tempfile.gettempdir()) / "cohabit-slurm-ports"
    place.mkdir(exist_ok=True)
    assert count <= PORT_BLOCK
    for first in range(FIRST_PORT, LAST_PORT, PORT_BLOCK):
        lock = (place / str(first)).open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = [socket.create_server(("127.0.0.1", first + number)) for number in range(count)]
        except OSError:
            lock.close()
            continue
        for one in held:
            one.close()
        return first, lock
    raise AssertionError("no free ports")
