"""SNS: spread a job as far as it gains and share nodes as far as profiles promise every neighbour alpha of its speed.

Spread-n-Share (SC 2019, section 4). For each scale, best profiled performance first: the fewest cache ways that keep
alpha of the full IPC, the bandwidth drawn at that many ways, then the idlest nodes with that much of everything left,
by C_o + B_o + beta W_o. Neutral jobs spread only to use leftover cores. Greedy: on a small machine full of jobs that
gain by spreading it fragments nodes and makes others wait (section 6.4); average bandwidth books no bursts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cohabit.model.plan import Ask
from cohabit.model.profile import COMPACT, NEUTRAL, Demand, Profile, classify, demand
from cohabit.model.resources import BANDWIDTH, CORES, MEMORY, PARTITIONS, WAYS, Dimension, Wish, weighted
from cohabit.policy.exploration import Trials
from cohabit.policy.placement.wishes import alone, ask_for, possible, wants_whole_nodes

if TYPE_CHECKING:
    from cohabit.core.ledger import Ledger, Parts, Takes
    from cohabit.core.view import View
    from cohabit.policy.placement.options import PlacementOptions


class Spread:
    """Footprints from profiles; jobs that cannot be profiled run compact and exclusive."""

    exclusive = False

    def __init__(
        self,
        alpha: float = 0.9,
        beta: float = 2.0,
        scales: tuple[int, ...] = (1, 2, 4, 8),
        book_ways: bool = True,
        book_bandwidth: bool = True,
        trials: Trials | None = None,
        more: tuple[Dimension, ...] = (),
    ) -> None:
        self.alpha, self.scales, self.trials = alpha, scales, trials
        ways = (weighted(WAYS, beta), PARTITIONS) if book_ways else ()
        bandwidth = (BANDWIDTH,) if book_bandwidth else ()
        self.dimensions: tuple[Dimension, ...] = (CORES, *bandwidth, *ways, MEMORY, *more)

    @classmethod
    def from_options(cls, options: PlacementOptions) -> Spread:
        """Make it as the scenario says."""
        return cls(
            options.alpha, options.beta, options.scales, book_ways=options.divide_cache,
            book_bandwidth=options.book_bandwidth, trials=Trials(options.scales) if options.learn else None,
        )  # fmt: skip

    def asks(self, row: int, view: View) -> list[Ask]:
        """Return the footprints with which the job could run, the preferred one first."""
        job = view.job(row)
        compact = alone(row, view, self.dimensions)
        if wants_whole_nodes(job):
            return compact
        profile = view.profile(job.program, job.processes, job.profile_owner)
        found: list[Ask] = []
        if self.trials is not None and job.program:
            about = (job.program, job.profile_owner)
            known, under_way = view.profiles_of(*about), view.trials_of(*about)
            trial = self.trials.due(job, known, view.smallest_node(row), under_way)
            if trial is not None:
                found += alone(row, view, self.dimensions, trial.scale, trial.purpose)
        for wanted in [] if profile is None else self.demands(row, profile, view):
            if wanted.alone:
                found += alone(row, view, self.dimensions, wanted.scale)
            else:
                wish = Wish(job, profile, wanted.scale, wanted.nodes, wanted.cores, wanted.ways, wanted.bandwidth_gbs)
                found.append(ask_for(wish, self.dimensions, view, row))
        return found + compact  # last resort: a job that may use an empty node must not wait for ever

    def find(self, row: int, ask: Ask, takes: Takes, ledger: Ledger, view: View) -> Parts | None:
        """Return the idlest nodes (S28 to S30)."""
        return ledger.find(takes, ask.nodes)

    def demands(self, row: int, profile: Profile, view: View) -> list[Demand]:
        """Return the demands at profiled scales that keep alpha of the compact run's speed, in order of trial."""
        job, node = view.job(row), view.node_type(row)
        alpha = job.alpha or self.alpha
        kind = classify(profile).kind
        scales = (1,) if kind == COMPACT or profile.single_node or job.single_node else self.scales
        known = [demand(profile, scale, job.processes, alpha, node, view.need(row)) for scale in scales]
        found = [one for one in known if one is not None and possible(job, one.nodes, one.scale, view)]
        base = next((one.time_s for one in found if one.scale == 1), None)
        if base is not None:
            found = [one for one in found if one.scale == 1 or base / one.time_s >= alpha]
        if kind == NEUTRAL:
            return sorted(found, key=lambda one: one.scale)
        return sorted(found, key=lambda one: (one.time_s, one.scale))
