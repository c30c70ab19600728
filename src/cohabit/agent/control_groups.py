"""Control groups of runs: made before a run's first process, joined by that process itself, killed and removed whole.

Version 2 and version 1 are used side by side, whatever is mounted. Groups are always below the group of the caller, so
limits on the caller hold for jobs too. Standard library only: a runner imports this without site packages. Where groups
cannot be made, jobs run without them and the reason is returned. Groups outside our own folder are never touched.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import signal
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

FOLDER = "cohabit"  # below our own group; it has a folder for every place, and that has a group for every run
UNIFIED = "unified"  # the name of the tree of version 2
CONTROLLER = "controller"  # version 2: our own processes, as a group that limits subgroups must have none itself
LIMITS = ("memory", "pids", "cpuset")  # controllers that limit something
FIRST_VERSION = (*LIMITS, "freezer")
_PATIENCE_S, _PAUSE_S = 10.0, 0.005  # processes can take long to die on a busy machine
_AGAIN = 20  # tries to make folders again that another process removed
Group = Mapping[str, Any]  # path, join (a file), settings [(file, text)]: plain data, kept in the run's folder


@dataclass(frozen=True)
class Offer:
    """The folders below which groups of runs can be made, by tree; `limits` are the controllers that work."""

    trees: Mapping[str, str] = field(default_factory=dict)
    limits: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def find_trees() -> dict[str, str]:
    """Return our own groups in the trees that are used here."""
    return {name: place for name, place in own_groups().items() if name in (UNIFIED, *FIRST_VERSION)}


def own_groups() -> dict[str, str]:
    """Return our own group in every tree that is mounted: "unified", or a controller of version 1."""
    mine: dict[str, str] = {}
    for line in _text("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        mine |= dict.fromkeys(controllers.split(",") if controllers else [UNIFIED], path)
    found: dict[str, str] = {}
    for line in _text("/proc/self/mounts").splitlines():
        words = line.split()
        if len(words) < 4 or words[2] not in ("cgroup", "cgroup2"):
            continue
        for name in [UNIFIED] if words[2] == "cgroup2" else [one for one in words[3].split(",") if one in mine]:
            place = os.path.join(words[1], mine.get(name, "/").lstrip("/"))
            # In a container the path may be that of the host: then the mount itself is our group.
            found.setdefault(name, place if os.path.isdir(place) else words[1])
    return found


def folder_of(place: str | os.PathLike[str]) -> str:
    """Return the name of our folder for the runs below this place."""
    return hashlib.sha256(os.fsencode(place)).hexdigest()[:12]


def prepare(place: str, trees: Mapping[str, str]) -> Offer:
    """Make the folder `place` (a name) in every tree that permits it, with the controllers enabled there."""
    usable: dict[str, str] = {}
    limits: list[str] = []
    problems: list[str] = []
    for tree, own in trees.items():
        for left in reversed(range(_AGAIN)):
            try:
                usable[tree], able = _prepare(tree, own, place, trees)
                limits += able
                break
            except FileNotFoundError as error:
                # Another launcher that ends now removes the shared folder if no process is in it yet.
                problems += [] if left else [f"{tree} control groups cannot be used: {_reason(error)}"]
            except OSError as error:
                problems.append(f"{tree} control groups cannot be used: {_reason(error)}")
                break
    return Offer(usable, tuple(limits), tuple(problems))


def _prepare(tree: str, own: str, place: str, trees: Collection[str]) -> tuple[str, list[str]]:
    """Make the folder in one tree; return it and the controllers that limit something there."""
    limits = [tree] if tree in LIMITS else []
    if tree == UNIFIED:
        own = _above_processes(own)
        able = _text(own, "cgroup.controllers").split()
        limits = _switch_on(own, [one for one in LIMITS if one in able and one not in trees])
    path = own
    for name in (FOLDER, place):
        above, path = path, os.path.join(path, name)
        os.makedirs(path, exist_ok=True)
        if tree == UNIFIED:
            limits = _switch_on(path, limits)
        for file in ("cpuset.cpus", "cpuset.mems") if tree == "cpuset" else ():
            if not _text(path, file).strip():  # in version 1 a cpuset starts empty
                _write(path, file, _text(above, file).strip())
    trial = os.path.join(path, f"trial-{os.getpid()}")
    os.mkdir(trial)  # raises OSError unless groups can be made here
    os.rmdir(trial)
    return path, limits


def plan(offer: Offer, name: str, memory_bytes: int, cpus: str, most_processes: int) -> list[dict[str, Any]]:
    """Return the groups of one run; 0 and "" mean no limit. `cpus` is a list in the kernel's format."""
    groups: list[dict[str, Any]] = []
    for tree, base in offer.trees.items():
        unified, settings = tree == UNIFIED, list[tuple[str, str]]()
        own = {one for one in offer.limits if (one == tree if not unified else one not in offer.trees)}
        if "memory" in own and memory_bytes:
            settings.append(("memory.max" if unified else "memory.limit_in_bytes", str(memory_bytes)))
            # Memory beyond the limit must not be taken from swap either.
            settings.append(("memory.swap.max", "0") if unified else ("memory.memsw.limit_in_bytes", str(memory_bytes)))
            settings += [("memory.oom.group", "1")] if unified else []
        if "pids" in own and most_processes:
            settings.append(("pids.max", str(most_processes)))
        if "cpuset" in own and cpus:
            settings.append(("cpuset.cpus", cpus))
            settings += [] if unified else [("cpuset.mems", _text(base, "cpuset.mems").strip())]
        # A tree that limits nothing is joined only if all processes in it can be killed at once.
        if settings or unified or (tree == "freezer" and UNIFIED not in offer.trees):
            join = "cgroup.procs" if unified else "tasks"
            groups.append({"path": os.path.join(base, name), "join": join, "settings": settings})
    return groups


