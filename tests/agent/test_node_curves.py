"""A node's daemon steps the cache of a run whose curves are wanted, on the enforcing fake of resctrl, and counts."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cohabit.agent.local_nodes import LocalNode
from cohabit.agent.node import job_notices
from cohabit.agent.node.keeper import Keeper, NodeRun
from cohabit.agent.node.meter import Meter
from cohabit.agent.node.orders import Division, write_division
from cohabit.agent.node.processes import Processes
from cohabit.agent.node.stepping import Stepping
from cohabit.agent.profiling.episodes import (
    NO_TRAFFIC,
    NOT_COUNTED,
    TOO_SHORT,
    Episode,
    Tour,
    curves_of,
    find_curves,
)
from cohabit.agent.resctrl.actuator import Actuator
from cohabit.agent.resctrl.files import Mount
from cohabit.agent.resctrl.schemata import parse
from cohabit.agent.topology import Core, Topology
from tests.support.resctrl import FakeResctrl
from tests.support.resctrl_machines import ALL_EVENTS, HASWELL

ROOT = Path("/sys/fs/resctrl")
WAYS, CORES, BEGUN_S = 18, 4, 1_000_000.0
PROCESSOR = replace(HASWELL, events=ALL_EVENTS)  # one that counts memory traffic, too
TOPOLOGY = Topology(tuple(Core((n,), 0, 0, 0) for n in range(CORES)), (), (), tuple(range(CORES)), (), (), None)


# ---- the steps alone -------------------------------------------------------------------------------------------------


def test_steps_follow_from_the_time_of_day_and_only_whole_ones_count() -> None:
    steps, counted = Stepping(Tour((2, 4, 8), 5.0, 2.0)), {"instructions": 0.0}

    def at(now_s: float, instructions: float) -> int:
        counted["instructions"] = instructions
        return steps.look(now_s, lambda: dict(counted))

    assert at(1003.0, 0) == (2, 4, 8)[200 % 3]
    assert at(1003.2, 10) == 0  # the step began before the run was seen: this counts from 1003.2 on
    assert at(1005.0, 100) == 2
    assert at(1006.0, 900) == 0  # settles
    assert at(1007.5, 1000) == 0
    assert at(1010.0, 1500) == 4
    assert at(1030.0, 9999) == 8  # a step was missed: nothing is counted
    assert [(one.ways, one.seconds, one.amounts) for one in steps.episodes] == [
        (2, 2.5, {"instructions": 500.0}),
        (8, pytest.approx(1.8), {"instructions": 90.0}),
    ]
    assert at(1032.5, 10_000) == 0
    assert at(1035.0, 5) == 2  # the counter was reset: no episode
    assert len(steps.episodes) == 2


def test_what_a_run_says_of_its_curves() -> None:
    episodes = [
        Episode(2, 1.0, {"instructions": 1e9, "cycles": 2e9, "cache_misses": 1e7}),
        Episode(8, 1.0, {"instructions": 2e9, "cycles": 2e9, "cache_misses": 5e6}),
    ]
    counted = {"instructions": 3e9, "cycles": 4e9, "cache_misses": 1.5e7}
    found = find_curves(episodes, counted, 2.0, 8, divided=True)
    assert found.lacks == ""
    assert found.curves is not None
    assert found.curves.ipc is not None
    assert found.curves.bandwidth_gbs is not None
    assert found.curves.ipc.values == (0.5, 1.0)
    assert found.curves.bandwidth_gbs.values == pytest.approx((0.64, 0.32)), "64 bytes for every miss"
    short = find_curves(episodes[:1], counted, 2.0, 8, divided=True)
    assert (short.curves, short.lacks) == (None, TOO_SHORT)
    bare = find_curves([], {"task_clock": 2.0}, 2.0, 8, divided=True)
    assert bare.lacks == f"{NOT_COUNTED}; {NO_TRAFFIC}"
    assert bare.curves is not None
    assert bare.curves.ipc is not None
    assert set(bare.curves.ipc.values) == {1.0}
    whole = find_curves([], {"memory_total_bytes": 6e9}, 2.0, 0, divided=False)
    assert whole.lacks == ""
    assert whole.curves is not None
    assert whole.curves.bandwidth_gbs is not None
    assert set(whole.curves.bandwidth_gbs.values) == {3.0}


# ---- the keeper ------------------------------------------------------------------------------------------------------


class OneProcess(Processes):
    """A job whose only process is this one; it is its own step daemon."""

    def __init__(self) -> None:
        pass

    def step_daemons(self, number: str, node: str, conf: str = "") -> list[int]:
        return [os.getpid()]

    def below(self, pids: Collection[int]) -> list[int]:
        return list(pids)

    def threads(self, pids: Collection[int]) -> list[int]:
        return list(pids)

    def words(self, pids: Collection[int]) -> dict[str, str]:
        return {"SLURM_JOB_ID": "7"}

    def allowed(self, pids: Collection[int]) -> str:
        return ""


class Machine:
    """A program that needs eight ways: with fewer it is slower and moves more. Its clock is the test's."""

    def __init__(self, folder: Path, counts: bool = True) -> None:
        self.fake = FakeResctrl({os.getpid()}, machine=PROCESSOR)
        self.now_s = self.at_s = BEGUN_S
        self.counted = {"instructions": 0.0, "cycles": 0.0}
        self.given: list[int] = []
        node = LocalNode("n0", TOPOLOGY.cores, (0,), 1 << 30, 0, WAYS, 2, 15)
        self.said: list[str] = []
        self.actuator = Actuator([node], self.said.append, self.fake, lambda: Mount(ROOT), processor="x86_64")
        self.meter = Meter(self.fake)
        if counts:
            self.meter.counts = True
            self.meter.perf = SimpleNamespace(attach=lambda threads: self)  # type: ignore[assignment]
        self.runs: list[NodeRun] = []
        self.place = job_notices.prepare(folder / "node", "n0")
        self.orders = folder / "orders"
        self.keeper = Keeper(
            "n0", self.place, TOPOLOGY, self.actuator, self.meter, lambda _: None, self.runs.append, self.orders,
            WAYS if counts else 0, OneProcess,
        )  # fmt: skip

    @property
    def ways(self) -> int:
        group = self.fake.class_of(os.getpid())
        return next(iter(parse(self.fake.read(ROOT / group / "schemata"))["L3"].values())).bit_count()

    def run_on(self) -> None:
        """Count what the program did since the last time."""
        seconds, self.at_s = self.now_s - self.at_s, self.now_s
        self.counted["cycles"] += 1e9 * seconds
        self.counted["instructions"] += min(1.0, self.ways / 8) * 1e9 * seconds
        moved = int((4e9 if self.ways < 8 else 1e9) * seconds)
        self.fake.tick(os.getpid(), moved, moved, 1 << 20)

    def sample(self) -> Mapping[str, float]:
        return dict(self.counted)

    def stop(self) -> Mapping[str, float]:
        return {}

    def live(self, seconds: float, until_ended: bool = False) -> None:
        """Look ten times a second."""
        for _ in range(round(10 * seconds)):
            self.run_on()
            self.now_s = round(self.now_s + 0.1, 1)
            self.run_on()
            self.keeper.step(self.now_s)
            if not self.given or self.given[-1] != self.ways:
                self.given.append(self.ways)

    def notice(self, name: str = "7") -> None:
        path = self.place / name
        path.write_text("uid=1000\ncomplete\n")
        os.utime(path, (self.now_s, self.now_s))

    def end(self, name: str = "7") -> NodeRun:
        path = self.place / f"{name}.ended"
        path.write_text("complete\n")
        os.utime(path, (self.now_s, self.now_s))
        self.keeper.step(self.now_s)
        return self.runs[-1]


