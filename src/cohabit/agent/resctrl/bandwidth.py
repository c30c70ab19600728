"""From booked GB/s to the values of memory bandwidth control (MBA); measured rates, and the safety valve (S36). Pure.

A value never gives less than was booked: it is rounded up to the next step. What a percentage means differs: on Intel
it slows down the requests of each core, so the same value lets four cores draw four times as much as one; on ARM it is
a part of the memory's maximum. AMD's values are absolute, in eighths of a GB/s, and so are those of mba_MBps, in MiB/s.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from cohabit.agent.resctrl.offer import MIBS, PERCENT, UNITS, BandwidthOffer

WHEN_FULL, ALWAYS = HOLD = "when-full", "always"  # when jobs are held to what they booked
Traffic = Mapping[str, Mapping[int, int]]  # bytes so far, by job and domain
VALVE_SHUTS, VALVE_OPENS = 0.95, 0.80  # shares of the memory's peak; different, so that the valve does not flutter
_ROUNDING = 1e-9  # a booking of exactly 30 % must not become 40 % because of a rounding error


def control_value(booked_gbs: float, offer: BandwidthOffer, reach_gbs: float, peak_gbs: float) -> int | None:
    """Return the value for one domain; None: nothing to write, because the booking restrains no job or because a
    percentage of something unknown would be a guess.

    `reach_gbs` is what the job's cores there can draw unrestrained, `peak_gbs` what all cores there can; both are
    calibrated, or infinite if not calibrated.
    """
    if booked_gbs <= 0:
        return None
    if offer.kind == UNITS:
        value = _up(booked_gbs * 8, offer.step)
    elif offer.kind == MIBS:
        value = _up(booked_gbs * 1e9 / 2**20, offer.step)
    else:
        whole_gbs = reach_gbs if offer.per_core else peak_gbs
        if math.isinf(whole_gbs) or whole_gbs <= 0:
            return None
        value = _up(100 * booked_gbs / whole_gbs, offer.step)
    value = max(value, offer.least)
    return value if value < offer.most else None


def cap_value(percent: int, offer: BandwidthOffer, reach_gbs: float, peak_gbs: float) -> int | None:
    """Return the value that leaves a job this percentage of what its cores could draw; None: all of it, or a guess."""
    if offer.kind == PERCENT and offer.per_core:  # the meaning of a percentage on Intel, calibrated or not
        value = max(_up(percent, offer.step), offer.least)
        return value if value < offer.most else None
    if math.isinf(reach_gbs):
        return None
    return control_value(reach_gbs * percent / 100, offer, reach_gbs, peak_gbs)


def shut_valve(
    measured_gbs: Mapping[str, float], booked_gbs: Mapping[str, float], peak_gbs: float, shut: Collection[str]
) -> frozenset[str]:
    """Return the jobs of one domain to be held to their booking now; `shut` are those held already.

    While the memory has room, every job may draw more than booked. When it is nearly full, the jobs above their booking
    are held to it; they are released together once the traffic has fallen well below that.
    """
    known = {job for job in shut if job in booked_gbs}
    total = sum(measured_gbs.values())
    if total >= VALVE_SHUTS * peak_gbs:
        above = {job for job, drawn in measured_gbs.items() if booked_gbs.get(job, 0) and drawn > booked_gbs[job]}
        return frozenset(known | above)
    return frozenset() if total < VALVE_OPENS * peak_gbs else frozenset(known)


def rates_gbs(before: Traffic, after: Traffic, seconds: float) -> dict[int, dict[str, float]]:
    """Return GB/s by domain and job, for those that have both values. A counter that restarted (a group made again,
    AMD's reassigned counters) has none."""
    found: dict[int, dict[str, float]] = {}
    for job, values in after.items():
        for domain, value in values.items():
            moved = value - before.get(job, {}).get(domain, value + 1)
            if moved >= 0:
                found.setdefault(domain, {})[job] = moved / seconds / 1e9
    return found


def _up(value: float, step: int) -> int:
    return math.ceil(value / step - _ROUNDING) * step
