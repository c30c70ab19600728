"""A core that raises: only the event on which it does is left out, now and at every restart; nothing else is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve.serving import Parts
from cohabit.core.apply import Applier
from cohabit.core.core import SchedulerCore
from cohabit.live.controller import controller as living
from cohabit.live.controller import journal_schema
from cohabit.live.controller.controller import Controller
from cohabit.live.controller.inbox import Entry
from cohabit.live.controller.journal import open_journal
from cohabit.live.controller.place import Place
from cohabit.live.controller.recorder import Recorder
from cohabit.live.controller.recovery import restore, verify
from cohabit.live.controller.refusals import CannotTake
from cohabit.model.cluster import uniform_cluster
from cohabit.model.event import Event, JobCancelled, JobFinished, JobStarted, JobSubmitted, Woken
from cohabit.model.job import Job
from cohabit.model.units import SECOND
from tests.live.controller.playing import ended, job, play, shell, until

CLUSTER, POLICIES = uniform_cluster(2), build(PolicyConfig())


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Event], bool]], None]:
    """Let the core raise on events, after it has changed something; called again it replaces what it was told."""
    applied = Applier.apply
    wanted: list[Callable[[Event], bool]] = [lambda event: False]

    def apply(self: Applier, now_us: int, event: Event) -> bool:
        due = applied(self, now_us, event)
        if wanted[0](event):
            self.state.next_seq += 1000  # it must not matter what is left half done
            raise ZeroDivisionError("as the test wants it\nand on two lines")
        return due

    monkeypatch.setattr(Applier, "apply", apply)

    def choose(which: Callable[[Event], bool]) -> None:
        wanted[0] = which

    return choose


def named(*names: str) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, JobSubmitted) and event.job.job_id in names


def test_in_a_batch_only_the_one_that_raises_is_refused(
    tmp_path: Path, raising: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    raising(named("bad", "worse"))

    async def scene(controller: Controller, parts: Parts) -> None:
        names = ["a", "bad", "b", "worse", "c"]
        waits = [controller.submit(job(name), shell("exit 0")) for name in names]
        answers = await asyncio.gather(*waits, return_exceptions=True)
        refused = {name: one for name, one in zip(names, answers, strict=True) if one is not None}
        assert list(refused) == ["bad", "worse"]
        for one in refused.values():
            assert isinstance(one, CannotTake)
            assert "ZeroDivisionError: as the test wants it and on two lines" in str(one)
        assert await ended(controller, "a", "b", "c") == ["done"] * 3
        assert controller.left_out == 2
        raising(named())
        await controller.submit(job("bad"), shell("exit 0"))  # its name was not used up
        assert await ended(controller, "bad") == ["done"]

    async def again(controller: Controller, parts: Parts) -> None:
        assert controller.left_out == 2
        assert await ended(controller, "a", "b", "c", "bad") == ["done"] * 4

    with caplog.at_level(logging.ERROR):
        play(tmp_path / "place", scene)
    assert sum("is left out" in one.message for one in caplog.records) == 2
    raising(named("worse"))
    play(tmp_path / "place", again)


def test_running_jobs_are_not_forgotten_and_nothing_starts_twice(tmp_path: Path, raising: Callable[..., None]) -> None:
    mark, count = tmp_path / "mark", tmp_path / "count"
    raising(named("bad"))

    async def scene(controller: Controller, parts: Parts) -> None:
        text = f"echo begun >> {count}; while ! test -e {mark}; do sleep 0.05; done"
        await controller.submit(job("runs"), shell(text))
        await until(controller, "runs", "running")
        await controller.submit(job("waits", nodes=2), shell("exit 0"))
        before = await controller.ask(id)
        waits = [controller.submit(job(name), shell("exit 0")) for name in ("bad", "held")]
        assert isinstance((await asyncio.gather(*waits, return_exceptions=True))[0], CannotTake)
        assert await controller.ask(id) != before  # another core, and everybody sees it
        assert (await controller.view("runs")).state == "running"
        assert (await controller.view("waits")).state == "queued"
        mark.touch()
        assert await ended(controller, "runs", "waits", "held") == ["done"] * 3
        assert count.read_text() == "begun\n"

    play(tmp_path / "place", scene)


def test_an_end_on_which_the_core_raises_is_told_again(
    tmp_path: Path, raising: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else would repeat it, and its run is not settled before."""
    monkeypatch.setattr(living, "FIRST_AGAIN_S", 0.2)
    place = tmp_path / "place"

    async def scene(controller: Controller, parts: Parts) -> None:
        raising(lambda event: isinstance(event, JobFinished))
        await controller.submit(job("one"), shell("exit 3"))
        while not controller.left_out:
            await asyncio.sleep(0.01)
        assert (await controller.view("one")).state == "running"
        assert (place / "runs" / "one.1").exists()
        raising(named())
        assert await ended(controller, "one") == ["failed"]
        assert (await controller.view("one")).record.exit_status == 3

    play(place, scene)


