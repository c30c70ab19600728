"""A living controller for tests: the real core, journal and local back end, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from cohabit.app.serve.serving import Parts, ServeConfig, Service
from cohabit.backend.protocol import Launch
from cohabit.live.controller.controller import Controller
from cohabit.model.job import Job
from cohabit.model.units import SECOND

Scene = Callable[[Controller, Parts], Awaitable[None]]
OVER = ("done", "failed", "killed", "cancelled", "lost")


def play(place: Path, scene: Scene, nodes: int = 2, database: str = "") -> None:
    """Open a controller here, play the scene, end in good order."""

    async def whole() -> None:
        service = Service(ServeConfig(place, nodes, database=database))
        await service.open()
        try:
            await scene(service.controller, service.parts)
        finally:
            await service.close()

    asyncio.run(asyncio.wait_for(whole(), 300))


def job(name: str, nodes: int = 1, **others: object) -> Job:
    return Job(name, limit_us=60 * SECOND, nodes=nodes, **others)  # type: ignore[arg-type]


def shell(text: str) -> Launch:
    return Launch(("/bin/sh", "-c", text), {"SOME": "thing"})


async def ended(controller: Controller, *names: str) -> list[str]:
    """How these jobs ended, once they have."""
    while True:
        states = [(await controller.view(name)).state for name in names]
        if all(state in OVER for state in states):
            return states
        await asyncio.sleep(0.01)


async def until(controller: Controller, name: str, state: str) -> None:
    """Wait until a job is in this state."""
    while (await controller.view(name)).state != state:
        await asyncio.sleep(0.01)
