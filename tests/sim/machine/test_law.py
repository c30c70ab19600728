"""The law of one node against the same formulas written out by hand, and its limiting cases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from cohabit.model.profile import footprint
from cohabit.sim.machine import law
from cohabit.sim.machine.law import Load
from cohabit.sim.machine.truth import UNMASKED, Shape, Truth, shape_of
from tests.breadth import examples
from tests.sim.machine import laws_by_hand
from tests.sim.machine.laws_by_hand import HandJob
from tests.sim.machine.machines import BY_HAND, FLAT, as_program, node_group, plain_program, random_program, seeds

EXACT = {"rel": 1e-9, "abs": 1e-12}


def hand_shape(job: HandJob, name: str) -> Shape:
    return shape_of(name, job.processes, footprint(job.processes, 28, job.scale).nodes, job.scale)


def rates_of_product(jobs: list[HandJob], contention: str = "share", q: float = 1.0) -> list[float]:
    names = [f"program {number}" for number in range(len(jobs))]
    known = {name: as_program(name, job.program) for name, job in zip(names, jobs, strict=True)}
    truth = Truth(known, [node_group()], contention, q)
    mix = [
        (truth.load_number(hand_shape(job, name), 0), UNMASKED if job.ways is None else int(job.ways))
        for job, name in zip(jobs, names, strict=True)
    ]
    return list(truth.state(0, tuple(mix)).rates)


def random_jobs(rng: np.random.Generator, masked: bool, **options: Any) -> list[HandJob]:
    """Jobs that fit one node together, with masks that fill the cache or without."""
    jobs: list[HandJob] = []
    free = 28
    while free >= 2 and len(jobs) < 6:
        processes = int(rng.choice([16, 16, 28, 8, 5, 32, 56, 11, 100]))
        scale = int(rng.choice([1, 2, 4, 8]))
        cores = footprint(processes, 28, scale).cores
        if cores <= free:
            jobs.append(HandJob(random_program(rng, **options), processes, scale))
            free -= cores
        elif rng.random() < 0.5:
            break
    if masked:
        cuts = np.sort(rng.choice(np.arange(1, 20), len(jobs) - 1, replace=False)) if len(jobs) > 1 else []
        ways = np.diff([0, *cuts, 20])
        jobs = [HandJob(job.program, job.processes, job.scale, float(own)) for job, own in zip(jobs, ways, strict=True)]
    return jobs


@given(seeds)
@settings(max_examples=examples(150), deadline=None)
def test_partitioned_nodes_follow_the_law(seed: int) -> None:
    jobs = random_jobs(np.random.default_rng(seed), masked=True)
    assert rates_of_product(jobs) == pytest.approx(laws_by_hand.rates(jobs, BY_HAND), **EXACT)


@pytest.mark.slow
@given(seeds)
@settings(max_examples=examples(25), deadline=None)
def test_unpartitioned_nodes_follow_the_law(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rising, q = bool(rng.random() < 0.3), float(rng.choice([0.25, 1.0, 3.0]))
    jobs = random_jobs(rng, masked=False, rising_demand=rising)
    assert rates_of_product(jobs, "share", q) == pytest.approx(laws_by_hand.rates(jobs, BY_HAND, q), **EXACT)
    by_hand = laws_by_hand.rates(jobs, BY_HAND, occupancy=True)
    assert rates_of_product(jobs, "occupancy") == pytest.approx(by_hand, **EXACT)


@given(seeds)
@settings(max_examples=examples(100), deadline=None)
def test_speed_at_a_scale_follows_the_law(seed: int) -> None:
    rng = np.random.default_rng(seed)
    job = HandJob(random_program(rng), int(rng.choice([16, 28, 7, 40, 64])), int(rng.choice([1, 2, 4, 8])))
    truth = Truth({"p": as_program("p", job.program)}, [node_group()])
    assert truth.speed(hand_shape(job, "p"), 0) == pytest.approx(laws_by_hand.progress(job, BY_HAND), **EXACT)


def test_speed_of_the_bandwidth_bound_example() -> None:
    """BW with 28 processes: 1190 s at scale 1 and 557 s at scale 8 (requirements, section 2.2)."""
    plain = plain_program((0.87, 0.94, 0.98, 1), (106, 104, 102, 100), (1, 1.2, 1.33, 1.4), 0.9)
    truth = Truth({"BW": as_program("BW", plain, 780.0)}, [node_group()])
    compact, spread = shape_of("BW", 28, 1, 1, 28), shape_of("BW", 28, 8, 8, 4)
    stretched = 780 * 1.75 * 100 / (0.97 * 118.26)
    assert stretched == pytest.approx(1190, abs=1)
    assert truth.speed(compact, 0) == 1.0
    assert stretched / truth.speed(spread, 0) == pytest.approx(557, abs=1)


@given(seeds)
@settings(max_examples=examples(60), deadline=None)
def test_any_demand_settles_and_fills_the_cache(seed: int) -> None:
    """Also with demands that rise steeply, where there may be several solutions: the one found is one."""
    rng = np.random.default_rng(seed)
    loads = []
    for _ in range(int(rng.integers(2, 7))):
        values = rng.uniform(0.05, 110.0, 6)
        places = np.sort(rng.choice(np.arange(21), 6, replace=False))

        def demand(ways: float, places: Any = places, values: Any = values) -> float:
            return float(np.interp(ways, places, values))

        loads.append(Load(int(rng.integers(1, 10)), 0.5, lambda ways: 1.0, demand, 1.0))
    for contention, q in (("share", 1.0), ("share", 0.1), ("occupancy", 1.0)):
        ways = law.divided_ways(loads, 20.0, contention, q)
        pressure = [load.demand(own) + (q * load.cores if contention == "share" else 0.0)
                    for load, own in zip(loads, ways, strict=True)]  # fmt: skip
        assert sum(ways) == pytest.approx(20.0, rel=1e-12)
        goal = [20.0 * one / sum(pressure) for one in pressure]
        assert ways == pytest.approx(goal, abs=1e-8)  # where demand rises steeply the last step is amplified


# ---- latency --------------------------------------------------------------------------------------------------------


@given(seeds)
@settings(max_examples=examples(200), deadline=None)
def test_latency_solves_its_equation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    demands = rng.uniform(0.0, 100.0, int(rng.integers(1, 8))).tolist()
    mus, cap = rng.uniform(0.05, 1.0, len(demands)).tolist(), float(rng.uniform(20.0, 150.0))
    found = law.latency(demands, mus, cap)
    drawn = sum(gbs / (1 + mu * (found - 1)) for gbs, mu in zip(demands, mus, strict=True))
    assert drawn <= cap * (1 + 1e-12)
    if sum(demands) > cap and found > 1.1 + 1e-12:
        assert drawn == pytest.approx(cap, rel=1e-12)
    assert found == pytest.approx(laws_by_hand.latency(list(zip(demands, mus, strict=True)), cap), rel=1e-12)


@pytest.mark.parametrize(("gbs", "expected"), [(0, 1), (60, 1), (80, 1.05), (100, 1.1), (100.0001, 1.1), (150, 1.5)])
def test_latency_by_hand(gbs: float, expected: float) -> None:
    assert law.latency([gbs], [1.0], 100.0) == pytest.approx(expected)


def test_latency_never_falls_when_demand_grows() -> None:
    found = [law.latency([gbs, 30.0], [0.4, 0.9], 100.0) for gbs in np.linspace(0, 300, 400)]
    assert found == sorted(found)


def test_programs_that_never_wait_cannot_be_slowed_into_the_capacity() -> None:
    """No root exists: the latency stops at its bound, and whoever does wait for memory all but stops."""
    assert law.latency([200.0], [0.0], 100.0) == law.LAW.latency_limit
    assert law.latency([200.0, 10.0], [0.0, 0.5], 100.0) == law.LAW.latency_limit
    greedy = HandJob(plain_program(gbs=(100,) * 4, mu=0.0), 14, 1, 10)
    patient = HandJob(plain_program(gbs=(60,) * 4, mu=0.5), 14, 1, 10)
    rates = rates_of_product([greedy, greedy, patient][1:])
    assert rates == pytest.approx(laws_by_hand.rates([greedy, patient], BY_HAND), **EXACT)


def test_a_machine_without_a_bandwidth_curve_has_no_latency() -> None:
    truth = Truth({"p": as_program("p", plain_program())}, [node_group(bandwidth_gbs=())])
    load = truth.load_number(shape_of("p", 14, 1, 1, 14), 0)
    state = truth.state(0, ((load, 10), (load, 10)))
    assert state.latency == 1.0
    assert math.isfinite(state.drawn_gbs)
    assert state.rates[0] == pytest.approx(truth.load(shape_of("p", 14, 1, 1, 14), 0).ipc(10))


def test_a_machine_that_does_not_state_its_ways_has_no_cache_effects() -> None:
    truth = Truth({"p": as_program("p", plain_program(gbs=(60, 50, 40, 10)))}, [node_group(ways=0, min_ways=1)])
    load = truth.load_number(shape_of("p", 14, 1, 1, 14), 0)
    state = truth.state(0, ((load, UNMASKED), (load, UNMASKED)))
    assert state.rates == (1.0, 1.0)
    assert state.drawn_gbs == pytest.approx(2 * 10 * 14 / 16)


# ---- limiting cases -------------------------------------------------------------------------------------------------


@given(seeds)
@settings(max_examples=examples(60), deadline=None)
def test_alone_with_the_whole_cache_the_rate_is_exactly_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for ways in (None, 20.0):
        for contention in law.CONTENTIONS:
            job = HandJob(random_program(rng), int(rng.choice([16, 28, 7, 40])), int(rng.choice([1, 2, 4, 8])), ways)
            assert rates_of_product([job], contention) == [1.0]


@given(seeds)
@settings(max_examples=examples(60), deadline=None)
def test_without_contention_everybody_runs_at_full_speed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = [HandJob(FLAT, job.processes, job.scale, job.ways) for job in random_jobs(rng, bool(rng.random() < 0.5))]
    assert rates_of_product(jobs) == [1.0] * len(jobs)
    assert rates_of_product([HandJob(job.program, job.processes, job.scale) for job in jobs], "occupancy") == [
        1.0
    ] * len(jobs)


def test_an_unknown_program_runs_at_full_speed_and_asks_for_nothing() -> None:
    truth = Truth({}, [node_group()])
    load = truth.load(shape_of("nobody", 16, 1, 1, 16), 0)
    assert (load.ipc(2.0), load.demand(2.0), load.solo_latency) == (1.0, 0.0, 1.0)
    assert truth.speed(shape_of("nobody", 16, 8, 8, 2), 0) == 1.0


def test_demand_above_the_node_is_capped() -> None:
    truth = Truth({"p": as_program("p", plain_program(gbs=(500, 400, 300, 200)))}, [node_group()])
    assert truth.load(shape_of("p", 16, 1, 1, 16), 0).demand(2.0) == 118.26
    assert truth.load(shape_of("p", 28, 1, 1, 28), 0).demand(2.0) == pytest.approx(0.97 * 118.26)


def test_what_memory_delivers_is_the_profiled_bandwidth_alone_and_at_most_the_capacity_together() -> None:
    truth = Truth(
        {"MG": as_program("MG", plain_program((0.86, 0.95, 0.98, 1), (109, 110, 111, 112), mu=0.95))}, [node_group()]
    )
    alone = truth.load_number(shape_of("MG", 16, 1, 1, 16), 0)
    assert truth.state(0, ((alone, UNMASKED),)).drawn_gbs == pytest.approx(112.0)
    half = truth.load_number(shape_of("MG", 14, 1, 1, 14), 0)
    assert truth.state(0, ((half, UNMASKED), (half, UNMASKED))).drawn_gbs == pytest.approx(0.985 * 118.26)


def test_a_wrong_model_is_refused() -> None:
    with pytest.raises(Exception, match="contention"):
        Truth({}, [node_group()], "magic")
