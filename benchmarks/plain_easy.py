"""A plain-Python FCFS + EASY simulator, written the way one would write it: heap of ends, list of waiting jobs.

The yardstick of `make bench`: no numpy, no compilation, no node identities, the same rules.
"""

from __future__ import annotations

import bisect
import heapq


def simulate(submit: list[int], duration: list[int], limit: list[int], size: list[int], nodes: int) -> list[int]:
    """Start time of every job; jobs are sorted by submission."""
    start = [0] * len(submit)
    ends: list[tuple[int, int]] = []  # (true end, job)
    expected: list[tuple[int, int]] = []  # (requested end, job), sorted
    queue: list[int] = []
    free, coming = nodes, 0

    def launch(job: int, now: int) -> None:
        nonlocal free
        start[job] = now
        free -= size[job]
        heapq.heappush(ends, (now + duration[job], job))
        bisect.insort(expected, (now + limit[job], job))

    while coming < len(submit) or ends:
        now = min(submit[coming] if coming < len(submit) else 2**62, ends[0][0] if ends else 2**62)
        while ends and ends[0][0] == now:
            job = heapq.heappop(ends)[1]
            free += size[job]
            expected.pop(bisect.bisect_left(expected, (start[job] + limit[job], job)))
        while coming < len(submit) and submit[coming] == now:
            queue.append(coming)
            coming += 1
        while queue and size[queue[0]] <= free:
            launch(queue.pop(0), now)
        if not queue or not free:
            continue
        need, total, shadow = size[queue[0]], free, 2**62
        for instant, job in expected:
            if total >= need and instant > shadow:
                break
            total += size[job]
            if total >= need and shadow == 2**62:
                shadow = instant
        extra = total - need
        waiting = [queue[0]]
        for job in queue[1:]:
            if size[job] <= free and (now + limit[job] <= shadow or size[job] <= extra):
                if now + limit[job] > shadow:
                    extra -= size[job]
                launch(job, now)
            else:
                waiting.append(job)
        queue = waiting
    return start
