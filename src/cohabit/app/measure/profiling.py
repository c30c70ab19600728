"""Profile a real program on this machine: run it alone under sensors, record its curves, and keep the result.

Times come from runs with an untouched cache, curves from a run of their own (S14). The host decides which curves are
possible: stepped with resctrl, estimated with valgrind, or none. A program that has changed since it was profiled gets
a new profile, and the user is told.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cohabit.agent.launch.process import Ended, Request, find_command
from cohabit.agent.observing import observe
from cohabit.agent.profiling import simulated_cache
from cohabit.agent.profiling.episodes import Curves, curves_of, tour_of
from cohabit.agent.profiling.way_steps import WayGroup, curve_run
from cohabit.agent.resctrl.files import Files, HostFiles, Mount, find_mount
from cohabit.agent.resctrl.offer import ResctrlOffer, read_offer
from cohabit.agent.sensors.catalogue import usable
from cohabit.agent.sensors.perf import Perf
from cohabit.agent.sensors.source import Source
from cohabit.agent.sensors.summary import Readings, columns_of, combine
from cohabit.agent.sensors.valgrind import Valgrind, cache_geometry
from cohabit.agent.topology import allowed_cores
from cohabit.app.measure.measuring import last_words, status_words
from cohabit.model.cluster import NodeGroup, hardware_key
from cohabit.model.errors import InputError
from cohabit.model.profile import SHARED, Profile, ScaleProfile, owner_of

NONE, RESCTRL, VALGRIND, AUTO = CURVES = ("none", "resctrl", "valgrind", "auto")
MEASURED, ESTIMATED = "measured", "estimated"
SLOWER_INSIDE = 200.0  # times the run time outside; a run inside valgrind that takes longer is considered stuck
Advance = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """The program to profile and the settings."""

    command: tuple[str, ...]
    program: str
    processes: int = 1
    repeats: int = 1
    curve: str = AUTO
    limit_s: float = 3600.0
    sample: tuple[str, ...] = ()  # a shorter run of the program, for valgrind
    capacity: tuple[tuple[int, float], ...] = ()  # of this machine, if it was measured
    owner: str = SHARED  # the owner of the resulting profile


@dataclass(frozen=True)
class Host:
    """The mount of resctrl, and the source of counters; tests supply their own."""

    files: Files = field(default_factory=HostFiles)
    mount: Callable[[], Mount | None] = find_mount
    counters: Source | None = None  # None: perf, if it can count instructions


def check(settings: Settings, host: Host | None = None) -> None:
    """Refuse a wrong request before anything runs."""
    cores = allowed_cores()
    if not 1 <= settings.processes <= len(cores):
        raise InputError(
            f"{settings.processes} processes on {len(cores)} cores", "-n", f"give a number from 1 to {len(cores)}"
        )
    for command in filter(None, (settings.command, settings.sample)):
        find_command(command)
    _kind(settings, _offer(host or Host()))


def profile(settings: Settings, folder: Path, say: Advance, host: Host | None = None) -> Profile:
    """Run the program as often as needed; nothing is stored yet."""
    host = host or Host()
    check(settings, host)
    offer, cores = _offer(host), allowed_cores()
    kind = _kind(settings, offer)
    request = Request(
        settings.command,
        cores[: settings.processes],
        dict(os.environ),
        stdout=folder / "profile.out",
        stderr=folder / "profile.err",
    )
    live, runs = usable(), list[tuple[Ended, Readings]]()
    for number in range(settings.repeats):
        say(f"run {number + 1} of {settings.repeats} for the time")
        ended, readings = observe(request, live, folder, settings.limit_s)
        _must_end_well(ended, settings, folder)
        runs.append((ended, readings))
    times = [ended.run_s for ended, _ in runs]
    mean_s = sum(times) / len(times)
    found = Curves(None, None, None)
    if kind == RESCTRL:
        assert offer is not None
        found = _stepped(request, settings, offer, host, folder, mean_s, say)
    elif kind == VALGRIND:
        busy_s = sum(ended.user_s + ended.system_s for ended, _ in runs) / len(runs) / settings.processes
        found = _simulated(request, settings, folder, mean_s, min(busy_s, mean_s), say)
    node = this_node(offer if kind == RESCTRL else None, kind == VALGRIND, settings.capacity)
    scale = ScaleProfile(
        1,
        mean_s,
        found.ipc,
        found.bandwidth_gbs,
        found.miss_rate,
        counters=columns_of(combine([readings for _, readings in runs])),
        samples=len(times),
        time_variance=sum((one - mean_s) ** 2 for one in times) / len(times),
        measured_at_us=time.time_ns() // 1000,
    )
    provenance = ESTIMATED if kind == VALGRIND else MEASURED
    return Profile(
        settings.program, settings.processes, (scale,), False, hardware_key(node), provenance, settings.owner
    )


def this_node(offer: ResctrlOffer | None, simulated: bool, capacity: tuple[tuple[int, float], ...] = ()) -> NodeGroup:
    """Describe this machine as a node: its cores, the ways of the curves, and its memory bandwidth if it is known."""
    ways = least = 0
    if offer is not None and offer.cache is not None:
        ways, least = offer.cache.private.ways, offer.cache.min_ways
    elif simulated:
        ways = cache_geometry()["LL"][1]
    return NodeGroup(1, len(allowed_cores()), ways=ways, min_ways=max(least, 1), bandwidth_gbs=capacity)


def account(known: Profile, new: Profile, why: str, where: str) -> dict[str, Any]:
    """Return the document of the verb."""
    one, all_of_it = new.scales[0], known.scales[0]
    curves = {"ipc": one.ipc, "bandwidth_gbs": one.bandwidth_gbs, "miss_rate": one.miss_rate}
    return {
        "program": new.program,
        "processes": new.processes,
        "hardware": new.hardware,
        "provenance": new.provenance,
        "owner": new.owner,
        "time_s": one.time_s,
        "runs": all_of_it.samples,
        "mean_time_s": all_of_it.time_s,
        "curves": {
            name: None if curve is None else dict(zip(map(str, curve.ways), curve.values, strict=True))
            for name, curve in curves.items()
        },
        "counters": {name: value for name, value in sorted(one.counters.items()) if name.endswith("_mean")},
        "afresh": why or None,
        "store": where,
    }


def _offer(host: Host) -> ResctrlOffer | None:
    mount = host.mount()
    if mount is None:
        return None
    try:
        return read_offer(host.files, mount)
    except OSError:
        return None


def _kind(settings: Settings, offer: ResctrlOffer | None) -> str:
    """Return the kind of curves; refuse an unavailable one before anything runs."""
    can_step = offer is not None and offer.cache is not None
    if settings.curve == AUTO:
        return RESCTRL if can_step else NONE
    if settings.curve == RESCTRL and not can_step:
        raise InputError(
            "the cache cannot be stepped on this machine",
            "--curve resctrl",
            "see `cohabit doctor`, or use --curve valgrind for an estimate",
        )
    if settings.curve == VALGRIND:
        about = Valgrind().offer()
        if not about.available:
            raise InputError(about.reason, "--curve valgrind", about.advice)
    return settings.curve


def _stepped(
    request: Request, settings: Settings, offer: ResctrlOffer, host: Host, folder: Path, mean_s: float, say: Advance
) -> Curves:
    """Run the program while the ways change every 5 s."""
    assert offer.cache is not None
    tour = tour_of(offer.cache.private.ways, offer.cache.min_ways, mean_s)
    counters = host.counters
    if counters is None:
        perf = Perf()
        counters = perf if "instructions" in perf.offer().counters else None
    say(f"a run for the curves: {', '.join(map(str, tour.ways))} ways, {tour.episode_s:g} s each, repeatedly")
    group = WayGroup(host.files, offer)
    try:
        ended, episodes = curve_run(request, tour, group, counters, folder, 4 * settings.limit_s)
    finally:
        group.close()
    _must_end_well(ended, settings, folder)
    found = curves_of(episodes)
    if found.ipc is None and found.bandwidth_gbs is None:
        reason = "was too short for two allocations" if counters is not None else "could not be counted"
        raise InputError(
            f"the run for the curves of {settings.program} {reason}",
            "",
            "give it more work, or use --curve valgrind or none",
        )
    return found


def _simulated(
    request: Request, settings: Settings, folder: Path, mean_s: float, busy_s: float, say: Advance
) -> Curves:
    """Run it inside valgrind; a shorter sample stands for the program if one is given."""
    alone_s = mean_s
    if settings.sample:
        request = replace(request, command=settings.sample)
        ended, _ = observe(request, [], folder, settings.limit_s)
        _must_end_well(ended, settings, folder)
        alone_s, busy_s = ended.run_s, min(ended.run_s, (ended.user_s + ended.system_s) / settings.processes)
    tried = simulated_cache.allocations()
    counted = simulated_cache.count_misses(
        request,
        alone_s,
        max(settings.limit_s, SLOWER_INSIDE * alone_s),
        folder,
        advance=lambda at, of: say(f"inside valgrind with {tried[at]} ways ({at + 1} of {of})"),
    )
    return simulated_cache.estimated(counted, max(busy_s, 1e-3), settings.processes, cache_geometry()["LL"][2])


def _must_end_well(ended: Ended, settings: Settings, folder: Path) -> None:
    if ended.status == 0:
        return
    how = (
        f"it ran longer than {settings.limit_s:g} s" if ended.run_s >= settings.limit_s else status_words(ended.status)
    )
    what = f"{settings.program!r} fails alone ({how}{last_words(folder / 'profile.err')})"
    raise InputError(what, "", "make it work first; nothing was stored")


def default_owner() -> str:
    """Return the shared owner for root, because root is an operator, and the user itself for any other account."""
    return SHARED if os.getuid() == 0 else owner_of(os.getuid())


def estimate_note(profile: Profile) -> str:
    """Return a caveat for readers of an estimated profile; empty for a measured one."""
    if profile.provenance != ESTIMATED:
        return ""
    return (
        f"its curves are an estimate: misses counted in a simulated cache, each assumed to cost "
        f"{1e9 * simulated_cache.STALL_S:g} ns; nothing was measured with less cache"
    )
