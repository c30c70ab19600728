"""The inbox: a confirmed start waits a moment for other entries, and nothing else waits."""

from __future__ import annotations

import asyncio

from cohabit.live.controller import inbox
from cohabit.live.controller.inbox import Entry, Inbox
from cohabit.model.event import Event, JobFinished, JobStarted, Woken


def test_a_short_run_takes_one_batch() -> None:
    """Its end finds its start still there."""

    async def scene() -> list[Event]:
        box = Inbox(10)
        taking = asyncio.create_task(box.take(30.0, 10))
        box.offer(Entry(JobStarted("a", 1)))
        await asyncio.sleep(0)
        box.offer(Entry(JobFinished("a", 1, "done")))
        return [one.event for one in await taking]

    assert asyncio.run(scene()) == [JobStarted("a", 1), JobFinished("a", 1, "done")]


def test_a_start_alone_is_taken_after_a_moment() -> None:
    async def scene() -> list[Entry]:
        box = Inbox(10)
        box.offer(Entry(JobStarted("a", 1)))
        async with asyncio.timeout(30):
            return await box.take(60.0, 10)

    assert [one.event for one in asyncio.run(scene())] == [JobStarted("a", 1)]


def test_what_is_left_of_a_full_inbox_is_taken_at_once() -> None:
    async def scene() -> list[list[Event]]:
        box = Inbox(10)
        for event in (Woken(), JobFinished("a", 1, "done"), JobStarted("b", 1)):
            box.offer(Entry(event))
        inbox.COMPANY_S, before = 3600.0, inbox.COMPANY_S
        try:
            async with asyncio.timeout(30):
                return [[one.event for one in await box.take(3600.0, 2)] for _ in range(2)]
        finally:
            inbox.COMPANY_S = before

    assert asyncio.run(scene()) == [[Woken(), JobFinished("a", 1, "done")], [JobStarted("b", 1)]]
