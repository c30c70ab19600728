"""Stock Slurm as a scenario: nodes, partitions and the scheduler from slurm.conf, limits from `sacctmgr show qos`.

What a scenario cannot say is named, so that its reader knows in what the simulation differs from the site.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cohabit.backend.slurm.hostlist import expand
from cohabit.model.errors import InputError
from cohabit.model.units import HOUR, parse_duration

MOST_PROMISES = 10  # Slurm promises a start to every job it tests; more cost too much time in a replay
USUAL = {"bf_interval": "30", "bf_window": "1440", "bf_resolution": "60", "bf_max_job_test": "500"}
_WEIGHTS = {"age_weight": "PriorityWeightAge", "size_weight": "PriorityWeightJobSize",
            "fair_share_weight": "PriorityWeightFairshare", "qos_weight": "PriorityWeightQOS"}  # fmt: skip
_LIMITS = {"MaxTRESPU": "user", "MaxTRESPA": "account", "GrpTRES": "all"}
_JOB_LIMITS = {"MaxJobsPU": "user", "MaxJobsPA": "account", "GrpJobs": "all"}
_DAYS = re.compile(r"(\d+)-(\d+)(?::(\d+))?(?::(\d+))?")


@dataclass
class Conf:
    """A slurm.conf as it is written: keys in small letters."""

    keys: dict[str, str] = field(default_factory=dict)
    nodes: list[dict[str, str]] = field(default_factory=list)
    partitions: list[dict[str, str]] = field(default_factory=list)
    sets: dict[str, str] = field(default_factory=dict)
    path: str = ""

    def get(self, key: str, usual: str = "") -> str:
        """Return the value of a key of Slurm."""
        return self.keys.get(key.lower(), usual)


def read_conf(path: Path, depth: int = 0) -> Conf:
    """Read a slurm.conf with the files it includes."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(path), "name the slurm.conf of the cluster") from None
    conf = Conf(path=str(path))
    defaults: dict[str, dict[str, str]] = {}
    for number, line in enumerate(text.replace("\\\n", " ").splitlines(), start=1):
        stripped = line.partition("#")[0].strip()
        if not stripped:
            continue
        if stripped.lower().startswith("include "):
            if depth > 8:
                raise InputError("includes itself", f"{path}, line {number}", "remove that Include")
            other = read_conf(path.parent / stripped.split(None, 1)[1].strip(), depth + 1)
            conf.keys |= other.keys
            conf.sets |= other.sets
            conf.nodes += other.nodes
            conf.partitions += other.partitions
            continue
        words = _words(stripped)
        if not words:
            raise InputError(f"{stripped[:40]!r} is not KEY=VALUE", f"{path}, line {number}", "correct the line")
        first = next(iter(words))
        if first in ("nodename", "partitionname"):
            if words[first].upper() == "DEFAULT":
                defaults[first] = defaults.get(first, {}) | words
            else:
                kept = conf.nodes if first == "nodename" else conf.partitions
                kept.append(defaults.get(first, {}) | words)
        elif first == "nodeset":
            conf.sets[words[first]] = words.get("nodes", "")
        else:
            conf.keys |= words
    return conf


def _words(line: str) -> dict[str, str]:
    try:
        pieces = shlex.split(line, posix=True)
    except ValueError:
        pieces = line.split()
    return {key.strip().lower(): value for key, equals, value in (one.partition("=") for one in pieces) if equals}


def scenario_of(conf: Conf, jobs: str, qos: str = "") -> tuple[dict[str, Any], list[str]]:
    """Return the tables of a scenario, and what it leaves out; `qos`: what `sacctmgr -P show qos` printed."""
    if not conf.nodes or not conf.partitions:
        what = "nodes" if not conf.nodes else "partitions"
        raise InputError(
            f"names no {what}", conf.path, "give the whole slurm.conf; what it includes must lie beside it"
        )
    left_out: list[str] = []
    with_memory = "MEMORY" in conf.get("SelectTypeParameters").upper()
    groups = _groups(conf, with_memory)
    total = sum(one["nodes"] * one["cores"] for one in groups)
    policy = _policy(conf, total, left_out)
    tables: dict[str, Any] = {"jobs": {"trace": jobs}, "policy": policy, "world": {"contention": "none"}}
    limits, priorities = _limits(conf, qos)
    _name_the_rest(conf, left_out, bool(qos))
    return {**tables, "cluster": {"group": groups}, "qos": priorities, "limit": limits}, left_out


