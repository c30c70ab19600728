"""Turn samples over time into mean, minimum, maximum and deviation per counter; runs are combined afterwards.

A mean is over the whole time observed; the extremes are of intervals of equal length. A source that only knows the
total of a run (a simulation) has a mean and nothing else: extremes that were not measured are not made up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cohabit.model.counters import COUNTERS, RATIOS

SHORTEST_SHARE = 0.5  # an interval shorter than this share of the usual one is joined to the previous one


@dataclass(frozen=True)
class Summary:
    """A counter over one or several runs; only the mean if the source knows no more."""

    mean: float
    low: float | None
    high: float | None
    deviation: float | None
    source: str

    def columns(self) -> Iterator[tuple[str, float]]:
        """Yield the statistics by suffix."""
        for suffix, value in (("mean", self.mean), ("min", self.low), ("max", self.high), ("std", self.deviation)):
            if value is not None:
                yield suffix, value


Readings = dict[str, Summary]
Sample = tuple[float, Mapping[str, float]]  # seconds since the start, values


def summarise(samples: Sequence[Sample], source: str, interval_s: float) -> Readings:
    """Return counters of one source from its samples; the first sample is the state before the program executed."""
    kept = [one for one in samples if one[1]]
    if len(kept) > 2 and kept[-1][0] - kept[-2][0] < SHORTEST_SHARE * interval_s:
        del kept[-2]  # a last interval that is too short is joined to the one before it
    found: Readings = {}
    spans = [(after[0] - before[0], before[1], after[1]) for before, after in pairwise(kept)]
    names = dict.fromkeys(name for _, values in kept for name in values)
    for name in names:
        if COUNTERS[name].kind == "level":
            values = [(1.0, values[name]) for _, values in kept[1:] if name in values]
        else:
            values = [
                (length, (after[name] - before[name]) / length)
                for length, before, after in spans
                if name in before and name in after and length > 0
            ]
        if values:
            found[name] = _weighted(values, source)
    for name in RATIOS:
        ratios = [one for length, before, after in spans for one in _ratio(name, length, before, after)]
        if ratios:
            found[name] = _weighted(ratios, source)
    return found


def of_totals(totals: Mapping[str, float], run_s: float, source: str) -> Readings:
    """Return counters of a source that knows totals only; `run_s` is the undisturbed run time."""
    found = {name: Summary(total / run_s, None, None, None, source) for name, total in totals.items()}
    zero = dict.fromkeys(totals, 0.0)
    for name in RATIOS:
        for weight, value in _ratio(name, run_s, zero, totals):
            if weight > 0 and name != "cpu_usage":
                found[name] = Summary(value, None, None, None, source)
    return found


def combine(runs: Sequence[Readings]) -> Readings:
    """Combine several runs of the same program into one, with equal weights."""
    found: Readings = {}
    for name in runs[0]:
        each = [run[name] for run in runs if name in run]
        means = [one.mean for one in each]
        mean = math.fsum(means) / len(means)
        lows = [one.low for one in each if one.low is not None]
        highs = [one.high for one in each if one.high is not None]
        inside = [one.deviation**2 for one in each if one.deviation is not None]
        between = math.fsum((one - mean) ** 2 for one in means) / len(means)
        deviation = math.sqrt(math.fsum(inside) / len(inside) + between) if inside else None
        found[name] = Summary(mean, min(lows, default=None), max(highs, default=None), deviation, each[0].source)
    return found


def columns_of(readings: Readings) -> dict[str, float]:
    """Return counters named as in a profile and in a data set: NAME_STAT."""
    return {f"{name}_{stat}": value for name, one in readings.items() for stat, value in one.columns()}


def merge(readings: Sequence[Readings]) -> Readings:
    """Merge readings of several sources; where two offer a counter, the earlier source wins."""
    found: Readings = {}
    for one in readings:
        for name, summary in one.items():
            found.setdefault(name, summary)
    return found


def _ratio(
    name: str, length: float, before: Mapping[str, float], after: Mapping[str, float]
) -> list[tuple[float, float]]:
    """Return a calculated counter of one interval with its weight (the denominator); empty if it was not measured."""
    for above, below in RATIOS[name]:
        needed = above if below == "seconds" else (*above, below)
        if all(one in before and one in after for one in needed):
            amount = math.fsum(after[one] - before[one] for one in above)
            base = length if below == "seconds" else after[below] - before[below]
            return [(base, amount / base)] if base > 0 else []
    return []


def _weighted(values: Sequence[tuple[float, float]], source: str) -> Summary:
    total = math.fsum(weight for weight, _ in values)
    mean = math.fsum(weight * value for weight, value in values) / total
    spread = math.fsum(weight * (value - mean) ** 2 for weight, value in values) / total
    plain = [value for _, value in values]
    return Summary(mean, min(plain), max(plain), math.sqrt(spread), source)
