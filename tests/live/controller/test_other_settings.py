"""A controller of this machine that is started again under other settings: it keeps all jobs, and says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve.serving import ServeConfig, Service, open_parts
from cohabit.core.protocols import Coupling
from cohabit.live.controller.place import Place
from cohabit.model.errors import InputError
from tests.live.controller.playing import ended, job, shell, until
from tests.live.controller.test_backup import cohabit

CE, CS = PolicyConfig("ce-easy"), PolicyConfig("cs")


def begin(place: Path, policy: PolicyConfig, scene: Callable[[Service], Awaitable[None]], nodes: int = 2) -> None:
    """Open a controller on virtual nodes that share this machine's cores, play the scene, end in good order."""

    async def whole() -> None:
        service = Service(ServeConfig(place, nodes, policy))
        await service.open()
        try:
            await scene(service)
        finally:
            await service.close()

    asyncio.run(asyncio.wait_for(whole(), 300))


def waits_for(mark: Path) -> str:
    return f"while ! test -e {mark}; do sleep 0.05; done"


def test_jobs_go_on_under_another_policy(tmp_path: Path) -> None:
    mark, place = tmp_path / "mark", tmp_path / "place"

    async def old(service: Service) -> None:
        controller = service.controller
        assert service.parts.changed is None
        for name in ("runs", "beside", "waits"):
            await controller.submit(job(name), shell(waits_for(mark)))
        await controller.submit(job("held", held=True), shell("exit 0"))
        await until(controller, "runs", "running")
        await until(controller, "beside", "running")

    async def other(service: Service) -> None:
        controller = service.controller
        said = "policy ce-easy -> cs: 2 waiting and 2 running jobs are kept"
        assert str(service.parts.changed) == said
        view = await controller.view("runs")
        assert (view.state, view.record.attempt) == ("running", 1)
        assert (await controller.view("held")).state == "held"
        mark.touch()
        assert await ended(controller, "runs", "beside", "waits") == ["done"] * 3
        assert (await controller.view("beside")).record.attempt == 1

    async def same_again(service: Service) -> None:
        assert service.parts.changed is None
        await service.controller.release("held")
        assert await ended(service.controller, "held") == ["done"]

    async def back(service: Service) -> None:
        assert str(service.parts.changed).startswith("policy cs -> ce-easy: 0 waiting and 0 running")
        await service.controller.submit(job("last"), shell("exit 0"))
        assert await ended(service.controller, "last") == ["done"]

    for policy, scene in ((CE, old), (CS, other), (CS, same_again), (CE, back)):
        begin(place, policy, scene)
    for where in (place, Place(place).journal):
        status, said = cohabit("replay", where, "--verify", "--json")
        assert (status, json.loads(said)["stretches"]) == (0, 3), said
    assert " in 3 stretches, each under its own settings: identical" in cohabit("replay", place)[1]


def test_other_keys_of_the_policy_are_said_too(tmp_path: Path) -> None:
    async def one(service: Service) -> None:
        await service.controller.submit(job("one"), shell("exit 0"))
        assert await ended(service.controller, "one") == ["done"]

    async def nothing(service: Service) -> None:
        assert str(service.parts.changed).startswith("other keys of policy ce-easy: ")

    begin(tmp_path, CE, one)
    begin(tmp_path, PolicyConfig("ce-easy", order="sjf"), nothing)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"nodes": 1}, "its jobs were taken on other nodes"),
        ({"nodes": 2, "coupling": Coupling("alpha", 0)}, "its jobs were taken in another domain"),
    ],
)
def test_what_cannot_go_on_is_refused_and_changes_nothing(tmp_path: Path, config: dict[str, object], why: str) -> None:
    async def one(service: Service) -> None:
        await service.controller.submit(job("one"), shell("exit 0"))
        assert await ended(service.controller, "one") == ["done"]

    async def still(service: Service) -> None:
        assert service.parts.changed is None
        assert (await service.controller.view("one")).state == "done"

    begin(tmp_path, CE, one)
    try:
        said = str(open_parts(ServeConfig(tmp_path, policy=CE, **config)))  # type: ignore[arg-type]
    except InputError as error:
        said = str(error)
    assert said.startswith(f"{tmp_path}: {why}")
    assert said.endswith("; put it back as it was, or begin in a new place")
    begin(tmp_path, CE, still)
