"""What is remembered of why jobs waited: what is new, not what is said again, and never more than there is room for."""

from __future__ import annotations

from typing import cast

import pytest

from cohabit.core.core import SchedulerCore
from cohabit.live.api import page_waits
from cohabit.live.api.page_waits import AGAIN_US, NOTES_MOST, Waits, first_waits
from cohabit.live.controller import Controller
from cohabit.live.records import Note
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.command import StartJob
from cohabit.model.event import JobStarted, JobSubmitted
from cohabit.model.job import Job
from cohabit.model.units import SECOND


def waits() -> Waits:
    return Waits(cast(Controller, None), lambda: 0)  # nobody is asked here


def test_the_same_reason_is_noted_once_and_with_other_numbers_once_a_minute() -> None:
    one = waits()
    for at_us, why in ((0, "needs 2 nodes, 1 idle"), (5, "needs 2 nodes, 1 idle"), (9, "needs 2 nodes, 0 idle"),
                       (AGAIN_US, "needs 2 nodes, 0 idle"), (AGAIN_US + 1, "held"), (AGAIN_US + 2, "")):  # fmt: skip
        one.note("a", at_us, why)
    assert [note.at_us for note in one.with_those_of("a", ())] == [0, AGAIN_US, AGAIN_US + 1]


def test_what_the_record_keeps_and_what_was_seen_are_one_story() -> None:
    one = waits()
    one.note("a", 10, "needs 2 nodes")
    one.note("a", 30, "held")
    story = one.with_those_of("a", (Note(20, "released"), Note(30, "held"), Note(31, "held")))
    assert [note.why for note in story] == ["needs 2 nodes", "released", "held"]
    assert one.with_those_of("b", ()) == []


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_waits, "JOBS_MOST", 3)
    one = waits()
    for number in range(5):
        one.note(f"job {number}", number, "waits")
    assert [bool(one.with_those_of(f"job {number}", ())) for number in range(5)] == [False, False, True, True, True]
    for number in range(2 * NOTES_MOST):
        one.note("job 4", 100 + number, "a" * (number + 1))
    kept = one.with_those_of("job 4", ())
    assert len(kept) == NOTES_MOST
    assert (kept[0].why, kept[-1].why) == ("waits", "a" * 2 * NOTES_MOST)  # the first and the latest


def test_the_first_of_the_queue_are_asked_about() -> None:
    from cohabit.app.policies import build
    from cohabit.app.scenario import PolicyConfig

    core = SchedulerCore(Cluster((NodeGroup(1, 1),)), build(PolicyConfig()))
    jobs = [JobSubmitted(Job(str(number), 60 * SECOND, nodes=1)) for number in range(3)]
    for order in core.step(0, jobs):
        if isinstance(order, StartJob):
            core.step(1, [JobStarted(order.job_id, order.attempt)])
    found = dict(first_waits(core, 2))
    assert set(found) == {"1", "2"}
    assert "needs 1 node, 0 idle" in found["1"]
