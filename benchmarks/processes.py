"""Wall time, processor time and memory of programs and of whole trees of processes, from the kernel's own figures;
and HTTP to a controller over its UNIX socket.

A service forks jobs that outlive it and daemons that leave their parent. The measuring process therefore becomes a
child subreaper (`become_reaper`): processes that lose their parent become its children, and none of their time is lost.
"""

from __future__ import annotations

import contextlib
import ctypes
import http.client
import os
import resource
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Timed:
    """One program, run to its end."""

    wall_s: float
    cpu_s: float  # user and system, with all children it waited for
    peak_mb: float  # largest resident set
    status: int  # as from wait: 0 is success, negative a signal
    output: str  # standard output and standard error, in a file while it ran
    late: bool = False  # stopped at the time limit


def timed(
    command: list[str], log: Path, limit_s: float = 600.0, cwd: Path | None = None, env: dict[str, str] | None = None
) -> Timed:
    """Run it; its output goes to `log`. It is killed after `limit_s` of processor time, or after four times that."""
    with log.open("wb") as stream:
        began = time.perf_counter()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, cwd=cwd, env=env)
        late, peak_mb = False, 0.0
        while True:
            pid, status, used = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            with contextlib.suppress(OSError, StopIteration):  # it may be gone
                peak_mb = max(peak_mb, memory_mb(child.pid, "VmHWM"))
            now = _read(child.pid)
            over = now is not None and now.cpu_s > limit_s
            if (over or time.perf_counter() - began > 4 * limit_s) and not late:
                late = True
                child.kill()
            time.sleep(0.005)
        wall_s = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    return Timed(
        wall_s, used.ru_utime + used.ru_stime, peak_mb, child.returncode, log.read_text(errors="replace"), late
    )  # fmt: skip


def memory_mb(pid: int, key: str = "VmRSS", file: str = "status") -> float:
    """Resident memory of a process; "VmHWM": the most so far, not ru_maxrss, which begins with the parent's size."""
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:")) / 1024


def pss_mb(*pids: int) -> float:
    """Memory of these processes together; a page that several share counts once."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += memory_mb(pid, "Pss", "smaps_rollup")
    return total


def cpu_s(pid: int, with_children: bool = False) -> float:
    """User and system time of a process, all its threads; with what its children that are gone have used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if with_children else 13])) / TICKS


def typed(command: list[str], env: dict[str, str] | None = None, cwd: Path | None = None) -> tuple[float, float]:
    """Wall and processor seconds of a short command, as a user at a shell waits for it. It must succeed."""
    with tempfile.TemporaryFile() as said:  # not a pipe: a daemon that it starts would keep that open
        began = time.perf_counter()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=env, cwd=cwd)
        _, status, used = os.wait4(child.pid, 0)
        wall_s = time.perf_counter() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            said.seek(0)
            what = said.read().decode(errors="replace")
            raise RuntimeError(f"{' '.join(command)} ended with {child.returncode}: {what}")
    return wall_s, used.ru_utime + used.ru_stime


def become_reaper() -> None:
    """From now on processes below this one that lose their parent become its children."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


@dataclass(frozen=True)
class Process:
    """One line of /proc."""

    pid: int
    parent: int
    state: str
    cpu_s: float  # its own and that of children it has waited for


def _read(pid: int) -> Process | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return Process(pid, int(fields[1]), fields[0], sum(map(int, fields[11:15])) / TICKS)


def below(root: int | None = None) -> list[Process]:
    """Every process under this one (or under `root`), zombies included."""
    found = [one for name in os.listdir("/proc") if name.isdigit() and (one := _read(int(name)))]
    children: dict[int, list[Process]] = {}
    for one in found:
        children.setdefault(one.parent, []).append(one)
    result, left = list[Process](), [root or os.getpid()]
    while left:
        inside = children.get(left.pop(), [])
        result += inside
        left += [one.pid for one in inside]
    return result


def reap(keep: set[int]) -> None:
    """Collect ended processes that were handed to this one; not those in `keep`, which another caller waits for."""
    for one in below():
        if one.parent == os.getpid() and one.state == "Z" and one.pid not in keep:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(one.pid, 0)


def tree_cpu_s() -> float:
    """Processor seconds so far of everything that was ever started under this process."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime + sum(one.cpu_s for one in below())


def words(pid: int) -> list[str]:
    """The command line of a process; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def end_all(limit_s: float = 20.0) -> None:
    """Kill everything below this process and wait until it is gone."""
    deadline_s = time.monotonic() + limit_s
    while left := [one for one in below() if one.state != "Z"]:
        for one in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)
        reap(set())
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"{len(left)} processes do not end")
        time.sleep(0.05)
    reap(set())


class UnixConnection(http.client.HTTPConnection):
    """HTTP over the UNIX socket of a controller."""

    def __init__(self, path: str | Path) -> None:
        super().__init__("localhost")
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self._path)
