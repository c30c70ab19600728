"""Manage the runs of one place: give them to runners, watch them, stop them, record lost ones and settle them.

Each start holds a lock on the folder of runs until it has claimed its run. A new launcher waits for that lock. A run
that has no claim after that never begins, so nothing needs to be written to make sure of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import select
import socket
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from cohabit.agent import control_groups
from cohabit.agent.topology import format_cpus
from cohabit.launcher import acting, runner, wire
from cohabit.launcher.channel import LATER, Channel, failed
from cohabit.launcher.meter import Meter
from cohabit.launcher.moving import rebind
from cohabit.launcher.process import FOLDER
from cohabit.launcher.requests import Refused
from cohabit.launcher.runner_process import RunnerProcess, fork_runner, readable
from cohabit.launcher.runs import (
    LOST,
    MARK,
    NO_RUNNER,
    Key,
    RunFolder,
    alive,
    all_runs,
    claims_of,
    clock_us,
    kept_claim,
    leftovers,
    opened,
    processes_of,
    repeat_until_written,
    threads_of,
)
from cohabit.launcher.settings import Settings
from cohabit.launcher.sweeper import Sweeper

STARTING = "starting"
LOCK_S = 60.0  # a start that takes longer than this keeps the next launcher from beginning
ENDING_S = 5.0  # a child that has answered has ended by then, also on a busy machine
IDLE_MOST = 8  # idle runners kept for the next run
WORD_US = 500_000  # after this time the runner's report that its program executes counts as lost
AS_REQUESTED = (
    "command", "folder", "stderr", "nodes", "cores_each", "bandwidth_mbs", "limit_us", "grace_us", "memory_bytes",
)  # fmt: skip


class Supervisor:
    """`group` returns a resctrl group by its checked name."""

    def __init__(
        self, settings: Settings, channel: Channel, poll: select.poll, meter: Meter, group: Callable[[str], Path]
    ) -> None:
        self.settings, self.channel, self.poll, self.meter, self.group = settings, channel, poll, meter, group
        self.runs, self.output, self.own = (settings.place / name for name in ("runs", "output", FOLDER))
        self.offer = control_groups.Offer()
        self.runners: dict[int, RunnerProcess] = {}  # by watched descriptor; includes idle runners
        self.of_run: dict[Key, RunnerProcess] = {}
        self.idle: list[RunnerProcess] = []
        self.sweeper = Sweeper(self.close_private)
        self.unsaid: set[Key] = set()  # runs for which the report of the start may be missing
        self.lock = -1

    # ---- life -------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Make the folders, wait for starts of an earlier launcher, make control groups, remove what no run needs."""
        for folder in (self.runs, self.output):
            with contextlib.suppress(FileExistsError):
                folder.mkdir(0o711)
                folder.chmod(0o711)  # job owners can open their own folders but cannot list others
        for folder in (self.runs, self.output, self.own):
            _check_ours(folder)
        self.lock = os.open(self.own / STARTING, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        found = self.wait_for_lock()
        trees = control_groups.find_trees() if self.settings.trees is None else self.settings.trees
        self.offer = control_groups.prepare(control_groups.folder_of(self.settings.place), trees)
        for problem in self.offer.problems:
            self.channel.say(f"{problem}: jobs run without")
        for name in control_groups.sweep(self.offer, {folder.path.name for folder in all_runs(self.runs)}):
            self.channel.say(f"what was left of {name} is killed", once=False)
        for path in found:
            self.sweeper.remove(path)  # users may have left any number of files: no start waits for that

    def wait_for_lock(self) -> list[str]:
        """Wait until no start of an earlier launcher is in progress; from then on this lock stands for our starts.
        Return the folders that are to be removed."""
        until = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise Refused("a start of an earlier controller does not come to an end; `ps` shows it") from None
                time.sleep(0.02)
        found = leftovers(self.runs, self.own)
        fcntl.flock(self.lock, fcntl.LOCK_SH)
        return found

    def private(self) -> Iterable[int]:
        """Descriptors that a child must not keep."""
        runners = list(self.runners.values())
        ends = [one.end for one in runners] + [self.sweeper.end]
        own = [one.fileno() for one in ends if one is not None] + [one.process for one in runners]
        return [*own, self.lock] if self.lock >= 0 else own

    # ---- starting ---------------------------------------------------------------------------------------------------

    def start(self, request: wire.Message) -> Any:
        """Start a run in a runner, which makes the folder, claims it and answers. Return False if the folder exists."""
        folder = self.folder(request)
        if folder.path.is_dir():
            return self.find_again(folder)
        before = self.of_run.get(folder.key)
        if before is not None and before.number == request["id"]:
            return LATER  # the same request again: the runner that makes the folder answers it
        if before is not None:  # an earlier start of this run has failed or is in progress
            if not readable(before.watched, ENDING_S):
                raise Refused("a start of this run is on its way")
            self.heard(before.watched)
        while True:
            one = self.idle.pop() if self.idle else fork_runner(self.be_runner, self.close_private)
            if one.give(folder, request, self.channel.end.fileno(), self.lock):
                break
            self.forget(one)
        self.watch(one)
        self.unsaid.add(folder.key)
        return LATER

    def close_private(self) -> None:
        """Close private descriptors in a new runner; the channel and the lock come with each request."""
        for descriptor in self.private():
            os.close(descriptor)
        self.channel.end.close()

    def find_again(self, folder: RunFolder) -> bool:
        """Handle a repeated request after a launcher has died: watch the run if it is alive."""
        if folder.key not in self.of_run and self.look_at(folder)["stands"] == "never":
            folder.remove()
            raise Refused("its start was interrupted")
        return False

    def be_runner(self, request: wire.Message, woken: int, channel: int, lock: int) -> None:
        """Execute one run in a runner. Release the lock when the claim is on the disk, and the channel when the start
        has been reported."""
        folder, claimed = self.folder(request), False
        with socket.socket(fileno=channel) as end:
            try:
                spec = self.prepare(folder, request)
                fuse_us = None if request["fuse_us"] < 0 else request["fuse_us"]
                claimed = folder.create(spec, fuse_us, request["files"], self.claim)
                answer = {"id": request["id"], "ok": claimed}
            except Exception as error:
                answer = failed(request["id"], error)
            os.close(lock)
            with contextlib.suppress(OSError):
                wire.send(end, answer)
            if claimed:
                runner.Run(folder, spec, woken, lambda: tell_start(end, folder)).live()

    @functools.cached_property
    def claim(self) -> str:
        """The file that this runner's claims are links to; written when a runner needs it first."""
        return kept_claim(claims_of(self.own, os.getpid()), runner.identity())

    def prepare(self, folder: RunFolder, request: wire.Message) -> dict[str, Any]:
        """Return all that the runner needs to know, from a checked request; the folder of the user's outputs exists
        afterwards. What root acts on is decided here, not in the request."""
        person, cpus = self.runs_as(request), tuple(sorted(set(_flat(request["nodes"]))))
        if person is not None:
            _make_output_folder(self.output / str(person["uid"]), person)
        limits = request["memory_bytes"], format_cpus(cpus), _most_processes()
        return {key: request[key] for key in AS_REQUESTED} | {
            "environment": request["environment"] | {MARK: str(folder.path)},
            "stdout": request["stdout"] or str(self.output_of(folder, person)),
            "cores": list(cpus),
            "user": person,
            "groups": control_groups.plan(self.offer, folder.path.name, *limits),
            "joins": [str(self.group(one) / "tasks") for one in request["joins"]],
            "output_most": 0 if request["stdout"] else self.settings.output_most,
            "file_most": self.settings.file_most,
        }

    def person(self, request: wire.Message) -> dict[str, Any] | None:
        """Return the user that a request names, if programs may be started as that user."""
        return self.settings.users.person(request["uid"], request["gid"], request["groups"])

    def runs_as(self, request: wire.Message) -> dict[str, Any] | None:
        """Return the user a program is to run as. As the controller's account none runs: it could read what the
        controller keeps private, and gain rights that the controller gave up for good."""
        if request["uid"] == -1 and self.settings.users.strict:
            raise Refused("it names no user, and no program runs as the account of the service")
        return self.person(request)

    def output_of(self, folder: RunFolder, person: Mapping[str, Any] | None) -> Path:
        """Return the path of a job's output if its owner named no file."""
        own = self.output if person is None else self.output / str(person["uid"])
        return own / f"{folder.path.name.rpartition('.')[0]}.out"

    @property
    def busy(self) -> bool:
        """Return whether there is anything to look for."""
        return bool(self.unsaid or self.sweeper.waiting)

    def look(self) -> None:
        """Look for runs with a lost start report, and for folders that wait to be removed."""
        self.sweeper.flush()
        for key in list(self.unsaid):
            folder = RunFolder(self.runs, *key)
            started = folder.started()
            if started is not None and clock_us() - started["began_us"] > WORD_US:
                self.unsaid.discard(key)
                if folder.ended() is None:
                    self.channel.report(event("started", folder))

    # ---- ends -------------------------------------------------------------------------------------------------------

    def watch(self, one: RunnerProcess) -> None:
        """Listen for the end of the run of this runner."""
        assert one.folder is not None
        self.runners[one.watched] = self.of_run[one.folder.key] = one
        self.poll.register(one.watched, select.POLLIN)

    def adopt(self, folder: RunFolder, process: int) -> None:
        """Watch a runner of another launcher, or the runner of an earlier start."""
        one = RunnerProcess(process)
        one.folder = folder
        self.watch(one)

    def forget(self, one: RunnerProcess) -> None:
        """Drop a runner that has ended, or that ends when it sees its socket closed."""
        if self.runners.pop(one.watched, None) is not None:
            self.poll.unregister(one.watched)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(claims_of(self.own, one.pid))
        one.close()

    def heard(self, descriptor: int) -> None:
        """Report the end of a run after its runner has finished it or has ended."""
        if not readable(descriptor):
            return  # an old event of a runner that had the same descriptor before
        one = self.runners[descriptor]
        over, folder, number = one.said_over(), one.folder, one.number
        one.folder = one.number = None
        if over and not one.signalled and len(self.idle) < IDLE_MOST:  # a pending signal would hit the wrong run
            self.idle.append(one)
        else:
            self.forget(one)
            self.idle = [other for other in self.idle if other is not one]
        if folder is not None:
            self.of_run.pop(folder.key, None)
            self.run_over(folder, None if over else number)

    def run_over(self, folder: RunFolder, unanswered: int | None) -> None:
        """Report the end of a run; record it first if its runner died before it had finished. `unanswered`: the request
        of a runner that died, which may have no answer."""
        self.unsaid.discard(folder.key)
        self.meter.end(folder.key)
        claim, ended = folder.runner(), folder.ended()
        if claim is None:
            if unanswered is not None:
                folder.remove()
                self.channel.report(failed(unanswered, Refused("its runner died before it could begin")))
        elif ended is not None:
            self.channel.report(ending(folder, ended))
        elif (living := alive(claim)) is not None:
            self.adopt(folder, living)  # the runner is dying, or it is that of an earlier start and holds the claim
        else:
            self.bury_in_child(folder)

    def bury_in_child(self, folder: RunFolder) -> None:
        """Record the end of a run in a child process, because killing what is left may take seconds."""
        self.channel.say(f"the runner of {folder.path.name} is dead; what it left is killed", once=False)
        if os.fork() == 0:
            self.channel.be_child()
            repeat_until_written(folder.bury)
            self.channel.end_child(ending(folder, folder.ended()))

    def look_at(self, folder: RunFolder) -> wire.Message:
        """Return the state of a run that this launcher did not start. A lost run is recorded here: the answer is
        final."""
        claim, ended = folder.runner(), folder.ended()
        found = event("run", folder) | {"stands": "ended", "ended": ended}
        if ended is not None:
            return found
        if claim is None or claim == NO_RUNNER:
            if claim is None:
                with contextlib.suppress(OSError):  # a full disk does no harm: no start is in progress
                    folder.forbid_start()
            return found | {"stands": "never"}
        if folder.key not in self.of_run:
            if (living := alive(claim)) is None:
                return found | {"ended": self.bury(folder, claim)}
            self.adopt(folder, living)
        spec = folder.spec()
        each, bandwidth = spec.get("cores_each", 0), spec.get("bandwidth_mbs", 0)
        return found | {"stands": "running", "bound": folder.bound(), "cores_each": each, "bandwidth_mbs": bandwidth}

    def bury(self, folder: RunFolder, claim: str) -> dict[str, Any]:
        """Record the end of a run after its runner has gone. If it cannot be recorded now, the run is lost all the
        same."""
        if not claim.strip():
            self.channel.say(f"the claim of run {folder.path.name} cannot be read: the run counts as lost", once=False)
        try:
            folder.bury()
        except OSError as error:
            reason = os.strerror(error.errno or 0).lower()
            self.channel.say(f"the end of run {folder.path.name} cannot be recorded: {reason}", once=False)
        return folder.ended() or dict(LOST)

    # ---- requests ---------------------------------------------------------------------------------------------------

    def folder(self, request: Mapping[str, Any]) -> RunFolder:
        """Return the folder of the run that a request names."""
        return RunFolder(self.runs, request["job"], request["attempt"])

    def observe(self, request: wire.Message) -> list[wire.Message]:
        """Return the state of every run that is not settled."""
        return [self.look_at(folder) for folder in all_runs(self.runs)]

    def stop(self, request: wire.Message) -> bool:
        """Stop a run; its end is reported later. Return False if it does not run."""
        folder, why = self.folder(request), request["why"]
        one = self.of_run.get(folder.key)
        if one is None:
            return False
        number = runner.POKE
        try:
            folder.ask_to_stop(why)
        except OSError:  # a full disk must not keep a job from being cancelled
            number = next(signal for signal, word in runner.STOPPING.items() if word == why)
        one.send(number)
        return True

    def renew(self, request: wire.Message) -> bool:
        """Set a new fuse."""
        folder = self.folder(request)
        one = self.of_run.get(folder.key)
        if one is None:
            return False
        folder.set_fuse(request["fuse_us"])
        one.send(runner.POKE)
        return True

    def bind(self, request: wire.Message) -> bool:
        """Give a run other cores."""
        folder = self.folder(request)
        before, after = _flat(folder.bound()), _flat(request["nodes"])
        folder.write("bound", request["nodes"])
        rebind(folder, before, after)
        return True

    def settle(self, request: wire.Message) -> bool:
        """Remove the record of a run; the record of a live run stays."""
        folder = self.folder(request)
        claim = folder.runner()
        if folder.ended() is None and claim not in (None, NO_RUNNER) and alive(claim or "") is not None:
            raise Refused(f"run {folder.path.name} is not over")
        if away := folder.put_away():
            self.sweeper.remove(away)
        return True

    def threads(self, request: wire.Message) -> list[int]:
        """Return all current threads of a run."""
        return threads_of(processes_of(self.folder(request)))

    def probe(self, request: wire.Message) -> dict[str, Any]:
        """Return what a job's environment offers to its framework."""
        memory = min(request["memory_bytes"] or acting.MEMORY_OF_PROBE, acting.MEMORY_OF_PROBE)
        groups = control_groups.plan(self.offer, self.folder(request).path.name, memory, "", acting.MOST_PROCESSES)
        return acting.probe_for(self.runs_as(request), groups, request["framework"], request["environment"])

    def open_output(self, request: wire.Message) -> int:
        """Return a descriptor of a job's output; path "": the default file, used if the owner named none."""
        person, path = self.person(request), request["path"]
        if path:
            return acting.open_for(person, path, own=False)
        return acting.open_for(person, str(self.output_of(self.folder(request), person)), own=True)


def event(kind: str, folder: RunFolder) -> wire.Message:
    """Return a report about a run."""
    return {"event": kind, "job": folder.job_id, "attempt": folder.attempt}


def ending(folder: RunFolder, ended: dict[str, Any] | None) -> wire.Message:
    """Return the report of the end of a run."""
    return event("ended", folder) | {"ended": ended or dict(LOST), "notes": folder.notes()}


def tell_start(end: socket.socket, folder: RunFolder) -> None:
    """Report the start once from a runner if the controller listens; otherwise the launcher finds it in the folder."""
    with contextlib.suppress(OSError):
        wire.send(end, event("started", folder), wait=False)
    end.close()


def _check_ours(folder: Path) -> None:
    """Check that no other account owns the folder or can write to it: its content decides what runs as which user."""
    known, own = folder.lstat(), os.geteuid()
    if not stat.S_ISDIR(known.st_mode) or known.st_uid != own or known.st_mode & 0o022:
        raise Refused(f"{folder} must be a folder that belongs to user {own} and that only it can write to")


def _make_output_folder(path: Path, person: Mapping[str, Any]) -> None:
    """Make output/UID, accessible to the user alone, in a folder that only the launcher can write to."""
    with contextlib.suppress(FileExistsError):
        path.mkdir(0o700)
    with opened(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC) as descriptor:
        os.fchmod(descriptor, 0o700)
        os.fchown(descriptor, person["uid"], person["gid"])


def _most_processes() -> int:
    """Return the process limit of a job: a fork bomb must not take the last process ids of the machine."""
    try:
        return max(int(Path("/proc/sys/kernel/pid_max").read_text()) // 4, 1024)
    except (OSError, ValueError):
        return 0


def _flat(nodes: list[list[Any]]) -> list[int]:
    return [cpu for _, own in nodes for cpu in own]
