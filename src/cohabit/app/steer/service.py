"""A controller that steers a resource manager, from open to close: its lease, its peers, its callers.

It does not know the manager's commands: Slurm and Grid Engine are handled alike. The lease is renewed only while the
core answers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from cohabit.app.serve.serving import ServeConfig
from cohabit.backend.protocol import Backend
from cohabit.backend.steered.backend import SteeredBackend
from cohabit.backend.steered.contract import ManagerAway, ManagerRefused
from cohabit.backend.steered.holds import is_administrators
from cohabit.backend.steered.lease import read_lease, switch_file, write_lease
from cohabit.core import columns
from cohabit.core.core import SchedulerCore
from cohabit.live.controller.clock import BootClock
from cohabit.live.controller.controller import Controller
from cohabit.live.controller.journal import Journal
from cohabit.live.controller.place import Place, is_there
from cohabit.live.controller.recovery import Restored
from cohabit.live.controller.retention import Retention
from cohabit.live.controller.store_link import StoreLink
from cohabit.live.peers.messages import PeerLinks
from cohabit.live.peers.server import Doorkeeper, PeerServer
from cohabit.model.errors import InputError
from cohabit.model.peer import Message
from cohabit.model.scheme import Scheme
from cohabit.model.units import SECOND
from cohabit.whole_files import replacing

if TYPE_CHECKING:
    from cohabit.app.serve.separation import Held
    from cohabit.app.steer.cluster_telemetry import ClusterTelemetry
    from cohabit.app.steer.node_channel import NodeChannel
    from cohabit.app.steer.threshold import Guard
    from cohabit.live.api.service import Api

STATES = {columns.QUEUED: "queued", columns.STARTING: "starting", columns.RUNNING: "running"}
RENEWALS = 4  # of the lease, per lease duration
log = logging.getLogger(__name__)


class SwitchedOff(Exception):
    """The kill switch was used while this controller was starting."""


class SteeringController(Controller):
    """A controller of a manager's jobs; it passes changes of a job on to the manager.

    `steers`: the back end on the manager; `backend` is that, or what measures its runs."""

    def __init__(
        self,
        journal: Journal,
        restored: Restored,
        clock: BootClock,
        backend: Backend,
        post: Callable[[str, Message], None],
        steers: SteeredBackend,
    ) -> None:
        super().__init__(journal, restored, clock, backend, post)
        self._steers = steers

    async def change(self, job_id: str, limit_us: int | None = None, qos: int | None = None) -> None:
        """Change a job. The manager stops jobs at their limits, so it must get the new limit first."""
        if limit_us is not None and limit_us > 0 and await self.ask(lambda core: job_id in core.state.rows):
            try:
                await self._steers.manager.limit(self._steers.names.theirs(job_id), limit_us / SECOND)
            except (ManagerRefused, ManagerAway) as error:
                raise InputError(f"{self._steers.manager.title}: {error}", f"job {job_id}") from error
        await super().change(job_id, limit_us, qos)

    async def hold(self, job_id: str) -> None:
        """Hold a job in the manager, too: it stays held when it is given back."""
        await super().hold(job_id)
        self._steers.hold_on_purpose(self._members(job_id), held=True)

    async def release(self, job_id: str, operates: bool = True) -> None:
        """Lift a hold; an administrator's in the manager is lifted by operators only."""
        names = self._members(job_id)
        for name in () if operates else names:
            try:
                job = await self._steers.manager.job(self._steers.names.theirs(name))
            except ManagerAway as error:
                raise InputError(f"{self._steers.manager.title}: {error}", f"job {job_id}") from error
            if job is not None and is_administrators(job):
                raise InputError("an administrator holds it", f"job {name}", "ask an administrator to release it")
        await super().release(job_id, operates)
        self._steers.hold_on_purpose(names, held=False)

    def _members(self, job_id: str) -> list[str]:
        """Return the job, or the tasks of an array, as far as they are ours."""
        return [name for name in self._steers.watcher.known if name == job_id or name.startswith(f"{job_id}_")]


