"""Faults as part of a scenario: nodes that are lost and repaired, and reports that come late. All seeded."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

import numpy as np

from cohabit.model.event import Event, NodeDown, NodeUp


def node_failures(
    rng: np.random.Generator, nodes: int, mtbf_us: float, repair_us: float, begin_us: int
) -> Iterator[tuple[int, Event]]:
    """Every node fails after an exponential time and comes back after an exponential repair, for ever."""
    due = [(begin_us + int(rng.exponential(mtbf_us)), node, True) for node in range(nodes)]
    heapq.heapify(due)
    while due:
        at_us, node, fails = heapq.heappop(due)
        yield at_us, NodeDown(node) if fails else NodeUp(node)
        pause = rng.exponential(repair_us if fails else mtbf_us)
        heapq.heappush(due, (at_us + max(1, int(pause)), node, not fails))


def late_reports(rng: np.random.Generator, mean_us: float) -> Callable[[str], int]:
    """Return how late the end of a job is reported, drawn for every job."""
    return lambda job_id: int(rng.exponential(mean_us))
