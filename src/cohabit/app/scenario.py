"""A scenario: one simulation as data (TOML), checked key by key. Nothing here runs anything."""

from __future__ import annotations

import difflib
import math
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from cohabit.model.cluster import Cluster, NodeGroup, Window
from cohabit.model.errors import InputError
from cohabit.model.units import HOUR, microseconds

GIB = 2**30
NOT_YET = {"domain", "coupling"}  # keys of the command contract that come with coupling clusters


_PLAIN_TYPES = {
    "`object`": "a table", "`array`": "a list", "`str`": "text", "`int`": "a whole number", "`float`": "a number",
    "`bool`": "true or false", "`null`": "nothing",
}  # fmt: skip


class GroupConfig(msgspec.Struct, frozen=True):
    """[[cluster.group]]: nodes of one type."""

    nodes: int
    cores: int = 1
    memory_gb: float = 0.0
    ways: int = 0
    min_ways: int = 1
    closids: int = 0
    domains: int = 1
    bandwidth_gbs: dict[str, float] = {}
    partitions: list[str] = []
    name: str = "node"


class WindowConfig(msgspec.Struct, frozen=True):
    """[[cluster.maintenance]]: nodes FIRST-LAST are closed between two instants of the trace's clock."""

    begin_s: float
    end_s: float
    nodes: str


class ClusterConfig(msgspec.Struct, frozen=True):
    """[cluster]"""

    nodes: int = 0  # 0: as the trace's header says
    cores: int = 1
    memory_gb: float = 0.0
    ways: int = 0
    min_ways: int = 1
    closids: int = 0
    domains: int = 1
    bandwidth_gbs: dict[str, float] = {}
    sharing: str | None = None  # "exclusive" switches every placement back to CE; None: as the policy has it
    oversubscribe: bool | None = None  # more threads than cores on a node; None: as the placement has it (pair: yes)
    on_node_loss: str = "requeue"
    group: list[GroupConfig] = []
    maintenance: list[WindowConfig] = []


class JobsConfig(msgspec.Struct, frozen=True):
    """[jobs]: a file, a trace, or a generator with its options."""

    file: str = ""
    trace: str = ""
    generator: str = ""
    jobs: int | None = None  # how many to make; 1000 otherwise
    load: float | None = None
    mean_gap_s: float | None = None
    median_run_s: float | None = None
    sigma: float | None = None
    longest_run_s: int | None = None
    sizes: list[int] | None = None
    requests: str | None = None
    kind: str | None = None
    programs: dict[str, float] | None = None
    processes: list[int] | None = None
    alpha: float | None = None
    ratio: list[float] | None = None  # mix of all [programs]: scaling ratio from, to


class PolicyConfig(msgspec.Struct, frozen=True):
    """[policy]: a bundle, varied key by key."""

    name: str = "ce-easy"
    order: str | None = None
    backfill: str | int | None = None
    backfill_order: str | None = None
    placement: str | None = None
    order_options: dict[str, float] = {}
    backfill_order_options: dict[str, float] = {}
    fair_share_half_life_h: float = 168.0
    age_limit_s: float | None = None  # first-fit only: who has waited this long may not be overtaken any more
    age_limit_runs: float | None = None  # the same as a multiple of the mean run time so far
    alpha: float | None = None  # share of its solo speed a job must keep unless it says otherwise; spread: 0.9
    beta: float = 2.0  # spread: weight of occupied cache ways when the idlest nodes are looked for
    scales: list[int] = msgspec.field(default_factory=lambda: [1, 2, 4, 8])  # share and spread: scale factors to try
    partition: str | None = None  # how the cache is divided; "none": not at all; None: as usual for the placement
    book_bandwidth: bool = True  # spread: whether bandwidth is booked
    moves: int = 0  # shepherd: running jobs that may change their L3 domain at each decision
    pairing: str | None = None  # pair: optimal, greedy, saving, intensity or consecutive; None: the bundle's, or greedy
    degradation: str = ""  # pair: a matrix of who slows whom, CSV
    model: str = ""  # pair: a trained model that predicts it from counters
    threshold_pct: float = 100.0  # pair: pairs that slow by more run one after the other
    group_size: int = 2  # pair: jobs on a node at once, 2 to 4
    window: int = 150  # pair: so many of the first in the queue are paired
    refill: bool = False  # pair: a job that waits may join one whose partner has ended, if they go well together
    gate: str | None = None  # who may say "not now" to a start: variability, or "none"; None: the bundle's
    variability: str = ""  # gate variability: the trained model
    skip_threshold: int = 10  # gate variability: so often a job may be delayed unless it says otherwise; 0: never
    delay_labels: list[str] = msgspec.field(default_factory=lambda: ["variation"])  # what is waited out
    telemetry_nodes: str = "job"  # gate variability: counters of the nodes it would get, or of "all"
    cost_aware: bool = False  # gate variability: wait only where the expected loss exceeds the expected wait
    choose_nodes: bool = False  # gate variability: look for calmer nodes before delaying
    learn: bool = True  # spread and shepherd: measure unknown programs on their normal runs


