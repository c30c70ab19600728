"""Hardware and software events of the kernel's perf interface, for a program and all it forks.

Events that the processor or the virtual machine does not have are absent; this is checked once and reported in the
offer. Codes of the paper's processor generation (Sandy Bridge) are from Intel's published event list; elsewhere those
counters are absent.

A group of events is scheduled on the hardware as a unit, so ratios inside it cover the same time. A group that never
ran has no values (not zeros); one that ran part of the time is scaled up.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from cohabit.agent.sensors.source import Offer, Source, Watch

SYSTEM_CALL = {"x86_64": 298, "aarch64": 241}
HARDWARE, SOFTWARE, HW_CACHE, RAW = 0, 1, 3, 4  # types of events
_DISABLED, _INHERIT, _NO_KERNEL, _NO_HYPERVISOR, _ON_EXEC = 1 << 0, 1 << 1, 1 << 5, 1 << 6, 1 << 12
_ENABLED_TIME, _RUNNING_TIME, _GROUP = 1, 2, 8  # what a read returns
_CLOSE_ON_EXEC = 8
# struct perf_event_attr in its fifth version, which every kernel since 4.8 knows: type, size, config, sample_period,
# sample_type, read_format, flags, and 64 bytes that are not used here.
_ATTRIBUTES = struct.Struct("=IIQQQQQ64x")
Event = tuple[int, int]  # type and config
SECONDS = {"task_clock": 1e-9}  # counters the kernel keeps in nanoseconds
_L1D, _LAST = 0, 2
_READ, _WRITE, _PREFETCH = 0 << 8, 1 << 8, 2 << 8
_MISS = 1 << 16

# Groups are small: a processor has four to eight counters, and cycles and instructions must cover the same time.
GROUPS: tuple[dict[str, Event], ...] = (
    {
        "task_clock": (SOFTWARE, 1), "page_faults": (SOFTWARE, 2),
        "context_switches": (SOFTWARE, 3), "cpu_migrations": (SOFTWARE, 4),
    },
    {
        "cycles": (HARDWARE, 0), "instructions": (HARDWARE, 1),
        "cache_references": (HARDWARE, 2), "cache_misses": (HARDWARE, 3),
    },
    {
        "branch_instructions": (HARDWARE, 4), "branch_misses": (HARDWARE, 5),
        "stalled_cycles_frontend": (HARDWARE, 7), "stalled_cycles_backend": (HARDWARE, 8),
    },
    {
        "l1_dcache_loads": (HW_CACHE, _L1D | _READ),
        "l1_dcache_load_misses": (HW_CACHE, _L1D | _READ | _MISS),
        "l1_dcache_store_misses": (HW_CACHE, _L1D | _WRITE | _MISS),
        "l1_dcache_prefetch_misses": (HW_CACHE, _L1D | _PREFETCH | _MISS),
    },
    {
        "llc_prefetches": (HW_CACHE, _LAST | _PREFETCH),
        "llc_prefetch_misses": (HW_CACHE, _LAST | _PREFETCH | _MISS),
    },
)  # fmt: skip
SANDY_BRIDGE = ("GenuineIntel", "6", ("42", "45"))  # vendor, family, models
SANDY_BRIDGE_GROUPS: tuple[dict[str, Event], ...] = (
    {
        "resource_stalls_any": (RAW, 0x01A2), "mem_uops_retired_all_loads": (RAW, 0x81D0),
        "mem_uops_retired_all_stores": (RAW, 0x82D0),
    },
    {"mem_load_uops_retired_llc_hit": (RAW, 0x04D1), "mem_load_uops_retired_llc_miss": (RAW, 0x20D1)},
    {
        "l2_rqsts_demand_data_rd_hit": (RAW, 0x0124), "l2_rqsts_all_demand_data_rd": (RAW, 0x0324),
        "l2_rqsts_pf_hit": (RAW, 0x4024), "l2_rqsts_all_pf": (RAW, 0xC024),
    },
    {
        "l2_l1d_wb_rqsts_miss": (RAW, 0x0128), "l2_lines_in_all": (RAW, 0x07F1),
        "l2_lines_out_demand_clean": (RAW, 0x01F2),
    },
    {
        "l2_lines_out_pf_clean": (RAW, 0x04F2), "l2_lines_out_pf_dirty": (RAW, 0x08F2),
        "l1d_replacement": (RAW, 0x0151),
    },
    {"l1d_allocated_in_m": (RAW, 0x0251), "l1d_eviction": (RAW, 0x0451)},
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


class Perf(Source):
    """The source."""

    name = "perf"

    def offer(self) -> Offer:
        """Try every event on this process, once."""
        found = tuple(name for group, _ in self._working for name in group)
        if not found:
            return Offer(self.name, False, f"no event can be opened: {self._why}", self._advice())
        hardware = [name for name in found if name not in GROUPS[0]]
        if not hardware:
            return Offer(self.name, True, f"software events only: {self._why}", self._advice(), found)
        return Offer(self.name, True, "", "", found)

    def watch(self, pid: int, folder: Path) -> Watch:
        """Count from exec on."""
        return PerfWatch(self._working, [pid], at_once=False)

    def attach(self, threads: Sequence[int]) -> Watch:
        """Count these threads of a running program, and the threads they start, from now on."""
        return PerfWatch(self._working, threads, at_once=True)

    @cached_property
    def _working(self) -> list[tuple[dict[str, Event], bool]]:
        """Return the groups with the events that work here, and whether only user code may be counted."""
        self._why, self._denied = "", False
        found = []
        for group in _groups():
            for user_only in (False, True):
                # Switches and migrations happen in the kernel: without it their counts would all be zero.
                tried = {
                    name: event
                    for name, event in group.items()
                    if not (user_only and event[0] == SOFTWARE and event[1] >= 3)
                }
                works = {name: event for name, event in tried.items() if self._opens(event, user_only)}
                if works:
                    found.append((works, user_only))
                    break
        return found

    def _opens(self, event: Event, user_only: bool) -> bool:
        try:
            os.close(open_event(*event, os.getpid(), user_only=user_only))
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                self._denied, self._why = True, "the kernel does not allow it"
            elif error.errno in (errno.ENOENT, errno.EOPNOTSUPP):
                self._why = "this processor or virtual machine has no hardware counters"
            else:
                self._why = (error.strerror or str(error)).lower()
            return False
        return True

    def _advice(self) -> str:
        if self._denied:
            return "lower kernel.perf_event_paranoid, or give CAP_PERFMON"
        return "use valgrind for cache and branch counters"


def open_event(
    kind: int, config: int, pid: int, leader: int = -1, user_only: bool = False, at_once: bool = False
) -> int:
    """Return a descriptor that counts one event of a thread and its children; OSError if it cannot.

    It counts from exec on; `at_once`: from now on, for a thread that executes already.
    """
    number = SYSTEM_CALL.get(platform.machine())
    if number is None:
        raise OSError(38, f"the number of perf_event_open on {platform.machine()} is not known here")
    flags = _INHERIT | _NO_HYPERVISOR | (_NO_KERNEL if user_only else 0)
    if leader < 0 and not at_once:
        flags |= _DISABLED | _ON_EXEC
    read_format = _GROUP | _ENABLED_TIME | _RUNNING_TIME
    attributes = ctypes.create_string_buffer(_ATTRIBUTES.size)  # the kernel may write into it
    _ATTRIBUTES.pack_into(attributes, 0, kind, _ATTRIBUTES.size, config, 0, 0, read_format, flags)
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    every_cpu = ctypes.c_int(-1)
    thread, group = ctypes.c_int(pid), ctypes.c_int(leader)
    descriptor = call(ctypes.c_long(number), attributes, thread, every_cpu, group, ctypes.c_ulong(_CLOSE_ON_EXEC))
    if descriptor < 0:
        reason = ctypes.get_errno()
        raise OSError(reason, os.strerror(reason))
    return int(descriptor)


def read_group(leader: int, names: Sequence[str]) -> dict[str, float]:
    """Return the values of a group in the order in which its events were opened; empty if it never ran."""
    count, enabled, running, *values = struct.unpack(f"{3 + len(names)}Q", os.read(leader, 8 * (3 + len(names))))
    assert count == len(names)
    if enabled and not running:
        return {}
    scale = enabled / running if running else 1.0
    return {name: value * scale for name, value in zip(names, values, strict=True)}


class PerfWatch(Watch):
    """Open groups of one program: of its first thread, or of several threads that are counted as one."""

    def __init__(self, groups: list[tuple[dict[str, Event], bool]], threads: Sequence[int], at_once: bool) -> None:
        self.threads = [_open_groups(groups, thread, at_once) for thread in threads]

    def sample(self) -> Mapping[str, float]:
        """Return sums; a counter that one of the threads lacks is left out."""
        parts = []
        for groups in self.threads:
            found: dict[str, float] = {}
            for names, descriptors in groups:
                found |= read_group(descriptors[0], names)
            parts.append(found)
        common = [name for name in parts[0] if all(name in part for part in parts)] if parts else []
        return {name: sum(part[name] for part in parts) * SECONDS.get(name, 1.0) for name in common}

    def stop(self) -> Mapping[str, float]:
        """Return the last counts, which outlive the program."""
        last = self.sample()
        for groups in self.threads:
            for _, descriptors in groups:
                for descriptor in descriptors:
                    os.close(descriptor)
        self.threads = []
        return last


def _open_groups(
    groups: list[tuple[dict[str, Event], bool]], thread: int, at_once: bool
) -> list[tuple[list[str], list[int]]]:
    """Return names and descriptors of the groups, as far as they can be opened for this thread."""
    found = []
    for group, user_only in groups:
        names: list[str] = []
        descriptors: list[int] = []
        for name, event in group.items():
            leader = descriptors[0] if descriptors else -1
            try:
                descriptors.append(open_event(*event, thread, leader, user_only, at_once))
            except OSError:  # too many for one group, or unavailable since the offer: absent in this run
                continue
            names.append(name)
        if names:
            found.append((names, descriptors))
    return found
