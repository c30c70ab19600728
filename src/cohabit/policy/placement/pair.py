"""Two jobs (or up to four) on one node at once, chosen so that they slow each other least; the others run alone.

Intelligent Colocation (SBAC-PAD 2019): the ready jobs are paired by predicted degradation, the pairs start together
on an empty node, and a pair that would slow by more than the threshold runs one after the other instead. Methods:
`optimal` (minimum-weight perfect matching), `greedy` (cheapest pair first), `saving` (ours: most seconds gained against
one after the other, so durations count), `intensity` (the most memory-intense with the least, prior work), and
`consecutive` (FIFO shared: no knowledge, the next job takes the next free place). New jobs mean new pairs.
Cores are shared in time where two jobs have more threads than the node has cores. When one of a pair ends, the other
has the node to itself, as in the paper; with `refill` (ours) a waiting job that goes well with it may join it. With a
model that learns, `explore` (ours) spends a share of the pairs on those that teach most (exploring.py). It does badly
where predictions are too low.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cohabit.model.cluster import NodeGroup
from cohabit.model.errors import InputError
from cohabit.model.features import feature
from cohabit.model.mix import Floats
from cohabit.model.plan import Ask
from cohabit.model.profile import Tenant, footprint
from cohabit.model.resources import CORES, MEMORY, Dimension, Wish
from cohabit.optimise import matching
from cohabit.optimise.matching import Matching
from cohabit.policy.degradation import PredictedPairs, ProfiledPairs
from cohabit.policy.needs import COUNTERS, SHARED_CORES, Need
from cohabit.policy.placement.exploring import MEMORY_NAME as EXPLORING
from cohabit.policy.placement.exploring import Account, most_instructive
from cohabit.policy.placement.wishes import SharedNodes, alone, ask_for, wants_whole_nodes

if TYPE_CHECKING:
    from cohabit.core.ledger import Ledger, Parts, Takes
    from cohabit.core.view import View
    from cohabit.policy.options import PlacementOptions

OPTIMAL, GREEDY, SAVING, INTENSITY, CONSECUTIVE = METHODS = ("optimal", "greedy", "saving", "intensity", "consecutive")
MEMORY_NAME = "pairs"
MISSES = "misses_per_instruction_mean"  # the counter used by distributed intensity
BY_MISSES = Need(COUNTERS, "jobs are paired as if none missed the cache", True, (MISSES,))
NEVER = 1e9  # percent: jobs that cannot share


class Together(SharedNodes):
    """A node has places for `size` jobs; cores may be taken that many times where the site allows it."""

    def __init__(self, options: PlacementOptions) -> None:
        size = options.group_size
        times = size if options.oversubscribe else 1
        self.shares_cores = times > 1
        cores = replace(CORES, capacity=lambda node: times * node.cores)
        self.needs: tuple[Need, ...] = (SHARED_CORES,)
        self.places = Dimension("places", "places", lambda node: size, lambda wish: 1)
        self.dimensions: tuple[Dimension, ...] = (cores, self.places, MEMORY)

    def asks(self, row: int, view: View) -> list[Ask]:
        """Return a shared footprint on as few nodes as hold the job; alone as the last resort."""
        job, compact = view.job(row), alone(row, view, self.dimensions)
        if wants_whole_nodes(job):
            return compact
        spread = footprint(job.processes, view.smallest_node(row), 1, view.need(row))
        wish = Wish(job, None, 1, spread.nodes, spread.cores, 0, 0.0)
        return [ask_for(wish, self.dimensions, view, row), *compact]


class Pair(Together):
    """Groups by known degradations; the first `window` jobs of the queue are considered."""

    def __init__(self, options: PlacementOptions) -> None:
        super().__init__(options)
        self.method, self.degradations = options.pairing, options.degradations or ProfiledPairs()
        self.threshold_pct, self.size, self.window = options.threshold_pct, options.group_size, options.window
        self.explore = options.explore if self.learns and self.method in (OPTIMAL, GREEDY, SAVING) else 0.0
        self.refill = options.refill and self.method != INTENSITY  # which knows no degradations
        self.needs += (BY_MISSES,) if self.method == INTENSITY else self.degradations.needs

    def groups(self, queue: Sequence[int], view: View) -> tuple[list[tuple[int, ...]], dict[str, object]]:
        """Return the groups that start together, ordered by their first member, and what to remember of them."""
        rows = list(queue[: self.window])
        names, known = [view.job_id(row) for row in rows], view.memory.get(MEMORY_NAME, {})
        account, here = Account.of(view.memory), set(names)
        if self.explore:
            account = account.after(known, view)
        if not all(name in known and here.issuperset(known[name]) for name in names) or self._mixes(known, rows, view):
            found, trial = self._grouped(rows, view, account.allows(self.explore))
            groups = [[names[place] for place in group] for group in found]
            account = account._replace(now=tuple(names[place] for place in trial))
            known = {name: group for group in groups for name in group}
        row_of = dict(zip(names, rows, strict=True))
        together = dict.fromkeys(tuple(row_of[other] for other in known[name]) for name in names)
        memory: dict[str, object] = {MEMORY_NAME: {name: known[name] for name in names}}
        return list(together), memory | ({EXPLORING: account.kept()} if self.explore else {})

    def _mixes(self, known: Mapping[str, Sequence[str]], rows: Sequence[int], view: View) -> bool:
        """Return whether a remembered group has members that may not share nodes; the site was another one then."""
        circles = {view.job_id(row): view.circle(row) for row in rows}
        return any(circles[name] != circles[other] for name in circles for other in known[name])

    @property
    def learns(self) -> bool:
        """Return whether co-runs change what it expects."""
        return isinstance(self.degradations, PredictedPairs) and self.degradations.learns

    def by_counters(self, jobs: Sequence[Tenant], node: NodeGroup) -> Floats:
        """Return what counters alone say of these jobs beside each other."""
        assert isinstance(self.degradations, PredictedPairs)
        return self.degradations.by_counters(jobs, node)

    def join(self, row: int, ask: Ask, takes: Takes, ledger: Ledger, view: View) -> Parts | None:
        """Return the nodes of the best partner among running jobs with a place left beside them."""
        if not self.refill or ask.exclusive:
            return None
        found: list[tuple[float, int, Parts]] = []
        for index in np.flatnonzero(ledger.suitable(takes)).tolist():
            there = ledger.residents[index]
            if not there or any(len(ledger.nodes_of(one)) != ask.nodes for one in there):
                continue  # jobs that share nodes share all of them
            kind = int(ledger.kind[index])
            tenants = [view.tenant(one, kind) for one in there] + [view.tenant(row, kind, ask.cores)]
            cost = self._cost(self.degradations.between(tenants, view.kinds.groups[kind], view.co_runs))
            if cost is not None:
                found.append((cost, int(ledger.first[index]), ((index, ask.nodes),)))
        return min(found)[2] if found else None

    def _cost(self, percent: Floats) -> float | None:
        """Return the cost of running together, lower is better; None if they must not. Degradations add up."""
        slowed = np.where(np.eye(len(percent)) > 0, 0.0, percent).sum(axis=1)
        if np.isnan(slowed).any():
            return None
        if self.method == SAVING:  # the work done together in the time one of them takes alone
            done = float((1.0 / (1.0 + slowed / 100.0)).sum())
            return -done if done > 1.0 else None
        worst = float(slowed.max())
        return worst if worst <= self.threshold_pct else None

    def why_not(self, row: int, view: View) -> str:
        """Return the job's partner, or why it runs alone; either way it needs empty nodes or a job it may join."""
        name, where = view.job_id(row), "on nodes that are empty"
        group = view.memory.get(MEMORY_NAME, {}).get(name, [])
        if not group:
            return f"only the first {self.window} jobs of the queue are paired"
        if len(group) > 1:
            others = " and ".join(f"job {other}" for other in group if other != name)
            joining = ", and goes well with no job that has a place left beside it" if self.refill else ""
            trial = self._trial(row, group, view)
            return f"it is to start together with {others}, {where}{joining}{self._expected(row, group, view)}{trial}"
        return f"it is to run alone, {where}: {self._alone_because(row, view)}"

    def _expected(self, row: int, group: Sequence[str], view: View) -> str:
        """Return by how much the job and its partners are expected to slow; empty where no degradation is known."""
        if self.method == INTENSITY:
            return ""
        row_of = {view.job_id(one): one for one in view.queued().tolist()}
        if not row_of.keys() >= set(group):
            return ""
        rows = [row, *(row_of[other] for other in group if row_of[other] != row)]
        kind = view.usable(row).tolist().index(True)
        tenants = [view.tenant(one, kind, _cores(one, view)) for one in rows]
        found = self.degradations.between(tenants, view.kinds.groups[kind], view.co_runs)
        percent = np.where(np.eye(len(rows)) > 0, 0.0, found)
        own, *others = percent.sum(axis=1).tolist()
        theirs = " and ".join(f"{one:.0f} %" for one in others)
        return f"; {self.degradations.source} expects it to slow by {own:.0f} % and its partner by {theirs}"

    def _trial(self, row: int, group: Sequence[str], view: View) -> str:
        """Return that the pair is made to learn; empty if it is not."""
        account = Account.of(view.memory)
        if not self.explore or tuple(group) != account.now:
            return ""
        most = f"at most {self.threshold_pct:g} % slower by the upper ends of both intervals"
        so_far = f"{account.explored} of {account.pairs} pairs so far"
        return f"; it is made to learn how they go together ({most}): policy.explore = {self.explore:g}, {so_far}"

    def _alone_because(self, row: int, view: View) -> str:
        job = view.job(row)
        if wants_whole_nodes(job):
            return "it asked for whole nodes"
        if self.method != INTENSITY:
            profile = view.profile(job.program, job.processes, job.profile_owner)
            if lacks := self.degradations.lacks(job.program, profile):
                return lacks
        return f"no job left in the queue would go well with it (threshold {self.threshold_pct:g} %)"

    def _grouped(self, rows: list[int], view: View, may_explore: bool) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
        """Return the queue positions of every group, a job alone being a group of one; and the pair made to learn."""
        apart = [place for place, row in enumerate(rows) if wants_whole_nodes(view.job(row))]
        able = [place for place in range(len(rows)) if place not in set(apart)]
        trial: tuple[int, ...] = ()
        if self.method == INTENSITY:
            pairs = self._by_intensity([rows[place] for place in able], view)
        else:
            pairs, trial = self._by_degradation([rows[place] for place in able], view, may_explore)
        groups = [tuple(able[place] for place in group) for group in pairs]
        groups = [group for group in groups if len({view.circle(rows[place]) for place in group}) == 1]
        together = {place for group in groups for place in group}
        singles = [(place,) for place in range(len(rows)) if place not in together]
        return groups + singles, tuple(able[place] for place in trial)

    def _by_degradation(
        self, rows: list[int], view: View, may_explore: bool
    ) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
        if len(rows) < 2:
            return [], ()
        shapes = [(tuple(view.usable(row).tolist()), view.need(row)) for row in rows]  # can use the same nodes
        percent, seconds = np.full((len(rows), len(rows)), NEVER), np.zeros(len(rows))
        gain, high = np.zeros_like(percent), np.full_like(percent, NEVER)
        for shape in sorted(set(shapes)):
            places = [place for place, other in enumerate(shapes) if other == shape]
            kind = shape[0].index(True)
            node = view.kinds.groups[kind]
            tenants = [view.tenant(rows[place], kind, _cores(rows[place], view)) for place in places]
            found = self.degradations.between(tenants, node, view.co_runs)
            percent[np.ix_(places, places)] = np.where(np.isnan(found), NEVER, found)
            seconds[places] = [_seconds(one, rows[place], view) for one, place in zip(tenants, places, strict=True)]
            if may_explore and isinstance(self.degradations, PredictedPairs):
                gain[np.ix_(places, places)], high[np.ix_(places, places)] = self.degradations.teaching(
                    tenants, node, view.co_runs
                )
        circles = np.array([view.circle(row) for row in rows])
        percent[circles[:, np.newaxis] != circles] = NEVER
        groups = list(self._matched(percent, seconds).groups)
        trial = (
            most_instructive(np.where(percent < NEVER, gain, 0.0), high, self.threshold_pct) if may_explore else None
        )
        if trial is None or trial in groups:
            return groups, ()
        percent[list(trial), :] = percent[:, list(trial)] = NEVER
        others = [group for group in self._matched(percent, seconds).groups if set(trial).isdisjoint(group)]
        return [trial, *others], trial

    def _matched(self, percent: Floats, seconds: Floats) -> Matching:
        if self.method == SAVING:
            if self.size > 2:
                return matching.grouped_saving(percent, seconds, self.size, NEVER / 2)
            return matching.saving(percent, seconds, NEVER / 2)
        if self.size > 2:
            return matching.grouped(percent, self.size, self.threshold_pct)
        return (matching.greedy if self.method == GREEDY else matching.optimal)(percent, self.threshold_pct)

    def _by_intensity(self, rows: list[int], view: View) -> list[tuple[int, ...]]:
        """Distributed Intensity: sorted by misses, the first with the last, and so on inwards (Blagodurov et al.)."""
        misses = []
        for row in rows:
            job = view.job(row)
            profile = view.profile(job.program, job.processes, job.profile_owner)
            one = None if profile is None else profile.at_scale(1)
            misses.append(feature(one, MISSES) or 0.0)
        groups: list[tuple[int, ...]] = []
        alike = [(view.need(row), view.circle(row)) for row in rows]  # these may share nodes
        for kind in sorted(set(alike)):
            order = sorted(
                (place for place in range(len(rows)) if alike[place] == kind),
                key=lambda place: (-misses[place], place),
            )
            half = len(order) // 2
            groups += [tuple(sorted(pair)) for pair in zip(order[:half], order[::-1][:half], strict=True)]
        return groups


def by_method(options: PlacementOptions) -> Together:
    """Return the placement of the method that the options name."""
    if options.pairing not in METHODS:
        raise InputError(f"pairing = {options.pairing!r} is unknown", "policy.pairing", f"use {', '.join(METHODS)}")
    return Together(options) if options.pairing == CONSECUTIVE else Pair(options)


def _cores(row: int, view: View) -> int:
    """Return the cores the job would have on each node, compact."""
    return footprint(view.job(row).processes, view.smallest_node(row), 1, view.need(row)).cores


def _seconds(tenant: Tenant, row: int, view: View) -> float:
    """Return the run time alone: as measured, else as its owner states."""
    one = None if tenant.profile is None else tenant.profile.at_scale(1)
    return one.time_s if one is not None and one.time_s > 0 else view.limit_us(row) / 1e6