class WorldConfig(msgspec.Struct, frozen=True):
    """[world]: the ground truth, never shown to policies."""

    kill: bool = True  # cut a run at its requested time
    contention: str = "share"  # how neighbours slow each other: share, occupancy or none
    q: float = 1.0  # pressure of one core on an undivided cache, in GB/s
    profile_noise: float = 0.0  # relative error of what the scheduler knows of programs
    move_s: float = 0.05  # work lost when a running job changes its L3 domain: its cache is cold
    phases: bool = False  # bandwidth and IPC vary while a program runs
    weather: str = "none"  # load of network and filesystem by others: none, calm, or noise (and a noise job)
    canaries: bool = False  # with weather: a canary runs before every job, is charged to it and is in the telemetry


class FaultsConfig(msgspec.Struct, frozen=True):
    """[faults]"""

    node_mtbf_h: float = 0.0  # mean time between failures of one node; 0: nodes never fail
    node_repair_h: float = 4.0
    late_reports_s: float = 0.0  # mean delay with which a finished job is reported


class ProgramsConfig(msgspec.Struct, frozen=True):
    """[programs]: what jobs run, from a file, a catalogue or measured curves."""

    file: str = ""
    catalogue: str = ""
    curves: str = ""
    profiles: str = "known"  # or "none": the scheduler knows nothing of them and has to learn

    @property
    def given(self) -> bool:
        """Whether any programs are named."""
        return bool(self.file or self.catalogue or self.curves)


class Scenario(msgspec.Struct, frozen=True):
    """The whole file."""

    seed: int = 1
    cluster: ClusterConfig = ClusterConfig()
    programs: ProgramsConfig = ProgramsConfig()
    jobs: JobsConfig = JobsConfig()
    policy: PolicyConfig = PolicyConfig()
    world: WorldConfig = WorldConfig()
    faults: FaultsConfig = FaultsConfig()


def read_scenario(path: Path) -> Scenario:
    """Read and check a TOML file; paths in it are relative to it."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("there is no such file", str(path), "check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", str(path)) from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is not valid TOML: {error}", str(path)) from error
    scenario = scenario_from(data, str(path))
    places = {key: getattr(scenario.jobs, key) for key in ("file", "trace")}
    found = {key: str((path.parent / name).resolve()) for key, name in places.items() if name}
    policy = scenario.policy
    for key in ("order", "backfill_order"):
        name = getattr(policy, key)
        if name and name.endswith(".py"):
            policy = msgspec.structs.replace(policy, **{key: str((path.parent / name).resolve())})
    learned = {key: getattr(policy, key) for key in ("degradation", "model", "variability")}
    known = {key: str((path.parent / name).resolve()) for key, name in learned.items() if name}
    policy = msgspec.structs.replace(policy, **known)
    jobs = msgspec.structs.replace(scenario.jobs, **found)
    named = {key: getattr(scenario.programs, key) for key in ("file", "curves")}
    there = {key: str((path.parent / name).resolve()) for key, name in named.items() if name}
    programs = msgspec.structs.replace(scenario.programs, **there)
    return msgspec.structs.replace(scenario, jobs=jobs, policy=policy, programs=programs)


def scenario_from(data: dict[str, Any], where: str) -> Scenario:
    """Plain data to a scenario; every unknown key or wrong value is named with its place."""
    _refuse_unknown(data, Scenario, where, "")
    try:
        scenario = msgspec.convert(data, Scenario, strict=True)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at ")
        for name, word in _PLAIN_TYPES.items():
            message = message.replace(name, word)
        key = place.strip("`$.") or "top level"
        raise InputError(message[:1].lower() + message[1:], f"{where}: {key}", "correct the value") from error
    _refuse_impossible_numbers(data, where, "")
    sources = [key for key in ("file", "trace", "generator") if getattr(scenario.jobs, key)]
    if len(sources) != 1:
        said = " and ".join(sources) if sources else "none of them"
        raise InputError(f"[jobs] needs exactly one of file, trace or generator, not {said}", where)
    options = [key for key, value in msgspec.structs.asdict(scenario.jobs).items() if value not in (None, "")]
    if sources != ["generator"] and options != sources:
        extra = next(key for key in options if key not in sources)
        raise InputError(f"jobs.{extra} is an option of a generator, not of a {sources[0]}", where, "leave it out")
    if scenario.cluster.group and scenario.cluster.nodes:
        raise InputError("[cluster] has both nodes and [[cluster.group]]", where, "keep one of the two")
    _refuse_contradictions(scenario, where)
    if scenario.policy.backfill_order_options and scenario.policy.backfill_order is None:
        raise InputError("policy.backfill_order_options has no backfill_order to go with", where, "name one")
    return scenario


def _refuse_contradictions(scenario: Scenario, where: str) -> None:
    programs, policy, world = scenario.programs, scenario.policy, scenario.world
    named = [key for key in ("file", "catalogue", "curves") if getattr(programs, key)]
    if len(named) > 1:
        raise InputError(f"[programs] has both {named[0]} and {named[1]}", where, "keep one of the two")
    choices = {
        "programs.profiles": (programs.profiles, ("known", "none")),
        "world.contention": (world.contention, ("share", "occupancy", "none")),
        "world.weather": (world.weather, ("none", "calm", "noise")),
    }
    for key, (value, known) in choices.items():
        if value not in known:
            raise InputError(f"{key} = {value!r} is unknown", where, f"use {', '.join(known)}")
    if not 2 <= policy.group_size <= 4:
        raise InputError(f"policy.group_size = {policy.group_size} is not 2, 3 or 4", where, "2 makes pairs")
    if policy.window < 2:
        raise InputError(f"policy.window = {policy.window} leaves nobody to pair", where, "150 is usual")
    if policy.alpha is not None and not 0 < policy.alpha <= 1:
        raise InputError(f"policy.alpha = {policy.alpha:g} is not above 0 and at most 1", where, "0.9 allows 10 % loss")
    if not policy.scales or 1 not in policy.scales or sorted(set(policy.scales)) != policy.scales:
        raise InputError(f"policy.scales = {policy.scales} must rise from 1", where, "write [1, 2, 4, 8]")
    if scenario.jobs.ratio is not None and not programs.given:
        raise InputError(
            "jobs.ratio needs [programs]: only they say which jobs scale", where, "name a catalogue or file"
        )
    if policy.age_limit_s and policy.age_limit_runs:
        raise InputError("policy has both age_limit_s and age_limit_runs", where, "keep one of the two")


def _refuse_impossible_numbers(data: Any, where: str, place: str) -> None:
    """No setting is infinite or not a number; only instants and the options of an order may be negative."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        here = f"{place}.{key}" if place else str(key)
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{here} = {value} is not a number to reckon with", where, "give an ordinary number")
        free = "order_options" in here or here.endswith(("begin_s", "end_s"))
        if isinstance(value, int | float) and value < 0 and not free:
            raise InputError(f"{here} = {value} is negative", where, "give a number from 0 up")
        _refuse_impossible_numbers(value, where, here)


