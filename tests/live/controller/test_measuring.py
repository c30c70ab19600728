"""What runs teach a living controller: times, curves, progress and drift; real programs, and a scripted machine."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from cohabit.agent.profiling.drift import DriftWatch
from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve.machine import ProfilingConfig
from cohabit.app.serve.serving import ServeConfig, Service
from cohabit.backend.protocol import Capabilities, Launch, Run
from cohabit.core.core import SchedulerCore
from cohabit.live.controller import measuring
from cohabit.live.controller.measuring import MeasuringBackend, stored_facts
from cohabit.live.controller.meters import Counted, progress_of
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.command import Command, SetShares, StartJob
from cohabit.model.curve import Curve
from cohabit.model.event import (
    Event,
    JobFinished,
    JobStarted,
    JobSubmitted,
    ProfileLearned,
    ProgramDrifted,
    ProgressMeasured,
)
from cohabit.model.job import Job
from cohabit.model.profile import Profile, ScaleProfile
from cohabit.model.units import SECOND
from tests.support.programs import FLAT, measured, profile

T = TypeVar("T")
NODE = NodeGroup(1, cores=4, ways=8, min_ways=2, closids=8, bandwidth_gbs=((4, 40.0),))


class ScriptedMachine:
    """A back end and a meter in one: it runs nothing, and counts as a program would that needs four ways."""

    capabilities = Capabilities(shares=True)

    def __init__(self) -> None:
        self.facts: asyncio.Queue[Event] = asyncio.Queue()
        self.ways, self.shares = 8, list[SetShares]()
        self.lasted: dict[tuple[str, int], float] = {}
        self.counted = {"instructions": 0.0, "cycles": 0.0, "memory_total_bytes": 0.0}
        self.speed, self.at_s = 1.0, 0.0
        self.there: list[Run] = []  # runs of an earlier controller

    def clock(self) -> float:
        return time.monotonic()

    async def open(self) -> None:
        self.at_s = self.clock()

    async def close(self) -> None: ...

    async def settled(self, job_id: str, attempt: int) -> None: ...

    async def observe(self) -> list[Run]:
        return list(self.there)

    async def events(self) -> AsyncIterator[Event]:
        while True:
            yield await self.facts.get()

    async def execute(self, command: Command, launch: Launch | None = None) -> None:
        if isinstance(command, SetShares):
            self._count()
            self.shares.append(command)
            self.ways = command.shares[0][2]

    def _count(self) -> None:
        """A second has a billion cycles; two ways give half the IPC and twice the traffic of all."""
        seconds, self.at_s = self.clock() - self.at_s, self.clock()
        ipc = self.speed * min(1.0, self.ways / 4)
        self.counted["cycles"] += 1e9 * seconds
        self.counted["instructions"] += ipc * 1e9 * seconds
        self.counted["memory_total_bytes"] += (4e9 if self.ways < 4 else 2e9) * seconds

    def begin(self, job_id: str, attempt: int) -> None: ...

    def sample(self, job_id: str, attempt: int) -> Mapping[str, float]:
        self._count()
        return dict(self.counted)

    def lasted_s(self, job_id: str, attempt: int) -> float | None:
        return self.lasted.get((job_id, attempt))

    def end(self, job_id: str, attempt: int) -> None: ...


class Site:
    """A core that is asked, and a measuring back end around the scripted machine."""

    def __init__(self, *profiles: Profile, period_s: float = 0.0, policy: str = "sns") -> None:
        self.core = SchedulerCore(Cluster((NODE,), "shared"), build(PolicyConfig(name=policy)), profiles=profiles)
        self.machine = ScriptedMachine()
        self.backend = MeasuringBackend(
            self.machine, self.machine, period_s, clock=self.machine.clock, episode_s=0.05, drift=DriftWatch()
        )
        self.backend.bind(self.ask)

    def ask(self, question: Callable[[SchedulerCore], T]) -> Awaitable[T]:
        async def answer() -> T:
            return question(self.core)

        return answer()

    async def run(
        self, name: str, took_s: float, while_it_runs: Callable[[], Awaitable[Any]] | None = None, user: int = -1,
        owner: str = "",
    ) -> list[Event]:  # fmt: skip
        """Submit a job, carry out its start, let it end; the facts of its end."""
        job = Job(name, 100 * SECOND, processes=2, program="tested", user=user, profile_owner=owner)
        start = next(one for one in self.core.step(0, [JobSubmitted(job)]) if isinstance(one, StartJob))
        await self.backend.execute(start, Launch(("x",)))
        self.machine.facts.put_nowait(JobStarted(name, 1))
        assert await self.next() == JobStarted(name, 1)
        self.core.step(0, [JobStarted(name, 1)])
        if while_it_runs is not None:
            await while_it_runs()
        self.machine.lasted[name, 1] = took_s
        self.machine.facts.put_nowait(JobFinished(name, 1, "done"))
        found = [await self.next()]
        while not isinstance(found[-1], JobFinished):
            found.append(await self.next())
        self.core.step(0, found)
        return found[:-1]

    async def next(self) -> Event:
        async for event in self.backend.events():
            return event
        raise AssertionError


def play(site: Site, scene: Callable[[Site], Awaitable[None]]) -> None:
    async def whole() -> None:
        await site.backend.open()
        try:
            await scene(site)
        finally:
            await site.backend.close()

    asyncio.run(asyncio.wait_for(whole(), 60))


@pytest.mark.timing
def test_a_first_run_tells_its_time_and_what_was_counted() -> None:
    async def scene(site: Site) -> None:
        (fact,) = await site.run("a", 12.5, lambda: asyncio.sleep(0.6))
        assert isinstance(fact, ProfileLearned)
        assert (fact.program, fact.processes, fact.measured.scale, fact.measured.time_s) == ("tested", 2, 1, 12.5)
        assert fact.measured.counters["instructions_mean"] == pytest.approx(1e9, rel=0.02)
        assert fact.hardware == "4c-8w-40g"

    play(Site(), scene)


@pytest.mark.timing
def test_a_curve_run_steps_the_cache_and_tells_what_each_allocation_gave() -> None:
    async def scene(site: Site) -> None:
        await site.run("time", 10.0)
        (fact,) = await site.run("curve", 12.0, lambda: asyncio.sleep(0.8))
        assert isinstance(fact, ProfileLearned)
        ipc, gbs = fact.measured.ipc, fact.measured.bandwidth_gbs
        assert ipc is not None
        assert gbs is not None
        assert fact.measured.time_s == 0, "its time is not the program's"
        assert ipc.ways == (2, 4, 8)
        assert ipc.values == pytest.approx((0.5, 1.0, 1.0), rel=0.05)
        assert gbs.values == pytest.approx((4.0, 2.0, 2.0), rel=0.05)
        assert {one.shares[0][2] for one in site.machine.shares} == {2, 4, 8}
        assert site.core.state.profiles["tested"][2].at_scale(1).complete  # type: ignore[union-attr]

    play(Site(), scene)


class Daemons:
    """Nodes that measure curves themselves, as far as they report."""

    def __init__(self, report: bool) -> None:
        self.report, self.asked = report, list[tuple[str, float]]()

    async def step_ways(self, order: StartJob, expected_s: float) -> bool:
        self.asked.append((order.job_id, expected_s))
        return self.report


@pytest.mark.parametrize("heard", ["in time", "never", "no daemon"])
def test_curves_that_nodes_measure_are_waited_for_and_level_if_they_do_not_come(
    heard: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(measuring, "REPORTED_WITHIN_S", 0.3)
    daemons = Daemons(report=heard != "no daemon")

    async def scene(site: Site) -> None:
        site.backend.nodes, site.machine.capabilities = daemons, Capabilities()
        await site.run("time", 10.0, lambda: asyncio.sleep(0.2))
        found = await site.run("curve", 12.0, lambda: asyncio.sleep(0.2))
        assert daemons.asked == [("curve", 10.0)]
        assert site.machine.shares == [], "nothing is stepped from here"
        if heard == "no daemon":
            (fact,) = found
        else:
            assert found == []
            if heard == "in time":
                curve = Curve((2, 8), (0.5, 1.0))
                told = ScaleProfile(1, ipc=curve, bandwidth_gbs=curve)
                site.core.step(0, [ProfileLearned("tested", 2, told, "4c-8w-40g", "")])
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(site.next(), 0.6)
                return
            fact = await asyncio.wait_for(site.next(), 5)
            assert "no node reported the curves of tested, job curve" in caplog.text
        assert isinstance(fact, ProfileLearned)
        assert fact.measured.ipc is not None
        assert len(set(fact.measured.ipc.values)) == 1

    play(Site(), scene)


def test_under_a_policy_that_only_shares_a_run_that_nobody_joined_tells_its_time_once() -> None:
    async def scene(site: Site) -> None:
        (fact,) = await site.run("a", 10.0)
        assert isinstance(fact, ProfileLearned)
        assert fact.measured.time_s == 10.0
        assert await site.run("b", 10.5) == []  # that is known

    play(Site(policy="cs"), scene)


@pytest.mark.parametrize("who", ["a neighbour", "a stranger"])
def test_a_run_beside_others_tells_nothing(who: str) -> None:
    async def scene(site: Site) -> None:
        async def joined() -> None:
            other = StartJob("other", 1, ((0, 1),), SECOND, cores=1, exclusive=False)
            await site.backend.execute(other, Launch(("x",)))

        if who == "a stranger":
            site.machine.there = [Run("stranger", 1, "running")]
            await site.backend.observe()
        assert await site.run("a", 10.0, joined if who == "a neighbour" else None) == []

    play(Site(policy="cs"), scene)


def test_a_run_that_failed_teaches_nothing() -> None:
    async def scene(site: Site) -> None:
        job = Job("bad", 100 * SECOND, processes=2, program="tested")
        start = next(one for one in site.core.step(0, [JobSubmitted(job)]) if isinstance(one, StartJob))
        await site.backend.execute(start, Launch(("x",)))
        for event in (JobStarted("bad", 1), JobFinished("bad", 1, "failed")):
            site.machine.facts.put_nowait(event)
            assert await site.next() == event

    play(Site(), scene)


SHARING = profile("tested", measured(1, 10.0, FLAT, 1.0), processes=2)


def _counted(known: Profile) -> Profile:
    one = known.scales[0]
    counters = {"instructions_mean": 1e9, "task_clock_mean": 2.0}
    return profile("tested", ScaleProfile(1, one.time_s, one.ipc, one.bandwidth_gbs, counters=counters), processes=2)


@pytest.mark.timing
def test_shared_runs_are_measured_against_running_alone() -> None:
    async def scene(site: Site) -> None:
        async def slowed() -> None:
            site.machine.speed = 0.7
            await asyncio.sleep(0.05)
            began = time.monotonic()
            await site.backend.look()  # what went before is not of this speed
            await asyncio.sleep(0.3)
            (fact,) = await site.backend.look()
            window_us = (time.monotonic() - began) * SECOND
            assert isinstance(fact, ProgressMeasured)
            assert (fact.job_id, fact.attempt) == ("a", 1)
            assert fact.progress == pytest.approx(0.7, rel=0.05)
            assert 0.25 * SECOND < fact.window_us <= window_us + 1

        assert await site.run("a", 14.0, slowed) == [], "a shared run is no measurement of the program (S17)"

    play(Site(_counted(SHARING)), scene)


def test_progress_by_instructions_then_processor_time_then_not_at_all() -> None:
    known = _counted(SHARING)
    assert progress_of(Counted(1.0, {"instructions": 5e8, "task_clock": 2.0}), known) == pytest.approx(0.5)
    assert progress_of(Counted(2.0, {"task_clock": 3.0}), known) == pytest.approx(0.75)
    assert progress_of(Counted(1.0, {}), known) is None
    assert progress_of(Counted(1.0, {"instructions": 1.0}), SHARING) is None, "never counted alone"
    assert progress_of(Counted(1.0, {"instructions": 1.0}), None) is None


def test_runs_that_depart_from_the_profile_have_it_forgotten() -> None:
    """Shared runs faster than alone, three in a row; the core then knows nothing and starts its trials again."""

    async def scene(site: Site) -> None:
        assert await site.run("slow", 20.0) == [], "a neighbour may explain that"
        assert await site.run("one", 5.0) == []
        assert await site.run("two", 5.0) == []
        (fact,) = await site.run("three", 5.0)
        assert isinstance(fact, ProgramDrifted)
        assert "3 runs of tested in a row took shorter" in fact.reason
        assert "tested" not in site.core.state.profiles
        (learned,) = await site.run("again", 5.0)
        assert isinstance(learned, ProfileLearned)
        assert learned.measured.time_s == 5.0

    play(Site(SHARING), scene)


def test_drift_needs_departures_in_a_row_and_in_one_direction() -> None:
    watch = DriftWatch()
    said = [watch.note("p", 1, 1, 10.0, took_s) for took_s in (12, 12, 10, 12, 8, 12, 12)]
    assert said == [""] * 7
    assert "longer" in watch.note("p", 1, 1, 10.0, 12)
    assert watch.note("p", 1, 1, 0.0, 12) == "", "nothing was expected"
    assert watch.departs(10.0, 11.4) == 0


def test_drift_is_seen_in_counters_of_runs_as_long_as_ever() -> None:
    """S21: the same time, another program: instructions per cycle, miss rate and bandwidth tell."""
    usual = {"instructions_mean": 2e9, "cycles_mean": 1e9, "cache_references_mean": 1e6, "cache_misses_mean": 1e5,
             "memory_total_bytes_mean": 4e9}  # fmt: skip
    for name, what in (
        ("instructions_mean", "a lower instructions per cycle"), ("cache_misses_mean", "a lower cache miss rate"),
        ("memory_total_bytes_mean", "a lower memory bandwidth"),
    ):  # fmt: skip
        watch, other = DriftWatch(), usual | {name: 0.5 * usual[name]}
        said = [watch.note_counters("p", 1, 1, usual, now) for now in (other, other, usual, other, other)]
        assert said == [""] * 5, "in a row"
        assert what in watch.note_counters("p", 1, 1, usual, other)
    assert DriftWatch().shifted({}, usual) == DriftWatch().shifted(usual, {}) == {}
    quiet = {"memory_total_bytes_mean": 1e6}
    assert DriftWatch().shifted(quiet, {"memory_total_bytes_mean": 9e6}) == {}, "noise of a program without traffic"


def test_runs_alone_with_other_counters_have_the_profile_forgotten() -> None:
    known = profile("tested", measured(1, 10.0, FLAT, 1.0), measured(2, 11.0, FLAT, 1.0), processes=2)
    usual = {"instructions_mean": 4e9, "cycles_mean": 1e9, "memory_total_bytes_mean": 2e9}
    counted = known.with_scale(msgspec.structs.replace(known.scales[0], counters=usual))

    async def scene(site: Site) -> None:
        for name in ("one", "two"):
            found = await site.run(name, 10.0, lambda: asyncio.sleep(0.8))
            assert not [one for one in found if isinstance(one, ProgramDrifted)]
        found = await site.run("three", 10.0, lambda: asyncio.sleep(0.8))
        (fact,) = [one for one in found if isinstance(one, ProgramDrifted)]
        assert "3 runs of tested in a row had a lower instructions per cycle than its profile says" in fact.reason

    play(Site(counted, policy="ce"), scene)


def test_a_run_teaches_its_owner_only_even_one_of_an_older_journal() -> None:
    """Jobs of older journals name their user, and no owner of profiles: what they taught was shared then."""

    async def scene(site: Site) -> None:
        (own,) = await site.run("a", 12.5, user=7, owner="7")
        (old,) = await site.run("b", 12.5, user=8)
        assert [(one.owner, one.measured.time_s) for one in (own, old) if isinstance(one, ProfileLearned)] == [
            ("7", 12.5), ("8", 12.5),
        ]  # fmt: skip
        assert site.core.state.profiles == {}
        assert set(site.core.state.own_profiles) == {("7", "tested"), ("8", "tested")}

    play(Site(), scene)


def test_drift_is_counted_and_told_for_each_owner() -> None:
    async def scene(site: Site) -> None:
        for name, user in (("a", 7), ("b", 7), ("c", 8), ("d", 8)):
            assert await site.run(name, 5.0, user=user, owner=str(user)) == []
        (fact,) = await site.run("e", 5.0, user=7, owner="7")
        assert isinstance(fact, ProgramDrifted)
        assert fact.owner == "7"
        assert site.core.state.profiles == {"tested": {2: SHARING}}, "for all others it holds"

    play(Site(SHARING), scene)


def test_what_a_store_knows_becomes_facts() -> None:
    (fact,) = stored_facts([SHARING])
    core = SchedulerCore(Cluster((NODE,), "shared"), build(PolicyConfig(name="sns")))
    core.step(0, [fact])
    assert core.state.profiles["tested"][2].at_scale(1) == SHARING.scales[0]


# ---- real programs ---------------------------------------------------------------------------------------------------


def exercise(name: str, seconds: float) -> Launch:
    return Launch((sys.executable, "-m", "cohabit.cli", "exercise", name, "--seconds", f"{seconds}", "--size", "4"))


def test_after_the_exploration_runs_a_real_program_shares_nodes(tmp_path: Path) -> None:
    """`spread` on one node of this machine: a run for the time, a run for the curves, then two beside each other."""

    async def whole() -> None:
        profiling = ProfilingConfig(period_s=0.5)
        config = ServeConfig(tmp_path / "place", 1, PolicyConfig(name="sns-guarantee"), profiling=profiling)
        service = Service(config)
        backend = service.parts.backend
        assert isinstance(backend, MeasuringBackend)
        starts: list[StartJob] = []
        carry_out = backend.inner.execute

        async def execute(command: Command, launch: Launch | None = None) -> None:
            starts.extend([command] if isinstance(command, StartJob) else [])
            await carry_out(command, launch)

        backend.inner.execute = execute  # type: ignore[method-assign]
        await service.open()
        controller = service.controller
        try:
            for number in range(4):
                job = Job(f"j{number}", 60 * SECOND, processes=1, program="stream")
                await controller.submit(job, exercise("stream", 2.5))
            together, heard = 0, set[str]()
            while True:
                placed, ended, profiles, memory = await controller.ask(
                    lambda core: (
                        len(core.state.placed),
                        dict(core.state.finished),
                        dict(core.state.profiles),
                        list(core.state.memory.get("guarantee", {}).get("jobs", {})),
                    )
                )
                together = max(together, placed)
                heard.update(memory)
                if len(ended) == 4:
                    break
                await asyncio.sleep(0.05)
        finally:
            await service.close()
        assert list(ended.values()) == ["done"] * 4
        assert [one.purpose for one in starts] == ["time", "curve", "run", "run"]
        assert [one.exclusive for one in starts] == [True, True, False, False]
        assert together == 2, "two jobs on one node at once"
        assert heard == {"j2", "j3"}, "the progress of those who share, and of nobody else, is told to the policy"
        known = profiles["stream"][1].at_scale(1)
        assert known is not None
        assert known.complete
        assert known.time_s > 1.5
        assert 0.0 < known.counters["task_clock_mean"] < 1.5

    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core cannot be shared")
    asyncio.run(asyncio.wait_for(whole(), 300))
