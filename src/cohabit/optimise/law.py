"""The speed of programs that share a node's cache and memory: the law behind every reported IPC. Compiled.

CPI_i = cpi0_i + cost_i * MPKI_i * L(u), L(u) = 1 + 0.4 u^2 / (1 - u), u = min(demand / capacity, 0.98), and the
demand is the sum of MPKI_i * IPC_i times `rate`. More load means longer latency, hence fewer misses per second: the
right side falls in u, so there is exactly one solution. Nothing here chooses sizes.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled, compiled_lean

HIGHEST_LOAD = 0.98
QUEUEING = 0.4
LINE_BYTES = 64.0
WRITE_BACK = 1.3  # bytes moved per byte missed
STEPS = 100
PRECISION = 1e-9  # of a Newton step: the error after it is about its square


def rate_of(freq_ghz: float) -> float:
    """GB/s that one miss per thousand instructions costs at one instruction per cycle."""
    return freq_ghz * LINE_BYTES * WRITE_BACK / 1000.0


@compiled_lean
def latency(load):
    """Cost of a miss against idle memory."""
    return 1.0 + QUEUEING * load * load / (1.0 - load)


@compiled_lean
def latency_slope(load):
    """Its derivative."""
    return QUEUEING * load * (2.0 - load) / ((1.0 - load) * (1.0 - load))


@compiled_lean
def solve_load(count, misses, cpi0, cost, relative):
    """The load u of memory for programs that miss `misses`; relative = rate / capacity. Newton, kept in a bracket."""
    worst = latency(HIGHEST_LOAD)
    lowest = 0.0
    highest = 0.0
    for i in range(count):
        lowest += misses[i] / (cpi0[i] + cost[i] * misses[i] * worst)
        highest += misses[i] / (cpi0[i] + cost[i] * misses[i])
    if lowest * relative >= HIGHEST_LOAD:
        return HIGHEST_LOAD
    left = lowest * relative  # demand falls with load, so its extremes bracket the solution
    right = min(highest * relative, HIGHEST_LOAD)
    load = right if right < 0.5 else 0.5 * (left + right)
    for _ in range(STEPS):
        cost_now = latency(load)
        slope_now = latency_slope(load)
        demand = 0.0
        slope = 0.0
        for i in range(count):
            ipc = 1.0 / (cpi0[i] + cost[i] * misses[i] * cost_now)
            part = misses[i] * ipc
            demand += part
            slope -= part * ipc * cost[i] * misses[i] * slope_now
        gap = demand * relative - load
        if gap > 0.0:
            left = load
        else:
            right = load
        step = load - gap / (slope * relative - 1.0)
        if not left <= step <= right:
            step = 0.5 * (left + right)
        moved = abs(step - load)
        load = step
        if moved <= PRECISION:
            break
    return load


@compiled
def alone(mpki, cpi0, cost, relative, out):
    """IPC of every program by itself on a node with the whole cache."""
    one_miss = np.empty(1)
    one_cpi = np.empty(1)
    one_cost = np.empty(1)
    last = mpki.shape[1] - 1
    for i in range(mpki.shape[0]):
        one_miss[0] = mpki[i, last]
        one_cpi[0] = cpi0[i]
        one_cost[0] = cost[i]
        load = solve_load(1, one_miss, one_cpi, one_cost, relative)
        out[i] = 1.0 / (cpi0[i] + cost[i] * mpki[i, last] * latency(load))


@compiled_lean
def misses_at(curve, size):
    """Misses with a size that need not be whole: linear between buckets, flat beyond the curve's ends."""
    last = curve.shape[0] - 1
    if size <= 0.0:
        return curve[0]
    if size >= last:
        return curve[last]
    below = int(size)
    return curve[below] + (size - below) * (curve[below + 1] - curve[below])
