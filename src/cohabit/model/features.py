"""What a model or a policy may ask of a profile, by name: the one place where features are made from counters.

A column is COUNTER_STAT, as a meter wrote it, `app_time_s` or a statistic of `solo_time`. A ratio whose mean was not
written follows from the means of its amounts: a meter that knows rates only is enough to know misses per instruction.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from cohabit.model.counters import COUNTERS, RATIOS
from cohabit.model.profile import ScaleProfile

TIME = "app_time_s"  # seconds the application takes alone
SOLO_TIME = "solo_time"  # the same as a counter
MEAN, STATISTICS = "mean", ("mean", "min", "max", "std")
OF_THE_TIME = (TIME, f"{SOLO_TIME}_mean", f"{SOLO_TIME}_std")


def counter_of(column: str) -> str:
    """The counter a column is a statistic of: cycles_mean -> cycles, and cycles.mean as well."""
    for statistic in STATISTICS:
        head = column.removesuffix(statistic)
        if head != column and head[-1:] in ("_", ".") and head[:-1]:
            return head[:-1]
    return column


def features(one: ScaleProfile | None) -> dict[str, float]:
    """Return every feature of a program that was measured at this scale, by column."""
    if one is None:
        return {}
    found = _ratios(one.counters) | one.counters
    if one.time_s > 0:
        found |= zip(OF_THE_TIME, (one.time_s, one.time_s, math.sqrt(one.time_variance)), strict=True)
    return found


def feature(one: ScaleProfile | None, column: str) -> float | None:
    """Return one feature of a program; None if it was not measured and does not follow."""
    if one is None:
        return None
    return one.counters[column] if column in one.counters else features(one).get(column)


def not_in_vocabulary(columns: Iterable[str]) -> list[str]:
    """Return the columns that no meter and no rule of this module can ever give."""
    times = set(OF_THE_TIME)
    return [
        name for name in columns if name not in times and (counter_of(name) not in COUNTERS or counter_of(name) == name)
    ]


def given_by(counters: Collection[str], statistics: Collection[str] = STATISTICS) -> set[str]:
    """Return the columns that meters with these counters lead to."""
    known = {*counters, *(name for name in RATIOS if _sources(name, counters))}
    return {*OF_THE_TIME, *(f"{name}_{statistic}" for name in known for statistic in statistics)}


def _ratios(counters: dict[str, float]) -> dict[str, float]:
    """Return the ratios that follow from means; the mean of a rate over a run is its amount by its time."""
    found = {}
    amounts = {name: counters[f"{name}_{MEAN}"] for name in COUNTERS if f"{name}_{MEAN}" in counters}
    for name in RATIOS:
        if (used := _sources(name, amounts)) is not None:
            above, below = used
            base = 1.0 if below == "seconds" else amounts[below]
            if base > 0:
                found[f"{name}_{MEAN}"] = math.fsum(amounts[one] for one in above) / base
    return found


def _sources(name: str, counters: Collection[str]) -> tuple[tuple[str, ...], str] | None:
    """Return the amounts a ratio follows from, of those that were counted; None: it does not."""
    for above, below in RATIOS[name]:
        if all(one in counters for one in above) and (below == "seconds" or below in counters):
            return above, below
    return None
