"""Backup while the controller lives, restore while it does not, and an upgrade in the middle of a job."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cohabit.app.serve.replaying import replay_live
from cohabit.app.serve.serving import Parts
from cohabit.cli.main import app
from cohabit.live.controller.backup import back_up, bring_back, look_at
from cohabit.live.controller.controller import Controller
from cohabit.live.controller.journal import open_journal
from cohabit.live.controller.place import Place, open_place
from cohabit.model.errors import InputError
from tests.live.controller.playing import ended, job, play, shell, until
from tests.live.controller.test_upgrade import OLD


def cohabit(*words: object) -> tuple[int, str]:
    """The command line: its status, and what it printed."""
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=True)
    if isinstance(done.exception, InputError):
        return 2, str(done.exception)
    return done.exit_code, done.stdout


def test_a_backup_of_a_living_controller_is_restored(tmp_path: Path) -> None:
    place, other, file = tmp_path / "place", tmp_path / "other", tmp_path / "copy.db"

    async def scene(controller: Controller, parts: Parts) -> None:
        for number in range(5):
            await controller.submit(job(f"before{number}"), shell("exit 0"))
        await ended(controller, *(f"before{number}" for number in range(5)))
        await controller.submit(job("waits", held=True), shell("exit 0"))
        status, said = await asyncio.to_thread(cohabit, "backup", place, file, "--json")
        assert status == 0
        assert json.loads(said)["jobs"] >= 5
        await controller.submit(job("after"), shell("exit 0"))
        await ended(controller, "after")
        status, said = await asyncio.to_thread(cohabit, "restore", file, place, "--replace")
        assert (status, "another controller uses this folder" in said) == (2, True)
        status, said = await asyncio.to_thread(cohabit, "backup", place, file)
        assert (status, "is there already" in said) == (2, True)
        assert replay_live(place).difference == ""  # while it goes on

    async def check(controller: Controller, parts: Parts) -> None:
        assert await ended(controller, *(f"before{number}" for number in range(5))) == ["done"] * 5
        assert (await controller.view("waits")).state == "held"
        assert await controller.ask(lambda _: parts.journal.known_jobs(["after"])) == set()
        await controller.release("waits")
        assert await ended(controller, "waits") == ["done"]

    play(place, scene)
    assert cohabit("restore", file, other)[0] == 0
    play(other, check)
    status, said = cohabit("restore", file, other)
    assert (status, "there is a journal already" in said) == (2, True)
    assert cohabit("restore", file, other, "--replace")[0] == 0
    assert look_at(Place(other).journal.with_name("journal.db.replaced")).jobs == 6
    play(other, check)
    for where in (place, other, file, Place(other).journal):
        assert cohabit("replay", where, "--verify")[0] == 0


@pytest.mark.system
def test_a_journal_goes_from_a_file_to_postgresql_and_back(tmp_path: Path, postgres_database: str) -> None:
    async def scene(controller: Controller, parts: Parts) -> None:
        await controller.submit(job("one"), shell("exit 0"))
        await controller.submit(job("many", array_count=3), shell("exit 1"))
        assert await ended(controller, "one", "many") == ["done", "failed"]

    async def check(controller: Controller, parts: Parts) -> None:
        assert await ended(controller, "one", "many_2") == ["done", "failed"]
        assert [one.record.job_id for one in (await controller.page("all")).jobs] == [
            "many_2",
            "many_1",
            "many_0",
            "one",
        ]
        await controller.submit(job("two"), shell("exit 0"))
        assert await ended(controller, "two") == ["done"]

    play(tmp_path / "a", scene)
    there = back_up(Place(tmp_path / "a").journal, tmp_path / "copy.db")
    assert bring_back(tmp_path / "copy.db", postgres_database, replace=False) == there
    with pytest.raises(InputError, match="there is a journal already"):
        bring_back(tmp_path / "copy.db", postgres_database, replace=False)
    play(tmp_path / "b", check, database=postgres_database)
    assert replay_live_of(postgres_database) == ""
    back = back_up(postgres_database, tmp_path / "back.db")
    assert back.jobs == there.jobs + 1
    bring_back(tmp_path / "back.db", open_place(tmp_path / "c").journal, replace=False)

    async def last(controller: Controller, parts: Parts) -> None:
        assert await ended(controller, "one", "two") == ["done", "done"]

    play(tmp_path / "c", last)


def replay_live_of(url: str) -> str:
    """As `cohabit replay site.toml` would, for a site whose journal is in a database."""
    from cohabit.app.serve.replaying import _replayed

    return _replayed(open_journal(url)).difference


def test_what_is_no_backup_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("something else" * 100)
    for file, why in (("text.db", "is not a backup"), ("nothing.db", "no such file")):
        status, said = cohabit("restore", tmp_path / file, tmp_path / "place")
        assert (status, why in said) == (2, True)
    status, said = cohabit("backup", tmp_path / "nowhere", tmp_path / "new.db")
    assert (status, "there is no journal" in said) == (2, True)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["place", "text.db"]


def test_a_damaged_journal_differs_on_replay(tmp_path: Path) -> None:
    async def scene(controller: Controller, parts: Parts) -> None:
        await controller.submit(job("one"), shell("exit 0"))
        await ended(controller, "one")

    play(tmp_path / "place", scene)
    journal = open_journal(Place(tmp_path / "place").journal)
    with journal._connection.begin():
        journal._connection.exec_driver_sql("update cohabit_batches set commands = x'90' where seq = 1")
    journal.close()
    status, said = cohabit("replay", tmp_path / "place", "--verify", "--json")
    assert (status, json.loads(said)["identical"]) == (1, False)


def test_a_job_outlives_the_controller_and_its_version(tmp_path: Path) -> None:
    """The old controller stops, its journal is put back to version 1, the new one upgrades it and takes over."""
    mark = tmp_path / "mark"

    async def old(controller: Controller, parts: Parts) -> None:
        await controller.submit(job("long"), shell(f"while ! test -e {mark}; do sleep 0.05; done; exit 3"))
        await controller.submit(job("next", 2), shell("exit 0"))
        await until(controller, "long", "running")

    async def new(controller: Controller, parts: Parts) -> None:
        assert not parts.restored.fresh
        standing = await controller.view("long")
        assert (standing.state, standing.record.attempt, standing.record.nodes) == ("running", 1, ((0, 1),))
        assert (await controller.view("next")).state == "queued"
        mark.touch()
        assert await ended(controller, "long", "next") == ["failed", "done"]
        record = (await controller.view("long")).record
        assert (record.attempt, record.exit_status) == (1, 3)

    play(tmp_path / "place", old)
    as_version_1(Place(tmp_path / "place").journal)
    play(tmp_path / "place", new)


def as_version_1(path: Path) -> None:
    """As the old version would have left it; its tables are those of a real journal of that version."""
    import sqlite3

    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE cohabit_records")
        connection.execute("DROP TABLE cohabit_left_out")
        connection.execute("DROP TABLE cohabit_removed")
        connection.execute("DROP TABLE cohabit_stretches")
        connection.execute("UPDATE cohabit_live SET value = '1' WHERE key = 'version'")
        connection.execute("DELETE FROM cohabit_live WHERE key = 'records'")
        real = path.with_name("real.db")
        real.write_bytes(gzip.decompress(OLD.read_bytes()))
        connection.execute("ATTACH ? AS real", (str(real),))
        tables = "SELECT name FROM {}sqlite_master WHERE type = 'table' ORDER BY name"
        assert connection.execute(tables.format("")).fetchall() == connection.execute(tables.format("real.")).fetchall()