def make(groups: Iterable[Group]) -> tuple[list[Group], list[str]]:
    """Return the groups that could be made with all their settings, and why others could not; runs go without those."""
    made: list[Group] = []
    problems: list[str] = []
    for group in groups:
        path = group["path"]
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(path)
            for file, text in group["settings"]:
                if file in OPTIONAL and not os.path.exists(os.path.join(path, file)):
                    continue
                _write(path, file, text)
            made.append(group)
        except OSError as error:
            problems.append(f"its group {path} could not be made: {_reason(error)}")
            remove([group], 0.0)
    return made, problems


OPTIONAL = ("memory.memsw.limit_in_bytes", "memory.swap.max", "memory.oom.group")  # not in every kernel


def join(group: Group) -> None:
    """Put the calling process into the group. Writing 0 means the caller and avoids a kernel lock on all processes."""
    _write(group["path"], group["join"], "0")


def members(groups: Iterable[Group]) -> set[int]:
    """Return the processes in any of the groups."""
    return {int(word) for group in groups for word in _text(group["path"], "cgroup.procs").split()}


def kill(groups: Sequence[Group]) -> None:
    """Kill all processes in the groups until none is left, however fast they fork; zombies wait for their reaper."""
    for group in groups:
        if os.path.exists(os.path.join(group["path"], "cgroup.kill")):
            with contextlib.suppress(OSError):
                _write(group["path"], "cgroup.kill", "1")
    struck, until = set[int](), time.monotonic() + _PATIENCE_S
    while (living := {pid for pid in members(groups) if _lives(pid)}) and time.monotonic() < until:
        if not living <= struck:
            _freeze(groups, True)
            for pid in living:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            _freeze(groups, False)  # in version 1 a killed process dies only when thawed, and not while frozen again
            struck |= living
        time.sleep(_PAUSE_S)


