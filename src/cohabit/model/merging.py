"""Merge a new measurement into the profile of a program: running mean and variance of the time, newest curves.

A measurement that cannot be explained by scatter means that the program has changed: the old profile is dropped (S21).
"""

from __future__ import annotations

import math

import msgspec

from cohabit.model.profile import Profile, ScaleProfile

DRIFT = 0.10  # a measurement this far from what was known, and beyond its scatter, means the program has changed


def merged(known: Profile, new: Profile) -> Profile:
    """Merge two profiles by scale. Measured numbers never mix with calibrated or imported ones: the new ones win."""
    about = ("program", "processes", "hardware", "owner")
    if any(getattr(known, name) != getattr(new, name) for name in about):
        raise ValueError(f"profiles of different things: {known.program} and {new.program}")
    if known.provenance != new.provenance:
        return new
    both = msgspec.structs.replace(known, single_node=new.single_node)
    for scale in new.scales:
        before = known.at_scale(scale.scale)
        both = both.with_scale(scale if before is None else merged_scale(before, scale))
    return both


def merged_scale(known: ScaleProfile, new: ScaleProfile) -> ScaleProfile:
    """Return the mean and the (population) variance of all timed runs; of everything else, the later measurement.

    `samples` counts the timed runs, once there is one: a run for the curves only (time 0) leaves mean and count alone.
    """
    samples, time_s, variance = _pooled(known, new)
    late, early = (new, known) if new.measured_at_us >= known.measured_at_us else (known, new)
    return ScaleProfile(
        scale=known.scale,
        time_s=time_s,
        ipc=early.ipc if late.ipc is None else late.ipc,
        bandwidth_gbs=early.bandwidth_gbs if late.bandwidth_gbs is None else late.bandwidth_gbs,
        miss_rate=early.miss_rate if late.miss_rate is None else late.miss_rate,
        communication=early.communication if late.communication < 0 else late.communication,
        counters=early.counters | late.counters,
        samples=samples,
        time_variance=variance,
        measured_at_us=late.measured_at_us,
    )


def _pooled(known: ScaleProfile, new: ScaleProfile) -> tuple[int, float, float]:
    timed = [one for one in (known, new) if one.time_s > 0]
    if not timed:
        return known.samples + new.samples, 0.0, 0.0
    if len(timed) == 1:
        return timed[0].samples, timed[0].time_s, timed[0].time_variance
    total = known.samples + new.samples
    share, gap = new.samples / total, new.time_s - known.time_s
    variance = known.time_variance * (1 - share) + new.time_variance * share + gap * gap * share * (1 - share)
    return total, known.time_s + gap * share, variance


def learned(known: Profile, measured: ScaleProfile) -> Profile:
    """Return the profile after one more run; on drift it starts again from that run."""
    before = known.at_scale(measured.scale)
    if before is None:
        return known.with_scale(measured)
    if drifted(before, measured):
        return msgspec.structs.replace(known, scales=(measured,))
    return known.with_scale(merged_scale(before, measured))


def drifted(old: ScaleProfile, new: ScaleProfile) -> str:
    """Describe a significant change between two measurements at one scale; empty: there is none (S21)."""
    if old.time_s > 0 and new.time_s > 0:
        scatter = 3 * math.sqrt(old.time_variance)
        if abs(new.time_s - old.time_s) > max(DRIFT * old.time_s, scatter):
            return f"its time went from {old.time_s:.4g} s to {new.time_s:.4g} s"
    for name, before, after in (
        ("IPC", old.ipc, new.ipc),
        ("bandwidth", old.bandwidth_gbs, new.bandwidth_gbs),
        ("miss rate", old.miss_rate, new.miss_rate),
    ):
        if before is not None and after is not None:
            most = before.ways[-1]
            if abs(after.at(most) - before.at(most)) > 2 * DRIFT * max(before.at(most), 1e-9):
                return f"its {name} with all ways went from {before.at(most):.4g} to {after.at(most):.4g}"
    return ""
