"""The daemon of a node under Slurm or Grid Engine: sets up the keeper of its jobs for this machine and runs it until
stopped.

The usage of a job that had its nodes to itself is reported to the controller. Under Slurm it may become a profile in
the daemon's own store instead, owned by the user Slurm reports for the job. Slurm is asked only if the kernel cannot
tell, in a separate thread, and with a short timeout. Nothing here can stop or delay a job.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from cohabit.agent import local_nodes
from cohabit.agent.node import job_notices
from cohabit.agent.node.cores import Given, from_slurm
from cohabit.agent.node.keeper import Keeper, NodeRun
from cohabit.agent.node.meter import Meter
from cohabit.agent.node.processes import Processes
from cohabit.agent.node.shepherds import Noter, ShepherdProcesses
from cohabit.agent.resctrl.actuator import Actuator
from cohabit.agent.resctrl.bandwidth import ALWAYS
from cohabit.agent.resctrl.files import Files, HostFiles, Mount, find_mount
from cohabit.agent.resctrl.offer import ResctrlOffer, read_offer
from cohabit.agent.topology import Topology, discover
from cohabit.app.steer.lessons import lesson
from cohabit.app.steer.node_reports import NodeReports, controller_at
from cohabit.app.steer.site import NodeTable, SteeredSite
from cohabit.backend.slurm import text_output
from cohabit.backend.slurm.calls import ReadOnly
from cohabit.backend.slurm.commands import list_nodes, show_job
from cohabit.backend.slurm.hostlist import expand, numbers
from cohabit.backend.steered.contract import ManagerAway, ManagerRefused
from cohabit.live.nodes.sender import Controller
from cohabit.model.cluster import NodeGroup, hardware_key
from cohabit.model.errors import InputError
from cohabit.model.node_report import NodeMeters, lacks
from cohabit.model.profile import owner_of, stream_gbs
from cohabit.store.learning import keep
from cohabit.whole_files import replacing

STEP_S, STATUS_S = 0.1, 2.0
ASK_S = 10.0  # timeout of one query to Slurm
SLURM, GRIDENGINE = MANAGERS = "slurm", "gridengine"
STATUS, TRAFFIC = "status.json", "mbm_total_bytes"
WELL = "COMPLETED"
_CPU_IDS = re.compile(r" Nodes=(\S+) CPU_IDs=(\S+) ")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Machine:
    """The machine of the daemon; tests supply their own."""

    topology: Topology
    files: Files
    mount: Callable[[], Mount | None] = find_mount
    processor: str = ""


@dataclass(frozen=True)
class NodeConfig:
    """The settings of the daemon."""

    name: str
    folder: Path = job_notices.FOLDER
    store: str | None = None  # None: nothing is learned
    orders: Path | None = None
    conf: str = ""
    node: NodeTable = field(default_factory=NodeTable)
    controller: Controller | None = None  # None: nothing is reported
    manager: str = SLURM


def this_machine() -> Machine:
    """Return the real machine."""
    return Machine(discover(), HostFiles())


def config_for(
    site: SteeredSite | None,
    name: str,
    folder: Path,
    store: str | None,
    orders: Path | None,
    controller: str = "",
    key: Path | None = None,
    manager: str = SLURM,
) -> NodeConfig:
    """Return the settings, with what the site file says of the manager, its nodes and where the controller hears them.
    `manager`: where there is no site file."""
    manager = manager if site is None else site.word
    if manager not in MANAGERS:
        raise InputError(f"{manager!r} is no manager", "--manager", f"use {' or '.join(MANAGERS)}")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise InputError(f"{name!r} is not the name of a node", "--name", "give the name Slurm has for it")
    keys = None if site is None else site.keys
    if keys is not None:
        controller, key = controller or f"{keys.host}:{keys.port}", key or keys.file(name)
    if key is not None and not controller:
        raise InputError("the controller is not named", "--key", "say where it listens: --controller HOST:PORT")
    heard = controller_at(controller, key) if controller else None
    if heard is not None and store is not None:
        what = "runs are reported to the controller, which keeps what they teach"
        raise InputError(what, "--store", "leave out --store, or [nodes] and --controller")
    if manager == GRIDENGINE and heard is None:
        what = "on a host of Grid Engine runs are only reported to the controller"
        raise InputError(what, "node serve", "give a site file with [nodes], or --key and --controller")
    if site is None:
        return NodeConfig(name, folder, store, orders, controller=heard, manager=manager)
    orders = orders or (Path(site.table.orders) if site.table.orders else None)
    return NodeConfig(name, folder, store, orders, getattr(site.table, "conf", ""), site.node, heard, manager)


def own_name() -> str:
    """Return the name that Slurm usually has for this machine."""
    return socket.gethostname().split(".")[0]


class NodeDaemon:
    """The daemon, from start to stop."""

    def __init__(self, config: NodeConfig, machine: Machine | None = None) -> None:
        machine = machine or this_machine()
        self.config, self.topology = config, machine.topology
        self.place = job_notices.prepare(config.folder, config.name)
        offer = _offer(machine)
        node = local_nodes.divide(machine.topology, local_nodes.MACHINE, offer)[0]
        self._shape = node.ways, node.min_ways
        group = _group(len(machine.topology.cores), *self._shape, config.node)
        self.hardware, self.cores = hardware_key(group), 0  # cores: as Slurm gives them out; 0: it has not said so yet
        self.actuator = Actuator(
            [node],
            lambda text: log.warning("%s", text),
            machine.files,
            machine.mount,
            reach=lambda _, cores: stream_gbs(group, cores),
            processor=machine.processor,
            always=config.node.hold_bandwidth == ALWAYS,
        )
        self._asking = ThreadPoolExecutor(1, "slurm")
        self._answers: dict[str, Future[Given]] = {}
        self.meter = Meter(machine.files)
        ways = min(node.ways, config.node.ways or node.ways) if config.orders is not None else 0
        traffic = offer is not None and TRAFFIC in offer.events
        self.meters = NodeMeters(ways, self.meter.instructions, traffic or self.meter.misses)
        self.keeper = Keeper(
            config.name,
            self.place,
            machine.topology,
            self.actuator,
            self.meter,
            self._cores_by_slurm,
            self._done,
            config.orders,
            ways if self.meters.instructions else 0,
            Processes if config.manager == SLURM else ShepherdProcesses,
        )
        self._noter = None if config.manager == SLURM else Noter(config.name, self.place)
        self.reports = None if config.controller is None else NodeReports(config.name, config.controller, self.meters)
        self.finished, self._status_s, self.discarded = 0, 0.0, Counter[str]()
        if config.manager == SLURM:
            self._asking.submit(self._ask_node)

    def run(self, stopped: Callable[[], bool]) -> None:
        """Call `step` repeatedly. Report errors and continue with the next step."""
        if self.reports is not None:
            self.reports.start()
        while not stopped():
            begun_s = time.monotonic()
            try:
                self.step(time.time())
            except Exception:
                log.exception("this look failed; jobs are not touched by that")
                time.sleep(1.0)
            time.sleep(max(0.01, begun_s + STEP_S - time.monotonic()))
        if self.reports is not None:
            self.reports.stop()
        self._asking.shutdown(wait=True, cancel_futures=True)

    def step(self, now_s: float) -> None:
        """Examine the node once."""
        if self._noter is not None:
            self._noter.step(now_s)
        self.keeper.step(now_s)
        if self.reports is not None:
            self.reports.step(now_s)
        if now_s - self._status_s >= STATUS_S:
            self._status_s = now_s
            with replacing(self.place / STATUS) as stream:
                stream.write(msgspec.json.encode(self.status(now_s)))

    def status(self, now_s: float) -> dict[str, Any]:
        """Return the jobs on this node, for display."""
        jobs = []
        for one in self.keeper.residents.values():
            joins = self.actuator.joins(one.notice.name)
            jobs.append(
                {
                    "job": one.notice.name,
                    "since_s": round(now_s - one.notice.begun_s, 1),
                    "cpus": list(one.given.cpus),
                    "told_by": one.given.source,
                    "group": str(joins[-1].parent) if joins else None,
                    "threads_in_group": len(one.entered),
                    "means": one.meter.means(),
                    "stepped_to": 0 if one.stepping is None else one.stepping.ways,
                }
            )
        return {
            "node": self.config.name,
            "pid": os.getpid(),
            "at": now_s,
            "hardware": self.hardware,
            "jobs": jobs,
            "cores": self.cores or len(self.topology.cores),
            "cores_told_by": "Slurm" if self.cores else "the machine",
            "finished": self.finished,
            "discarded": dict(self.discarded),
            "counts": self.meter.counts,
            "lacks": lacks(self.meters),
            "reports": None if self.reports is None else self.reports.standing(now_s),
        }

    # ---- Slurm ------------------------------------------------------------------------------------------------------

    def _cores_by_slurm(self, number: str) -> Given | None:
        """Ask Slurm in a thread; return None until there is an answer. Grid Engine does not name cores."""
        if self.config.manager != SLURM:
            return Given()
        if number not in self._answers:
            self._answers[number] = self._asking.submit(self._ask_cores, number)
        asked = self._answers[number]
        return self._answers.pop(number).result() if asked.done() else None

    def _ask_cores(self, number: str) -> Given:
        said = _show_job(number, self.config.conf)
        for hosts, ids in _CPU_IDS.findall(said):
            if self.config.name in expand(hosts):
                return from_slurm(numbers(ids), self.topology)
        return Given()

    def _ask_node(self) -> int:
        """Return how many cores Slurm gives out on this node, which may be others than the machine has; profiles are
        named by them, as the controller names them."""
        if not self.cores:
            try:
                found = text_output.nodes(asyncio.run(ReadOnly(self.config.conf, ASK_S)(list_nodes())))
            except (ManagerAway, ManagerRefused):
                found = []
            self.cores = next((one.cpus for one in found if one.name == self.config.name), 0)
            if self.cores:
                self.hardware = hardware_key(_group(self.cores, *self._shape, self.config.node))
            else:
                own = len(self.topology.cores)
                log.warning("Slurm does not say which cores node %s has: the machine's %d count", self.config.name, own)
        return self.cores or len(self.topology.cores)

    # ---- learning ---------------------------------------------------------------------------------------------------

    def _done(self, run: NodeRun) -> None:
        self.finished += 1
        self._answers.pop(run.notice.number, None)
        if self.reports is not None:
            self.reports.ended(run)
            return
        self._asking.submit(self._learn, run)

    def _discard(self, run: NodeRun, why: str) -> None:
        self.discarded[why] += 1
        log.info("what job %s used is discarded: %s", run.notice.number, why)

    def _learn(self, run: NodeRun) -> None:
        """Store the profile for the job's owner, if Slurm says that the job ended well."""
        from cohabit.store.profiles import open_store

        try:
            cores = self._ask_node()
            profile, why = lesson(run, self.hardware, cores)
            if why:
                self._discard(run, why)
            if profile is None or self.config.store is None:
                return
            jobs = text_output.jobs(_show_job(run.notice.number, self.config.conf))
            well = (job for job in jobs if job.state == WELL and str(job.number) == run.notice.number)
            job = next(well, None)
            if job is None or job.user < 0:  # without an owner it would be a profile of all users
                self._discard(run, "Slurm does not say that it ended well")
                return
            with open_store(self.config.store) as store:
                _, why = keep(store, msgspec.structs.replace(profile, owner=owner_of(job.user)))
            if why:
                log.warning("%s has changed (%s): its profile starts again", profile.program, why)
        except Exception as error:  # a lost profile does no harm
            log.warning("what job %s used was not kept: %s", run.notice.number, error)


def read_status(folder: Path, name: str) -> dict[str, Any]:
    """Return the last status that the daemon of a node wrote."""
    path = folder / name / STATUS
    try:
        found: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"no daemon has served node {name}", str(path), "cohabit node serve") from error
    return found | {"alive": _alive(int(found["pid"])), "age_s": round(time.time() - float(found["at"]), 1)}


def _alive(pid: int) -> bool:
    try:
        return b"node" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _offer(machine: Machine) -> ResctrlOffer | None:
    mount = machine.mount()
    if mount is None:
        return None
    try:
        return read_offer(machine.files, mount, machine.processor)
    except OSError:
        return None


def _group(cores: int, ways: int, min_ways: int, said: NodeTable) -> NodeGroup:
    """Describe the node as the controller's site file does, so that profiles get the same hardware name."""
    group = NodeGroup(1, cores, ways=said.ways or ways, min_ways=said.min_ways if said.ways else max(min_ways, 1))
    return replace(group, bandwidth_gbs=tuple((count, gbs) for count, gbs in said.bandwidth_gbs))


def _show_job(number: str, conf: str) -> str:
    try:
        return asyncio.run(ReadOnly(conf, ASK_S)(show_job(number)))
    except (ManagerAway, ManagerRefused):
        return ""
