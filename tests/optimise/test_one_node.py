"""One node: the law, the best division, bounds, fairness, and the cache nobody divides, against reckoning by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cohabit.optimise import division
from cohabit.optimise.exhaustive import all_sizes, best_division
from cohabit.optimise.node import Division, divided, equally_divided, law_at, undivided
from cohabit.optimise.tables import Problem, prepare
from tests.optimise.laws_by_hand import (
    App,
    Machine,
    alone,
    divisions,
    ipcs,
    mix_of,
    random_apps,
    speeds,
    undivided_shares,
)

CAPS = (25.0, 12.8, 4.0)


def problem_of(seed: int, count: int, buckets: int, cap: float = 25.0) -> tuple[list[App], Machine, Problem]:
    apps, machine = random_apps(np.random.default_rng(seed), count, buckets), Machine(cap)
    return apps, machine, prepare(mix_of(apps, machine=machine))


def in_order(one: Division) -> dict[int, int]:
    """Where each job stands in a division."""
    return {int(job): at for at, job in enumerate(one.jobs)}


@pytest.mark.parametrize("cap", [*CAPS, 0.5])
def test_speeds_are_those_of_the_law(cap: float) -> None:
    for seed in range(20):
        apps, machine, problem = problem_of(seed, 6, 16, cap)
        sizes = [1, 2, 3, 4, 2.5, 3.5]
        found = law_at(problem, np.arange(6), np.array(sizes))
        assert found.ipc == pytest.approx(ipcs(apps, sizes, machine), rel=1e-9)
        assert found.alone == pytest.approx([alone(app, machine) for app in apps], rel=1e-9)


def test_a_program_alone_runs_at_its_own_speed() -> None:
    _, _, problem = problem_of(1, 1, 32)
    for one in (divided(problem, [0]), undivided(problem, [0]), equally_divided(problem, [0])):
        assert one.weighted_speedup == pytest.approx(1.0, abs=1e-12)
        assert one.sizes.tolist() == [32]


@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("count", [2, 3, 4])
def test_small_caches_are_divided_as_well_as_possible(cap: float, count: int) -> None:
    """At most 4 programs and 8 buckets: every division by the law, load solved for, none is better."""
    for seed in range(12):
        apps, machine, problem = problem_of(100 * count + seed, count, 8, cap)
        found = divided(problem, range(count))
        best = max(sum(speeds(apps, sizes, machine)) for sizes in divisions(count, 8))
        assert found.weighted_speedup == pytest.approx(best, rel=1e-9)
        assert found.sizes.sum() == 8


def test_the_dynamic_programme_finds_the_largest_sum_and_minimum() -> None:
    rng = np.random.default_rng(5)
    for count, buckets in ((2, 9), (3, 12), (4, 13), (5, 11), (6, 6)):
        values = rng.normal(size=(count, buckets + 1))
        best, sizes = np.zeros((count, buckets + 1)), np.zeros(count, np.int64)
        total = division.largest_sum(count, buckets, values, best, sizes)
        every = [[values[i, s] for i, s in enumerate(one)] for one in all_sizes(count, buckets)]
        assert total == pytest.approx(max(map(sum, every)))
        assert sum(values[i, s] for i, s in enumerate(sizes)) == pytest.approx(total)
        assert sizes.sum() == buckets
        assert division.largest_minimum(count, buckets, values, best) == max(map(min, every))


@pytest.mark.parametrize("cap", CAPS)
def test_larger_caches_come_within_a_hair_of_the_best(cap: float) -> None:
    worst = 1.0
    for seed in range(12):
        _, _, problem = problem_of(seed, 4, 20, cap)
        best = best_division(problem, range(4)).weighted_speedup
        worst = min(worst, divided(problem, range(4)).weighted_speedup / best)
    assert worst > 0.995


@pytest.mark.parametrize("objective", ["weighted", "harmonic", "min"])
@pytest.mark.parametrize("charged", [True, False])
def test_never_worse_than_equal_parts(objective: str, charged: bool) -> None:
    worth = {
        "weighted": lambda one: one.weighted_speedup,
        "harmonic": lambda one: -(1 / one.speeds).sum(),
        "min": lambda one: one.speeds.min(),
    }[objective]
    for seed in range(40):
        _, _, problem = problem_of(seed, 7, 32, CAPS[seed % 3])
        found = divided(problem, range(7), objective, charged)
        assert worth(found) >= worth(equally_divided(problem, found.jobs)) - 1e-9
        assert found.sizes.sum() == 32
        assert found.sizes.min() >= 1


def test_charging_for_bandwidth_pays() -> None:
    """The plain fixed point overlooks what a program's misses cost its neighbours."""
    gains = []
    for seed in range(60):
        _, _, problem = problem_of(seed, 8, 32, 12.8)
        plain, priced = (divided(problem, range(8), charged=flag).weighted_speedup for flag in (False, True))
        gains.append(priced / plain - 1)
    assert min(gains) > -1e-3
    assert max(gains) > 1e-3


