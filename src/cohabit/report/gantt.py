"""Gantt charts, the nodes of jobs over time: bars where they fit on a screen, else a raster of the whole machine."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohabit.model.records import RunTable
from cohabit.report.metrics import LIVE, RanJobs
from cohabit.report.series import covered, horizon, queue_level

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MAX_BARS = 1500  # with more than this, the whole run is a raster
WINDOW_BARS = 500  # bars in a close look, few enough to tell apart
MAX_LANES = 20_000  # pieces of jobs on single nodes, if nodes are shared
EPSILON = 1e-9
MAX_NODES = 128  # rows of a detail window, so that a job on one node stays visible
RASTER_ROWS, RASTER_SLICES = 160, 560
IDLE = 0.005  # a cell that is used less passes for idle


@dataclass(frozen=True)
class Bars:
    """Rectangles: job `row[i]` had `count[i]` nodes from `first[i]` up, between its start and its end."""

    row: Ints
    first: Ints
    count: Ints

    def __len__(self) -> int:
        return len(self.row)

    def take(self, keep: NDArray[np.bool_]) -> Bars:
        return Bars(self.row[keep], self.first[keep], self.count[keep])


@dataclass(frozen=True)
class Window:
    """A part of the run to look at closely."""

    label: str
    from_us: int
    until_us: int
    first_node: int
    nodes: int
    left_out: int  # bars dropped because even this window held too many


def recorded_bars(run: RunTable, jobs: RanJobs) -> Bars | None:
    """Bars from the node lists; None if none were recorded."""
    ranges = run.node_ranges
    if ranges is None:
        return None
    ran = np.zeros(len(run), dtype=bool)
    ran[jobs.row] = True
    row = np.repeat(np.arange(len(run), dtype=np.int64), np.diff(ranges.offsets))
    bars = Bars(row, ranges.first.astype(np.int64), ranges.count.astype(np.int64))
    return bars if ran.all() else bars.take(ran[row])


def packed_bars(run: RunTable, jobs: RanJobs) -> Bars:
    """Bars for a run without node lists: each job on the lowest free lines, of which there may be more than nodes."""
    free: list[int] = []
    lines = 0
    running: list[tuple[int, int]] = []  # end, position in jobs
    held: dict[int, list[int]] = {}
    row, first, count = [], [], []
    for position in np.lexsort((jobs.end_us, jobs.start_us)).tolist():
        while running and running[0][0] <= int(jobs.start_us[position]):
            for line in held.pop(heapq.heappop(running)[1]):
                heapq.heappush(free, line)
        job = int(jobs.row[position])
        taken = []
        for _ in range(int(run.nodes[job])):
            if not free:
                heapq.heappush(free, lines)
                lines += 1
            taken.append(heapq.heappop(free))
        held[position] = taken
        heapq.heappush(running, (int(jobs.end_us[position]), position))
        numbers = np.array(taken, dtype=np.int64)
        borders = np.concatenate(([0], np.flatnonzero(np.diff(numbers) != 1) + 1, [len(numbers)]))
        for begin, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
            if end > begin:
                row.append(job)
                first.append(int(numbers[begin]))
                count.append(end - begin)
    return Bars(np.array(row, np.int64), np.array(first, np.int64), np.array(count, np.int64))


@dataclass(frozen=True)
class Lanes:
    """Rectangles in the unit of nodes: job `row[i]` from `low[i]` up, `height[i]` high; several may lie on one node."""

    row: Ints
    low: Floats
    height: Floats

    def __len__(self) -> int:
        return len(self.row)

    def take(self, keep: NDArray[np.bool_]) -> Lanes:
        return Lanes(self.row[keep], self.low[keep], self.height[keep])


def lanes(run: RunTable, bars: Bars) -> Lanes:
    """Return the bars so that jobs that share a node lie beside each other, each as high as its share of the cores.

    Where more cores are used than a node has, all lanes of that node are lower.
    """
    whole = Lanes(bars.row, bars.first.astype(np.float64), bars.count.astype(np.float64))
    if run.shares is None and run.workload.source != LIVE:
        return whole
    if int(bars.count.sum()) > MAX_LANES:
        return whole
    piece = np.repeat(np.arange(len(bars)), bars.count)
    node = bars.first[piece] + np.arange(len(piece)) - np.repeat(np.cumsum(bars.count) - bars.count, bars.count)
    row = bars.row[piece]
    start, end = run.start_us[row], run.end_us[row]
    share = run.cores[row] / np.maximum(run.nodes[row], 1) * run.cluster_nodes / max(run.cluster_cores, 1)
    low, top = np.zeros(len(piece)), np.ones(run.cluster_nodes)
    running: dict[int, list[tuple[float, float, int]]] = {}  # by node: low, high, end of the lanes in use
    for one in np.lexsort((-share, start, node)).tolist():
        there = sorted(lane for lane in running.get(int(node[one]), []) if lane[2] > start[one])
        at = 0.0
        for begin, until, _ in there:
            if begin - at >= share[one] - EPSILON:
                break
            at = max(at, until)
        low[one] = at
        running[int(node[one])] = [*there, (at, at + float(share[one]), int(end[one]))]
        top[node[one]] = max(top[node[one]], at + float(share[one]))
    alone = (low == 0) & (share >= 1 - EPSILON) & (top[node] <= 1 + EPSILON)
    joined = np.bincount(piece, weights=~alone, minlength=len(bars)) == 0  # bars that fill all their nodes stay whole
    keep, single = joined, ~joined[piece]
    return Lanes(
        np.concatenate((whole.row[keep], row[single])),
        np.concatenate((whole.low[keep], node[single] + low[single] / top[node[single]])),
        np.concatenate((whole.height[keep], share[single] / top[node[single]])),
    )


def core_share(run: RunTable, rows: Ints) -> Floats:
    """Return the share of a node's cores that each job uses on each of its nodes."""
    return run.cores[rows] / np.maximum(run.nodes[rows], 1) * run.cluster_nodes / max(run.cluster_cores, 1)


