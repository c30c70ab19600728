"""Steering a cluster under Slurm: the same controller and core, with Slurm as the one who executes; and giving it back.

The lease is renewed only by a controller whose core answers. Two controllers of one place are refused.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np

from cohabit.app.policies import build
from cohabit.app.profiles import profiles_in
from cohabit.app.serving import CLOCK
from cohabit.app.slurm_site import SlurmSite
from cohabit.backend.slurm.backend import Expected, SlurmBackend
from cohabit.backend.slurm.calls import Calls, ReadOnly, SlurmAway, SlurmRefused
from cohabit.backend.slurm.discovery import Discovered, discover
from cohabit.backend.slurm.handback import Handed, hand_back
from cohabit.backend.slurm.lease import read_lease, switch_file, write_lease
from cohabit.backend.slurm.marks import HELD, RUN, read_mark
from cohabit.backend.slurm.reading import JobReader
from cohabit.backend.slurm.watchdog import ensure_watchdog
from cohabit.backend.slurm.watcher import DOWN, DRAINED, UP
from cohabit.core import columns
from cohabit.core import state as core_state
from cohabit.core.core import SchedulerCore
from cohabit.core.protocols import PolicySet
from cohabit.live.clock import Epoch, find_clock
from cohabit.live.controller import Controller
from cohabit.live.journal import Journal, open_journal
from cohabit.live.measuring import stored_facts
from cohabit.live.place_lock import only_one
from cohabit.live.recovery import Restored, Verified, restore, verify
from cohabit.model.cluster import Cluster
from cohabit.model.errors import InputError
from cohabit.model.peer import Message
from cohabit.model.profile import Profile
from cohabit.whole_files import replacing

SETTINGS, VIEW = "slurm settings", "view.json"
STATES = {columns.QUEUED: "queued", columns.STARTING: "starting", columns.RUNNING: "running"}
RENEWALS = 4  # of the lease, in the time it runs
log = logging.getLogger(__name__)


class _Settings(msgspec.Struct, frozen=True):
    """What the core's decisions depend on besides its facts."""

    nodes: tuple[str, ...]
    cpus: tuple[int, ...]
    policy: Any
    node: Any


@dataclass
class SlurmService:
    """A controller that steers Slurm, from open to close."""

    site: SlurmSite
    found: Discovered
    controller: Controller
    backend: SlurmBackend
    lock: IO[bytes]
    switched_off: bool = False
    _renewing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Take the lease, recover, steer."""
        switch_file(self.site.lease).unlink(missing_ok=True)
        self._renew()
        await self.controller.start()
        await self._write_view()
        self._renewing = asyncio.create_task(self._keep_lease())

    async def until_off(self) -> None:
        """Returns when somebody used the kill switch; raises what ended the controller."""
        assert self._renewing is not None
        failed = asyncio.create_task(self.controller.failed())
        done, _ = await asyncio.wait([self._renewing, failed], return_when=asyncio.FIRST_COMPLETED)
        failed.cancel()
        for task in done:
            task.result()

    async def close(self) -> None:
        """End in good order. The lease runs on: who comes back in time finds held jobs held."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        await self.controller.stop()
        self.lock.close()

    async def _keep_lease(self) -> None:
        while not self.switched_off:
            await asyncio.sleep(min(self.site.slurm.lease_s / RENEWALS, 1.0))
            self.switched_off = switch_file(self.site.lease).exists()
            lease = read_lease(self.site.lease)
            left_s = 0.0 if lease is None else lease.until_s - time.time()
            if not self.switched_off and left_s < self.site.slurm.lease_s * (1 - 1 / RENEWALS):
                await self._write_view()  # only a core that answers keeps the lease
                self._renew()
        log.warning("the kill switch was used: nothing is steered any more")

    async def _write_view(self) -> None:
        """What the core has, for `status`."""
        jobs = await self.controller.ask(view_of)
        with replacing(self.site.place / VIEW) as stream:
            stream.write(msgspec.json.encode({"at": time.time(), "jobs": jobs}))

    def _renew(self) -> None:
        slurm = self.site.slurm
        write_lease(self.site.lease, time.time() + slurm.lease_s, self.found.terms.partitions)
        ensure_watchdog(self.site.lease, slurm.conf, slurm.held)


