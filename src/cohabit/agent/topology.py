"""Read a machine's processor from sysfs: cores and their threads, NUMA nodes, L3 domains, CPUs that may not be used.

Only reads, and only below the given `root`, so a recorded tree stands in for any machine. What a kernel does not report
(no cache folders in a virtual machine, no NUMA) is absent, never guessed. `local_nodes` decides how cores become nodes
of a scheduler.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from cohabit.model.errors import InputError

HOST = Path("/")
_CPUS = Path("sys/devices/system/cpu")
_NUMA = Path("sys/devices/system/node")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


@dataclass(frozen=True)
class Core:
    """One core: the CPUs that are its threads, and its location. `domain` is the id of its L3 cache, if it has one."""

    cpus: tuple[int, ...]
    package: int
    numa: int
    domain: int | None


@dataclass(frozen=True)
class CacheDomain:
    """One L3 cache and the CPUs behind it, including CPUs we may not use. Ids may have gaps; 0: not reported."""

    number: int
    cpus: tuple[int, ...]
    size_bytes: int
    ways: int


@dataclass(frozen=True)
class Topology:
    """The machine as this process may use it. `cores` are those with at least one usable CPU, and only usable CPUs."""

    cores: tuple[Core, ...]
    domains: tuple[CacheDomain, ...]
    numa_bytes: tuple[tuple[int, int], ...]  # (NUMA node, memory); nodes without CPUs included
    online: tuple[int, ...]
    offline: tuple[int, ...]
    forbidden: tuple[int, ...]  # online, but outside the cpuset or affinity of this process
    quota_cpus: float | None  # CPU time a control group allows, in CPUs; None: no limit

    @property
    def memory_bytes(self) -> int:
        """Memory of all NUMA nodes; 0: not reported."""
        return sum(size for _, size in self.numa_bytes)

    @property
    def threads(self) -> int:
        """Threads of the core that has most."""
        return max(len(core.cpus) for core in self.cores)


def discover(root: Path = HOST) -> Topology:
    """Read the machine, or a recorded tree of one."""
    online = parse_cpus(read_text(root / _CPUS / "online")) or tuple(sorted(_numbered(root / _CPUS, "cpu")))
    if not online:
        raise InputError(f"no CPU is listed in {root / _CPUS}", "", "check that sysfs is mounted on /sys")
    allowed = set(parse_cpus(_allowed(root))) or set(online)
    usable = sorted(allowed & set(online))
    if not usable:
        raise InputError("no CPU that this process may use is online", "", "check the cpuset of its control group")
    domains = _domains(root, online)
    return Topology(
        cores=_cores(root, usable, domains),
        domains=domains,
        numa_bytes=tuple(_memory(root)),
        online=online,
        offline=parse_cpus(read_text(root / _CPUS / "offline")),
        forbidden=tuple(cpu for cpu in online if cpu not in allowed),
        quota_cpus=_quota(root),
    )


def allowed_cores() -> tuple[int, ...]:
    """Return the CPUs this process may use."""
    return tuple(sorted(os.sched_getaffinity(0)))


def split_cores(cpus: Sequence[int], root: Path = HOST) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Split CPUs between two programs. Both get half of every socket, so that they share its cache; threads of one core
    stay together."""
    first: list[int] = []
    second: list[int] = []
    for _, socket in groupby(_cores(root, sorted(cpus), ()), lambda core: core.package):
        cores = sorted(core.cpus for core in socket)
        half = (len(cores) + 1) // 2
        first += [cpu for core in cores[:half] for cpu in core]
        second += [cpu for core in cores[half:] for cpu in core]
    if not second:
        raise InputError(
            f"{len(cpus)} CPUs of one core cannot be split between two programs",
            "",
            'use cores = "shared", or a machine with more cores',
        )
    return tuple(first), tuple(second)


def parse_cpus(text: str) -> tuple[int, ...]:
    """Parse a list in the kernel's format: "0-3,8,10-11"; "0-6:2/4" style strides are not used in sysfs."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(found))


def format_cpus(cpus: tuple[int, ...]) -> str:
    """Return a list in the kernel's format, in short form."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def describe(topology: Topology) -> list[str]:
    """Describe the machine in plain sentences."""
    cpus = sum(len(core.cpus) for core in topology.cores)
    packages = len({core.package for core in topology.cores})
    nodes = len({core.numa for core in topology.cores})
    smt = f", {topology.threads} threads each" if topology.threads > 1 else ""
    said = [
        f"{_many(len(topology.cores), 'core')}{smt} on {_many(packages, 'socket')} and "
        f"{_many(nodes, 'NUMA node')} ({_many(cpus, 'CPU')})"
    ]
    if topology.domains:
        sizes = sorted({one.size_bytes for one in topology.domains})
        ways = sorted({one.ways for one in topology.domains})
        ids = format_cpus(tuple(one.number for one in topology.domains))
        said.append(
            f"{_many(len(topology.domains), 'L3 domain')} (ids {ids}) of "
            + " or ".join(f"{size / 2**20:g} MiB" for size in sizes)
            + " and "
            + " or ".join(f"{count} ways" if count else "an unknown number of ways" for count in ways)
        )
    else:
        said.append("the kernel reports no L3 cache: the whole machine counts as one domain")
    if topology.offline:
        said.append(f"CPUs {format_cpus(topology.offline)} are offline")
    if topology.forbidden:
        said.append(f"CPUs {format_cpus(topology.forbidden)} are outside the cpuset or affinity of this process")
    if topology.quota_cpus is not None:
        said.append(f"a control group limits the processor time to {topology.quota_cpus:g} CPUs")
    return said


