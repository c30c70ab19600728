"""Read what runs have used: all that /proc says, counters where the host has them, memory traffic of their group.

Counting processes of other users takes the launcher's rights. Only reads: it makes no groups and stops no run. Values
that the host does not offer are absent; `cohabit doctor` says what would change that.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from cohabit.agent.resctrl.files import HostFiles, total_traffic
from cohabit.agent.sensors.perf import Perf
from cohabit.agent.sensors.procfs import ProcfsWatch
from cohabit.agent.sensors.source import Watch
from cohabit.launcher import runs
from cohabit.launcher.runs import Key, RunFolder

HARDWARE = ("instructions", "cycles", "cache_references", "cache_misses")


class Meter:
    """The meter of all measured runs."""

    def __init__(self) -> None:
        self._files, self._perf = HostFiles(), Perf()
        self._counts: bool | None = None
        self._watched: dict[Key, tuple[ProcfsWatch, Watch | None, Path | None]] = {}  # times, counters, resctrl group

    def begin(self, folder: RunFolder) -> None:
        """Attach to the existing processes."""
        if self._counts is None:
            self._counts = any(name in HARDWARE for name in self._perf.offer().counters)
        started, key = folder.started(), folder.key
        if started is None:
            return
        self.end(key)
        counters = self._perf.attach(runs.threads_of(runs.processes_of(folder))) if self._counts else None
        joins = folder.spec().get("joins", [])
        self._watched[key] = ProcfsWatch(int(started["pid"])), counters, Path(joins[-1]).parent if joins else None

    def sample(self, key: Key) -> dict[str, float]:
        """Return amounts so far and levels: of the whole tree from /proc, counters of all its threads, traffic of its
        group; empty if nothing can be read."""
        if key not in self._watched:
            return {}
        times, counters, group = self._watched[key]
        used = times.sample()
        found = {"task_clock": used["user_time"] + used["system_time"], **used} if used else {}
        if counters is not None:
            read = counters.sample()
            found |= {name: read[name] for name in HARDWARE if name in read}
        return found | total_traffic(self._files, group)

    def end(self, key: Key) -> None:
        """Stop measuring a run."""
        _, counters, _ = self._watched.pop(key, (None, None, None))
        if counters is not None:
            with contextlib.suppress(OSError):
                counters.stop()
