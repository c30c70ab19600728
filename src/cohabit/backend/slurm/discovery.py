"""Discover the cluster from Slurm: its nodes in groups of equals, partitions, and whether jobs can share nodes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from cohabit.backend.slurm import commands, text_output
from cohabit.backend.slurm.calls import Calls
from cohabit.backend.slurm.text_output import Partition
from cohabit.backend.steered.shapes import BY_CORES, BY_REQUEST, NOT_WHOLE, Discovered, ManagerNode, Terms
from cohabit.backend.steered.translate import MIB
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.errors import InputError

NO_SHARING = ("EXCLUSIVE",)


async def discover(
    calls: Calls, partitions: Sequence[str] = (), all_held: bool = False, program: str = "name"
) -> Discovered:
    """Ask Slurm. No partitions: all that are up."""
    nodes = text_output.nodes(await calls(commands.list_nodes()))
    config = text_output.config(await calls(commands.show_config()))
    there = text_output.partitions(await calls(commands.list_partitions()))
    found = arrange(nodes, there, config, partitions, all_held, program)
    return replace(found, mpi=mpi_plugins(config.get("PluginDir", "")))


def mpi_plugins(folders: str) -> tuple[str, ...] | None:
    """Return the ways in which srun can start ranks, by the plug-ins on this machine; None: they are not seen here."""
    there = [Path(one) for one in folders.split(":") if one and os.path.isdir(one)]
    names = {path.name.removeprefix("mpi_").removesuffix(".so") for one in there for path in one.glob("mpi_*.so")}
    return tuple(sorted(names - {"none"})) if there else None


def arrange(
    nodes: Sequence[ManagerNode],
    there: Sequence[Partition],
    config: dict[str, str],
    wanted: Sequence[str],
    all_held: bool = False,
    program: str = "name",
) -> Discovered:
    """Return the nodes of these partitions, equals side by side, otherwise in Slurm's order. Pure."""
    known = {one.name: one for one in there}
    for name in wanted:
        if name not in known:
            raise InputError(f"Slurm has no partition {name}", "slurm.partitions", f"it has {', '.join(sorted(known))}")
    steered = [known[name] for name in wanted] or [one for one in there if one.up]
    if not steered:
        raise InputError("Slurm has no partition that is up", "slurm.partitions")
    names = tuple(one.name for one in steered)
    of_node = {node.name: tuple(name for name in node.partitions if name in names) for node in nodes}
    chosen = sorted((node for node in nodes if of_node[node.name]), key=lambda node: _kind(node, of_node))
    if not chosen:
        raise InputError(f"partition {names[0]} has no nodes", "slurm.partitions")
    memory = "MEMORY" in config.get("SelectTypeParameters", "").upper()
    groups = []
    for (cpus, _, memory_mb, members), alike in groupby(chosen, key=lambda node: _kind(node, of_node)):
        count = len(list(alike))
        groups.append(NodeGroup(count, cpus, memory_mb * MIB if memory else 0, partitions=members))
    reason = ""
    if not config.get("SelectType", "").startswith("select/cons_"):
        reason = f"Slurm's {config.get('SelectType', 'select plug-in')} gives out whole nodes"
    for one in steered:
        if one.oversubscribe in NO_SHARING:
            reason = reason or f"partition {one.name} has OverSubscribe={one.oversubscribe}"
    terms = Terms(
        names, all_held, program, min(node.cpus for node in chosen), max(node.threads for node in chosen), memory
    )
    version = config.get("SLURM_VERSION", "unknown")
    whole_by = BY_CORES if version.startswith("22.05") else NOT_WHOLE
    if config.get("AllowSpecResourcesUsage", "").lower() in ("yes", "1") and not reason:
        whole_by = BY_REQUEST
    return Discovered(
        Cluster(tuple(groups)),
        tuple(node.name for node in chosen),
        tuple(node.cpus for node in chosen),
        terms,
        version,
        reason,
        whole_by,
        min(one.core_jobs for one in steered),
        manager_uid=text_output.user_of(config.get("SlurmUser", "")),
        has_operators=not config.get("AccountingStorageType", "").endswith("/none"),
        owners_holds_seen="lua" in config.get("JobSubmitPlugins", "").replace("job_submit/", "").split(","),
    )


def _kind(node: ManagerNode, of_node: dict[str, tuple[str, ...]]) -> tuple[int, int, int, tuple[str, ...]]:
    return node.cpus, node.threads, node.memory_mb, of_node[node.name]
