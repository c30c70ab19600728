"""Metamorphic worlds (5.6.5) and hidden programs: what must not matter does not, and nothing comes from nothing."""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np
import pytest

from cohabit.core import invariants
from cohabit.core.core import SchedulerCore
from cohabit.model.profile import COMPACT, NEUTRAL, SCALING, classify, demand
from cohabit.model.program import profile_of
from cohabit.model.workload import Workload
from cohabit.reproduce.sns import lab
from cohabit.reproduce.sns.hidden import COUNTS, hidden_programs
from cohabit.reproduce.sns.lab import HIDDEN, Bench, Conditions, simulate, times_of
from cohabit.sim.streams import stream
from cohabit.trace.mix import generate_sequence
from cohabit.trace.programs import Programs

SEED = 11


def sequence(bench: Bench, number: int = 0, jobs: int = 14) -> Workload:
    return generate_sequence(stream(SEED, f"test {number}"), bench.programs, jobs, nodes=8)


def ratios(bench: Bench, workload: Workload, policy: str, conditions: Conditions = lab.PLAIN) -> np.ndarray:
    """Turnaround over CE's, job by job."""
    ours, alone = (
        times_of(simulate(bench, name, workload, conditions, seed=SEED)).turnaround_s for name in (policy, "ce")
    )
    return ours / alone


@pytest.mark.parametrize("policy", ["cs", "sns"])
def test_names_of_programs_do_not_matter(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    workload = sequence(bench)
    plain = ratios(bench, workload, policy)
    new = {name: f"x{number:02d}" for number, name in enumerate(sorted(bench.programs, reverse=True))}
    renamed = Programs(
        {new[name]: msgspec.structs.replace(one, name=new[name]) for name, one in bench.programs.items()}
    )
    renamed.machine = bench.programs.machine
    monkeypatch.setattr(lab, "_programs", lambda kind, seed, processes: renamed)
    lab._varied_programs.cache_clear()
    try:
        again = dataclasses.replace(workload, program_names=tuple(new[name] for name in workload.program_names))
        np.testing.assert_array_equal(ratios(bench, again, policy), plain)
    finally:
        lab._varied_programs.cache_clear()


@pytest.mark.parametrize("policy", ["cs", "sns"])
def test_a_clock_ten_times_slower_changes_nothing(policy: str) -> None:
    bench = Bench()
    workload = sequence(bench, 1)
    slow = dataclasses.replace(workload, run_us=10 * workload.run_us, limit_us=10 * workload.limit_us)
    np.testing.assert_allclose(ratios(bench, slow, policy), ratios(bench, workload, policy), rtol=1e-6)


def test_numbers_of_nodes_do_not_matter() -> None:
    """Nodes of one kind are interchangeable: on a larger machine of which only as many are needed, SNS does as well."""
    bench = Bench()
    workload = sequence(bench, 2, jobs=4)
    wide = [times_of(simulate(bench, "sns", workload, seed=SEED, nodes=nodes)).turnaround_s for nodes in (64, 96)]
    np.testing.assert_array_equal(wide[0], wide[1])


def test_without_contention_there_is_nothing_to_avoid() -> None:
    """Where neighbours never slow each other and spreading brings nothing, no strategy changes a run time."""
    bench, none = Bench(), Conditions(contention="none")
    for number in range(3):
        workload = sequence(bench, number)
        times = {name: times_of(simulate(bench, name, workload, none, seed=SEED)) for name in ("ce", "cs", "sns")}
        for name in ("cs", "sns"):
            np.testing.assert_allclose(times[name].run_s, times["ce"].run_s, rtol=1e-9)
        assert times["sns"].turnaround_s.mean() >= 0.98 * times["cs"].turnaround_s.mean(), "caution cannot pay here"


def test_hidden_programs_follow_their_priors() -> None:
    node = Bench().node
    for seed in range(20):
        programs = hidden_programs(seed)
        kinds = [classify(profile_of(one, node)).kind for one in programs.values()]
        assert {kind: kinds.count(kind) for kind in (SCALING, NEUTRAL, COMPACT)} == COUNTS
        for one in programs.values():
            wanted = demand(profile_of(one, node), 1, 16, 0.9, node)
            assert wanted is not None
            assert 2 <= wanted.ways <= 19
            assert all(low <= high for low, high in zip(one.ipc.values, one.ipc.values[1:], strict=False))
            assert 0 <= one.mu <= 1
    assert hidden_programs(1) != hidden_programs(2)


@pytest.mark.parametrize("seed", range(4))
def test_hidden_programs_are_never_overbooked(seed: int) -> None:
    """The invariants of the core, cores, ways and bandwidth of every node among them, hold after every step."""
    bench, steps = Bench(HIDDEN, seed), []

    def watch(now_us: int, events: object, commands: object, core: SchedulerCore) -> None:
        invariants.check(core.state)
        steps.append(now_us)

    table = simulate(bench, "sns", sequence(bench, seed), seed=seed, observe=watch)
    assert times_of(table).finished
    assert len(steps) > 10


def test_factors_change_only_what_they_name() -> None:
    assert lab.varied_constants(()) == lab.CONSTANTS
    slope = lab.varied_constants((("latency_slope", 1.5),))
    assert slope.law.latency_slope == pytest.approx(1.5 * lab.CONSTANTS.law.latency_slope)
    assert slope.law.latency_knee == lab.CONSTANTS.law.latency_knee
    assert slope.phases == lab.CONSTANTS.phases


def test_the_calibrated_exponent_as_a_factor_of_one_changes_little() -> None:
    """Curves rebuilt with the exponent 0.7 give back the catalogue's scaled curves at the sampled ways."""
    bench = Bench()
    rebuilt = lab.varied_programs(bench, (("ways_exponent", 1.0),))
    for name, program in bench.programs.items():
        for scale in program.scales:
            for ways in (2, 4, 8, 20):
                assert rebuilt[name].ipc_at(scale, ways, 20) == pytest.approx(
                    program.ipc_at(scale, ways, 20), abs=0.002
                )
