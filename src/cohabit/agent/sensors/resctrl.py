"""Read memory traffic and cache occupancy of a program from a resctrl monitoring group of its own.

A monitoring group costs one monitoring id and no class of service. It is made under our prefix, the held process is put
into it before it executes (children inherit), and it is removed afterwards. Groups of others are never touched, and
nothing is mounted or changed at start. Reads may answer Unavailable or Error: then that value is left out.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Protocol

from cohabit.agent.sensors.source import Offer, Watch

ROOT = Path("/sys/fs/resctrl")
PREFIX = "cohabit-"
FILES = {
    "llc_occupancy_bytes": "llc_occupancy", "memory_total_bytes": "mbm_total_bytes",
    "memory_local_bytes": "mbm_local_bytes",
}  # fmt: skip
_RETRIES, _RETRY_S = 20, 0.05  # ids of recently removed groups stay unusable until their cache lines have gone
_numbers = count()


class Files(Protocol):
    """The operations resctrl supports; each may raise OSError as the kernel does."""

    def make(self, path: Path) -> None: ...
    def remove(self, path: Path) -> None: ...
    def names(self, path: Path) -> list[str]: ...
    def read(self, path: Path) -> str: ...
    def write(self, path: Path, text: str) -> None: ...


class HostFiles:
    """The real file system."""

    def make(self, path: Path) -> None:
        """mkdir."""
        path.mkdir()

    def remove(self, path: Path) -> None:
        """rmdir."""
        path.rmdir()

    def names(self, path: Path) -> list[str]:
        """Return the names inside a folder."""
        return sorted(os.listdir(path))

    def read(self, path: Path) -> str:
        """Return a file's text."""
        return path.read_text()

    def write(self, path: Path, text: str) -> None:
        """Make one write call: the kernel takes a command whole."""
        descriptor = os.open(path, os.O_WRONLY)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)


class Resctrl:
    """The source; `root` is where resctrl is mounted."""

    name = "resctrl"
    slows_down = False

    def __init__(self, root: Path = ROOT, files: Files | None = None) -> None:
        self.root, self.files = root, files or HostFiles()

    def offer(self) -> Offer:
        """Return what info/L3_MON lists; reading changes nothing."""
        try:
            features = self.files.read(self.root / "info" / "L3_MON" / "mon_features").split()
        except OSError:
            mounted = self._mounted()
            reason = "the processor has no cache monitoring" if mounted else "resctrl is not mounted"
            advice = "" if mounted else "mount -t resctrl resctrl /sys/fs/resctrl, where processor and kernel have it"
            return Offer(self.name, False, reason, advice)
        found = tuple(name for name, file in FILES.items() if file in features)
        return Offer(self.name, bool(found), "" if found else "no event is offered", "", found)

    def prefix(self, folder: Path) -> tuple[str, ...]:
        """Return nothing: it observes from outside."""
        return ()

    def watch(self, pid: int, folder: Path) -> Watch:
        """Make a new monitoring group with the process in it."""
        return ResctrlWatch(self.files, self.root, pid)

    def _mounted(self) -> bool:
        try:
            return "info" in self.files.names(self.root)
        except OSError:
            return False


def _remove_stale(files: Files, groups: Path) -> None:
    """Remove groups of ours after their maker was killed; all other groups stay."""
    for name in files.names(groups):
        maker = name.removeprefix(PREFIX).split("-")[0]
        if name.startswith(PREFIX) and maker.isdigit() and not Path("/proc", maker).exists():
            with contextlib.suppress(OSError):
                files.remove(groups / name)


class ResctrlWatch:
    """One monitoring group."""

    def __init__(self, files: Files, root: Path, pid: int) -> None:
        self.files = files
        _remove_stale(files, root / "mon_groups")
        self.group = root / "mon_groups" / f"{PREFIX}{os.getpid()}-{next(_numbers)}"
        for attempt in range(_RETRIES):
            try:
                files.make(self.group)
                break
            except OSError as error:
                if error.errno != errno.EBUSY or attempt == _RETRIES - 1:
                    raise
                time.sleep(_RETRY_S)
        try:
            files.write(self.group / "tasks", f"{pid}\n")
        except OSError:
            files.remove(self.group)
            raise

    def sample(self) -> Mapping[str, float]:
        """Return sums over the cache domains; a counter that one domain cannot provide now is left out."""
        domains = [name for name in self.files.names(self.group / "mon_data") if name.startswith("mon_L3_")]
        found: dict[str, float] = {}
        for name, file in FILES.items():
            try:
                words = [self.files.read(self.group / "mon_data" / domain / file).strip() for domain in domains]
            except OSError:
                continue
            if words and all(word.isdigit() for word in words):
                found[name] = float(sum(map(int, words)))
        return found

    def stop(self) -> Mapping[str, float]:
        """Return the last traffic; traffic outlives the program, occupancy does not and is left out."""
        last = {name: value for name, value in self.sample().items() if name != "llc_occupancy_bytes"}
        self.files.remove(self.group)
        return last
