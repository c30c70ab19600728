"""The cluster as Grid Engine has it: the hosts of one queue in groups of equals, and how its jobs are spread."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from cohabit.backend.gridengine import commands, text_output, xml_output
from cohabit.backend.gridengine.calls import Calls
from cohabit.backend.gridengine.translate import Site
from cohabit.backend.gridengine.xml_output import Host
from cohabit.backend.slurm.calls import SlurmRefused
from cohabit.backend.slurm.discovery import Discovered
from cohabit.backend.slurm.translate import Terms
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.errors import InputError


async def discover(
    calls: Calls, queue: str, all_held: bool = False, program: str = "name", exclusive: str = "", checkpoint: str = ""
) -> tuple[Discovered, Site]:
    """Ask Grid Engine. `exclusive`: the complex; empty: the only one there is. `checkpoint`: by which runs can be
    stopped and queued again, if the queue has it."""
    try:
        settings = text_output.settings(await calls(commands.show_queue(queue)))
    except SlurmRefused as error:
        raise InputError(f"Grid Engine has no queue {queue} ({error})", "gridengine.queue") from error
    hosts = xml_output.hosts(await calls(commands.list_hosts()), queue)
    complexes = text_output.exclusive_complexes(await calls(commands.show_complexes()))
    if exclusive and exclusive not in complexes:
        fix = f"there are {', '.join(complexes) or 'none'}; docs/gridengine.md says how to add one"
        raise InputError(f"{exclusive} is no complex that gives hosts to one job", "gridengine.exclusive", fix)
    version = text_output.version(await calls(commands.version()))
    site = Site(
        queue, min((host.slots for host in hosts), default=1), await _rules(calls),
        exclusive or (complexes[0] if len(complexes) == 1 else ""),
        checkpoint if checkpoint in settings.get("ckpt_list", "").split() else "",
    )  # fmt: skip
    return arrange(hosts, site, version, all_held, program), site


async def _rules(calls: Calls) -> dict[str, str]:
    """How every parallel environment spreads slots."""
    try:
        names = text_output.names(await calls(commands.list_environments()))
    except SlurmRefused:
        return {}  # there is none
    said = {name: text_output.settings(await calls(commands.show_environment(name))) for name in names}
    return {name: one.get("allocation_rule", "") for name, one in said.items()}


def arrange(
    hosts: Sequence[Host], site: Site, version: str, all_held: bool = False, program: str = "name"
) -> Discovered:
    """Pure: the hosts of the queue, equals side by side, otherwise by their names."""
    chosen = sorted((host for host in hosts if host.slots), key=lambda host: (host.slots, host.name))
    if not chosen:
        raise InputError(f"queue {site.queue} has no slots on any host", "gridengine.queue")
    groups = [
        NodeGroup(len(list(alike)), slots, partitions=(site.queue,))
        for slots, alike in groupby(chosen, key=lambda host: host.slots)
    ]
    terms = Terms((site.queue,), all_held, program, site.slots)
    return Discovered(
        Cluster(tuple(groups)), tuple(host.name for host in chosen), tuple(host.slots for host in chosen), terms,
        version, "",
    )  # fmt: skip
