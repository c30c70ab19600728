"""Build a running controller from settings: a place on disk, this machine's nodes, policies, and its peers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from cohabit.agent.resctrl.bandwidth import ALWAYS, WHEN_FULL
from cohabit.app.scenario.policies import title
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve import machine as machines
from cohabit.app.serve.deciding import Change, Settings, policies_under, settle, verify_own
from cohabit.app.serve.machine import ProfilingConfig, TelemetryConfig
from cohabit.app.serve.schemes import changed_in_file
from cohabit.backend.local.executor import LocalBackend
from cohabit.backend.local.nodes import VirtualNodes
from cohabit.backend.protocol import Backend, Launch
from cohabit.compiled import load_machine_code
from cohabit.core.core import SchedulerCore
from cohabit.core.protocols import Coupling, PolicySet
from cohabit.launcher.settings import MIB
from cohabit.live.api.settings import ApiSettings
from cohabit.live.controller.clock import BootClock, clock_of
from cohabit.live.controller.controller import Controller
from cohabit.live.controller.journal import Journal, open_journal
from cohabit.live.controller.measuring import MeasuringBackend
from cohabit.live.controller.place import Place, find_journal, only_one, open_place
from cohabit.live.controller.records import count_living
from cohabit.live.controller.recovery import Restored, Verified, restore
from cohabit.live.controller.retention import KeepConfig, Retention
from cohabit.live.controller.runs_as import LauncherConfig, RunsAs
from cohabit.live.controller.store_link import StoreLink
from cohabit.live.peers.keys import Contexts, api_context, client_context, server_context
from cohabit.live.peers.messages import Peer, PeerLinks
from cohabit.live.peers.server import Doorkeeper, PeerServer
from cohabit.model.cluster import Cluster, hardware_key
from cohabit.model.command import StartJob
from cohabit.model.event import Event, JobFinished, JobStarted, JobSubmitted
from cohabit.model.job import Job
from cohabit.model.peer import Message
from cohabit.model.units import SECOND

if TYPE_CHECKING:
    from cohabit.app.serve.separation import Held
    from cohabit.live.api.service import Api

LONG_QUEUE = 500  # jobs; a longer queue is worth loading machine code first


@dataclass(frozen=True)
class TlsFiles:
    """Our certificate with its key, and the authority of peers' certificates."""

    certificate: Path
    key: Path
    authority: Path | None = None  # None: it is used only for callers of the API, which show tokens


@dataclass(frozen=True)
class ServeConfig:
    """The settings of a controller. `place` holds everything that must survive: journal, runs, output."""

    place: Path
    nodes: int | str = 1  # a number, "machine" or "l3"
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    coupling: Coupling | None = None  # this domain among others; None: it has no peers
    host: str = "127.0.0.1"  # where peers reach it
    port: int = 0  # 0: any free one
    peers: Mapping[str, Peer] = field(default_factory=dict)
    tls: TlsFiles | None = None
    oversubscribe: bool = False  # jobs may share a core, if the policy lets them share nodes
    hold_bandwidth: str = WHEN_FULL  # when jobs are held to the memory bandwidth they booked
    cache: str = "on"  # whether the cache is divided: on, dry-run (report what would be written) or off
    database: str = ""  # URL of the journal's database; "": a file in the place
    api: ApiSettings | None = None  # None: there is no API
    profiling: ProfilingConfig | None = None  # None: nothing is measured
    telemetry: TelemetryConfig | None = None  # None: this machine's counters are not reported
    launcher: LauncherConfig = field(default_factory=LauncherConfig)
    keep: KeepConfig = field(default_factory=KeepConfig)
    store: str = ""  # of profiles, a file or a URL; "": a file in the place
    without: tuple[str, ...] = ()  # needs of the policy that are given up

    @property
    def policy_words(self) -> str:
        """Return the policy's name for people, with what it runs without."""
        return " ".join([self.policy.name, *(f"without {name}" for name in self.without)])

    @property
    def journal(self) -> Path | str:
        """Return where the journal is, or will be once a controller has opened the place."""
        return self.database or Place(self.place).journal

    def contexts(self) -> Contexts:
        """Read keys and certificates now."""
        tls, api = self.tls, self.api
        files = None if tls is None or tls.authority is None else (tls.certificate, tls.key, tls.authority)
        secure = api is not None and api.host and api.certificate is not None and api.key is not None
        return Contexts(
            None if files is None else client_context(*files),
            None if files is None else server_context(*files),
            api_context(api.certificate, api.key) if secure else None,  # type: ignore[union-attr, arg-type]
        )

    def find_journal(self) -> Path | str:
        """Return where the journal is now, also in a place of an earlier version."""
        return self.database or find_journal(self.place)


