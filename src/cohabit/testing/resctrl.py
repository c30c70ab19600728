"""A resctrl file system in memory that refuses what the kernel refuses: monitoring groups, ids, limbo, dead tasks.

It offers the verbs of `agent.sensors.resctrl.Files` and raises the kernel's errors. Monitoring ids run out (ENOSPC); an
id given back stays in limbo for some calls (EBUSY); a command needs its newline (EINVAL); a task that does not exist is
ESRCH; a counter may answer Unavailable once; a domain may have a gap in its number. Traffic comes from `tick`.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

EVENTS = ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes")


@dataclass
class MonitoringGroup:
    """Its tasks and the values of every domain."""

    tasks: set[int] = field(default_factory=set)
    values: dict[str, dict[str, int]] = field(default_factory=dict)
    unavailable: set[str] = field(default_factory=set)  # events that answer so at the next read


class FakeResctrl:
    """One mounted file system; `alive` are the tasks that exist."""

    def __init__(
        self, alive: set[int], root: str = "/sys/fs/resctrl", ids: int = 8, domains: tuple[int, ...] = (0, 2),
        limbo_calls: int = 0, events: tuple[str, ...] = EVENTS,
    ) -> None:  # fmt: skip
        self.alive, self.root, self.ids, self.events = alive, PurePosixPath(root), ids, events
        self.domains = [f"mon_L3_{number:02}" for number in domains]
        self.limbo_calls, self.limbo = limbo_calls, 0
        self.groups: dict[str, MonitoringGroup] = {}
        self.foreign: set[str] = set()

    def add_foreign(self, name: str) -> None:
        """A group of somebody else, which must never be touched."""
        self.groups[name] = self._group()
        self.foreign.add(name)

    def tick(self, task: int, total: int, local: int, occupancy: int) -> None:
        """A task moved so many bytes through the first domain and now holds so much cache."""
        for group in self.groups.values():
            if task in group.tasks:
                values = group.values[self.domains[0]]
                values["mbm_total_bytes"] += total
                values["mbm_local_bytes"] += local
                values["llc_occupancy"] = occupancy

    def make(self, path: Path) -> None:
        """mkdir of a monitoring group."""
        parent, name = PurePosixPath(path).parent, path.name
        if parent != self.root / "mon_groups" or name == "mon_groups" or "\n" in name:
            raise OSError(errno.EPERM, "Operation not permitted")
        if name in self.groups:
            raise OSError(errno.EEXIST, "File exists")
        if self.limbo > 0:
            self.limbo -= 1
            raise OSError(errno.EBUSY, "Device or resource busy")
        if len(self.groups) + 1 >= self.ids:  # the root has one
            raise OSError(errno.ENOSPC, "No space left on device")
        self.groups[name] = self._group()

    def remove(self, path: Path) -> None:
        """rmdir: its tasks go back to the root, its id into limbo."""
        name = self._owned(path)
        if name in self.foreign:
            raise AssertionError(f"removed the group {name!r}, which is not ours")
        del self.groups[name]
        self.limbo = self.limbo_calls

    def names(self, path: Path) -> list[str]:
        """ls."""
        inside = PurePosixPath(path)
        if inside == self.root:
            return ["info", "mon_data", "mon_groups", "tasks"]
        if inside == self.root / "mon_groups":
            return sorted(self.groups)
        if inside.name == "mon_data":
            self._owned(path.parent)
            return list(self.domains)
        raise OSError(errno.ENOENT, "No such file or directory")

    def read(self, path: Path) -> str:
        """cat."""
        inside = PurePosixPath(path)
        if inside == self.root / "info" / "L3_MON" / "mon_features":
            return "".join(f"{event}\n" for event in self.events)
        event, domain = inside.name, inside.parent.name
        group = self.groups[self._owned(path.parents[2])]
        if event not in self.events or domain not in self.domains:
            raise OSError(errno.ENOENT, "No such file or directory")
        if event in group.unavailable:
            group.unavailable.discard(event)
            return "Unavailable\n"
        return f"{group.values[domain][event]}\n"

    def write(self, path: Path, text: str) -> None:
        """echo into tasks."""
        if path.name != "tasks":
            raise OSError(errno.EACCES, "Permission denied")
        group = self.groups[self._owned(path.parent)]
        if not text.endswith("\n") or not text.strip().isdigit():
            raise OSError(errno.EINVAL, "Invalid argument")
        task = int(text)
        if task not in self.alive:
            raise OSError(errno.ESRCH, "No such process")
        for other in self.groups.values():
            other.tasks.discard(task)
        group.tasks.add(task)

    def _group(self) -> MonitoringGroup:
        return MonitoringGroup(values={domain: dict.fromkeys(EVENTS, 0) for domain in self.domains})

    def _owned(self, path: Path) -> str:
        if PurePosixPath(path).parent != self.root / "mon_groups" or path.name not in self.groups:
            raise OSError(errno.ENOENT, "No such file or directory")
        return path.name
