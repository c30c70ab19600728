"""Mutual slowdowns of jobs, as far as a scheduler can know: measured, predicted by a model, or from profiles.

Percent, entry (i, j): job i beside job j. An unknown program has NaN in its row and column; the
caller leaves such a job alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from cohabit.model.cluster import NodeGroup
from cohabit.model.features import feature, features
from cohabit.model.mix import Floats
from cohabit.model.profile import JOINT, Profile, Tenant, run_key
from cohabit.policy.forecast import Forecasts
from cohabit.policy.needs import COUNTERS, PROFILES, Need
from cohabit.predict.degradation import DegradationModel, Predictor
from cohabit.predict.pooling import CoRun, Effect, Pooled

CoRuns = Mapping[str, Any]  # core/co_runs.py
NOTHING: CoRuns = {}
MOST_NAMES = 4  # most columns named in a sentence
CPU_USAGE = "cpu_usage_mean"  # the counter: cores a program keeps busy on a node when alone


class Degradations(Protocol):
    """A source of mutual slowdowns."""

    @property
    def source(self) -> str:
        """Return where they come from, in words."""
        ...

    @property
    def needs(self) -> tuple[Need, ...]:
        """Return what it needs to answer."""
        ...

    def between(self, jobs: Sequence[Tenant], node: NodeGroup, seen: CoRuns = NOTHING) -> Floats:
        """Return percent for every ordered pair of these jobs on such a node; `seen`: what co-runs have shown."""
        ...

    def lacks(self, program: str, profile: Profile | None) -> str:
        """Return why a program with this profile cannot be judged, so that its jobs run alone; empty: it can."""
        ...

    def keeping_bounds(self) -> Degradations:
        """Return the same for a policy that must not promise too little: the upper ends of what is uncertain."""
        ...


class KnownPairs:
    """Degradations by program, as measured beforehand."""

    source = "the matrix of measured pairs"
    needs: tuple[Need, ...] = ()

    def __init__(self, names: Sequence[str], percent: Floats) -> None:
        self._place: Mapping[str, int] = {name: place for place, name in enumerate(names)}
        self._percent = np.full((len(names) + 1, len(names) + 1), np.nan)  # the last: unknown programs
        self._percent[:-1, :-1] = np.maximum(percent, 0.0)

    def keeping_bounds(self) -> KnownPairs:
        return self

    def lacks(self, program: str, profile: Profile | None) -> str:
        """Return whether the program is absent from the matrix."""
        return "" if program in self._place else f"{self.source} has no program {program or 'for it'}"

    def between(self, jobs: Sequence[Tenant], node: NodeGroup, seen: CoRuns = NOTHING) -> Floats:
        places = [self._place.get(job.program, -1) for job in jobs]
        found: Floats = self._percent[np.ix_(places, places)]
        return found


class PredictedPairs:
    """Degradations by a model, from each program's counters when alone; equal programs are predicted once.

    A pair counts with the mean under its uncertainty, so that one that is known badly is not a good one; where a bound
    must be kept (`cautious`), with the upper end of its interval.
    """

    def __init__(self, model: Predictor, name: str = "", cautious: bool = False) -> None:
        self.name, self.cautious = name, cautious
        self.model, self.source = model, f"model {name}" if name else "the model"
        columns = tuple(dict.fromkeys((*model.schema.primary, *model.schema.other)))
        self.needs = (
            Need(COUNTERS, "all jobs run alone: the model can be asked about none of them", True, columns, True),
        )
        self._last: tuple[CoRuns, Pooled] | None = None
        self._rows: dict[int, tuple[Profile, Floats, Floats]] = {}  # by identity of the profile, which is kept with it

    def keeping_bounds(self) -> PredictedPairs:
        """Return the same with the upper ends of intervals."""
        return PredictedPairs(self.model, self.name, cautious=True)

    def lacks(self, program: str, profile: Profile | None) -> str:
        """Return which of the columns it learned from were not measured."""
        if profile is None:
            return f"{self.source} cannot judge {program or 'a job without a program'}: it has no profile"
        have = features(profile.at_scale(1))
        missing = [name for name in self.needs[0].columns if name not in have]
        if not missing:
            return ""
        return f"{self.source} cannot judge {program}: its profile lacks {some_of(missing)} (`cohabit profile` it)"

    def between(self, jobs: Sequence[Tenant], node: NodeGroup, seen: CoRuns = NOTHING) -> Floats:
        profiles = {id(job.profile): job.profile for job in jobs if job.profile is not None}
        rows = {key: row for key, row in ((key, self._row(one)) for key, one in profiles.items()) if row is not None}
        found = np.full((len(rows) + 1, len(rows) + 1), np.nan)
        if rows:
            primary, beside = (np.array(side) for side in zip(*rows.values(), strict=True))
            names = [run_key(profiles[key]) for key in rows]
            judged = self._taught(names, seen).judge_pairs(names, primary, beside)
            found[:-1, :-1] = judged.high if self.cautious else judged.expected
        place = {key: number for number, key in enumerate(rows)}
        places = [place.get(id(job.profile), -1) for job in jobs]
        chosen: Floats = found[np.ix_(places, places)]
        return chosen

    def teaching(self, jobs: Sequence[Tenant], node: NodeGroup, seen: CoRuns = NOTHING) -> tuple[Floats, Floats]:
        """Return for every ordered pair by how much its run takes from the variance of what is not known of the two
        programs, and the upper end of its interval in percent; 0 and infinity where a counter is missing."""
        high = self.keeping_bounds().between(jobs, node, seen)
        names = [run_key(job.profile) if job.profile is not None else "" for job in jobs]
        pooled = self.after(names, seen)
        if pooled is None:
            return np.zeros_like(high), np.where(np.isnan(high), np.inf, high)
        known = [pooled.effects.get(name, pooled.spreads.prior()) for name in names]
        first = np.array([one.sensitivity_variance for one in known])[:, np.newaxis]
        second = np.array([one.intensity_variance for one in known])
        gain = (first**2 + second**2) / (first + second + pooled.spreads.noise)
        unknown = (first + second > pooled.spreads.noise) & ~np.isnan(high)
        return np.where(unknown, gain, 0.0), np.where(np.isnan(high), np.inf, high)

    @property
    def learns(self) -> bool:
        """Return whether the model's expectations move with co-runs."""
        return isinstance(self.model, DegradationModel) and self.model.pooled is not None

    def by_counters(self, jobs: Sequence[Tenant], node: NodeGroup) -> Floats:
        """Return percent for every ordered pair as counters alone say it; NaN: a counter is missing."""
        found = np.full((len(jobs), len(jobs)), np.nan)
        rows = [None if job.profile is None else self._row(job.profile) for job in jobs]
        places = [place for place, row in enumerate(rows) if row is not None]
        if places and isinstance(self.model, DegradationModel):
            primary, beside = (np.array(side) for side in zip(*(row for row in rows if row is not None), strict=True))
            found[np.ix_(places, places)] = self.model.estimate_pairs(primary, beside)
        return found

    def _taught(self, names: Sequence[str], seen: CoRuns) -> Predictor:
        """Return the model after what co-runs have shown; a user's own program begins with what is known of it."""
        model = self.model
        if not isinstance(model, DegradationModel) or model.pooled is None:
            return model
        return replace(model, pooled=self.after(names, seen))

    def after(self, names: Sequence[str], seen: CoRuns) -> Pooled | None:
        """Return what is known of programs of their own after these co-runs; None: the model does not learn."""
        pooled = self.model.pooled if isinstance(self.model, DegradationModel) else None
        if pooled is None:
            return None
        found = self._after(pooled, seen) if seen else pooled
        return replace(found, effects=_with_own(found.effects, names))

    def _after(self, pooled: Pooled, seen: CoRuns) -> Pooled:
        """Return what these co-runs teach; the same ones are not computed twice."""
        if self._last is None or self._last[0] is not seen:
            runs = [
                CoRun(app, members := tuple(group.split(JOINT)), pooled.excess(percent, promised, len(members)))
                for app, groups in sorted(seen["runs"].items())
                for group, (percent, promised, _) in sorted(groups.items())
                if promised is not None
            ]
            names = [name for run in runs for name in (run.app, *run.beside)]
            most = max((percent for groups in seen["runs"].values() for percent, _, _ in groups.values()), default=0.0)
            self._last = seen, replace(pooled, effects=_with_own(pooled.effects, names)).after(runs, float(most))
        return self._last[1]

    def _row(self, profile: Profile) -> tuple[Floats, Floats] | None:
        """Return its features as the slowed job and as the neighbour; None if a counter is missing."""
        if id(profile) not in self._rows:
            have = features(profile.at_scale(1))
            sides = self.model.schema.primary, self.model.schema.other
            primary, beside = (np.array([have.get(name, np.nan) for name in names]) for names in sides)
            self._rows[id(profile)] = profile, primary, beside
        _, primary, beside = self._rows[id(profile)]
        return None if np.isnan(primary).any() or np.isnan(beside).any() else (primary, beside)


