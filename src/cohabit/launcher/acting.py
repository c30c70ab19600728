"""Act with the rights of a job's user, each time in a child process that gives up all other rights for good.

A child that does not end, or prints too much, is killed with everything it started. Its output is treated as data.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import select
import signal
import socket
import stat
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from cohabit.agent import control_groups
from cohabit.agent.launch.process_tree import children, watch_over_children
from cohabit.launcher.requests import Refused
from cohabit.launcher.runner import become_user, reset_limits
from cohabit.launcher.wire import write_all

PROBE_S = 20.0
OPEN_S = 20.0
ANSWER_MOST = 64 << 10  # bytes
LEFT_BEHIND_S = 0.5
MEMORY_OF_PROBE = 1 << 30
MOST_PROCESSES = 256
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
Person = dict[str, Any]


def open_for(person: Person | None, path: str, own: bool) -> int:
    """Open a plain file for reading with the user's rights. `own`: in a folder of ours; links are not followed."""
    ours, theirs = socket.socketpair()

    def work() -> None:
        try:
            descriptor = os.open(path, _FLAGS | (os.O_NOFOLLOW if own else 0))
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "it is not a plain file")
        except OSError as error:
            theirs.sendall(json.dumps([error.errno or 0, error.strerror or str(error)]).encode())
        else:
            theirs.sendmsg([b"+"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [descriptor]).tobytes())])

    with ours, theirs:
        with _as(person, (), work):
            theirs.close()
            ours.settimeout(OPEN_S)
            try:
                said, ancillary, _, _ = ours.recvmsg(4096, socket.CMSG_SPACE(16), socket.MSG_CMSG_CLOEXEC)
            except OSError as error:
                raise Refused("the file system does not answer", errno.ETIMEDOUT) from error
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                return _checked(array("i", data[:4])[0])
    try:
        number, reason = json.loads(said)
    except ValueError:
        raise Refused("it cannot be opened", errno.EIO) from None
    raise Refused(str(reason).lower(), int(number))


def _checked(descriptor: int) -> int:
    """Return a descriptor that a child of the user sent if it is a plain file; refuse any other."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Refused("it is not a plain file", errno.EINVAL)
    return descriptor


def probe_for(
    person: Person | None, groups: Sequence[control_groups.Group], framework: str, environment: dict[str, str]
) -> dict[str, Any]:
    """Return what the user's environment offers to a framework. Programs of the user are run for it: in the control
    groups of the job, in a session of their own, with bounds on time, memory and output."""
    from cohabit.launcher.probing import probe  # with the rights to read it, and not in the launcher (see serve.py)

    reads, writes = os.pipe()

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        os.write(writes, json.dumps(probe(framework, environment)).encode())

    try:
        with _as(person, groups, work):
            os.close(writes)
            said = _bounded(reads, PROBE_S)
    finally:
        os.close(reads)
    try:
        found = json.loads(said)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Refused(f"what is there for {framework} could not be found out: the search gave no answer in time")
    return {str(key): str(value) for key, value in found.items()}


def run_for(
    person: Person | None, argv: Sequence[str], given: bytes, environment: dict[str, str], patience_s: float, most: int
) -> tuple[int, int, bytes]:
    """Run a command to its end; return its status, a descriptor of its output, and its error output."""
    ends = [os.pipe(), os.pipe(), os.pipe()]  # its output, its error output, why it cannot be executed
    (out, out_end), (said, said_end), (unable, unable_end) = ends
    printed, stdin = os.memfd_create("cohabit-output", os.MFD_CLOEXEC), os.memfd_create("cohabit-input", os.MFD_CLOEXEC)
    write_all(stdin, given)
    os.lseek(stdin, 0, os.SEEK_SET)

    def work() -> None:
        try:
            os.chdir("/")
            os.umask(0o022)
            for number, descriptor in enumerate((stdin, out_end, said_end)):
                os.dup2(descriptor, number)
            os.execve(argv[0], list(argv), environment)
        except (OSError, ValueError) as error:
            os.write(unable_end, str(getattr(error, "errno", 0) or errno.EINVAL).encode())

    with _as(person, (), work) as child:
        for descriptor in (out_end, said_end, unable_end):
            os.close(descriptor)
        errors, code = _listen(child, out, said, printed, time.monotonic() + patience_s, most)
    if number := os.read(unable, 16):
        raise Refused(os.strerror(int(number)).lower(), int(number))
    return code, printed, errors


def _listen(child: int, out: int, said: int, printed: int, until: float, most: int) -> tuple[bytes, int]:
    """Read until the child has ended and its pipes are closed; wait only a moment for processes that it left behind."""
    poll, ended, errors, open_ends = select.poll(), os.pidfd_open(child), b"", {out, said}
    for descriptor in (out, said, ended):
        poll.register(descriptor, select.POLLIN)
    alive = True
    while alive or open_ends:
        if (left := until - time.monotonic()) <= 0:
            if alive:
                raise Refused("it did not end in time", errno.ETIMEDOUT)
            break
        for descriptor, _ in poll.poll(left * 1000 + 1):
            if descriptor == ended:
                alive, until = False, min(until, time.monotonic() + LEFT_BEHIND_S)
                poll.unregister(ended)
            elif more := os.read(descriptor, 65536):
                most -= len(more)
                if most < 0:
                    raise Refused("it printed too much", errno.EFBIG)
                if descriptor == out:
                    write_all(printed, more)
                else:
                    errors += more
            else:
                open_ends.discard(descriptor)
                poll.unregister(descriptor)
    return errors[:ANSWER_MOST], os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _bounded(descriptor: int, patience_s: float) -> bytes:
    said, until = b"", time.monotonic() + patience_s
    while len(said) <= ANSWER_MOST and (left := until - time.monotonic()) > 0:
        if not select.select([descriptor], [], [], left)[0]:
            break
        if not (more := os.read(descriptor, 65536)):
            return said
        said += more
    return b""


@contextlib.contextmanager
def _as(person: Person | None, groups: Sequence[control_groups.Group], work: Callable[[], None]) -> Any:
    """Run `work` in a child with the rights of this user; yield its pid. At the end of the block it and all it started
    are dead.

    Call it in a process of its own, which has no other children.
    """
    woken = watch_over_children()
    made, _ = control_groups.make(groups)
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            for group in made:
                control_groups.join(group)
            reset_limits(0)
            if person is not None:
                become_user(person)
            work()
        finally:
            os._exit(0)
    try:
        yield child
    finally:
        control_groups.kill(made)
        _kill_children()
        control_groups.remove(made)
        os.close(woken)


def _kill_children() -> None:
    while left := children():
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)
