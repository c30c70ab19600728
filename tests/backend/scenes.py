"""Scenes with a local back end and real processes, and what tests of it look at."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from cohabit.backend.local.executor import LocalBackend
from cohabit.backend.local.nodes import VirtualNodes
from cohabit.backend.protocol import Launch
from cohabit.launcher import runs
from cohabit.model.command import StartJob
from cohabit.model.event import Event, JobFinished
from cohabit.model.units import FOREVER, SECOND

Scene = Callable[[LocalBackend], Awaitable[None]]


def play(place: Path, scene: Scene, timeout_s: float = 120, nodes: VirtualNodes | None = None, **rest: Any) -> None:
    """A scene with a back end whose clock is CLOCK_BOOTTIME itself."""

    async def whole() -> None:
        backend = LocalBackend(place, nodes or VirtualNodes(2), lambda at_us: at_us, **rest)
        await backend.open()
        try:
            await scene(backend)
        finally:
            await backend.close()
        assert not (place / "launcher" / "log").read_bytes()  # no runner was surprised

    asyncio.run(asyncio.wait_for(whole(), timeout_s))


def start(
    job: str = "job", attempt: int = 1, limit_us: int = 60 * SECOND, fuse_us: int = FOREVER,
    nodes: tuple[tuple[int, int], ...] = ((0, 1),),
) -> StartJob:  # fmt: skip
    return StartJob(job, attempt, nodes, limit_us, fuse_us=fuse_us)


def shell(text: str) -> Launch:
    return Launch(("/bin/sh", "-c", text))


async def facts(backend: LocalBackend, count: int, exits: bool = False) -> list[Event]:
    """Without exit statuses, unless they are asked for."""
    found: list[Event] = []
    async for event in backend.events():
        if isinstance(event, JobFinished) and not exits:
            event = JobFinished(event.job_id, event.attempt, event.status)
        found.append(event)
        if len(found) == count:
            break
    return found


def marked(place: Path) -> list[int]:
    """Living processes of any run below this place."""
    mark = f"{runs.MARK}={place.absolute()}".encode()
    return [
        pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if mark in b"\0".join(runs._environment(pid))
    ]


async def ending(backend: LocalBackend) -> JobFinished:
    """The next end of a run; starts may be told before it."""
    while not isinstance(fact := (await facts(backend, 1))[0], JobFinished):
        continue
    return fact


async def until(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    """Wait for it, and fail if it does not come."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.02)
