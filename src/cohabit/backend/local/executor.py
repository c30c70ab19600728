"""The local back end: every run is a process of this machine with a runner of its own, which outlives the controller.

It carries out orders by writing into run folders and poking the runner, and it reports what the folders say. It keeps
nothing that a restart could lose, and polls nothing but the few runs that are just being started.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from cohabit.backend.launchers.contract import NodeShare, Placement, Prepared, Request
from cohabit.backend.launchers.detect import detect
from cohabit.backend.launchers.registry import find_launcher
from cohabit.backend.local import runs
from cohabit.backend.local.nodes import VirtualNodes
from cohabit.backend.local.runs import NOBODY, RunFolder
from cohabit.backend.protocol import ENDED, NEVER, RUNNING, BackendError, Capabilities, Launch, Run
from cohabit.model.command import CancelJob, Command, RenewJob, StartJob, StopJob
from cohabit.model.errors import InputError
from cohabit.model.event import Event, JobFinished, JobStarted
from cohabit.model.units import FOREVER, SECOND

GRACE_US = 2 * SECOND  # between asking a program to end and killing it
LOOK_S = 0.05  # how often a run that is just being started is looked at, should its runner not say so
STOP_S = 30.0  # a runner that has not ended its run after so long does not do its work
_RUNNER = Path(__file__).with_name("runner.py")
log = logging.getLogger(__name__)


class _Watched:
    """A run this back end answers for."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.descriptor: int | None = None  # of its runner
        self.told_start = False
        self.over = asyncio.Event()


class LocalBackend:
    """Runs jobs below `place` on virtual nodes. `boot_us` turns the controller's clock into CLOCK_BOOTTIME."""

    capabilities = Capabilities(fuses=True)

    def __init__(self, place: Path, nodes: VirtualNodes, boot_us: Callable[[int], int]) -> None:
        self.place, self.nodes, self._boot_us = place.absolute(), nodes, boot_us
        self._runs, self._out = self.place / "runs", self.place / "output"
        self._watched: dict[tuple[str, int], _Watched] = {}
        self._facts: asyncio.Queue[Event] = asyncio.Queue()
        self._launcher: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._looking: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Make the folders, start the launcher."""
        self._runs.mkdir(parents=True, exist_ok=True)
        self._out.mkdir(parents=True, exist_ok=True)
        self._start_launcher()
        self._looking = asyncio.create_task(self._look())

    async def close(self) -> None:
        """Stop reporting; runs go on."""
        if self._looking is not None:
            self._looking.cancel()
        for one in self._watched.values():
            self._unwatch(one)
        if self._launcher is not None:
            self._stop_launcher()

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
            case _:
                raise BackendError(f"a plain machine cannot carry out {type(command).__name__}")

    async def observe(self) -> list[Run]:
        """Read every folder; a run nobody has claimed will never begin from now on."""
        found = []
        for folder in await asyncio.to_thread(runs.all_runs, self._runs):
            key = (folder.job_id, folder.attempt)
            folder.fence()
            if folder.ended() is None and folder.runner() != NOBODY:
                one = self._watched.setdefault(key, _Watched(folder))
                one.told_start = True  # whoever observes learns it from us
                self._watch(one)
            if (ended := folder.ended()) is not None:
                found.append(Run(*key, ENDED, runs.status_of(ended)))
            else:
                found.append(Run(*key, NEVER if folder.runner() == NOBODY else RUNNING))
        return found

    async def settled(self, job_id: str, attempt: int) -> None:
        """The record of this run may go."""
        self._watched.pop((job_id, attempt), None)
        await asyncio.to_thread(RunFolder(self._runs, job_id, attempt).remove)

    def output(self, job_id: str) -> Path:
        """Where a job's output goes unless its owner named a file."""
        return self._out / f"{runs.file_name(job_id)}.out"

    # ---- orders -----------------------------------------------------------------------------------------------------

    async def _start(self, command: StartJob, launch: Launch) -> None:
        folder = RunFolder(self._runs, command.job_id, command.attempt)
        fuse_us = None if command.fuse_us >= FOREVER else self._boot_us(command.fuse_us)
        try:
            prepared = await asyncio.to_thread(self._prepare, command, launch, folder)
            spec = self._spec(command, launch, folder, prepared)
            new = await asyncio.to_thread(folder.create, spec, fuse_us, prepared.files)
        except OSError as error:
            raise BackendError(f"its run cannot be recorded: {(error.strerror or str(error)).lower()}") from error
        if not new:
            return  # the same order again
        self._watched[command.job_id, command.attempt] = _Watched(folder)
        self._request(folder)

    def _prepare(self, command: StartJob, launch: Launch, folder: RunFolder) -> Prepared:
        """What the job's launcher makes of its command on these nodes."""
        shares = []
        for number in (node for first, count in command.nodes for node in range(first, first + count)):
            cores = tuple(self.nodes.cores(((number, 1),)))
            shares.append(NodeShare("localhost", max(len(cores), 1), cores, number))
        environment = {"PATH": os.defpath} | launch.environment
        request = Request(
            command.job_id, launch.command, str(folder.path), launch.processes, launch.threads, launch.memory_bytes,
            launch.oversubscribe, environment,
        )  # fmt: skip
        try:
            prepare = find_launcher(launch.framework)
            return prepare(request, Placement(tuple(shares), command.scale), detect(launch.framework, environment))
        except InputError as error:
            raise BackendError(str(error)) from error

    def _spec(self, command: StartJob, launch: Launch, folder: RunFolder, prepared: Prepared) -> dict[str, Any]:
        environment = {"PATH": os.defpath} | launch.environment | prepared.environment
        environment |= {"COHABIT_ATTEMPT": str(command.attempt), runs.MARK: str(folder.path)}
        return {
            "command": prepared.argv, "environment": environment, "folder": launch.folder or str(self._out),
            "stdout": launch.stdout or str(self.output(command.job_id)), "stderr": launch.stderr,
            "cores": self.nodes.cores(command.nodes), "limit_us": command.limit_us, "grace_us": GRACE_US,
        }  # fmt: skip

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
            one.folder.bury()
        ended = one.folder.ended()
        assert ended is not None
        if ended["fault"]:
            log.warning("job %s %s", one.folder.job_id, ended["fault"])
        self._finish(one, runs.status_of(ended))

    def _finish(self, one: _Watched, status: str) -> None:
        if not one.over.is_set():
            one.over.set()
            self._facts.put_nowait(JobFinished(one.folder.job_id, one.folder.attempt, status))

    def _tell_start(self, one: _Watched) -> None:
        if not one.told_start:
            one.told_start = True
            self._facts.put_nowait(JobStarted(one.folder.job_id, one.folder.attempt))
        self._watch(one)

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
                    if one.folder.started() is not None:
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
