"""Statistics and pressure of a control group of its own: exact for the whole tree, whatever it forks.

The group is made below our own, so all limits stay in force, and removed afterwards. Version 2 gives processor time and
pressure, and memory and storage if those controllers are on; version 1 gives processor time. It never touches a group
that a living process other than ours made.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from functools import cached_property
from itertools import count
from pathlib import Path

from cohabit.agent import control_groups
from cohabit.agent.sensors.pressure import RESOURCES, read_pressure
from cohabit.agent.sensors.source import Offer, Source, Watch

_numbers = count()


class Cgroup(Source):
    """The source; it finds the mounts of version 2 and version 1 by itself."""

    name = "cgroup"

    def offer(self) -> Offer:
        """Make a group, see what it shows, remove it."""
        if not self._parents:
            return Offer(self.name, False, "no control groups are mounted", "mount cgroup2")
        try:
            watch = CgroupWatch(self._parents, None)
        except OSError as error:
            reason = f"no group can be made: {(error.strerror or str(error)).lower()}"
            return Offer(self.name, False, reason, "run as root, or in a delegated group (systemd: Delegate=yes)")
        return Offer(self.name, True, "", "", tuple(watch.stop()))

    def watch(self, pid: int, folder: Path) -> Watch:
        """Make a new group with the process in it; children are born into it."""
        return CgroupWatch(self._parents, pid)

    @cached_property
    def _parents(self) -> list[Path]:
        """Return our own group in the version 2 tree and, for processor time, in version 1."""
        trees = (control_groups.UNIFIED, "cpuacct")
        return [Path(place) for tree, place in control_groups.own_groups().items() if tree in trees]


class CgroupWatch(Watch):
    """One group per tree of groups."""

    def __init__(self, parents: list[Path], pid: int | None) -> None:
        name = f"cohabit-{os.getpid()}-{next(_numbers)}"
        self.groups: list[Path] = []
        try:
            for parent in parents:
                _remove_stale(parent)
                group = parent / name
                group.mkdir()
                self.groups.append(group)
                if pid is not None:
                    (group / "cgroup.procs").write_text(str(pid))
        except OSError:
            self._remove()
            raise

    def sample(self) -> Mapping[str, float]:
        """Return all values that the groups show; version 2 wins."""
        found: dict[str, float] = {}
        for group in self.groups:
            for name, value in self._read(group).items():
                found.setdefault(name, value)
        return found

    def stop(self) -> Mapping[str, float]:
        """Return the last values, which outlive the program, and remove the groups."""
        last = self.sample()
        self._remove()
        return last

    def _read(self, group: Path) -> dict[str, float]:
        found = {f"pressure_{name}": read_pressure(group / f"{name}.pressure") for name in RESOURCES}
        found |= {
            "task_clock": _number(group / "cpuacct.usage", 1e-9),
            "user_time": _number(group / "cpuacct.usage_user", 1e-9),
            "system_time": _number(group / "cpuacct.usage_sys", 1e-9),
            "resident_bytes": _number(group / "memory.current", 1.0),
        }
        used = _pairs(group / "cpu.stat")
        for name, key in (("task_clock", "usage_usec"), ("user_time", "user_usec"), ("system_time", "system_usec")):
            if key in used:
                found[name] = used[key] * 1e-6
        storage = _devices(group / "io.stat")
        if storage is not None:
            found["io_read_bytes"], found["io_write_bytes"] = storage
        return {name: value for name, value in found.items() if value is not None}

    def _remove(self) -> None:
        """Remove the groups; a group can be busy for a moment after its last process has gone."""
        control_groups.remove({"path": group} for group in self.groups)
        self.groups = []


def _remove_stale(parent: Path) -> None:
    """Remove empty groups of killed measurements."""
    for group in parent.glob("cohabit-*-*"):
        if not Path("/proc", group.name.split("-")[1]).exists():
            with contextlib.suppress(OSError):
                group.rmdir()


def _number(path: Path, scale: float) -> float | None:
    try:
        return int(path.read_text()) * scale
    except (OSError, ValueError):
        return None


def _pairs(path: Path) -> dict[str, int]:
    try:
        return {key: int(value) for key, value in (line.split() for line in path.read_text().splitlines())}
    except (OSError, ValueError):
        return {}


def _devices(path: Path) -> tuple[float, float] | None:
    """Return bytes read and written over all devices."""
    try:
        words = path.read_text().split()
    except OSError:
        return None
    amounts = [word.partition("=") for word in words]
    return (
        float(sum(int(value) for key, _, value in amounts if key == "rbytes")),
        float(sum(int(value) for key, _, value in amounts if key == "wbytes")),
    )
