"""A journal that cannot be written: new work is refused and says so, what runs goes on, its end is written later."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from cohabit.app.serve.serving import Parts, ServeConfig, Service, open_parts
from cohabit.backend.protocol import Launch
from cohabit.live.controller import controller as living
from cohabit.live.controller.controller import Controller
from cohabit.live.controller.journal import JournalError, open_journal
from cohabit.live.controller.refusals import NotWritable
from cohabit.model.errors import InputError
from cohabit.model.event import Woken
from tests.live.controller.playing import ended, job, play, shell, until

BIG = {"BIG": "x" * 50_000}


def until_told(mark: Path, then: str = "exit 0") -> Launch:
    """A job that runs for as long as a test needs it: until there is a file."""
    return shell(f"while ! test -e {mark}; do sleep 0.05; done; {then}")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(living, "PAUSE_S", 0.05)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=755", "none", str(disk)]
    made = subprocess.run(command, capture_output=True, check=False)
    if made.returncode:
        pytest.skip("needs root that may mount")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def fill(disk: Path) -> Path:
    """Until nothing more fits."""
    filler = disk / "filler"
    with open(filler, "wb", buffering=0) as stream:
        try:
            while True:
                stream.write(b"x" * 4096)
        except OSError:
            return filler


async def submit_until_refused(controller: Controller) -> str:
    """SQLite has some room left in its log; then it has none."""
    for number in range(200):
        try:
            await controller.submit(job(f"big{number}", held=True), Launch(("/bin/true",), BIG))
        except NotWritable as error:
            return str(error)
    raise AssertionError("nothing was refused")


@pytest.mark.system
def test_a_full_disk_refuses_new_work_and_writes_ends(tmp_path: Path, small_disk: Path) -> None:
    mark = tmp_path / "mark"

    async def scene(controller: Controller, parts: Parts) -> None:
        await controller.submit(job("running"), until_told(mark))
        await controller.submit(job("waiting", held=True), shell("exit 0"))
        await until(controller, "running", "running")
        filler = fill(small_disk)
        said = await submit_until_refused(controller)
        assert "accepted now" in said
        assert "full" in said
        mark.touch()
        assert await ended(controller, "running") == ["done"]
        await controller.cancel("waiting")
        assert (await controller.view("waiting")).state == "cancelled"
        filler.unlink()
        await controller.submit(job("later"), shell("exit 0"))
        assert await ended(controller, "later") == ["done"]

    async def again(controller: Controller, parts: Parts) -> None:
        assert await ended(controller, "running", "later", "waiting") == ["done", "done", "cancelled"]

    for one in (scene, again):
        play(tmp_path / "place", one, database=f"sqlite:///{small_disk / 'journal.db'}")


def test_a_database_that_becomes_read_only_refuses_new_work_and_gets_over(tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    async def scene(controller: Controller, parts: Parts) -> None:
        def read_only(yes: int) -> None:
            parts.journal._connection.exec_driver_sql(f"PRAGMA query_only = {yes}")
            parts.journal._connection.commit()

        await controller.submit(job("running"), until_told(mark))
        await until(controller, "running", "running")
        await controller.ask(lambda _: read_only(1))
        for ask in (controller.submit(job("new"), shell("exit 0")), controller.cancel("running"), controller.drain(0)):
            with pytest.raises(NotWritable, match="readonly"):
                await ask
        mark.touch()
        await asyncio.sleep(0.5)  # it ends, and that cannot be written
        assert (await controller.view("running")).state == "running"
        assert [one.record.job_id for one in (await controller.page()).jobs] == ["running"]
        await controller.ask(lambda _: read_only(0))
        assert await ended(controller, "running") == ["done"]
        await controller.submit(job("new"), shell("exit 0"))
        assert await ended(controller, "new") == ["done"]

    play(tmp_path / "place", scene)


def test_an_end_found_after_a_restart_is_not_lost_while_it_cannot_be_written(tmp_path: Path) -> None:
    """Its run is settled only when its end is in the journal."""
    place, mark = tmp_path / "place", tmp_path / "mark"

    def read_only(parts: Parts, yes: int) -> None:
        parts.journal._connection.exec_driver_sql(f"PRAGMA query_only = {yes}")
        parts.journal._connection.commit()

    async def whole() -> None:
        first = Service(ServeConfig(place, 2))
        await first.open()
        await first.controller.submit(job("running"), until_told(mark, "exit 3"))
        await until(first.controller, "running", "running")
        await first.close()
        mark.touch()
        while not (place / "runs" / "running.1" / "ended").exists():
            await asyncio.sleep(0.02)
        second = Service(ServeConfig(place, 2))
        read_only(second.parts, 1)
        await second.open()
        await asyncio.sleep(0.5)
        assert (await second.controller.view("running")).state == "running"
        assert [one.name for one in (place / "runs").glob("*.[0-9]")] == ["running.1"]
        await second.controller.ask(lambda _: read_only(second.parts, 0))
        assert await ended(second.controller, "running") == ["failed"]
        assert (await second.controller.view("running")).record.exit_status == 3
        await second.close()

    asyncio.run(asyncio.wait_for(whole(), 300))


@pytest.mark.system
def test_a_place_that_cannot_be_written_is_said_at_once(tmp_path: Path, small_disk: Path) -> None:
    open_journal(small_disk / "journal.db").close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(InputError, match="read-only for this user"):
        open_journal(small_disk / "journal.db")
    with pytest.raises(InputError, match="read-only"):
        open_parts(ServeConfig(small_disk, 1))


@pytest.mark.system
def test_postgresql_that_goes_away_or_becomes_read_only(tmp_path: Path, postgres_database: str) -> None:
    url = sa.make_url(postgres_database).set(drivername="postgresql+psycopg")
    operator = sa.create_engine(url.set(database="postgres"), isolation_level="AUTOCOMMIT")
    mark = tmp_path / "mark"

    def cut(read_only: str) -> None:
        with operator.connect() as connection:
            connection.exec_driver_sql(f"ALTER DATABASE {url.database} SET default_transaction_read_only = {read_only}")
            connection.execute(
                sa.text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"),
                {"name": url.database},
            )

    async def scene(controller: Controller, parts: Parts) -> None:
        await controller.submit(job("running"), until_told(mark))
        await until(controller, "running", "running")
        cut("on")
        refusals = []
        for number in range(2):  # the first hears that the connection is gone
            with pytest.raises(NotWritable) as caught:
                await controller.submit(job(f"new{number}"), shell("exit 0"))
            refusals.append(str(caught.value))
        assert "read-only" in refusals[1]
        mark.touch()
        await asyncio.sleep(0.5)
        cut("off")
        with contextlib.suppress(NotWritable):  # the first to ask finds the connection gone
            await controller.view("running")
        assert await ended(controller, "running") == ["done"]
        await controller.submit(job("new1"), shell("exit 0"))
        assert await ended(controller, "new1") == ["done"]
        with pytest.raises(InputError, match="another controller uses this database"):
            open_journal(postgres_database)

    play(tmp_path / "place", scene, database=postgres_database)
    operator.dispose()


def test_a_commit_whose_answer_was_lost_is_undone(tmp_path: Path) -> None:
    """The core was not told and the submitter was refused; so it never was."""
    journal = open_journal(tmp_path / "journal.db")
    lost = journal._connection.begin

    class Lost:
        def __enter__(self) -> None:
            self.inner = lost()
            self.inner.__enter__()

        def __exit__(self, *about: object) -> None:
            self.inner.__exit__(None, None, None)
            raise sa.exc.OperationalError("COMMIT", None, OSError("the connection is gone"))

    journal._connection.begin = Lost  # type: ignore[method-assign,assignment]
    with pytest.raises(JournalError, match="the connection is gone"):
        journal.append(1, [Woken()], {"a": Launch(("/bin/true",))})
    journal._connection.begin = lost  # type: ignore[method-assign]
    assert len(list(journal.batches(0))) == 1
    assert journal.known_jobs(["a"]) == set()
    assert journal.append(2, [Woken(), Woken()], {"a": Launch(("/bin/true",))}) == 1
    assert [one.now_us for one in journal.batches(0)] == [2]
    journal.close()
