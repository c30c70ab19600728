"""A scan of a long queue leaves nobody out who could start, and looks at few of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from cohabit.core import sharing
from cohabit.core.checkpoint import load, save
from cohabit.core.columns import LIMIT, NODES
from cohabit.core.core import SchedulerCore
from cohabit.core.scan import FIRST_BATCH, QueueScan
from cohabit.core.view import View
from cohabit.model.cluster import Window
from cohabit.model.command import StartJob
from cohabit.model.event import Event, JobChanged, JobFinished, JobStarted
from cohabit.model.plan import Ask
from cohabit.model.units import SECOND
from tests.support.builders import policies, scheduler, submitted
from tests.support.clusters import MEMORY, SHARED, SHARED_CLUSTERS
from tests.support.programs import PROFILES, PROGRAMS


def waiting(core: SchedulerCore, rng: np.random.Generator, jobs: int) -> View:
    """A view of a core with a queue of many sizes, limits and memory; nodes are down, so that nobody starts."""
    events: list[Event] = [
        submitted(f"j{n}", int(rng.integers(1, 5)), float(rng.integers(0, 50)), memory_bytes=int(rng.choice([0, 3, 9])))
        for n in range(jobs)
    ]
    core.step(0, [submitted("all", 5, 10_000.0)])
    core.step(1, events)
    return core.view(2)


@pytest.mark.parametrize("seed", range(5))
def test_only_those_who_stand_behind_a_failure_like_themselves_are_left_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    view = waiting(scheduler(MEMORY, backfill="first-fit"), rng, 700)
    rows = view.queued()
    scan, failed, looked_at = QueueScan(view, rows, by_limit=True), list[tuple[int, int]](), list[int]()
    scan.room = 4
    numbers = dict(zip(rows.tolist(), view.descriptions(rows).tolist(), strict=True))
    for row, hopeless, _ in scan:
        assert not hopeless  # nobody is aged here, so nobody else is told of
        looked_at.append(row)
        if rng.random() < 0.5:
            failed.append((numbers[row], int(view.jobs[LIMIT, row])))
            scan.give_up()
        if rng.random() < 0.01:
            scan.room = max(scan.room - 1, 1)
    left_out = set(rows.tolist()) - set(looked_at)
    assert looked_at == [row for row in rows.tolist() if row not in left_out]  # in order
    for row in left_out:
        alike = any(number == numbers[row] and limit <= view.jobs[LIMIT, row] for number, limit in failed)
        assert alike or view.jobs[NODES, row] > scan.room
    assert len(left_out) > 300


def test_everybody_is_told_of_where_everybody_matters_and_the_aged_always() -> None:
    core = SchedulerCore(MEMORY, policies("age", "first-fit", None, "exclusive", 5.0))
    waiting(core, np.random.default_rng(1), 3 * FIRST_BATCH)
    view = core.view(6 * SECOND)
    rows = view.queued()
    scan = QueueScan(view, rows, by_limit=True)
    scan.room = 0
    assert view.aged(rows).all()
    assert [(one.row, one.hopeless) for one in scan] == [(row, True) for row in rows.tolist()]
    young = core.view(2)
    scan = QueueScan(young, rows, by_limit=True)
    scan.room = 0
    assert list(scan) == []
    scan.skips_none = True
    assert [one.row for one in scan] == rows.tolist()


def test_jobs_are_alike_by_what_a_search_looks_at_also_when_they_change() -> None:
    core = scheduler(MEMORY, backfill="first-fit")
    core.step(0, [submitted("all", 5, 1000.0)])
    core.step(1, [submitted("a", 2), submitted("b", 2, user=7), submitted("c", 2, memory_bytes=9), submitted("d", 3)])
    numbers = core.view(1).descriptions(core.view(1).queued()).tolist()
    assert numbers[0] == numbers[1]
    assert len(set(numbers)) == 3
    closed_for_a_while = replace(SHARED, windows=(Window(500 * SECOND, 600 * SECOND, 0, 2),))
    shared = SchedulerCore(closed_for_a_while, policies("age", "first-fit", None, "spread"))
    shared.step(0, [submitted(name, program="stream", processes=8, held=True) for name in "ab"])
    rows = np.array([shared.state.rows[name] for name in "ab"])
    assert len(set(shared.view(0).descriptions(rows).tolist())) == 1
    shared.step(1, [JobChanged("b", 5 * SECOND, None)])
    assert len(set(shared.view(1).descriptions(rows).tolist())) == 2  # where there are windows, limits matter


@pytest.mark.parametrize("name", sorted(SHARED_CLUSTERS))
def test_room_for_many_at_once_is_room_for_each(name: str) -> None:
    rng = np.random.default_rng(3)
    core = SchedulerCore(SHARED_CLUSTERS[name], policies("age", "first-fit", None, "spread"), profiles=PROFILES)
    for number in range(40):
        program = str(rng.choice(PROGRAMS))
        orders = core.step(number, [submitted(f"j{number}", program=program, processes=int(rng.integers(1, 12)))])
        core.step(number, [JobStarted(one.job_id, one.attempt) for one in orders if isinstance(one, StartJob)])
        view, placer = core.view(number), core.policies.placer
        takes = [one.takes for row in view.queued().tolist() for one in view.asks(row, placer)]  # type: ignore[arg-type]
        assert view.ledger.rooms(takes).tolist() == [view.ledger.room(one) for one in takes]


def test_a_full_machine_is_not_searched_for_thousands_of_different_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, rng, start = list[int](), np.random.default_rng(4), sharing.SharedPass.start

    def counted(one: sharing.SharedPass, row: int, asks: Sequence[Ask]) -> bool:
        tried.append(row)
        return start(one, row, asks)

    monkeypatch.setattr(sharing.SharedPass, "start", counted)
    core = SchedulerCore(SHARED, policies("age", "first-fit", None, "share"))
    core.step(0, [submitted("all", processes=32, limit_s=1e6)])
    core.step(1, [submitted(f"j{n}", processes=int(rng.integers(1, 33)), memory_bytes=n) for n in range(3000)])
    again = load(save(core), SHARED, core.policies)
    again.step(2, [submitted("last", processes=1)])  # nothing is kept of the asks: they are found again
    tried.clear()
    core.step(2, [submitted("last", processes=1)])
    assert len(tried) <= sharing.IN_VAIN + 1
    begun = [one.job_id for one in core.step(3, [JobFinished("all", 1)]) if isinstance(one, StartJob)]
    assert begun[0] == "j0"
    assert begun == [one.job_id for one in again.step(3, [JobFinished("all", 1)]) if isinstance(one, StartJob)]
