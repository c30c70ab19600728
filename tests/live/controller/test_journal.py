"""The journal: what was appended is there after a crash, all of a batch or nothing, and old batches go."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from cohabit.backend.protocol import Launch
from cohabit.live.controller import removal
from cohabit.live.controller.journal import Checkpoint, Journal, JournalError, _Owed, open_journal
from cohabit.model import codec
from cohabit.model.command import WakeAt
from cohabit.model.errors import InputError
from cohabit.model.event import JobSubmitted, Woken
from cohabit.model.job import Job

LAUNCH = Launch(("/bin/true",), {"A": "b"})


def submitted(name: str) -> JobSubmitted:
    return JobSubmitted(Job(name, limit_us=5))


def abandon(journal: Journal) -> None:
    """As kill -9 would leave it: nothing owed is written."""
    journal._owed = _Owed()
    journal.close()


def test_batches_and_launches_survive(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "j.db")
    assert journal.append(10, [submitted("a"), Woken()], {"a": LAUNCH}) == 1
    journal.note(1, [WakeAt(7)], [])
    assert journal.append(20, [Woken()], {}) == 2
    journal.note(2, [WakeAt(8)], [])
    abandon(journal)
    again = open_journal(tmp_path / "j.db")
    first, second = again.batches(0)
    assert (first.now_us, codec.decode_events(first.events)) == (10, [submitted("a"), Woken()])
    assert first.commands == codec.encode([WakeAt(7)])
    assert second.commands is None  # they are written with the next batch, and can be computed again
    assert again.launch_of("a") == LAUNCH
    assert again.launch_of("b") is None
    assert again.known_jobs(["a", "b"]) == {"a"}
    assert again.append(30, [Woken()], {}) == 3
    again.close()


def test_members_of_an_array_execute_what_the_array_does(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "j.db")
    journal.append(1, [submitted("many")], {"many": LAUNCH})
    assert journal.launch_of("many_17") == LAUNCH
    journal.close()


def test_a_replay_begins_at_the_oldest_checkpoint_that_is_kept(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "j.db")
    for seq in range(1, 7):
        journal.append(seq, [Woken()], {})
        if seq in (2, 4):
            journal.checkpoint(Checkpoint(seq, seq, b"core %d" % seq, b""))
    assert journal.oldest_checkpoint() is None  # nothing was removed: with the first batch
    journal.change(lambda connection: removal.remove_batches(connection, 2, 100))
    newest, oldest = journal.newest_checkpoint(), journal.oldest_checkpoint()
    assert newest == Checkpoint(4, 4, b"core 4", b"")
    assert oldest == Checkpoint(2, 2, b"core 2", b"")
    assert [batch.seq for batch in journal.batches(0)] == [3, 4, 5, 6]
    journal.close()


def test_numbers_go_on_after_everything_was_truncated(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "j.db")
    journal.append(1, [Woken()], {})
    journal.checkpoint(Checkpoint(1, 1, b"", b""))
    journal.append(2, [Woken()], {})
    journal.checkpoint(Checkpoint(2, 2, b"", b""))
    journal.close()
    assert open_journal(tmp_path / "j.db").next_seq == 3


def test_a_full_disk_is_said_and_gets_over(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "j.db")
    journal._connection.exec_driver_sql("PRAGMA max_page_count = 12")  # SQLite's own way to be full
    journal._connection.commit()
    big = Launch(("/bin/true",), {"BIG": "x" * 200_000})
    with pytest.raises(JournalError, match="full"):
        journal.append(1, [submitted("a")], {"a": big})
    assert list(journal.batches(0)) == []
    assert journal.known_jobs(["a"]) == set()
    journal._connection.exec_driver_sql("PRAGMA max_page_count = 100000")
    journal._connection.commit()
    assert journal.append(2, [submitted("a")], {"a": big}) == 1
    journal.close()


def test_a_second_writer_is_noticed(tmp_path: Path) -> None:
    one, two = open_journal(tmp_path / "j.db"), open_journal(tmp_path / "j.db")
    one.append(1, [Woken()], {})
    with pytest.raises(JournalError, match="another process writes"):
        two.append(2, [submitted("b")], {})
    one.close()


def test_a_commit_that_took_place_all_the_same_is_not_made_twice(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "j.db")
    journal.append(1, [Woken()], {})
    journal.next_seq = 1  # as if the answer had been lost
    assert journal.append(1, [Woken()], {}) == 1
    assert len(list(journal.batches(0))) == 1
    journal.close()


def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "j.db").write_bytes(b"something else" * 1000)
    with pytest.raises(InputError, match="cannot be used as a journal"):
        open_journal(tmp_path / "j.db")
    open_journal(tmp_path / "k.db").close()
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'k.db'}")
    with engine.begin() as connection:
        connection.exec_driver_sql("update cohabit_live set value = '99' where key = 'version'")
    engine.dispose()
    with pytest.raises(InputError, match="version 99"):
        open_journal(tmp_path / "k.db")


@pytest.mark.system
@pytest.mark.parametrize(
    ("default", "used"), [("on", "on"), ("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")]
)
def test_a_commit_in_postgresql_waits_for_the_disk_whatever_the_default(
    postgres_database: str, default: str, used: str
) -> None:
    """For whoever writes and for whoever reads, and again on a connection made anew."""
    url = sa.make_url(postgres_database).set(drivername="postgresql+psycopg")
    operator = sa.create_engine(url.set(database="postgres"), isolation_level="AUTOCOMMIT")
    with operator.connect() as connection:
        connection.exec_driver_sql(f"ALTER DATABASE {url.database} SET synchronous_commit TO {default}")
    with sa.create_engine(url).connect() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == default
    journal = open_journal(postgres_database)
    for _ in range(2):
        with journal._connection.begin():
            assert journal._connection.exec_driver_sql("SHOW synchronous_commit").scalar() == used
        with operator.connect() as connection:
            connection.execute(
                sa.text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"),
                {"name": url.database},
            )
        with pytest.raises(JournalError):
            journal.get("anything")
    journal.close()
    operator.dispose()