class ProfiledPairs:
    """Degradations from profiles: the law of an undivided cache, and time-shared cores if threads outnumber them."""

    def __init__(self) -> None:
        self._forecasts = Forecasts()

    source = "the forecast from profiles"
    needs = (
        Need(PROFILES, "a job without a profile counts as one that keeps its cores busy and needs nothing else", False),
    )

    def keeping_bounds(self) -> ProfiledPairs:
        return self

    def lacks(self, program: str, profile: Profile | None) -> str:
        """Return nothing: an unmeasured job is assumed to keep its cores busy and to need nothing else."""
        return ""

    def between(self, jobs: Sequence[Tenant], node: NodeGroup, seen: CoRuns = NOTHING) -> Floats:
        threads = np.array([busy_cores(job) for job in jobs])
        cores = np.array([job.cores for job in jobs])
        crowded = cores[:, None] + cores > node.cores
        share = np.where(crowded, np.minimum(1.0, node.cores / np.maximum(threads[:, None] + threads, 1e-9)), 1.0)
        speeds = self._speeds(jobs, node) if node.ways else np.ones((len(jobs), len(jobs)))
        found: Floats = 100.0 * (1.0 / (share * speeds) - 1.0)
        return found

    def _speeds(self, jobs: Sequence[Tenant], node: NodeGroup) -> Floats:
        """Return the speed of every job beside every other, relative to running alone, by cache and memory."""
        forecast = self._forecasts.of(node)
        kinds = [forecast.kind_of(job) if forecast.knows(job) else -1 for job in jobs]
        different = sorted(set(kinds) - {-1})
        place = {kind: number for number, kind in enumerate(different)}
        found = np.full((len(different) + 1, len(different) + 1), np.nan)
        for first in different:
            for second in different:
                if first <= second:
                    one, other = forecast.undivided_pair(first, second)
                    found[place[first], place[second]], found[place[second], place[first]] = one, other
        places = [place.get(kind, -1) for kind in kinds]
        chosen: Floats = found[np.ix_(places, places)]
        return chosen


def _with_own(effects: Mapping[str, Effect], names: Sequence[str]) -> dict[str, Effect]:
    """Return the effects, those of a user's program taken from the program where it has none of its own yet."""
    found = dict(effects)
    for name in names:
        program = name.rpartition("@")[0]
        if name not in found and program in found:
            found[name] = found[program]
    return found


def some_of(names: Sequence[str]) -> str:
    """Return the first names and how many more there are."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def busy_cores(job: Tenant) -> float:
    """Return the cores of a node the job keeps busy when alone; all its cores if it was never measured."""
    one = None if job.profile is None else job.profile.at_scale(1)
    usage = feature(one, CPU_USAGE)
    return float(job.cores) if usage is None else min(max(usage * job.load, 0.0), float(job.cores))
