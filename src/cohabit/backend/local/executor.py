"""The local back end: every run is a process of this machine with a runner of its own, which outlives the controller.

It needs no rights: it asks a launcher to start, stop and watch runs, and to write the division of the cache. It keeps
nothing that a restart could lose. The cores of a run are in its folder; the kernel knows its cache ways.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from cohabit.agent.resctrl.files import Mount, find_mount
from cohabit.agent.resctrl.wanted import Placed, Reach, unbooked
from cohabit.agent.topology import Core
from cohabit.backend.launcher_link import LauncherLink, LauncherRefused, own_settings
from cohabit.backend.local.cache import ON, CacheShares
from cohabit.backend.local.launcher_files import LauncherFiles
from cohabit.backend.local.nodes import CoreBook, VirtualNodes, cpus_of
from cohabit.backend.local.room import shortage
from cohabit.backend.local.spec import person_of, prepare, request_of
from cohabit.backend.protocol import (
    CANCELLED,
    DONE,
    ENDED,
    FAILED,
    KILLED,
    LOST,
    NEVER,
    RUNNING,
    STOPPED,
    BackendError,
    Capabilities,
    Launch,
    Run,
)
from cohabit.launcher.process import Begun
from cohabit.launcher.runs import file_name
from cohabit.launcher.settings import OUTPUT_MOST
from cohabit.model.command import CancelJob, Command, MoveJob, RenewJob, SetShares, StartJob, StopJob
from cohabit.model.event import Event, JobFinished, JobStarted, SharesRefused
from cohabit.model.units import FOREVER, SECOND

FULL_US = 10 * SECOND  # a job that found no room on the disk is retried after that
STOP_S = 30.0  # a runner that has not ended its run by then does not work
NO_FUSE = -1
NEVER_BURNS = 2**62
_ENDINGS = {"limit": KILLED, "burnt": STOPPED, "cancelled": CANCELLED, "stopped": STOPPED, "lost": LOST}
Key = tuple[str, int]
log = logging.getLogger(__name__)


class _Watched:
    """A run that this back end is responsible for."""

    def __init__(self, job: Placed) -> None:
        self.job = job
        self.told_start = False
        self.over = asyncio.Event()


class LocalBackend:
    """Runs jobs below `place` on virtual nodes. `boot_us` converts the controller's clock to CLOCK_BOOTTIME.

    `oversubscribe`: jobs may share a core. `shares`: "on", "dry-run" (say what would be written) or "off"; `always`:
    jobs are held to their booked bandwidth at any time, not only while the memory is nearly full; `mount` and
    `trees` say where resctrl and control groups are, `reach` what cores of a node can draw from memory. `begun`: a
    launcher with more rights than ours; None: one of our own is started, with `output_most` bytes of output per job.
    """

    def __init__(
        self,
        place: Path,
        nodes: VirtualNodes,
        boot_us: Callable[[int], int],
        oversubscribe: bool = False,
        shares: str = ON,
        mount: Callable[[], Mount | None] = find_mount,
        reach: Reach = unbooked,
        trees: Callable[[], dict[str, str]] | None = None,
        processor: str = "",
        begun: Begun | None = None,
        output_most: int = OUTPUT_MOST,
        always: bool = False,
    ) -> None:
        self.place, self.nodes, self._boot_us = place.absolute(), nodes, boot_us
        self._out, self._separate = self.place / "output", begun is not None
        self._folders: dict[int, str] = {}  # of output, by the uid of a launch
        self._watched: dict[Key, _Watched] = {}
        self._facts: asyncio.Queue[Event] = asyncio.Queue()
        self._said: list[str] = []
        self._book = CoreBook(nodes, oversubscribe)
        found = None if mount is find_mount else mount()
        told = own_settings(self.place) | {
            "resctrl": "" if found is None else str(found.root),
            "trees": None if trees is None else trees(),
            "output_most": output_most,
        }
        self.link = LauncherLink(told, self._told, begun)
        self._files = LauncherFiles(self.link, mount)
        told_to = (self._say, self._tasks_of, self._tell_refused)
        self._cache = CacheShares(nodes.local, mount, *told_to, shares, reach, processor, self._files, always)
        self.lasted: dict[Key, float | None] = {}  # seconds, of runs that are over and not settled
        self._tasks: set[asyncio.Task[Any]] = set()
        self.capabilities = Capabilities(fuses=True, moves=bool(nodes.local), shares=self._cache.able)

    async def open(self) -> None:
        """Wait until the launcher serves."""
        await self.link.open()
        self._do(self._cache.tend())

    async def close(self) -> None:
        """Stop reporting; runs go on."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.link.close()

    async def failed(self) -> None:
        """Raise when no job can be run any more; never return."""
        await self.link.failed.wait()
        raise BackendError("the launcher, which runs jobs, has ended")

    def notices(self) -> list[str]:
        """Return messages about this machine: what it cannot do, and what went wrong."""
        return list(self._said)

    async def events(self) -> AsyncIterator[Event]:
        """Yield starts and ends as they happen."""
        while True:
            yield await self._facts.get()

    async def execute(self, command: Command, launch: Launch | None = None) -> None:
        """Carry out an order; an order to stop returns when the run is over."""
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
                await self._renew(job_id, attempt, fuse_us)
            case MoveJob():
                await self._move(command)
            case SetShares():
                self._cache.divide(command)
                await self._cache.apply()
            case _:
                raise BackendError(f"a plain machine cannot carry out {type(command).__name__}")

    async def observe(self) -> list[Run]:
        """Return every run; a run that has no claim never begins from now on."""
        found, placed = [], []
        for one in await self.link.ask("observe"):
            key = (one["job"], one["attempt"])
            if one["stands"] == RUNNING:
                watched = self._watched.setdefault(key, _Watched(_placed(one)))
                watched.told_start = True  # the caller learns it from this answer
                self._book.restore(key, dict(one["bound"]))
                placed.append(watched.job)
                found.append(Run(*key, RUNNING))
            elif one["stands"] == ENDED:
                ended = one["ended"]
                found.append(Run(*key, ENDED, status_of(ended), *exit_of(ended), ended.get("fault", "")))
            else:
                found.append(Run(*key, NEVER))
        self._cache.adopt(placed)
        await self._cache.apply()
        return found

    async def settled(self, job_id: str, attempt: int) -> None:
        """Remove the record of this run."""
        self._watched.pop((job_id, attempt), None)
        self.lasted.pop((job_id, attempt), None)
        await self.link.ask("settle", job=job_id, attempt=attempt)

    async def remove_outputs(self, uid: int, jobs: list[str], dry_run: bool) -> dict[str, Any]:
        """Remove outputs of jobs that are over in the place: {"files", "bytes", "left"}; `uid` as in their launches."""
        found = await self.link.ask("remove_outputs", uid=uid, jobs=jobs, dry_run=dry_run)
        return dict(found)

    def output(self, job_id: str, uid: int = -1) -> Path:
        """Return where a job's output goes unless its owner named a file; `uid` as in its launch."""
        return Path(self.output_path(job_id, uid))

    def output_path(self, job_id: str, uid: int = -1) -> str:
        """Return the same as text: a list of jobs asks for thousands."""
        if uid not in self._folders:
            own = os.geteuid()
            chosen = own if self._separate and uid < 0 else uid
            inner = self._separate or (chosen >= 0 and own == 0)
            self._folders[uid] = str(self._out / str(chosen) if inner else self._out)
        return f"{self._folders[uid]}/{file_name(job_id)}.out"

    # ---- orders -----------------------------------------------------------------------------------------------------

    async def _start(self, command: StartJob, launch: Launch) -> None:
        run = (command.job_id, command.attempt)
        if run in self._watched:
            return  # the same order again
        if short := shortage(self.place):
            raise BackendError(short, FULL_US)
        cores = self._book.take(run, command.nodes, command.cores, command.exclusive)
        try:
            request = await self._request(command, launch, cores)
            job = Placed(command.job_id, tuple(cores), command.cores, command.bandwidth_mbs / 1000)
            request["joins"] = self._files.groups_of(await self._cache.begin(job))
            request["fuse_us"] = NO_FUSE if command.fuse_us >= FOREVER else max(self._boot_us(command.fuse_us), 0)
            self._watched[run] = _Watched(job)
            await self.link.ask("start", **request)
        except BaseException as error:
            self._watched.pop(run, None)
            self._book.free(run)
            self._cache.forget(command.job_id)
            if isinstance(error, LauncherRefused) and error.number:
                raise BackendError(f"its run cannot be recorded: {error}") from error
            raise

    async def _request(self, command: StartJob, launch: Launch, cores: dict[int, tuple[Core, ...]]) -> dict[str, Any]:
        """Return the request to the launcher; the job's framework is looked for with its owner's rights."""
        if launch.uid < 0 or (not self._separate and os.geteuid() != 0):
            await asyncio.sleep(0)  # a division of the cache that was ordered with this start is handled first
            person = person_of(launch, self._separate)  # without a look at accounts
        else:
            person = await asyncio.to_thread(person_of, launch, self._separate)
        folder = self.place / "runs" / f"{file_name(command.job_id)}.{command.attempt}" / "job"
        prepared = await prepare(command, launch, str(folder), cores, person, self.link)
        request = request_of(command, launch, cores, person, prepared, str(self._out))
        if request["memory_bytes"] and "memory" not in self.link.limits:
            self._say("memory limits are not enforced: there is no memory control group that we may use")
        return request

    async def _move(self, command: MoveJob) -> None:
        """Re-bind a run, or end it: it was promised to be on other cores from now on."""
        run = (command.job_id, command.attempt)
        one = self._watched.get(run)
        if one is None or one.over.is_set():
            return  # its end is known or will be reported
        try:
            cores = self._book.take(run, command.nodes, one.job.cores, False)
            after = {number: cpus_of(own) for number, own in cores.items()}
            pairs = [[number, own] for number, own in after.items()]
            await self.link.ask("bind", job=command.job_id, attempt=command.attempt, nodes=pairs)
        except BackendError as error:
            log.warning("job %s is stopped, as it cannot be moved: %s", command.job_id, error)
            await self._stop(*run, "stopped")
            return
        self._book.free(run)
        self._book.restore(run, after)
        one.job = Placed(command.job_id, tuple(after), one.job.cores, one.job.bandwidth_gbs)
        self._cache.move(one.job)
        await self._cache.apply()

    async def _stop(self, job_id: str, attempt: int, why: str) -> None:
        one = self._watched.get((job_id, attempt))
        if one is None or one.over.is_set():
            return  # it never existed, or is over
        await self.link.ask("stop", job=job_id, attempt=attempt, why=why)
        try:
            await asyncio.wait_for(one.over.wait(), STOP_S)
        except TimeoutError:
            raise BackendError(f"the runner of {job_id} does not end it") from None

    async def _renew(self, job_id: str, attempt: int, fuse_us: int) -> None:
        one = self._watched.get((job_id, attempt))
        if one is not None and not one.over.is_set():
            burns_us = NEVER_BURNS if fuse_us >= FOREVER else self._boot_us(fuse_us)
            await self.link.ask("renew", job=job_id, attempt=attempt, fuse_us=burns_us)

    # ---- runs -------------------------------------------------------------------------------------------------------

    def _told(self, report: Mapping[str, Any]) -> None:
        """Handle a report of the launcher."""
        kind, one = report["event"], self._watched.get((report.get("job", ""), report.get("attempt", -1)))
        if kind == "said":
            self._say(report["text"], report.get("once", True))
        elif kind == "again":
            self._do(self._look_again())
        elif kind == "started" and one is not None and not one.told_start:
            one.told_start = True
            self._facts.put_nowait(JobStarted(report["job"], report["attempt"]))
        elif kind == "ended" and one is not None:
            self._ended(one, report)

    def _ended(self, one: _Watched, report: Mapping[str, Any]) -> None:
        if one.over.is_set():
            return
        job, attempt, ended = report["job"], report["attempt"], report["ended"]
        for note in report.get("notes", ()):
            log.warning("job %s: %s", job, note)
        fault = ended.get("fault", "")
        if fault:
            log.info("job %s %s", job, fault)  # its owner finds it in the job's record
        one.over.set()
        self._book.free((job, attempt))
        self._cache.forget(job)
        self.lasted[job, attempt] = lasted_s(ended)
        self._facts.put_nowait(JobFinished(job, attempt, status_of(ended), *exit_of(ended), fault))

    async def _look_again(self) -> None:
        """Look again after a launcher has died: its successor finds the runs, and those that ended meanwhile."""
        for one in await self.link.ask("observe"):
            watched = self._watched.get((one["job"], one["attempt"]))
            if watched is not None and one["stands"] == ENDED:
                self._ended(watched, one)

    def _tell_refused(self, refused: dict[str, str]) -> None:
        """Report jobs that go without their share of cache or bandwidth."""
        self._facts.put_nowait(SharesRefused(tuple(refused), "; ".join(dict.fromkeys(refused.values()))))

    def _tasks_of(self, job_id: str) -> list[int]:
        """Return all current threads of a running job; called in a thread."""
        found = [key for key, one in list(self._watched.items()) if key[0] == job_id and not one.over.is_set()]
        ask = self.link.ask_from_thread
        return [task for job, attempt in found for task in ask("threads", job=job, attempt=attempt)]

    def _say(self, sentence: str, once: bool = True) -> None:
        if not once:
            log.warning("%s", sentence)
        elif sentence not in self._said:
            self._said.append(sentence)
            log.warning("%s", sentence)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def status_of(ended: Mapping[str, Any]) -> str:
    """Return the status for the core."""
    if ended["why"]:
        return _ENDINGS.get(ended["why"], LOST)
    return DONE if ended["status"] == 0 and not ended["fault"] else FAILED


def exit_of(ended: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the exit status of the program, or the signal that ended it; (None, None): its end was not seen."""
    status = ended.get("status")
    if type(status) is not int:
        return None, None
    return (status, None) if status >= 0 else (None, -status)


def lasted_s(ended: Mapping[str, Any]) -> float | None:
    """Return how long a run took, from its runner's record."""
    if not ended.get("began_us") or not ended.get("ended_us"):
        return None
    return float(ended["ended_us"] - ended["began_us"]) / SECOND


def _placed(run: Mapping[str, Any]) -> Placed:
    """Return a run in the form the cache code needs."""
    nodes = tuple(number for number, _ in run["bound"])
    return Placed(run["job"], nodes, run["cores_each"], run["bandwidth_mbs"] / 1000)
