"""A resctrl file system in memory that refuses what the kernel refuses, with the kernel's errors and texts.

It offers the verbs of `agent.resctrl.files.Files`. Classes and monitoring ids run out (ENOSPC); an id given back stays
in limbo for some calls (EBUSY); masks and bandwidth are checked for the machine it plays; exclusive groups may not
overlap; a task that does not exist is ESRCH; a counter may answer Unavailable once; domain ids may have gaps. Groups of
others (`add_foreign`) must never be touched: doing so is a failure of the test. Traffic comes from `tick`. It has no
cpus files, no pseudo-locking and no CPU assignment.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NoReturn

from tests.support.resctrl_machines import ALL_EVENTS, INTEL, Machine
from tests.support.resctrl_schemata import Refusal, Values, show, staged

CONTROL_FILES = ("mode", "schemata")


@dataclass
class MonitoringGroup:
    """Its tasks and the values of every domain."""

    tasks: set[int] = field(default_factory=set)
    values: dict[str, dict[str, int]] = field(default_factory=dict)
    unavailable: set[str] = field(default_factory=set)  # events that answer so at the next read


@dataclass
class ControlGroup:
    """A class of service: its own tasks and counters, its values, and the monitoring groups in it."""

    own: MonitoringGroup
    schemata: Values
    mode: str = "shareable"
    inner: dict[str, MonitoringGroup] = field(default_factory=dict)


class FakeResctrl:
    """One mounted file system; `alive` are the tasks that exist, as a set or a function."""

    def __init__(
        self,
        alive: Collection[int] | Callable[[int], bool],
        root: str = "/sys/fs/resctrl",
        ids: int | None = None,
        domains: tuple[int, ...] | None = None,
        limbo_calls: int = 0,
        events: tuple[str, ...] | None = None,
        machine: Machine = INTEL,
    ) -> None:
        self._exists = alive if callable(alive) else alive.__contains__
        self.root, self.machine = PurePosixPath(root), machine
        self.ids = machine.rmids if ids is None else ids
        self.events = machine.events if events is None else events
        self._numbers = machine.domains if domains is None else domains
        self.domains = [f"mon_L3_{number:02}" for number in self._numbers]
        self.limbo_calls, self.limbo = limbo_calls, 0
        self.mounted, self.status = True, "ok"
        self.default = ControlGroup(self._counters(), self._all_values())
        self.classes: dict[str, ControlGroup] = {}
        self.foreign: set[str] = set()
        self.touched: list[str] = []  # foreign groups that were touched; must stay empty

    # ---- for tests ----

    @property
    def groups(self) -> dict[str, MonitoringGroup]:
        """The monitoring groups under the root."""
        return self.default.inner

    def add_foreign(self, name: str) -> None:
        """Add a foreign monitoring group, which must never be touched."""
        self.groups[name] = self._counters()
        self.foreign.add(f"mon_groups/{name}")

    def add_foreign_class(self, name: str, mode: str = "shareable", masks: dict[int, int] | None = None) -> None:
        """Add a foreign class, which must never be touched."""
        self.classes[name] = ControlGroup(self._counters(), self._all_values(), mode)
        for resource in self.machine.caches:
            self.classes[name].schemata[resource] |= masks or {}
        self.foreign.add(name)

    def tick(self, task: int, total: int, local: int, occupancy: int) -> None:
        """Let a task move so many bytes through the first domain and hold so much cache."""
        for group in self._all_groups():
            if task in group.tasks:
                values = group.values[self.domains[0]]
                values["mbm_total_bytes"] += total
                values["mbm_local_bytes"] += local
                values["llc_occupancy"] = occupancy

    def class_of(self, task: int) -> str:
        """The class a task is in; "" is the root's."""
        for name, group in self.classes.items():
            if any(task in one.tasks for one in (group.own, *group.inner.values())):
                return name
        return ""

    def unmount(self) -> None:
        """Remove all groups, as the kernel does; the folder is then empty."""
        self.classes.clear()
        self.groups.clear()
        self.foreign.clear()
        self.mounted = False

    # ---- the verbs ----

    def make(self, path: Path) -> None:
        """mkdir: a class below the root, a monitoring group below a mon_groups."""
        parts = self._parts(path)
        self.status = "ok"
        if "\n" in parts[-1]:
            self._refuse(errno.EINVAL)
        if len(parts) == 1 and self.machine.classes > 1:
            self._make_class(parts[0])
            return
        if parts[-2:-1] != ("mon_groups",) or parts[-1] == "mon_groups" or not self.events:
            self._refuse(errno.EPERM)
        parent = self._class(parts[:-2])
        if parts[-1] in parent.inner:
            self._refuse(errno.EEXIST)
        self._take_id()
        parent.inner[parts[-1]] = self._counters()

    def remove(self, path: Path) -> None:
        """rmdir: its tasks go to the group above, its id into limbo."""
        parts = self._parts(path)
        self.status = "ok"
        if parts in (("info",), ("mon_groups",), ("mon_data",)) or len(parts) not in (1, 2, 3):
            self._refuse(errno.EPERM)
        self._keep_off(parts)
        if len(parts) == 1:
            gone = self._class(parts)
            for one in (gone.own, *gone.inner.values()):
                self.default.own.tasks |= one.tasks
            del self.classes[parts[0]]
        else:
            parent, name = self._monitoring(parts)
            parent.own.tasks |= parent.inner.pop(name).tasks
        self.limbo = self.limbo_calls

    def move(self, source: Path, target: Path) -> None:
        """rename: a monitoring group goes to another class with its tasks and counters."""
        origin, goal = self._parts(source), self._parts(target)
        self.status = "ok"
        if not self.machine.moves:
            self._refuse(errno.EPERM)
        if origin[-2:-1] != ("mon_groups",) or goal[-2:-1] != ("mon_groups",):
            self._refuse(errno.EPERM, "Source must be a MON group")
        self._keep_off(origin)
        self._keep_off(goal[:-2])
        parent, name = self._monitoring(origin)
        new_parent = self._class(goal[:-2])
        if goal[-1] in new_parent.inner:
            self._refuse(errno.EEXIST, "Destination already exists")
        new_parent.inner[goal[-1]] = parent.inner.pop(name)

    def names(self, path: Path) -> list[str]:
        """ls."""
        if not self.mounted:
            if PurePosixPath(path) == self.root:
                return []
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        parts = self._parts(path)
        monitoring = ["mon_data", "mon_groups"] if self.events else []
        if parts[:1] == ("info",):
            return self._info_names(parts)
        if not parts:
            return sorted([*self.classes, "info", "tasks", *monitoring, *(CONTROL_FILES if self._controls else ())])
        if parts[-1] == "mon_groups" and len(parts) < 3 and self.events:
            return sorted(self._class(parts[:-1]).inner)
        if parts[-1] == "mon_data" and self.events:
            self._group(parts[:-1])
            return list(self.domains)
        if parts[-2:-1] == ("mon_data",) and parts[-1] in self.domains:
            return sorted(self.events)
        if len(parts) == 1 and parts[0] in self.classes:
            return sorted([*CONTROL_FILES, "tasks", *monitoring])
        self._monitoring(parts)
        return ["mon_data", "tasks"]

    def read(self, path: Path) -> str:
        """cat."""
        parts = self._parts(path)
        if parts[:1] == ("info",):
            return self._info(parts[1:])
        if parts[-1] == "schemata":
            return show(self._class(parts[:-1]).schemata, self.machine)
        if parts[-1] == "mode":
            return f"{self._class(parts[:-1]).mode}\n"
        if parts[-1] == "tasks":
            tasks = set(self._group(parts[:-1]).tasks)
            if len(parts) < 3:  # a class shows those in its monitoring groups too; the root's others are left out here
                tasks = tasks.union(*(one.tasks for one in self._class(parts[:-1]).inner.values()))
            return "".join(f"{task}\n" for task in sorted(tasks) if self._exists(task))
        return self._counter(parts)

    def write(self, path: Path, text: str) -> None:
        """echo."""
        parts = self._parts(path)
        self._keep_off(parts)
        self.status = "ok"
        if parts[-1] == "schemata":
            self._write_schemata(self._class(parts[:-1]), text)
        elif parts[-1] == "mode":
            self._write_mode(self._class(parts[:-1]), text)
        elif parts[-1] == "tasks":
            self._write_tasks(parts[:-1], text)
        else:
            self._refuse(errno.EACCES)

    # ---- groups ----

    def _make_class(self, name: str) -> None:
        if name in self.names(Path(self.root)):
            self._refuse(errno.EEXIST)
        if len(self.classes) + 1 >= self.machine.classes:
            self._refuse(errno.ENOSPC, "Out of CLOSIDs")
        fresh = self._all_values()
        for resource in self.machine.caches:
            for domain in self._numbers:
                for other in self.classes.values():
                    if other.mode == "exclusive":
                        fresh[resource][domain] &= ~other.schemata[resource][domain]
                if fresh[resource][domain].bit_count() < self.machine.min_bits:
                    self._refuse(errno.ENOSPC, f"No space on {resource}:{domain}")
        if self.events:
            self._take_id()
        self.classes[name] = ControlGroup(self._counters(), fresh)

    def _take_id(self) -> None:
        if self.limbo > 0:
            self.limbo -= 1
            self._refuse(errno.EBUSY, "Out of RMIDs")
        used = 1 + len(self.groups) + sum(1 + len(group.inner) for group in self.classes.values())
        if used >= self.ids:
            self._refuse(errno.ENOSPC, "Out of RMIDs")

    def _write_schemata(self, group: ControlGroup, text: str) -> None:
        try:
            asked = staged(text, self.machine, group.schemata)
        except Refusal as refusal:
            self._refuse(errno.EINVAL, str(refusal))
        for resource, values in asked.items():
            for domain, value in values.items() if resource != "MB" else ():
                for other in (self.default, *self.classes.values()):
                    if other is not group and other.schemata[resource][domain] & value:
                        if other.mode == "exclusive":
                            self._refuse(errno.EINVAL, "Overlaps with exclusive group")
                        if group.mode == "exclusive":
                            self._refuse(errno.EINVAL, "Overlaps with other group")
        for resource, values in asked.items():
            group.schemata[resource] |= values

    def _write_mode(self, group: ControlGroup, text: str) -> None:
        word = text.strip()
        if not text.endswith("\n") or word not in ("shareable", "exclusive"):
            self._refuse(errno.EINVAL, "Unknown or unsupported mode")
        if word == "exclusive":
            if not self.machine.caches:
                self._refuse(errno.EINVAL, "Cannot be exclusive without CAT/CDP")
            for other in (self.default, *self.classes.values()):
                if other is not group and any(
                    group.schemata[resource][domain] & (other.schemata[resource][domain] | self.machine.shareable)
                    for resource in self.machine.caches
                    for domain in self._numbers
                ):
                    self._refuse(errno.EINVAL, "Schemata overlaps")
        group.mode = word

    def _write_tasks(self, parts: tuple[str, ...], text: str) -> None:
        group = self._group(parts)
        for word in text.strip().split(","):
            if not word.strip().isdigit():
                self._refuse(errno.EINVAL, f"Task list parsing error pid {word.strip()}")
            task = int(word) or os.getpid()
            if not self._exists(task):
                self._refuse(errno.ESRCH, f"No task {task}")
            if parts[-2:-1] == ("mon_groups",) and self.class_of(task) != "".join(parts[:-2]):
                self._refuse(errno.EINVAL, "Can't move task to different control group")
            for other in self._all_groups():
                other.tasks.discard(task)
            group.tasks.add(task)

    # ---- answers ----

    @property
    def _controls(self) -> bool:
        return bool(self.machine.caches or self.machine.bandwidth_most)

    def _info_names(self, parts: tuple[str, ...]) -> list[str]:
        files = self._info_files()
        inside = "".join(f"{part}/" for part in parts[1:])
        found = {name.removeprefix(inside).split("/")[0] for name in files if name.startswith(inside)}
        return sorted(found) if found else self._refuse(errno.ENOENT)

    def _info(self, parts: tuple[str, ...]) -> str:
        files = self._info_files()
        name = "/".join(parts)
        return f"{files[name]}\n" if name in files else self._refuse(errno.ENOENT)

    def _info_files(self) -> dict[str, str]:
        one = self.machine
        files = {"last_cmd_status": self.status}
        for cache in one.caches:
            files |= {
                f"{cache}/cbm_mask": f"{one.mask:x}",
                f"{cache}/min_cbm_bits": f"{one.min_bits}",
                f"{cache}/shareable_bits": f"{one.shareable:x}",
                f"{cache}/sparse_masks": f"{int(one.sparse)}",
                f"{cache}/num_closids": f"{one.cache_closids}",
            }
        if one.bandwidth_most:
            files |= {
                "MB/min_bandwidth": f"{one.bandwidth_least}",
                "MB/bandwidth_gran": f"{one.bandwidth_step}",
                "MB/delay_linear": f"{int(one.linear)}",
                "MB/num_closids": f"{one.bandwidth_closids}",
            }
        if self.events:
            files |= {"L3_MON/mon_features": "\n".join(self.events), "L3_MON/num_rmids": f"{self.ids}"}
        return files

    def _counter(self, parts: tuple[str, ...]) -> str:
        """CTRL_MON values are their own and those of the monitoring groups in it."""
        if len(parts) < 3 or parts[-3] != "mon_data" or parts[-1] not in self.events or parts[-2] not in self.domains:
            self._refuse(errno.ENOENT)
        event, domain = parts[-1], parts[-2]
        group = self._group(parts[:-3])
        if event in group.unavailable:
            group.unavailable.discard(event)
            return "Unavailable\n"
        inner = self._class(parts[:-3]).inner.values() if len(parts) < 5 else ()
        return f"{sum(one.values[domain][event] for one in (group, *inner))}\n"

    # ---- paths ----

    def _parts(self, path: Path) -> tuple[str, ...]:
        if not self.mounted:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        try:
            return PurePosixPath(path).relative_to(self.root).parts
        except ValueError:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None

    def _class(self, parts: tuple[str, ...]) -> ControlGroup:
        if not parts:
            return self.default
        if len(parts) != 1 or parts[0] not in self.classes:
            self._refuse(errno.ENOENT)
        return self.classes[parts[0]]

    def _monitoring(self, parts: tuple[str, ...]) -> tuple[ControlGroup, str]:
        parent = self._class(parts[:-2])
        if parts[-2:-1] != ("mon_groups",) or parts[-1] not in parent.inner:
            self._refuse(errno.ENOENT)
        return parent, parts[-1]

    def _group(self, parts: tuple[str, ...]) -> MonitoringGroup:
        if len(parts) < 2:
            return self._class(parts).own
        parent, name = self._monitoring(parts)
        return parent.inner[name]

    def _all_groups(self) -> list[MonitoringGroup]:
        return [one for group in (self.default, *self.classes.values()) for one in (group.own, *group.inner.values())]

    def _counters(self) -> MonitoringGroup:
        return MonitoringGroup(values={domain: dict.fromkeys(ALL_EVENTS, 0) for domain in self.domains})

    def _all_values(self) -> Values:
        found = {cache: dict.fromkeys(self._numbers, self.machine.mask) for cache in self.machine.caches}
        if self.machine.bandwidth_most:
            found["MB"] = dict.fromkeys(self._numbers, self.machine.bandwidth_default)
        return found

    def _keep_off(self, parts: tuple[str, ...]) -> None:
        """Touching a foreign group is a failure of the test, not of the file system."""
        inside = "/".join(parts)
        if any(inside == name or inside.startswith(f"{name}/") for name in self.foreign):
            self.touched.append(inside)
            raise AssertionError(f"touched {inside!r}, which is not ours")

    def _refuse(self, number: int, words: str = "") -> NoReturn:
        self.status = words or self.status
        raise OSError(number, os.strerror(number))
