"""The monitor: what exclusive runs teach, how noise and phases blur it, and that a program is still recognised."""

from __future__ import annotations

import numpy as np
import pytest

from cohabit.model.command import StartJob
from cohabit.model.curve import Curve, never_falling
from cohabit.model.event import ProfileLearned
from cohabit.model.job import Job
from cohabit.model.profile import Profile, ScaleProfile, demand
from cohabit.model.program import profile_of
from cohabit.model.units import SECOND, microseconds
from cohabit.sim.machine.phases import BURST, CALM, Phases, Track
from cohabit.sim.machine.profiler import Profiler, noisy_profile
from cohabit.sim.machine.truth import Truth
from cohabit.sim.streams import stream
from tests.sim.machine.machines import POINTS, as_program, node_group, plain_program, random_program, start_on

PLAIN = plain_program()
JOB = Job("j", 10**12, processes=16, program="p")


def profiler(noise: float = 0.0, seed: int = 1, **group: object) -> Profiler:
    return Profiler(Truth({"p": as_program("p", PLAIN)}, [node_group(**group)]), seed, noise)


def order(purpose: str, scale: int = 1, exclusive: bool = True) -> StartJob:
    return start_on("j", list(range(scale)), 16, scale, exclusive, purpose=purpose)


def curves(learned: ProfileLearned | None) -> tuple[Curve, Curve]:
    assert learned is not None
    assert learned.measured.ipc is not None
    assert learned.measured.bandwidth_gbs is not None
    return learned.measured.ipc, learned.measured.bandwidth_gbs


@pytest.mark.parametrize("purpose", ["run", "time"])
def test_an_exclusive_run_teaches_its_time(purpose: str) -> None:
    learned = profiler().measure(JOB, order(purpose, 2), microseconds(250.5), 7)
    expected = ScaleProfile(2, 250.5, measured_at_us=7)
    assert learned == ProfileLearned("p", 16, expected, "28c-20w-118.26g")


def test_shared_runs_and_runs_without_a_program_teach_nothing() -> None:
    assert profiler().measure(JOB, order("run", exclusive=False), SECOND, 0) is None
    assert profiler().measure(Job("j", 1, processes=16), order("curve"), SECOND, 0) is None
    assert profiler().measure(JOB, order("run"), 0, 0) is None


@pytest.mark.parametrize("scale", [1, 2, 8])
def test_without_noise_and_phases_the_curves_are_those_of_a_perfect_profiler(scale: int) -> None:
    ipc, gbs = curves(profiler().measure(JOB, order("curve", scale), 357 * SECOND, 0))
    perfect = profile_of(as_program("p", PLAIN), node_group()).at_scale(scale)
    assert perfect is not None
    assert perfect.ipc is not None
    assert perfect.bandwidth_gbs is not None
    assert ipc.ways == gbs.ways == POINTS
    assert ipc.values == pytest.approx(perfect.ipc.values)
    assert gbs.values == pytest.approx(perfect.bandwidth_gbs.values)


def test_a_curve_run_leaves_the_time_to_another_run_and_costs_19_percent() -> None:
    learned = profiler().measure(JOB, order("curve"), 357 * SECOND, 0)
    assert learned is not None
    assert learned.measured.time_s == 0
    assert [profiler().work_factor(purpose) for purpose in ("run", "time", "curve")] == [1.0, 1.0, 1.19]


@pytest.mark.parametrize(("ways", "least", "expected"), [(11, 2, (2, 4, 8, 11)), (6, 4, (4, 6)), (2, 1, (1, 2))])
def test_sampled_ways_are_those_of_the_machine(ways: int, least: int, expected: tuple[int, ...]) -> None:
    ipc, _ = curves(profiler(ways=ways, min_ways=least).measure(JOB, order("curve"), 60 * SECOND, 0))
    assert ipc.ways == expected


@pytest.mark.parametrize("elapsed_us", [1, 1000, 7 * SECOND, 19 * SECOND])
def test_a_short_run_still_visits_every_allocation(elapsed_us: int) -> None:
    ipc, gbs = curves(profiler().measure(JOB, order("curve"), elapsed_us, 0))
    assert ipc.values == pytest.approx(tuple(PLAIN["ipc"].values()))
    assert gbs.values == pytest.approx(tuple(PLAIN["bw"].values()))