def test_after_a_restart_the_world_is_asked_what_became_of_it(tmp_path: Path, raising: Callable[..., None]) -> None:
    async def scene(controller: Controller, parts: Parts) -> None:
        raising(lambda event: isinstance(event, JobFinished))
        await controller.submit(job("one"), shell("exit 3"))
        while not controller.left_out:
            await asyncio.sleep(0.01)

    async def again(controller: Controller, parts: Parts) -> None:
        assert await ended(controller, "one") == ["failed"]

    play(tmp_path / "place", scene)
    raising(named())
    play(tmp_path / "place", again)


def test_a_wake_on_which_the_core_raises_is_not_repeated_without_end(
    tmp_path: Path, raising: Callable[..., None]
) -> None:
    raising(lambda event: isinstance(event, Woken))

    async def scene(controller: Controller, parts: Parts) -> None:
        controller._wake_us = 0
        controller._inbox.interrupt()
        while not controller.left_out:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)
        assert controller.left_out == 1
        await controller.submit(job("one"), shell("exit 0"))
        assert await ended(controller, "one") == ["done"]

    play(tmp_path / "place", scene)


def test_a_batch_that_only_raises_as_a_whole_is_told_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepped = SchedulerCore.step

    def step(self: SchedulerCore, now_us: int, events: list[Event]) -> Any:
        if sum(isinstance(one, JobSubmitted) for one in events) > 1:
            raise RuntimeError("two are too many")
        return stepped(self, now_us, events)

    async def scene(controller: Controller, parts: Parts) -> None:
        monkeypatch.setattr(SchedulerCore, "step", step)
        names = ("a", "b", "c")
        await asyncio.gather(*(controller.submit(job(name), shell("exit 0")) for name in names))
        assert await ended(controller, *names) == ["done"] * 3
        assert controller.left_out == 0

    play(tmp_path / "place", scene)
    journal = open_journal(Place(tmp_path / "place").journal)
    assert any(list(one) == [-1] for one in journal.left_out().values())
    journal.close()


def test_records_that_cannot_be_made_are_treated_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Recorder._taken

    def take(self: Recorder, now_us: int, job: Job, ordinal: int) -> int:
        number = taken(self, now_us, job, ordinal)
        if job.job_id == "bad":
            raise ValueError("it cannot be recorded")
        return number

    monkeypatch.setattr(Recorder, "_taken", take)

    async def scene(controller: Controller, parts: Parts) -> None:
        waits = [controller.submit(job(name), shell("exit 0")) for name in ("a", "bad", "b")]
        answers = await asyncio.gather(*waits, return_exceptions=True)
        assert [type(one) for one in answers] == [type(None), CannotTake, type(None)]
        assert await ended(controller, "a", "b") == ["done"] * 2
        assert [one.record.job_id for one in (await controller.page("all")).jobs] == ["b", "a"]

    play(tmp_path / "place", scene)


# ---- journals --------------------------------------------------------------------------------------------------------


def old_journal(where: Path | str, *batches: list[Event]) -> None:
    """As a version that knew nothing of events left out had written it, and then could not go on."""
    journal = open_journal(where)
    for number, events in enumerate(batches, start=1):
        journal.append(number * SECOND, events, {})
    with journal._connection.begin():
        journal._connection.exec_driver_sql(f"DROP TABLE {journal_schema.LEFT_OUT}")
        journal._connection.exec_driver_sql(f"DROP TABLE {journal_schema.REMOVED}")
        journal._connection.exec_driver_sql(f"DROP TABLE {journal_schema.STRETCHES}")
        meta = journal_schema.meta
        journal._connection.execute(sa.update(meta).where(meta.c.key == "version").values(value="2"))
    journal.close()


def submitted(name: str) -> JobSubmitted:
    return JobSubmitted(Job(name, limit_us=60 * SECOND, nodes=1))