def no_output(name: str, uid: int) -> str:
    """Return the output path of a job without a named file: every job submitted through Cohabit names one."""
    return os.devnull


@dataclass(frozen=True)
class LeaseTerms:
    """The lease of one place: the file, its duration, what it covers, and its watchdog."""

    file: Path
    lasts_s: float
    partitions: tuple[str, ...]
    acts_as: int  # the uid that the manager sees
    start_watchdog: Callable[[], Awaitable[object]]

    async def renew(self) -> None:
        """Renew the lease: jobs may be held for its duration from now on."""
        write_lease(self.file, time.time() + self.lasts_s, self.partitions, self.acts_as)
        await self.start_watchdog()


class Neighbours:
    """The peers of one domain: messages to them and from them."""

    def __init__(self, config: ServeConfig, hear: Callable[..., bool], held: Held | None = None) -> None:
        self.contexts = config.contexts() if held is None else held.contexts
        self.peers, self.context = config.peers, self.contexts.client
        self.links = PeerLinks(self.peers, self.context)
        self._coupled, self.port = config.coupling is not None, 0
        self.domain = "" if config.coupling is None else config.coupling.domain
        self.door = Doorkeeper(self.domain, config.peers, hear)
        listener = None if held is None else held.listeners.peers
        self._server = PeerServer(self.door, config.host, config.port, self.contexts.server, listener)

    async def listen(self) -> None:
        """Accept connections of peers."""
        if self._coupled:
            self.port = await self._server.open()

    async def close(self) -> None:
        """Stop receiving and sending messages."""
        await self._server.close()
        await self.links.close()


