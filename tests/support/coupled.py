"""Two or more small clusters with jobs that have mates, at random: for properties that must hold whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cohabit.core import invariants
from cohabit.core.core import SchedulerCore
from cohabit.core.protocols import Coupling
from cohabit.model.cluster import uniform_cluster
from cohabit.model.command import Command
from cohabit.model.event import Event
from cohabit.model.group import Group, Member, Terms, make_group
from cohabit.model.job import Job
from cohabit.model.scheme import Scheme
from cohabit.model.units import SECOND
from cohabit.sim.coupled import CoupledWorlds, Link, fitting_terms
from cohabit.sim.runs import TracedJob
from cohabit.sim.world import World
from tests.support.builders import Choice, policies

FCFS_EASY, RELIABLE = Choice("fcfs", "easy"), Link()


@dataclass(frozen=True)
class DomainCase:
    """One cluster of a case."""

    name: str
    nodes: int
    scheme: Scheme
    choice: Choice = FCFS_EASY


@dataclass(frozen=True)
class CoupledCase:
    """Clusters, jobs as (domain, submitted, nodes, run, limit) in seconds, and which jobs are mates."""

    domains: tuple[DomainCase, ...]
    jobs: tuple[tuple[str, int, int, int, int], ...]
    groups: tuple[tuple[int, ...], ...]  # indices of jobs
    link: Link = RELIABLE
    seed: int = 0


def random_case(rng: np.random.Generator, *, schemes: tuple[str, ...] = ("hold", "yield", "agree")) -> CoupledCase:
    """Two or three clusters of at most 12 nodes, up to 40 jobs, about a third of them with mates."""
    names = ("a", "b", "c")[: 2 + int(rng.random() < 0.3)]
    domains = tuple(
        DomainCase(
            name,
            int(rng.integers(1, 13)),
            Scheme(scheme=str(rng.choice(schemes))),
            Choice(str(rng.choice(["fcfs", "sjf", "wfp"])), "easy"),
        )
        for name in names
    )
    jobs, size = [], {domain.name: domain.nodes for domain in domains}
    for _ in range(int(rng.integers(2, 41))):
        name, run_s = str(rng.choice(names)), int(rng.integers(1, 4000))
        limit_s = run_s + int(rng.integers(0, 2000))
        jobs.append((name, int(rng.integers(0, 6000)), int(rng.integers(1, size[name] + 1)), run_s, limit_s))
    free = {name: [place for place, job in enumerate(jobs) if job[0] == name] for name in names}
    groups: list[tuple[int, ...]] = []
    while all(free.values()) and len(groups) * 2 * len(names) < len(jobs):
        members = rng.permutation(names)[: 2 + int(rng.integers(0, len(names) - 1))]
        groups.append(tuple(free[str(name)].pop(int(rng.integers(0, len(free[str(name)])))) for name in members))
    return CoupledCase(domains, tuple(jobs), tuple(groups), Link(), int(rng.integers(0, 2**31)))


def build(
    case: CoupledCase,
    *,
    check: bool = False,
    observe: Callable[[str, int, list[Event], list[Command]], None] | None = None,
    readable: bool = False,
    terms: Terms | None = None,
    groups: dict[int, Group] | None = None,
) -> CoupledWorlds:
    """The worlds of a case, ready to run; `groups` (by index of the job) in place of those of its own terms."""
    worlds: dict[str, World] = {}
    terms = terms or fitting_terms(case.link)
    given, groups = groups, {}
    for number, places in enumerate(case.groups):
        members = [Member(case.jobs[place][0], str(place)) for place in places]
        made = make_group(f"g{number:03d}", members, terms)
        groups |= dict.fromkeys(places, made)
    groups = groups if given is None else given
    for rank, domain in enumerate(case.domains):
        names = tuple(other.name for other in case.domains if other is not domain)
        chosen = replace(policies(*domain.choice), mates=Coupling(domain.name, rank, domain.scheme, names))
        core = SchedulerCore(uniform_cluster(domain.nodes), chosen, readable)

        def watch(
            now: int, events: list[Event], commands: list[Command], core: SchedulerCore = core, name: str = domain.name
        ) -> None:
            if check:
                invariants.check(core.state)
            if observe is not None:
                observe(name, now, events, commands)

        world = World(core, observe=watch)
        mine = [(submit, place) for place, (name, submit, *_) in enumerate(case.jobs) if name == domain.name]
        traced = []
        for submit_s, place in sorted(mine):
            _, _, nodes, run_s, limit_s = case.jobs[place]
            job = Job(str(place), limit_s * SECOND, processes=nodes, nodes=nodes, mates=groups.get(place))
            traced.append(TracedJob(job, submit_s * SECOND, run_s * SECOND))
        world.add(traced)
        worlds[domain.name] = world
    return CoupledWorlds(worlds, case.link, case.seed)
