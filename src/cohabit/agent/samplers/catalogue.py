"""The list of samplers: the name of the source, the function that reads it, and what to say where there is none."""

from __future__ import annotations

from pathlib import Path

from cohabit.agent.samplers import disk, infiniband, load, lustre, network, omni_path, pressure
from cohabit.agent.samplers.sampler import HOST, Sampler

_NONE = "nothing to do where there is none; otherwise"
_SAMPLERS = (
    ("sysclassib", infiniband.read, "no InfiniBand adapter has counters here", f"{_NONE} load its driver"),
    ("opa_info", omni_path.read, "no Omni-Path adapter has counters here", f"{_NONE} load hfi1"),
    ("lustre2_client", lustre.read, "no Lustre file system shows its statistics", f"{_NONE} run as root"),
    ("network", network.read, "/proc/net/dev lists no device", "mount proc"),
    ("disk", disk.read, "/proc/diskstats lists no disk", "nothing to do on a diskless node"),
    ("pressure", pressure.read, "the kernel keeps no pressure statistics", "boot with psi=1"),
    ("load", load.read, "there is no /proc/loadavg", "mount proc"),
)


def all_samplers(root: Path = HOST) -> list[Sampler]:
    """Return one of each; `root` is the host's, or that of a tree of files that looks like one."""
    return [Sampler(*one, root) for one in _SAMPLERS]
