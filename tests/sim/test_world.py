"""The simulated world: limits, rates, faults and their seeds."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import pytest

from cohabit.app.scenario.tables import FaultsConfig
from cohabit.app.simulate.simulation import run
from cohabit.core import invariants
from cohabit.core.core import SchedulerCore
from cohabit.model.event import Event, JobCancelled, JobSubmitted, NodeDown, NodeUp
from cohabit.model.records import NEVER, STATUS_NAMES
from cohabit.model.units import HOUR, SECOND
from cohabit.sim.runs import TracedJob
from cohabit.sim.streams import stream
from cohabit.sim.world import World, late_reports, node_failures
from tests.support.builders import Choice, TraceRow, job, prepared_trace, scheduler
from tests.support.randomised import random_trace


def traced(name: str, submit_s: float, run_s: float, **asked: object) -> TracedJob:
    return TracedJob(job(name, **asked), round(submit_s * SECOND), round(run_s * SECOND))  # type: ignore[arg-type]


def world_of(
    jobs: Iterable[TracedJob],
    facts: Iterable[tuple[float, Event]] = (),
    core: SchedulerCore | None = None,
    kill: bool = True,
) -> World:
    world = World(core or scheduler(4), kill=kill)
    world.observe = lambda now_us, events, commands: invariants.check(world.core.state)
    world.add(jobs, [(round(at_s * SECOND), event) for at_s, event in facts])
    return world


def lived(world: World, name: str) -> tuple[float | None, float | None, str]:
    outcome = world.outcomes[name]
    times = [None if at is None else at / SECOND for at in (outcome.start_us, outcome.end_us)]
    return times[0], times[1], outcome.status


def test_a_run_is_cut_at_its_limit_or_not() -> None:
    for kill, expected in ((True, (0, 10, "killed")), (False, (0, 30, "done"))):
        world = world_of([traced("a", 0, 30, limit_s=10)], kill=kill)
        world.run()
        assert lived(world, "a") == expected
    assert world.outcomes["a"].reason == ""


def test_without_kill_an_overrunning_job_is_expected_in_one_second() -> None:
    """b asks for 1 s and fits before the second in which a is expected to end; c asks for 5 s and does not."""
    jobs = [traced("a", 0, 100, nodes=3, limit_s=10), traced("h", 1, 5, nodes=4), traced("b", 20, 1, limit_s=1)]
    world = world_of([*jobs, traced("c", 20, 5, limit_s=5)], kill=False)
    world.run()
    assert lived(world, "b")[0] == 20
    assert lived(world, "h")[0] == 100
    assert lived(world, "c")[0] == 105


def test_rates_are_piecewise_constant_and_work_is_conserved() -> None:
    world = world_of([traced("a", 0, 100, limit_s=10_000), traced("tick", 30, 0), traced("tock", 50, 0)])
    for until, rate in ((0, 1.0), (30, 0.25), (50, 2.0)):
        while world.now_us < until * SECOND or "a" not in world._runs:
            assert world.advance()
        world.set_rate("a", rate)
    world.run()
    assert lived(world, "a") == (0, 50 + (100 - 30 - 20 * 0.25) / 2, "done")


def test_any_sequence_of_rates_conserves_work() -> None:
    rng = np.random.default_rng(8)
    for _ in range(30):
        instants = np.sort(rng.integers(1, 50, 5))
        rates = rng.choice([0.0, 0.5, 1.0, 3.0], 5)
        ticks = [traced(f"t{number}", float(at), 0) for number, at in enumerate(instants)]
        world = world_of([traced("a", 0, 40, limit_s=10_000), *ticks], core=scheduler(8))
        done, rate, before = 0.0, 1.0, 0.0
        for at, new in zip(instants.tolist(), rates.tolist(), strict=True):
            while world.now_us < at * SECOND and world.advance():
                pass
            if "a" not in world._runs:
                break
            done, before = done + (at - before) * rate, float(at)
            rate = new
            world.set_rate("a", rate)
        if rate == 0.0 and "a" in world._runs:
            world.set_rate("a", 1.0)
            rate = 1.0
        world.run()
        assert lived(world, "a")[1] == pytest.approx(before + (40 - done) / rate, abs=1e-5)


def test_a_slow_run_still_meets_its_limit() -> None:
    world = world_of([traced("a", 0, 50, limit_s=60), traced("tick", 10, 0)])
    while world.now_us < 10 * SECOND:
        world.advance()
    world.set_rate("a", 0.5)
    world.run()
    assert lived(world, "a") == (0, 60, "killed")


def test_node_loss_restarts_a_run_from_the_beginning() -> None:
    world = world_of([traced("a", 0, 50, nodes=2, limit_s=60)], [(20, NodeDown(1)), (30, NodeUp(1))])
    world.run()
    assert lived(world, "a") == (20, 70, "done")
    assert world.outcomes["a"].attempts == 2
    assert world.outcomes["a"].nodes == ((0, 1), (2, 1))


def test_node_loss_with_nowhere_to_go_waits_for_the_repair() -> None:
    world = world_of([traced("a", 0, 50, nodes=4, limit_s=60)], [(20, NodeDown(1)), (30, NodeUp(1))])
    world.run()
    assert lived(world, "a") == (30, 80, "done")


def test_cancelling_a_running_job_stops_it() -> None:
    world = world_of([traced("a", 0, 50, nodes=4), traced("b", 1, 5, nodes=4)], [(20, JobCancelled("a"))])
    world.run()
    assert lived(world, "a") == (0, 20, "cancelled")
    assert lived(world, "b") == (20, 25, "done")


def test_a_second_submission_of_a_name_leaves_the_first_alone() -> None:
    """The refusal is about attempt 0, which never ran."""
    world = world_of([traced("a", 0, 50)], [(10, JobSubmitted(job("a")))])
    world.run()
    assert lived(world, "a") == (0, 50, "done")


def test_late_reports_hold_the_nodes_but_not_the_job() -> None:
    world = world_of([traced("a", 0, 10, nodes=4), traced("b", 1, 5, nodes=4)])
    world.report_delay_us = lambda name: 7 * SECOND if name == "a" else 0
    world.run()
    assert lived(world, "a") == (0, 10, "done")
    assert lived(world, "b") == (17, 22, "done")


# ---- faults and seeds -----------------------------------------------------------------------------------------------


def test_node_failures_take_turns_and_come_in_order() -> None:
    events = list(itertools.islice(node_failures(stream(1, "x"), 5, 10 * HOUR, 2 * HOUR, 100), 400))
    assert [at for at, _ in events] == sorted(at for at, _ in events)
    assert events[0][0] >= 100
    for node in range(5):
        kinds = [type(event) for _, event in events if event.node == node]
        assert kinds == [(NodeDown, NodeUp)[number % 2] for number in range(len(kinds))]
    down = [at for at, event in events if isinstance(event, NodeDown)]
    assert np.diff(down).mean() == pytest.approx(12 * HOUR / 5, rel=0.3)


def test_faults_follow_their_seed() -> None:
    def first(seed: int, name: str = "x") -> list[tuple[int, Event]]:
        return list(itertools.islice(node_failures(stream(seed, name), 3, HOUR, HOUR, 0), 20))

    assert first(1) == first(1)
    assert first(1) != first(2)
    assert first(1) != first(1, "y")
    delays = [[late_reports(stream(seed, "x"), SECOND)("a") for _ in range(3)] for seed in (1, 1, 2)]
    assert delays[0] == delays[1] != delays[2]


TRACE = [row for row in random_trace(np.random.default_rng(4), 80, 8, longest_s=60) if row.size <= 8]
FAULTS = FaultsConfig(node_mtbf_h=0.05, node_repair_h=0.02, late_reports_s=3.0)


@pytest.mark.slow
@pytest.mark.parametrize("backfill", ["none", "easy", "2", "conservative"])
def test_the_same_seed_gives_the_same_journal_and_another_seed_another(backfill: str) -> None:
    def journal_hash(seed: int, faults: FaultsConfig) -> str:
        return run(prepared_trace(TRACE, 8, Choice("sjf", backfill), seed=seed, faults=faults))[0].journal_hash

    assert journal_hash(1, FAULTS) == journal_hash(1, FAULTS)
    assert journal_hash(1, FAULTS) != journal_hash(2, FAULTS)
    assert journal_hash(1, FaultsConfig()) == journal_hash(2, FaultsConfig())


def test_with_faults_every_job_still_comes_to_an_end() -> None:
    table, _ = run(prepared_trace(TRACE, 8, seed=3, faults=FAULTS))
    assert {STATUS_NAMES[code] for code in table.status} <= {"done", "killed"}
    assert (table.start_us != NEVER).all()
    assert (table.end_us >= table.start_us).all()


def test_facts_of_one_instant_are_told_in_the_order_of_the_contract() -> None:
    """Completions, other facts, submissions in trace order, and then one step; starts are confirmed in another."""
    told: list[list[str]] = []
    world = world_of(
        [traced("a", 0, 10), traced("c", 10, 1), traced("b", 10, 1)], [(10, NodeDown(3)), (10, JobCancelled("x"))]
    )
    world.observe = lambda now_us, events, commands: told.append([type(event).__name__ for event in events])
    world.run()
    assert told[:4] == [
        ["JobSubmitted"], ["JobStarted"],
        ["JobFinished", "NodeDown", "JobCancelled", "JobSubmitted", "JobSubmitted"], ["JobStarted", "JobStarted"],
    ]  # fmt: skip


def test_a_run_of_no_length_is_seen_by_a_second_pass_in_the_same_instant() -> None:
    world = world_of([traced("a", 0, 0, nodes=4), traced("b", 0, 5, nodes=4)])
    world.run()
    assert lived(world, "a") == (0, 0, "done")
    assert lived(world, "b") == (0, 5, "done")


def test_trace_rows_are_run_in_any_file_order() -> None:
    rows = [TraceRow(9 * SECOND, SECOND, SECOND, 1), TraceRow(0, SECOND, SECOND, 1)]
    assert run(prepared_trace(rows, 1))[0].start_us.tolist() == [9 * SECOND, 0]