async def open_service(site: SlurmSite) -> SlurmService:
    """Ask Slurm what is there, open the journal, bring the core back."""
    lock = only_one(site.place)
    calls = Calls(site.slurm.conf)
    found = await look_around(site, calls)
    policies = policies_of(site, found)
    journal = open_journal(site.place / "journal.db")
    _same_settings(journal, site, found)
    restored = restore(journal, cluster_of(site, found, policies), policies)
    kept = journal.get(CLOCK)
    clock = find_clock(None if kept is None else msgspec.json.decode(kept, type=Epoch), restored.last_us)
    if not clock.same:
        journal.put({CLOCK: msgspec.json.encode(clock.epoch).decode()})
    slurm = site.slurm
    first = stored_facts(read_profiles(site.profiles)) if site.profiles is not None and restored.fresh else []
    backend = SlurmBackend(
        calls, found, expected_of(restored.core), told_of(restored), slurm.poll_s, slurm.start_within_s, first,
        await _over(journal, restored.core, JobReader(calls)),
    )  # fmt: skip
    controller = Controller(journal, restored, clock, backend, _no_peer)
    return SlurmService(site, found, controller, backend, lock)


async def _over(journal: Journal, core: SchedulerCore, reader: JobReader) -> set[str]:
    """Jobs of Slurm that the journal knows and the core has not: they were given back, or ended, and are not taken
    twice."""
    try:
        names = [job.name for job in await reader.all() if job.held]
    except SlurmAway as error:
        raise InputError(f"Slurm does not answer: {error}", "slurm", "try again when it does") from error
    return journal.known_jobs(names) - core.state.rows.keys()


def read_profiles(path: Path) -> list[Profile]:
    """What is known of programs, from any file of profiles."""
    found, warning = profiles_in(path)
    if warning:
        log.warning("%s", warning)
    return [one.profile for one in found]


async def verify_slurm_journal(site: SlurmSite) -> Verified:
    """Replay all that a controller's journal keeps; it must not be running."""
    with only_one(site.place):
        found = await look_around(site, ReadOnly(site.slurm.conf))
        policies = policies_of(site, found)
        journal = open_journal(site.place / "journal.db")
        try:
            _same_settings(journal, site, found)
            return verify(journal, cluster_of(site, found, policies), policies)
        finally:
            journal.close()


async def look_around(site: SlurmSite, calls: Calls) -> Discovered:
    """The cluster; one sentence where Slurm cannot be asked."""
    slurm = site.slurm
    try:
        return await discover(calls, slurm.partitions, slurm.held == "all", slurm.program)
    except SlurmAway as error:
        fix = "start it, or name its slurm.conf: [slurm] conf = ..."
        raise InputError(f"Slurm does not answer: {error}", "slurm", fix) from error
    except SlurmRefused as error:
        raise InputError(f"Slurm refuses to answer: {error}", "slurm") from error


def policies_of(site: SlurmSite, found: Discovered) -> PolicySet:
    """The policies; cores are never given out twice."""
    policies = build(site.policy, oversubscribe=False)
    if found.whole_nodes_because and not policies.placer.exclusive:
        raise InputError(
            f"policy {site.policy.name} lets jobs share nodes, but {found.whole_nodes_because}", "policy",
            "change Slurm's setting, or use a policy that gives out whole nodes",
        )  # fmt: skip
    return policies


def cluster_of(site: SlurmSite, found: Discovered, policies: PolicySet) -> Cluster:
    """As the core is told of it: shared where the policy shares."""
    node = site.node
    curve = tuple((cores, gbs) for cores, gbs in node.bandwidth_gbs)
    groups = tuple(
        replace(group, ways=node.ways, min_ways=node.min_ways, closids=node.closids, bandwidth_gbs=curve)
        for group in found.cluster.groups
    )
    return replace(found.cluster, groups=groups, sharing="exclusive" if policies.placer.exclusive else "shared")


def expected_of(core: SchedulerCore) -> dict[str, Expected]:
    """The jobs a restored core has."""
    jobs, found = core.state.jobs, {}
    for name, row in core.state.rows.items():
        active = jobs[columns.STATE, row] in (columns.STARTING, columns.RUNNING)
        attempt = core.state.attempts.get(name, 0)
        found[name] = Expected(int(attempt), bool(active), int(jobs[columns.LIMIT, row]))
    return found


def told_of(restored: Restored) -> dict[int, str]:
    """What it was told of its nodes."""
    words = {core_state.UP: UP, core_state.DRAINED: DRAINED, core_state.DOWN: DOWN}
    return {number: words[int(state)] for number, state in enumerate(np.asarray(restored.core.state.node_state))}


