"""Idle nodes as a bitmap: the lowest numbers are given out first; the nodes of a job are a linked list of ranges."""

from __future__ import annotations

from typing import Any

import numpy as np

from cohabit.compiled import compiled, compiled_lean, trailing_zeros
from cohabit.core.columns import (
    FIRST_WORD,
    FREE,
    HEAD,
    NODES,
    RANGE_COUNT,
    RANGE_FIRST,
    RANGE_NEXT,
    RANGES,
    RELEASED,
    SPARE_RANGE,
    WAKE,
    Ints,
)
from cohabit.core.kernels.bundles import Machine
from cohabit.model.units import FOREVER

FULL_WORD = np.uint64(0xFFFFFFFFFFFFFFFF)
ONE = np.uint64(1)


@compiled_lean
def take_nodes(row: int, jobs: Ints, machine: Machine) -> None:
    """Give the job its nodes: the lowest-numbered idle ones."""
    idle, pool, gauges = machine.idle, machine.pool, machine.gauges
    need = jobs[NODES, row]
    gauges[FREE] -= need
    word, last, chain = gauges[FIRST_WORD], -1, -1
    while need > 0:
        bits = idle[word]
        while bits != 0 and need > 0:
            offset = trailing_zeros(bits)
            run = 64 - offset
            rest = ~(bits >> offset)
            if rest != 0:
                run = min(run, trailing_zeros(rest))
            run = min(run, need)
            mask = FULL_WORD if run == 64 else ((ONE << np.uint64(run)) - ONE) << np.uint64(offset)
            bits &= ~mask
            need -= run
            first = word * 64 + offset
            if last >= 0 and pool[RANGE_FIRST, last] + pool[RANGE_COUNT, last] == first:
                pool[RANGE_COUNT, last] += run
            else:
                fresh = gauges[SPARE_RANGE]
                gauges[SPARE_RANGE] = pool[RANGE_NEXT, fresh]
                pool[RANGE_FIRST, fresh], pool[RANGE_COUNT, fresh], pool[RANGE_NEXT, fresh] = first, run, -1
                if last >= 0:
                    pool[RANGE_NEXT, last] = fresh
                else:
                    chain = fresh
                last = fresh
        idle[word] = bits
        if bits == 0:
            word += 1
    gauges[FIRST_WORD] = word
    jobs[RANGES, row] = chain


@compiled_lean
def release_nodes(row: int, jobs: Ints, machine: Machine) -> None:
    """Give the job's nodes back."""
    idle, pool, gauges = machine.idle, machine.pool, machine.gauges
    gauges[FREE] += jobs[NODES, row]
    link = jobs[RANGES, row]
    while link >= 0:
        first, count = pool[RANGE_FIRST, link], pool[RANGE_COUNT, link]
        gauges[FIRST_WORD] = min(gauges[FIRST_WORD], first // 64)
        while count > 0:
            word, offset = first // 64, first % 64
            run = min(count, 64 - offset)
            idle[word] |= FULL_WORD if run == 64 else ((ONE << np.uint64(run)) - ONE) << np.uint64(offset)
            first += run
            count -= run
        following = pool[RANGE_NEXT, link]
        pool[RANGE_NEXT, link] = gauges[SPARE_RANGE]
        gauges[SPARE_RANGE] = link
        link = following
    jobs[RANGES, row] = -1


@compiled
def initialise(idle: Any, pool: Ints, gauges: Ints, nodes: int) -> None:
    """Make all nodes idle and all ranges spare."""
    for word in range(len(idle)):
        count = min(64, nodes - word * 64)
        idle[word] = FULL_WORD if count == 64 else (ONE << np.uint64(count)) - ONE
    for index in range(pool.shape[1]):
        pool[RANGE_NEXT, index] = index + 1
    pool[RANGE_NEXT, pool.shape[1] - 1] = -1
    gauges[FREE], gauges[SPARE_RANGE], gauges[FIRST_WORD] = nodes, 0, 0
    gauges[RELEASED], gauges[HEAD], gauges[WAKE] = 0, -1, FOREVER