@dataclass
class Parts:
    """The parts of a controller before it runs."""

    journal: Journal
    restored: Restored
    clock: BootClock
    backend: Backend
    cluster: Cluster
    policies: PolicySet
    lock: IO[bytes]
    local: LocalBackend  # the back end that runs jobs, inside any wrapper
    changed: Change | None = None  # the site file has other settings than at the last start


class Service:
    """A controller with its peers, from open to close. `hear` and the parts may be wrapped by a subclass.

    `held`: what root opened before this process dropped its privileges.
    """

    def __init__(self, config: ServeConfig, held: Held | None = None) -> None:
        self.config, self.port, self._held = config, 0, held
        self.parts = open_parts(config, held)
        self._contexts = config.contexts() if held is None else held.contexts
        self.links = PeerLinks(config.peers, self._contexts.client)
        self._door = Doorkeeper(self.domain, config.peers, self.hear)
        listener = None if held is None else held.listeners.peers
        self._server = PeerServer(self._door, config.host, config.port, self._contexts.server, listener)
        self._controller: Controller | None = None
        self._telling: asyncio.Task[None] | None = None
        self._retention: Retention | None = None
        self._removing: asyncio.Task[None] | None = None
        self._store: StoreLink | None = None
        self.api: Api | None = None

    @property
    def controller(self) -> Controller:
        """The running controller."""
        assert self._controller is not None, "open it first"
        return self._controller

    @property
    def retention(self) -> Retention:
        """The retention, which removes what is past its retention time."""
        assert self._retention is not None, "open it first"
        return self._retention

    @property
    def store(self) -> StoreLink:
        """The link to the profile store."""
        assert self._store is not None, "open it first"
        return self._store

    @property
    def domain(self) -> str:
        """The name peers use for this domain; empty: it has no peers."""
        return "" if self.config.coupling is None else self.config.coupling.domain

    def hear(self, message: Message) -> bool:
        """Put a peer's message into the inbox; False: the inbox is full."""
        return self.controller.hear(message)

    async def tell(self, fact: Event) -> None:
        """Send a measured event to the core; wait while the inbox is full, as the back end does."""
        await self.controller.tell(fact)

    async def open(self) -> None:
        """Recover, then listen to peers and callers."""
        parts = self.parts
        self._controller = Controller(parts.journal, parts.restored, parts.clock, parts.backend, self.links.post)
        self._retention = Retention(
            self.config.keep,
            parts.journal,
            self.controller,
            parts.clock.now_us,
            Place(self.config.place).audit,
            parts.local.remove_outputs,
        )
        self._store = store_link(self.config, self._controller, parts.cluster)
        if self.config.api is not None:
            self.api = self._make_api(self.config.api)
            self._door.refused = self.api.refused
        if isinstance(parts.backend, MeasuringBackend):
            parts.backend.bind(self.controller.ask)
        await self.links.open()
        scheme = changed_in_file(parts.restored.core, self.config.coupling)
        await self.controller.start()
        if scheme is not None:
            await self.controller.set_scheme(scheme, from_file=True)
        anew = parts.restored.fresh or parts.changed is not None
        for fact in machines.facts_of(self.config.profiling) if anew else ():
            await self.tell(fact)
        await self.store.open()
        if self.config.telemetry is not None:
            reporting = machines.report_telemetry(
                self.config.telemetry, parts.cluster.nodes, self.tell, parts.clock.now_us
            )
            self._telling = asyncio.create_task(reporting)
        if self.config.coupling is not None:
            self.port = await self._server.open()
        if self.api is not None:
            await self.api.open()
        self._removing = asyncio.create_task(self.retention.live())
        _tell_systemd("READY=1")

    def _make_api(self, settings: ApiSettings) -> Api:
        from cohabit.live.api.parts import Living
        from cohabit.live.api.service import Api

        parts, place = self.parts, self.config.place
        runs_as = RunsAs(self._held is not None, self.config.launcher, os.geteuid())
        living = Living(
            self.controller,
            parts.journal,
            parts.clock,
            parts.cluster,
            parts.policies,
            place,
            self.domain,
            parts.local.output_path,
            parts.local.link.open_output,
            runs_as,
            self.retention,
            self.config.policy_words or title(parts.policies.names),
            self._store,
        )
        listeners = None if self._held is None else self._held.listeners
        return Api(living, settings, parts.restored, listeners, self._contexts.api)

    async def submit_new(self, jobs: Sequence[tuple[Job, Launch]]) -> int:
        """Submit the jobs that are not known yet; return their number."""
        names = [job.job_id for job, _ in jobs]
        known = await self.controller.ask(lambda _: self.parts.journal.known_jobs(names))
        for job, launch in jobs:
            if job.job_id not in known:
                await self.controller.submit(job, launch)
        return len(set(names) - known)

    async def standing(self, jobs: Sequence[tuple[Job, Launch]]) -> dict[str, str]:
        """Return the state of each of these jobs: queued, running, or how it ended."""
        names = [job.job_id for job, _ in jobs]
        states, words = await self.controller.states(names), {"held": "queued", "starting": "running"}
        return {name: words.get(states.get(name, "queued"), states.get(name, "queued")) for name in names}

    async def failed(self) -> None:
        """Raise the exception if the controller cannot go on, or no job can be run any more; wait until then."""
        ends = [asyncio.create_task(one()) for one in (self.controller.failed, self.parts.local.failed)]
        done, others = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        for task in done:
            task.result()

    async def close(self) -> None:
        """Shut down cleanly; jobs go on."""
        _tell_systemd("STOPPING=1")
        beside = [task for task in (self._telling, self._removing) if task is not None]
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        if self.api is not None:
            await self.api.close()
        await self._server.close()
        if self._store is not None:
            await self._store.close()
        await self.controller.stop()
        await self.links.close()
        self.parts.lock.close()


