"""The queue and the machine as arrays for a plan: who could run how, what runs, what promises and windows keep free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import EXPECTED, LIMIT, START, USER
from cohabit.core.timeline import planned
from cohabit.model.plan import Ask
from cohabit.model.profile import Profile, capped_gbs, load_factor, stream_gbs
from cohabit.model.resources import Dimension
from cohabit.model.units import SECOND
from cohabit.policy.planning.nodes import latency
from cohabit.policy.planning.tables import ENDS, LAST_END, NODE_TIME, Problem

if TYPE_CHECKING:
    from cohabit.core.ledger import Takes
    from cohabit.core.view import View
    from cohabit.model.plan import Promise

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
GOALS = {"turnaround": ENDS, "slowdown": ENDS, "makespan": LAST_END, "node-hours": NODE_TIME}
LONGER = 0.1  # a job that has run for longer than expected is expected to run for this part of that again


class Way:
    """One way to run a job, in a plan."""

    def __init__(self, row: int, ask: Ask, view: View) -> None:
        self.row, self.ask = row, ask
        self.run_s = (ask.run_us or planned(view.limit_us(row))) / SECOND
        kind = next(number for number, takes in enumerate(ask.takes) if takes)
        self.node = view.kinds.groups[kind]
        job = view.job(row)
        self.profile: Profile | None = view.profile(job.program, job.processes, job.profile_owner)
        self.need, self.processes = view.need(row), job.processes

    def curves(self, width: int) -> tuple[Floats, Floats]:
        """Return speed, of that with all ways, and GB/s on a node against ways from none to all."""
        one = None if self.profile is None else self.profile.at_scale(self.ask.scale)
        if one is None or one.ipc is None or one.bandwidth_gbs is None or not self.node.ways:
            return np.ones(width), np.zeros(width)
        assert self.profile is not None
        ways = np.minimum(np.arange(width), self.node.ways)
        full = max(one.ipc.at(self.node.ways), 1e-9)
        reference = -(-self.profile.processes // self.node.cores)
        load = load_factor(self.processes, self.node.cores, self.profile.processes, reference, self.need)
        cores = self.ask.cores or self.node.cores
        speed = np.array([min(1.0, one.ipc.at(float(count)) / full) for count in ways])
        draw = np.array([capped_gbs(one.bandwidth_gbs.at(float(count)), load, self.node, cores)[0] for count in ways])
        return speed, draw

    def memory(self) -> tuple[float, float]:
        """Return the share of its time that it waits for memory, and how slow memory is when it runs alone.

        Counted as waiting is the bandwidth that it draws of all that its cores could draw.
        """
        _, draw = self.curves(self.node.ways + 1)
        cores = self.ask.cores or self.node.cores
        most = stream_gbs(self.node, cores)
        part = float(draw[-1]) / most if np.isfinite(most) else 0.0
        return min(1.0, part), latency(part)


def problem_of(
    view: View,
    dimensions: Sequence[Dimension],
    asks: Mapping[int, Sequence[Ask]],
    objective: str,
    look_ahead: int,
    slack: float,
) -> tuple[Problem, list[Way]]:
    """Return the problem of planning these waiting rows, in the order given, and the ways its numbers stand for."""
    queue, running = list(asks), sorted(view.placed)
    ways = [Way(row, ask, view) for row in queue for ask in asks[row]]
    waiting = len(ways)
    for row in running:
        how = view.placed[row]
        ask = Ask(how.scale, how.nodes, how.cores, how.ways, how.bandwidth_mbs, how.exclusive, how.purpose, how.takes)
        ways.append(Way(row, ask._replace(run_us=how.run_us), view))
    kinds, count = view.kinds, len(dimensions)
    width = max((group.ways for group in kinds.groups), default=0) + 1
    curves, memory = [one.curves(width) for one in ways], [one.memory() for one in ways]
    limits = np.array([planned(view.limit_us(row)) / SECOND for row in queue])
    weight = np.ones(len(queue) + len(running))
    each, own, flat = np.full(len(queue), 1.0 / view.cluster_nodes), 1.0, 0.0
    if objective == "slowdown":
        requests = view.jobs[LIMIT, [*queue, *running]]
        weight = float(np.mean(np.maximum(requests, 1))) / np.maximum(requests, 1)
        each = each / weight[: len(queue)]
    elif objective != "turnaround":
        each, own, flat = np.zeros(len(queue)), 0.0, 1.0
    free, marks = _free(view, count), [view.promises[row] for row in view.promises if row in asks]
    nodes = [view.ledger.nodes_of(row).tolist() for row in running]
    windows = [
        (kind, (one.begin_us - view.now_us) / SECOND, (one.end_us - view.now_us) / SECOND)
        for kind, here in enumerate(kinds.windows_of)
        for one in here
    ]
    place = {row: number for number, row in enumerate(queue)}
    problem = Problem(
        kind=kinds.of_node.astype(np.int64),
        free=free,
        capacity=view.ledger.capacity.astype(np.int64),
        weights=np.array([one.weight for one in dimensions], np.float64),
        ways=np.array([group.ways for group in kinds.groups], np.int64),
        stream=_streams(view),
        windows=np.array(windows, np.float64).reshape(-1, 3),
        jobs=len(queue),
        first=np.cumsum([0, *(len(asks[row]) for row in queue)]).astype(np.int64),
        limit=limits,
        weight=weight,
        user=view.jobs[USER, [*queue, *running]].astype(np.int64),
        by_user=bool(queue) and view.strangers(queue[0]) is not None,
        need=np.array([one.ask.nodes for one in ways], np.int64),
        take=np.array([_taken(one.ask.takes, count) for one in ways], np.int64).reshape(-1, kinds.count, count),
        run=np.array([one.run_s for one in ways]),
        share=np.array([one.ask.share for one in ways]),
        speed=np.array([one for one, _ in curves]).reshape(-1, width),
        draw=np.array([one for _, one in curves]).reshape(-1, width),
        booked=np.array([_booked(one) for one in ways], np.int64),
        waits=np.array([one for one, _ in memory]),
        alone=np.array([one for _, one in memory]),
        running_ask=np.arange(waiting, len(ways), dtype=np.int64),
        running_left=np.array(
            [_left_s(row, one.run_s, view) for row, one in zip(running, ways[waiting:], strict=True)]
        ),
        running_nodes=_table(nodes),
        holder=np.array([place[one.row] for one in marks], np.int64),
        due=np.array([(one.latest_us - view.now_us) / SECOND for one in marks]),
        marked=_marked(marks, view),
        spare=_spare(marks, view, count),
        goal=GOALS[objective],
        window=look_ahead,
        slack=slack,
        own=own,
        each=each,
        flat=flat,
    )
    return problem, ways


def _taken(takes: Takes, count: int) -> list[tuple[int, ...]]:
    return [one or (-1,) * count for one in takes]


def _booked(one: Way) -> int:
    """Return the ways that a job has for itself; one with its nodes to itself gets them all as spare ones."""
    return min(one.ask.ways, one.node.ways)


def _streams(view: View) -> Floats:
    """Return GB/s of a node by kind and active cores."""
    groups = view.kinds.groups
    cores = range(max(group.cores for group in groups) + 1)
    return np.array([[min(stream_gbs(group, max(one, 1)), 1e9) for one in cores] for group in groups])


def _free(view: View, count: int) -> Ints:
    """Return what is free on every node; -1 where a node takes no job."""
    ledger = view.ledger
    found = ledger.free[:, ledger.class_at].T.astype(np.int64)
    found[~ledger.up[ledger.class_at]] = -1
    return np.ascontiguousarray(found.reshape(-1, count))


def _left_s(row: int, run_s: float, view: View) -> float:
    """Return how much of a running job is left at full speed, by its measured progress where it is measured."""
    about = view.memory.get("guarantee", {}).get("jobs", {}).get(view.job_id(row), {})
    mean = about["done_us"] / about["span_us"] if about.get("span_us", 0) > 0 else 1.0
    gone_s = (view.now_us - int(view.jobs[START, row])) / SECOND
    left_s = run_s - mean * gone_s
    return float(max(left_s if left_s > 0 else LONGER * gone_s, 1.0))


def _table(nodes: Sequence[Sequence[int]]) -> Ints:
    found = np.full((len(nodes), max(map(len, nodes), default=1)), -1, np.int64)
    for place, own in enumerate(nodes):
        found[place, : len(own)] = own
    return found


def _marked(promises: Sequence[Promise], view: View) -> NDArray[np.bool_]:
    found = np.zeros((len(promises), view.cluster_nodes), np.bool_)
    for place, one in enumerate(promises):
        for first, count in one.ranges:
            found[place, first : first + count] = True
    return found


def _spare(promises: Sequence[Promise], view: View, count: int) -> Ints:
    """Return what is left on nodes when each promise begins, by requested times, beside it and the other promises."""
    ledger, kinds = view.ledger, view.kinds.of_node
    found = np.zeros((len(promises), view.cluster_nodes, count), np.int64)
    for place, one in enumerate(promises):
        found[place] = ledger.capacity[kinds]
        for row, takes in ledger.takes.items():
            if int(view.jobs[EXPECTED, row]) > one.latest_us:
                nodes = ledger.nodes_of(row)
                found[place, nodes] -= np.array(_taken(takes, count), np.int64)[kinds[nodes]]
        for other in promises:
            if other.latest_us <= one.latest_us < other.latest_us + planned(view.limit_us(other.row)):
                nodes = np.concatenate([np.arange(first, first + size) for first, size in other.ranges])
                found[place, nodes] -= np.array(_taken(other.ask.takes, count), np.int64)[kinds[nodes]]
    return found
