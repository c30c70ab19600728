"""The embedded controller and its store: what runs teach is there, and is heard, forgotten and shared while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve.machine import ProfilingConfig
from cohabit.app.serve.serving import ServeConfig, Service, verify_journal
from cohabit.live.api.settings import ApiSettings
from cohabit.live.controller.place import Place
from cohabit.model.profile import Profile, ScaleProfile
from cohabit.store.profiles import open_store
from tests.live.controller.playing import ended, job, shell

pytestmark = pytest.mark.slow


def settings(place: Path) -> ServeConfig:
    return ServeConfig(place, 2, PolicyConfig("sns"), api=ApiSettings(), profiling=ProfilingConfig())


def live(config: ServeConfig, scene: Callable[[Service], Awaitable[None]]) -> None:
    """Open a controller, play the scene, close it."""

    async def whole() -> None:
        service = Service(config)
        await service.open()
        try:
            await scene(service)
        finally:
            await service.close()

    asyncio.run(asyncio.wait_for(whole(), 120))


async def run(service: Service, name: str) -> None:
    await service.controller.submit(job(name, nodes=0, program="nap", profile_owner="7"), shell("sleep 0.4"))
    assert await ended(service.controller, name) == ["done"]


async def known(service: Service) -> dict[tuple[str, str], dict[int, Profile]]:
    return await service.controller.ask(lambda core: {key: dict(one) for key, one in core.state.own_profiles.items()})


async def until_known(service: Service, wanted: Callable[[dict[int, Profile]], bool]) -> None:
    async with asyncio.timeout(20):
        while not wanted((await known(service)).get(("7", "nap"), {})):
            await asyncio.sleep(0.1)


def test_what_runs_teach_is_stored_heard_and_forgotten_while_the_controller_runs(tmp_path: Path) -> None:
    config, where = settings(tmp_path), Place(tmp_path).profiles

    async def learn(service: Service) -> None:
        assert not where.exists(), "a store is made when there is something to store"
        await run(service, "a")
        await run(service, "b")
        await service.store.look()
        with open_store(where) as opened:
            found = opened.get("nap", 1)
            assert found is not None
            assert found.owner == "7"
            assert found.scales[0].time_s == pytest.approx(0.4, abs=0.3)
            other = msgspec.structs.replace(found, scales=(*found.scales, ScaleProfile(2, 9.0)))
            opened.replace([other])  # another controller, or a node
        await until_known(service, lambda found: 1 in found and found[1].at_scale(2) is not None)
        assert "9 s at scale 2" in await why(service)
        assert await service.store.forget("nap", "7", None) == 1
        await until_known(service, lambda found: not found)

    live(config, learn)
    assert not verify_journal(config).difference


async def why(service: Service) -> str:
    """What a running job of the program is planned by."""
    await service.controller.submit(job("later", nodes=0, program="nap", profile_owner="7"), shell("sleep 1"))
    words = (await service.controller.why("later")).profile
    await service.controller.cancel("later")
    await ended(service.controller, "later")
    return words


def test_a_restarted_controller_hears_what_was_forgotten_while_it_was_away(tmp_path: Path) -> None:
    config, where = settings(tmp_path), Place(tmp_path).profiles

    async def learn(service: Service) -> None:
        await run(service, "a")

    async def forgotten(service: Service) -> None:
        await until_known(service, lambda found: not found)

    async def lost(service: Service) -> None:
        await run(service, "b")
        await service.store.look()

    live(config, learn)
    with open_store(where) as opened:
        assert opened.delete("nap", owner="7") == 1
    live(config, forgotten)
    live(config, lost)
    where.unlink()

    async def made_anew(service: Service) -> None:
        with open_store(where, create=False) as opened:
            assert [one.owner for one in opened.profiles("nap")] == ["7"]

    live(config, made_anew)
    assert not verify_journal(config).difference
