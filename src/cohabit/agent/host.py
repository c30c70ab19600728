"""Report what this machine offers for sharing nodes: cores, caches, resctrl, counters, control groups. Only reads.

For people (`cohabit doctor`): every line says what was found and, if something is missing, what would change that.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cohabit.agent import control_groups, topology
from cohabit.agent.resctrl import offer as resctrl
from cohabit.agent.resctrl.files import Files, HostFiles, find_mount
from cohabit.model.errors import InputError

_MOUNT = "mount -t resctrl resctrl /sys/fs/resctrl (as root)"
_NO_RESCTRL = "needs Intel RDT, AMD QoS or ARM MPAM, not hidden by a virtual machine, and a kernel built with resctrl"


@dataclass(frozen=True)
class HostOffer:
    """One checked feature."""

    what: str
    available: bool
    found: str
    advice: str = ""


def host_offers(root: Path = topology.HOST, files: Files | None = None) -> list[HostOffer]:
    """Return all features, in the order a person would ask; `root` is the host's, or that of a recorded tree."""
    return [*_processor(root), *_resctrl(root, files or HostFiles()), _counters(root), *_control_groups(root)]


def _processor(root: Path) -> list[HostOffer]:
    try:
        said = topology.describe(topology.discover(root))
    except InputError as error:
        return [HostOffer("processor", False, error.what, error.fix)]
    return [
        HostOffer("processor", True, said[0]),
        HostOffer("last-level cache", "no L3" not in said[1], said[1]),
        *(HostOffer("limits", True, one) for one in said[2:]),
    ]


def _resctrl(root: Path, files: Files) -> list[HostOffer]:
    what = "cache partitioning (resctrl)"
    mount = find_mount(root / "proc/self/mounts")
    if mount is None:
        known = "\tresctrl" in topology.read_text(root / "proc/filesystems")
        if known:
            return [HostOffer(what, False, "the kernel has it, but it is not mounted", _MOUNT)]
        return [HostOffer(what, False, "neither processor nor kernel offer it here", _NO_RESCTRL)]
    try:
        found = resctrl.read_offer(files, mount)
    except OSError as error:
        return [HostOffer(what, False, f"{mount.root} cannot be read: {error.strerror}", _MOUNT)]
    offers = [HostOffer(what, found.cache is not None, f"mounted on {mount.root}")]
    return offers + [
        HostOffer("resctrl", "no" not in one.split() and "cannot" not in one, one) for one in resctrl.describe(found)
    ]


def _counters(root: Path) -> HostOffer:
    """Find counters: the kernel lists a device per counting unit; software, tracepoint and so on are not hardware."""
    devices = root / "sys/bus/event_source/devices"
    names = sorted(one.name for one in devices.iterdir()) if devices.is_dir() else []
    cores = [name for name in names if name in ("cpu", "cpu_core", "cpu_atom") or name.startswith("arm")]
    memory = [name for name in names if name.startswith(("uncore_imc", "amd_umc", "amd_df"))]
    paranoid = topology.read_text(root / "proc/sys/kernel/perf_event_paranoid").strip()
    if not cores:
        return HostOffer(
            "hardware counters",
            False,
            "none: a virtual machine, or a processor the kernel does not know",
            "use `cohabit measure` with valgrind instead",
        )
    beside = f"; of the memory: {', '.join(memory)}" if memory else ""
    return HostOffer("hardware counters", True, f"{', '.join(cores)}{beside}; perf_event_paranoid = {paranoid or '?'}")


def _control_groups(root: Path) -> list[HostOffer]:
    """Return which version is mounted where, and what it can limit."""
    offers = []
    first: set[str] = set()
    for line in topology.read_text(root / "proc/self/mounts").splitlines():
        words = line.split()
        if len(words) > 3 and words[2] == "cgroup2":
            able = topology.read_text(root / words[1].lstrip("/") / "cgroup.controllers").split()
            shown = ", ".join(able) if able else "no controllers"
            advice = "" if able else "version 1 has the controllers; jobs are limited through that"
            offers.append(HostOffer("control groups, version 2", bool(able), f"{words[1]}: {shown}", advice))
        elif len(words) > 3 and words[2] == "cgroup":
            first |= {
                one for one in words[3].split(",") if one in ("cpu", "cpuset", "memory", "freezer", "pids", "blkio")
            }
    if first:
        offers.append(HostOffer("control groups, version 1", True, ", ".join(sorted(first))))
    if root == topology.HOST and offers:
        offers.append(_limits())
    return offers or [HostOffer("control groups", False, "none are mounted", "mount cgroup2 on /sys/fs/cgroup")]


def _limits() -> HostOffer:
    """Return what this process could limit for jobs; `up` reports it again when it tries."""
    open_to_us = [name for name, own in control_groups.find_trees().items() if os.access(own, os.W_OK)]
    if not open_to_us:
        return HostOffer(
            "limits for jobs",
            False,
            "our own control groups are not writable: memory is not limited",
            "serve as root, or with Delegate=yes in a systemd unit",
        )
    return HostOffer("limits for jobs", True, f"groups can be made in: {', '.join(sorted(open_to_us))}")
