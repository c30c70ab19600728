"""Journals of older versions: opened, brought up to date, gone on with; those of newer ones are refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import sqlalchemy as sa

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve.serving import Parts
from cohabit.live.controller import journal_schema, records
from cohabit.live.controller.controller import Controller
from cohabit.live.controller.journal import RECORDED, open_journal
from cohabit.live.controller.place import Place
from cohabit.live.controller.recovery import restore, verify
from cohabit.model.cluster import uniform_cluster
from cohabit.model.errors import InputError
from cohabit.model.event import EndRecalled, JobSubmitted
from cohabit.model.job import Job
from cohabit.model.units import SECOND
from tests.live.controller.playing import ended, job, play, shell, until

OLD = Path(__file__).parent / "data" / "journal-v1.db.gz"  # written by the last version that had no records


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A journal of version 1: jobs that are over, one that runs since before its checkpoint, two that wait."""
    path = tmp_path / "journal.db"
    path.write_bytes(gzip.decompress(OLD.read_bytes()))
    return path


def test_an_old_journal_is_upgraded_and_its_jobs_get_records(old: Path) -> None:
    cluster, policies = uniform_cluster(2), build(PolicyConfig())
    journal = open_journal(old)
    assert journal.get("version") == str(journal_schema.VERSION)
    assert verify(journal, cluster, policies).difference == ""
    restored = restore(journal, cluster, policies)
    assert set(restored.recorder.living) == {"long", "wide", "follower"}
    assert (restored.recorder.living["long"].nodes, restored.recorder.living["long"].user) == (((0, 1),), 1000)
    journal.append(restored.last_us + 1, [], {})
    journal.close()
    again = open_journal(old)
    found = again.records_of(["good", "bad", "many", "many_0", "later", "long", "wide", "follower"])
    stands = {name: one.status for name, one in found.items()}
    assert stands == {
        "good": "done", "bad": "failed", "many": "done", "many_0": "done", "later": "done", "long": "", "wide": "",
        "follower": "",
    }  # fmt: skip
    later = found["later"]
    assert 0 < (later.submit_us or 0) <= (later.end_us or 0)
    assert again.recorded == again.next_seq - 2  # the batch appended last is not
    twice = restore(again, cluster, policies)
    assert twice.recorder.living == restored.recorder.living
    seq = again.append(twice.last_us + 2, [EndRecalled("bad", "failed"), JobSubmitted(Job("x", SECOND))], {})
    assert seq == again.next_seq - 1
    again.close()


def test_an_upgrade_leaves_jobs_that_run_alone(tmp_path: Path) -> None:
    """The old version ends, its runner does not; the new one upgrades the journal, and finds the run."""
    place, mark, count = tmp_path / "place", tmp_path / "mark", tmp_path / "count"

    async def before(controller: Controller, parts: Parts) -> None:
        text = f"echo once >> {count}; while ! test -e {mark}; do sleep 0.05; done; exit 3"
        await controller.submit(job("good"), shell("exit 0"))
        assert await ended(controller, "good") == ["done"]
        await controller.submit(job("runs"), shell(text))
        await controller.submit(job("waits", nodes=2), shell("exit 0"))
        await until(controller, "runs", "running")

    async def after(controller: Controller, parts: Parts) -> None:
        assert parts.journal.get("version") == str(journal_schema.VERSION)
        assert (await controller.view("runs")).state == "running"
        assert (await controller.view("good")).state == "done"
        mark.touch()
        assert await ended(controller, "runs", "waits") == ["failed", "done"]
        assert (await controller.view("runs")).record.exit_status == 3

    play(place, before)
    as_version_1(Place(place).journal)
    try:
        play(place, after)
    finally:
        mark.touch()
    assert count.read_text() == "once\n"


def as_version_1(path: Path) -> None:
    """What the first version would have left: no records, and nothing that says how far they go."""
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        for table in (
            journal_schema.RECORDS, journal_schema.LEFT_OUT, journal_schema.REMOVED, journal_schema.STRETCHES,
        ):  # fmt: skip
            connection.exec_driver_sql(f"DROP TABLE {table}")
        meta = journal_schema.meta
        connection.execute(sa.update(meta).where(meta.c.key == "version").values(value="1"))
        connection.execute(sa.delete(meta).where(meta.c.key == RECORDED))
    engine.dispose()


def test_both_ways_to_today_give_the_same_tables(old: Path, tmp_path: Path) -> None:
    """By all the steps, and by what the code thinks the tables are."""
    open_journal(old).close()
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'plain.db'}")
    journal_schema.today.create_all(engine)

    def shape(one: sa.Engine) -> dict[str, object]:
        look = sa.inspect(one)
        return {
            table: (
                [(column["name"], str(column["type"]), column["nullable"]) for column in look.get_columns(table)],
                look.get_pk_constraint(table)["constrained_columns"],
                sorted((str(index["name"]), tuple(index["column_names"])) for index in look.get_indexes(table)),
            )
            for table in look.get_table_names()
        }

    upgraded = sa.create_engine(f"sqlite:///{old}")
    assert shape(upgraded) == shape(engine)
    for one in (engine, upgraded):
        one.dispose()


def test_an_upgrade_that_fails_leaves_the_old_journal(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(connection: sa.Connection) -> None:
        journal_schema._version_2(connection)
        connection.exec_driver_sql("select something from nowhere")

    monkeypatch.setattr(journal_schema, "STEPS", (journal_schema._version_1, broken))
    with pytest.raises(InputError, match="no such table"):
        open_journal(old)
    monkeypatch.undo()
    journal = open_journal(old)
    with journal.reader().connect() as connection:
        assert records.page(connection, records.ALL).records == []
    journal.close()


def test_a_journal_of_a_newer_version_is_refused(where: Path | str) -> None:
    journal = open_journal(where)
    journal.put({"version": "99"})
    journal.close()
    with pytest.raises(InputError, match="version 99, this cohabit knows versions up to 5; use the newer cohabit"):
        open_journal(where)
