"""Simulated perf counters of a program that runs alone: the paper's 39 counters, each with four statistics.

Rates per second over all threads, from a program's vector by the formulas below, with the noise of repeated runs. What
a counter cannot show is not in them: the size of the footprint, how it is reused, and what less cache would cost can
only be guessed from misses, stalls and page faults. Nothing here knows the law of the world.
"""

from __future__ import annotations

import numpy as np

from cohabit.model.counters import PAPER
from cohabit.model.features import STATISTICS
from cohabit.trace.colocation_programs import Machine, Vector

PAGES_PER_MB = 256
COLUMNS = tuple(f"{counter.name}_{statistic}" for counter in PAPER for statistic in STATISTICS)


def rates(vector: Vector, on: Machine) -> dict[str, float]:
    """Means without noise, by counter."""
    cycles = on.node.cores * vector.cpu_fraction * on.freq_ghz * 1e9
    cpi = on.cpi(vector, on.node.ways)
    instructions = cycles / cpi
    waiting = sum(on.stalls(vector, on.node.ways)) / cpi
    missing = vector.misses(on.node.ways * on.mb_per_way)
    references = instructions * vector.refs_per_ki / 1000.0
    second = references * vector.l2_reuse  # requests of the first level to the second
    prefetched = 0.2 + 0.6 * vector.streaming  # of all references
    storing = vector.stores / (vector.loads + vector.stores)
    blocked = on.node.cores * (1.0 - vector.cpu_fraction)
    switches = 50.0 + blocked * vector.switching
    return {
        "cycles": cycles,
        "instructions": instructions,
        "resource_stalls_any": cycles * (0.8 * waiting + 0.5 * vector.backend),
        "branch_instructions": instructions * vector.branches,
        "stalled_cycles_frontend": cycles * vector.frontend,
        "stalled_cycles_backend": cycles * (waiting + vector.backend),
        "branch_misses": instructions * vector.branches * vector.mispredicted,
        "page_faults": PAGES_PER_MB * vector.footprint_mb * vector.resident / vector.solo_time_s,
        "context_switches": switches,
        "cpu_migrations": 0.02 * switches,
        "cache_references": references,
        "cache_misses": references * missing,
        "llc_prefetch_misses": references * prefetched * missing,
        "llc_prefetches": references * prefetched,
        "l2_rqsts_demand_data_rd_hit": (second - references) * (1.0 - prefetched) * (1.0 - storing),
        "l2_rqsts_pf_hit": (second - references) * prefetched,
        "l2_l1d_wb_rqsts_miss": references * vector.write_back * 0.3,
        "l2_lines_out_pf_clean": references * prefetched * (1.0 - vector.write_back),
        "l2_lines_out_pf_dirty": references * prefetched * vector.write_back,
        "l2_rqsts_all_pf": second * prefetched,
        "l2_lines_in_all": references,
        "l1d_allocated_in_m": second * storing,
        "l2_lines_out_demand_clean": references * (1.0 - prefetched) * (1.0 - vector.write_back),
        "l1d_eviction": 0.9 * second,
        "l2_rqsts_all_demand_data_rd": second * (1.0 - prefetched) * (1.0 - storing),
        "l1_dcache_store_misses": second * storing,
        "l1_dcache_load_misses": second * (1.0 - storing),
        "l1_dcache_loads": instructions * vector.loads,
        "l1_dcache_prefetch_misses": 0.5 * second * prefetched,
        "l1d_replacement": second,
        "mem_uops_retired_all_stores": instructions * vector.stores,
        "mem_uops_retired_all_loads": instructions * vector.loads,
        "mem_load_uops_retired_llc_miss": references * missing * (1.0 - prefetched),
        "mem_load_uops_retired_llc_hit": references * (1.0 - missing) * (1.0 - prefetched),
        "ipc": 1.0 / cpi,
        "cache_references_per_instruction": vector.refs_per_ki / 1000.0,
        "cpu_usage": on.node.cores * vector.cpu_fraction,
        "misses_per_instruction": vector.refs_per_ki / 1000.0 * missing,
        "miss_ratio": missing,
    }


def measured(vector: Vector, on: Machine, rng: np.random.Generator, noise: float = 1.0) -> dict[str, float]:
    """Mean, minimum, maximum and deviation over the intervals of a run, by column; `noise` multiplies all error."""
    found: dict[str, float] = {}
    most = {"cpu_usage": float(on.node.cores), "miss_ratio": 1.0}
    for counter, rate in rates(vector, on).items():
        mean = rate * float(np.exp(noise * vector.noise * rng.standard_normal()))
        spread = vector.variation * (1.0 + noise * float(rng.uniform(-0.3, 0.3)))
        low, high = mean * max(0.0, 1.0 - 1.5 * spread), mean * (1.0 + 2.0 * spread)
        if counter in most:
            mean, high = min(mean, most[counter]), min(high, most[counter])
        values = (mean, min(low, mean), max(high, mean), mean * spread)
        found |= {f"{counter}_{name}": value for name, value in zip(STATISTICS, values, strict=True)}
    return found
