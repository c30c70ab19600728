"""Processor time, memory, faults, switches and storage of a tree of processes from /proc. Works everywhere on Linux.

A process that lives shorter than the sampling interval is missed. The last sample of an ended process stays in the
sums, so amounts never fall.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cohabit.agent.sensors.source import Offer, Source, Watch

AMOUNTS = (
    "user_time", "system_time", "page_faults", "major_faults", "context_switches", "io_read_bytes", "io_write_bytes",
)  # fmt: skip
LEVELS = ("resident_bytes", "threads")
PROC = Path("/proc")
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Procfs(Source):
    """The source."""

    name = "procfs"

    def offer(self) -> Offer:
        """Check for /proc, which is all it needs."""
        if not (PROC / "self" / "stat").exists():
            return Offer(self.name, False, "there is no /proc", "mount proc")
        return Offer(self.name, True, "", "", (*AMOUNTS, *LEVELS))

    def watch(self, pid: int, folder: Path) -> Watch:
        """Follow the tree below a process."""
        return ProcfsWatch(pid)


class ProcfsWatch(Watch):
    """Sums over all processes of the tree, including ended ones. Nothing is left to read after its end."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.used: dict[tuple[int, int], dict[str, float]] = {}  # by process id and start time, as ids are reused

    def sample(self) -> Mapping[str, float]:
        """Return the sums; empty once the whole tree is gone."""
        alive = self._tree()
        if not alive:
            return {}
        levels = dict.fromkeys(LEVELS, 0.0)
        for pid, fields in alive.items():
            known = self.used.setdefault((pid, int(fields[19])), dict.fromkeys(AMOUNTS, 0.0))
            known["user_time"], known["system_time"] = int(fields[11]) * _TICK_S, int(fields[12]) * _TICK_S
            known["page_faults"], known["major_faults"] = int(fields[7]) + int(fields[9]), float(int(fields[9]))
            known |= self._switches(pid) | self._storage(pid)
            levels["threads"] += int(fields[17])
            levels["resident_bytes"] += int(fields[21]) * _PAGE_BYTES
        return {name: sum(one[name] for one in self.used.values()) for name in AMOUNTS} | levels

    def _tree(self) -> dict[int, list[bytes]]:
        """Return the fields of /proc/PID/stat after the name, for the process and all descendants."""
        found, parents = {}, {}
        for name in os.listdir(PROC):
            if name.isdigit():
                try:
                    fields = (PROC / name / "stat").read_bytes().rpartition(b")")[2].split()
                except OSError:
                    continue
                if fields[0] != b"Z":
                    found[int(name)] = fields
                    parents[int(name)] = int(fields[1])
        tree = more = {self.pid: found[self.pid]} if self.pid in found else {}
        while more:
            more = {pid: found[pid] for pid, parent in parents.items() if parent in tree and pid not in tree}
            tree = tree | more
        return tree

    def _switches(self, pid: int) -> dict[str, float]:
        """Return the switches of all its threads; /proc/PID/status has those of the first only."""
        total = 0
        try:
            for thread in os.listdir(PROC / str(pid) / "task"):
                for line in (PROC / str(pid) / "task" / thread / "status").read_text().splitlines():
                    if line.startswith(("voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:")):
                        total += int(line.split()[1])
        except OSError:
            return {}
        return {"context_switches": float(total)}

    def _storage(self, pid: int) -> dict[str, float]:
        """Return storage amounts; readable for our own processes only."""
        try:
            lines = (PROC / str(pid) / "io").read_text().splitlines()
        except OSError:
            return {}
        facts = dict(line.split(": ", 1) for line in lines)
        return {"io_read_bytes": float(facts["read_bytes"]), "io_write_bytes": float(facts["write_bytes"])}