def store_link(config: ServeConfig, controller: Controller, cluster: Cluster) -> StoreLink:
    """Return the controller's link to the profile store of its settings."""
    place = Place(config.place)
    return StoreLink(config.store or place.profiles, place.learned, controller, set(map(hardware_key, cluster.groups)))


def open_parts(config: ServeConfig, held: Held | None = None) -> Parts:
    """Open the journal, find the clock, restore the core. Refuse a second controller of one place."""
    lock = only_one(open_place(config.place)) if held is None else held.lock
    nodes = VirtualNodes(config.nodes)
    journal = open_journal(config.journal)
    if journal.read(count_living) > LONG_QUEUE:
        load_machine_code()
    (cluster, policies), changed = settle(journal, settings_of(config), nodes, config.place)
    _load_kernels(cluster, policies)
    restored = restore(journal, cluster, policies)
    clock = clock_of(journal, restored.last_us)
    local = LocalBackend(
        config.place,
        nodes,
        clock.since_boot_us,
        config.oversubscribe,
        config.cache,
        reach=machines.reach_of(cluster),
        begun=None if held is None else held.begun,
        output_most=config.launcher.max_output_mb * MIB,
        always=config.hold_bandwidth == ALWAYS,
    )
    backend = machines.measured(local, policies, config.profiling)
    return Parts(journal, restored, clock, backend, cluster, policies, lock, local, changed)


def verify_journal(config: ServeConfig) -> Verified:
    """Replay the whole journal of a controller, each stretch under its own settings; it must not be running."""
    with only_one(open_place(config.place)):
        journal = open_journal(config.journal)
        try:
            return verify_own(journal)
        finally:
            journal.close()


def settings_of(config: ServeConfig) -> Settings:
    """Return what the core decides by besides its events."""
    return Settings(config.nodes, config.policy, config.coupling, config.oversubscribe)


def policies_of(config: ServeConfig) -> PolicySet:
    """Return the policies, with this domain's scheme for mates elsewhere."""
    return policies_under(settings_of(config))


def _tell_systemd(word: str) -> None:
    """Notify systemd, for units of Type=notify; does nothing if the variable is not set."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if path:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.sendto(word.encode(), "\0" + path[1:] if path.startswith("@") else path)


def _load_kernels(cluster: Cluster, policies: PolicySet) -> None:
    """Let a temporary core start and end jobs, so that the first real start does not wait for compilation."""
    core = SchedulerCore(cluster, policies)
    jobs = [Job("first", limit_us=SECOND), Job("second", limit_us=SECOND, nodes=cluster.nodes)]
    for order in core.step(0, [JobSubmitted(job) for job in jobs]):
        if isinstance(order, StartJob):
            core.step(1, [JobStarted(order.job_id, order.attempt)])
            core.step(2, [JobFinished(order.job_id, order.attempt)])
