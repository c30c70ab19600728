"""Steering a cluster under Grid Engine, and giving it back: the controller, core and back end that steer Slurm, with
Grid Engine's commands beneath. The lease is renewed only by a controller whose core answers.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec

from cohabit.app.gridengine_site import GridEngineSite
from cohabit.app.gridengine_switch import ask_around
from cohabit.app.serving import CLOCK
from cohabit.app.slurm import cluster_of, expected_of, over_of, policies_of, read_profiles, told_of
from cohabit.app.slurm_service import STATES, LeaseTerms, Neighbours, Steering, our_view
from cohabit.backend.gridengine.calls import Calls, ReadOnly
from cohabit.backend.gridengine.names import RememberedNames
from cohabit.backend.gridengine.steered import GridEngineManager
from cohabit.backend.gridengine.translate import Site
from cohabit.backend.gridengine.watchdog import settings_of
from cohabit.backend.slurm.backend import SlurmBackend
from cohabit.backend.slurm.calls import SlurmAway
from cohabit.backend.slurm.discovery import Discovered
from cohabit.backend.slurm.fuses import Fuses, fuse_file
from cohabit.backend.slurm.lease import read_lease, switch_file
from cohabit.backend.slurm.marks import HELD, RUN, read_mark
from cohabit.backend.slurm.naming import Names
from cohabit.backend.slurm.watchdog import ensure_watchdog
from cohabit.live.clock import Epoch, find_clock
from cohabit.live.controller import Controller
from cohabit.live.journal import Journal, open_journal
from cohabit.live.measuring import stored_facts
from cohabit.live.place_lock import only_one
from cohabit.live.recovery import Verified, restore, verify
from cohabit.model.errors import InputError

SETTINGS, WATCHDOG = "gridengine settings", "cohabit.backend.gridengine.watchdog"


class _Settings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the core's decisions depend on besides its facts."""

    hosts: tuple[str, ...]
    slots: tuple[int, ...]
    policy: Any
    node: Any
    coupling: Any = None


class Found(NamedTuple):
    """What Grid Engine says of itself."""

    discovered: Discovered
    site: Site


@dataclass
class GridEngineService(Steering):
    """A controller that steers Grid Engine."""

    site: GridEngineSite = field(kw_only=True)
    found: Discovered = field(kw_only=True)


async def open_service(site: GridEngineSite) -> GridEngineService:
    """Ask Grid Engine what is there, open the journal, bring the core back."""
    lock, table = only_one(site.place), site.gridengine
    calls = Calls(table.bin, table.root, table.cell)
    found, settings = await look_around(site, calls)
    policies = policies_of(site, found)
    journal = open_journal(site.place / "journal.db")
    _same_settings(journal, site, found)
    restored = restore(journal, cluster_of(site, found, policies), policies)
    kept = journal.get(CLOCK)
    clock = find_clock(None if kept is None else msgspec.json.decode(kept, type=Epoch), restored.last_us)
    if not clock.same:
        journal.put({CLOCK: msgspec.json.encode(clock.epoch).decode()})
    manager = GridEngineManager(calls, settings, table.held == "all", secures=True)
    first = stored_facts(read_profiles(site.profiles)) if site.profiles is not None and restored.fresh else []
    backend = SlurmBackend(
        manager, found, expected_of(restored.core), told_of(restored), table.poll_s, table.start_within_s, first,
        await over_of(journal, restored.core, manager, found.terms), Fuses(fuse_file(site.lease), clock.since_boot_us),
        table.mates_within_s,
    )  # fmt: skip
    backend.names = RememberedNames(found.terms, site.place / "names.json", restored.core.state.rows)
    neighbours = Neighbours(site.config, lambda message: controller.hear(message))
    controller = Controller(journal, restored, clock, backend, neighbours.links.post)
    for row in restored.core.state.rows.values():
        site.groups.remember(restored.core.state.spec(row).mates)
    watched = settings_of((table.bin, table.root, table.cell), settings, table.held == "all").text()
    lease = LeaseTerms(
        site.lease, table.lease_s, found.terms.partitions, lambda: ensure_watchdog(site.lease, WATCHDOG, watched)
    )
    return GridEngineService(site.place, lease, controller, backend, lock, neighbours, site=site, found=found)


async def verify_gridengine_journal(site: GridEngineSite) -> Verified:
    """Replay all that a controller's journal keeps; it must not be running."""
    table = site.gridengine
    with only_one(site.place):
        found, _ = await look_around(site, ReadOnly(table.bin, table.root, table.cell))
        policies = policies_of(site, found)
        journal = open_journal(site.place / "journal.db")
        try:
            _same_settings(journal, site, found)
            return verify(journal, cluster_of(site, found, policies), policies)
        finally:
            journal.close()


async def look_around(site: GridEngineSite, calls: Calls) -> Found:
    """The cluster, with what mates elsewhere call it."""
    found, settings = await ask_around(site.gridengine, calls)
    return Found(replace(found, terms=found.terms._replace(domain=site.domain, group_of=site.groups.find)), settings)


async def status(site: GridEngineSite) -> dict[str, Any]:
    """Grid Engine's view and ours, and where they disagree. Changes nothing."""
    table = site.gridengine
    calls = ReadOnly(table.bin, table.root, table.cell)
    found, settings = await look_around(site, calls)
    try:
        jobs = Names(found.terms).ours(await GridEngineManager(calls, settings).jobs())
    except SlurmAway as error:
        raise InputError(f"Grid Engine does not answer: {error}", "gridengine", "try again when it does") from error
    theirs = {
        job.name: "running" if job.runs else "held" if job.held else "waiting"
        for job in jobs.values()
        if job.waits or job.runs
    }
    at_s, ours = our_view(site.place)
    fits = {"queued": ("held",), "starting": ("held", "waiting", "running"), "running": ("running",)}
    disagree = [
        {"job": name, "cohabit": state, "gridengine": theirs.get(name, "gone")}
        for name, state in ours.items()
        if theirs.get(name, "gone") not in fits.get(state, (theirs.get(name, "gone"),))
    ]
    for name, job in jobs.items():
        mark = read_mark(job.mark)
        if mark is not None and mark.kind in (HELD, RUN) and theirs.get(name) == "held" and name not in ours:
            disagree.append({"job": name, "cohabit": "unknown", "gridengine": "held"})
    lease = read_lease(site.lease)
    return {
        "gridengine": {"version": found.version, "hosts": len(found.names), "queue": table.queue,
                       **{word: sum(one == word for one in theirs.values()) for word in ("running", "held", "waiting")},
                       "exclusive": settings.exclusive or None, "checkpoint": settings.checkpoint or None},
        "cohabit": {state: sum(one == state for one in ours.values()) for state in STATES.values()},
        "view_age_s": None if not at_s else round(time.time() - at_s, 1),
        "lease_left_s": None if lease is None else max(round(lease.until_s - time.time(), 1), 0.0),
        "switched_off": switch_file(site.lease).exists(),
        "disagreements": disagree,
    }  # fmt: skip


def _same_settings(journal: Journal, site: GridEngineSite, found: Discovered) -> None:
    """A journal can be replayed only under the settings it was written under."""
    now = msgspec.json.encode(_Settings(found.names, found.cpus, site.policy, site.node, site.config.coupling)).decode()
    kept = journal.get(SETTINGS)
    if kept is None:
        journal.put({SETTINGS: now})
    elif kept != now:
        raise InputError(
            "its jobs were taken on other hosts or under another policy", os.fspath(site.place),
            "`cohabit gridengine detach`, then use a new folder (place)",
        )  # fmt: skip
