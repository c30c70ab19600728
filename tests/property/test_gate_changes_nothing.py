"""A gate that never delays, or may not, leaves the schedule exactly as it is without one (RUSH R62)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from cohabit.app.simulate.simulation import run
from cohabit.policy.gate.paying import PayingGate
from cohabit.policy.gate.variability import RandomJudge, Unlearned, VariabilityGate
from tests.breadth import examples
from tests.support.builders import Choice, TraceRow, prepared_trace
from tests.support.strategies import choices, traces

GATES = {
    "a constant model": VariabilityGate(RandomJudge(0.0, seed=1)),
    "threshold 0": VariabilityGate(RandomJudge(1.0, seed=1), skip_threshold=0),
    "paying, a constant model": PayingGate(RandomJudge(0.0, seed=1)),
    "paying, no time to wait": PayingGate(RandomJudge(1.0, seed=1), bound_us=0),
    "paying, no telemetry": PayingGate(Unlearned()),
    "paying, nothing lost and no price": PayingGate(RandomJudge(1.0, seed=1), price_us=0),
}


@pytest.mark.parametrize("gate", GATES.values(), ids=GATES)
@settings(deadline=None, max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
@given(choice=choices(), trace=traces())
def test_the_schedule_is_the_same(gate: VariabilityGate, choice: Choice, trace: tuple[list[TraceRow], int]) -> None:
    prepared = prepared_trace(*trace, choice)
    gated = replace(prepared, policies=replace(prepared.policies, gates=(gate,)))
    plain, kept = run(prepared, engine="steps")[0], run(gated, engine="steps")[0]
    assert plain.start_us.tolist() == kept.start_us.tolist()
    assert plain.end_us.tolist() == kept.end_us.tolist()


@settings(deadline=None, max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
@given(choice=choices(), trace=traces())
def test_a_gate_that_always_delays_delays_for_a_bounded_time(choice: Choice, trace: tuple[list[TraceRow], int]) -> None:
    assert_bounded(VariabilityGate(RandomJudge(1.0, seed=1), skip_threshold=2), choice, trace)
    assert_bounded(PayingGate(RandomJudge(1.0, seed=1), bound_us=90_000_000), choice, trace)


def assert_bounded(gate: VariabilityGate, choice: Choice, trace: tuple[list[TraceRow], int]) -> None:
    prepared = prepared_trace(*trace, choice)
    gated = replace(prepared, policies=replace(prepared.policies, gates=(gate,)))
    plain, kept = run(prepared, engine="steps")[0], run(gated, engine="steps")[0]
    assert (kept.status == plain.status).all(), "everybody who could run has run"