@pytest.mark.parametrize("behind", [0, 2])
def test_an_old_journal_with_a_poisonous_batch_is_served(
    where: Path | str, raising: Callable[..., None], behind: int
) -> None:
    """The last of it, as a version that died of it left it; or in the middle, for a core that was changed since."""
    later: list[list[Event]] = [[submitted(f"later{number}")] for number in range(behind)]
    old_journal(where, [submitted("a")], [submitted("b"), submitted("bad"), JobCancelled("a")], *later)
    raising(named("bad"))
    for _ in range(2):  # the second time it is marked, and nothing new is found
        journal = open_journal(where)
        restored = restore(journal, CLUSTER, POLICIES)
        known = set(restored.core.state.rows) | set(restored.core.state.finished)
        assert known == {"a", "b", *(f"later{number}" for number in range(behind))}
        assert known >= set(restored.recorder.living)
        assert {seq: [at for at in places if at >= 0] for seq, places in journal.left_out().items()} == {2: [1]}
        found = verify(journal, CLUSTER, POLICIES)
        assert (found.difference, found.left_out) == ("", 1)
        journal.close()
    assert restored.left_out == {}


def test_a_job_whose_records_are_written_and_whom_the_core_cannot_take_again_is_lost(
    tmp_path: Path, raising: Callable[..., None]
) -> None:
    where = tmp_path / "journal.db"
    journal = open_journal(where)
    core, recorder = SchedulerCore(CLUSTER, POLICIES), Recorder()
    for number, events in enumerate([[submitted("a")], [submitted("b")]], start=1):
        seq = journal.append(number, events, {})
        given = core.step(number, events)
        journal.note(seq, given, recorder.observe(seq, number, events, given, core))
    journal.close()
    raising(named("a"))
    journal = open_journal(where)
    restored = restore(journal, CLUSTER, POLICIES)
    assert (list(restored.core.state.rows), list(restored.recorder.living)) == (["b"], ["b"])
    assert journal.records_of(["a"])["a"].status == "lost"
    journal.close()


def test_the_same_core_comes_out_as_if_the_event_had_never_been(tmp_path: Path, raising: Callable[..., None]) -> None:
    good: list[Event] = [submitted("a"), submitted("b"), JobStarted("a", 1), submitted("c")]
    bad = submitted("bad")
    for name, batches in (("with", [[*good[:2], bad, *good[2:]]]), ("without", [[one] for one in good])):
        journal = open_journal(tmp_path / name)
        for events in batches:
            journal.append(1, events, {})
        journal.close()
    raising(lambda event: event == bad)
    cores = []
    for name in ("with", "without"):
        journal = open_journal(tmp_path / name)
        cores.append(restore(journal, CLUSTER, POLICIES).core)
        journal.close()
    assert list(cores[0].state.rows) == list(cores[1].state.rows)
    assert (cores[0].state.jobs == cores[1].state.jobs).all()


def test_an_entry_that_cannot_be_written_is_refused_alone(tmp_path: Path) -> None:
    async def scene(controller: Controller, parts: Parts) -> None:
        launches = [shell("exit 0"), shell("exit 0")]
        launches[0].environment["\ud800"] = "x"
        waits = [controller.submit(job(f"j{number}"), one) for number, one in enumerate(launches)]
        answers = await asyncio.gather(*waits, return_exceptions=True)
        assert "cannot be written to the journal" in str(answers[0])
        assert answers[1] is None
        with pytest.raises(Exception, match="surrogate"):
            await controller.submit(job("\ud800"), shell("exit 0"))
        with pytest.raises(Exception, match="line break"):
            await controller.submit(job("a\nb"), shell("exit 0"))
        with pytest.raises(Exception, match=r"no such job|cannot be written"):
            await controller.cancel("\udc80")
        assert await ended(controller, "j1") == ["done"]

    play(tmp_path / "place", scene)


def test_a_fact_of_the_world_is_written_without_what_cannot_be(tmp_path: Path) -> None:
    async def scene(controller: Controller, parts: Parts) -> None:
        await controller.submit(job("one"), shell("sleep 600"))
        await until(controller, "one", "running")
        await controller.tell(JobFinished("one", 1, "failed", 3, None, "said \udcff"))
        assert await ended(controller, "one") == ["failed"]
        assert (await controller.view("one")).record.reason == "said ?"

    play(tmp_path / "place", scene)
    entry = Entry(JobFinished("one", 1, "failed"))
    assert entry.sealed() is entry


def test_a_request_that_fails_before_the_journal_is_refused_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cohabit.live.controller.admission import Admission

    checked = Admission._check_names

    def check(self: Admission, job: Job) -> None:
        if job.job_id == "bad":
            raise KeyError("a fault of ours")
        checked(self, job)

    monkeypatch.setattr(Admission, "_check_names", check)

    async def scene(controller: Controller, parts: Parts) -> None:
        waits = [controller.submit(job(name), shell("exit 0")) for name in ("a", "bad", "b")]
        answers = await asyncio.gather(*waits, return_exceptions=True)
        assert [type(one) for one in answers] == [type(None), CannotTake, type(None)]
        assert await ended(controller, "a", "b") == ["done"] * 2

    play(tmp_path / "place", scene)
