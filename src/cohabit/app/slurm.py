"""Steering a cluster under Slurm: the same controller and core, with Slurm as the one who executes; and giving it back.

The lease is renewed only by a controller whose core answers. Two controllers of one place are refused.
"""

from __future__ import annotations

import getpass
import logging
import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from cohabit.app.policies import build, title
from cohabit.app.profiles import profiles_in
from cohabit.app.serving import CLOCK
from cohabit.app.slurm_service import (
    STATES,
    LeaseTerms,
    Neighbours,
    Steering,
    SteeringController,
    no_output,
    our_view,
)
from cohabit.app.slurm_site import SlurmSite
from cohabit.app.slurm_submission import SlurmTaking
from cohabit.backend.gridengine.names import RememberedNames
from cohabit.backend.slurm.backend import Expected, SlurmBackend
from cohabit.backend.slurm.calls import Calls, ReadOnly, SlurmAway, SlurmRefused
from cohabit.backend.slurm.discovery import Discovered, discover
from cohabit.backend.slurm.fuses import Fuses, fuse_file
from cohabit.backend.slurm.lease import read_lease, switch_file
from cohabit.backend.slurm.marks import HELD, RUN, read_mark
from cohabit.backend.slurm.naming import Names
from cohabit.backend.slurm.rest import Rest, RestManager
from cohabit.backend.slurm.steered import Manager, SlurmManager
from cohabit.backend.slurm.translate import Terms
from cohabit.backend.slurm.watchdog import ensure_watchdog
from cohabit.backend.slurm.watcher import DOWN, DRAINED, UP
from cohabit.core import columns
from cohabit.core import state as core_state
from cohabit.core.core import SchedulerCore
from cohabit.core.protocols import PolicySet
from cohabit.live.api.parts import Living
from cohabit.live.api.service import Api
from cohabit.live.clock import Epoch, find_clock
from cohabit.live.journal import Journal, open_journal
from cohabit.live.measuring import stored_facts
from cohabit.live.place_lock import only_one
from cohabit.live.recovery import Restored, Verified, restore, verify
from cohabit.model.cluster import Cluster
from cohabit.model.errors import InputError
from cohabit.model.profile import Profile

SETTINGS, WATCHDOG = "slurm settings", "cohabit.backend.slurm.watchdog"
log = logging.getLogger(__name__)


class _Settings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the core's decisions depend on besides its facts."""

    nodes: tuple[str, ...]
    cpus: tuple[int, ...]
    policy: Any
    node: Any
    coupling: Any = None


@dataclass
class SlurmService(Steering):
    """A controller that steers Slurm."""

    site: SlurmSite = field(kw_only=True)
    found: Discovered = field(kw_only=True)

    async def close(self) -> None:
        """End in good order, and hang up."""
        await super().close()
        if isinstance(self.backend.manager, RestManager):
            await self.backend.manager.rest.close()


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
    slurm, manager = site.slurm, manager_of(site, calls)
    first = stored_facts(read_profiles(site.profiles)) if site.profiles is not None and restored.fresh else []
    backend = SlurmBackend(
        manager, found, expected_of(restored.core), told_of(restored), slurm.poll_s, slurm.start_within_s, first,
        await over_of(journal, restored.core, manager, found.terms), Fuses(fuse_file(site.lease), clock.since_boot_us),
        slurm.mates_within_s,
    )  # fmt: skip
    backend.names = RememberedNames(found.terms, site.place / "mates.json", restored.core.state.rows)
    backend.orders = Path(slurm.orders) if slurm.orders else None
    neighbours = Neighbours(site.config, lambda message: controller.hear(message))
    controller = SteeringController(journal, restored, clock, backend, neighbours.links.post)
    for row in restored.core.state.rows.values():
        site.groups.remember(restored.core.state.spec(row).mates)
    api = None
    if site.config.api is not None:
        cluster = cluster_of(site, found, policies)
        living = Living(
            controller, journal, clock, cluster, policies, site.place, site.domain, no_output, title(policies.names)
        )
        api = Api(living, site.config.api, restored)
        api.parts.taking = SlurmTaking(api.parts, calls, backend, site.groups.remember, site.domain)
    lease = LeaseTerms(
        site.lease, slurm.lease_s, found.terms.partitions,
        lambda: ensure_watchdog(site.lease, WATCHDOG, slurm.conf, slurm.held),
    )  # fmt: skip
    return SlurmService(site.place, lease, controller, backend, lock, neighbours, api, site=site, found=found)


