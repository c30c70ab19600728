"""The local back end: every run is a process of this machine with a runner of its own, which outlives the controller.

It carries out orders by writing into run folders and poking the runner, and it reports what the folders say. It keeps
nothing that a restart could lose, and polls nothing but the few runs that are just being started. Which cores a run has
is in its folder; which ways of the cache, the kernel knows.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from cohabit.agent import control_groups
from cohabit.agent.resctrl.files import Mount, find_mount
from cohabit.agent.resctrl.wanted import Placed, Reach, unbooked
from cohabit.agent.topology import Core
from cohabit.backend.local import runs
from cohabit.backend.local.cache import ON, CacheShares
from cohabit.backend.local.moving import rebind
from cohabit.backend.local.nodes import CoreBook, VirtualNodes, cpus_of
from cohabit.backend.local.room import shortage
from cohabit.backend.local.runs import NOBODY, RunFolder
from cohabit.backend.local.spec import prepare, spec_of
from cohabit.backend.local.users import Person, make_folder_of, person_of
from cohabit.backend.protocol import ENDED, NEVER, RUNNING, BackendError, Capabilities, Launch, Run
from cohabit.model.command import CancelJob, Command, MoveJob, RenewJob, SetShares, StartJob, StopJob
from cohabit.model.event import Event, JobFinished, JobStarted, SharesRefused
from cohabit.model.units import FOREVER, SECOND

LOOK_S = 0.05  # how often a run that is just being started is looked at, should its runner not say so
WORD_US = SECOND // 2  # after so long the word of a runner that its program executes is lost
ASK_AGAIN_S = 5.0  # a run that nobody has claimed by then is asked for again
FULL_US = 10 * SECOND  # a job that found no room on the disk is tried again after that
STOP_S = 30.0  # a runner that has not ended its run after so long does not do its work
_RUNNER = Path(__file__).with_name("runner.py")
log = logging.getLogger(__name__)


class _Watched:
    """A run this back end answers for."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.descriptor: int | None = None  # of its runner
        self.told_start = False
        self.asked_s = time.monotonic()  # when it was last asked for
        self.over = asyncio.Event()