def _many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _cores(root: Path, usable: list[int], domains: tuple[CacheDomain, ...]) -> tuple[Core, ...]:
    """Return the cores, threads of one core together, ordered by socket, NUMA node, L3 domain and first CPU."""
    domain_of = {cpu: one.number for one in domains for cpu in one.cpus}
    numa_of = {
        cpu: number
        for number, folder in _numbered(root / _NUMA, "node").items()
        for cpu in parse_cpus(read_text(folder / "cpulist"))
    }
    found: dict[tuple[int, ...], Core] = {}
    for cpu in usable:
        place = root / _CPUS / f"cpu{cpu}" / "topology"
        # The list of sibling CPUs, not core_id: core ids repeat across dies and clusters.
        siblings = read_text(place / "core_cpus_list") or read_text(place / "thread_siblings_list")
        threads = tuple(one for one in parse_cpus(siblings) or (cpu,) if one in usable)
        package = max(_integer(place / "physical_package_id"), 0)  # ARM firmware may say -1
        found[threads] = Core(threads, package, numa_of.get(cpu, 0), domain_of.get(cpu))
    return tuple(sorted(found.values(), key=lambda one: (one.package, one.numa, one.domain or 0, one.cpus)))


def _domains(root: Path, online: tuple[int, ...]) -> tuple[CacheDomain, ...]:
    """Return the L3 domains by the CPUs that share them; without cache ids from the kernel they are numbered here."""
    found: dict[tuple[int, ...], CacheDomain] = {}
    for cpu in online:
        for folder in _numbered(root / _CPUS / f"cpu{cpu}" / "cache", "index").values():
            if read_text(folder / "level").strip() == "3":
                cpus = parse_cpus(read_text(folder / "shared_cpu_list")) or (cpu,)
                if cpus not in found:
                    number = _integer(folder / "id", len(found))
                    ways = _integer(folder / "ways_of_associativity", 0)
                    found[cpus] = CacheDomain(number, cpus, _size(read_text(folder / "size")), ways)
    return tuple(sorted(found.values(), key=lambda one: one.number))


def _memory(root: Path) -> Iterator[tuple[int, int]]:
    for number, folder in sorted(_numbered(root / _NUMA, "node").items()):
        for line in read_text(folder / "meminfo").splitlines():
            words = line.split()
            if len(words) > 3 and words[2] == "MemTotal:":
                yield number, int(words[3]) * 2**10


def _allowed(root: Path) -> str:
    """Return the CPUs that the kernel lets this process run on: the cpuset of its group and its affinity together."""
    for line in read_text(root / "proc/self/status").splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return line.partition(":")[2]
    return ""


def _quota(root: Path) -> float | None:
    """Return the tightest limit on processor time from our control group upwards, version 2 or 1."""
    limits = []
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / controllers
        place = mount / path.lstrip("/")
        for folder in (place, *place.parents):
            if controllers:
                quota, period = read_text(folder / "cpu.cfs_quota_us"), read_text(folder / "cpu.cfs_period_us")
            else:
                quota, _, period = read_text(folder / "cpu.max").strip().partition(" ")
            if quota.strip().isdigit() and period.strip().isdigit():
                limits.append(int(quota) / int(period))
            if folder == mount:
                break
    return min(limits, default=None)


def _numbered(folder: Path, prefix: str) -> dict[int, Path]:
    """Return entries such as cpu0, cpu1; not cpufreq."""
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        return {}
    numbers = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    return {int(number): folder / f"{prefix}{number}" for number in numbers if number.isdigit()}


def read_text(path: Path) -> str:
    """Return the content of a small file of the kernel; empty if it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""


def _integer(path: Path, default: int = 0) -> int:
    try:
        return int(read_text(path))
    except ValueError:
        return default


def _size(text: str) -> int:
    """ "32768K" in bytes; 0 where the kernel does not say."""
    word = text.strip()
    unit = _UNITS.get(word[-1:], 1)
    digits = word.rstrip("KMG")
    return int(digits) * unit if digits.isdigit() else 0
