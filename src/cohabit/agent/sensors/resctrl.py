"""Read memory traffic and cache occupancy of a program from a resctrl monitoring group of its own.

A monitoring group costs one monitoring id and no class of service. It is made under our prefix, the held process is put
into it before it executes (children inherit), and it is removed afterwards. Groups of others are never touched, and
nothing is mounted or changed at start. Reads may answer Unavailable or Error: then that value is left out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from cohabit.agent.resctrl.files import (
    ROOT,
    Files,
    HostFiles,
    Patience,
    is_mounted,
    make_group,
    read_if_there,
    remove_stale,
)
from cohabit.agent.sensors.source import Offer, Source, Watch

PREFIX = "cohabit-"
FILES = {
    "llc_occupancy_bytes": "llc_occupancy", "memory_total_bytes": "mbm_total_bytes",
    "memory_local_bytes": "mbm_local_bytes",
}  # fmt: skip
_TRIES = 20
_numbers = count()


class Resctrl(Source):
    """The source; `root` is where resctrl is mounted."""

    name = "resctrl"

    def __init__(self, root: Path = ROOT, files: Files | None = None) -> None:
        self.root, self.files = root, files or HostFiles()

    def offer(self) -> Offer:
        """Return what info/L3_MON lists; reading changes nothing."""
        try:
            features = self.files.read(self.root / "info" / "L3_MON" / "mon_features").split()
        except OSError:
            mounted = is_mounted(self.files, self.root)
            reason = "the processor has no cache monitoring" if mounted else "resctrl is not mounted"
            advice = "" if mounted else "mount -t resctrl resctrl /sys/fs/resctrl, where processor and kernel have it"
            return Offer(self.name, False, reason, advice)
        found = tuple(name for name, file in FILES.items() if file in features)
        return Offer(self.name, bool(found), "" if found else "no event is offered", "", found)

    def watch(self, pid: int, folder: Path) -> Watch:
        """Make a new monitoring group with the process in it."""
        return ResctrlWatch(self.files, self.root, pid)


class ResctrlWatch(Watch):
    """One monitoring group."""

    def __init__(self, files: Files, root: Path, pid: int) -> None:
        self.files = files
        remove_stale(files, root / "mon_groups", PREFIX)
        self.group = root / "mon_groups" / f"{PREFIX}{os.getpid()}-{next(_numbers)}"
        make_group(files, self.group, Patience(_TRIES))
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
            words = [read_if_there(self.files, self.group / "mon_data" / one / file).strip() for one in domains]
            if words and all(word.isdigit() for word in words):
                found[name] = float(sum(map(int, words)))
        return found

    def stop(self) -> Mapping[str, float]:
        """Return the last traffic; traffic outlives the program, occupancy does not and is left out."""
        last = {name: value for name, value in self.sample().items() if name != "llc_occupancy_bytes"}
        self.files.remove(self.group)
        return last