class LocalBackend:
    """Runs jobs below `place` on virtual nodes. `boot_us` turns the controller's clock into CLOCK_BOOTTIME.

    `oversubscribe`: jobs may meet on a core. `shares`: "on", "dry-run" (say what would be written) or "off"; `mount`
    and `trees` say where resctrl and control groups are, `reach` what cores of a node can draw from memory.
    """

    def __init__(
        self, place: Path, nodes: VirtualNodes, boot_us: Callable[[int], int], oversubscribe: bool = False,
        shares: str = ON, mount: Callable[[], Mount | None] = find_mount, reach: Reach = unbooked,
        trees: Callable[[], dict[str, str]] = control_groups.find_trees, processor: str = "",
    ) -> None:  # fmt: skip
        self.place, self.nodes, self._boot_us = place.absolute(), nodes, boot_us
        self._runs, self._out = self.place / "runs", self.place / "output"
        self._watched: dict[tuple[str, int], _Watched] = {}
        self._facts: asyncio.Queue[Event] = asyncio.Queue()
        self._launcher: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._said: list[str] = []
        self._book, self._trees, self._groups = CoreBook(nodes, oversubscribe), trees, control_groups.Offer()
        self._cache = CacheShares(
            nodes.local, mount, self._say, self._tasks_of, self._tell_refused, shares, reach, processor
        )
        self._tasks: set[asyncio.Task[Any]] = set()
        self.capabilities = Capabilities(fuses=True, moves=bool(nodes.local), shares=self._cache.able)

    async def open(self) -> None:
        """Make the folders and groups, sweep what nobody knows, start the launcher."""
        for folder in (self._runs, self._out):
            if not folder.is_dir():
                folder.mkdir(parents=True)
                folder.chmod(0o711)  # owners of jobs find theirs, and cannot look for others
        await asyncio.to_thread(self._prepare_groups)
        self._start_launcher()
        self._do(self._look())
        self._do(self._cache.tend())

    async def close(self) -> None:
        """Stop reporting; runs go on."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for one in self._watched.values():
            self._unwatch(one)
        if self._launcher is not None:
            self._stop_launcher()
        await asyncio.to_thread(control_groups.tidy_up, self._groups)

    def notices(self) -> list[str]:
        """What was said about this machine: what it cannot do, and what went wrong."""
        return list(self._said)

    def bound(self, job_id: str, attempt: int) -> dict[int, list[int]]:
        """The CPUs of a run, by node."""
        return RunFolder(self._runs, job_id, attempt).bound()

    async def events(self) -> AsyncIterator[Event]:
        """Starts and ends as they happen."""
        while True:
            yield await self._facts.get()

    async def execute(self, command: Command, launch: Launch | None = None) -> None:
        """Carry out an order; one to stop returns when the run is over."""
        match command:
            case StartJob():
                if launch is None:
                    raise BackendError("nothing is known of what the job executes")
                await self._start(command, launch)
            case CancelJob(job_id, attempt):
                await self._stop(job_id, attempt, "cancelled")
            case StopJob(job_id, attempt):
                await self._stop(job_id, attempt, "stopped")
            case RenewJob(job_id, attempt, fuse_us):
                self._renew(job_id, attempt, fuse_us)
            case MoveJob():
                await self._move(command)
            case SetShares():
                self._cache.divide(command)
                await self._cache.apply()
            case _:
                raise BackendError(f"a plain machine cannot carry out {type(command).__name__}")

    async def observe(self) -> list[Run]:
        """Read every folder; a run nobody has claimed will never begin from now on."""
        found, placed = [], []
        for folder in await asyncio.to_thread(runs.all_runs, self._runs):
            key = (folder.job_id, folder.attempt)
            folder.fence()
            if folder.ended() is None and folder.runner() != NOBODY:
                one = self._watched.setdefault(key, _Watched(folder))
                one.told_start = True  # whoever observes learns it from us
                self._book.restore(key, folder.bound())
                self._watch(one)
                placed += [] if one.over.is_set() else [_placed(folder)]  # a dead runner's run ends in this instant
            if (ended := folder.ended()) is not None:
                found.append(Run(*key, ENDED, runs.status_of(ended), *runs.exit_of(ended), ended.get("fault", "")))
            else:
                found.append(Run(*key, NEVER if folder.runner() == NOBODY else RUNNING))
        self._cache.adopt(placed)
        await self._cache.apply()
        return found

    async def settled(self, job_id: str, attempt: int) -> None:
        """The record of this run may go."""
        self._watched.pop((job_id, attempt), None)
        await asyncio.to_thread(RunFolder(self._runs, job_id, attempt).remove)

    def output(self, job_id: str, uid: int = -1) -> Path:
        """Where a job's output goes unless its owner named a file; `uid` as its launch says."""
        folder = self._out if uid < 0 or os.geteuid() != 0 else self._out / str(uid)
        return folder / f"{runs.file_name(job_id)}.out"

    # ---- orders -----------------------------------------------------------------------------------------------------

    async def _start(self, command: StartJob, launch: Launch) -> None:
        folder, run = RunFolder(self._runs, command.job_id, command.attempt), (command.job_id, command.attempt)
        if folder.exists():
            return  # the same order again
        if short := shortage(self.place):
            raise BackendError(short, FULL_US)
        cores = self._book.take(run, command.nodes, command.cores, command.exclusive)
        try:
            person, spec, files = await asyncio.to_thread(self._spec, command, launch, folder, cores)
            bandwidth_gbs = command.bandwidth_mbs / 1000
            job = Placed(command.job_id, tuple(cores), command.cores, bandwidth_gbs)
            spec["joins"] = [str(place) for place in await self._cache.begin(job)]
            fuse_us = None if command.fuse_us >= FOREVER else self._boot_us(command.fuse_us)
            new = await asyncio.to_thread(self._record, folder, spec, fuse_us, files, person)
        except BaseException as error:
            self._book.free(run)
            self._cache.forget(command.job_id)
            if isinstance(error, OSError):
                raise BackendError(f"its run cannot be recorded: {(error.strerror or str(error)).lower()}") from error
            raise
        if new:
            self._watched[run] = _Watched(folder)
            self._request(folder)

    def _spec(
        self, command: StartJob, launch: Launch, folder: RunFolder, cores: dict[int, tuple[Core, ...]]
    ) -> tuple[Person | None, dict[str, Any], dict[str, str]]:
        """In a thread: users and programs are looked up."""
        person = person_of(launch)
        prepared = prepare(command, launch, folder, cores, person)
        output = self.output(command.job_id, launch.uid)
        spec = spec_of(command, launch, folder, cores, person, prepared, self._groups, output, self._out)
        if spec["memory_bytes"] and "memory" not in self._groups.limits:
            self._say("memory limits are not enforced: there is no memory control group that we may use")
        return person, spec, prepared.files

    def _record(
        self, folder: RunFolder, spec: dict[str, Any], fuse_us: int | None, files: dict[str, str], person: Person | None
    ) -> bool:
        if person is not None:
            make_folder_of(person, self._out / str(person.uid))
        return folder.create(spec, fuse_us, files)

    async def _move(self, command: MoveJob) -> None:
        """Re-bind it, or end it: it was promised to be elsewhere from now on."""
        run = (command.job_id, command.attempt)
        one = self._watched.get(run)
        if one is None or one.over.is_set():
            return  # its end is known, or on the way
        before = one.folder.bound()
        try:
            cores = self._book.take(run, command.nodes, _placed(one.folder).cores, False)
            after = {number: cpus_of(own) for number, own in cores.items()}
            one.folder.bind(after)
            await asyncio.to_thread(rebind, one.folder, _flat(before), _flat(after))
        except (BackendError, OSError) as error:
            log.warning("job %s is stopped, as it cannot be moved: %s", command.job_id, error)
            await self._stop(*run, "stopped")
            return
        self._book.free(run)
        self._book.restore(run, after)
        self._cache.move(_placed(one.folder))
        await self._cache.apply()

    async def _stop(self, job_id: str, attempt: int, why: str) -> None:
        one = self._watched.get((job_id, attempt))
        if one is None:
            return  # it never was, or is over and settled
        if one.folder.fence():  # its runner did not get so far, and now never will
            one.folder.never_began(why)
            self._finish(one, why)
            return
        one.folder.ask_to_stop(why)
        self._poke(one)
        try:
            await asyncio.wait_for(one.over.wait(), STOP_S)
        except TimeoutError:
            raise BackendError(f"the runner of {job_id} does not end it") from None

    def _renew(self, job_id: str, attempt: int, fuse_us: int) -> None:
        one = self._watched.get((job_id, attempt))
        if one is not None and not one.over.is_set():
            one.folder.set_fuse(2**62 if fuse_us >= FOREVER else self._boot_us(fuse_us))
            self._poke(one)

    # ---- runs -------------------------------------------------------------------------------------------------------

    def _watch(self, one: _Watched) -> None:
        """Listen for the end of its runner; one that is dead already is dealt with at once."""
        runner = one.folder.runner()
        if one.descriptor is not None or one.over.is_set() or runner is None:
            return
        one.descriptor = runs.alive(runner)
        if one.descriptor is None:
            self._runner_ended(one)
        else:
            asyncio.get_running_loop().add_reader(one.descriptor, self._runner_ended, one)

    def _unwatch(self, one: _Watched) -> None:
        if one.descriptor is not None:
            asyncio.get_running_loop().remove_reader(one.descriptor)
            os.close(one.descriptor)
            one.descriptor = None

    def _poke(self, one: _Watched) -> None:
        self._watch(one)
        if one.descriptor is not None:
            try:
                signal.pidfd_send_signal(one.descriptor, signal.SIGUSR1)
            except ProcessLookupError:
                return  # its end is on the way

    def _runner_ended(self, one: _Watched) -> None:
        self._unwatch(one)
        if one.folder.ended() is None:
            log.warning("the runner of %s is dead; what it left is killed", one.folder.path.name)
            try:
                one.folder.bury()
            except OSError as error:  # its end cannot be recorded now; whoever looks next tries again
                self._say(f"ends of runs cannot be recorded: {(error.strerror or str(error)).lower()}")
                return
        ended = one.folder.ended()
        assert ended is not None
        for note in one.folder.notes():
            log.warning("job %s: %s", one.folder.job_id, note)
        if ended["fault"]:
            log.info("job %s %s", one.folder.job_id, ended["fault"])  # its owner finds it in its record
        self._finish(one, runs.status_of(ended))

    def _finish(self, one: _Watched, status: str) -> None:
        if not one.over.is_set():
            one.over.set()
            folder = one.folder
            self._book.free((folder.job_id, folder.attempt))
            self._cache.forget(folder.job_id)
            ended = folder.ended() or {}
            exits, fault = runs.exit_of(ended), ended.get("fault", "")
            self._facts.put_nowait(JobFinished(folder.job_id, folder.attempt, status, *exits, fault))

    def _tell_start(self, one: _Watched) -> None:
        if not one.told_start:
            one.told_start = True
            self._facts.put_nowait(JobStarted(one.folder.job_id, one.folder.attempt))
        self._watch(one)

    def _tell_refused(self, refused: dict[str, str]) -> None:
        """Jobs that have to go without their share of cache or bandwidth."""
        self._facts.put_nowait(SharesRefused(tuple(refused), "; ".join(dict.fromkeys(refused.values()))))

    def _tasks_of(self, job_id: str) -> list[int]:
        """All threads of a running job, as they are now."""
        found = [one.folder for (job, _), one in list(self._watched.items()) if job == job_id and not one.over.is_set()]
        return [task for folder in found for task in runs.threads_of(runs.processes_of(folder))]

    def _prepare_groups(self) -> None:
        """Control groups for runs; what a crash left of runs that nobody knows is killed and removed."""
        self._groups = control_groups.prepare(control_groups.folder_of(self.place), self._trees())
        for problem in self._groups.problems:
            self._say(f"{problem}: jobs run without")
        known = {folder.path.name for folder in runs.all_runs(self._runs)}
        for name in control_groups.sweep(self._groups, known):
            log.warning("what was left of %s is killed", name)

    def _say(self, sentence: str) -> None:
        """Once."""
        if sentence not in self._said:
            self._said.append(sentence)
            log.warning("%s", sentence)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look(self) -> None:
        """The runs just being started, in case their runner's word got lost; and the launcher, in case it died."""
        while True:
            await asyncio.sleep(LOOK_S)
            if self._launcher is not None and self._launcher.poll() is not None:
                log.warning("the launcher died and is started again")
                self._stop_launcher()
                self._start_launcher()
                for one in self._watched.values():
                    if not one.over.is_set() and one.folder.runner() is None:
                        self._request(one.folder)
            for one in list(self._watched.values()):
                if one.descriptor is None and not one.over.is_set():
                    self._watch(one)
                    if one.folder.runner() is None and time.monotonic() > one.asked_s + ASK_AGAIN_S:
                        self._request(one.folder)  # its runner could not even claim it: a full disk, most likely
                    started = one.folder.started()
                    if started is not None and runs.clock_us() - started["began_us"] > WORD_US:
                        self._tell_start(one)

    # ---- the launcher -----------------------------------------------------------------------------------------------

    def _start_launcher(self) -> None:
        with open(self.place / "runner.log", "ab") as said:
            self._launcher = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_RUNNER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
                bufsize=0, start_new_session=True, cwd="/",
            )  # fmt: skip
        assert self._launcher.stdout is not None
        os.set_blocking(self._launcher.stdout.fileno(), False)
        asyncio.get_running_loop().add_reader(self._launcher.stdout.fileno(), self._hear)

    def _stop_launcher(self) -> None:
        assert self._launcher is not None and self._launcher.stdin is not None and self._launcher.stdout is not None
        asyncio.get_running_loop().remove_reader(self._launcher.stdout.fileno())
        self._launcher.stdin.close()
        self._launcher.stdout.close()
        self._launcher.wait()
        self._launcher = None

    def _request(self, folder: RunFolder) -> None:
        if (one := self._watched.get((folder.job_id, folder.attempt))) is not None:
            one.asked_s = time.monotonic()
        assert self._launcher is not None and self._launcher.stdin is not None
        try:
            os.write(self._launcher.stdin.fileno(), os.fsencode(folder.path) + b"\n")
        except BrokenPipeError:
            return  # it died; its successor gets the request

    def _hear(self) -> None:
        """Runners say when their program executes."""
        assert self._launcher is not None and self._launcher.stdout is not None
        try:
            data = os.read(self._launcher.stdout.fileno(), 65536)
        except BlockingIOError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(self._launcher.stdout.fileno())
            return
        *lines, self._unread = (self._unread + data).split(b"\n")
        by_path = {os.fsencode(one.folder.path): one for one in self._watched.values()}
        for line in lines:
            one = by_path.get(line.removeprefix(b"started "))
            if one is not None:
                self._tell_start(one)


def _placed(folder: RunFolder) -> Placed:
    """A run as the cache sees it."""
    spec = folder.spec()
    return Placed(folder.job_id, tuple(folder.bound()), spec.get("cores_each", 0), spec.get("bandwidth_mbs", 0) / 1000)


def _flat(cpus: dict[int, list[int]]) -> list[int]:
    return [cpu for own in cpus.values() for cpu in own]