# ---- without a controller -------------------------------------------------------------------------------------------


async def give_back(site: SlurmSite, only_if_over: bool) -> Handed | None:
    """Release what waits for us; None: the lease runs, so nothing was done."""
    lease = read_lease(site.lease)
    if only_if_over and lease is not None and lease.runs(time.time()):
        return None
    try:
        partitions = site.slurm.partitions or (() if lease is None else lease.partitions)
        return await hand_back(Calls(site.slurm.conf), partitions, site.slurm.held == "all")
    except SlurmAway as error:
        raise InputError(f"Slurm does not answer: {error}", "slurm", "try again when it does") from error


async def detach(site: SlurmSite) -> Handed:
    """The kill switch: nobody renews the lease, no new job is held, held ones go to plain Slurm now."""
    switch = switch_file(site.lease)
    try:
        switch.parent.mkdir(parents=True, exist_ok=True)
        switch.touch()
    except OSError as error:
        raise InputError(f"cannot be written: {(error.strerror or str(error)).lower()}", str(switch)) from error
    lease = read_lease(site.lease)
    write_lease(site.lease, 0, ("-",) if lease is None else lease.partitions)
    handed = await give_back(site, only_if_over=False)
    assert handed is not None
    return handed


async def status(site: SlurmSite) -> dict[str, Any]:
    """Slurm's view and ours, and where they disagree. Changes nothing."""
    calls = ReadOnly(site.slurm.conf)
    found = await look_around(site, calls)
    jobs = await JobReader(calls).all()
    steered = [job for job in jobs if job.partition in found.terms.partitions]
    marked = {job.name: mark for job in steered if (mark := read_mark(job.mark)) is not None}
    at_s, ours = _our_view(site.place / VIEW)
    theirs = {
        job.name: "running" if job.runs else "held" if job.held else "waiting"
        for job in steered
        if job.waits or job.runs
    }
    disagree = []
    for name, state in ours.items():
        there = theirs.get(name, "gone")
        fits = {"queued": ("held",), "starting": ("held", "waiting", "running"), "running": ("running",)}
        if there not in fits.get(state, (there,)):
            disagree.append({"job": name, "cohabit": state, "slurm": there})
    waiting = [name for name, mark in marked.items() if mark.kind in (HELD, RUN) and theirs.get(name) == "held"]
    disagree += [{"job": name, "cohabit": "unknown", "slurm": "held"} for name in waiting if name not in ours]
    lease = read_lease(site.lease)
    return {
        "slurm": {"version": found.version, "nodes": len(found.names), "partitions": list(found.terms.partitions),
                  "running": sum(one == "running" for one in theirs.values()),
                  "held": sum(one == "held" for one in theirs.values()),
                  "waiting": sum(one == "waiting" for one in theirs.values())},
        "cohabit": {state: sum(one == state for one in ours.values()) for state in STATES.values()},
        "view_age_s": None if not at_s else round(time.time() - at_s, 1),
        "lease_left_s": None if lease is None else max(round(lease.until_s - time.time(), 1), 0.0),
        "switched_off": switch_file(site.lease).exists(),
        "disagreements": disagree,
    }  # fmt: skip


def view_of(core: SchedulerCore) -> dict[str, str]:
    """The jobs a core has and how far they are."""
    jobs = core.state.jobs
    return {name: STATES.get(int(jobs[columns.STATE, row]), "queued") for name, row in core.state.rows.items()}


def _our_view(file: Path) -> tuple[float, dict[str, str]]:
    """When the controller last said what it has, and what; it says so whenever it renews its lease."""
    try:
        kept = msgspec.json.decode(file.read_bytes())
        return float(kept["at"]), dict(kept["jobs"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0, {}


def _no_peer(domain: str, message: Message) -> None:
    """Mates in other domains are not coupled with Slurm yet."""


def _same_settings(journal: Journal, site: SlurmSite, found: Discovered) -> None:
    """A journal can be replayed only under the settings it was written under."""
    now = msgspec.json.encode(_Settings(found.names, found.cpus, site.policy, site.node)).decode()
    kept = journal.get(SETTINGS)
    if kept is None:
        journal.put({SETTINGS: now})
    elif kept != now:
        raise InputError(
            "its jobs were taken on other nodes or under another policy", os.fspath(site.place),
            "`cohabit slurm detach`, then use a new folder (place)",
        )  # fmt: skip