def remove(groups: Iterable[Group], patience_s: float = 1.0) -> list[str]:
    """Remove the groups; return those that could not be removed because their processes are not gone yet."""
    left = []
    for group in groups:
        until = time.monotonic() + patience_s
        while True:
            try:
                os.rmdir(group["path"])
            except FileNotFoundError:
                break
            except OSError as error:
                if error.errno == errno.EBUSY and time.monotonic() < until:
                    time.sleep(_PAUSE_S)
                    continue
                left.append(str(group["path"]))
            break
    return left


def rebind(groups: Iterable[Group], cpus: str) -> None:
    """Give other CPUs to a run that has cpuset groups."""
    for group in groups:
        if os.path.exists(os.path.join(group["path"], "cpuset.cpus")) and any(
            file == "cpuset.cpus" for file, _ in group["settings"]
        ):
            _write(group["path"], "cpuset.cpus", cpus)


def out_of_memory(groups: Iterable[Group]) -> bool:
    """Return whether the kernel killed a process in the groups for lack of memory."""
    for group in groups:
        for file in ("memory.events", "memory.oom_control"):
            for line in _text(group["path"], file).splitlines():
                name, _, number = line.partition(" ")
                if name == "oom_kill" and int(number or 0) > 0:
                    return True
    return False


def sweep(offer: Offer, known: Collection[str]) -> list[str]:
    """Kill and remove groups of unknown runs that a crash left behind; return their names."""
    swept: list[str] = []
    for base in offer.trees.values():
        for name in os.listdir(base):
            path = os.path.join(base, name)
            if name not in known and os.path.isdir(path):
                group = {"path": path, "join": "", "settings": []}
                kill([group])
                remove([group])
                swept.append(name)
    return sorted(set(swept))


def tidy_up(offer: Offer) -> None:
    """Remove our own folders where no run is left in them."""
    for base in offer.trees.values():
        for path in (base, os.path.dirname(base)):
            with contextlib.suppress(OSError):
                os.rmdir(path)


def _above_processes(own: str) -> str:
    """Return the group below which others can be limited: in version 2 it must have no processes itself. Our processes
    go to the subgroup "controller" if systemd made it (DelegateSubgroup=controller) or if all processes in the group
    are ours."""
    if os.path.basename(own) == CONTROLLER:
        return os.path.dirname(own)
    here = _text(own, "cgroup.procs").split()
    ours = {str(os.getpid()), str(os.getppid()), "0"}  # the launcher and its controller
    if os.path.exists(os.path.join(own, "cgroup.type")) and here and set(here) <= ours:  # the root has no such file
        with contextlib.suppress(OSError):
            os.makedirs(os.path.join(own, CONTROLLER), exist_ok=True)
            for pid in here:
                _write(os.path.join(own, CONTROLLER), "cgroup.procs", pid)
    return own


def _switch_on(path: str, controllers: Sequence[str]) -> list[str]:
    """Enable controllers for subgroups (version 2); return those that are enabled. Others are not, if the group has
    processes of its own (the kernel's rule) or if we lack the right."""
    enabled = []
    for controller in controllers:
        try:
            if controller not in _text(path, "cgroup.subtree_control").split():
                _write(path, "cgroup.subtree_control", f"+{controller}")
            enabled.append(controller)
        except FileNotFoundError:
            raise  # the group itself has gone
        except OSError:
            continue
    return enabled


def _freeze(groups: Iterable[Group], frozen: bool) -> None:
    for group in groups:
        for file, words in (("freezer.state", ("THAWED", "FROZEN")), ("cgroup.freeze", ("0", "1"))):
            if os.path.exists(os.path.join(group["path"], file)):
                with contextlib.suppress(OSError):
                    _write(group["path"], file, words[frozen])


def _lives(pid: int) -> bool:
    stat = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return bool(stat) and stat[0] not in ("Z", "X")


def _write(path: str, file: str, text: str) -> None:
    descriptor = os.open(os.path.join(path, file), os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _text(*path: str) -> str:
    """Return the content of a file; empty if it cannot be read."""
    try:
        with open(os.path.join(*path), "rb", 0) as stream:
            return stream.read().decode()
    except OSError:
        return ""


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
