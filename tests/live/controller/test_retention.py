"""Retention: what is older than [keep] says goes, nothing else does, also when it is killed at any step."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from cohabit.app.serve.pruning import _Alone, prune_stopped
from cohabit.app.serve.serving import Parts, ServeConfig, verify_journal
from cohabit.launcher import outputs
from cohabit.launcher.settings import Users
from cohabit.live.api.audit import remove_old
from cohabit.live.controller import controller as living
from cohabit.live.controller import removal
from cohabit.live.controller.controller import Controller
from cohabit.live.controller.journal import Checkpoint, Journal, open_journal
from cohabit.live.controller.place import Place
from cohabit.live.controller.records import OVER, Record
from cohabit.live.controller.refusals import RemovedJob
from cohabit.live.controller.removal import OldFacts, Portion
from cohabit.live.controller.retention import DAY_S, KeepConfig, Pruned, Retention
from cohabit.model.errors import InputError
from cohabit.model.event import Woken
from cohabit.model.units import SECOND
from tests.live.controller.playing import ended, job, play, shell

KEPT = 6  # records that the pruned place keeps
KEEP = KeepConfig(records=KEPT, journal_days=-1, journal_batches=8, outputs_days=365)


def over(name: str, ordinal: int, end_us: int, **others: Any) -> Record:
    return Record(name, ordinal, OVER, 1000, end_us=end_us, status="done", **others)


def write(journal: Journal, *records: Record) -> None:
    seq = journal.append(max(one.end_us or 0 for one in records), [Woken()], {})
    journal.note(seq, [], records)
    journal.flush()


# ---- records --------------------------------------------------------------------------------------------------------


def test_records_go_by_age_and_by_number_and_their_names_stay_used(where: Path | str) -> None:
    journal = open_journal(where)
    members = [over(f"many_{number}", 10 + number, 20 + number, array="many") for number in (3, 4)]
    write(journal, over("old", 1, 10), over("7", 2, 11), *members, over("many", 20, 24, members=2, array_first=3),
          over("new", 30, 50), over("newer", 31, 60), Record("lives", 32))  # fmt: skip

    def cut(cut_us: int, most: int) -> int:
        return journal.change(lambda one: removal.records_cut(one, cut_us, most))

    assert (cut(40, -1), cut(0, 2), cut(40, 2), cut(55, 2), cut(0, 100)) == (40, 24, 40, 55, 0)
    assert (journal.removed("0"), journal.known_jobs(["0"])) == (None, set())
    due = journal.change(lambda one: removal.due_records(one, 40))
    first = journal.change(lambda one: removal.remove_records(one, 40, 4, True))
    assert (first.count, set(journal.records_of(["many", "many_4"]))) == (4, {"many"})  # an array goes last
    assert first.plus(journal.change(lambda one: removal.remove_records(one, 40, 4, True))) == due
    assert due.bytes > 0
    assert journal.change(lambda one: removal.remove_records(one, 40, 4, True)) == Portion()
    names = ["old", "7", "6", "8", "many", "many_3", "many_9", "new", "newer", "lives", "never"]
    assert set(journal.records_of(names)) == {"new", "newer", "lives"}
    assert journal.known_jobs(names) == set(names) - {"8", "never"}
    gone = {name: journal.removed(name) for name in names}
    assert {name for name, one in gone.items() if one is not None and one.owner == 1000} == {"old", "many", "many_3"}
    assert {name for name, one in gone.items() if one is not None and one.owner is None} == {"6", "7"}
    journal.close()


def test_a_member_that_went_before_its_array_is_known_as_removed(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "j.db")
    member = over("many_3", 3, 20, array="many")
    write(journal, member, Record("many", 2, user=1000, members=2, array_first=3), Record("many_4", 4, array="many"))
    journal.change(lambda one: removal.remove_records(one, 40, 10, True))
    gone = [journal.removed(name) for name in ("many_3", "many_4", "many_5", "many")]
    assert gone == [removal.Gone(1000), None, None, None]
    journal.close()


def test_numbers_of_a_steered_manager_may_be_used_again(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "j.db")
    write(journal, over("12", 1, 10), over("name", 2, 11))
    journal.change(lambda one: removal.remove_records(one, 40, 10, False))
    assert journal.known_jobs(["11", "12", "name"]) == {"name"}
    journal.close()


# ---- the journal ----------------------------------------------------------------------------------------------------


def test_which_facts_are_old(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "j.db")
    for seq in range(1, 41):
        journal.append(seq * 10, [Woken()], {})
        if seq % 10 == 0:
            journal.checkpoint(Checkpoint(seq, seq * 10, b"core", b""))

    def found(cut_us: int, most: int) -> OldFacts:
        return journal.change(lambda one: removal.find_old_facts(one, cut_us, most))

    assert found(0, -1) == OldFacts(0, [20])  # one so close to another is not needed for replays
    assert found(150, -1) == OldFacts(10, [20])
    assert found(150, 15) == OldFacts(20, [10])
    assert found(1000, 0) == OldFacts(30, [10, 20])  # the newest and the one before it stay
    old = found(1000, 0)
    due = journal.change(lambda one: removal.due_facts(one, old))
    assert due.count == 30
    journal.change(lambda one: removal.remove_checkpoints(one, old.checkpoints))
    assert journal.oldest_checkpoint() is None  # from the first batch on, as long as that is there
    removed = journal.change(lambda one: removal.remove_batches(one, old.upto, 25))
    assert (removed.count, journal.oldest_checkpoint()) == (25, Checkpoint(30, 300, b"core", b""))
    assert journal.change(lambda one: removal.remove_batches(one, old.upto, 25)).count == 5
    assert [batch.seq for batch in journal.batches(0)] == list(range(31, 41))
    journal.close()


def test_the_file_shrinks_in_portions_and_one_of_an_earlier_version_when_it_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    with sqlite3.connect(path) as old:  # as earlier versions made it
        old.execute("CREATE TABLE cohabit_live (key VARCHAR(40) PRIMARY KEY, value TEXT)")
    for form in ("old", "new"):
        journal = open_journal(path)
        with journal._connection.begin():
            journal._connection.exec_driver_sql("CREATE TABLE big (content BLOB)")
            journal._connection.exec_driver_sql("INSERT INTO big VALUES (zeroblob(14000000))")
            journal._connection.exec_driver_sql("DROP TABLE big")
        portions = 0
        while journal.shrink(250):
            portions += 1
        journal._sqlite().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        size = path.stat().st_size
        if form == "old":
            assert (portions, size > 13_000_000) == (0, True)
            assert not journal.shrink()
            assert path.stat().st_size < 1_000_000
        else:
            assert portions > 3
            assert size < 10_000_000
        journal.close()


# ---- the audit log --------------------------------------------------------------------------------------------------


def test_files_of_the_audit_log_go_by_the_age_of_their_last_line(tmp_path: Path) -> None:
    log, now_s = tmp_path / "audit.jsonl", time.time()
    for days, name in ((10, "audit.jsonl"), (200, "audit.jsonl.1"), (400, "audit.jsonl.2")):
        (tmp_path / name).write_text(json.dumps({"at": now_s - (days + 60) * DAY_S}) + "\n")
        os.utime(tmp_path / name, (0, now_s - days * DAY_S))
    size = log.with_name("audit.jsonl.2").stat().st_size
    assert remove_old(log, 365 * DAY_S, now_s, True) == Portion(1, size)
    assert len(list(tmp_path.iterdir())) == 3
    assert remove_old(log, 365 * DAY_S, now_s, False) == Portion(1, size)
    ages = {one.name: round((now_s - one.stat().st_mtime) / DAY_S) for one in tmp_path.iterdir()}
    assert ages == {"audit.jsonl.1": 10, "audit.jsonl.2": 200}  # the first of its lines was old enough
    assert remove_old(log, 365 * DAY_S, now_s, False) == Portion()


# ---- a whole place --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lived_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with finished jobs, one that waits, several checkpoints, and an old audit log."""
    place = tmp_path_factory.mktemp("retention") / "place"

    async def scene(controller: Controller, parts: Parts) -> None:
        await controller.submit(job("waits", held=True), shell("true"))
        for number in range(1, 11):
            await controller.submit(job(str(number)), shell("echo something"))
            await ended(controller, str(number))
        await controller.submit(job("many", array_first=1, array_count=4), shell("echo something"))
        await ended(controller, "many")

    before, living.CHECKPOINT_EVERY = living.CHECKPOINT_EVERY, 4
    try:
        play(place, scene)
    finally:
        living.CHECKPOINT_EVERY = before
    old = Place(place).audit.with_name("audit.jsonl.3")
    old.write_text("{}\n")
    os.utime(old, (0, 0))
    return place


