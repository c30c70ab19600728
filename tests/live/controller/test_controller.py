"""A controller with the real core, journal and local back end, in this process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa

from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve.serving import Parts, ServeConfig, Service, open_parts, verify_journal
from cohabit.backend.protocol import Launch
from cohabit.live.controller import controller as living
from cohabit.live.controller.controller import Busy, Controller
from cohabit.live.controller.journal import JournalError
from cohabit.live.controller.place import Place
from cohabit.live.controller.recovery import verify
from cohabit.model.errors import InputError
from cohabit.model.job import Job
from cohabit.model.profile import Profile, ScaleProfile
from cohabit.model.units import SECOND
from cohabit.store.profiles import open_store

Scene = Callable[[Controller, Parts], Awaitable[None]]


def play(place: Path, scene: Scene, nodes: int = 2) -> None:
    async def whole() -> None:
        service = Service(ServeConfig(place, nodes))
        await service.open()
        try:
            await scene(service.controller, service.parts)
        finally:
            await service.close()

    asyncio.run(asyncio.wait_for(whole(), 300))


def job(name: str, nodes: int = 1) -> Job:
    return Job(name, limit_us=60 * SECOND, nodes=nodes)


def shell(text: str) -> Launch:
    return Launch(("/bin/sh", "-c", text))


async def finished(controller: Controller, *names: str) -> list[str]:
    """How these jobs ended, once they have."""
    while True:
        ended = await controller.ask(lambda core: dict(core.state.finished))
        if all(name in ended for name in names):
            return [ended[name] for name in names]
        await asyncio.sleep(0.01)


def test_jobs_run_in_their_order_and_survive_a_restart(tmp_path: Path) -> None:
    async def before(controller: Controller, parts: Parts) -> None:
        for name, seconds in (("a", 1.0), ("b", 1.0), ("c", 0.0)):
            await controller.submit(job(name), shell(f"sleep {seconds}; echo {name} >> {tmp_path}/log"))

    async def after(controller: Controller, parts: Parts) -> None:
        assert not parts.restored.fresh
        assert await finished(controller, "a", "b", "c") == ["done"] * 3

    play(tmp_path / "place", before)
    play(tmp_path / "place", after)
    assert sorted((tmp_path / "log").read_text().split()) == ["a", "b", "c"]


def test_a_replay_gives_the_same_orders_byte_for_byte(tmp_path: Path) -> None:
    async def work(controller: Controller, parts: Parts) -> None:
        for number in range(8):
            await controller.submit(job(str(number), 1 + number % 2), shell("exit 0"))
        await finished(controller, *map(str, range(8)))

    async def check(controller: Controller, parts: Parts) -> None:
        result = verify(parts.journal, parts.cluster, parts.policies)
        assert (result.difference, result.batches > 8) == ("", True)
        with parts.journal._connection.begin():
            parts.journal._connection.execute(
                sa.text(
                    "update cohabit_batches set commands = x'90' where seq = (select min(seq) from cohabit_batches)"
                )
            )
        assert "1 orders now, 0 then" in verify(parts.journal, parts.cluster, parts.policies).difference

    play(tmp_path, work)
    play(tmp_path, check)


def test_checkpoints_are_made_and_continued_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(living, "CHECKPOINT_EVERY", 5)

    async def work(controller: Controller, parts: Parts) -> None:
        names = [f"{parts.journal.next_seq}-{number}" for number in range(6)]
        for name in names:
            await controller.submit(job(name), shell("exit 0"))
        assert await finished(controller, *names) == ["done"] * 6

    for _ in range(2):
        play(tmp_path, work)
    journal = open_parts(ServeConfig(tmp_path, 2)).journal
    newest = journal.newest_checkpoint()
    assert newest is not None
    assert newest.seq > 10
    assert len(list(journal.batches(newest.seq))) <= 5
    journal.close()


def test_what_can_never_run_is_refused_with_the_reason(tmp_path: Path) -> None:
    async def scene(controller: Controller, parts: Parts) -> None:
        with pytest.raises(InputError, match="needs 3 nodes, 2 could take it") as caught:
            await controller.submit(job("big", 3), shell("exit 0"))
        assert re.search(r"asks for 3 .*, and there are 2 nodes of 1 core: ask for less", caught.value.fix)
        with pytest.raises(InputError, match="nothing to execute"):
            await controller.submit(job("empty"), Launch(()))
        with pytest.raises(InputError, match="name has 1 to"):
            await controller.submit(job("x" * 65), shell("exit 0"))
        await controller.submit(job("a"), shell("exit 0"))
        await finished(controller, "a")
        with pytest.raises(InputError, match="was here before"):
            await controller.submit(job("a"), shell("exit 0"))

    play(tmp_path, scene)


def test_one_name_submitted_twice_at_once_is_taken_once(tmp_path: Path) -> None:
    async def scene(controller: Controller, parts: Parts) -> None:
        tries = [controller.submit(job("a"), shell(f"echo ran >> {tmp_path}/log")) for _ in range(5)]
        results = await asyncio.gather(*tries, return_exceptions=True)
        assert sum(result is None for result in results) == 1
        await finished(controller, "a")

    play(tmp_path / "place", scene)
    assert (tmp_path / "log").read_text() == "ran\n"


def test_a_running_job_is_cancelled(tmp_path: Path) -> None:
    async def scene(controller: Controller, parts: Parts) -> None:
        await controller.submit(job("long"), shell("sleep 60"))
        await asyncio.sleep(0.3)
        await controller.cancel("long")
        assert await finished(controller, "long") == ["cancelled"]

    play(tmp_path, scene)


def test_a_full_inbox_refuses_and_gets_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(living, "INBOX_MOST", 3)

    async def scene(controller: Controller, parts: Parts) -> None:
        tries = [controller.submit(job(str(number)), shell("exit 0")) for number in range(30)]
        results = await asyncio.gather(*tries, return_exceptions=True)
        taken = [str(number) for number, result in enumerate(results) if result is None]
        assert any(isinstance(result, Busy) for result in results)
        assert taken
        assert await finished(controller, *taken) == ["done"] * len(taken)

    play(tmp_path, scene)


def test_a_journal_that_cannot_be_written_refuses_work_and_gets_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Submissions hear of it; the end of a running job is not lost."""
    monkeypatch.setattr(living, "PAUSE_S", 0.05)

    async def scene(controller: Controller, parts: Parts) -> None:
        await controller.submit(job("running"), shell("sleep 0.3"))
        await asyncio.sleep(0.1)
        write = parts.journal.append

        def full(now_us: int, events: Sequence[object], launches: object) -> int:
            raise JournalError("the journal cannot be written: database or disk is full")

        parts.journal.append = full  # type: ignore[assignment,method-assign]
        with pytest.raises(InputError, match="disk is full"):
            await controller.submit(job("later"), shell("exit 0"))
        await asyncio.sleep(0.5)
        parts.journal.append = write  # type: ignore[method-assign]
        assert await finished(controller, "running") == ["done"]
        await controller.submit(job("later"), shell("exit 0"))
        assert await finished(controller, "later") == ["done"]

    play(tmp_path, scene)