def _groups(conf: Conf, with_memory: bool) -> list[dict[str, Any]]:
    """Return the nodes by kind: equal cores, memory and partitions."""
    kinds: dict[str, tuple[int, float]] = {}
    for one in conf.nodes:
        for name in expand(one["nodename"]):
            kinds[name] = _cores(one, conf), _memory_gb(one) if with_memory else 0.0
    belongs: dict[str, list[str]] = {name: [] for name in kinds}
    for partition in conf.partitions:
        for name in _nodes_of(partition.get("nodes", ""), conf, kinds):
            belongs[name].append(partition["partitionname"])
    found: dict[tuple[Any, ...], list[str]] = {}
    for name, kind in kinds.items():
        if belongs[name]:
            found.setdefault((*kind, *belongs[name]), []).append(name)
    return [
        {"name": names[0], "nodes": len(names), "cores": cores, "memory_gb": memory, "partitions": partitions}
        for (cores, memory, *partitions), names in found.items()
    ]


def _nodes_of(text: str, conf: Conf, kinds: Mapping[str, Any]) -> list[str]:
    if text.upper() == "ALL":
        return list(kinds)
    named = [node for name in expand(text) for node in (expand(conf.sets[name]) if name in conf.sets else (name,))]
    for name in named:
        if name not in kinds:
            raise InputError(f"{name} is not a node of this file", conf.path, "add its NodeName line, or leave it out")
    return list(dict.fromkeys(named))


def _cores(node: Mapping[str, str], conf: Conf) -> int:
    """Return the CPUs Slurm gives out on a node, counted as sacct counts them."""
    boards, sockets, cores, threads = (
        _number(node, key, 1, conf) for key in ("boards", "sockets", "corespersocket", "threadspercore")
    )
    if "socketsperboard" in node:
        sockets = _number(node, "socketsperboard", 1, conf)
    shape = boards * sockets * cores * threads
    kept = _number(node, "corespeccount", 0, conf) * threads
    return max(_number(node, "cpus", _number(node, "procs", shape, conf), conf) - kept, 1)


def _number(node: Mapping[str, str], key: str, usual: int, conf: Conf) -> int:
    text = node.get(key, str(usual))
    if not text.isdigit():
        raise InputError(f"{key} = {text!r} is not a number", f"{conf.path}, {node['nodename']}", "correct it")
    return int(text)


def _memory_gb(node: Mapping[str, str]) -> float:
    kept = int(node.get("memspeclimit", "0")) if node.get("memspeclimit", "0").isdigit() else 0
    text = node.get("realmemory", "")
    return round(max(int(text) - kept, 0) / 1024, 3) if text.isdigit() else 0.0


def _policy(conf: Conf, cores: int, left_out: list[str]) -> dict[str, Any]:
    whole = conf.get("SelectType", "select/cons_tres").endswith("linear")
    exclusive = [one["partitionname"] for one in conf.partitions if "EXCLUSIVE" in _over(one)]
    if exclusive and not whole:
        whole = len(exclusive) == len(conf.partitions)
        if not whole:
            left_out.append(f"whole nodes in some partitions only ({', '.join(exclusive)}): all share cores")
    found: dict[str, Any] = {"name": "slurm", "placement": "exclusive" if whole else "share"}
    said = dict(USUAL)
    for one in conf.get("SchedulerParameters").split(","):
        key, _, value = one.strip().partition("=")
        if key in said and value.isdigit():
            said[key] = value
    if conf.get("SchedulerType", "sched/backfill").endswith("builtin"):
        found |= {"backfill": "none", "bf_interval_s": 0.0, "bf_window_s": 0.0, "bf_resolution_s": 0.0}
        found["bf_max_job_test"] = 0
    else:
        found["backfill"] = max(min(int(said["bf_max_job_test"]), MOST_PROMISES), 1)
        found["bf_interval_s"] = float(said["bf_interval"])
        found["bf_window_s"] = 60.0 * int(said["bf_window"])
        found["bf_resolution_s"] = float(said["bf_resolution"])
        found["bf_max_job_test"] = int(said["bf_max_job_test"])
    if not conf.get("PriorityType").endswith("multifactor"):
        if not conf.get("PriorityType"):
            left_out.append("PriorityType is not set: first come, first served (`scontrol show config` tells)")
        return found | {"order": "fcfs"}
    weights = {ours: float(conf.get(theirs, "0")) for ours, theirs in _WEIGHTS.items() if _is_number(conf, theirs)}
    if conf.get("PriorityFavorSmall", "NO").upper() == "YES":
        weights["size_weight"] = -weights.get("size_weight", 0.0)
    weights |= {"max_age_h": _hours(conf, "PriorityMaxAge", "7-0"), "largest_job": float(cores)}
    found |= {"order": "multifactor", "order_options": dict.fromkeys(_WEIGHTS, 0.0) | weights}
    found["fair_share_half_life_h"] = _hours(conf, "PriorityDecayHalfLife", "7-0")
    return found


def _over(partition: Mapping[str, str]) -> str:
    return partition.get("oversubscribe", partition.get("shared", "NO")).upper()