@pytest.fixture
def place(lived_in: Path, tmp_path: Path) -> Path:
    shutil.copytree(lived_in, tmp_path / "place")
    return tmp_path / "place"


def quickly(place: Path) -> Pruned:
    """`prune_stopped` with the launcher's code for outputs in this process: what is killed is the whole of it."""
    places = Users((0, 0), False), place / "runs", place / "output"

    async def remove_outputs(uid: int, jobs: list[str], dry_run: bool) -> dict[str, Any]:
        return outputs.remove_outputs(*places, {"uid": uid, "jobs": jobs, "dry_run": dry_run})

    async def prune() -> Pruned:
        journal = open_journal(Place(place).journal)
        now_us = round(time.time() * SECOND)
        retention = Retention(KEEP, journal, _Alone(journal), lambda: now_us, Place(place).audit, remove_outputs)
        found = await retention.prune()
        journal.shrink()
        journal.close()
        return found

    return asyncio.run(prune())


def content(place: Path) -> dict[str, Any]:
    """All that is in a journal, and which outputs and parts of the audit log are there."""
    with sqlite3.connect(Place(place).journal) as one:
        names = [row[0] for row in one.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        found: dict[str, Any] = {name: sorted(one.execute(f"SELECT * FROM {name}")) for name in names}
    logs = sorted(one.name for one in Place(place).private.iterdir() if "audit" in one.name)
    return found | {"outputs": sorted(one.name for one in (place / "output").iterdir()), "audit": logs}


def test_a_pruned_place_is_replayed_and_goes_on(place: Path) -> None:
    config = ServeConfig(place, 2, keep=KEEP)
    would = prune_stopped(config, True, print)
    before = content(place)
    found = prune_stopped(config, False, print)
    assert found == would
    assert all(one.count and one.bytes for one in found)
    after = content(place)
    kept = {row[0] for row in after["cohabit_records"]}
    assert (
        {"waits", "10", "many", "many_1", "many_2", "many_3", "many_4"}
        <= kept
        < {row[0] for row in before["cohabit_records"]}
    )
    gone = {str(number) for number in range(1, 11)} - kept
    assert gone >= {"1", "2", "3"}
    assert set(before["outputs"]) - set(after["outputs"]) == {f"{name}.out" for name in gone}
    assert len(after["cohabit_batches"]) < len(before["cohabit_batches"])
    verified = verify_journal(ServeConfig(place, 2))
    assert (verified.difference, verified.batches) == ("", len(after["cohabit_batches"]))

    async def scene(controller: Controller, parts: Parts) -> None:
        assert (await controller.view("waits")).state == "held"
        with pytest.raises(RemovedJob, match="removed by retention"):
            await controller.view("1")
        with pytest.raises(RemovedJob, match="removed by retention"):
            await controller.cancel("1")
        with pytest.raises(InputError, match="was here before"):
            await controller.submit(job("1"), shell("true"))
        await controller.release("waits")
        assert await ended(controller, "waits") == ["done"]

    play(place, scene)


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.wide])])
def test_a_kill_at_any_step_loses_nothing_that_is_kept(lived_in: Path, tmp_path: Path, every: int) -> None:
    """At every statement to the database and every change of a file; afterwards the rest is removed as ever."""
    whole = tmp_path / "whole"
    shutil.copytree(lived_in, whole)
    steps = killed_at(whole, 0)
    wanted = content(whole)
    assert steps > 40
    for step in range(1, steps + 1, every):
        place = tmp_path / "place"
        shutil.copytree(lived_in, place)
        assert killed_at(place, step) < 0
        assert verify_journal(ServeConfig(place, 2)).difference == "", f"killed at step {step}"
        kept = content(place)
        for table in ("cohabit_records", "cohabit_jobs", "cohabit_batches", "cohabit_checkpoints"):
            missing = set(wanted[table]) - set(kept[table])
            assert not missing, f"killed at step {step}: {table}"
        assert set(wanted["outputs"]) <= set(kept["outputs"])
        assert set(wanted["audit"]) <= set(kept["audit"])
        quickly(place)
        assert content(place) == wanted, f"killed at step {step}"
        shutil.rmtree(place)


def killed_at(place: Path, step: int) -> int:
    """Prune in a process that kills itself at this step, which gives -1; 0: never, and the number of steps."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        passed = 0

        def pass_by(*_: object) -> None:
            nonlocal passed
            passed += 1
            if passed == step:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            sa.event.listen(sa.Engine, "before_cursor_execute", pass_by)
            sa.event.listen(sa.Engine, "commit", pass_by)
            sys.addaudithook(lambda name, _: pass_by() if name in ("os.remove", "os.rename") else None)
            quickly(place)
            os.write(writes, str(passed).encode())
        finally:
            os._exit(0)
    os.close(writes)
    with open(reads) as stream:
        said = stream.read()
    _, status = os.waitpid(child, 0)
    return int(said) if said else -os.WTERMSIG(status)
