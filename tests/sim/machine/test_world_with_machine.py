"""The world with a machine: rates follow the law through a whole run, phases and profiles included."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from cohabit.model.command import StartJob
from cohabit.model.event import Event, JobCancelled, JobFinished, ProfileLearned
from cohabit.model.job import Job
from cohabit.model.units import SECOND
from cohabit.sim.machine.machine import Machine
from cohabit.sim.machine.phases import Phases
from cohabit.sim.machine.profiler import Profiler
from cohabit.sim.machine.truth import Truth
from cohabit.sim.runs import TracedJob
from cohabit.sim.world import World
from tests.sim.machine import laws_by_hand
from tests.sim.machine.laws_by_hand import HandJob
from tests.sim.machine.machines import BY_HAND, FLAT, as_program, node_group, plain_program, random_program, start_on
from tests.sim.machine.placing_core import PlacingCore
from tests.support.builders import job as whole_node_job
from tests.support.builders import scheduler

NODES = 6


class Planned(NamedTuple):
    """A job, where it goes, and how long its compact exclusive run takes."""

    name: str
    program: str
    processes: int
    submit_s: float
    run_s: float
    nodes: list[int]
    scale: int = 1
    exclusive: bool = False
    purpose: str = "run"
    limit_s: float = 10**6


def world_of(
    jobs: list[Planned],
    programs: dict[str, dict[str, Any]],
    partition: bool = False,
    contention: str = "share",
    facts: list[tuple[int, Event]] | None = None,
    **options: Any,
) -> tuple[World, PlacingCore]:
    truth = Truth({name: as_program(name, plain) for name, plain in programs.items()}, [node_group(NODES)], contention)
    machine = Machine(truth, keep_segments=True)
    orders, traced = {}, []
    for one in jobs:
        limit_us = round(one.limit_s * SECOND)
        order = start_on(one.name, one.nodes, one.processes, one.scale, one.exclusive, purpose=one.purpose)
        orders[one.name] = StartJob(
            order.job_id, 1, order.nodes, limit_us, order.scale, order.cores, order.exclusive, purpose=one.purpose
        )
        job = Job(one.name, limit_us, processes=one.processes, program=one.program)
        traced.append(TracedJob(job, round(one.submit_s * SECOND), round(one.run_s * SECOND)))
    core = PlacingCore(orders, partition, shares_first=partition)
    if options.pop("profile", False):
        options["profiler"] = Profiler(truth, 1, options.pop("noise", 0.0))
    world = World(core, machine=machine, **options)  # type: ignore[arg-type]
    world.add(traced, facts or [])
    return world, core


def ends_of(world: World) -> dict[str, float]:
    return {name: (outcome.end_us or 0) / SECOND for name, outcome in world.outcomes.items()}


def ends_by_hand(
    jobs: list[Planned], programs: dict[str, dict[str, Any]], partition: bool, occupancy: bool
) -> dict[str, float]:
    """The same run, integrated naively: constant rates between one change and the next."""
    left = {one.name: one.run_s for one in jobs}
    coming = sorted(jobs, key=lambda one: one.submit_s)
    running: list[Planned] = []
    ends: dict[str, float] = {}
    now = 0.0
    while coming or running:
        rates = {one.name: np.inf for one in running}
        for node in range(NODES):
            there = [one for one in running if node in one.nodes]
            if not there:
                continue
            each, more = divmod(20, len(there))
            placed = [
                HandJob(programs[one.program], one.processes, one.scale, each + (at < more) if partition else None)
                for at, one in enumerate(there)
            ]
            for one, job, rate in zip(
                there, placed, laws_by_hand.rates(placed, BY_HAND, occupancy=occupancy), strict=True
            ):
                rates[one.name] = min(rates[one.name], rate * laws_by_hand.progress(job, BY_HAND))
        finish = min((now + left[one.name] / rates[one.name] for one in running), default=np.inf)
        then = min(finish, coming[0].submit_s if coming else np.inf)
        for one in running:
            left[one.name] -= (then - now) * rates[one.name]
        now = then
        for one in [one for one in running if left[one.name] <= 1e-9]:
            running.remove(one)
            ends[one.name] = now
        while coming and coming[0].submit_s <= now:
            running.append(coming.pop(0))
    return ends


def random_plan(rng: np.random.Generator, programs: dict[str, dict[str, Any]]) -> list[Planned]:
    """Three jobs of up to 9 cores a node at most at any place, so that nothing is ever oversubscribed."""
    jobs = []
    for number in range(9):
        scale, lane = int(rng.choice([1, 2, 4])), number % 3
        processes = int(rng.integers(2, 10))
        nodes = sorted(rng.choice(NODES, scale, replace=False).tolist())
        begin = 400.0 * (number // 3) + float(rng.uniform(0, 60)) + lane
        run = float(rng.uniform(20, 90))
        jobs.append(Planned(f"j{number}", str(rng.choice(list(programs))), processes, begin, run, nodes, scale))
    return jobs


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("partition", [False, True])
def test_a_whole_run_follows_the_law(seed: int, partition: bool) -> None:
    rng = np.random.default_rng(seed)
    programs = {f"p{number}": random_program(rng) for number in range(3)}
    jobs = random_plan(rng, programs)
    contention = "occupancy" if seed % 3 == 2 else "share"
    world, _ = world_of(jobs, programs, partition, contention)
    world.run()
    expected = ends_by_hand(jobs, programs, partition, contention == "occupancy")
    assert ends_of(world) == pytest.approx(expected, abs=1e-4)  # some microseconds of rounding at each change
    assert all(outcome.status == "done" for outcome in world.outcomes.values())


def work_done_s(world: World, name: str, until_us: int) -> float:
    """The work of a job until then, added up from its segments."""
    assert world.machine is not None
    assert world.machine.segments is not None
    segments = [one for one in world.machine.segments[name] if one[0] < until_us]
    instants = [one[0] for one in segments] + [until_us]
    return sum(
        (after - before) * rate / SECOND
        for before, after, (_, rate, _) in zip(instants, instants[1:], segments, strict=False)
    )


@pytest.mark.parametrize("phases", [None, Phases(5)])
def test_segments_account_for_all_work(phases: Phases | None) -> None:
    rng = np.random.default_rng(4)
    programs = {"p": random_program(rng), "q": random_program(rng)}
    jobs = random_plan(rng, programs)
    world, _ = world_of(jobs, programs, phases=phases)
    world.run()
    for one in jobs:
        end_us = world.outcomes[one.name].end_us
        assert end_us is not None
        assert work_done_s(world, one.name, end_us) == pytest.approx(one.run_s, abs=1e-4)


def test_exclusive_runs_take_their_traced_time_divided_by_their_speed() -> None:
    jobs = [Planned("a", "p", 16, 0, 100, [0], 1, True), Planned("b", "p", 16, 0, 100, [1, 2], 2, True)]
    world, _ = world_of(jobs, {"p": plain_program()})
    world.run()
    assert ends_of(world) == pytest.approx({"a": 100, "b": 100 / 1.2}, abs=1e-6)
    outcome = world.outcomes["b"]
    assert (outcome.scale, outcome.cores, outcome.exclusive, outcome.purpose) == (2, 8, True, "run")


def test_without_contention_and_phases_the_machine_changes_nothing() -> None:
    jobs = [Planned(f"j{number}", "p", 9, number, 50 + number, [number % 2], 1) for number in range(6)]
    world, _ = world_of(jobs, {"p": FLAT})
    world.run()
    assert ends_of(world) == {one.name: one.submit_s + one.run_s for one in jobs}


def test_time_times_ten_gives_times_ten() -> None:
    """Also with phases: their places belong to the run and not to the clock."""
    rng = np.random.default_rng(7)
    programs = {"p": random_program(rng), "q": random_program(rng)}
    jobs = random_plan(rng, programs)
    slower = [one._replace(submit_s=10 * one.submit_s, run_s=10 * one.run_s) for one in jobs]
    for phases in (None, Phases(3)):
        ends = []
        for plan in (jobs, slower):
            world, _ = world_of(plan, programs, phases=phases)
            world.run()
            ends.append(ends_of(world))
        assert ends[1] == pytest.approx({name: 10 * end for name, end in ends[0].items()}, abs=1e-2)


def test_a_job_slowed_by_neighbours_still_meets_its_limit() -> None:
    greedy = plain_program(gbs=(110,) * 4, mu=0.9)
    jobs = [Planned("a", "p", 14, 0, 100, [0], limit_s=120), Planned("b", "p", 14, 10, 500, [0])]
    world, core = world_of(jobs, {"p": greedy})
    world.run()
    assert (world.outcomes["a"].end_us, world.outcomes["a"].status) == (120 * SECOND, "killed")
    assert not core.learned
    free, _ = world_of(jobs, {"p": greedy}, kill=False)
    free.run()
    assert free.outcomes["a"].status == "done"
    assert ends_of(free)["a"] > 120


def test_a_cancelled_job_leaves_the_machine() -> None:
    jobs = [Planned("a", "p", 14, 0, 100, [0]), Planned("b", "p", 14, 0, 100, [0])]
    world, _ = world_of(jobs, {"p": plain_program()}, facts=[(50 * SECOND, JobCancelled("b"))])
    world.run()
    assert world.machine is not None
    assert world.machine.segments is not None
    assert [segment[1] for segment in world.machine.segments["a"]][-1] == 1.0
    assert world.outcomes["b"].status == "cancelled"


def test_a_real_core_runs_the_same_with_and_without_a_machine_of_unknown_programs() -> None:
    def outcomes(machine: Machine | None) -> list[tuple[int | None, int | None, str]]:
        rng = np.random.default_rng(2)
        world = World(scheduler(8), machine=machine)
        world.add(
            TracedJob(whole_node_job(str(number), int(rng.integers(1, 8)), float(rng.integers(5, 60))),
                      int(rng.integers(0, 200)) * SECOND, int(rng.integers(0, 50)) * SECOND)
            for number in range(80)
        )  # fmt: skip
        world.run()
        return [(one.start_us, one.end_us, one.status) for one in world.outcomes.values()]

    assert outcomes(None) == outcomes(Machine(Truth({}, [node_group(8)])))


def test_rates_are_set_once_per_instant() -> None:
    calls: list[int] = []

    class Counting(Machine):
        def rates_changed(self, now_us: int = 0) -> dict[str, float]:
            calls.append(now_us)
            return super().rates_changed(now_us)

    jobs = [Planned(f"j{number}", "p", 7, 10 * (number // 4), 50, [0, 1][: 1 + number % 2], 1 + number % 2)
            for number in range(4)]  # fmt: skip
    world, _ = world_of(jobs, {"p": plain_program()}, partition=True)
    world.machine = Counting(Truth({"p": as_program("p", plain_program())}, [node_group(NODES)]))
    world.run()
    assert len(calls) == len(set(calls))


def test_the_heap_does_not_grow_with_changes_of_rate() -> None:
    """Neighbours come and go beside one long run: what was foreseen too early is put off, not piled up."""
    jobs = [Planned("long", "p", 14, 0, 10_000, [0])]
    jobs += [Planned(f"j{number}", "q", 4, 1 + 20.0 * number, 10, [0]) for number in range(300)]
    world, _ = world_of(jobs, {"p": plain_program(), "q": plain_program(mu=0.9)})
    most = 0
    while world.advance():
        running = len(world._runs)
        coming = sum(one.submit_s * SECOND > world.now_us for one in jobs)
        most = max(most, len(world._heap) - coming - running)
    assert most <= 3


# ---- phases and profiles --------------------------------------------------------------------------------------------


def journal(seed: int) -> list[tuple[int, Event]]:
    rng = np.random.default_rng(11)
    programs = {"p": random_program(rng), "q": random_program(rng)}
    world, core = world_of(random_plan(rng, programs), programs, phases=Phases(seed))
    world.run()
    return core.told


def test_with_phases_the_same_seed_gives_the_same_journal_and_another_seed_another() -> None:
    assert journal(1) == journal(1)
    assert journal(1) != journal(2)


def test_phases_leave_exclusive_runs_alone() -> None:
    jobs = [Planned("a", "p", 16, 0, 100, [0], 1, True), Planned("b", "p", 16, 0, 100, [1, 2], 2, True)]
    world, _ = world_of(jobs, {"p": plain_program()}, phases=Phases(1))
    world.run()
    assert ends_of(world) == pytest.approx({"a": 100, "b": 100 / 1.2}, abs=1e-4)
    assert world.events > 10


def test_stages_change_at_their_places_in_the_work() -> None:
    entered: list[tuple[str, int]] = []

    class Noting(Machine):
        def set_phase(self, job_id: str, level: int) -> None:
            entered.append((job_id, world.now_us))
            super().set_phase(job_id, level)

    rng = np.random.default_rng(6)
    programs = {"p": random_program(rng), "q": random_program(rng)}
    jobs = random_plan(rng, programs)
    world, _ = world_of(jobs, programs, phases=Phases(9))
    assert world.machine is not None
    world.machine = Noting(world.machine.truth, keep_segments=True)
    world.run()
    for one in jobs:
        places = [work_done_s(world, one.name, at_us) / one.run_s for name, at_us in entered if name == one.name]
        assert places == pytest.approx(Phases(9).track(one.name).ends[:-1], abs=1e-5)


def test_phases_make_shared_runs_vary() -> None:
    jobs = [Planned(name, "p", 14, 0, 100, [0]) for name in ("a", "b")]
    programs = {"p": plain_program(gbs=(60,) * 4, mu=0.8)}
    ends = []
    for seed in range(5):
        world, _ = world_of(jobs, programs, phases=Phases(seed))
        world.run()
        ends.append(ends_of(world)["a"])
    steady, _ = world_of(jobs, programs)
    steady.run()
    assert len(set(ends)) == 5
    assert np.mean(ends) == pytest.approx(ends_of(steady)["a"], rel=0.1)


def test_what_was_measured_is_told_after_the_end_in_the_same_instant() -> None:
    jobs = [
        Planned("t", "p", 16, 0, 100, [0], 1, True, "time"), Planned("c", "p", 16, 0, 100, [1, 2], 2, True, "curve"),
        Planned("r", "p", 16, 0, 100, [3], 1, True, "run"), Planned("s", "p", 14, 0, 100, [4], 1, False, "run"),
        Planned("u", "", 16, 0, 100, [5], 1, True, "run"),
    ]  # fmt: skip
    world, core = world_of(jobs, {"p": plain_program()}, profile=True)
    world.run()
    facts = [(now, event) for now, event in core.told if isinstance(event, JobFinished | ProfileLearned)]
    by_job = {event.job_id: place for place, (_, event) in enumerate(facts) if isinstance(event, JobFinished)}
    for name in ("t", "c", "r"):
        now, learned = facts[by_job[name] + 1]
        assert now == facts[by_job[name]][0]
        assert isinstance(learned, ProfileLearned)
        assert learned.measured.measured_at_us == now
    assert len(core.learned) == 3
    curve = next(one for one in core.learned if one.measured.ipc is not None)
    assert curve.measured.scale == 2
    assert ends_of(world)["c"] == pytest.approx(119 / 1.2, abs=1e-6)
    assert sorted(one.measured.time_s for one in core.learned) == [0.0, 100.0, 100.0]


def test_a_run_cut_at_its_limit_teaches_nothing() -> None:
    cut = Planned("t", "p", 16, 0, 100, [0], 1, True, "time", limit_s=90)
    world, core = world_of([cut], {"p": plain_program()}, profile=True)
    world.run()
    assert world.outcomes["t"].status == "killed"
    assert not core.learned


def test_late_reports_tell_profiles_late_too() -> None:
    world, core = world_of([Planned("t", "p", 16, 0, 100, [0], 1, True, "time")], {"p": plain_program()}, profile=True)
    world.report_delay_us = lambda name: 7 * SECOND
    world.run()
    assert [type(event).__name__ for now, event in core.told if now == 107 * SECOND] == [
        "JobFinished",
        "ProfileLearned",
    ]
