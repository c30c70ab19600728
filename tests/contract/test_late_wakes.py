"""A wake that comes late changes when a decision is made, never which: a live clock never shows an exact instant.

Jobs are submitted and end on a coarse grid. A wake is delayed by less than what lies between two events, so that every
job must start in the same step of the grid as with exact wakes.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from cohabit.core.core import SchedulerCore
from cohabit.model.cluster import Window, uniform_cluster
from cohabit.model.event import Event, NodeDown, NodeUp
from cohabit.model.job import Job
from cohabit.model.scheme import Scheme
from cohabit.model.units import SECOND
from cohabit.sim.coupled import CoupledWorlds, fitting_terms
from cohabit.sim.runs import TracedJob
from cohabit.sim.world import World
from tests.support.builders import Choice, policies
from tests.support.coupled import RELIABLE, CoupledCase, DomainCase, build

GRID_S = 2000
MOST_LATE_US = 10 * SECOND
SLACK_S = 500  # runs end this much before the grid; all delays of one job together stay below


def late(rng: np.random.Generator) -> int:
    """From a microsecond to ten seconds, small delays as often as large ones."""
    return int(np.exp(rng.uniform(0, np.log(MOST_LATE_US))))


def same_decisions(exact: dict[str, int | None], delayed: dict[str, int | None]) -> bool:
    def lateness_s(name: str) -> float:
        first, second = exact[name], delayed[name]
        return -1.0 if first is None or second is None else (second - first) / SECOND

    return exact.keys() == delayed.keys() and all(0 <= lateness_s(name) < SLACK_S for name in exact)


# ---- jobs with mates: releases, retries, patience -------------------------------------------------------------------


def coupled_case(seed: int, schemes: tuple[str, ...]) -> CoupledCase:
    rng = np.random.default_rng([41, seed])
    names = ("a", "b", "c")[: 2 + int(rng.random() < 0.3)]
    domains = []
    for name in names:
        scheme = Scheme(
            scheme=str(rng.choice(schemes)),
            offset_us=100 * SECOND,
            least_hold_us=650 * SECOND,
            on_deadlock="ignore",  # one is found by messages, not by a wake
        )
        choice = Choice(str(rng.choice(["fcfs", "sjf"])), str(rng.choice(["easy", "none"])))
        domains.append(DomainCase(name, int(rng.integers(2, 9)), scheme, choice))
    nodes = {domain.name: domain.nodes for domain in domains}
    jobs = []
    for _ in range(int(rng.integers(4, 24))):
        name, run_s = str(rng.choice(names)), int(rng.integers(1, 4)) * GRID_S - SLACK_S
        jobs.append((name, int(rng.integers(0, 8)) * GRID_S, int(rng.integers(1, nodes[name] + 1)), run_s, run_s))
    free = {name: [place for place, job in enumerate(jobs) if job[0] == name] for name in names}
    groups = []
    while all(free.values()) and len(groups) * 2 * len(names) < len(jobs):
        members = rng.permutation(names)[: 2 + int(rng.integers(0, len(names) - 1))]
        groups.append(tuple(free[str(name)].pop(int(rng.integers(0, len(free[str(name)])))) for name in members))
    return CoupledCase(tuple(domains), tuple(jobs), tuple(groups), RELIABLE, seed)


def coupled_starts(case: CoupledCase, delayed: bool) -> tuple[dict[str, int | None], CoupledWorlds]:
    terms = msgspec.structs.replace(fitting_terms(case.link), late_us=2 * MOST_LATE_US)
    run = build(case, terms=terms)
    if delayed:
        rng = np.random.default_rng(case.seed)
        for world in run.worlds.values():
            world.wake_delay_us = lambda: late(rng)
    run.run()
    return {name: one.start_us for world in run.worlds.values() for name, one in world.outcomes.items()}, run


@pytest.mark.parametrize("seed", range(60))
def test_hold_and_yield_decide_the_same_with_late_wakes(seed: int) -> None:
    case = coupled_case(seed, ("hold", "yield"))
    exact, _ = coupled_starts(case, delayed=False)
    delayed, _ = coupled_starts(case, delayed=True)
    assert same_decisions(exact, delayed)


@pytest.mark.parametrize("seed", range(30))
def test_agreed_starts_still_happen_with_late_wakes(seed: int) -> None:
    """A late start moves the estimates of others, so that instants may differ; that all start together may not."""
    case = coupled_case(seed, ("agree", "hold", "yield"))
    starts, run = coupled_starts(case, delayed=True)
    assert not run.deadlock
    for group in case.groups:
        begun = [starts[str(place)] for place in group]
        assert None not in begun
        assert max(begun) - min(begun) <= 2 * MOST_LATE_US  # type: ignore[type-var, operator]


# ---- one cluster: windows, refusals, age limits, overrunning jobs ------- --------------------------------------------

CHOICES = (
    Choice("fcfs", "easy"),
    Choice("fcfs", "conservative"),
    Choice("sjf", "2"),
    Choice("age", "first-fit", placement="share", age_limit_s=GRID_S / 2),
)


def one_cluster_starts(choice: Choice, seed: int, delayed: bool) -> dict[str, int | None]:
    rng = np.random.default_rng([43, seed])
    window = Window(4 * GRID_S * SECOND, 6 * GRID_S * SECOND, first=0, count=2)
    cluster = replace(uniform_cluster(4), windows=(window,))
    world = World(SchedulerCore(cluster, policies(*choice)), kill=False)
    jobs = []
    for number in range(16):
        limit_s, nodes = int(rng.integers(1, 3)) * GRID_S - SLACK_S, int(rng.integers(1, 4))
        run_s = limit_s + GRID_S * int(rng.random() < 0.2)  # some overrun their limits
        job = Job(str(number), limit_s * SECOND, processes=nodes, nodes=nodes)
        jobs.append(TracedJob(job, int(rng.integers(0, 6)) * GRID_S * SECOND, run_s * SECOND))
    facts: list[tuple[int, Event]] = [(GRID_S * SECOND, NodeDown(3)), (3 * GRID_S * SECOND, NodeUp(3))]
    world.add(sorted(jobs, key=lambda one: one.submit_us), facts)
    if delayed:
        delays = np.random.default_rng(seed)
        world.wake_delay_us = lambda: late(delays)
    world.run()
    return {name: one.start_us for name, one in world.outcomes.items()}


@pytest.mark.parametrize("choice", CHOICES, ids=lambda one: "-".join(map(str, one[:2])) + f"-{one.placement}")
@pytest.mark.parametrize("seed", range(8))
def test_one_cluster_decides_the_same_with_late_wakes(choice: Choice, seed: int) -> None:
    exact = one_cluster_starts(choice, seed, delayed=False)
    assert None not in exact.values()
    assert same_decisions(exact, one_cluster_starts(choice, seed, delayed=True))
