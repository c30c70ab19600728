"""The small parts of the core: commit refuses what no longer holds, rows grow, explanations carry numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest

from cohabit.core import invariants
from cohabit.core.columns import STATE
from cohabit.core.commit import commit
from cohabit.core.core import SchedulerCore
from cohabit.core.decide import decide
from cohabit.core.explain import why_waiting
from cohabit.model.command import StartJob
from cohabit.model.event import JobFinished, JobHeld, NodeDown
from cohabit.model.plan import Placement, Plan, Reserve, Start
from cohabit.model.units import SECOND
from tests.support.builders import scheduler, submitted


def waiting_core() -> SchedulerCore:
    """Node 0 and 1 are busy; "head" wants all four, "small" one."""
    core = scheduler(4)
    core.step(0, [submitted("a", nodes=2)])
    core.step(1, [submitted("head", nodes=4), submitted("small", limit_s=1000)])
    return core


@pytest.mark.parametrize(
    "ranges",
    [((1, 1),), ((2, 2),), ((2, 1), (2, 1)), ((3, 2),), ()],
    ids=["busy", "too many", "one twice", "beyond the machine", "none"],
)
def test_commit_refuses_a_start_that_does_not_hold(ranges: tuple[tuple[int, int], ...]) -> None:
    core = waiting_core()
    core.step(2, [NodeDown(3)])
    before = core.state.idle.copy()
    action = Start(core.state.rows["small"], Placement(ranges))
    assert commit(core.state, Plan([action]), 2) == ([], [action])
    assert np.array_equal(core.state.idle, before)
    invariants.check(core.state)


def test_commit_counts_a_node_once() -> None:
    core = waiting_core()
    core.step(2, [submitted("pair", nodes=2, limit_s=1000)])
    action = Start(core.state.rows["pair"], Placement(((2, 1), (2, 1))))
    assert commit(core.state, Plan([action]), 2) == ([], [action])
    right = Start(core.state.rows["pair"], Placement(((2, 2),)))
    assert commit(core.state, Plan([right]), 2)[1] == []


def test_commit_refuses_who_is_not_waiting() -> None:
    core = waiting_core()
    core.step(2, [JobHeld("small")])
    action = Start(core.state.rows["small"], Placement(((2, 1),)))
    assert commit(core.state, Plan([action]), 2) == ([], [action])
    assert commit(core.state, Plan([Start(core.state.rows["a"], Placement(((2, 2),)))]), 2)[0] == []


def test_decide_says_what_it_promises() -> None:
    core = waiting_core()
    plan = decide(core.view(2), core.policies)
    assert plan.actions == [Reserve(core.state.rows["head"], 100 * SECOND, (4,))]


def test_the_job_table_grows_and_rows_are_used_again() -> None:
    core = scheduler(2, "sjf")
    core.step(0, [submitted("x", nodes=2, limit_s=1)])
    core.step(1, [submitted(f"j{n}", limit_s=1 + n % 7) for n in range(500)])
    invariants.check(core.state)
    assert len(core.state.rows) == 501
    seen, running = [], {"x": 1}
    while running:
        commands = core.step(2 + len(seen), [JobFinished(*running.popitem())])
        invariants.check(core.state) if len(seen) % 50 == 0 else None
        for command in commands:
            if isinstance(command, StartJob):
                seen.append(command.job_id)
                running[command.job_id] = command.attempt
    expected = sorted(range(500), key=lambda n: (n % 7, n))
    assert seen == [f"j{n}" for n in expected]
    assert not core.state.rows
    assert (core.state.jobs[STATE] == 0).all()
    capacity = core.state.jobs.shape[1]
    core.step(10**6, [submitted(f"k{n}") for n in range(500)])
    assert core.state.jobs.shape[1] == capacity, "rows of finished jobs are used again"


def test_explanations_have_numbers() -> None:
    core = waiting_core()
    said = why_waiting(core.state, core.policies, "head", 10 * SECOND)
    assert re.match(r"needs 4 nodes, 2 (are )?idle \(1 job", said)
    assert said.endswith("; promised a start within 1 min 30 s on 4 nodes")
    said = why_waiting(core.state, core.policies, "small", 10 * SECOND)
    assert said == (
        "it fits now (1 of 2 idle nodes) but would delay the first job in the queue: the first needs 4 nodes and "
        "is promised a start within 1 min 30 s, leaving 0 over; this job asks for 16 min 40 s on 1"
    )
    assert why_waiting(core.state, core.policies, "a", 0) == ""
    assert why_waiting(core.state, core.policies, "nobody", 0) == ""
    strict = scheduler(4, backfill="none")
    strict.step(0, [submitted("a", nodes=2), submitted("head", nodes=4), submitted("small")])
    assert "overtake" in why_waiting(strict.state, strict.policies, "small", 0)
