"""Read a scenario: one simulation as data (TOML), checked key by key. Nothing here runs anything."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from cohabit.app.scenario.tables import ClusterConfig, JobsConfig, NodeConfig, PolicyConfig, Scenario, WindowConfig
from cohabit.app.scenario.typed_toml import read_toml, refuse_unknown, typed
from cohabit.app.simulate.coupling_scenario import check_domains, spelled_out, with_policy
from cohabit.model.cluster import Cluster, NodeGroup, Window
from cohabit.model.errors import InputError
from cohabit.model.event import WindowSet
from cohabit.model.node_ranges import read_ranges
from cohabit.model.units import microseconds

GIB = 2**30


def read_scenario(path: Path) -> Scenario:
    """Read and check a TOML file; paths in it are relative to it."""
    scenario = scenario_from(read_toml(path), str(path))
    named = {key: getattr(scenario.programs, key) for key in ("file", "curves", "co_runs")}
    files = {key: name for key, name in named.items() if name and "://" not in name}
    there = {key: str((path.parent / name).resolve()) for key, name in files.items()}
    programs = msgspec.structs.replace(scenario.programs, **there)
    jobs, policy = _found(scenario.jobs, scenario.policy, path.parent)
    domains = []
    for one in scenario.domain:
        own_jobs, own_policy = _found(one.jobs, one.policy, path.parent)
        domains.append(msgspec.structs.replace(one, jobs=own_jobs, policy=own_policy))
    return msgspec.structs.replace(scenario, jobs=jobs, policy=policy, programs=programs, domain=domains)


def scenario_for(
    source: str | Path | Mapping[str, Any],
    *,
    nodes: int | None = None,
    cores: int | None = None,
    order: str | None = None,
    backfill: str | int | None = None,
    backfill_order: str | None = None,
    placement: str | None = None,
    policy: str | None = None,
    seed: int | None = None,
    kill: bool = True,
) -> Scenario:
    """Return the scenario, changed by every option that is not None; `kill` False lets jobs exceed their request."""
    where = "the scenario given" if isinstance(source, Mapping) else str(source)
    if isinstance(source, Mapping):
        scenario = scenario_from(dict(source), where)
    elif Path(source).suffix == ".toml":
        scenario = read_scenario(Path(source))
    else:
        scenario = scenario_from({"jobs": {"trace": str(source)}}, where)
    cluster: dict[str, Any] = {key: value for key, value in (("nodes", nodes), ("cores", cores)) if value is not None}
    for key, value in cluster.items():
        if value < 1:
            raise InputError(f"--{key} {value} is not a positive number", "", "give a whole number from 1 up")
    if cluster and scenario.domain:
        raise InputError("--nodes and --cores do not go with [[domain]]", where, "edit the scenario")
    if cluster and scenario.cluster.group:
        raise InputError("--nodes and --cores do not go with [[cluster.group]]", where, "edit the scenario")
    if seed is not None and seed < 0:
        raise InputError(f"--seed {seed} is negative", "", "use a number from 0 up")
    chosen = {
        "name": policy,
        "order": order,
        "backfill": backfill,
        "backfill_order": backfill_order,
        "placement": placement,
    }
    said = {key: value for key, value in chosen.items() if value is not None}
    replace = msgspec.structs.replace
    return replace(
        scenario,
        cluster=replace(scenario.cluster, **cluster),
        policy=scenario.policy if scenario.domain else replace(scenario.policy, **said),
        domain=[with_policy(one, **said) for one in scenario.domain],
        seed=scenario.seed if seed is None else seed,
        world=scenario.world if kill else replace(scenario.world, kill=False),
    )


def _found(jobs: JobsConfig, policy: PolicyConfig, folder: Path) -> tuple[JobsConfig, PolicyConfig]:
    """Return the same tables with every file name as a full path."""
    files = {key: getattr(jobs, key) for key in ("file", "trace")}
    orders = {key: getattr(policy, key) for key in ("order", "backfill_order")}
    learned = {key: getattr(policy, key) for key in ("degradation", "model", "variability")}
    named = {key: name for key, name in orders.items() if name and name.endswith(".py")} | learned
    replace = msgspec.structs.replace
    return (
        replace(jobs, **{key: str((folder / name).resolve()) for key, name in files.items() if name}),
        replace(policy, **{key: str((folder / name).resolve()) for key, name in named.items() if name}),
    )


def scenario_from(data: dict[str, Any], where: str) -> Scenario:
    """Convert plain data to a scenario; errors name every unknown key or wrong value with its place."""
    data = spelled_out(data)
    refuse_unknown(data, Scenario, where)
    scenario = typed(data, Scenario, where, "correct the value")
    _refuse_impossible_numbers(data, where, "")
    parts = check_domains(scenario, where)
    for place, cluster, jobs, policy in parts or [("", scenario.cluster, scenario.jobs, scenario.policy)]:
        _check_jobs(jobs, where, place)
        if cluster.group and cluster.nodes:
            raise InputError(f"[{place}cluster] has both nodes and [[cluster.group]]", where, "keep one of the two")
        _refuse_contradictions(scenario, jobs, policy, where)
        if policy.backfill_order_options and policy.backfill_order is None:
            what = f"{place}policy.backfill_order_options has no backfill_order to go with"
            raise InputError(what, where, "name one")
    return scenario


OF_TRACES = ("load", "from_s", "until_s", "shift_s")


def _check_jobs(jobs: JobsConfig, where: str, place: str) -> None:
    sources = [key for key in ("file", "trace", "generator") if getattr(jobs, key)]
    if len(sources) != 1:
        said = " and ".join(sources) if sources else "none of them"
        raise InputError(f"[{place}jobs] needs exactly one of file, trace or generator, not {said}", where)
    options = [key for key, value in msgspec.structs.asdict(jobs).items() if value not in (None, "")]
    read = sources != ["generator"]
    for extra in options:
        if read and extra not in (*sources, *OF_TRACES):
            what = f"{place}jobs.{extra} is an option of a generator, not of a {sources[0]}"
            raise InputError(what, where, "leave it out")
        if not read and extra in OF_TRACES[1:]:
            what = f"{place}jobs.{extra} is for jobs that are read, not made by a generator"
            raise InputError(what, where, "leave it out")


def _refuse_contradictions(scenario: Scenario, jobs: JobsConfig, policy: PolicyConfig, where: str) -> None:
    programs, world = scenario.programs, scenario.world
    named = [key for key in ("file", "catalogue", "curves") if getattr(programs, key)]
    if len(named) > 1:
        raise InputError(f"[programs] has both {named[0]} and {named[1]}", where, "keep one of the two")
    choices = {
        "programs.profiles": (programs.profiles, ("known", "none")),
        "world.contention": (world.contention, ("share", "occupancy", "none")),
        "world.weather": (world.weather, ("none", "calm", "noise")),
        "world.noise_place": (world.noise_place, ("", "switch", "storage", "node")),
    }
    for key, (value, known) in choices.items():
        if value not in known:
            raise InputError(f"{key} = {value!r} is unknown", where, f"use {', '.join(filter(None, known))}")
    if world.noise_place and world.weather != "noise":
        what = f"world.noise_place = {world.noise_place!r} has no effect with weather = {world.weather!r}"
        raise InputError(what, where, 'write weather = "noise" too, or leave it out')
    if not 2 <= policy.group_size <= 4:
        raise InputError(f"policy.group_size = {policy.group_size} is not 2, 3 or 4", where, "2 makes pairs")
    if policy.window < 2:
        raise InputError(f"policy.window = {policy.window} leaves no jobs to pair", where, "150 is usual")
    if policy.alpha is not None and not 0 < policy.alpha <= 1:
        raise InputError(f"policy.alpha = {policy.alpha:g} is not above 0 and at most 1", where, "0.9 allows 10 % loss")
    if policy.scales and (1 not in policy.scales or sorted(set(policy.scales)) != policy.scales):
        what = f"policy.scales = {policy.scales} must rise from 1"
        raise InputError(what, where, "write [1, 2, 4, 8], or [] for all powers of two")
    if jobs.ratio is not None and not programs.given:
        raise InputError(
            "jobs.ratio needs [programs]: only they say which jobs scale", where, "name a catalogue or file"
        )
    if policy.age_limit_s and policy.age_limit_runs:
        raise InputError("policy has both age_limit_s and age_limit_runs", where, "keep one of the two")


_MAY_BE_NEGATIVE = ("begin_s", "end_s", "from_s", "until_s", "shift_s", "clock_offset_s", "least_s", "most_s",
                    "overlap_s", "announced_s")  # fmt: skip


def _refuse_impossible_numbers(data: Any, where: str, place: str) -> None:
    """Refuse infinity and NaN in any setting, and negative numbers except in instants and the options of an order."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        here = f"{place}.{key}" if place else str(key)
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{here} = {value} is not a finite number", where, "give an ordinary number")
        free = "order_options" in here or here.endswith(_MAY_BE_NEGATIVE)
        if isinstance(value, int | float) and value < 0 and not free:
            raise InputError(f"{here} = {value} is negative", where, "give a number from 0 up")
        _refuse_impossible_numbers(value, where, here)


