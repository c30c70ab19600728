"""Grid Engine's commands as the resource manager that the steering back end needs.

What was done with a job is written in its context, so a restart loses nothing. A job that has left the list counts as
on its hosts until the accounting says how it ended, because Grid Engine forgets jobs at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from cohabit.backend.gridengine import commands, text_output, xml_output
from cohabit.backend.gridengine.calls import Calls
from cohabit.backend.gridengine.commands import ANY, ASKED, MARK, QUEUE, SECURED, SYSTEM, USER
from cohabit.backend.gridengine.text_output import Accounted
from cohabit.backend.gridengine.translate import Site, asked_exclusive, asked_queue, has_exclusive, jobs_of, node_of
from cohabit.backend.gridengine.xml_output import Described, Host, Listed
from cohabit.backend.steered.contract import ManagerAway, ManagerRefused
from cohabit.backend.steered.marks import HELD, RUN, Before, read_mark
from cohabit.backend.steered.shapes import Ended, ManagerJob, ManagerNode, ManagerWindow

ACCOUNTED_WITHIN_S = 25.0  # Grid Engine writes its accounting every 15 s, unless flush_time says otherwise
REMEMBERED_S = 100.0
LOOK_S = 0.5
STOP_S = 20.0
T = TypeVar("T")


class GridEngineManager:
    """One cluster. `secures`: the hold of a submission is replaced by one that the owner cannot lift."""

    title = "Grid Engine"

    def __init__(self, calls: Calls, site: Site, all_held: bool = False, secures: bool = False) -> None:
        self.calls, self.site, self._all_held, self._secures = calls, site, all_held, secures
        self._described: dict[str, Described] = {}  # as of the last look
        self._hosts: dict[str, Host] = {}  # the same
        self._ran: dict[str, ManagerJob] = {}  # released by us
        self._gone_s: dict[str, float] = {}  # since when they are not listed any more
        self._ended: dict[str, ManagerJob] = {}  # how they ended, until the next look reports it

    @property
    def made(self) -> int:
        return self.calls.made

    # ---- looking ----------------------------------------------------------------------------------------------------

    async def nodes(self) -> list[ManagerNode]:
        """Every host with an instance of the queues."""
        hosts = _parsed(xml_output.hosts, await self.calls(commands.list_hosts()), self.site.queues)
        self._hosts = {host.name: host for host in hosts}
        return [node_of(host) for host in hosts]

    async def windows(self) -> list[ManagerWindow]:
        """Return none: advance reservations of Grid Engine are not followed."""
        return []

    async def jobs(self) -> list[ManagerJob]:
        """Return the listed jobs, and those that have gone since, with how they ended. Details are read first: a job
        that goes in between is missing in the list, and one that comes is seen next time."""
        found = _parsed(xml_output.described, await self.calls(commands.describe_jobs()))
        stands: dict[str, list[Listed]] = {}
        for row in _parsed(xml_output.listed, await self.calls(commands.list_jobs())):
            stands.setdefault(row.name, []).append(row)
        self._described = {one.name: one for one in found}
        jobs = [job for one in found for job in jobs_of(one, stands.get(one.name, []), self.site)]
        if self._secures:
            for job in jobs:
                await self._secure(job)
        return jobs + await self._gone({job.name: job for job in jobs})

    async def job(self, name: str) -> ManagerJob | None:
        """Return one job; None if Grid Engine does not know it."""
        return next((job for job in await self.jobs() if job.name == name), None)

    async def _gone(self, there: dict[str, ManagerJob]) -> list[ManagerJob]:
        """Return the jobs that have left the list since the last look."""
        found = []
        for name, last in list(self._ran.items()):
            if name in there:
                self._gone_s.pop(name, None)
                continue
            since_s = self._gone_s.setdefault(name, time.monotonic())
            if name not in self._ended and (record := await self._account(name)) is not None:
                self._ended[name] = ended_as(last, record)
            if name in self._ended:
                found.append(self._ended[name])
            elif time.monotonic() - since_s < ACCOUNTED_WITHIN_S:
                found.append(msgspec.structs.replace(last, state="COMPLETING"))
            if time.monotonic() - since_s > REMEMBERED_S:
                self._ran.pop(name, None)
                self._gone_s.pop(name, None)
                self._ended.pop(name, None)
        for job in there.values():
            mark = read_mark(job.mark)
            if mark is not None and mark.kind == RUN and (job.runs or not job.held):
                self._ran[job.name] = job
        return found

    async def ended(self, name: str) -> Ended | None:
        """Return how a job ended, from the accounting, which may come late; None if it is not there."""
        until_s = time.monotonic() + STOP_S
        while (found := await self._account(name)) is None and time.monotonic() < until_s:
            await asyncio.sleep(LOOK_S)
        return None if found is None else Ended(name, state_of(found, None), *_exit(found))

    async def started_s(self) -> float:
        """Return 0: Grid Engine keeps its state on disk."""
        return 0.0

    async def _account(self, name: str) -> Accounted | None:
        try:
            records = text_output.accounted(await self.calls(commands.accounting(name)))
        except ManagerRefused:
            return None  # not in the accounting (yet)
        return records[-1] if records and records[-1].over else None

    # ---- acting -----------------------------------------------------------------------------------------------------

    async def place(self, name: str, nodes: Sequence[str], cores: int, mark: str) -> None:
        """Steer a held job to exactly these hosts; `cores` = all slots of a host: exclusive use."""
        said = await self._describe(name)
        asked, queue = asked_exclusive(said, self.site), asked_queue(said, self.site)
        context = {MARK: mark, ASKED: "exclusive" if asked else "shared", QUEUE: queue}
        hosts = [self._hosts[node] for node in nodes if node in self._hosts]
        whole = cores >= min((host.slots for host in hosts), default=self.site.slots)
        where = [f"{one}@{host.name}" for host in hosts for one in host.queues if queue in (ANY, one)]
        if not where or len(hosts) < len(nodes):
            raise ManagerRefused(f"the queue {queue} is not on all of {', '.join(nodes)}")
        await self.calls(commands.place(name, where, self._requests(said, asked or whole), context))

    async def unplace(self, name: str, before: Before, most_nodes: int, mark: str) -> None:
        """Take a steering back: the owner's queue, any host, exclusive if the owner asked for that."""
        said = await self._describe(name)
        requests = self._requests(said, asked_exclusive(said, self.site))
        await self.calls(commands.unplace(name, asked_queue(said, self.site), requests, {MARK: mark}))

    def _requests(self, said: Described, alone: bool) -> dict[str, str]:
        """Return all hard requests if they must change; empty if they are right already."""
        if not self.site.exclusive or has_exclusive(said, self.site) == alone:
            return {}
        return said.requests | {self.site.exclusive: "true" if alone else "false"}

    async def mark(self, names: Sequence[str], text: str) -> None:
        for name in names:
            await self.calls(commands.note(name, {MARK: text}))

    async def release(self, names: Sequence[str]) -> None:
        """Lift our hold, and also the hold of a submission that has not been replaced by ours yet."""
        for name in names:
            said = self._described.get(name) or await self._describe(name)
            if SECURED not in said.context:
                await self.calls(commands.release(name, USER))
            await self.calls(commands.release(name, SYSTEM))

    async def hold(self, name: str) -> None:
        """Keep a waiting job from starting; its owner cannot lift the hold."""
        await self.calls(commands.hold(name, SYSTEM))

    async def give_to_owner(self, name: str, mark: str) -> None:
        await self.calls(commands.note(name, {MARK: mark}))
        await self.calls(commands.hold(name, USER))
        await self.calls(commands.release(name, SYSTEM))

    async def requeue_held(self, name: str) -> None:
        """Stop a run and leave the job in the queue, held. Uses the checkpointing environment: `qmod -rj` can leave the
        run behind (8.1.9), and then counts it as the next one."""
        await self.calls(commands.hold(name, SYSTEM))
        until_s = time.monotonic() + STOP_S
        while (job := await self.job(name)) is not None and job.runs and time.monotonic() < until_s:
            if job.state == "RUNNING":
                await self.calls(commands.suspend(name))
            await asyncio.sleep(LOOK_S)

    async def cancel(self, name: str) -> None:
        await self.calls(commands.cancel(name))

    async def limit(self, name: str, limit_s: float) -> None:
        said = await self._describe(name)
        await self.calls(commands.request(name, said.requests | {"h_rt": f"{max(int(limit_s), 1)}"}))

    async def _secure(self, job: ManagerJob) -> None:
        """Replace the hold of the submission by ours, so that a later hold by the owner is not mistaken for it. This is
        written down last, so after a crash it is done again."""
        mark = read_mark(job.mark)
        ours = (mark is not None and mark.kind == HELD) or (self._all_held and not job.mark)
        if not (job.waits and job.held and ours) or job.partition not in self.site.partitions:
            return
        if SECURED in (said := self._described[job.name]).context:
            return
        try:
            await self.calls(commands.hold(job.name, SYSTEM))
            await self.calls(commands.release(job.name, USER))
            await self.calls(commands.note(job.name, {SECURED: SYSTEM}))
        except ManagerRefused:
            return  # it has gone meanwhile, or the next look tries again
        self._described[job.name] = msgspec.structs.replace(said, context=said.context | {SECURED: SYSTEM})

    async def _describe(self, name: str) -> Described:
        found = _parsed(xml_output.described, await self.calls(commands.describe_job(name)))
        if not found:
            raise ManagerRefused(f"there is no job {name}")
        self._described[name] = found[0]
        return found[0]


