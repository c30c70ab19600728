"""Two controllers share one profile store in a real PostgreSQL: what one learns the other plans by, and forgets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve.machine import ProfilingConfig
from cohabit.app.serve.serving import ServeConfig, Service, verify_journal
from cohabit.live.controller.place import Place
from cohabit.model.profile import Profile
from cohabit.store.profiles import open_store
from tests.live.controller.playing import ended, job, shell
from tests.store.conftest import postgres_url

__all__ = ["postgres_url"]
pytestmark = [pytest.mark.slow, pytest.mark.system]


async def run(service: Service, name: str) -> None:
    await service.controller.submit(job(name, nodes=0, program="nap", profile_owner="7"), shell("sleep 0.4"))
    assert await ended(service.controller, name) == ["done"]


async def until_known(service: Service, wanted: Callable[[dict[int, Profile]], bool]) -> None:
    """Wait until the core of this controller knows that of the program."""
    async with asyncio.timeout(60):
        while True:
            known = await service.controller.ask(lambda core: dict(core.state.own_profiles.get(("7", "nap"), {})))
            if wanted(known):
                return
            await asyncio.sleep(0.1)


async def planned_by(service: Service, name: str) -> str:
    """What `why` says that a job of the program is planned by."""
    await service.controller.submit(job(name, nodes=0, program="nap", profile_owner="7"), shell("sleep 5"))
    words = (await service.controller.why(name)).profile
    await service.controller.cancel(name)
    await ended(service.controller, name)
    return words


def test_what_one_controller_learns_the_other_plans_by(postgres_url: str, tmp_path: Path) -> None:
    first = ServeConfig(tmp_path / "a", 2, PolicyConfig("sns"), profiling=ProfilingConfig(), store=postgres_url)
    second = replace(first, place=tmp_path / "b")
    for config in (first, second):
        config.place.mkdir()

    async def scene() -> None:
        one, other = Service(first), Service(second)
        await one.open()
        await other.open()
        try:
            assert "nothing is known of program nap yet" in await planned_by(other, "unknown")
            await run(one, "a")
            await until_known(other, bool)
            said = await planned_by(other, "known")
            assert said.startswith("nap with 1 processes, from its owner's runs: "), said
            assert await other.store.forget("nap", "7", None) == 1
            await until_known(one, lambda found: not found)
            await run(other, "b")  # and back
            await until_known(one, bool)
            (stored,) = await one.store.profiles()
            assert (stored.program, stored.owner) == ("nap", "7")
        finally:
            await other.close()
            await one.close()

    asyncio.run(asyncio.wait_for(scene(), 300))
    for config in (first, second):
        assert not Place(config.place).profiles.exists(), "the store is the one of the settings"
        assert not verify_journal(config).difference
    with open_store(postgres_url) as opened:
        assert [one.program for one in opened.profiles()] == ["nap"]