def cluster_of(config: ClusterConfig, nodes: int) -> Cluster:
    """Return the machine; `nodes` is used if the scenario does not set the number."""
    if config.group:
        groups = tuple(_group(group, group.nodes, group.partitions, group.name) for group in config.group)
    else:
        groups = (_group(config, nodes, [], "node"),)
    known = [window for window in config.maintenance if window.announced_s is None]
    windows = tuple(Window(*_instants(one), first, count, one.name) for one in known for first, count in _nodes(one))
    return Cluster(groups, config.sharing or "exclusive", bool(config.oversubscribe), windows, config.on_node_loss)


def _group(config: NodeConfig, nodes: int, partitions: list[str], name: str) -> NodeGroup:
    try:
        curve = tuple(sorted((int(cores), value) for cores, value in config.bandwidth_gbs.items()))
    except ValueError:
        raise InputError("bandwidth_gbs needs core counts as keys", "cluster.bandwidth_gbs") from None
    return NodeGroup(
        count=nodes,
        cores=config.cores,
        memory_bytes=round(config.memory_gb * GIB),
        ways=config.ways,
        min_ways=config.min_ways,
        closids=config.closids,
        domains=config.domains,
        bandwidth_gbs=curve,
        partitions=tuple(partitions),
        name=name,
    )


