"""Find the cores that Slurm gave a job on this node: from its control group, its processes' affinity, or Slurm.

The first two are in the kernel's numbers. Slurm's CPU_IDs count cores socket by socket, as `topology` orders them, so
they are converted to the kernel's. Only reads.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from cohabit.agent.node.processes import Processes
from cohabit.agent.topology import Topology, parse_cpus, read_text

CGROUPS = Path("/sys/fs/cgroup")
GROUP, AFFINITY, SLURM, UNKNOWN = "its control group", "its processes", "Slurm", ""


@dataclass(frozen=True)
class Given:
    """CPUs of a job on this node, in the kernel's numbers, and the source of that information."""

    cpus: tuple[int, ...] = ()
    source: str = UNKNOWN

    def cores(self, topology: Topology) -> int:
        """Return the number of cores: a core counts once, whatever its threads."""
        own = set(self.cpus)
        return sum(bool(own & set(core.cpus)) for core in topology.cores)


def find_cores(
    number: str, node: str, uid: int, step_daemons: Collection[int], processes: Processes, root: Path = CGROUPS
) -> Given:
    """Find the cores by asking the kernel only; empty if it does not tell (no task/cgroup, no task/affinity)."""
    # Where Slurm makes the control group of a job, in either version.
    folders = [root / "system.slice" / f"{scope}slurmstepd.scope" / f"job_{number}" for scope in ("", f"{node}_")]
    folders += [root / "cpuset" / name / f"uid_{uid}" / f"job_{number}" for name in ("slurm", f"slurm_{node}")]
    for folder in folders:
        for file in ("cpuset.cpus.effective", "cpuset.cpus"):
            if cpus := _parsed(read_text(folder / file)):
                return Given(cpus, GROUP)
    tasks = [pid for pid in processes.below(step_daemons) if pid not in step_daemons]
    cpus, free = _parsed(processes.allowed(tasks)), _parsed(processes.allowed(step_daemons))
    if cpus and set(cpus) < set(free):  # an unbound step daemon says nothing
        return Given(cpus, AFFINITY)
    return Given()


def from_slurm(abstract: Collection[int], topology: Topology) -> Given:
    """Convert CPU_IDs of `scontrol show job -d`: the i-th CPU when cores are counted in order, thread by thread."""
    in_order = [cpu for core in topology.cores for cpu in core.cpus]
    return Given(tuple(sorted(in_order[one] for one in abstract if 0 <= one < len(in_order))), SLURM)


def _parsed(text: str) -> tuple[int, ...]:
    try:
        return parse_cpus(text)
    except ValueError:
        return ()