def test_stopping_leaves_nobody_waiting_and_loses_no_order(tmp_path: Path) -> None:
    """Submissions on their way are taken or refused; what was ordered in the last batch is carried out later."""
    taken: list[str] = []

    async def before(controller: Controller, parts: Parts) -> None:
        texts = ["sleep 600", *["exit 0"] * 199]  # the first cannot be over when it is to be cancelled
        tries = [asyncio.create_task(controller.submit(job(str(n)), shell(text))) for n, text in enumerate(texts)]
        await asyncio.sleep(0.02)
        await controller.cancel("0")
        stopping = asyncio.create_task(controller.stop())
        results = await asyncio.wait_for(asyncio.gather(*tries, return_exceptions=True), 60)
        await stopping
        taken.extend(str(number) for number, result in enumerate(results) if result is None)

    async def whole() -> None:
        service = Service(ServeConfig(tmp_path, 2))
        await service.open()
        await before(service.controller, service.parts)
        service.parts.lock.close()

    async def after(controller: Controller, parts: Parts) -> None:
        assert set(await finished(controller, *taken)) <= {"done", "cancelled"}

    asyncio.run(whole())
    assert taken
    play(tmp_path, after)


def test_two_controllers_of_one_place_are_refused(tmp_path: Path) -> None:
    async def scene(controller: Controller, parts: Parts) -> None:
        with pytest.raises(InputError, match="another controller"):
            open_parts(ServeConfig(tmp_path, 2))

    play(tmp_path, scene)


def test_a_place_that_never_took_a_job_takes_other_settings(tmp_path: Path) -> None:
    known = Profile("nap", 1, (ScaleProfile(1, 5.0),))

    def play_under(policy: str, scene: Callable[[Service], Awaitable[None]]) -> None:
        async def whole() -> None:
            service = Service(ServeConfig(tmp_path, 2, PolicyConfig(policy)))
            await service.open()
            try:
                await scene(service)
            finally:
                await service.close()

        asyncio.run(asyncio.wait_for(whole(), 120))

    async def learns(service: Service) -> None:
        await service.controller.drain(0)
        with open_store(Place(tmp_path).profiles) as store:
            store.put(known)

    async def hears(service: Service) -> None:
        async with asyncio.timeout(20):  # the new core hears all of the store again
            while not await service.controller.ask(lambda core: core.state.profiles.get("nap")):
                await asyncio.sleep(0.05)
        await service.controller.submit(job("a"), shell("exit 0"))
        while (await service.controller.view("a")).state != "done":
            await asyncio.sleep(0.05)

    play_under("sns", learns)
    play_under("cs", hears)
    found = verify_journal(ServeConfig(tmp_path, 2, PolicyConfig("cs")))
    assert (found.difference, found.stretches) == ("", 1)
