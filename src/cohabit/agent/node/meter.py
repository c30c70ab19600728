"""Measure what a job uses on this node: processor time of its processes, counters where available, memory traffic.

Values are read often while a job is young and seldom later: its end is sudden, and what it used since the last look is
not in the means. A counter that cannot be read is absent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from cohabit.agent.resctrl.files import Files, total_traffic
from cohabit.agent.sensors.perf import Perf
from cohabit.agent.sensors.procfs import ProcfsWatch
from cohabit.agent.sensors.source import Watch

HARDWARE = ("instructions", "cycles", "cache_references", "cache_misses")
STORAGE = ("io_read_bytes", "io_write_bytes")
USED = ("task_clock", *STORAGE)  # of the processes below a step daemon
OFTEN_S, SELDOM_S, SHARE = 0.25, 5.0, 0.05  # a run is read after each twentieth of its age


class Meter:
    """One per node; it reports once which counters there are."""

    def __init__(self, files: Files) -> None:
        self.files, self.perf = files, Perf()
        offered = self.perf.offer().counters
        self.counts, self.instructions = any(name in HARDWARE for name in offered), "instructions" in offered
        self.misses = "cache_misses" in offered


class JobMeter:
    """The meter of one job."""

    def __init__(self, meter: Meter, now_s: float) -> None:
        self.meter, self.begun_s, self.next_s = meter, now_s, now_s
        self._trees: dict[int, ProcfsWatch] = {}
        self._used: dict[int, dict[str, float]] = {}  # amounts, by step daemon; includes ended steps
        self._counters: list[Watch] = []
        self._first: dict[str, tuple[float, float]] = {}  # by counter: a group of resctrl comes later than the job
        self._last: tuple[float, dict[str, float]] | None = None

    def follow(self, step_daemon: int, threads: Sequence[int]) -> None:
        """Add a step of the job that has begun."""
        if step_daemon not in self._trees:
            self._trees[step_daemon] = ProcfsWatch(step_daemon)
            if self.meter.counts and threads:
                with contextlib.suppress(OSError):
                    self._counters.append(self.meter.perf.attach(threads))

    def look(self, now_s: float, group: Path | None) -> None:
        """Read everything if it is due."""
        if now_s < self.next_s or not self._trees:
            return
        self.next_s = now_s + min(max(SHARE * (now_s - self.begun_s), OFTEN_S), SELDOM_S)
        found = self.read(group)
        if found:
            self._first = {name: (now_s, value) for name, value in found.items()} | self._first
            self._last = (now_s, found)

    def means(self) -> dict[str, float]:
        """Return amounts per second over the observed part of the run; empty if it was too short for two looks."""
        if self._last is None:
            return {}
        now_s, after = self._last
        return {
            f"{name}_mean": (value - before) / (now_s - begun_s)
            for name, value in after.items()
            for begun_s, before in (self._first[name],)
            if now_s > begun_s and value > before
        }

    def stop(self) -> None:
        """Release everything."""
        for one in self._counters:
            with contextlib.suppress(OSError):
                one.stop()
        self._counters, self._trees = [], {}

    def read(self, group: Path | None) -> dict[str, float]:
        """Return the amounts so far; `group` is the job's in resctrl."""
        for step_daemon, tree in self._trees.items():
            used = tree.sample()
            if used:
                clock = {"task_clock": used["user_time"] + used["system_time"]}
                self._used[step_daemon] = clock | {name: used[name] for name in STORAGE}
        found = {name: sum(one[name] for one in self._used.values()) for name in USED} if self._used else {}
        parts: list[Mapping[str, float]] = [one.sample() for one in self._counters]
        if parts and len(parts) == len(self._trees):
            found |= {name: sum(part[name] for part in parts) for name in HARDWARE if all(name in one for one in parts)}
        return found | total_traffic(self.meter.files, group)
