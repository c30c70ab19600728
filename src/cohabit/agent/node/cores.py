"""Find the cores that Slurm gave a job on this node: from its control group, its processes' affinity, or Slurm.

The first two are in the kernel's numbers. Slurm's CPU_IDs count cores socket by socket, as `topology` orders them, so
they are converted to the kernel's. Only reads.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from cohabit.agent.node.processes import Processes
from cohabit.agent.topology import Topology, parse_cpus

CGROUPS = Path("/sys/fs/cgroup")
GROUP, AFFINITY, SLURM, NOBODY = "its control group", "its processes", "Slurm", ""


@dataclass(frozen=True)
class Given:
    """CPUs of a job on this node, in the kernel's numbers, and the source of that information."""

    cpus: tuple[int, ...] = ()
    source: str = NOBODY

    def cores(self, topology: Topology) -> int:
        """Return the number of cores: a core counts once, whatever its threads."""
        own = set(self.cpus)
        return sum(bool(own & set(core.cpus)) for core in topology.cores)


def find_cores(
    number: str, node: str, uid: int, shepherds: Collection[int], processes: Processes, root: Path = CGROUPS
) -> Given:  # fmt: skip
    """Find the cores by asking the kernel only; empty if it does not tell (no task/cgroup, no task/affinity)."""
    for folder in group_folders(number, node, uid, root):
        for file in ("cpuset.cpus.effective", "cpuset.cpus"):
            cpus = _list(folder / file)
            if cpus:
                return Given(cpus, GROUP)
    tasks = [pid for pid in processes.below(shepherds) if pid not in shepherds]
    cpus, free = _parsed(processes.allowed(tasks)), _parsed(processes.allowed(shepherds))
    if cpus and set(cpus) < set(free):  # an unbound shepherd says nothing
        return Given(cpus, AFFINITY)
    return Given()


def group_folders(number: str, node: str, uid: int, root: Path = CGROUPS) -> Iterator[Path]:
    """Yield the folders where Slurm makes the control group of a job, in either version, if they exist."""
    candidates = [
        root / "system.slice" / f"{scope}slurmstepd.scope" / f"job_{number}" for scope in ("", f"{node}_")
    ] + [
        root / "cpuset" / name / f"uid_{uid}" / f"job_{number}" for name in ("slurm", f"slurm_{node}")
    ]  # fmt: skip
    return (folder for folder in candidates if os.path.isdir(folder))


def from_slurm(abstract: Collection[int], topology: Topology) -> Given:
    """Convert CPU_IDs of `scontrol show job -d`: the i-th CPU when cores are counted in order, thread by thread."""
    in_order = [cpu for core in topology.cores for cpu in core.cpus]
    return Given(tuple(sorted(in_order[one] for one in abstract if 0 <= one < len(in_order))), SLURM)


def _list(path: Path) -> tuple[int, ...]:
    try:
        return _parsed(path.read_text())
    except OSError:
        return ()


def _parsed(text: str) -> tuple[int, ...]:
    try:
        return parse_cpus(text)
    except ValueError:
        return ()
