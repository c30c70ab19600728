"""The monitor of the simulated world: what it says of shared runs, when, and how well."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from cohabit.app.scenario.reading import read_scenario
from cohabit.app.scenario.tables import Scenario
from cohabit.app.simulate import simulation
from cohabit.model.command import StartJob
from cohabit.model.event import Event, ProgressMeasured
from cohabit.model.units import FOREVER, SECOND
from cohabit.sim.monitor import Monitor
from cohabit.sim.runs import Run

SCENARIO = Path(__file__).parents[2] / "scenarios" / "guarantee.toml"


def run_of(rate: float, exclusive: bool = False) -> Run:
    order = StartJob("a", 1, ((0, 1),), 10**12, exclusive=exclusive)
    return Run(order, 0, 1000.0 * SECOND, 1000.0 * SECOND, rate=rate)


def test_it_looks_every_period_while_somebody_runs() -> None:
    monitor = Monitor(10 * SECOND, 1)
    assert monitor.next_us(0, busy=False) == FOREVER
    assert monitor.next_us(3 * SECOND, busy=True) == 13 * SECOND
    assert monitor.look(12 * SECOND, {"a": run_of(1.0)}) == [], "not yet"
    assert monitor.look(13 * SECOND, {"a": run_of(1.0)}) == [], "seen for the first time"
    assert monitor.next_us(13 * SECOND, busy=True) == 23 * SECOND


def test_it_tells_the_speed_since_the_last_look_and_nothing_of_exclusive_runs() -> None:
    monitor, runs = Monitor(10 * SECOND, 1), {"a": run_of(0.8), "b": run_of(1.0, exclusive=True)}
    monitor.next_us(0, busy=True)
    monitor.look(10 * SECOND, runs)
    (first,) = monitor.look(20 * SECOND, runs)
    assert isinstance(first, ProgressMeasured)
    assert (first.job_id, first.attempt, first.window_us) == ("a", 1, 10 * SECOND)
    assert first.progress == pytest.approx(0.8)
    runs["a"].proceed(20 * SECOND)
    runs["a"].rate = 0.5
    (fact,) = monitor.look(30 * SECOND, runs)
    assert isinstance(fact, ProgressMeasured)
    assert fact.progress == pytest.approx(0.5)


def test_each_reading_has_an_error_of_its_own() -> None:
    monitor, runs = Monitor(SECOND, 7, noise=0.05), {"a": run_of(0.8)}
    monitor.next_us(0, busy=True)
    read = [
        fact.progress
        for turn in range(1, 400)
        for fact in monitor.look(turn * SECOND, runs)
        if isinstance(fact, ProgressMeasured)
    ]
    assert np.mean(read) == pytest.approx(0.8, rel=0.01)
    assert np.std(read) == pytest.approx(0.04, rel=0.15)


def told(scenario: Scenario) -> tuple[list[tuple[int, Event]], tuple[int, ...]]:
    found: list[tuple[int, Event]] = []
    prepared = simulation.prepare(scenario)
    table, _ = simulation.run(
        prepared,
        engine="steps",
        observe=lambda now_us, events, commands, core: found.extend((now_us, e) for e in events),
    )
    return found, tuple(table.end_us.tolist())


def test_measuring_alone_changes_no_run() -> None:
    """Under a policy that does not heed it; and a scenario without it is told nothing."""
    scenario = read_scenario(SCENARIO)
    scenario = msgspec.structs.replace(scenario, policy=msgspec.structs.replace(scenario.policy, name="sns"))
    silent = msgspec.structs.replace(scenario, world=msgspec.structs.replace(scenario.world, progress_s=0.0))
    facts, ends = told(scenario)
    none, same_ends = told(silent)
    assert ends == same_ends
    assert not [event for _, event in none if isinstance(event, ProgressMeasured)]
    measured = [(now_us, event) for now_us, event in facts if isinstance(event, ProgressMeasured)]
    assert len(measured) > 100
    assert all(0.1 < event.progress < 5.0 for _, event in measured)