def cells(run: RunTable, jobs: RanJobs, bars: Bars, weight: Floats) -> Floats:
    """Return the summed weights of bars, node groups (rows) x time slices (columns), exact means over each cell."""
    rows, slices = min(run.cluster_nodes, RASTER_ROWS), RASTER_SLICES
    origin, span = horizon(jobs)
    height, width = run.cluster_nodes / rows, span / slices
    up = covered(bars.first / height, (bars.first + bars.count) / height, rows)
    along = covered((run.start_us[bars.row] - origin) / width, (run.end_us[bars.row] - origin) / width, slices)
    changes = np.zeros((rows + 1) * (slices + 1))
    for line, part in up:
        here = weight * part
        for column, amount in along:
            changes += np.bincount(line * (slices + 1) + column, weights=here * amount, minlength=len(changes))
    return changes.reshape(rows + 1, slices + 1).cumsum(axis=0).cumsum(axis=1)[:rows, :slices]


def raster(run: RunTable, jobs: RanJobs, bars: Bars) -> NDArray[np.uint8]:
    """Percent of cores in use, node groups (rows) x time slices (columns)."""
    used = cells(run, jobs, bars, core_share(run, bars.row))
    percent: NDArray[np.uint8] = np.rint(np.clip(used * 100, 0, 100)).astype(np.uint8)
    return percent


def mean_raster(run: RunTable, jobs: RanJobs, bars: Bars, value: Floats) -> NDArray[np.float64]:
    """Return the mean of a value of jobs in each cell, weighted with the cores they use there; NaN where it is idle."""
    share = core_share(run, bars.row)
    busy, total = cells(run, jobs, bars, share), cells(run, jobs, bars, share * value[bars.row])
    return np.where(busy < IDLE, np.nan, total / np.maximum(busy, IDLE))


def leading_raster(run: RunTable, jobs: RanJobs, bars: Bars, group: NDArray[np.int32]) -> NDArray[np.uint8]:
    """Return which group (of every job: 1 and up) used most of each cell; 0 where it is idle."""
    most = np.full((min(run.cluster_nodes, RASTER_ROWS), RASTER_SLICES), IDLE)
    found = np.zeros(most.shape, np.uint8)
    for number in np.unique(group[bars.row]).tolist():
        own = bars.take(group[bars.row] == number)
        used = cells(run, jobs, own, core_share(run, own.row))
        found[used > most] = number
        most = np.maximum(most, used)
    return found


def detail_windows(run: RunTable, jobs: RanJobs, bars: Bars) -> list[tuple[Window, Bars]]:
    """Up to three periods worth a close look, each with the bars inside it."""
    origin, _ = horizon(jobs)
    queue = queue_level(run, jobs)
    longest = int(np.argmax(jobs.wait_s))
    anchors = [("the beginning", origin, 0)]
    if queue.value.max() > 0:
        peak = origin + int(queue.at_us[int(np.argmax(queue.value))])
        anchors.insert(0, ("when the queue was longest", peak, 0))
    if jobs.wait_s[longest] > 0:
        row = int(jobs.row[longest])
        own = bars.first[bars.row == row]
        node = int(own[0]) if len(own) else 0
        anchors.insert(1, ("around the job that waited longest", int(run.start_us[row]), node))
    return [_window(run, jobs, bars, *anchor) for anchor in anchors]


def _window(run: RunTable, jobs: RanJobs, bars: Bars, label: str, at_us: int, node: int) -> tuple[Window, Bars]:
    nodes = min(run.cluster_nodes, MAX_NODES)
    low = min(max(node - nodes // 2, 0), run.cluster_nodes - nodes)
    here = bars.take((bars.first < low + nodes) & (bars.first + bars.count > low))
    start, end = run.start_us[here.row], run.end_us[here.row]
    origin, span = horizon(jobs)
    begins, ends = np.sort(start), np.sort(end)
    narrow, wide = 1, span  # bisection on the width: the widest window that still holds few enough bars
    while narrow < wide:
        width = (narrow + wide + 1) // 2
        left, right = _placed(at_us, width, origin, span)
        inside = np.searchsorted(begins, right, "left") - np.searchsorted(ends, left, "right")
        narrow, wide = (width, wide) if inside <= WINDOW_BARS else (narrow, width - 1)
    left, right = _placed(at_us, narrow, origin, span)
    here = here.take((start < right) & (end > left))
    left_out = max(len(here) - WINDOW_BARS, 0)
    if left_out:
        kept = np.zeros(len(here), dtype=bool)
        kept[np.argsort(-here.count, kind="stable")[:WINDOW_BARS]] = True
        here = here.take(kept)
    return Window(label, left, right, low, nodes, left_out), here


def _placed(at_us: int, width: int, origin: int, span: int) -> tuple[int, int]:
    """A window of this width around an instant, moved to lie within the run."""
    left = min(max(at_us - width // 2, origin), origin + span - width)
    return left, left + width
