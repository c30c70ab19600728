"""A real Slurm of Debian in a folder of its own: munge, a controller and some nodes, all on this machine.

Started as root, without systemd, on ports of its own; every daemon is stopped by its process id. Where something is
missing, `missing()` says what to install.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")
START_S = 60.0
CONF = """
ClusterName=cohabit
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
ReturnToService=2
MpiDefault=none
SchedulerParameters=sched_interval=1,sched_min_interval=100000
NodeName=n[0-{last}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{final}] CPUs=4 CoresPerSocket=4
PartitionName=all Nodes=ALL Default=YES OverSubscribe=NO State=UP
"""


def missing() -> str:
    """What stands in the way of a cluster here; empty: nothing."""
    path = os.environ.get("PATH", "") + ":/usr/sbin"
    absent = [name for name in DAEMONS if shutil.which(name, path=path) is None]
    if absent:
        return f"{absent[0]} is not installed (Debian: apt-get install slurmctld slurmd slurm-client munge)"
    return "" if os.geteuid() == 0 else "a Slurm cluster can be started by root only"


@contextmanager
def slurm_cluster(folder: Path, nodes: int = 2) -> Iterator[Path]:
    """A cluster with this many nodes; the path is that of its slurm.conf, for SLURM_CONF."""
    folder.chmod(0o755)
    for name in ("state", *(f"spool.n{number}" for number in range(nodes))):
        (folder / name).mkdir()
    ports = _free_ports(nodes + 1)
    first = ports[1]
    conf = folder / "slurm.conf"
    conf.write_text(CONF.format(
        host=socket.gethostname().split(".")[0], port=ports[0], folder=folder, last=nodes - 1, first=first,
        final=first + nodes - 1,
    ))  # fmt: skip
    running: list[subprocess.Popen[bytes]] = []
    try:
        running.append(_munge(folder))
        running.append(_daemon(folder, "slurmctld", "-D", "-f", str(conf)))
        running += [_daemon(folder, "slurmd", "-D", "-N", f"n{at}", "-f", str(conf)) for at in range(nodes)]
        _await_nodes(conf, nodes, running)
        yield conf
    finally:
        for one in reversed(running):
            one.send_signal(signal.SIGTERM)
        for one in reversed(running):
            try:
                one.wait(10)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()


def _munge(folder: Path) -> subprocess.Popen[bytes]:
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    found = _daemon(
        folder, "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket",
        f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed",
    )  # fmt: skip
    deadline_s = time.monotonic() + START_S
    while not (folder / "munge.socket").exists():
        assert found.poll() is None, "munged ended"
        assert time.monotonic() < deadline_s, "munged did not start"
        time.sleep(0.05)
    return found


def _daemon(folder: Path, name: str, *words: str) -> subprocess.Popen[bytes]:
    program = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin")
    assert program is not None
    with (folder / "daemons.log").open("ab") as log:
        return subprocess.Popen([program, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _await_nodes(conf: Path, nodes: int, running: list[subprocess.Popen[bytes]]) -> None:
    deadline_s = time.monotonic() + START_S
    while True:
        said = subprocess.run(
            ["sinfo", "-h", "-N", "-o", "%T"], env=os.environ | {"SLURM_CONF": str(conf)}, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        if said.stdout.split() == ["idle"] * nodes:
            return
        log = (conf.parent / "daemons.log").read_text(errors="replace")[-2000:]
        assert all(one.poll() is None for one in running), f"a daemon of Slurm ended: {log}"
        assert time.monotonic() < deadline_s, f"nodes are {said.stdout.split()}: {said.stderr} {log}"
        time.sleep(0.2)


def _free_ports(count: int) -> list[int]:
    """One port, then a row of consecutive ones, free a moment ago."""
    for first in range(20_000, 30_000, 50):
        try:
            held = [socket.create_server(("127.0.0.1", first + number)) for number in range(count)]
        except OSError:
            continue
        for one in held:
            one.close()
        return [first + number for number in range(count)]
    raise AssertionError("no free ports")