def order(machine: Machine, **more: Any) -> None:
    write_division(machine.orders, "n0", Division((("7", 0, WAYS),), **more))


def test_a_run_for_curves_goes_through_the_ways_and_gives_them_with_its_end(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.notice()
    order(machine)
    machine.live(2.0)
    assert machine.given[-1] >= WAYS, "before the controller wants its curves it has all"
    order(machine, curves=(("7", 60.0),))
    machine.live(45.0)
    run = machine.end()
    assert {2, 4, 8, WAYS} <= set(machine.given)
    curves = curves_of(run.episodes)
    assert curves.ipc is not None
    assert curves.bandwidth_gbs is not None
    assert curves.ipc.ways == (2, 4, 8, WAYS)
    assert curves.ipc.values == pytest.approx((0.25, 0.5, 1.0, 1.0), rel=0.02)
    assert curves.bandwidth_gbs.values == pytest.approx((4.0, 4.0, 1.0, 1.0), rel=0.05)
    assert machine.fake.touched == []
    assert list(machine.fake.classes) == [], "its class is gone with it"


def test_a_run_that_another_joins_is_stepped_no_more_and_gets_its_share(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.notice()
    order(machine, curves=(("7", 60.0),))
    machine.live(7.0)
    machine.notice("8")
    machine.live(11.0)
    changes = len(machine.given)
    machine.live(11.0)
    assert len(machine.given) == changes
    assert machine.given[-1] >= WAYS
    assert not machine.end().alone


def test_without_instructions_no_run_is_slowed_for_a_curve_that_cannot_be_counted(tmp_path: Path) -> None:
    machine = Machine(tmp_path, counts=False)
    machine.notice()
    order(machine, curves=(("7", 60.0),))
    machine.live(30.0)
    assert len(set(machine.given)) == 1
    run = machine.end()
    assert run.episodes == ()
    assert run.means["memory_total_bytes_mean"] == pytest.approx(1e9, rel=0.05)


def test_when_the_kernel_refuses_the_run_gets_all_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for number in range(PROCESSOR.classes - 1):
        machine.fake.add_foreign_class(f"of-others-{number}")
    machine.notice()
    order(machine, curves=(("7", 60.0),))
    machine.live(20.0)
    assert machine.end().episodes == ()
    assert machine.said, "why is said"
    assert machine.fake.touched == []