def test_noise_follows_the_seed_and_averages_out() -> None:
    runs = [curves(profiler(0.05, seed).measure(JOB, order("curve"), 400 * SECOND, 0))[1].values for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    truth = np.array(list(PLAIN["bw"].values()))
    errors = [
        np.array(curves(profiler(0.05, seed).measure(JOB, order("curve"), 400 * SECOND, 0))[1].values) / truth - 1
        for seed in range(60)
    ]
    assert np.std(errors) == pytest.approx(0.05 / np.sqrt(20), rel=0.2)


def test_phases_bias_the_curves_of_a_run() -> None:
    """The first half calm, the second a burst: a run of one round reads two allocations in each."""
    track = Track((0.5, 1.0), (CALM, BURST))
    _, gbs = curves(profiler().measure(JOB, order("curve"), 20 * SECOND, 0, track=track))
    assert gbs.values == pytest.approx([60 * 0.4, 57 * 0.4, 51 * 1.6, 43 * 1.6])
    _, long = curves(profiler().measure(JOB, order("curve"), 4000 * SECOND, 0, track=track))
    assert long.values == pytest.approx([60, 57, 51, 43])


def test_phases_average_out_over_many_runs() -> None:
    runs = [
        curves(profiler().measure(JOB, order("curve"), 300 * SECOND, 0, track=Phases(1).track(str(number))))[1].values
        for number in range(100)
    ]
    assert np.mean(runs, axis=0) == pytest.approx([60, 57, 51, 43], rel=0.05)
    assert np.std(runs, axis=0).min() > 0.01 * 43


def test_an_unknown_program_shows_flat_curves() -> None:
    learned = Profiler(Truth({}, [node_group()])).measure(JOB, order("curve"), 60 * SECOND, 0)
    ipc, gbs = curves(learned)
    assert set(ipc.values) == {1.0}
    assert set(gbs.values) == {0.0}


def test_rediscovery_at_five_percent_noise() -> None:
    """From one noisy curve run each, the ways for 90 % come out within one way for nearly all random programs.

    Curves that are nearly flat around the 90 % point are left out: no measurement could tell their ways apart.
    """
    rng, node, near, seen = np.random.default_rng(12), node_group(), 0, 0
    for number in range(120):
        program = as_program("p", random_program(rng))
        truth = profile_of(program, node)
        wanted = demand(truth, 1, 16, 0.9, node)
        assert wanted is not None
        if gained_by_way(truth, wanted.ways) < 0.012:
            continue
        monitor = Profiler(Truth({"p": program}, [node]), number, 0.05)
        ipc, gbs = curves(monitor.measure(JOB, order("curve"), 595 * SECOND, 0))
        found = demand(Profile("p", 16, (ScaleProfile(1, 500.0, ipc, gbs),)), 1, 16, 0.9, node)
        assert found is not None
        seen += 1
        near += abs(found.ways - wanted.ways) <= 1
        sampled = [min(program.bandwidth_at(1, ways, 20), 118.26) for ways in POINTS]
        assert gbs.values == pytest.approx(sampled, rel=0.06)
    assert seen > 60
    assert near / seen > 0.9


def gained_by_way(profile: Profile, ways: int) -> float:
    """How much IPC one way brings around this point."""
    one = profile.at_scale(1)
    assert one is not None
    assert one.ipc is not None
    return one.ipc.at(ways) - one.ipc.at(ways - 1)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1.0, 2.0, 3.0), (1.0, 2.0, 3.0)),
        ((1.0, 3.0, 2.0), (1.0, 2.5, 2.5)),
        ((3.0, 2.0, 1.0), (2.0, 2.0, 2.0)),
        ((1.0, 4.0, 3.0, 2.0, 5.0), (1.0, 3.0, 3.0, 3.0, 5.0)),
    ],
)
def test_ipc_never_falls(values: tuple[float, ...], expected: tuple[float, ...]) -> None:
    assert never_falling(values) == pytest.approx(expected)


def test_a_profile_known_beforehand_can_be_wrong() -> None:
    perfect = profile_of(as_program("p", PLAIN), node_group())
    assert noisy_profile(perfect, 0.0, stream(1, "x")) == perfect
    noisy = noisy_profile(perfect, 0.2, stream(1, "x"))
    assert noisy == noisy_profile(perfect, 0.2, stream(1, "x"))
    assert noisy != noisy_profile(perfect, 0.2, stream(2, "x"))
    errors = []
    for number in range(200):
        for one, true in zip(noisy_profile(perfect, 0.1, stream(number, "x")).scales, perfect.scales, strict=True):
            assert one.ipc is not None
            assert one.bandwidth_gbs is not None
            assert true.bandwidth_gbs is not None
            assert list(one.ipc.values) == sorted(one.ipc.values)
            assert one.time_s == true.time_s  # read off a clock
            errors += [a / b - 1 for a, b in zip(one.bandwidth_gbs.values, true.bandwidth_gbs.values, strict=True)]
    assert np.mean(errors) == pytest.approx(0, abs=0.01)
    assert np.std(errors) == pytest.approx(0.1, rel=0.05)
