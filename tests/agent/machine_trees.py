"""Small sysfs trees of machines we do not have, written by hand from public descriptions; not recorded on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Tree:
    """One machine: every CPU's siblings, socket and L3 (id, CPUs, size, ways), the NUMA nodes and what is allowed."""

    siblings: dict[int, str]
    package: dict[int, int]
    l3: dict[int, tuple[int, str, str, int]]
    numa: dict[int, tuple[str, int]]  # CPUs, memory in kB
    online: str
    offline: str = ""
    allowed: str = ""
    files: dict[str, str] = field(default_factory=dict)

    def write(self, root: Path) -> Path:
        """Below this folder, as the kernel shows it."""
        files = dict(self.files)
        cpus = "sys/devices/system/cpu"
        files[f"{cpus}/online"], files[f"{cpus}/offline"] = self.online, self.offline
        files[f"{cpus}/cpufreq/ignored"] = "not a CPU"
        for cpu, siblings in self.siblings.items():
            files[f"{cpus}/cpu{cpu}/topology/core_cpus_list"] = siblings
            files[f"{cpus}/cpu{cpu}/topology/physical_package_id"] = str(self.package[cpu])
            files[f"{cpus}/cpu{cpu}/cache/index0/level"] = "1"
            if cpu in self.l3:
                number, shared, size, ways = self.l3[cpu]
                place = f"{cpus}/cpu{cpu}/cache/index3"
                files |= {f"{place}/level": "3", f"{place}/id": str(number), f"{place}/shared_cpu_list": shared,
                          f"{place}/size": size, f"{place}/ways_of_associativity": str(ways)}  # fmt: skip
        for node, (cpulist, kilobytes) in self.numa.items():
            files[f"sys/devices/system/node/node{node}/cpulist"] = cpulist
            files[f"sys/devices/system/node/node{node}/meminfo"] = f"Node {node} MemTotal:  {kilobytes} kB\n"
        if self.allowed:
            files["proc/self/status"] = f"Name:\tx\nCpus_allowed_list:\t{self.allowed}\n"
        for name, text in files.items():
            place_of = root / name
            place_of.parent.mkdir(parents=True, exist_ok=True)
            place_of.write_text(text if text.endswith("\n") else f"{text}\n")
        return root


def intel_two_sockets() -> Tree:
    """Two sockets of four cores with two threads; threads are numbered after all cores; CPU 15 is offline."""
    siblings = {cpu: f"{cpu % 8},{cpu % 8 + 8}" for cpu in range(15)}
    siblings[7] = "7"
    package = {cpu: cpu % 8 // 4 for cpu in range(15)}
    shared = ("0-3,8-11", "4-7,12-14")
    return Tree(
        siblings, package, {cpu: (package[cpu], shared[package[cpu]], "16896K", 11) for cpu in range(15)},
        {0: ("0-3,8-11", 65_000_000), 1: ("4-7,12-14", 66_000_000)}, online="0-14", offline="15", allowed="0-14",
    )  # fmt: skip


def amd_many_domains() -> Tree:
    """One socket, four CCX of two cores without SMT; cache ids 0, 1, 8, 9; a NUMA node with memory and no CPU (CXL)."""
    ids = (0, 1, 8, 9)
    return Tree(
        {cpu: str(cpu) for cpu in range(8)}, dict.fromkeys(range(8), 0),
        {cpu: (ids[cpu // 2], f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}", "32768K", 16) for cpu in range(8)},
        {0: ("0-7", 128_000_000), 1: ("", 256_000_000)}, online="0-7",
    )  # fmt: skip


def arm_container() -> Tree:
    """Firmware that gives no socket (-1) and no ways; a container that may use CPUs 2 and 3 and 1.5 CPUs of time."""
    return Tree(
        {cpu: str(cpu) for cpu in range(4)}, dict.fromkeys(range(4), -1),
        dict.fromkeys(range(4), (1, "0-3", "32M", 0)), {0: ("0-3", 16_000_000)}, online="0-3", allowed="2-3",
        files={
            "proc/self/cgroup": "0::/pod/box", "sys/fs/cgroup/pod/cpu.max": "150000 100000",
            "sys/fs/cgroup/pod/box/cpu.max": "max 100000",
        },
    )  # fmt: skip
