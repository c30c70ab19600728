"""A group on idle machines starts as soon as all its jobs are there, whichever comes last; names of domains are only
names."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from cohabit.model.scheme import SCHEMES, Scheme
from cohabit.model.units import SECOND
from cohabit.sim.coupled import Link
from tests.support.coupled import RELIABLE, CoupledCase, DomainCase, build, random_case

SLOW = Link(latency_us=SECOND // 20)
LOSSY = Link(latency_us=SECOND // 20, jitter_us=SECOND // 10, loss=0.1, duplicate=0.05)
MOST_LATE_S = {RELIABLE: 0.0, SLOW: 1.0, LOSSY: 60.0}  # lossy: a lost message is repeated every ten seconds


def starts_of(case: CoupledCase) -> dict[str, int | None]:
    run = build(case)
    run.run()
    return {name: one.start_us for world in run.worlds.values() for name, one in world.outcomes.items()}


@pytest.mark.parametrize("gap_s", [0, 5])
@pytest.mark.parametrize("link", [RELIABLE, SLOW, LOSSY], ids=["no latency", "latency", "loss"])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("domains", [2, 3, 5])
def test_an_idle_group_starts_when_its_last_job_comes(domains: int, scheme: str, link: Link, gap_s: int) -> None:
    names = "abcde"[:domains]
    for order in list(permutations(range(domains)))[:: 1 if domains < 5 else 11]:
        jobs = tuple((name, place * gap_s, 2, 100, 100) for name, place in zip(names, order, strict=True))
        cases = tuple(DomainCase(name, 4, Scheme(scheme=scheme)) for name in names)
        starts = starts_of(CoupledCase(cases, jobs, (tuple(range(domains)),), link, seed=3))
        last_s = (domains - 1) * gap_s
        for start_us in starts.values():
            assert start_us is not None
            assert 0 <= start_us / SECOND - last_s <= MOST_LATE_S[link], order


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("names", ["ab", "ba"])
def test_two_jobs_that_become_ready_in_one_instant_start_in_it(scheme: str, names: str) -> None:
    """Both machines are full until 100 s. Each job finds nodes only then, and must not give up its turn."""
    first, second = names
    jobs = ((first, 0, 4, 100, 100), (second, 0, 4, 100, 100), (first, 1, 4, 50, 50), (second, 1, 4, 50, 50))
    cases = tuple(DomainCase(name, 4, Scheme(scheme=scheme)) for name in "ab")
    starts = starts_of(CoupledCase(cases, jobs, ((2, 3),)))
    assert (starts["2"], starts["3"]) == (100 * SECOND, 100 * SECOND)


@pytest.mark.parametrize("link", [RELIABLE, SLOW], ids=["no latency", "latency"])
@pytest.mark.parametrize("seed", range(30))
def test_other_names_of_domains_change_nothing(seed: int, link: Link) -> None:
    case = replace(random_case(np.random.default_rng([31, seed])), link=link)
    new = {"a": "z", "b": "m", "c": "k"}
    domains = tuple(replace(domain, name=new[domain.name]) for domain in case.domains)
    jobs = tuple((new[name], *rest) for name, *rest in case.jobs)
    renamed = replace(case, domains=domains, jobs=jobs)  # type: ignore[arg-type]
    assert starts_of(case) == starts_of(renamed)
