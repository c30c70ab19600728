"""Watches over jobs, whoever else is alive: starts each, enforces its limit and its fuse, records how it ended.

A script of its own (the standard library and three small modules of the agent, started by path without site packages).
It reads the names of run folders from standard input and forks one runner for each, which leads a session of its own
and outlives both this process and the controller. What a run is to do, and what became of it, is in its folder alone:
see runs.py for the files. A runner must never start a run that somebody else has claimed, and never end before
everything it started is dead.

A program enters its control and resctrl groups and becomes its user between fork and exec; nothing the user may have
prepared is opened before that. The runner keeps its own rights, so that it can end whatever the program has become.
"""

import contextlib
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any, NoReturn

sys.path.append(os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", "..")))  # last: nothing is hidden
from cohabit.agent import control_groups, spare_room
from cohabit.agent.launch.process_tree import Tree, begin_fresh, die_with_parent, watch_over_children

REQUESTS, REPORTS = 0, 1
POKE = signal.SIGUSR1  # look into the folder: there is a new fuse or an order to stop
NEVER_US = 2**62
NOTE = "note "
AGAIN_S = 0.5  # between two tries to record an end on a full disk


def clock_us() -> int:
    """Microseconds since the machine started, sleep included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def identity() -> str:
    """This process so that it cannot be taken for another: id, start in clock ticks, boot."""
    with open("/proc/self/stat", "rb") as stream:
        ticks = stream.read().rpartition(b")")[2].split()[19].decode()
    with open("/proc/sys/kernel/random/boot_id") as stream:
        return f"{os.getpid()} {ticks} {stream.read().strip()}"


def tell_controller(line: str) -> None:
    """Say it once, if anybody listens: the controller may be dead or busy, and finds the same in the folder."""
    with contextlib.suppress(OSError):
        os.write(REPORTS, line.encode())
    os.dup2(os.open(os.devnull, os.O_WRONLY), REPORTS)


class Run(Tree):
    """One run, from its claim to the record of its end."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder, self.began_us = folder, 0
        self.spec: dict[str, Any] = {}
        self.groups: list[control_groups.Group] = []

    def place(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def write(self, name: str, facts: Any, durable: bool) -> None:
        """A whole file or none."""
        draft = spare_room.write_draft(self.folder, name, json.dumps(facts).encode(), durable)
        os.rename(draft, self.place(name))

    def claim(self) -> bool:
        """Whether the run is ours: the first link wins, and there is never another."""
        draft = self.place(f".claim.{os.getpid()}")
        with open(draft, "w") as stream:
            stream.write(identity())
        try:
            os.link(draft, self.place("claim"))
        except FileExistsError:
            return False
        finally:
            os.unlink(draft)
        return True

    def fuse_us(self) -> int:
        """The instant at which the run is stopped unless somebody moves it before."""
        try:
            with open(self.place("fuse")) as stream:
                return int(stream.read())
        except OSError:
            return NEVER_US

    def stop_word(self) -> str:
        """Why somebody wants it stopped; empty: nobody does."""
        try:
            with open(self.place("stop")) as stream:
                return stream.read()
        except OSError:
            return ""

    def live(self, woken: int) -> None:
        """Start, wait, end. Whatever happens, nobody is left and the end is recorded."""
        with open(self.place("spec")) as stream:
            self.spec = json.load(stream)
        why, fault = self.stop_word(), ""
        try:
            if not why and clock_us() < self.fuse_us():
                fault = self.start(woken)
                if not fault:
                    tell_controller(f"started {self.folder}\n")
                    why = self.watch(woken)
            elif not why:
                why = "burnt"
        except OSError as error:
            fault = f"could not be recorded: {os.strerror(error.errno or 0).lower()}"
            if error.errno in spare_room.FULL:  # the program was not let go yet: it may be started again
                why = why or "stopped"
        with contextlib.suppress(OSError):
            self.write(
                "exited", {"why": why, "fault": fault, "status": self.status}, durable=False
            )  # should we die now
        leftovers = self.kill_all()
        if not why and self.status and control_groups.out_of_memory(self.groups):
            fault = f"went over the {self.spec['memory_bytes'] >> 20} MiB of memory it asked for"
        control_groups.remove(self.groups)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.record_end({
            "why": why, "fault": fault, "status": self.status, "began_us": self.began_us, "ended_us": clock_us(),
            "user_s": used.ru_utime, "system_s": used.ru_stime, "peak_rss_bytes": used.ru_maxrss * 1024,
            "leftovers": leftovers,
        })  # fmt: skip

    def record_end(self, facts: dict[str, Any]) -> None:
        """Until there is room for it; a folder that is gone needs no record."""
        while True:
            try:
                self.write("ended", facts, durable=True)
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(AGAIN_S)
            else:
                return

    def limit_us(self) -> int:
        """The instant at which its time is up."""
        return self.began_us + int(self.spec["limit_us"]) if self.spec["limit_us"] >= 0 else NEVER_US

    def start(self, woken: int) -> str:
        """Make its groups, fork the program, record it, let it execute; the reason if it cannot."""
        self.groups, notes = control_groups.make(self.spec["groups"])
        gate, opened = os.pipe()
        faults, faulty = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(opened)
            become(self.spec, self.groups, gate, faulty)
        os.close(gate)
        os.close(faulty)
        self.began_us = clock_us()
        self.write("started", {"pid": self.pid, "began_us": self.began_us}, durable=False)
        with contextlib.suppress(BrokenPipeError):  # it failed already, and says so
            os.write(opened, b"g")
        said = self.listen(faults, woken)
        os.close(opened)
        os.close(faults)
        lines = said.decode(errors="replace").splitlines()
        notes += [line.removeprefix(NOTE) for line in lines if line.startswith(NOTE)]
        if notes:
            with contextlib.suppress(OSError):  # its program executes: nothing may end it that is not about it
                self.write("notes", notes, durable=False)
        return "".join(line for line in lines if not line.startswith(NOTE))

    def listen(self, faults: int, woken: int) -> bytes:
        """What the child has to say until it executes; one that cannot (a folder that does not answer, a pipe nobody
        reads) is not waited for any longer than its program would be."""
        said = b""
        while not self.stop_word() and (left_us := min(self.fuse_us(), self.limit_us()) - clock_us()) > 0:
            ready, _, _ = select.select([faults, woken], [], [], min(left_us / 1e6, 3600.0))
            if woken in ready:
                os.read(woken, 4096)  # whoever died is looked for later
            if faults in ready:
                if not (more := os.read(faults, 4096)):
                    break
                said += more
        return said

    def watch(self, woken: int) -> str:
        """Wait for the end; stop it at its limit, at its fuse or when asked, and say which it was."""
        why, kill_us, limit_us = "", NEVER_US, self.limit_us()
        self.reap()
        while self.status is None:
            now_us, fuse_us = clock_us(), self.fuse_us()
            word = self.stop_word()
            if why == "" and (word or now_us >= min(fuse_us, limit_us)):
                why = word or ("burnt" if now_us >= fuse_us else "limit")
                kill_us = now_us + (self.spec["grace_us"] if why in ("limit", "cancelled") else 0)
                self.signal(signal.SIGTERM)
            if now_us >= min(kill_us, fuse_us):
                why = why or "burnt"
                self.kill_all()
                break
            next_us = min(kill_us, fuse_us, limit_us if why == "" else NEVER_US)
            patience = min(max(next_us - now_us, 0) / 1e6, 3600.0)
            if select.select([woken], [], [], patience)[0]:
                os.read(woken, 4096)
                self.reap()
        return why

    def kill_all(self) -> int:
        """Whatever is in its groups first: a tree that forks faster than it can be looked at dies at once there."""
        control_groups.kill(self.groups)
        return super().kill_all()


def become(spec: dict[str, Any], groups: list[control_groups.Group], gate: int, faults: int) -> NoReturn:
    """Turn this child into the program: own session, groups, cores, user, files; then wait at the gate and execute.

    What goes wrong is said in words for whoever submitted it.
    """
    step = "be started"
    try:
        begin_fresh((POKE,))
        enter(spec, groups, faults)
        step = "bind to its cores"
        if spec["cores"]:
            os.sched_setaffinity(0, spec["cores"])
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


def open_output(path: str) -> int:
    """For appending; a named pipe that nobody reads is an error, and not waited for."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOCTTY | os.O_NONBLOCK, 0o644)
    os.set_blocking(descriptor, True)
    return descriptor


def enter(spec: dict[str, Any], groups: list[control_groups.Group], faults: int) -> None:
    """Into control groups, then into the groups of resctrl; one that is gone is gone without, and says so."""
    for group in groups:
        try:
            control_groups.join(group)
        except OSError as error:
            reason = os.strerror(error.errno or 0).lower()
            os.write(faults, f"{NOTE}it could not enter its group {group['path']}: {reason}\n".encode())
    for place in spec["joins"]:
        try:
            descriptor = os.open(place, os.O_WRONLY)
            try:
                os.write(descriptor, f"{os.getpid()}\n".encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            reason = os.strerror(error.errno or 0).lower()
            os.write(faults, f"{NOTE}it runs without its share of the cache ({place}: {reason})\n".encode())
            return  # a monitoring group takes only who is in its class


def become_user(user: dict[str, Any]) -> None:
    """For good: no way back to who we were. The kernel forgets whose death kills us when the user changes."""
    os.setgroups(user["groups"])
    os.setresgid(user["gid"], user["gid"], user["gid"])
    os.setresuid(user["uid"], user["uid"], user["uid"])
    os.umask(0o022)
    die_with_parent()


def run(folder: str) -> None:
    """In a child of its own: lead a session, be the nearest reaper of all that follows, live through the run."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), REQUESTS)
    woken = watch_over_children((POKE,))
    one = Run(folder)
    if one.claim():
        one.live(woken)


def main() -> None:
    """Fork a runner for every folder named; end with the controller. The runners do not."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the runners
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.set_blocking(REPORTS, False)
    unread = b""
    while data := os.read(REQUESTS, 65536):
        *lines, unread = (unread + data).split(b"\n")
        for line in lines:
            if os.fork() == 0:
                try:
                    run(os.fsdecode(line))
                except BaseException:
                    sys.excepthook(*sys.exc_info())
                finally:
                    sys.stderr.flush()
                    os._exit(0)


if __name__ == "__main__":
    main()