def test_each_objective_is_best_by_its_own_measure() -> None:
    for seed in range(10):
        _, _, problem = problem_of(seed, 3, 14)
        by = {name: divided(problem, range(3), name) for name in ("weighted", "harmonic", "min")}
        assert by["min"].speeds.min() >= max(one.speeds.min() for one in by.values()) - 1e-9
        fair = best_division(problem, range(3), lambda one: float(one.speeds.min()))
        assert by["min"].speeds.min() > 0.99 * fair.speeds.min()
        assert (1 / by["harmonic"].speeds).sum() <= min((1 / one.speeds).sum() for one in by.values()) + 1e-6


def test_bounds_are_kept_where_any_division_keeps_them() -> None:
    kept = 0
    for seed in range(30):
        apps, machine, problem = problem_of(seed, 3, 12)
        bounds = np.array([0.8, 0.0, 0.6])
        bounded = prepare(replace(problem.mix, alpha=bounds))
        found = divided(bounded, range(3))
        at = in_order(found)
        speed = [found.speeds[at[job]] for job in range(3)]
        every = [np.array(speeds(apps, sizes, machine)) for sizes in divisions(3, 12)]
        possible = [one.sum() for one in every if (one >= bounds).all()]
        if possible:
            kept += 1
            assert speed[0] >= 0.8 - 1e-9
            assert speed[2] >= 0.6 - 1e-9
            assert sum(speed) > 0.99 * max(possible)
    assert kept > 5


def test_order_and_names_change_nothing() -> None:
    apps, machine, problem = problem_of(3, 6, 24)
    found = divided(problem, range(6))
    shuffled = [4, 2, 0, 5, 1, 3]
    other = divided(prepare(mix_of([apps[job] for job in shuffled], machine=machine)), range(6))
    sizes, other_sizes = in_order(found), in_order(other)
    assert [found.sizes[sizes[job]] for job in shuffled] == [other.sizes[other_sizes[at]] for at in range(6)]


def test_equal_programs_are_one_kind() -> None:
    apps = random_apps(np.random.default_rng(1), 2, 8)
    problem = prepare(mix_of([apps[0], apps[1], apps[0], apps[1], apps[0]]))
    assert problem.kind_of.tolist() == [0, 1, 0, 1, 0]
    assert len(problem.tables.cpi0) == 2


@pytest.mark.parametrize("cap", CAPS)
def test_an_undivided_cache_is_shared_by_misses_per_second(cap: float) -> None:
    for seed in range(8):
        apps, machine, problem = problem_of(seed, 4, 16, cap)
        found = undivided(problem, range(4))
        at = in_order(found)
        assert found.sizes.sum() == pytest.approx(16)
        rates = [app.misses(found.sizes[at[job]]) * found.ipc[at[job]] for job, app in enumerate(apps)]
        sizes = [found.sizes[at[job]] for job in range(4)]
        assert sizes == pytest.approx([16 * rate / sum(rates) for rate in rates], abs=1e-6)
        assert sizes == pytest.approx(undivided_shares(apps, machine), abs=1e-3)


def test_steep_cliffs_come_to_rest() -> None:
    sizes = np.arange(33)
    curve = 1 + 60 / (1 + (sizes / 6.0) ** 12)
    apps = [App(tuple((curve * scale).tolist()), 0.5, 60.0) for scale in (1.0, 0.9, 0.8, 1.1, 0.7, 1.2, 0.6, 1.3)]
    problem = prepare(mix_of(apps))
    found = undivided(problem, range(8))
    rates = [app.misses(found.sizes[i]) * found.ipc[i] for app, i in zip(apps, np.argsort(found.jobs), strict=True)]
    shares = [found.sizes[i] for i in np.argsort(found.jobs)]
    assert shares == pytest.approx([32 * rate / sum(rates) for rate in rates], abs=1e-5)


def test_without_contention_nothing_matters() -> None:
    """Flat curves and idle memory: all schemes are equal."""
    problem = prepare(mix_of([App((5.0,) * 9, 1.0, 20.0), App((0.0,) * 9, 0.7, 50.0)] * 2, machine=Machine(1e9)))
    for one in (divided(problem, range(4)), undivided(problem, range(4)), equally_divided(problem, range(4))):
        assert one.weighted_speedup == pytest.approx(4.0, abs=1e-6)
    nobody = prepare(mix_of([App((0.0,) * 9, 1.0, 20.0)] * 3))
    assert undivided(nobody, range(3)).weighted_speedup == pytest.approx(3.0)
