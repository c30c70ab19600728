"""Jobs held to part of what their cores could draw (MBA): the law, and the orders that make it so."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

from cohabit.model.cluster import NodeGroup
from cohabit.model.command import SetShares, StartJob
from cohabit.model.program import Program
from cohabit.sim.machine import law
from cohabit.sim.machine.law import Load
from cohabit.sim.machine.machine import Machine
from cohabit.sim.machine.truth import UNMASKED, Truth, held_gbs, mask_code, mask_of
from tests.breadth import examples
from tests.sim.machine.machines import as_program, plain_program, seeds

CAP = 100.0


def load(gbs: float, mu: float = 0.5) -> Load:
    return Load(4, mu, lambda ways: 1.0, lambda ways: gbs, 1.0)


def state(loads: list[Load], held: list[float] | tuple[()] = ()) -> law.NodeState:
    return law.node_state(loads, [5] * len(loads), 20, lambda cores: CAP / law.LAW.capacity_share, held=held)


def test_whoever_is_held_slows_down_and_its_neighbour_speeds_up() -> None:
    free = state([load(80.0), load(80.0)])
    held = state([load(80.0), load(80.0)], [20.0, math.inf])
    assert held.rates[0] == pytest.approx(20.0 / 80.0)
    assert held.rates[1] > free.rates[1]
    assert held.drawn_gbs <= CAP + 1e-9


def test_a_cap_above_what_it_asks_for_changes_nothing() -> None:
    assert state([load(30.0), load(90.0)], [31.0, math.inf]) == state([load(30.0), load(90.0)])


@settings(max_examples=examples(60), deadline=None)
@given(seeds)
def test_the_latency_solves_the_equation_with_caps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    demands, mus = rng.uniform(1, 120, 3).tolist(), rng.uniform(0.05, 1, 3).tolist()
    held = [float(rng.choice([math.inf, rng.uniform(1, 60)])) for _ in range(3)]
    found = law.latency(demands, mus, CAP, held=held)
    asked = sum(min(gbs / (1 + mu * (found - 1)), most) for gbs, mu, most in zip(demands, mus, held, strict=True))
    assert found >= 1.0
    assert asked <= CAP + 1e-6
    if sum(map(min, demands, held)) > CAP:
        gentle = 1 + law.LAW.latency_slope * (1 - law.LAW.latency_knee)
        assert asked == pytest.approx(CAP, rel=1e-6) or found == pytest.approx(gentle)
    assert found <= law.latency(demands, mus, CAP) + 1e-12, "holding somebody never makes memory slower"


def test_codes_of_masks_carry_the_cap() -> None:
    node = NodeGroup(1, 8, ways=20, bandwidth_gbs=((4, 40.0), (8, 60.0)))
    for first, ways, shared in ((0, 5, False), (3, 7, True)):
        plain, capped = mask_code(first, ways, shared), mask_code(first, ways, shared, 30)
        assert mask_of(capped) == mask_of(plain)
        assert held_gbs(capped, node, 4) == pytest.approx(12.0)
        assert held_gbs(plain, node, 4) == held_gbs(UNMASKED, node, 4) == math.inf


def test_an_order_with_caps_holds_the_job_until_the_next_order() -> None:
    node = NodeGroup(1, 16, ways=20, min_ways=2, closids=8, bandwidth_gbs=((8, 60.0), (16, 60.0)))
    hungry: Program = as_program("hungry", plain_program(gbs=(50.0,) * 4, mu=0.8))
    machine = Machine(Truth({"hungry": hungry}, [node]))
    for name in ("a", "b"):
        machine.start(name, "hungry", 8, StartJob(name, 1, ((0, 1),), 10**9, cores=8, exclusive=False))
    shares = (("a", 0, 10), ("b", 10, 10))
    machine.set_shares(SetShares(((0, 1),), shares))
    machine.rates_changed()
    before = machine.rate("a"), machine.rate("b")
    machine.set_shares(SetShares(((0, 1),), shares, (("b", 20),)))
    machine.rates_changed()
    assert machine.rate("a") > before[0]
    assert machine.rate("b") < before[1]
    machine.set_shares(SetShares(((0, 1),), shares))
    machine.rates_changed()
    assert (machine.rate("a"), machine.rate("b")) == before
