"""Watch over one run: start its program, enforce its limit, its fuse and the bound on its output, record its end.

A runner is forked off the launcher, leads a session of its own and outlives launcher and controller. The folder of a
run says what to execute and how it ended; see runs.py for the files. A runner never starts a run that another one has
claimed, and never ends before everything it started is dead.

A program enters its control and resctrl groups and becomes its user between fork and exec; no file that the user may
have prepared is opened before that. The runner keeps its own rights, so that it can end the program under any user.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import resource
import select
import signal
from collections.abc import Callable
from typing import Any, NoReturn

from cohabit.agent import control_groups
from cohabit.agent.launch.process_tree import Tree, begin_fresh, die_with_parent, leave_keyring, watch_over_children
from cohabit.launcher.runs import RunFolder, clock_us, opened, repeat_until_written

POKE = signal.SIGUSR1  # look into the folder for a new fuse or an order to stop
STOPPING = {signal.SIGUSR2: "cancelled", signal.SIGRTMIN: "stopped"}  # an order to stop that could not be written
NEVER_US = 2**62
NOTE = "note "
FULL = (errno.ENOSPC, errno.EDQUOT)
OUTPUT_LOOK_S = 1.0  # interval at which the size of a bounded output is checked
LONGEST_S = 3600.0
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_OFILE"]


def identity() -> str:
    """Return an unambiguous identity of this process: id, start in clock ticks, boot."""
    with open("/proc/self/stat", "rb") as stream:
        ticks = stream.read().rpartition(b")")[2].split()[19].decode()
    with open("/proc/sys/kernel/random/boot_id") as stream:
        return f"{os.getpid()} {ticks} {stream.read().strip()}"


class Run(Tree):
    """One run that this process has claimed, up to the record of its end. `tell_start` is called when it executes."""

    def __init__(self, folder: RunFolder, spec: dict[str, Any], woken: int, tell_start: Callable[[], None]) -> None:
        super().__init__()
        self.folder, self.spec, self.woken, self.tell_start = folder, spec, woken, tell_start
        self.began_us, self.ordered = 0, ""
        self.written = -1  # its output in our folder
        self.groups: list[control_groups.Group] = []

    def fuse_us(self) -> int:
        """Return the instant at which the run is stopped unless the fuse is moved; an unreadable fuse has burnt."""
        try:
            with open(f"{self.folder.path}/fuse", "rb", 0) as stream:
                return int(stream.read())
        except FileNotFoundError:
            return NEVER_US
        except (OSError, ValueError):
            return 0

    def stop_word(self) -> str:
        """Return why the run is to be stopped; empty: it is not."""
        try:
            with open(f"{self.folder.path}/stop", "rb", 0) as stream:
                return stream.read().decode() or "stopped"
        except (OSError, ValueError):
            return self.ordered

    def hear(self) -> None:
        """Read the signals that came; they include orders to stop that could not be written."""
        for number in os.read(self.woken, 4096):
            self.ordered = self.ordered or STOPPING.get(number, "")  # type: ignore[call-overload]

    def live(self) -> None:
        """Start, wait, end. In any case no process is left and the end is recorded."""
        if select.select([self.woken], [], [], 0)[0]:
            self.hear()
        why, fault = self.stop_word(), ""
        try:
            if not why and clock_us() < self.fuse_us():
                fault = self.start()
                if not fault:
                    self.tell_start()
                    why, fault = self.watch()
            elif not why:
                why = "burnt"
        except OSError as error:
            fault = f"could not be recorded: {os.strerror(error.errno or 0).lower()}"
            if error.errno in FULL:  # the program did not execute yet, so it may be started again
                why = why or "stopped"
        with contextlib.suppress(OSError):  # in case this process dies now
            self.folder.write("exited", {"why": why, "fault": fault, "status": self.status})
        leftovers = self.kill_all()
        if self.written >= 0:
            os.close(self.written)
        if not why and self.status and control_groups.out_of_memory(self.groups):
            fault = f"went over the {self.spec['memory_bytes'] >> 20} MiB of memory it asked for"
        control_groups.remove(self.groups)
        facts = {
            "why": why,
            "fault": fault,
            "status": self.status,
            "began_us": self.began_us,
            "ended_us": clock_us(),
            "user_s": self.user_s,
            "system_s": self.system_s,
            "peak_rss_bytes": self.peak_rss_bytes,
            "leftovers": leftovers,
        }
        repeat_until_written(lambda: self.folder.record_end(facts))

    def limit_us(self) -> int:
        """Return the instant at which its time limit is reached."""
        return self.began_us + int(self.spec["limit_us"]) if self.spec["limit_us"] >= 0 else NEVER_US

    def start(self) -> str:
        """Make its groups, fork the program, record it, let it execute; return the reason if it cannot."""
        self.groups, notes = control_groups.make(self.spec["groups"])
        other_limits()
        gate, opened = os.pipe()
        faults, faulty = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(opened)
            become(self.spec, self.groups, gate, faulty)
        os.close(gate)
        os.close(faulty)
        self.began_us = clock_us()
        self.folder.write("started", {"pid": self.pid, "began_us": self.began_us})
        with contextlib.suppress(BrokenPipeError):  # the program failed already and reports it
            os.write(opened, b"g")
        said = self.listen(faults)
        os.close(opened)
        os.close(faults)
        lines = said.decode(errors="replace").splitlines()
        notes += [line.removeprefix(NOTE) for line in lines if line.startswith(NOTE)]
        if notes:
            with contextlib.suppress(OSError):  # its program executes: only what concerns the program may end it
                self.folder.write("notes", notes)
        return "".join(line for line in lines if not line.startswith(NOTE))

    def listen(self, faults: int) -> bytes:
        """Return what the child reports until it executes. A child that is blocked (a folder that does not answer, a
        pipe without a reader) is not waited for longer than its program would be."""
        said = b""
        while not self.stop_word() and (left_us := min(self.fuse_us(), self.limit_us()) - clock_us()) > 0:
            ready, _, _ = select.select([faults, self.woken], [], [], min(left_us / 1e6, LONGEST_S))
            if self.woken in ready:
                self.hear()  # dead children are reaped later
            if faults in ready:
                if not (more := os.read(faults, 4096)):
                    break
                said += more
        return said

    def watch(self) -> tuple[str, str]:
        """Wait for the end; stop the run at its limit, at its fuse, when asked or when its output is too long. Return
        which it was, and what went wrong."""
        why, fault, kill_us, limit_us = "", "", NEVER_US, self.limit_us()
        self.reap()
        while self.status is None:
            now_us, fuse_us = clock_us(), self.fuse_us()
            word = self.stop_word()
            fault = fault or self.too_much_output()
            if why == "" and (word or fault or now_us >= min(fuse_us, limit_us)):
                why = word or ("output" if fault else "burnt" if now_us >= fuse_us else "limit")
                kill_us = now_us + (self.spec["grace_us"] if why in ("limit", "cancelled") else 0)
                self.signal(signal.SIGTERM)
            if now_us >= min(kill_us, fuse_us):
                why = why or "burnt"
                self.kill_all()
                break
            next_us = min(kill_us, fuse_us, limit_us if why == "" else NEVER_US)
            longest_s = OUTPUT_LOOK_S if self.spec["output_most"] else LONGEST_S
            patience = min(max(next_us - now_us, 0) / 1e6, longest_s)
            if select.select([self.woken], [], [], patience)[0]:
                self.hear()
                self.reap()
        return ("", fault) if why == "output" else (why, "" if why else fault)

    def too_much_output(self) -> str:
        """Return a message if its output in our folder is longer than the site allows."""
        most = self.spec["output_most"]
        if not most:
            return ""
        if self.written < 0:
            self.written = self.open_written()
        size = 0
        with contextlib.suppress(OSError):
            size = os.lstat(self.spec["stdout"]).st_size
        with contextlib.suppress(OSError):
            size = max(size, os.fstat(self.written).st_size)
        return f"its output grew beyond {most >> 20} MiB (max_output_mb)" if size > most else ""

    def open_written(self) -> int:
        """Return a descriptor of the output that the program writes to, which its owner may unlink or rename; -1: it
        writes to something else."""
        try:
            found = os.open(f"/proc/{self.pid}/fd/1", os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return -1
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(found), os.lstat(self.spec["stdout"])):
                return found
        os.close(found)
        return -1

    def kill_all(self) -> int:
        """Kill the processes in its groups first: even a tree that forks fast dies at once there."""
        control_groups.kill(self.groups)
        return super().kill_all()


def become(spec: dict[str, Any], groups: list[control_groups.Group], gate: int, faults: int) -> NoReturn:
    """Turn this child into the program: own session, groups, cores, user, files; then wait at the gate and execute.

    Errors are reported in words for the job's owner.
    """
    step = "be started"
    try:
        begin_fresh((POKE, *STOPPING))
        enter(spec, groups, faults)
        step = "bind to its cores"
        if spec["cores"]:
            os.sched_setaffinity(0, spec["cores"])
        step = "get the limits of this machine"
        reset_limits(spec["file_most"])
        step = "become its user"
        if spec["user"] is not None:
            become_user(spec["user"])
        step = f"enter its folder {spec['folder']}"
        os.chdir(spec["folder"])
        step = f"open its output {spec['stdout']}"
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(open_output(spec["stdout"]), 1)
        step = f"open its error output {spec['stderr']}"
        os.dup2(open_output(spec["stderr"]) if spec["stderr"] else 1, 2)
        step = f"execute {spec['command'][0]}"
        if os.read(gate, 1) != b"g":
            os._exit(126)
        os.execvpe(spec["command"][0], spec["command"], spec["environment"])
    except OSError as error:
        said = f"could not {step}: {os.strerror(error.errno or 0).lower()}"
        os.write(faults, os.fsencode(said.replace("\n", "?")) + b"\n")
    finally:
        os._exit(127)


def reset_limits(file_most: int) -> None:
    """Reset limits and OOM protection of the service, which jobs must not inherit: they get those of process 1, core
    files off and 1,024 open files unless they raise it. Without root they keep what they have."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb", 0) as stream:
        stream.write(b"0")
    for number, wanted in other_limits().items():
        for limits in wanted:
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(number, limits)
                break
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    if file_most:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_most, file_most))