def ended_as(last: ManagerJob, found: Accounted) -> ManagerJob:
    """Return the job as last seen, with its end. A job that came and went between two looks ran where it was sent."""
    status, signal = _exit(found)
    return msgspec.structs.replace(
        last,
        state=state_of(found, last.limit_s),
        held=False,
        exit_status=status,
        exit_signal=signal,
        nodes=last.nodes or (last.required_nodes if found.start_s else ()),
        start_s=found.start_s or last.start_s,
        end_s=found.end_s,
    )


def state_of(found: Accounted, limit_s: float | None) -> str:
    """Return the state in the back end's words. Grid Engine reports limits of time, processor time and memory alike:
    the run time tells them apart. None: the time limit is not known."""
    if found.failed in (0, 100) and found.exit_status == 0:
        return "COMPLETED"
    if found.failed != text_output.REACHED_LIMIT:
        return "FAILED"
    return "TIMEOUT" if limit_s is None or found.end_s - found.start_s >= limit_s - 1 else "FAILED"


def _exit(found: Accounted) -> tuple[int | None, int | None]:
    """Return exit status and signal: a status above 128 is the shell's code for a signal."""
    if found.exit_status > 128:
        return None, found.exit_status - 128
    return found.exit_status, None


def _parsed(read: Callable[..., T], *arguments: object) -> T:
    """Read a document; raise ManagerAway if it cannot be parsed."""
    try:
        return read(*arguments)
    except ValueError as error:
        raise ManagerAway(str(error)) from error
