"""Control jobs over half a year on the production machine: run times, and the counters before each run (R5, R6).

The windows end where a run begins, and norms are frozen from these runs alone (R60). Runs at 8 and 32 nodes are
added: the paper's model has never seen them, but norms are needed to judge whether one varies. For a gate of ours as
many runs again are made where load comes in bursts of many lengths; their windows also know their last minute, which
the paper's do not. Nothing here learns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import msgspec
import numpy as np

from cohabit.model.command import Command, StartJob
from cohabit.model.event import Event
from cohabit.model.telemetry import LAST, feature_names
from cohabit.model.units import HOUR, SECOND
from cohabit.predict.variability_data import Norms, Runs, freeze
from cohabit.reproduce.rush.lab import NODES, core_of, run_seconds, traced
from cohabit.sim.runs import TracedJob
from cohabit.sim.streams import stream
from cohabit.sim.weather.constants import CONSTANTS, Constants
from cohabit.sim.weather.counters import COLUMNS, Floats
from cohabit.sim.weather.weather import production_weather
from cohabit.sim.world import World
from cohabit.trace.rush_programs import STRONG, TEMPERS, WEAK, Temper, by_name, scaled

DAY_S = 86_400
OTHER_SIZES = (8, 32)
BEGIN_S = 600  # nothing runs before the first window is full
BURSTS_MIN = (2.0, 5.0, 12.0, 30.0)  # mean lengths of bursts of load; the machine's own are of 30 minutes


@dataclass(frozen=True)
class History:
    """The data of half a year."""

    seed: int
    days: int = 183  # August to January
    runs_per_day: float = 2.5
    nodes: int = NODES
    constants: Constants = CONSTANTS


@dataclass(frozen=True, eq=False)
class Collected:
    """The table, with features of all nodes and of the job's own, and norms of every size."""

    history: History
    all_nodes: Runs
    job_nodes: Runs
    norms: Norms


SIZED: tuple[Temper, ...] = tuple(
    scaled(one, nodes, scaling) for scaling in (WEAK, STRONG) for nodes in OTHER_SIZES for one in TEMPERS
)


WITH_LAST = feature_names(COLUMNS, with_last=True)
ORIGIN = "simulated control jobs"


@cache
def collected(history: History) -> Collected:
    """Run the control jobs and keep what the paper keeps."""
    jobs = _timetable(history, TEMPERS)
    names, times, starts, everywhere, own = _run(history, TEMPERS, jobs, windows=True)
    columns = feature_names(COLUMNS)
    papers = [at for at, name in enumerate(WITH_LAST) if not name.endswith(f".{LAST}")]
    all_nodes, job_nodes = (
        Runs(names, starts, times, _kinds(names), table[:, papers], columns, ORIGIN) for table in (everywhere, own)
    )
    sized_names, sized_times, *_ = _run(history, SIZED, _timetable(history, SIZED), windows=False)
    norms = freeze((*names, *sized_names), np.concatenate([times, sized_times]))
    return Collected(history, all_nodes, job_nodes, norms)


@cache
def in_bursts(history: History) -> Runs:
    """Run as many control jobs where bursts of load have other lengths, and judge them by the norms of the history.

    Load is high for as much of the time as it is there; all nodes are looked at, their last minute, too.
    """
    parts = []
    for number, minutes in enumerate(BURSTS_MIN, start=1):
        days = max(1, history.days // len(BURSTS_MIN))
        one = replace(history, seed=history.seed + 100 * number, days=days, constants=bursting(history, minutes))
        parts.append(_run(one, TEMPERS, _timetable(one, TEMPERS), windows=True))
    names = tuple(name for part in parts for name in part[0])
    times, starts, everywhere = (np.concatenate([part[at] for part in parts]) for at in (1, 2, 3))
    known = collected(history).norms
    means, deviations = (
        {name: one[name] for name in dict.fromkeys(names)} for one in (known.mean_s, known.deviation_s)
    )
    return Runs(names, starts, times, _kinds(names), everywhere, WITH_LAST, ORIGIN, norms=Norms(means, deviations))


def bursting(history: History, minutes: float) -> Constants:
    """Return the history's world with bursts of load of this length, the more often the shorter they are."""
    world, changed = history.constants, {}
    for name in ("network", "filesystem"):
        load = getattr(world, name)
        often = load.episodes_per_day * load.episode_h * 60.0 / minutes
        changed[name] = msgspec.structs.replace(load, episode_h=minutes / 60.0, episodes_per_day=often)
    return msgspec.structs.replace(world, **changed)


def _kinds(names: Sequence[str]) -> tuple[str, ...]:
    types = by_name(TEMPERS)
    return tuple(types[name].workload_type for name in names)


def _timetable(history: History, tempers: Sequence[Temper]) -> list[TracedJob]:
    """Each program so many times a day, at various times of the day."""
    found: list[tuple[int, Temper]] = []
    for one in tempers:
        rng = stream(history.seed, f"timetable {one.name}")
        count = round(history.days * history.runs_per_day)
        days = np.sort(np.arange(count) * history.days // count)
        at_s = days * DAY_S + rng.integers(0, DAY_S, count)
        found += [(max(int(second), BEGIN_S) * SECOND, one) for second in at_s.tolist()]
    found.sort(key=lambda each: (each[0], each[1].name))
    return [traced(str(number), one, at_us, 12 * HOUR) for number, (at_us, one) in enumerate(found)]


def _run(
    history: History, tempers: Sequence[Temper], jobs: list[TracedJob], windows: bool
) -> tuple[tuple[str, ...], Floats, Floats, Floats, Floats]:
    """(programs, run times, starts, features of all nodes, features of the job's own nodes)."""
    weather = production_weather(history.seed, history.nodes, history.days, by_name(tempers), history.constants)
    seen: dict[str, tuple[Floats, Floats]] = {}

    def watch(now_us: int, events: list[Event], commands: list[Command]) -> None:
        for command in commands:
            if windows and isinstance(command, StartJob):
                window = weather.window_before(now_us)
                nodes = np.concatenate([np.arange(first, first + count) for first, count in command.nodes])
                seen[command.job_id] = window.of_all_nodes, window.features(nodes)

    world = World(core_of(history.nodes), kill=False, weather=weather, observe=watch)
    world.add(jobs)
    world.run()
    canary_s = weather.canary_us / SECOND
    names = tuple(one.job.program for one in jobs)
    times = np.array([run_seconds(world.outcomes[one.job.job_id], one, canary_s) for one in jobs])
    starts = np.array([(world.outcomes[one.job.job_id].start_us or 0) / SECOND for one in jobs])
    empty = np.zeros((len(jobs), 0))
    if not windows:
        return names, times, starts, empty, empty
    both = [np.array([seen[one.job.job_id][part] for one in jobs]) for part in (0, 1)]
    return names, times, starts, both[0], both[1]
