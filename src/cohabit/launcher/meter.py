"""Read what runs have used: processor time, counters where the host has them, memory traffic of their group.

Counting processes of other users takes the launcher's rights. Only reads: it makes no groups and stops no run. Values
that the host does not offer are absent; `cohabit doctor` says what would change that.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from cohabit.agent.resctrl.files import HostFiles
from cohabit.agent.resctrl.monitoring import read_traffic
from cohabit.agent.sensors.perf import Perf
from cohabit.agent.sensors.procfs import ProcfsWatch
from cohabit.agent.sensors.source import Watch
from cohabit.launcher import runs
from cohabit.launcher.runs import RunFolder

HARDWARE = ("instructions", "cycles", "cache_references", "cache_misses")
Key = tuple[str, int]


class Meter:
    """The meter of all measured runs."""

    def __init__(self) -> None:
        self._files, self._perf = HostFiles(), Perf()
        self._counts: bool | None = None
        self._watched: dict[Key, _Watched] = {}

    def begin(self, folder: RunFolder) -> None:
        """Attach to the existing processes."""
        if self._counts is None:
            self._counts = any(name in HARDWARE for name in self._perf.offer().counters)
        started = folder.started()
        if started is None:
            return
        self.end((folder.job_id, folder.attempt))
        counters = self._perf.attach(runs.threads_of(runs.processes_of(folder))) if self._counts else None
        joins = folder.spec().get("joins", [])
        group = Path(joins[-1]).parent if joins else None
        self._watched[folder.job_id, folder.attempt] = _Watched(int(started["pid"]), counters, group, self._files)

    def sample(self, key: Key) -> dict[str, float]:
        """Return amounts so far; empty if nothing can be read."""
        one = self._watched.get(key)
        return {} if one is None else one.sample()

    def end(self, key: Key) -> None:
        """Stop measuring a run."""
        one = self._watched.pop(key, None)
        if one is not None and one.counters is not None:
            with contextlib.suppress(OSError):
                one.counters.stop()


class _Watched:
    """One run."""

    def __init__(self, pid: int, counters: Watch | None, group: Path | None, files: HostFiles) -> None:
        self.times, self.counters, self.group, self.files = ProcfsWatch(Path("/proc"), pid), counters, group, files

    def sample(self) -> dict[str, float]:
        """Return processor time of the whole tree, counters of all its threads, traffic of its group."""
        used = self.times.sample()
        found = {"task_clock": used["user_time"] + used["system_time"]} if used else {}
        if self.counters is not None:
            read = self.counters.sample()
            found |= {name: read[name] for name in HARDWARE if name in read}
        if self.group is not None:
            traffic = read_traffic(self.files, self.group)
            if traffic:
                found["memory_total_bytes"] = float(sum(traffic.values()))
        return found
