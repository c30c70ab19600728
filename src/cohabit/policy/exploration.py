"""Learning a program by trial and error on its normal runs (Spread-n-Share, sections 4.2 and 5.1).

Each exclusive run of an unfinished profile is one trial: at scale 1 a run for the time and one for the curves, then at
scale 2, and so on, until fewer than `least_cores` cores would be used on a node, the run got more than `worst_loss`
slower than at scale 1, or two scales in a row brought nothing. A program that any profile calls single-node stays
at 1. A curve run costs its owner 19 % on average; a site that cannot afford that turns learning off and imports
profiles.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from cohabit.model.job import NEVER, Job
from cohabit.model.profile import Profile, ScaleProfile, footprint
from cohabit.policy.options import PAPERS_RULES, TrialRules

SATURATED_BELOW = 0.01  # of speed: a scale that gains less brought nothing


class Trial(NamedTuple):
    """A run to be made: its scale, and what it measures."""

    scale: int
    purpose: str  # "time" or "curve"


class Trials:
    """The order of trials and when to stop."""

    def __init__(self, scales: tuple[int, ...] = (1, 2, 4, 8), rules: TrialRules = PAPERS_RULES) -> None:
        self.scales, self.rules = scales, rules

    def due(
        self, job: Job, known: Mapping[int, Profile], cores: int, under_way: Collection[tuple[int, str]]
    ) -> Trial | None:
        """Return the next trial for this job; none once the program is well known with any number of processes."""
        for profile in known.values():
            if self.next_for(msgspec.structs.replace(job, processes=profile.processes), profile, cores, ()) is None:
                return None
        if any(profile.single_node for profile in known.values()):
            job = msgspec.structs.replace(job, single_node=True)
        return self.next_for(job, known.get(job.processes), cores, under_way)

    def next_for(
        self, job: Job, profile: Profile | None, cores_per_node: int, under_way: Collection[tuple[int, str]]
    ) -> Trial | None:
        """Return the next trial for this job; None if the profile is finished or its next trial is already running."""
        best, idle_steps = 0.0, 0
        first: float | None = None
        for scale in self.scales:
            spread = footprint(job.processes, cores_per_node, scale)
            confined = job.single_node or job.spread == NEVER
            if scale > 1 and (spread.cores < self.rules.least_cores or confined or spread.nodes > job.processes):
                return None
            if scale > 1 and profile is not None and profile.single_node:
                return None
            known = profile.at_scale(scale) if profile is not None else None
            for purpose in ("time", "curve"):
                if not _has(known, purpose):
                    return None if (scale, purpose) in under_way else Trial(scale, purpose)
                if purpose == "time" and known is not None:
                    first = known.time_s if first is None else first
                    if known.time_s > first * (1 + self.rules.worst_loss):
                        return None
                    idle_steps = 0 if first / known.time_s > best + SATURATED_BELOW else idle_steps + 1
                    best = max(best, first / known.time_s)
                    if idle_steps >= 2:
                        return None
        return None


def _has(known: ScaleProfile | None, purpose: str) -> bool:
    if known is None:
        return False
    return known.time_s > 0 if purpose == "time" else known.ipc is not None and known.bandwidth_gbs is not None
