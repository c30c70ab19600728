"""A program and everything it forks: watched, signalled, killed and reaped whole, by the process that started it.

Shared by the two scripts that watch over programs (supervisor.py here, launcher/runner.py): only the standard library,
nothing that costs time at a start. The process that uses it is the nearest subreaper of the tree, so a child that forks
twice to get away comes back. It never touches a process that is not a descendant.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import time
from collections.abc import Iterable

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}  # system call, by machine
KEYCTL_JOIN_SESSION_KEYRING = 1
FRESH_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)
_libc = ctypes.CDLL(None, use_errno=True)


def watch_over_children(also: Iterable[int] = ()) -> int:
    """Become the reaper of all processes forked from here on; return a descriptor that is readable when a child dies or
    one of these signals comes. Signals that end other programs are ignored: orders come another way."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, *also):
        signal.signal(number, lambda _number, _frame: None)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return woken


def begin_fresh(also: Iterable[int] = ()) -> None:
    """Set up a new child: a session of its own, signals as a shell would leave them, killed when its parent dies."""
    die_with_parent()
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (*FRESH_SIGNALS, *also):
        signal.signal(number, signal.SIG_DFL)


def die_with_parent() -> None:
    """Ask the kernel to kill this process with its parent; repeat it after a change of user, which resets it."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def leave_keyring() -> None:
    """Leave the session keyring of our parent, before a change of user: it has the secrets of its login, and of others
    that got it from the same parent. Kernels and containers without keyrings have nothing to leave."""
    number = KEYCTL.get(os.uname().machine)
    if number is not None and _libc.syscall(number, KEYCTL_JOIN_SESSION_KEYRING, None) < 0:
        error = ctypes.get_errno()
        if error not in (errno.ENOSYS, errno.EPERM):
            raise OSError(error, os.strerror(error))


def children() -> list[int]:
    """Return living and dead direct children. The kernel's own list may lack one while others end, but is empty only if
    there are none; on a kernel without such lists all processes are read."""
    found: list[int] = []
    try:
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/children", "rb") as stream:
                found += map(int, stream.read().split())
    except FileNotFoundError:
        return _children_by_search()
    return found


def _children_by_search() -> list[int]:
    me, found = os.getpid(), []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stream:
                    after_name = stream.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if int(after_name[1]) == me:
                found.append(int(name))
    return found


class Tree:
    """`pid` is the program at the root; `status` and `ended_s` (monotonic) are known once it is over."""

    def __init__(self, pid: int = 0) -> None:
        self.pid = pid
        self.status: int | None = None
        self.ended_s = 0.0
        self.user_s = self.system_s = 0.0  # of all processes that were reaped
        self.peak_rss_bytes = 0

    def signal(self, number: int) -> None:
        """Send a signal to the whole process group of the program."""
        try:
            os.killpg(self.pid, number)
        except OSError:
            return

    def reap(self) -> None:
        """Reap the dead processes; orphans of the tree are our children too."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._note_end(pid, status, used)

    def kill_all(self) -> int:
        """Kill every descendant; return how many survived. Each round kills direct children; theirs become ours."""
        left: set[int] = set()
        while True:
            for pid in children():
                if pid != self.pid:
                    left.add(pid)
                try:
                    os.kill(pid, signal.SIGKILL)
                except PermissionError:  # it changed its user; waiting for it would never end
                    return len(left)
                except ProcessLookupError:
                    continue
            try:
                self._note_end(*os.wait4(-1, 0))
            except ChildProcessError:
                return len(left)
            self.reap()  # all of them, before children are listed again

    def _note_end(self, pid: int, status: int, used: resource.struct_rusage) -> None:
        self.user_s, self.system_s = self.user_s + used.ru_utime, self.system_s + used.ru_stime
        self.peak_rss_bytes = max(self.peak_rss_bytes, used.ru_maxrss * 1024)
        if pid == self.pid:
            self.status, self.ended_s = os.waitstatus_to_exitcode(status), time.monotonic()
