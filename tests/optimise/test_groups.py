"""Whole ways and few groups: masks that hardware takes, never worse than no division, near the best grouping."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from cohabit.model.errors import InputError
from cohabit.optimise.grouping import clustered, one_each
from cohabit.optimise.node import divided, undivided
from cohabit.optimise.tables import prepare
from cohabit.optimise.ways import Group, Limits, lines_by_domain, schemata
from tests.optimise.laws_by_hand import App, Machine, alone, ipcs, mix_of, random_apps

D1540 = Limits(12, inseparable=((10, 11),))
CACHES = [
    D1540, Limits(12, groups=3), Limits(20, 2), Limits(11, io_ways=2), Limits(20, 2, groups=3, io_ways=2), Limits(4),
    Limits(1), Limits(16, groups=1),
]  # fmt: skip


def check_masks(groups: Sequence[Group], limits: Limits) -> None:
    """Masks that hardware would take: inside the cache, wide enough, disjoint, nothing inseparable cut."""
    used = 0
    for group in groups:
        assert 0 <= group.first_way <= limits.ways - group.ways, group
        assert group.ways >= limits.min_ways, group
        assert not used & group.mask, group
        used |= group.mask
        for first, end in limits.inseparable:
            together = ((1 << (end - first + 1)) - 1) << first
            assert group.mask & together in (0, together), group
    assert len(groups) <= limits.groups


@pytest.mark.parametrize("limits", CACHES)
def test_groups_are_what_hardware_takes_and_never_hurt(limits: Limits) -> None:
    for seed in range(3):
        problem = prepare(mix_of(random_apps(np.random.default_rng(seed), 8, 32)))
        found = clustered(problem, range(8), limits.checked())
        check_masks(found.groups, limits)
        assert sorted(job for group in found.groups for job in group.jobs) == list(range(8))
        assert sum(group.ways for group in found.groups) == limits.ways
        if not limits.io_ways:
            assert found.division.weighted_speedup >= undivided(problem, range(8)).weighted_speedup - 1e-9
            assert found.division.sizes.sum() == pytest.approx(32)


def in_clusters(apps: Sequence[App], runs: Sequence[Sequence[int]], sizes: Sequence[float], machine: Machine) -> float:
    """Weighted speedup by hand: inside a cluster shares follow misses per second, memory is everybody's."""
    shares = np.zeros(len(apps))
    for jobs, size in zip(runs, sizes, strict=True):
        shares[list(jobs)] = size / len(jobs)
    for _ in range(300):
        found = ipcs(apps, shares.tolist(), machine)
        moved = 0.0
        for jobs, size in zip(runs, sizes, strict=True):
            rates = np.array([apps[job].misses(shares[job]) * found[job] for job in jobs])
            change = 0.2 * (size * rates / rates.sum() - shares[list(jobs)])
            shares[list(jobs)] += change
            moved = max(moved, float(np.abs(change).max()))
        if moved < 1e-6:
            break
    found = ipcs(apps, shares.tolist(), machine)
    return sum(ipc / alone(app, machine) for app, ipc in zip(apps, found, strict=True))


def groupings(jobs: Sequence[int]) -> Iterator[list[list[int]]]:
    """Every way to put jobs into groups."""
    if not jobs:
        yield []
        return
    for rest in groupings(jobs[1:]):
        for at in range(len(rest)):
            yield [*rest[:at], [jobs[0], *rest[at]], *rest[at + 1 :]]
        yield [[jobs[0]], *rest]


def test_close_to_the_best_of_all_groupings() -> None:
    ways, machine = 4, Machine(12.8)
    for seed in range(3):
        apps = random_apps(np.random.default_rng(seed), 4, 16)
        problem = prepare(mix_of(apps, machine=machine))
        best = 0.0
        for runs in groupings(range(4)):
            for sizes in itertools.product(range(1, ways + 1), repeat=len(runs)):
                if sum(sizes) == ways:
                    best = max(best, in_clusters(apps, runs, [4 * size for size in sizes], machine))
        found = clustered(problem, range(4), Limits(ways))
        assert 0.99 * best <= found.division.weighted_speedup <= best + 1e-3
        begun = [list(group.jobs) for group in found.groups]
        by_hand = in_clusters(apps, begun, [4.0 * group.ways for group in found.groups], machine)
        assert found.division.weighted_speedup == pytest.approx(by_hand, abs=1e-3)


