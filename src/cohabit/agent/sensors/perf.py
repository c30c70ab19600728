"""Hardware and software events of the kernel's perf interface, for a program and all it forks.

Events that the processor or the virtual machine does not have are absent; this is checked once and reported in the
offer. Codes of the paper's processor generation (Sandy Bridge) are from Intel's published event list; elsewhere those
counters are absent.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from cohabit.agent.sensors import perf_events as events
from cohabit.agent.sensors.source import Offer, Watch

Event = tuple[int, int]
SECONDS = {"task_clock": 1e-9}  # counters the kernel keeps in nanoseconds
_L1D, _LAST = 0, 2
_READ, _WRITE, _PREFETCH = 0 << 8, 1 << 8, 2 << 8
_MISS = 1 << 16

# Groups are small: a processor has four to eight counters, and cycles and instructions must cover the same time.
GROUPS: tuple[dict[str, Event], ...] = (
    {
        "task_clock": (events.SOFTWARE, 1), "page_faults": (events.SOFTWARE, 2),
        "context_switches": (events.SOFTWARE, 3), "cpu_migrations": (events.SOFTWARE, 4),
    },
    {
        "cycles": (events.HARDWARE, 0), "instructions": (events.HARDWARE, 1),
        "cache_references": (events.HARDWARE, 2), "cache_misses": (events.HARDWARE, 3),
    },
    {
        "branch_instructions": (events.HARDWARE, 4), "branch_misses": (events.HARDWARE, 5),
        "stalled_cycles_frontend": (events.HARDWARE, 7), "stalled_cycles_backend": (events.HARDWARE, 8),
    },
    {
        "l1_dcache_loads": (events.HW_CACHE, _L1D | _READ),
        "l1_dcache_load_misses": (events.HW_CACHE, _L1D | _READ | _MISS),
        "l1_dcache_store_misses": (events.HW_CACHE, _L1D | _WRITE | _MISS),
        "l1_dcache_prefetch_misses": (events.HW_CACHE, _L1D | _PREFETCH | _MISS),
    },
    {
        "llc_prefetches": (events.HW_CACHE, _LAST | _PREFETCH),
        "llc_prefetch_misses": (events.HW_CACHE, _LAST | _PREFETCH | _MISS),
    },
)  # fmt: skip
SANDY_BRIDGE = ("GenuineIntel", "6", ("42", "45"))  # vendor, family, models
SANDY_BRIDGE_GROUPS: tuple[dict[str, Event], ...] = tuple(
    {name: (events.RAW, code) for name, code in group}
    for group in (
        (("resource_stalls_any", 0x01A2), ("mem_uops_retired_all_loads", 0x81D0),
         ("mem_uops_retired_all_stores", 0x82D0)),
        (("mem_load_uops_retired_llc_hit", 0x04D1), ("mem_load_uops_retired_llc_miss", 0x20D1)),
        (("l2_rqsts_demand_data_rd_hit", 0x0124), ("l2_rqsts_all_demand_data_rd", 0x0324), ("l2_rqsts_pf_hit", 0x4024),
         ("l2_rqsts_all_pf", 0xC024)),
        (("l2_l1d_wb_rqsts_miss", 0x0128), ("l2_lines_in_all", 0x07F1), ("l2_lines_out_demand_clean", 0x01F2)),
        (("l2_lines_out_pf_clean", 0x04F2), ("l2_lines_out_pf_dirty", 0x08F2), ("l1d_replacement", 0x0151)),
        (("l1d_allocated_in_m", 0x0251), ("l1d_eviction", 0x0451)),
    )
)  # fmt: skip


def _groups() -> tuple[dict[str, Event], ...]:
    """Return the groups to try on this processor."""
    facts: dict[str, str] = {}
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            facts.setdefault(key.strip(), value.strip())
    except OSError:
        return GROUPS
    vendor, family, models = SANDY_BRIDGE
    same = facts.get("vendor_id") == vendor and facts.get("cpu family") == family and facts.get("model") in models
    return (*GROUPS, *SANDY_BRIDGE_GROUPS) if same else GROUPS


class Perf:
    """The source."""

    name = "perf"
    slows_down = False

    def offer(self) -> Offer:
        """Try every event on this process, once."""
        found = tuple(name for group, _ in self._working for name in group)
        if not found:
            return Offer(self.name, False, f"no event can be opened: {self._why}", self._advice())
        hardware = [name for name in found if name not in GROUPS[0]]
        if not hardware:
            return Offer(self.name, True, f"software events only: {self._why}", self._advice(), found)
        return Offer(self.name, True, "", "", found)

    def prefix(self, folder: Path) -> tuple[str, ...]:
        """Return nothing: it observes from outside."""
        return ()

    def watch(self, pid: int, folder: Path) -> Watch:
        """Count from exec on."""
        return PerfWatch([(group, user_only) for group, user_only in self._working], pid)

    def attach(self, threads: Sequence[int]) -> Watch:
        """Count these threads of a running program, and the threads they start, from now on."""
        return _Together([PerfWatch(self._working, thread, at_once=True) for thread in threads])

    @cached_property
    def _working(self) -> list[tuple[dict[str, Event], bool]]:
        """Return the groups with the events that work here, and whether only user code may be counted."""
        self._why, self._denied = "", False
        found = []
        for group in _groups():
            for user_only in (False, True):
                # Switches and migrations happen in the kernel: without it their counts would all be zero.
                tried = {name: event for name, event in group.items() if not (user_only and event[0] == events.SOFTWARE
                                                                               and event[1] >= 3)}  # fmt: skip
                works = {name: event for name, event in tried.items() if self._opens(event, user_only)}
                if works:
                    found.append((works, user_only))
                    break
        return found

    def _opens(self, event: Event, user_only: bool) -> bool:
        try:
            os.close(events.open_event(*event, os.getpid(), user_only=user_only))
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                self._denied = True
            self._why = {
                errno.ENOENT: "this processor or virtual machine has no hardware counters",
                errno.EOPNOTSUPP: "this processor or virtual machine has no hardware counters",
                errno.EACCES: "the kernel does not allow it", errno.EPERM: "the kernel does not allow it",
            }.get(error.errno or 0, (error.strerror or str(error)).lower())  # fmt: skip
            return False
        return True

    def _advice(self) -> str:
        return (
            "lower kernel.perf_event_paranoid, or give CAP_PERFMON"
            if self._denied
            else "use valgrind for cache and branch counters"
        )


class PerfWatch:
    """Open groups of one program."""

    def __init__(self, groups: list[tuple[dict[str, Event], bool]], pid: int, at_once: bool = False) -> None:
        self.groups: list[tuple[list[str], list[int]]] = []
        for group, user_only in groups:
            names: list[str] = []
            descriptors: list[int] = []
            for name, event in group.items():
                leader = descriptors[0] if descriptors else -1
                try:
                    descriptors.append(events.open_event(*event, pid, leader, user_only, at_once))
                except OSError:  # too many for one group, or unavailable since the offer: absent in this run
                    continue
                names.append(name)
            if names:
                self.groups.append((names, descriptors))

    def sample(self) -> Mapping[str, float]:
        """Return the values of all groups."""
        found: dict[str, float] = {}
        for names, descriptors in self.groups:
            found |= events.read_group(descriptors[0], names)
        return {name: value * SECONDS.get(name, 1.0) for name, value in found.items()}

    def stop(self) -> Mapping[str, float]:
        """Return the last counts, which outlive the program."""
        last = self.sample()
        for _, descriptors in self.groups:
            for descriptor in descriptors:
                os.close(descriptor)
        self.groups = []
        return last


class _Together:
    """Several threads counted as one program."""

    def __init__(self, watches: Sequence[PerfWatch]) -> None:
        self.watches = watches

    def sample(self) -> Mapping[str, float]:
        """Return sums; a counter that one of them lacks is left out."""
        return _summed([watch.sample() for watch in self.watches])

    def stop(self) -> Mapping[str, float]:
        """Return the last counts, which outlive the program."""
        return _summed([watch.stop() for watch in self.watches])


def _summed(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = set.intersection(*(set(part) for part in parts)) if parts else set()
    return {name: sum(part[name] for part in parts) for name in sorted(names)}