def _refuse_unknown(data: Any, struct: Any, where: str, place: str) -> None:
    fields = {field.name: field.type for field in msgspec.structs.fields(struct)}
    for key, value in data.items():
        if place + key in NOT_YET:
            raise InputError(f"{place + key} is not available yet", where, "leave it out")
        if key not in fields:
            near = difflib.get_close_matches(key, fields, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(fields)}"
            raise InputError(f"unknown key {place + key!r}", where, hint)
        inner = fields[key]
        if isinstance(value, dict) and isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            _refuse_unknown(value, inner, where, f"{place}{key}.")
        for element in value if isinstance(value, list) else ():
            kind = getattr(inner, "__args__", (None,))[0]
            if isinstance(element, dict) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                _refuse_unknown(element, kind, where, f"{place}{key}.")


def cluster_of(config: ClusterConfig, nodes: int) -> Cluster:
    """The machine; `nodes` is used where the scenario leaves the number open."""
    if config.group:
        groups = tuple(_group(group, group.nodes, group.partitions, group.name) for group in config.group)
    else:
        groups = (_group(config, nodes, [], "node"),)
    windows = tuple(_window(window) for window in config.maintenance)
    return Cluster(groups, config.sharing or "exclusive", bool(config.oversubscribe), windows, config.on_node_loss)


def _group(config: ClusterConfig | GroupConfig, nodes: int, partitions: list[str], name: str) -> NodeGroup:
    try:
        curve = tuple(sorted((int(cores), value) for cores, value in config.bandwidth_gbs.items()))
    except ValueError:
        raise InputError("bandwidth_gbs needs core counts as keys", "cluster.bandwidth_gbs") from None
    return NodeGroup(
        count=nodes, cores=config.cores, memory_bytes=round(config.memory_gb * GIB), ways=config.ways,
        min_ways=config.min_ways, closids=config.closids, domains=config.domains, bandwidth_gbs=curve,
        partitions=tuple(partitions), name=name,
    )  # fmt: skip


def _window(config: WindowConfig) -> Window:
    first, _, last = config.nodes.partition("-")
    try:
        begin, end = int(first), int(last or first)
    except ValueError:
        raise InputError(
            f"nodes = {config.nodes!r} is not a range", "cluster.maintenance", 'write "0-15" or "7"'
        ) from None
    return Window(microseconds(config.begin_s), microseconds(config.end_s), begin, end - begin + 1)


def half_life_us(config: PolicyConfig) -> int:
    """The memory of fair share."""
    return round(config.fair_share_half_life_h * HOUR)
