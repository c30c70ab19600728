"""The channel from the daemons of the nodes, at the controller: [nodes] of a site file, the listener, and what a report
becomes: samples go to the telemetry, runs become what the core learns of programs. A run that was started for its
curves is stepped through the ways of the cache by its nodes, as the controller orders.

A report says only what was measured. Who owns the job, what it is called, where it ran and how it ended say the manager
and the core; a run that they do not know on that node is not believed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

import msgspec

from cohabit.agent.profiling.episodes import Episode, find_curves
from cohabit.app.steer.cluster_telemetry import ClusterTelemetry
from cohabit.app.steer.lessons import Ran, taught_by, unfit
from cohabit.app.steer.switch import read_part
from cohabit.backend.protocol import DONE
from cohabit.backend.steered.backend import SteeredBackend
from cohabit.backend.steered.contract import ManagerAway, ManagerRefused
from cohabit.backend.steered.shapes import STATUS, ManagerJob
from cohabit.backend.steered.translate import job_of
from cohabit.live.api.metrics import Metrics
from cohabit.live.controller.controller import Controller
from cohabit.live.controller.measuring import CURVE, at_scale
from cohabit.live.nodes.door import NodeDoor
from cohabit.live.peers.keys import PairKeys, read_keys, write_new_key
from cohabit.live.peers.origins import NoteRefusal
from cohabit.live.peers.server import PeerServer
from cohabit.model.cluster import Cluster, hardware_key
from cohabit.model.command import StartJob
from cohabit.model.errors import InputError
from cohabit.model.event import ProfileLearned
from cohabit.model.node_report import EndedRun, NodeMeters, Report, is_node, lacks
from cohabit.model.profile import ScaleProfile

LISTEN = "127.0.0.1:7073"
SUFFIX = ".key"
WAITING_MOST = 1024  # runs that the controller has heard of and not looked up
PATIENCE_S, AGAIN_S = 120.0, 1.0  # a manager may take so long to say that a job is over
LATER_S = 15.0  # a node may have seen the run so much longer than the manager says
REMEMBERED = 4096
AT_ONCE = 4  # runs looked up: one that the manager is slow to end delays no other
log = logging.getLogger(__name__)


class NodesTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[nodes]"""

    listen: str = LISTEN  # where the controller hears the daemons
    keys: str = "node-keys"  # a folder with a file NODE.key for every node


class NodeKeys:
    """[nodes] of one site file. Keys are read once, before a controller gives up root's rights."""

    def __init__(self, table: NodesTable, folder: Path, where: str) -> None:
        host, colon, port = table.listen.rpartition(":")
        if not colon or not host or not port.isdigit() or not 0 < int(port) <= 65535:
            raise InputError(f"listen = {table.listen!r}", f"{where}: nodes", "write HOST:PORT")
        self.host, self.port, self.folder = host, int(port), folder / table.keys

    def file(self, node: str) -> Path:
        """Return the path of a node's key."""
        if not is_node(node):
            raise InputError(f"{node!r} is not the name of a node", "nodes", "give the name the manager has for it")
        return self.folder / f"{node}{SUFFIX}"

    @cached_property
    def all(self) -> dict[str, PairKeys]:
        """Return the keys of all nodes; an unusable one is refused."""
        try:
            files = sorted(one for one in self.folder.iterdir() if one.suffix == SUFFIX)
        except FileNotFoundError:
            files = []
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InputError(f"the keys of the nodes cannot be read: {reason}", str(self.folder)) from error
        return {one.stem: read_keys(one) for one in files if is_node(one.stem)}

    def make(self, node: str, new: bool) -> Path:
        """Write a key for a node, and return its file. `new`: replace the key it has."""
        path = self.file(node)
        if path.exists() and not new:
            raise InputError(
                f"node {node} has a key", str(path), "use --new to replace it; the old one is refused then"
            )
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InputError(
                f"cannot be made: {reason}", str(self.folder), "name another folder: [nodes] keys"
            ) from error
        fresh = path.with_name(f".{path.name}.new")
        fresh.unlink(missing_ok=True)
        write_new_key(fresh)
        fresh.replace(path)
        return path