@dataclass
class Steering:
    """The steering of a manager, from open to close."""

    place: Place
    lease: LeaseTerms
    controller: Controller
    backend: SteeredBackend
    lock: IO[bytes]
    neighbours: Neighbours
    retention: Retention
    store: StoreLink
    api: Api | None = None
    guard: Guard | None = None
    channel: NodeChannel | None = None  # from the daemons of the nodes
    telemetry: ClusterTelemetry | None = None
    switched_off: bool = False
    words: str = ""  # the policy, for people
    changed_scheme: Scheme | None = None  # for mates; the site file has another than at the last start
    _written: tuple[str, dict[str, str]] | None = None  # the policy and the jobs, as last written
    _renewing: asyncio.Task[None] | None = field(default=None, repr=False)
    _removing: asyncio.Task[None] | None = field(default=None, repr=False)
    _telling: asyncio.Task[None] | None = field(default=None, repr=False)

    async def open(self) -> None:
        """Take the lease, recover, steer, listen; SwitchedOff: not that, because the kill switch was used."""
        if switch_file(self.lease.file).exists():
            raise SwitchedOff
        await self.lease.renew()
        await self.neighbours.links.open()
        await self.controller.start()
        if self.changed_scheme is not None:
            await self.controller.set_scheme(self.changed_scheme, from_file=True)
        await self.store.open()
        await self._write_view()
        await self.neighbours.listen()
        if self.guard is not None:
            await self.guard.open()
        if self.api is not None:
            await self.api.open()
        if self.channel is not None:
            await self.channel.open()
        if self.telemetry is not None:
            self._telling = asyncio.create_task(self.telemetry.live())
        self._renewing = asyncio.create_task(self._keep_lease())
        self._removing = asyncio.create_task(self.retention.live())

    async def until_off(self) -> None:
        """Return when the kill switch was used; raise the exception that ended the controller."""
        assert self._renewing is not None
        failed = asyncio.create_task(self.controller.failed())
        done, _ = await asyncio.wait([self._renewing, failed], return_when=asyncio.FIRST_COMPLETED)
        failed.cancel()
        for task in done:
            task.result()

    async def close(self) -> None:
        """Shut down cleanly. The lease runs on: a controller that restarts in time finds held jobs still held."""
        beside = [task for task in (self._renewing, self._removing, self._telling) if task is not None]
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        if self.api is not None:
            await self.api.close()
        if self.channel is not None:
            await self.channel.close()
        if self.guard is not None:
            await self.guard.close()
        await self.store.close()
        await self.controller.stop()
        await self.neighbours.close()
        self.lock.close()

    async def _keep_lease(self) -> None:
        lasts_s = self.lease.lasts_s
        while not self.switched_off:
            await asyncio.sleep(min(lasts_s / RENEWALS, 1.0))
            self.switched_off = switch_file(self.lease.file).exists()
            await self._write_view(only_changed=True)
            lease = read_lease(self.lease.file)
            left_s = 0.0 if lease is None else lease.until_s - time.time()
            if not self.switched_off and left_s < lasts_s * (1 - 1 / RENEWALS):
                await self._write_view()  # the lease is renewed only if the core answers
                await self.lease.renew()
        lease = read_lease(self.lease.file)
        if lease is not None and lease.runs(time.time()):  # a renewal crossed the switch
            write_lease(self.lease.file, 0, lease.partitions, self.lease.acts_as)
        log.warning("detach was used: nothing is steered any more")

    def _meters(self) -> list[dict[str, Any]]:
        """Return what daemons of nodes can measure, as last heard, nodes that are alike together."""
        if self.channel is None:
            return []
        if not self.channel.meters:
            return node_meters(self.place.root)  # of an earlier attach
        alike = Counter(self.channel.meters.values())
        return [{"nodes": count, "meters": msgspec.to_builtins(meters)} for meters, count in alike.items()]

    async def _write_view(self, only_changed: bool = False) -> None:
        """Write the jobs of the core, for `status`."""
        jobs = await self.controller.ask(view_of)
        if only_changed and (self.words, jobs) == self._written:
            return
        self._written = self.words, jobs
        with replacing(self.place.view) as stream:
            took = self.backend.watcher.latency.told()
            about = {
                "at": time.time(),
                "policy": self.words,
                "jobs": jobs,
                "store_away": self.store.away,
                "latency": took,
                "nodes": self._meters(),
            }
            stream.write(msgspec.json.encode(about))


def view_of(core: SchedulerCore) -> dict[str, str]:
    """Return the jobs of a core and their states."""
    jobs = core.state.jobs
    return {name: STATES.get(int(jobs[columns.STATE, row]), "queued") for name, row in core.state.rows.items()}


def our_view(place: Path) -> tuple[float, dict[str, str]]:
    """Return when the controller last wrote its jobs, and the jobs; it writes them at every renewal of its lease."""
    kept = _kept_view(place)
    try:
        return float(kept["at"]), dict(kept["jobs"])
    except (ValueError, KeyError, TypeError):
        return 0.0, {}


def policy_of(place: Path) -> str:
    """Return the policy under which a controller last wrote its jobs; empty: none has."""
    return str(_kept_view(place).get("policy", ""))


def latency(place: Path) -> dict[str, float]:
    """Return what submissions, starts and ends take besides deciding, as the controller last wrote it."""
    found = _kept_view(place).get("latency", {})
    return dict(found) if isinstance(found, dict) else {}


def store_away(place: Path) -> str:
    """Return why the controller could not use its profile store when it last wrote its jobs; empty: it could."""
    return str(_kept_view(place).get("store_away", ""))


def node_meters(place: Path) -> list[dict[str, Any]]:
    """Return what daemons of nodes said they can measure, when the controller last wrote its jobs."""
    found = _kept_view(place).get("nodes", [])
    return list(found) if isinstance(found, list) else []


def _kept_view(place: Path) -> dict[str, Any]:
    view = Place(place).view
    if not is_there(view):
        return {}
    try:
        return msgspec.json.decode(view.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError):
        return {}