def announcements(config: ClusterConfig, nodes: int) -> list[tuple[int, WindowSet]]:
    """Return the windows that become known only at an instant, with these instants."""
    found: list[tuple[int, WindowSet]] = []
    for number, window in enumerate(config.maintenance, 1):
        if window.announced_s is None:
            continue
        (begin_us, end_us), ranges = _instants(window), _nodes(window)
        if ranges[-1][0] + ranges[-1][1] > nodes:
            what = f"a maintenance window names nodes {window.nodes}"
            raise InputError(what, "cluster.maintenance", f"the cluster has nodes 0 to {nodes - 1}")
        name = window.name or f"maintenance {number}"
        if name in {told.name for _, told in found}:
            raise InputError(f"two announced windows have the name {name!r}", "cluster.maintenance", "rename one")
        found.append((microseconds(window.announced_s), WindowSet(name, begin_us, end_us, ranges)))
    return found


def _instants(config: WindowConfig) -> tuple[int, int]:
    if config.end_s <= config.begin_s:
        raise InputError("a maintenance window ends before it begins", "cluster.maintenance", "end_s is the later one")
    return microseconds(config.begin_s), microseconds(config.end_s)


def _nodes(config: WindowConfig) -> tuple[tuple[int, int], ...]:
    try:
        return read_ranges(config.nodes)
    except ValueError:
        raise InputError(
            f"nodes = {config.nodes!r} is not a range", "cluster.maintenance", 'write "0-15", "7" or "0-3,7"'
        ) from None
