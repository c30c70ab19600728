"""The link between a controller and the profile store: what goes there, what comes back, and what does not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.core.core import SchedulerCore
from cohabit.live.controller.store_link import StoreLink
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.event import (
    CoRunsStored,
    Event,
    JobSubmitted,
    ProfileForgotten,
    ProfileLearned,
    ProfileShared,
    ProfileStored,
    ProgramDrifted,
)
from cohabit.model.job import Job
from cohabit.model.profile import Profile, ScaleProfile
from cohabit.store.json_form import CoRunSample
from cohabit.store.profiles import open_store

HARDWARE = "4c"


class FakeController:
    """A core and what it was told."""

    def __init__(self) -> None:
        cluster = Cluster((NodeGroup(4, 4),), "shared")
        self.core, self.told = SchedulerCore(cluster, build(PolicyConfig(name="sns"))), list[Event]()
        self.hears_lessons: Callable[[list[Event]], None] | None = None

    async def ask(self, question: Callable[[SchedulerCore], Any]) -> Any:
        return question(self.core)

    async def tell(self, event: Event) -> None:
        self.told.append(event)
        self.core.step(0, [event])
        assert self.hears_lessons is not None
        self.hears_lessons([event])

    def known(self, program: str, owner: str) -> dict[int, Profile]:
        state = self.core.state
        return dict(state.own_profiles.get((owner, program), {}) if owner else state.profiles.get(program, {}))


def play(folder: Path, scene: Callable[[FakeController, StoreLink], Awaitable[None]], controller: Any = None) -> Any:
    """Open a link in this place, play the scene, close it; return the controller."""

    async def whole() -> Any:
        here = controller or FakeController()
        link = StoreLink(folder / "profiles.db", folder / "learned.json", here, {HARDWARE}, every_s=3600)
        await link.open()
        try:
            await scene(here, link)
        finally:
            await link.close()
        return here

    return asyncio.run(asyncio.wait_for(whole(), 60))


def run(time_s: float, owner: str = "7", scale: int = 1, at: int = 1) -> ProfileLearned:
    return ProfileLearned("MG", 4, ScaleProfile(scale, time_s, measured_at_us=at), HARDWARE, owner)


def stored(folder: Path) -> dict[tuple[str, str], dict[int, float]]:
    with open_store(folder / "profiles.db") as opened:
        return {(one.program, one.owner): {s.scale: s.time_s for s in one.scales} for one in opened.profiles()}


def of_store(controller: FakeController) -> list[Event]:
    return [one for one in controller.told if isinstance(one, ProfileStored | ProfileForgotten)]


def test_lessons_are_written_with_their_owner_and_do_not_come_back(tmp_path: Path) -> None:
    async def scene(controller: FakeController, link: StoreLink) -> None:
        await link.look()
        assert not (tmp_path / "profiles.db").exists()
        for lesson in (run(10.0), run(10.4), run(20.0, owner="8")):
            await controller.tell(lesson)
            await link.look()
        await link.look()
        assert stored(tmp_path) == {("MG", "7"): {1: 10.2}, ("MG", "8"): {1: 20.0}}
        assert of_store(controller) == []

    again = play(tmp_path, scene)

    async def nothing(controller: FakeController, link: StoreLink) -> None:
        assert of_store(controller) == []  # a restart tells the same core nothing, either

    play(tmp_path, nothing, again)


def test_many_lessons_at_once_are_each_written_once(tmp_path: Path) -> None:
    async def scene(controller: FakeController, link: StoreLink) -> None:
        for lesson in (run(10.0), run(10.4), run(6.0, scale=2)):
            await controller.tell(lesson)
        await link.look()
        with open_store(tmp_path / "profiles.db") as opened:
            (found,) = opened.profiles()
        assert [(one.scale, one.time_s, one.samples) for one in found.scales] == [(1, 10.2, 2), (2, 6.0, 1)]

    play(tmp_path, scene)


def test_what_others_write_takes_the_place_of_what_was_known(tmp_path: Path) -> None:
    async def scene(controller: FakeController, link: StoreLink) -> None:
        await controller.tell(run(10.0))
        await link.look()
        with open_store(tmp_path / "profiles.db") as opened:
            opened.put(Profile("MG", 4, (ScaleProfile(1, 10.4),), hardware=HARDWARE, owner="7"))
            opened.put(Profile("CG", 4, (ScaleProfile(1, 3.0),), hardware=HARDWARE))
            opened.put(Profile("EP", 4, (ScaleProfile(1, 3.0),), hardware="64c"))
        await controller.tell(run(11.0, owner="8"))  # of its own at the same time
        await link.look()
        await link.look()
        assert [type(one) for one in of_store(controller)] == [ProfileStored, ProfileStored]
        assert controller.known("MG", "7")[4].scales[0].time_s == 10.2
        assert controller.known("CG", "")[4].scales[0].time_s == 3.0
        assert controller.known("EP", "") == {}, "a profile of other nodes"
        assert controller.known("MG", "8")[4].scales[0].time_s == 11.0

    play(tmp_path, scene)


def test_forgetting_holds_at_once_and_goes_back_to_before_a_bad_measurement(tmp_path: Path) -> None:
    async def scene(controller: FakeController, link: StoreLink) -> None:
        await controller.tell(run(10.0, at=1_000_000))
        await link.look()
        await controller.tell(run(10.8, at=5_000_000))
        assert await link.forget("MG", "7", 4_000_000) == 1
        assert controller.known("MG", "7")[4].scales[0].time_s == 10.0
        assert await link.forget("MG", "7", 4_000_000) == 0
        assert await link.forget("MG", "7", None) == 1
        assert controller.known("MG", "7") == {}
        assert [type(one) for one in of_store(controller)] == [ProfileStored, ProfileForgotten]
        assert stored(tmp_path) == {}

    play(tmp_path, scene)


def test_sharing_and_drift_reach_the_store(tmp_path: Path) -> None:
    async def scene(controller: FakeController, link: StoreLink) -> None:
        await controller.tell(run(10.0))
        await controller.tell(ProfileShared("MG", "7"))
        await link.look()
        assert stored(tmp_path) == {("MG", ""): {1: 10.0}, ("MG", "7"): {1: 10.0}}
        await controller.tell(ProgramDrifted("MG", "it changed", "7"))
        await link.look()
        assert stored(tmp_path) == {("MG", ""): {1: 10.0}, ("MG", "7"): {}}
        await controller.tell(run(20.0))
        await link.look()
        assert stored(tmp_path)["MG", "7"] == {1: 20.0}
        await controller.tell(JobSubmitted(Job("again", 1, 4, program="MG", profile_owner="7", reprofile=True)))
        await link.look()
        assert stored(tmp_path)["MG", "7"] == {}
        assert of_store(controller) == []

    play(tmp_path, scene)


def test_a_user_of_the_shared_profile_gets_a_whole_copy(tmp_path: Path) -> None:
    async def scene(controller: FakeController, link: StoreLink) -> None:
        with open_store(tmp_path / "profiles.db") as opened:
            opened.put(Profile("MG", 4, (ScaleProfile(1, 10.0), ScaleProfile(2, 6.0)), hardware=HARDWARE))
        await link.look()
        await controller.tell(run(10.4))
        await link.look()
        assert stored(tmp_path) == {("MG", ""): {1: 10.0, 2: 6.0}, ("MG", "7"): {1: 10.2, 2: 6.0}}

    play(tmp_path, scene)


def test_a_store_that_is_away_is_said_once_and_lessons_are_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, aside = tmp_path / "profiles.db", tmp_path / "aside.db"
    caplog.set_level(logging.WARNING)

    async def scene(controller: FakeController, link: StoreLink) -> None:
        await controller.tell(run(10.0))
        await link.look()
        file.rename(aside)
        await controller.tell(run(20.0, owner="8"))
        await link.look()
        await link.look()
        assert "removed" in link.away
        assert sum("removed" in one.message for one in caplog.records) == 1
        assert [one.owner for one in await link.profiles()] == ["7", "8"]

    again = play(tmp_path, scene)
    aside.rename(file)

    async def back(controller: FakeController, link: StoreLink) -> None:
        assert link.away == ""
        assert stored(tmp_path) == {("MG", "7"): {1: 10.0}, ("MG", "8"): {1: 20.0}}

    play(tmp_path, back, again)


def test_a_store_made_anew_gets_what_the_core_knows(tmp_path: Path) -> None:
    async def scene(controller: FakeController, link: StoreLink) -> None:
        await controller.tell(run(10.0))

    again = play(tmp_path, scene)
    (tmp_path / "profiles.db").unlink()

    async def anew(controller: FakeController, link: StoreLink) -> None:
        assert stored(tmp_path) == {("MG", "7"): {1: 10.0}}
        assert of_store(controller) == []

    play(tmp_path, anew, again)


def test_an_unreadable_store_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "profiles.db").write_bytes(b"no database" * 100)

    async def scene(controller: FakeController, link: StoreLink) -> None:
        await controller.tell(run(10.0))
        await link.look()
        assert "cannot be used" in link.away
        assert controller.known("MG", "7")

    play(tmp_path, scene)


def test_a_refused_lesson_does_not_block_later_ones(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broken = ScaleProfile(1, 5.0, counters={"cpu_usage_mean": float("inf")}, measured_at_us=1)

    async def scene(controller: FakeController, link: StoreLink) -> None:
        await controller.tell(ProfileLearned("LU", 4, broken, HARDWARE, "7"))
        await controller.tell(run(10.0))
        with caplog.at_level(logging.WARNING):
            await link.look()
        assert stored(tmp_path) == {("MG", "7"): {1: 10.0}}
        assert (link.away, link._pending) == ("", [])
        assert "refuses what was learned of LU, which is dropped" in caplog.text
        await controller.tell(run(12.0, owner="8"))
        await link.look()
        assert stored(tmp_path)["MG", "8"] == {1: 12.0}

    again = play(tmp_path, scene)
    (tmp_path / "profiles.db").unlink()

    async def made_anew(controller: FakeController, link: StoreLink) -> None:
        assert set(stored(tmp_path)) == {("MG", "7"), ("MG", "8")}

    play(tmp_path, made_anew, again)


def note(controller: FakeController, program: str, other: str, percent: float) -> None:
    """The core notes a co-run as it does when a run ends (tests/core/test_co_runs.py)."""
    memory = controller.core.state.memory
    kept = memory.setdefault("co_run_news", {"next": 0, "last": []})
    kept["last"].append([kept["next"], program, [other], percent, HARDWARE])
    kept["next"] += 1
    runs = memory.setdefault("co_runs", {"version": 0, "met": {}, "runs": {}})["runs"]
    runs.setdefault(program, {})[other] = [percent, None, 1]


def co_runs_told(controller: FakeController) -> list[CoRunsStored]:
    return [one for one in controller.told if isinstance(one, CoRunsStored)]


def test_co_runs_go_into_the_store_once_and_those_of_others_come_back(tmp_path: Path) -> None:
    async def scene(controller: FakeController, link: StoreLink) -> None:
        note(controller, "MG", "EP@7", 20.0)
        await link.look()
        await link.look()
        assert [(one.program, one.beside, one.percent) for one in await link.co_runs()] == [("MG", ("EP@7",), 20.0)]
        assert co_runs_told(controller) == [], "its own does not come back"
        with open_store(tmp_path / "profiles.db") as other:
            other.add_co_runs([CoRunSample("LU", ("MG",), 5.0, HARDWARE, 1), CoRunSample("LU", ("MG",), 5.0, "64c", 1)])
        note(controller, "MG", "LU", 70.0)
        await link.look()
        (told,) = co_runs_told(controller)
        assert {(one.program, one.beside) for one in told.runs} == {
            ("MG", ("EP@7",)), ("MG", ("LU",)), ("LU", ("MG",)),
        }  # fmt: skip
        assert told.upto == 2
        runs = controller.core.state.memory["co_runs"]["runs"]
        assert {name: list(groups) for name, groups in runs.items()} == {"LU": ["MG"], "MG": ["EP@7", "LU"]}
        assert await link.forget("EP", "7", None) == 0
        assert co_runs_told(controller)[-1].runs == told.runs[:1] + told.runs[2:], "forgotten in the core, too"

    again = play(tmp_path, scene)

    async def restarted(controller: FakeController, link: StoreLink) -> None:
        before = len(controller.told)
        note(controller, "MG", "LU", 60.0)
        await link.look()
        assert len(controller.told) == before, "what it knew is not told again"
        assert len(await link.co_runs()) == 4

    play(tmp_path, restarted, again)

    async def fresh(controller: FakeController, link: StoreLink) -> None:
        (told,) = co_runs_told(controller)
        assert [(one.program, one.beside, one.count) for one in told.runs] == [("LU", ("MG",), 1), ("MG", ("LU",), 2)]

    (tmp_path / "learned.json").unlink()
    play(tmp_path, fresh)


def test_a_store_made_anew_gets_the_co_runs_that_the_core_knows(tmp_path: Path) -> None:
    async def scene(controller: FakeController, link: StoreLink) -> None:
        note(controller, "MG", "EP", 20.0)
        await link.look()

    again = play(tmp_path, scene)
    (tmp_path / "profiles.db").unlink()

    async def anew(controller: FakeController, link: StoreLink) -> None:
        assert [(one.program, one.percent) for one in await link.co_runs()] == [("MG", 20.0)]

    play(tmp_path, anew, again)
