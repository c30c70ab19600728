"""SNS: spread a job as far as it gains and share nodes as far as profiles promise every neighbour alpha of its speed.

Spread-n-Share (SC 2019, section 4). For each scale, best profiled performance first: the fewest cache ways that keep
alpha of the full IPC, the bandwidth drawn at that many ways, then the idlest nodes with that much of everything left,
by C_o + B_o + beta W_o. Neutral jobs spread only to use leftover cores. Greedy: on a small machine full of jobs that
gain by spreading it fragments nodes and makes others wait (section 6.4); average bandwidth books no bursts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cohabit.model.plan import Ask
from cohabit.model.profile import COMPACT, NEUTRAL, Demand, Profile, classify, demand
from cohabit.model.resources import BANDWIDTH, CORES, MEMORY, PARTITIONS, WAYS, Dimension, Wish
from cohabit.model.units import microseconds
from cohabit.policy.exploration import Trials
from cohabit.policy.needs import ALL_ALONE, CURVED, DIVIDED
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
    from cohabit.core.view import View
    from cohabit.policy.options import PlacementOptions


class Spread(SharedNodes):
    """Footprints from profiles; jobs that cannot be profiled run compact and exclusive."""

    def __init__(self, options: PlacementOptions, more: tuple[Dimension, ...] = ()) -> None:
        self.alpha, self.scales = options.alpha, options.scales
        self.trials = Trials(options.scales, options.trial_rules) if options.learn else None
        ways = (replace(WAYS, weight=options.beta), PARTITIONS) if options.divide_cache else ()
        bandwidth = (BANDWIDTH,) if options.book_bandwidth else ()
        self.needs = (ALL_ALONE, CURVED, DIVIDED) if options.divide_cache else (ALL_ALONE, CURVED)
        self.dimensions: tuple[Dimension, ...] = (CORES, *bandwidth, *ways, MEMORY, *more)

    def asks(self, row: int, view: View) -> list[Ask]:
        """Return the footprints with which the job could run, the preferred one first."""
        job = view.job(row)
        compact = alone(row, view, self.dimensions)
        if wants_whole_nodes(job):
            return compact
        profile = view.profile(job.program, job.processes, job.profile_owner)
        found = trial_run(self.trials, row, view, view.smallest_node(row), self.dimensions)
        for wanted in [] if profile is None else self.demands(row, profile, view):
            if wanted.alone:
                found += alone(row, view, self.dimensions, wanted.scale)
            else:
                wish = Wish(job, profile, wanted.scale, wanted.nodes, wanted.cores, wanted.ways, wanted.bandwidth_gbs)
                expected_us = microseconds(wanted.time_s)
                found.append(ask_for(wish, self.dimensions, view, row)._replace(run_us=expected_us))
        return found + compact  # last resort: a job that may use an empty node must not wait for ever

    def demands(self, row: int, profile: Profile, view: View) -> list[Demand]:
        """Return the demands at profiled scales that keep alpha of the compact run's speed, in order of trial."""
        job, node = view.job(row), view.node_type(row)
        alpha = job.alpha or self.alpha
        kind = classify(profile).kind
        scales = (1,) if kind == COMPACT or stays_together(job, profile) else self.scales
        known = [demand(profile, scale, job.processes, alpha, node, view.need(row)) for scale in scales]
        found = [one for one in known if one is not None and possible(job, one.nodes, one.scale, view)]
        base = next((one.time_s for one in found if one.scale == 1), None)
        if base is not None:
            found = [one for one in found if one.scale == 1 or base / one.time_s >= alpha]
        if kind == NEUTRAL:
            return sorted(found, key=lambda one: one.scale)
        return sorted(found, key=lambda one: (one.time_s, one.scale))