def manager_of(site: SlurmSite, calls: Calls) -> SlurmManager:
    """Slurm's commands, or slurmrestd before them."""
    if not site.slurm.rest:
        return SlurmManager(calls)
    return RestManager(calls, Rest(site.slurm.rest, site.rest_token, getpass.getuser()))


async def over_of(journal: Journal, core: SchedulerCore, manager: Manager, terms: Terms) -> set[str]:
    """Jobs of the manager that the journal knows and the core has not: they were given back, or ended, and are not
    taken twice."""
    try:
        names = [name for name, job in Names(terms).ours(await manager.jobs()).items() if job.held]
    except SlurmAway as error:
        raise InputError(f"{manager.title} does not answer: {error}", "slurm", "try again when it does") from error
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
        found = await discover(calls, slurm.partitions, slurm.held == "all", slurm.program)
        return replace(found, terms=found.terms._replace(domain=site.domain, group_of=site.groups.find))
    except SlurmAway as error:
        fix = "start it, or name its slurm.conf: [slurm] conf = ..."
        raise InputError(f"Slurm does not answer: {error}", "slurm", fix) from error
    except SlurmRefused as error:
        raise InputError(f"Slurm refuses to answer: {error}", "slurm") from error


def policies_of(site: SlurmSite, found: Discovered) -> PolicySet:
    """The policies; cores are never given out twice."""
    policies = replace(build(site.policy, oversubscribe=False), mates=site.config.coupling)
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
        stands = jobs[columns.STATE, row]
        active = stands in (columns.STARTING, columns.RUNNING)
        attempt = core.state.attempts.get(name, 0)
        confirmed = bool(stands == columns.RUNNING)
        found[name] = Expected(int(attempt), bool(active), int(jobs[columns.LIMIT, row]), confirmed)
    return found


def told_of(restored: Restored) -> dict[int, str]:
    """What it was told of its nodes."""
    words = {core_state.UP: UP, core_state.DRAINED: DRAINED, core_state.DOWN: DOWN}
    return {number: words[int(state)] for number, state in enumerate(np.asarray(restored.core.state.node_state))}


# ---- without a controller -------------------------------------------------------------------------------------------


async def status(site: SlurmSite) -> dict[str, Any]:
    """Slurm's view and ours, and where they disagree. Changes nothing."""
    calls = ReadOnly(site.slurm.conf)
    found = await look_around(site, calls)
    jobs = Names(found.terms).ours(await SlurmManager(calls).jobs())
    steered = [job for job in jobs.values() if job.partition in found.terms.partitions]
    marked = {job.name: mark for job in steered if (mark := read_mark(job.mark)) is not None}
    at_s, ours = our_view(site.place)
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


def _same_settings(journal: Journal, site: SlurmSite, found: Discovered) -> None:
    """A journal can be replayed only under the settings it was written under."""
    now = msgspec.json.encode(_Settings(found.names, found.cpus, site.policy, site.node, site.config.coupling)).decode()
    kept = journal.get(SETTINGS)
    if kept is None:
        journal.put({SETTINGS: now})
    elif kept != now:
        raise InputError(
            "its jobs were taken on other nodes or under another policy", os.fspath(site.place),
            "`cohabit slurm detach`, then use a new folder (place)",
        )  # fmt: skip
