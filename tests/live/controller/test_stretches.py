"""A journal under several policies, one after the other: each stretch is replayed under its own, a crash leaves one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from cohabit.backend.protocol import Launch
from cohabit.core.columns import STATE
from cohabit.live.controller.inbox import Entry
from cohabit.live.controller.journal import Checkpoint, Journal, JournalError, open_journal
from cohabit.live.controller.recovery import Restored, Stretch, restore, verify
from cohabit.live.controller.removal import remove_batches
from cohabit.live.controller.stepping import Stepper
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.command import StartJob
from cohabit.model.event import Event, JobFinished, JobStarted, JobSubmitted, Woken
from cohabit.model.units import SECOND
from tests.support.builders import policies, submitted

CLUSTER = Cluster((NodeGroup(2, 8),))
FIRST, SECOND_ONE, THIRD = (
    policies("age", "first-fit", None, "share"),
    policies("fcfs", "easy"),
    policies("sjf", "conservative"),
)


def under(chosen: object) -> Cluster:
    return replace(CLUSTER, sharing="exclusive" if chosen.placer.exclusive else "shared")  # type: ignore[attr-defined]


class Life:
    """A stepper over a journal, with a clock of its own."""

    def __init__(self, journal: Journal, chosen: object) -> None:
        self.now_us, self.journal = 0, journal
        self.restored: Restored = restore(journal, under(chosen), chosen)  # type: ignore[arg-type]
        self.now_us = self.restored.last_us
        self.stepper = Stepper(journal, self.restored, lambda: self.now_us)

    def tell(self, *events: Event) -> list[str]:
        """Tell them a second later; return the jobs that start, and confirm them."""
        self.now_us += SECOND
        entries = [Entry(one, Launch(("true",)) if isinstance(one, JobSubmitted) else None) for one in events]
        begun = [one for one in self.stepper.step(entries).commands if isinstance(one, StartJob)]
        if begun:
            self.stepper.step([Entry(JobStarted(one.job_id, one.attempt)) for one in begun])
        return [one.job_id for one in begun]

    def change(self, chosen: object, ended: str, now: str) -> tuple[int, int]:
        return self.stepper.go_on_under(under(chosen), chosen, ended, {"settings": now}, b"\x90")  # type: ignore


def begun(journal: Journal) -> Life:
    """Two jobs beside each other, one on the other node, and two that wait."""
    journal.put({"settings": "first"})
    life = Life(journal, FIRST)
    sizes = {"a": 5, "b": 5, "beside": 3}
    assert life.tell(*(submitted(name, processes=size) for name, size in sizes.items())) == [*sizes]
    assert life.tell(submitted("c", processes=8), submitted("d", processes=8)) == []
    return life


def test_every_stretch_is_replayed_under_its_own_settings(where: Path | str) -> None:
    journal = open_journal(where)
    life = begun(journal)
    assert life.change(SECOND_ONE, "first", "second") == (2, 3)
    upto = journal.next_seq - 1
    life.tell(Woken())
    life.tell(JobFinished("a", 1), submitted("e", processes=2, limit_s=5))
    life.tell(JobFinished("b", 1), JobFinished("beside", 1))
    second = journal.next_seq - 1
    life.change(THIRD, "second", "third")
    life.tell(Woken())
    names = sorted(life.stepper.core.state.rows)
    assert [one.settings for one in journal.ended_stretches()] == ["first", "second"]
    assert journal.get("settings") == "third"
    stretches = [Stretch(upto, under(FIRST), FIRST), Stretch(second, under(SECOND_ONE), SECOND_ONE)]
    journal.flush()
    found = verify(journal, under(THIRD), THIRD, stretches)
    assert (found.difference, found.stretches) == ("", 3)
    wrong = [one._replace(cluster=under(SECOND_ONE), policies=SECOND_ONE) for one in stretches]
    assert verify(journal, under(THIRD), THIRD, wrong).difference
    again = restore(journal, under(THIRD), THIRD)
    assert sorted(again.core.state.rows) == names
    journal.close()


def test_it_goes_on_from_the_change_without_the_policies_before(where: Path | str) -> None:
    journal = open_journal(where)
    life = begun(journal)
    life.change(SECOND_ONE, "first", "second")
    before = {name: int(life.stepper.core.state.jobs[STATE, row]) for name, row in life.stepper.core.state.rows.items()}
    again = Life(journal, SECOND_ONE)
    assert not again.restored.fresh
    rows = again.stepper.core.state.rows
    assert {name: int(again.stepper.core.state.jobs[STATE, row]) for name, row in rows.items()} == before
    assert {one.job_id for one in again.restored.recorder.living.values()} == set(before)
    journal.close()


@pytest.mark.parametrize("statement", range(1, 7))
def test_a_crash_within_the_change_leaves_the_settings_before(tmp_path: Path, statement: int) -> None:
    """Whatever of its statements fails: the core, the settings and the stretches are those of before, or of after."""
    journal = open_journal(tmp_path / "journal.db")
    life = begun(journal)
    count = 0

    def fail(*_: object) -> None:
        nonlocal count
        count += 1
        if count == statement:
            raise sa.exc.OperationalError("killed", None, Exception("killed"))

    engine = journal._engine
    sa.event.listen(engine, "before_cursor_execute", fail)
    changed = True
    try:
        life.change(SECOND_ONE, "first", "second")
    except JournalError:
        changed = False
    sa.event.remove(engine, "before_cursor_execute", fail)
    assert count >= min(statement, 5)
    found = journal.newest_checkpoint()
    assert journal.get("settings") == ("second" if changed else "first")
    assert (found is not None) == changed == bool(journal.ended_stretches())
    if not changed:
        assert life.stepper.core.policies is FIRST
        assert life.tell(JobFinished("a", 1)) == []
        assert verify(journal, under(FIRST), FIRST).difference == ""
    journal.close()


def test_two_changes_in_one_place_keep_the_first_stretch(where: Path | str) -> None:
    journal = open_journal(where)
    life = begun(journal)
    life.change(SECOND_ONE, "first", "second")
    life.change(THIRD, "second", "third")
    upto = journal.next_seq - 1
    assert journal.ended_stretches() == [(upto, "first")]
    life.tell(Woken())
    journal.flush()
    found = verify(journal, under(THIRD), THIRD, [Stretch(upto, under(FIRST), FIRST)])
    assert (found.difference, found.stretches) == ("", 2)
    journal.close()


def test_stretches_go_with_their_batches(where: Path | str) -> None:
    journal = open_journal(where)
    life = begun(journal)
    life.change(SECOND_ONE, "first", "second")
    upto = journal.next_seq - 1
    life.tell(Woken())
    journal.change(lambda one: remove_batches(one, upto, 1000))
    assert journal.ended_stretches() == []
    assert verify(journal, under(SECOND_ONE), SECOND_ONE).difference == ""
    assert journal.oldest_checkpoint() is not None
    assert isinstance(journal.oldest_checkpoint(), Checkpoint)
    journal.close()
