"""Discover the cluster from Grid Engine: the hosts of some queues in groups of equals, and how jobs are spread."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from itertools import groupby

from cohabit.backend.gridengine import commands, text_output, xml_output
from cohabit.backend.gridengine.calls import Calls
from cohabit.backend.gridengine.text_output import Complex, amount
from cohabit.backend.gridengine.translate import FILL_UP, MEMORY, ONE_HOST, ROUND_ROBIN, Site
from cohabit.backend.gridengine.xml_output import Host
from cohabit.backend.steered.contract import ManagerRefused
from cohabit.backend.steered.shapes import Discovered, Terms
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.errors import InputError

NO_MEMORY = "none"  # the word of a site that does not want memory booked


async def discover(
    calls: Calls,
    queues: Sequence[str],
    all_held: bool = False,
    program: str = "name",
    exclusive: str = "",
    checkpoint: str = "",
    memory: str = "",
    spread: str = "",
    one_host: str = "",
) -> tuple[Discovered, Site]:
    """Ask Grid Engine. `exclusive`: the complex; empty: the only one there is. `checkpoint`: the environment that can
    stop runs and queue them again, if the queues have it. `memory`: the complex; empty: the first that hosts have an
    amount of. `spread`, `one_host`: parallel environments for jobs that are submitted here."""
    settings = [await _queue(calls, queue) for queue in queues]
    hosts = xml_output.hosts(await calls(commands.list_hosts()), queues)
    there = text_output.complexes(await calls(commands.show_complexes()))
    alone = [one.name for one in there.values() if one.exclusive]
    if exclusive and exclusive not in alone:
        fix = f"there are {', '.join(alone) or 'none'}; docs/gridengine.md says how to add one"
        what = f"{exclusive} is not a complex for exclusive hosts (relation EXCL)"
        raise InputError(what, "gridengine.exclusive", fix)
    booked, has = await _memory(calls, hosts, there, memory)
    version = text_output.version(await calls(commands.version()))
    rules = await _rules(calls, settings)
    site = Site(
        tuple(queues),
        min((host.slots for host in hosts if host.slots), default=1),
        rules,
        exclusive or (alone[0] if len(alone) == 1 else ""),
        checkpoint if all(checkpoint in _words(one.get("ckpt_list", "")) for one in settings) else "",
        "" if booked is None else booked.name,
        0 if booked is None else amount(booked.default),
        booked is not None and booked.consumable == "JOB",
        max((host.slots for host in hosts), default=1),
        _environment(rules, spread, (ROUND_ROBIN, FILL_UP), "gridengine.spread"),
        _environment(rules, one_host, (ONE_HOST,), "gridengine.one_host"),
        tuple(queue for queue, one in zip(queues, settings, strict=True) if not _guards(one)),
    )
    return arrange(hosts, site, version, all_held, program, has), site


async def _queue(calls: Calls, queue: str) -> dict[str, str]:
    try:
        return text_output.settings(await calls(commands.show_queue(queue)))
    except ManagerRefused as error:
        raise InputError(f"Grid Engine has no queue {queue} ({error})", "gridengine.queue") from error


async def _rules(calls: Calls, settings: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return how every parallel environment of the queues spreads slots, in their order."""
    named = [name for one in settings for name in _words(one.get("pe_list", ""))]
    found = {}
    for name in dict.fromkeys(named):
        try:
            said = text_output.settings(await calls(commands.show_environment(name)))
        except ManagerRefused:
            continue  # it has been removed, but is still in the list of the queue
        found[name] = said.get("allocation_rule", "")
    return found


def _guards(queue: Mapping[str, str]) -> bool:
    """Return whether the queue has a starter and a prolog, which run before programs of jobs and make their tokens."""
    return all(_words(queue.get(key, "")) for key in ("starter_method", "prolog"))


def _words(text: str) -> list[str]:
    """Split a list of names; hosts may have lists of their own: `a b,[host=a c]`."""
    return [word for word in re.split(r"[\s,\[\]]+", re.sub(r"\[[^=\]]*=", " ", text)) if word and word != "NONE"]


def _environment(rules: Mapping[str, str], named: str, wanted: Sequence[str], where: str) -> str:
    """Return the named environment, or the first that spreads slots in such a way."""
    if named and named not in rules:
        fix = f"they have {', '.join(rules) or 'none'}"
        raise InputError(f"{named} is not a parallel environment of the steered queues", where, fix)
    return named or next((name for rule in wanted for name, one in rules.items() if one == rule), "")


async def _memory(
    calls: Calls, hosts: Sequence[Host], there: Mapping[str, Complex], named: str
) -> tuple[Complex | None, dict[str, int]]:
    """Return the complex for booking memory (None: it is not booked), and the amount of every host. A complex that the
    site names may also be a load value: then a host has as much as is built in."""
    if named == NO_MEMORY:
        return None, {}
    if named and (named not in there or there[named].kind != "MEMORY"):
        fix = f"use one of those `qconf -sc` shows, such as {MEMORY[0]}, or {NO_MEMORY}"
        raise InputError(f"{named} is not a complex for memory", "gridengine.memory", fix)
    consumed = [name for name in MEMORY if name in there and there[name].consumable != "NO"]
    if not named and not consumed:
        return None, {}
    said = await asyncio.gather(*(calls(commands.show_host(host.name)) for host in hosts))
    values = [text_output.values(text_output.settings(one).get("complex_values", "")) for one in said]
    for name in [named] if named else consumed:
        has = {host.name: amount(one[name]) for host, one in zip(hosts, values, strict=True) if name in one}
        if named or has:
            return there[name], {host.name: has.get(host.name, host.memory_bytes) for host in hosts}
    return None, {}


def arrange(
    hosts: Sequence[Host],
    site: Site,
    version: str,
    all_held: bool = False,
    program: str = "name",
    has: Mapping[str, int] | None = None,
) -> Discovered:
    """Return the hosts of the queues, equals side by side, otherwise by name. Pure. `has`: bytes of memory to book."""
    has = has or {}

    def kind(host: Host) -> tuple[int, int, tuple[str, ...]]:
        return host.slots, has.get(host.name, 0), host.queues

    chosen = sorted((host for host in hosts if host.slots), key=lambda host: (*kind(host), host.name))
    if not chosen:
        raise InputError(f"queue {', '.join(site.queues)} has no slots on any host", "gridengine.queue")
    anywhere = (site.anywhere,) if site.anywhere not in site.queues else ()
    groups = [
        NodeGroup(len(list(alike)), slots, memory, partitions=(*queues, *anywhere))
        for (slots, memory, queues), alike in groupby(chosen, key=kind)
    ]
    terms = Terms(site.partitions, all_held, program, site.slots, memory=bool(site.memory))
    return Discovered(
        Cluster(tuple(groups)),
        tuple(host.name for host in chosen),
        tuple(host.slots for host in chosen),
        terms,
        version,
        "",
    )