@functools.cache  # called in a runner before it forks: its limits are those of the launcher and do not change
def other_limits() -> dict[int, list[tuple[int, int]]]:
    """Return the limits that a job must not inherit, with the values it gets instead and the values without the right
    to raise a limit."""
    found: dict[int, list[tuple[int, int]]] = {}
    for number in _LIMITS:
        try:
            soft, hard = resource.prlimit(1, number)
        except OSError:
            continue
        soft = {resource.RLIMIT_NOFILE: 1024, resource.RLIMIT_CORE: 0}.get(number, soft)
        own = resource.getrlimit(number)
        wanted = [(most if _lower(most, soft) else soft, most) for most in (hard, own[1])]
        if wanted[0] != own:
            found[number] = wanted
    return found


def _lower(one: int, other: int) -> bool:
    """Return whether a limit is below another."""
    return one != resource.RLIM_INFINITY and (other == resource.RLIM_INFINITY or one < other)


def open_output(path: str) -> int:
    """Open a file for appending; a named pipe without a reader is an error and is not waited for."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOCTTY | os.O_NONBLOCK, 0o644)
    os.set_blocking(descriptor, True)
    return descriptor


def enter(spec: dict[str, Any], groups: list[control_groups.Group], faults: int) -> None:
    """Enter control groups, then resctrl groups; if a group is gone, the job runs without it and that is reported."""
    for group in groups:
        try:
            control_groups.join(group)
        except OSError as error:
            reason = os.strerror(error.errno or 0).lower()
            os.write(faults, f"{NOTE}it could not enter its group {group['path']}: {reason}\n".encode())
    for place in spec["joins"]:
        try:
            with opened(place, os.O_WRONLY) as descriptor:
                os.write(descriptor, f"{os.getpid()}\n".encode())
        except OSError as error:
            reason = os.strerror(error.errno or 0).lower()
            os.write(faults, f"{NOTE}it runs without its share of the cache ({place}: {reason})\n".encode())
            return  # a monitoring group takes only processes of its class


def become_user(user: dict[str, Any]) -> None:
    """Change to the user irreversibly. The change of user resets the parent-death signal of this process."""
    leave_keyring()
    os.setgroups(user["groups"])
    os.setresgid(user["gid"], user["gid"], user["gid"])
    os.setresuid(user["uid"], user["uid"], user["uid"])
    os.umask(0o022)
    die_with_parent()


def lead_session() -> int:
    """Start a session in a child of the launcher, as the nearest reaper. Return a descriptor for signals."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    woken = watch_over_children((POKE, *STOPPING))
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # signals that were blocked until now arrive now
    return woken