def _is_number(conf: Conf, key: str) -> bool:
    return conf.get(key, "0").replace(".", "", 1).isdigit()


def _hours(conf: Conf, key: str, usual: str) -> float:
    text = conf.get(key, usual)
    days = _DAYS.fullmatch(text)
    if days:
        return 24.0 * int(days[1]) + int(days[2]) + int(days[3] or 0) / 60 + int(days[4] or 0) / 3600
    try:
        return parse_duration(text if ":" in text else f"{text}m") / HOUR
    except ValueError as problem:
        raise InputError(str(problem), f"{conf.path}, {key}", "write it as 7-0") from None


def _limits(conf: Conf, qos: str) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Return the limits of every QOS, of partitions through theirs, and the priority of each from 0 to 100."""
    lines = [line for line in qos.splitlines() if line.strip()]
    if not lines:
        return [], {}
    header = lines[0].split("|")
    if "Name" not in header:
        raise InputError("has no column Name", "--qos", "make it with: sacctmgr -P show qos > qos.txt")
    rows = [dict(zip(header, line.split("|"), strict=False)) for line in lines[1:]]
    of_partition: dict[str, list[str]] = {}
    for one in conf.partitions:
        if one.get("qos", "N/A") not in ("", "N/A"):
            of_partition.setdefault(one["qos"], []).append(one["partitionname"])
    found = []
    for row in rows:
        for per, bound in _bounds(row):
            found.append({"name": f"QOS {row['Name']}", "per": per, "qos": row["Name"], **bound})
            found += [
                {"name": f"partition {partition}", "per": per, "partition": partition, **bound}
                for partition in of_partition.get(row["Name"], ())
            ]
    most = max((int(row["Priority"]) for row in rows if row.get("Priority", "").isdigit()), default=0)
    named = {row["Name"]: int(row["Priority"]) for row in rows if most and row.get("Priority", "0").isdigit()}
    return found, {name: round(100 * priority / most) for name, priority in named.items()}


def _bounds(row: Mapping[str, str]) -> list[tuple[str, dict[str, int]]]:
    found: dict[str, dict[str, int]] = {}
    for column, per in _JOB_LIMITS.items():
        if row.get(column, "").isdigit():
            found.setdefault(per, {})["jobs"] = int(row[column])
    for column, per in _LIMITS.items():
        for one in row.get(column, "").split(","):
            name, _, value = one.partition("=")
            if name in ("cpu", "node") and value.isdigit():
                found.setdefault(per, {})["cores" if name == "cpu" else "nodes"] = int(value)
    return [(per, bound) for per, bound in found.items() if any(bound.values())]


def _name_the_rest(conf: Conf, left_out: list[str], has_qos: bool) -> None:
    """Name what the file says and a scenario cannot."""
    tiers = {(one.get("prioritytier"), one.get("priorityjobfactor")) for one in conf.partitions}
    by_weight = conf.get("PriorityType").endswith("multifactor")
    plain_topology = conf.get("TopologyPlugin", "topology/none") in ("topology/none", "topology/default")
    holds = {
        "limits of QOS: give --qos with the output of sacctmgr -P show qos": not has_qos
        and "limits" in conf.get("AccountingStorageEnforce").lower(),
        "priority of partitions (PriorityTier, PriorityWeightPartition)": len(tiers) > 1,
        "preemption": conf.get("PreemptType", "preempt/none") != "preempt/none",
        "generic resources (GresTypes)": bool(conf.get("GresTypes")),
        "topology": not plain_topology,
        "licences": bool(conf.get("Licenses")),
        "shares of accounts: fair share treats all users alike": by_weight
        and conf.get("PriorityWeightFairshare", "0") != "0",
        "cores given out twice (OverSubscribe=FORCE)": any("FORCE" in _over(one) for one in conf.partitions),
    }
    left_out += [what for what, is_so in holds.items() if is_so]


def written(tables: Mapping[str, Any], left_out: Sequence[str], source: str) -> str:
    """Return the scenario as TOML, with what it leaves out as comments."""
    lines = [f"# Made by `cohabit import slurm-conf {source}`. Edit as you like.", "# Not in it:"]
    lines += [
        f"#   {one}" for one in [*left_out, "reservations and drained nodes, unless [[cluster.maintenance]] says"]
    ]
    for name in ("jobs", "policy", "world", "qos"):
        if tables[name]:
            lines += ["", f"[{name}]", *(f"{_key(key)} = {_value(value)}" for key, value in tables[name].items())]
    for name, rows in (("cluster.group", tables["cluster"]["group"]), ("limit", tables["limit"])):
        for row in rows:
            lines += ["", f"[[{name}]]", *(f"{key} = {_value(value)}" for key, value in row.items() if value != 0)]
    return "\n".join(lines) + "\n"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(key)} = {_value(one)}' for key, one in value.items())} }}"
    return str(value)
