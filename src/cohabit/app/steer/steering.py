"""Steer a cluster under a resource manager: the same controller and core, with the manager as the back end.

It does not know the manager's commands: the site says how to query it (site.py). The lease is renewed only
while the core answers. A second controller of one place is refused.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cohabit.app.doctor.needs import DISPENSABLE, left_out, offers_of_cluster, refuse_unmet, rows_of
from cohabit.app.measure.profiles import profiles_in
from cohabit.app.scenario.policies import title
from cohabit.app.serve.deciding import Change
from cohabit.app.serve.schemes import changed_in_file
from cohabit.app.serve.serving import store_link
from cohabit.app.steer.canaries import CanaryBackend, of_backend, refuse_mismatch
from cohabit.app.steer.cluster_telemetry import ClusterTelemetry, source_of
from cohabit.app.steer.deciding import cluster_of, key_of, policies_of, settle
from cohabit.app.steer.node_channel import NodeChannel
from cohabit.app.steer.reloading import reload
from cohabit.app.steer.service import LeaseTerms, Neighbours, Steering, SteeringController, no_output
from cohabit.app.steer.site import Around, SteeredSite
from cohabit.app.steer.status import jobs_of
from cohabit.app.steer.submission import SteeredTaking
from cohabit.app.steer.threshold import Guard, has_threshold
from cohabit.backend.launcher_link import LauncherGone, LauncherLink, LauncherRefused, own_settings
from cohabit.backend.steered.backend import Expected, SteeredBackend
from cohabit.backend.steered.fuses import Fuses
from cohabit.backend.steered.lease import fuse_file, lift_switch, may_hold, read_lease
from cohabit.backend.steered.naming import Names, RememberedNames
from cohabit.backend.steered.node_facts import NodeFact
from cohabit.backend.steered.shapes import Discovered, ManagerJob
from cohabit.backend.steered.watchdog import lives, start_watchdog
from cohabit.core import columns
from cohabit.core import state as core_state
from cohabit.core.core import SchedulerCore
from cohabit.live.api.parts import Living
from cohabit.live.api.service import Api
from cohabit.live.api.settings import ApiSettings
from cohabit.live.controller.clock import BootClock, clock_of
from cohabit.live.controller.journal import Journal, open_journal
from cohabit.live.controller.measuring import MeasuringBackend, stored_facts
from cohabit.live.controller.meters import ManagerMeter
from cohabit.live.controller.place import Place, only_one, open_place
from cohabit.live.controller.recovery import Restored, restore
from cohabit.live.controller.retention import Retention
from cohabit.live.controller.runs_as import RunsAs
from cohabit.model.cluster import Cluster
from cohabit.model.event import Event, JobSubmitted, NodeDown, NodeDrained, NodeUp, NodeUsed
from cohabit.model.job import GAIN, Job
from cohabit.model.profile import Profile
from cohabit.model.units import SECOND

if TYPE_CHECKING:
    from cohabit.app.serve.separation import Held

log = logging.getLogger(__name__)


@dataclass
class Service(Steering):
    """A controller that steers a manager."""

    site: SteeredSite = field(kw_only=True)
    around: Around = field(kw_only=True)
    link: LauncherLink = field(kw_only=True)
    measuring: MeasuringBackend = field(kw_only=True)
    settings: str = field(kw_only=True)  # of the core, as the journal keeps them
    reloads: asyncio.Lock = field(default_factory=asyncio.Lock)  # one at a time
    changed: Change | None = None  # the site file has other settings than at the last attach

    async def until_off(self) -> None:
        """Wait for the kill switch; raise LauncherGone if the launcher ends, because nothing is steered without it."""
        off = asyncio.create_task(super().until_off())
        gone = asyncio.create_task(self.link.failed.wait())
        done, waiting = await asyncio.wait([off, gone], return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        if gone in done:
            raise LauncherGone("the launcher, which runs the manager's commands, has ended")
        off.result()

    async def close(self) -> None:
        """Shut down cleanly and close the connection."""
        await super().close()
        if self.around.hang_up is not None:
            await self.around.hang_up()
        await self.link.close()


async def open_service(site: SteeredSite, held: Held | None = None, asked_s: float | None = None) -> Service:
    """Query the manager, open the journal, restore the core. `asked_s`: when it was asked for (None: now); a kill
    switch that was used since then is obeyed."""
    asked_s = time.time() if asked_s is None else asked_s
    place, table = open_place(site.place), site.table
    lock = only_one(place) if held is None else held.lock
    lift_switch(site.lease, asked_s)
    link = LauncherLink(own_settings(place.root) | {"runs": False}, _hear, None if held is None else held.begun)
    await link.open()
    around = await site.look_around(link=link if held is not None else None)
    found = around.found
    words = given_up(site, found)
    journal = open_journal(place.journal)
    coupling, found, changed = settle(journal, site, found)
    policies = policies_of(site, found, coupling)
    found = replace(found, shares_cores=getattr(policies.placer, "shares_cores", False))
    cluster = cluster_of(site.node, found, policies)
    restored = restore(journal, cluster, policies)
    get_ready(site, found)
    clock = clock_of(journal, restored.last_us)
    anew = restored.fresh or changed is not None
    first = stored_facts(read_profiles(site.profiles)) if site.profiles is not None and anew else []
    if site.tells_holds:
        found = replace(found, terms=found.terms._replace(since_s=_since_s(journal, site, found)))
    backend = await _backend(journal, site, around, found, restored, clock, first)
    neighbours = Neighbours(site.config, lambda message: controller.hear(message), held)
    canaries = of_backend(backend, around.hand_in, site.telemetry)
    measuring = MeasuringBackend(canaries, ManagerMeter(backend.lasted), period_s=0, sees_all=False)
    measuring.learns = _is_measured(restored)
    controller = SteeringController(journal, restored, clock, measuring, neighbours.links.post, backend)
    measuring.bind(controller.ask)
    store = store_link(site.config, controller, cluster)
    for row in restored.core.state.rows.values():
        site.groups.remember(restored.core.state.spec(row).mates)
    retention = Retention(
        site.config.keep, journal, controller, clock.now_us, place.audit, remove_outputs=None, numbered=False
    )
    api = None
    if site.config.api is not None:
        living = Living(
            controller,
            journal,
            clock,
            cluster,
            policies,
            site.place,
            site.domain,
            no_output,
            link.open_output,
            RunsAs(held is not None, site.config.launcher, os.geteuid()),
            retention,
            title(policies.names) + words,
            store,
        )
        api = _api(living, site, site.config.api, around, backend, restored, neighbours, held)
    start = partial(_ensure_watchdog, site, around, None if held is None else link)
    lease = LeaseTerms(site.lease, table.lease_s, found.terms.partitions, around.acts_as, start)
    guard = None
    if has_threshold(site.lease, site.groups, site.domain, around.script):
        guard = _guard(site, around, backend, controller, neighbours, held)
        if api is not None:
            guard.keep_refusals(api.refused)
    parts = (place, lease, controller, backend, lock, neighbours, retention, store, api, guard)
    settings = journal.get(key_of(site.word)) or ""
    service = Service(
        *parts, site=site, around=around, link=link, measuring=measuring, settings=settings, changed=changed
    )
    service.words = site.policy.name + words
    if api is not None:
        api.parts.reload = partial(reload, service)
    _hear_nodes(service, cluster, _is_measured(restored), clock.now_us)
    measuring.nodes = service.channel
    if isinstance(canaries, CanaryBackend) and service.telemetry is not None:
        canaries.bind(controller.ask, service.telemetry)
    service.changed_scheme = changed_in_file(restored.core, site.config.coupling)
    return service


async def _backend(
    journal: Journal,
    site: SteeredSite,
    around: Around,
    found: Discovered,
    restored: Restored,
    clock: BootClock,
    first: Sequence[Event],
) -> SteeredBackend:
    """Return the back end on the manager, with the jobs and nodes of the restored core. `first`: its first events."""
    jobs = Names(around.found.terms).ours(await jobs_of(site, around))
    backend = SteeredBackend(
        around.manager,
        found,
        expected_of(restored.core),
        told_of(restored.core),
        site.table.poll_s,
        site.table.start_within_s,
        first,
        _over(journal, restored.core, jobs),
        Fuses(fuse_file(site.lease), clock.since_boot_us),
        site.mates_within_s,
        RememberedNames(found.terms, Place(site.place).mates, restored.core.state.rows),
        around.orders,
        lambda: may_hold(site.lease, time.time()),
    )
    backend.watcher.closings.recall(restored.core.state.windows)
    backend.retaking.announce(jobs[name] for name in restored.core.state.rows if name in jobs)
    return backend


def _hear_nodes(service: Service, cluster: Cluster, times_known: bool, now_us: Callable[[], int]) -> None:
    """Let the controller hear telemetry and node daemons as the site file says."""
    site, controller, backend = service.site, service.controller, service.backend
    if site.telemetry is not None:
        source, names = source_of(site.telemetry, site.folder), backend.found.names
        service.telemetry = ClusterTelemetry(site.telemetry, names, source, controller.tell, now_us)
    if site.keys is not None:
        service.channel = NodeChannel(site.keys, backend, controller, cluster, service.telemetry, times_known)
        if service.api is not None:
            service.channel.count(service.api.parts.metrics, service.api.refused)


def _is_measured(restored: Restored) -> bool:
    """Return whether the times of runs are learned: policies that give whole nodes to all jobs use no profiles."""
    return not restored.core.policies.placer.exclusive


def _guard(
    site: SteeredSite,
    around: Around,
    backend: SteeredBackend,
    controller: SteeringController,
    neighbours: Neighbours,
    held: Held | None,
) -> Guard:
    """Return the guard of the threshold at which programs of mates wait for each other."""
    listener, file = None if held is None else held.threshold, Place(site.place).threshold
    return Guard(file, site.lease, site.groups, backend, controller, neighbours, around.script, listener)


def _api(
    living: Living,
    site: SteeredSite,
    settings: ApiSettings,
    around: Around,
    backend: SteeredBackend,
    restored: Restored,
    neighbours: Neighbours,
    held: Held | None,
) -> Api:
    """Return the API, which hands submissions in to the manager."""
    listeners = None if held is None else held.listeners
    api = Api(living, settings, restored, listeners, neighbours.contexts.api)
    api.parts.taking = SteeredTaking(api.parts, around.hand_in, backend, site, around.acts_as)
    neighbours.door.refused = api.refused
    return api


def given_up(site: SteeredSite, found: Discovered, say: Callable[[str], None] = log.warning) -> str:
    """Return what the policy runs without, in words, and say why; refuse one whose needs this cluster cannot meet."""
    policies = policies_of(site, found, None)
    refuse_mismatch(site, policies)
    rows = rows_of(policies, offers_of_cluster(site, found), site.config.without)
    refuse_unmet(rows, site.policy.name, f"{site.word} site")
    for row in rows:
        if row.state == DISPENSABLE:
            say(f"{row.found}, so {row.without}; to change that: {row.remedy}")
    return "".join(f" without {name}" for name in left_out(rows))


async def _ensure_watchdog(site: SteeredSite, around: Around, link: LauncherLink | None) -> None:
    """Start a watchdog unless one is running. `link`: a launcher with other rights starts it."""
    if lives(site.lease):
        return
    try:
        start_watchdog(site.lease, around.watchdog, -1 if link is None else await link.ask("watchdog"))
    except LauncherRefused as error:  # it was started, or its launcher is just ending
        log.info("no watchdog was started: %s", error)


def _hear(report: dict[str, Any]) -> None:
    """Ignore reports: a launcher that runs no jobs has little to report."""
    if report.get("event") == "said":
        log.warning("%s", report["text"])


def get_ready(site: SteeredSite, found: Discovered) -> None:
    """Decide once about a dummy job, so that kernels are compiled before the first real decision.

    Otherwise a short lease would end during that decision.
    """
    policies = policies_of(site, found, site.config.coupling)
    core = SchedulerCore(cluster_of(site.node, found, policies), policies)
    core.step(0, [JobSubmitted(Job("1", SECOND, partition=found.terms.partitions[0]))])


def _over(journal: Journal, core: SchedulerCore, jobs: Mapping[str, ManagerJob]) -> set[str]:
    """Return held jobs of the manager that the journal knows and the core does not.

    They ended, or were given back by an earlier version, and are not taken twice.
    """
    return journal.known_jobs([name for name, job in jobs.items() if job.held]) - core.state.rows.keys()


def read_profiles(path: Path) -> list[Profile]:
    """Return the profiles from any file of profiles."""
    found, warning = profiles_in(path)
    if warning:
        log.warning("%s", warning)
    return [one.profile for one in found]


def expected_of(core: SchedulerCore) -> dict[str, Expected]:
    """Return the jobs of a restored core."""
    jobs, found = core.state.jobs, {}
    for name, row in core.state.rows.items():
        stands = jobs[columns.STATE, row]
        active = stands in (columns.STARTING, columns.RUNNING)
        attempt = core.state.attempts.get(name, 0)
        confirmed = bool(stands == columns.RUNNING)
        how = core.state.placed.get(row)
        booked_mbs = 0 if how is None else how.bandwidth_mbs
        limit_us, any_nodes = int(jobs[columns.LIMIT, row]), core.state.spec(row).spread == GAIN
        found[name] = Expected(int(attempt), bool(active), limit_us, confirmed, booked_mbs, any_nodes)
    return found


def told_of(core: SchedulerCore) -> dict[int, NodeFact]:
    """Return what the core was told of its nodes."""
    state, told = core.state, dict[int, NodeFact]()
    for number, condition in enumerate(np.asarray(state.node_state).tolist()):
        used = (0, 0) if state.ledger is None else state.ledger.others_on(number)
        if condition == core_state.UP:
            until_us = state.used_until.get(number, 0)
            told[number] = NodeUsed(number, *used, until_us) if any(used) else NodeUp(number)
        else:
            told[number] = NodeDrained(number) if condition == core_state.DRAINED else NodeDown(number)
    return told


def _since_s(journal: Journal, site: SteeredSite, found: Discovered) -> float:
    """Return since when every held job is ours: since the attach that the lease has run from without a break."""
    key, lease, now_s = f"{site.word} every held job since", read_lease(site.lease), time.time()
    since = journal.get(key)
    if since is None or lease is None or not lease.runs(now_s) or lease.partitions != found.terms.partitions:
        since = f"{now_s:.0f}"
        journal.put({key: since})
    return float(since)
