"""Both halves of a threshold under random runs, deaths, second thoughts and lost questions: nobody is told alone.

Real sockets and the real waiting; only the way between the two controllers is the test's, so that it can lose things.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cohabit.live.peers import threshold_door
from cohabit.live.peers.threshold import Ask, Decider, Round
from cohabit.live.peers.threshold_door import Hello, Sources, Threshold, Wanted
from tests.breadth import examples

SIDES = ("alpha", "beta")
COME, KILL, GIVE_UP, AGAIN, CUT, DIE, WAIT = "come", "kill", "give up", "again", "cut", "die", "wait"
deeds = st.lists(
    st.tuples(st.sampled_from((COME, COME, COME, KILL, GIVE_UP, AGAIN, CUT, DIE, WAIT)), st.sampled_from(SIDES)),
    min_size=3, max_size=14,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """All in a twentieth of the time."""
    for name, value in (("HANG_S", 0.05), ("LOOK_S", 0.005), ("PAUSE_S", 0.015)):
        monkeypatch.setattr(threshold_door, name, value)


class Run:
    """A run of one side, which asks again when its controller has died, as packaging/threshold does."""

    def __init__(self, side: Side, attempt: int, number: int) -> None:
        self.side, self.attempt, self.hello = side, attempt, Hello("7", f"{side.name}{number}", "secret")
        self.alive, self.opened = True, False
        self.task = asyncio.create_task(self._stand())

    async def _stand(self) -> None:
        while not self.opened:
            try:
                reader, writer = await asyncio.open_unix_connection(self.side.path)
            except OSError:
                await asyncio.sleep(0.01)
                continue
            try:
                writer.write(msgspec.json.encode(self.hello) + b"\n")
                while (word := await reader.readline()) and not self.opened:
                    self.opened = word == b"open\n"
            except ConnectionError:
                pass
            finally:
                writer.close()

    async def kill(self) -> None:
        self.alive = False
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Side:
    """A controller's half; it counts on the run of its latest attempt until it gives it up."""

    def __init__(self, name: str, world: World) -> None:
        self.name, self.world, self.path = name, world, f"{world.folder}/{name}.sock"
        self.attempt, self.stands = 1, True
        self.run: Run | None = None

    async def open(self) -> None:
        decider = Decider(self.name, self.world.kept, self.world.save)
        self.threshold = Threshold(
            f"unix:{self.path}", decider, Sources(self._find, lambda job: "secret", self._round, self.world.ask)
        )
        await self.threshold.open()

    def _find(self, job: str) -> Wanted:
        return Wanted("pair", self.attempt, bound=True, stands=self.stands)

    async def _round(self, name: str, attempt: int) -> Round:
        return Round("pair", attempt, SIDES)


class World:
    """Both sides, the way between them, and what was true when it was opened."""

    def __init__(self, folder: str) -> None:
        self.folder, self.cut, self.number = folder, False, 0
        self.kept: dict[str, int] = {}
        self.sides = {name: Side(name, self) for name in SIDES}
        self.runs: list[Run] = []
        self.present: dict[int, list[Run]] = {}  # of each opening the runs there were

    def save(self, opened: dict[str, int]) -> None:
        self.kept = opened
        self.present[opened["pair"]] = [run for run in self.runs if run.alive and run.attempt == opened["pair"]]

    async def ask(self, ask: Ask) -> bool | None:
        """From beta to alpha; cut off, neither the question nor the answer comes through."""
        if self.cut:
            return None
        answer = await self.sides["alpha"].threshold.decide(ask)
        return None if self.cut else answer

    async def do(self, deed: str, name: str) -> None:
        side = self.sides[name]
        if deed == COME and (side.run is None or not side.run.alive):
            self.number += 1
            side.run = Run(side, side.attempt, self.number)
            self.runs.append(side.run)
        elif deed == KILL and side.run is not None:
            await side.run.kill()
        elif deed == GIVE_UP:
            side.stands = False
        elif deed == AGAIN:  # both try again; what stood there was stopped
            for one in self.sides.values():
                if one.run is not None:
                    await one.run.kill()
                one.attempt, one.stands = one.attempt + 1, True
        elif deed == CUT:
            self.cut = not self.cut
        elif deed == DIE:
            await side.threshold.close()
            await side.open()
        await asyncio.sleep(0.1 if deed == WAIT else 0.02)

    def check(self) -> None:
        for attempt, present in self.present.items():
            assert {run.side.name for run in present} == set(SIDES), f"attempt {attempt} was opened for some"
        for run in self.runs:
            assert not run.opened or run.attempt in self.present, "told without a decision"


@given(deeds)
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
def test_nobody_is_told_alone(todo: list[tuple[str, str]]) -> None:
    async def play() -> None:
        with tempfile.TemporaryDirectory(prefix="cohabit-threshold-") as folder:
            world = World(str(Path(folder)))
            for side in world.sides.values():
                await side.open()
            try:
                for deed, name in todo:
                    await world.do(deed, name)
                    world.check()
                world.cut = False
                async with asyncio.timeout(60):  # who was there when it was opened, and lives, is told in the end
                    while any(run.alive and not run.opened for there in world.present.values() for run in there):
                        await asyncio.sleep(0.01)
                world.check()
            finally:
                for run in world.runs:
                    await run.kill()
                for side in world.sides.values():
                    await side.threshold.close()

    asyncio.run(asyncio.wait_for(play(), 120))