def test_few_groups_keep_most_of_the_gain() -> None:
    gains = []
    for seed in range(6):
        problem = prepare(mix_of(random_apps(np.random.default_rng(seed), 8, 32)))
        nothing, fine = undivided(problem, range(8)).weighted_speedup, divided(problem, range(8)).weighted_speedup
        coarse = clustered(problem, range(8), D1540).division.weighted_speedup
        gains.append((coarse - nothing, fine - nothing))
    kept = sum(coarse for coarse, _ in gains) / sum(fine for _, fine in gains)
    assert 0.7 < kept < 1.1


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("objective", ["weighted", "harmonic", "min"])
def test_ways_of_ones_own(equal: bool, objective: str) -> None:
    problem = prepare(mix_of(random_apps(np.random.default_rng(3), 5, 24)))
    for limits in (Limits(12), Limits(12, 2), D1540, Limits(20, 2, io_ways=2)):
        found = one_each(problem, range(5), limits, objective, equal)
        check_masks(found.groups, limits)
        assert [len(group.jobs) for group in found.groups] == [1] * 5
        capacity = {group.jobs[0]: group.ways for group in found.groups}
        if not limits.io_ways:
            sizes = [capacity[int(job)] * 24 / limits.ways for job in found.division.jobs]
            assert found.division.sizes == pytest.approx(sizes)


def test_ways_of_ones_own_need_enough_of_them() -> None:
    problem = prepare(mix_of(random_apps(np.random.default_rng(3), 5, 24)))
    awkward = Limits(11, 3, inseparable=((2, 4), (6, 9)))  # 11 ways, but never three runs of three
    assert awkward.most_runs() == 2
    for limits in (Limits(4), Limits(20, groups=4), Limits(9, 2), awkward):
        with pytest.raises(InputError, match="use --method clusters"):
            one_each(problem, range(5), limits)


def test_equal_ways_leave_room_for_those_after() -> None:
    problem = prepare(mix_of(random_apps(np.random.default_rng(3), 3, 24)))
    limits = Limits(9, 2, inseparable=((0, 4),))
    found = one_each(problem, range(3), limits, equal=True)
    check_masks(found.groups, limits)
    assert [group.ways for group in found.groups] == [5, 2, 2]


def test_whole_ways_of_one_bucket_are_the_fine_division() -> None:
    problem = prepare(mix_of(random_apps(np.random.default_rng(7), 6, 16)))
    coarse = one_each(problem, range(6), Limits(16)).division.weighted_speedup
    assert coarse == pytest.approx(divided(problem, range(6)).weighted_speedup, rel=1e-3)


def test_lines_for_the_kernel() -> None:
    groups = [Group((0, 2), 0, 4), Group((1,), 4, 8)]
    assert schemata(groups) == ["L3:0=f", "L3:0=ff0"]
    assert schemata(groups, (0, 1)) == ["L3:0=f;1=f", "L3:0=ff0;1=ff0"]
    assert lines_by_domain({0: groups, 3: groups[:1]}) == ["L3:0=f;3=f", "L3:0=ff0"]


@pytest.mark.parametrize(
    "limits",
    [
        Limits(0), Limits(4, 0), Limits(4, 5), Limits(4, groups=0), Limits(4, io_ways=5), Limits(4, io_ways=-1),
        Limits(12, inseparable=((11, 10),)), Limits(12, inseparable=((10, 12),)),
        Limits(12, inseparable=((2, 4), (4, 5))), Limits(12, io_worth=1.5),
    ],
)  # fmt: skip
def test_caches_that_cannot_be(limits: Limits) -> None:
    with pytest.raises(InputError):
        limits.checked()
