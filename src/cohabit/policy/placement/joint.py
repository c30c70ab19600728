"""COHABIT: spread, share and wait as far as it shortens the turnaround of all, under a bound on every job's slowdown.

Ours, after Spread-n-Share and Shepherd. A job may run at every scale that is not slower than alpha allows against its
compact, exclusive run; at each scale it asks for the fewest cache ways, and the bandwidth drawn at them, with which it
keeps that bound. A way to run costs the job's own time plus the time it takes from the jobs that wait: the largest
share of a node it needs, over its nodes and its time. Of the jobs at the front the one starts next whose best way now
costs least more than its best way ever (*regret*); one that would cost SLACK times as much rather waits. Profiles
with uneven curves are trusted less: their jobs keep a higher bound. It does badly where profiles are wrong in time, not
in shape, and where most jobs have none: those run alone and are measured or, where the site says so, side by side by
cores, unmeasured. A program with counters but no curves shares nodes as far as a model of degradation (or a matrix of
measured ones) promises every job there its bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from cohabit.core.columns import LIMIT
from cohabit.model.cluster import NodeGroup
from cohabit.model.mix import Floats
from cohabit.model.plan import Ask
from cohabit.model.profile import Profile, Tenant, demand, footprint, stream_gbs
from cohabit.model.resources import BANDWIDTH, CORES, MEMORY, PARTITIONS, WAYS, Dimension, Wish
from cohabit.model.units import microseconds
from cohabit.policy.caution import cautious
from cohabit.policy.degradation import PredictedPairs
from cohabit.policy.exploration import Trials
from cohabit.policy.needs import ALL_ALONE, CURVED, DIVIDED
from cohabit.policy.options import BY_CORES
from cohabit.policy.placement.wishes import (
    SharedNodes,
    alone,
    ask_for,
    possible,
    stays_together,
    trial_run,
    wants_whole_nodes,
)

if TYPE_CHECKING:
    from cohabit.core.ledger import Ledger, Parts, Takes
    from cohabit.core.view import View
    from cohabit.policy.options import PlacementOptions

SLACK = 1.2  # a way to run that costs more than this many times the best one is not worth a start now


class Joint(SharedNodes):
    """Footprints by regret; jobs of unknown programs run compact and exclusive, or share nodes by cores."""

    def __init__(self, options: PlacementOptions) -> None:
        self.alpha, self.scales, self.window = options.alpha, options.scales, options.look_ahead
        self.objective = options.objective
        known = options.degradations
        self.by_cores, self.degradations = options.unknown == BY_CORES, known.keeping_bounds() if known else None
        self.picky = self.degradations is not None  # it may refuse nodes that have room
        self.trials = Trials(options.scales, options.trial_rules) if options.learn and not self.by_cores else None
        ways = (replace(WAYS, weight=options.beta), PARTITIONS) if options.divide_cache else ()
        bandwidth = (BANDWIDTH,) if options.book_bandwidth else ()
        profiles = ALL_ALONE._replace(essential=not self.by_cores)
        self.needs = (profiles, CURVED, DIVIDED) if options.divide_cache else (profiles, CURVED)
        self.dimensions: tuple[Dimension, ...] = (CORES, *bandwidth, *ways, MEMORY)

    def asks(self, row: int, view: View) -> list[Ask]:
        """Return the ways in which the job could run: a measuring run that is due, shared footprints, alone."""
        job = view.job(row)
        compact = alone(row, view, self.dimensions)
        profile = view.profile(job.program, job.processes, job.profile_owner)
        base = None if profile is None else demand(profile, 1, job.processes, 1.0, view.node_type(row), view.need(row))
        if base is not None:
            compact = [one._replace(run_us=microseconds(base.time_s)) for one in compact]
        if wants_whole_nodes(job):
            return compact
        found = trial_run(self.trials, row, view, view.smallest_node(row), self.dimensions)
        if profile is not None and base is not None:
            found += self._shared(row, profile, base.time_s, view)
        elif self.by_cores or self._is_judged(job.program, profile):
            found.append(self._side_by_side(row, view))
        return found + compact

    def find(self, row: int, ask: Ask, takes: Takes, ledger: Ledger, view: View) -> Parts | None:
        """Return the idlest nodes, of those on which no job is predicted to fall below its bound."""
        if self.degradations is None or ask.exclusive:
            return super().find(row, ask, takes, ledger, view)
        bearable = ledger.up.copy()
        for index in np.flatnonzero(ledger.suitable(takes)).tolist():
            bearable[index] = self._keeps_bounds((row, *ledger.residents[index]), int(ledger.kind[index]), ask, view)
        return super().find(row, ask, takes, ledger.open_to(bearable), view)

    def _keeps_bounds(self, rows: Sequence[int], kind: int, ask: Ask, view: View) -> bool:
        """Return whether the first job may join the others; jobs with curves keep their bounds among themselves."""
        assert self.degradations is not None
        tenants = [view.tenant(row, kind, ask.cores) for row in rows]
        if len(rows) == 1 or not any(self._is_judged(one.program, one.profile) for one in tenants):
            return True
        percent = self.degradations.between(tenants, view.kinds.groups[kind], view.co_runs)
        slowed = np.nansum(np.where(np.eye(len(rows)) > 0, 0.0, percent), axis=1).tolist()
        return all(
            (100.0 + each) * (one.alpha or self.alpha) <= 100.0 for each, one in zip(slowed, tenants, strict=True)
        )

    @property
    def learns(self) -> bool:
        """Return whether co-runs change what it expects."""
        return isinstance(self.degradations, PredictedPairs) and self.degradations.learns

    def by_counters(self, jobs: Sequence[Tenant], node: NodeGroup) -> Floats:
        """Return what counters alone say of these jobs beside each other."""
        assert isinstance(self.degradations, PredictedPairs)
        return self.degradations.by_counters(jobs, node)

    def _is_judged(self, program: str, profile: Profile | None) -> bool:
        """Return whether the model, not a profile with curves, says what neighbours the program bears."""
        curves = None if profile is None else profile.at_scale(1)
        if self.degradations is None or (curves is not None and curves.complete):
            return False
        return not self.degradations.lacks(program, profile)

    def remark(self, row: int, view: View) -> str:
        """Return how the job runs if nothing is known of its program."""
        job = view.job(row)
        profile = view.profile(job.program, job.processes, job.profile_owner)
        known = None if profile is None else profile.at_scale(1)
        if wants_whole_nodes(job) or (known is not None and known.complete):
            return ""
        if self._is_judged(job.program, profile):
            return f"its program has no curves, so it shares nodes where the model keeps every job to {self.alpha:g}"
        measured = " and is measured" if self.trials is not None and job.program else ""
        how = "it shares nodes by cores" if self.by_cores else f"it runs alone{measured}"
        return f"its program has no complete profile, so {how} (policy.unknown)"

    def _side_by_side(self, row: int, view: View) -> Ask:
        """Return the compact footprint of an unknown program: of ways and bandwidth it takes the part its cores are."""
        job, node = view.job(row), view.node_type(row)
        spread = footprint(job.processes, node.cores, 1, view.need(row))
        part = spread.cores / node.cores
        ways = max(int(part * node.ways), node.min_ways) if node.ways else 0
        gbs = part * stream_gbs(node, node.cores) if node.bandwidth_gbs else 0.0
        ask = ask_for(Wish(job, None, 1, spread.nodes, spread.cores, ways, gbs), self.dimensions, view, row)
        return ask._replace(share=self._shared_part(ask, view))

    def _shared(self, row: int, profile: Profile, base_s: float, view: View) -> list[Ask]:
        """Return the footprints at profiled scales that keep alpha of the speed of the compact, exclusive run."""
        job, node, found = view.job(row), view.node_type(row), []
        bound = cautious(job.alpha or self.alpha, profile)
        for scale in (1,) if stays_together(job, profile) else self.scales:
            one = demand(profile, scale, job.processes, 1.0, node, view.need(row))
            if one is None or one.time_s * bound > base_s or not possible(job, one.nodes, scale, view):
                continue
            kept = min(1.0, bound * one.time_s / base_s)
            one = demand(profile, scale, job.processes, kept, node, view.need(row))
            assert one is not None
            run_us = microseconds(one.time_s)
            if one.alone:
                found += [each._replace(run_us=run_us) for each in alone(row, view, self.dimensions, scale)]
                continue
            wish = Wish(job, profile, scale, one.nodes, one.cores, one.ways, one.bandwidth_gbs)
            ask = ask_for(wish, self.dimensions, view, row)
            found.append(ask._replace(run_us=run_us, share=self._shared_part(ask, view)))
        return found

    def costs(self, row: int, asks: Sequence[Ask], view: View, begun: int) -> list[tuple[float, Ask]]:
        """Return the asks worth a start with their regret, the cheapest first; a due measuring run comes before all."""
        own, others = self._weights(row, view, begun)
        priced = []
        for ask in asks:
            run_s = ask.run_us or view.limit_us(row) or 1
            trial = ask.purpose != "run"
            cost = 0.0 if trial else run_s * (own + others * ask.nodes * ask.share)
            priced.append((cost, ask))
        least = min((cost for cost, ask in priced if ask.purpose == "run"), default=inf)
        worth = [
            (max(cost / least - 1.0, 0.0) if least > 0 else 0.0, ask) for cost, ask in priced if cost <= SLACK * least
        ]
        return sorted(worth, key=lambda one: (one[0], one[1].purpose == "run"))

    def _weights(self, row: int, view: View, begun: int) -> tuple[float, float]:
        """Return what a second of the job costs, and a second of a whole node."""
        if self.objective in ("makespan", "node-hours"):
            return 0.0, 1.0
        others = max(view.waiting - begun - 1, 0) / view.cluster_nodes
        if self.objective == "slowdown":  # a second costs a job the more the shorter it is
            limits = np.maximum(view.jobs[LIMIT, view.queued()], 1)
            others *= float(max(view.limit_us(row), 1) * np.mean(1.0 / limits))
        return 1.0, others

    def _shared_part(self, ask: Ask, view: View) -> float:
        """Return the largest share of a node that the job needs of any resource."""
        kind = next(number for number, takes in enumerate(ask.takes) if takes)
        capacity = view.ledger.capacity[kind].tolist()
        counted = (CORES.name, BANDWIDTH.name, WAYS.name)
        parts = zip(ask.takes[kind], capacity, self.dimensions, strict=True)
        return float(max(taken / whole for taken, whole, dimension in parts if dimension.name in counted))