class _Tables(msgspec.Struct, frozen=True):
    """What `cohabit node key` needs of any manager's site file; other tables are ignored."""

    nodes: NodesTable | None = None


def keys_of(path: Path) -> NodeKeys:
    """Return the keys that a site file names."""
    table = read_part(path, _Tables, "docs/node-side.md").nodes
    if table is None:
        raise InputError("has no [nodes]", str(path), "add it: the controller hears no node without it")
    return NodeKeys(table, path.parent.absolute(), str(path))


class NodeChannel:
    """The channel of one controller, from open to close."""

    def __init__(
        self,
        keys: NodeKeys,
        backend: SteeredBackend,
        controller: Controller,
        cluster: Cluster,
        telemetry: ClusterTelemetry | None,
        times_known: bool,
    ) -> None:
        self._names, self._telemetry = backend.found.names, telemetry
        for node in keys.all.keys() - set(self._names):
            log.warning("%s: no steered node is called that", keys.file(node))
        self._orders, self.meters = backend.node_orders, dict[str, NodeMeters]()  # by node, as its daemon last said
        self.runs = RunsHeard(backend, controller, cluster, times_known, self.meters)
        self.door = NodeDoor({name: key for name, key in keys.all.items() if name in self._names}, self.hear)
        self._server = PeerServer(self.door, keys.host, keys.port)
        self._metrics: Metrics | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def count(self, metrics: Metrics, refused: NoteRefusal) -> None:
        """Count reports in these metrics, and write refusals to the audit log."""
        self._metrics, self.door.refused = metrics, refused
        self.door.count_refusal = lambda status: metrics.node_refusals.labels(str(status)).inc()

    async def open(self) -> None:
        """Listen."""
        await self._server.open()
        self._tasks = [asyncio.create_task(self.runs.live()) for _ in range(AT_ONCE)]

    async def close(self) -> None:
        """Stop listening; runs that were not looked up are lost."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.close()

    def hear(self, report: Report) -> bool:
        """Take a report whose origin is checked; False: too busy."""
        if not self.runs.room(len(report.runs)):
            return False
        self._hear_meters(report)
        for run in report.runs:
            self.runs.hear(report.node, run)
        if self._telemetry is not None:
            self._telemetry.sampled(report.node, report.samples)
        if self._metrics is not None:
            self._metrics.node_reports.labels(report.node).inc()
        return True

    def _hear_meters(self, report: Report) -> None:
        """Note what the node can measure; say what it lacks, once for all nodes that lack the same."""
        meters = report.meters or NodeMeters()
        if self.meters.get(report.node) != meters:
            if (lacking := lacks(meters)) and meters not in self.meters.values():
                log.warning("node %s, and others like it: %s (cohabit doctor there)", report.node, "; ".join(lacking))
            self.meters[report.node] = meters

    async def step_ways(self, order: StartJob, expected_s: float) -> bool:
        """Order the curves of a run from its nodes; False: the first of them, which tells for all, cannot tell."""
        first = self._names[min(node for node, _ in order.nodes)]
        if first not in self.meters:
            log.warning("the daemon of node %s has not reported: job %s is not measured there", first, order.job_id)
            return False
        if not (self.meters[first].instructions or self.meters[first].traffic):
            return False  # it has nothing to report: the curves are level at once
        await self._orders.step_ways(order, expected_s)
        return True


class RunsHeard:
    """Runs that daemons have reported, until they are looked up. `times_known`: the controller learns the times of
    exclusive runs from the manager (live/controller/measuring.py); of these a report adds the counters only."""

    def __init__(
        self,
        backend: SteeredBackend,
        controller: Controller,
        cluster: Cluster,
        times_known: bool,
        meters: Mapping[str, NodeMeters],
    ) -> None:
        self._backend, self._controller, self.times_known, self._meters = backend, controller, times_known, meters
        self._groups = [group for group in cluster.groups for _ in range(group.count)]
        self._waiting: asyncio.Queue[tuple[str, EndedRun]] = asyncio.Queue(WAITING_MOST)
        self._heard: dict[tuple[str, str, int], None] = {}

    def room(self, count: int) -> bool:
        """Return whether so many more can wait."""
        return self._waiting.qsize() + count <= WAITING_MOST

    def hear(self, node: str, run: EndedRun) -> None:
        """Queue a run; one that was sent again because an answer was lost counts once."""
        key = (node, run.job, run.ended_us)
        if key in self._heard:
            return
        self._heard[key] = None
        if len(self._heard) > REMEMBERED:
            del self._heard[next(iter(self._heard))]
        self._waiting.put_nowait((node, run))

    async def live(self) -> None:
        """Look up runs until cancelled; a run that fails here harms no other."""
        while True:
            node, run = await self._waiting.get()
            try:
                fact, why = await self.look_up(node, run)
            except Exception:
                log.exception("the report of node %s on job %s was not understood", node, run.job)
                continue
            if why:
                log.warning("node %s reports job %s: %s; nothing is learned from that", node, run.job, why)
            if fact is not None:
                await self._controller.tell(fact)

    async def look_up(self, node: str, run: EndedRun) -> tuple[ProfileLearned | None, str]:
        """Return what the core learns, or why the report is not believed; neither: it teaches nothing."""
        job = await self._over(run.job)
        if job is None:
            return None, f"{self._backend.manager.title} does not say that it is over"
        if STATUS.get(job.state) != DONE:
            return None, ""
        ours = self._backend.names.one(job)
        try:
            record = (await self._controller.view(ours.name)).record
        except InputError:
            return None, ""  # it was never ours to decide
        numbers = [first + more for first, count in record.nodes for more in range(count)]
        number = self._backend.found.names.index(node)
        if number not in numbers:
            return None, "it did not run there"
        if number != min(numbers):
            return None, ""  # the first node tells for all
        ran_s = job.end_s - job.start_s
        if not job.start_s or run.seconds > ran_s + LATER_S:
            return None, f"it saw {run.seconds:.0f} s of a run of {ran_s:.0f} s"
        group, steered = self._groups[number], job_of(ours, self._backend.found.terms)
        whole = job.cpus >= len(numbers) * group.cores
        ended_us, alone = round(job.end_s * 1e6), run.alone and not record.met
        ran = Ran(
            steered.program,
            steered.processes,
            len(numbers),
            group.cores,
            whole,
            alone,
            run.seconds,
            ended_us,
            run.means,
        )
        profile = taught_by(ran, hardware_key(group))
        if profile is None:
            log.info("node %s reports job %s: %s; nothing is learned from that", node, run.job, unfit(ran))
            return None, ""
        owner, measured = steered.profile_owner, profile.scales[0]
        if record.purpose == CURVE:
            measured, why = self._curves_of(node, run, group.ways, measured)
            if why:
                log.warning("curves of %s from job %s on node %s: %s", steered.program, run.job, node, why)
        elif self.times_known and record.exclusive:
            measured = msgspec.structs.replace(measured, time_s=0.0)
        if not (measured.time_s or measured.counters or measured.ipc):
            return None, ""
        return ProfileLearned(profile.program, profile.processes, measured, profile.hardware, owner), ""

    def _curves_of(self, node: str, run: EndedRun, ways: int, measured: ScaleProfile) -> tuple[ScaleProfile, str]:
        """Return the curves of a run that was started for them, and what could not be measured. Its time and its
        counters are those of a run with other ways every few seconds, and are not kept."""
        there = self._meters.get(node, NodeMeters())
        divided = bool(ways and there.ways) and self._backend.node_orders.folder is not None
        episodes = [Episode(one.ways, one.seconds, one.amounts) for one in run.steps]
        amounts = {name.removesuffix("_mean"): value for name, value in run.means.items()}
        found = find_curves(episodes, amounts, 1.0, ways, divided)
        if found.curves is None:
            return ScaleProfile(measured.scale), found.lacks
        return at_scale(measured.scale, found.curves), found.lacks

    async def _over(self, name: str) -> ManagerJob | None:
        """Return the job once the manager says that it has ended; None: it does not say so in time."""
        clock: Callable[[], float] = asyncio.get_running_loop().time
        until_s = clock() + PATIENCE_S
        while True:
            try:
                job = await self._backend.manager.job(name)
                if job is None:
                    return None
                if not (job.runs or job.waits):
                    return job
            except (ManagerAway, ManagerRefused):
                pass
            if clock() > until_s:
                return None
            await asyncio.sleep(AGAIN_S)
