"""Every counter by name: the 39 of the colocation paper (seven of hardware, three of software, twenty of caches, four
of memory, five calculated) and what procfs, cgroups, pressure and resctrl add. Data only.

Kinds: an *amount* adds up over a run and is reported per second; a *level* is what it is at a moment; a *ratio* is
calculated from the amounts of the same interval. A column of a data set is NAME_STAT, STAT one of mean, min, max, std.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["amount", "level", "ratio"]


@dataclass(frozen=True)
class Counter:
    """One counter. `unit` is of the amount itself; `group` as in the paper, or "more" for counters not in it."""

    name: str
    group: str
    kind: Kind
    unit: str
    meaning: str


def _events(group: str, *rows: tuple[str, str]) -> tuple[Counter, ...]:
    return tuple(Counter(name, group, "amount", "events", meaning) for name, meaning in rows)


HARDWARE = _events(
    "hardware",
    ("cycles", "core cycles"),
    ("instructions", "instructions retired"),
    ("resource_stalls_any", "cycles stalled for any resource"),
    ("branch_instructions", "branches retired"),
    ("stalled_cycles_frontend", "cycles without instructions to issue"),
    ("stalled_cycles_backend", "cycles in which nothing could be executed"),
    ("branch_misses", "branches predicted wrongly"),
)
SOFTWARE = _events(
    "software",
    ("page_faults", "page faults, minor and major"),
    ("context_switches", "switches to another thread"),
    ("cpu_migrations", "moves to another core"),
)
CACHE = _events(
    "cache",
    ("cache_references", "accesses to the last-level cache"),
    ("cache_misses", "of those, misses"),
    ("llc_prefetch_misses", "prefetches missing the last-level cache"),
    ("llc_prefetches", "prefetches from the last-level cache"),
    ("l2_rqsts_demand_data_rd_hit", "demand reads that hit level 2"),
    ("l2_rqsts_pf_hit", "prefetches that hit level 2"),
    ("l2_l1d_wb_rqsts_miss", "lines written back from level 1 that miss level 2"),
    ("l2_lines_out_pf_clean", "clean lines pushed out of level 2 by prefetches"),
    ("l2_lines_out_pf_dirty", "changed lines pushed out of level 2 by prefetches"),
    ("l2_rqsts_all_pf", "prefetches asking level 2"),
    ("l2_lines_in_all", "lines brought into level 2"),
    ("l1d_allocated_in_m", "lines of level 1 allocated to be changed"),
    ("l2_lines_out_demand_clean", "clean lines pushed out of level 2 by demand"),
    ("l1d_eviction", "changed lines pushed out of level 1"),
    ("l2_rqsts_all_demand_data_rd", "demand reads asking level 2"),
    ("l1_dcache_store_misses", "stores missing level 1"),
    ("l1_dcache_load_misses", "loads missing level 1"),
    ("l1_dcache_loads", "loads asking level 1"),
    ("l1_dcache_prefetch_misses", "prefetches missing level 1"),
    ("l1d_replacement", "lines replaced in level 1"),
)
MEMORY = _events(
    "memory",
    ("mem_uops_retired_all_stores", "stores retired"),
    ("mem_uops_retired_all_loads", "loads retired"),
    ("mem_load_uops_retired_llc_miss", "loads that missed the last-level cache"),
    ("mem_load_uops_retired_llc_hit", "loads that hit the last-level cache"),
)
CALCULATED = (
    Counter("ipc", "calculated", "ratio", "", "instructions per cycle"),
    Counter("cache_references_per_instruction", "calculated", "ratio", "", "last-level accesses per instruction"),
    Counter("cpu_usage", "calculated", "ratio", "cores", "processor time per time: cores kept busy"),
    Counter("misses_per_instruction", "calculated", "ratio", "", "last-level misses per instruction"),
    Counter("miss_ratio", "calculated", "ratio", "", "last-level misses per access"),
)
MORE = (
    Counter("task_clock", "more", "amount", "seconds", "processor time of all threads"),
    Counter("user_time", "more", "amount", "seconds", "processor time in the program itself"),
    Counter("system_time", "more", "amount", "seconds", "processor time in the kernel"),
    Counter("major_faults", "more", "amount", "events", "page faults that needed the disk"),
    Counter("io_read_bytes", "more", "amount", "bytes", "read from storage"),
    Counter("io_write_bytes", "more", "amount", "bytes", "written to storage"),
    Counter("resident_bytes", "more", "level", "bytes", "memory in use"),
    Counter("threads", "more", "level", "threads", "threads alive"),
    Counter("llc_occupancy_bytes", "more", "level", "bytes", "last-level cache held"),
    Counter("memory_total_bytes", "more", "amount", "bytes", "memory traffic, all of it"),
    Counter("memory_local_bytes", "more", "amount", "bytes", "memory traffic to the own socket"),
    Counter("pressure_cpu", "more", "amount", "seconds", "time in which some thread waited for a core"),
    Counter("pressure_memory", "more", "amount", "seconds", "time in which some thread waited for memory"),
    Counter("pressure_io", "more", "amount", "seconds", "time in which some thread waited for storage"),
)
PAPER = (*HARDWARE, *SOFTWARE, *CACHE, *MEMORY, *CALCULATED)
COUNTERS: dict[str, Counter] = {counter.name: counter for counter in (*PAPER, *MORE)}

# A calculated counter from two amounts of the same interval; the first pair that was measured counts.
RATIOS: dict[str, tuple[tuple[tuple[str, ...], str], ...]] = {
    "ipc": ((("instructions",), "cycles"),),
    "cache_references_per_instruction": ((("cache_references",), "instructions"),),
    "cpu_usage": ((("task_clock",), "seconds"), (("user_time", "system_time"), "seconds")),
    "misses_per_instruction": ((("cache_misses",), "instructions"),),
    "miss_ratio": ((("cache_misses",), "cache_references"),),
}
