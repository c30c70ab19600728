"""Another policy for a controller that steers: the site file is read again, checked in full, and only then obeyed.

The verb `reload` reads and checks the file with its caller's rights and sends its contents; the controller checks what
only it can know. Nothing changes before all of that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from cohabit.app.scenario.policies import is_gated, refuse_untrusted_files, title
from cohabit.app.serve.deciding import Change
from cohabit.app.steer.cluster_telemetry import table_of
from cohabit.app.steer.deciding import Settings, cluster_of, key_of, policies_of, settings_of, written
from cohabit.app.steer.site import SteeredSite, SteeredTables, policy_in
from cohabit.core.protocols import PolicySet
from cohabit.live.controller.measuring import stored_facts
from cohabit.model.cluster import Cluster
from cohabit.model.errors import InputError

if TYPE_CHECKING:
    from cohabit.app.steer.steering import Service

CHANGEABLE = ("policy", "profiles")
OF_ITS_JOBS = ("place", "domain", "peer", "partitions", "queue", "held")  # another attach could not go on with all jobs
log = logging.getLogger(__name__)


def contents_of(site: SteeredSite) -> tuple[str, str]:
    """Return what a controller is told of a file that was read and checked: its folder and its tables."""
    refuse_untrusted_files(site.policy)
    return str(site.folder), msgspec.json.encode(site.tables).decode()


async def reload(service: Service, folder: str, text: str) -> dict[str, Any]:
    """Go on under the policy in these contents of a site file; return what has changed. InputError: nothing has."""
    from cohabit.app.steer.steering import get_ready, given_up, read_profiles

    async with service.reloads:
        site = _changed(service.site, folder, text)
        if site.telemetry is not None and service.telemetry is None:
            what = f"policy {site.policy.name} has a gate, and this controller gets no telemetry"
            raise InputError(what, "policy", _anew(site))
        found, kept = service.backend.found, msgspec.json.decode(service.settings, type=Settings)
        remarks: list[str] = []
        without = given_up(site, found, remarks.append)
        words = site.policy.name + without
        policies = policies_of(site, found, kept.coupling)
        profiles = [] if site.profiles is None else stored_facts(read_profiles(site.profiles))
        now, change = settings_of(site, found, kept.coupling), None
        if kept != now:
            await asyncio.to_thread(get_ready, site, found)  # it compiles kernels while the old policy goes on
            cluster, text = cluster_of(site.node, found, policies), written(now)
            settings = {key_of(site.word): text}
            with _prepared(service, policies):
                counts = await service.controller.go_on_under(cluster, policies, service.settings, settings)
            change = Change(kept.policy.name, now.policy.name, *counts)
            service.settings = text
            for said in (f"the site file was read again: {change}", *remarks):
                log.warning("%s", said)
            await _follow(service, cluster, policies, title(policies.names) + without)
        service.site, service.words = site, words
        for fact in profiles:
            await service.controller.tell(fact)
    return {
        "changed": change is not None,
        "was": kept.policy.name,
        "policy": words,
        "waiting": 0 if change is None else change.waiting,
        "running": 0 if change is None else change.running,
        "profiles": len(profiles),
        "remarks": remarks,
    }


@contextmanager
def _prepared(service: Service, policies: PolicySet) -> Iterator[None]:
    """Let the back end start jobs as these policies want it; if they are not followed, as before."""
    backend, measuring = service.backend, service.measuring
    before, learnt = backend.found, measuring.learns
    backend.found = replace(before, shares_cores=getattr(policies.placer, "shares_cores", False))
    measuring.learns = not policies.placer.exclusive
    try:
        yield
    except BaseException:
        backend.found, measuring.learns = before, learnt
        raise


async def _follow(service: Service, cluster: Cluster, policies: PolicySet, named: str) -> None:
    """Let the parts around the core know its policy."""
    from cohabit.app.steer.steering import told_of

    told = await service.controller.ask(told_of)  # what others use of a node counts in another way now
    for number, state in told.items():
        service.backend.watcher.told[number] = state
    if service.channel is not None:
        service.channel.runs.times_known = not policies.placer.exclusive
    if service.api is not None:
        service.api.parts.go_on_under(cluster, policies, named)


def _changed(site: SteeredSite, folder: str, text: str) -> SteeredSite:
    """Return the site with what may change while it steers; refuse any other change."""
    try:
        tables = msgspec.json.decode(text, type=type(site.tables))
    except msgspec.MsgspecError as error:
        raise InputError(
            f"the contents cannot be read: {error}", "site file", "use the same version of cohabit"
        ) from error
    if Path(folder) != site.folder:
        what = f"{folder} is not the folder of the file that attach was given, {site.folder}: paths are relative to it"
        raise InputError(what, "site file", "put the file there")
    if other := _others(site.tables, tables, site.word):
        held = any(one.rpartition(".")[2] in OF_ITS_JOBS for one in other)
        fix = f"`cohabit {site.word} detach`, then attach" if held else _anew(site)
        raise InputError(f"{', '.join(other)} cannot change while it steers", "site file", fix)
    policy = policy_in(tables.policy, site.folder)
    telemetry = table_of(tables.telemetry, is_gated(tables.policy), tables.nodes is not None, "telemetry")
    return replace(
        site,
        tables=tables,
        policy=policy,
        config=replace(site.config, policy=policy),
        profiles=site.folder / tables.profiles if tables.profiles else None,
        telemetry=telemetry,
    )


def _others(before: SteeredTables, now: SteeredTables, word: str) -> list[str]:
    """Return the keys that differ and may not, of the manager's own table one by one."""
    found = []
    for key in before.__struct_fields__:
        one, other = getattr(before, key), getattr(now, key)
        if key in CHANGEABLE or one == other:
            continue
        if key == word:
            own = one.__struct_fields__
            found += [f"{key}.{name}" for name in own if getattr(one, name) != getattr(other, name)]
        else:
            found.append(key)
    return found


def _anew(site: SteeredSite) -> str:
    return f"stop `cohabit {site.word} attach` and start it again within the lease: it keeps all jobs"
