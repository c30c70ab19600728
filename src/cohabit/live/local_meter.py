"""Reads what runs of the local back end have used: processor time, counters where the host has them, memory traffic.

A run is found by its folder, as the back end and its runner leave it there. Only reads: it makes no groups and stops no
run. What the host does not offer is absent; `cohabit doctor` says what would change that.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from pathlib import Path

from cohabit.agent.resctrl.files import Files, HostFiles
from cohabit.agent.resctrl.monitoring import read_traffic
from cohabit.agent.sensors.perf import Perf
from cohabit.agent.sensors.procfs import ProcfsWatch
from cohabit.agent.sensors.source import Watch
from cohabit.backend.local import runs
from cohabit.backend.local.runs import RunFolder
from cohabit.model.units import SECOND

HARDWARE = ("instructions", "cycles", "cache_references", "cache_misses")


class LocalMeter:
    """Of the runs below `place` (LocalBackend.place)."""

    def __init__(self, place: Path, files: Files | None = None) -> None:
        self._runs, self._files, self._perf = place / "runs", files or HostFiles(), Perf()
        self._counts = any(name in HARDWARE for name in self._perf.offer().counters)
        self._watched: dict[tuple[str, int], _Watched] = {}
        self._lock = threading.Lock()  # a descriptor must not be closed while another thread reads it

    def begin(self, job_id: str, attempt: int) -> None:
        """Attach to the processes there are."""
        folder = RunFolder(self._runs, job_id, attempt)
        started = folder.started()
        if started is None:
            return
        counters = self._perf.attach(runs.threads_of(runs.processes_of(folder))) if self._counts else None
        joins = folder.spec().get("joins", [])
        group = Path(joins[-1]).parent if joins else None
        self._watched[job_id, attempt] = _Watched(int(started["pid"]), counters, group, self._files)

    def sample(self, job_id: str, attempt: int) -> Mapping[str, float]:
        """Amounts so far."""
        with self._lock:
            one = self._watched.get((job_id, attempt))
            return {} if one is None else one.sample()

    def lasted_s(self, job_id: str, attempt: int) -> float | None:
        """As its runner wrote down."""
        ended = RunFolder(self._runs, job_id, attempt).ended()
        if ended is None or not ended.get("began_us") or not ended.get("ended_us"):
            return None
        return float(ended["ended_us"] - ended["began_us"]) / SECOND

    def end(self, job_id: str, attempt: int) -> None:
        """Let go."""
        with self._lock, contextlib.suppress(OSError):
            one = self._watched.pop((job_id, attempt), None)
            if one is not None and one.counters is not None:
                one.counters.stop()


class _Watched:
    """One run."""

    def __init__(self, pid: int, counters: Watch | None, group: Path | None, files: Files) -> None:
        self.times, self.counters, self.group, self.files = ProcfsWatch(Path("/proc"), pid), counters, group, files

    def sample(self) -> dict[str, float]:
        """Processor time of the whole tree, counters of all its threads, traffic of its group."""
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
