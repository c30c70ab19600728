"""The state keeps rows, nodes and users apart, and forgets what is over."""

from __future__ import annotations

import numpy as np

from cohabit.core.columns import ENDS, EXPECTED, FREE, START, VOID
from cohabit.core.state import DRAINED, State
from cohabit.model.cluster import Cluster, NodeGroup, uniform_cluster
from cohabit.model.event import EndRecalled, EndsForgotten
from cohabit.model.job import Job
from tests.support.builders import policies, scheduler, submitted


def state(nodes: int = 70) -> State:
    return State(uniform_cluster(nodes), policies())


def test_rows_are_used_again_and_are_empty_then() -> None:
    one = state()
    row = one.new_row(Job("a", 5))
    one.jobs[:, row] = 9
    one.forget_row(row)
    assert one.rows == {}
    assert one.new_row(Job("b", 5)) == row
    assert not one.jobs[:, row].any()
    assert one.spec(row).job_id == "b"


def test_a_full_table_grows_and_keeps_what_is_in_it() -> None:
    one = State(uniform_cluster(2), policies(), capacity=4)
    rows = [one.new_row(Job(str(number), 5)) for number in range(4)]
    one.jobs[0, rows] = 7
    last = one.new_row(Job("last", 5))
    assert one.jobs.shape[1] == one.keys.shape[1] == len(one.specs) == 8
    assert one.jobs[0, rows].tolist() == [7] * 4
    assert last not in rows


def test_users_are_numbered_in_order_of_arrival() -> None:
    one = state()
    assert [one.user_number(user) for user in (5000, 17, 5000, -1, 3)] == [0, 1, 0, -1, 2]


def test_a_node_is_idle_or_not_and_counted_once() -> None:
    one = state(70)
    one.set_idle(65, False)
    one.set_idle(65, False)
    assert (one.is_idle(65), one.is_idle(64), one.gauges[FREE]) == (False, True, 69)
    assert np.flatnonzero(~one.idle_nodes()).tolist() == [65]
    one.set_idle(65, True)
    assert one.gauges[FREE] == 70


def test_an_expected_end_is_set_as_if_the_job_began_then() -> None:
    core = scheduler(4)
    core.step(0, [submitted("a", limit_s=50), submitted("b", limit_s=60)])
    one, row = core.state, core.state.rows["a"]
    one.expect_end(row, 20_000_000)
    assert one.jobs[[START, EXPECTED], row].tolist() == [20_000_000, 70_000_000]
    assert one.keys[ENDS, row] == 70_000_000
    assert core.view(0).running().tolist() == [one.rows["b"], row], "in order of the ends"


def test_nodes_are_interchangeable_while_all_are_alike() -> None:
    one = state(4)
    assert one.interchangeable
    one.node_state[2] = DRAINED
    assert not one.interchangeable
    assert not State(Cluster((NodeGroup(2), NodeGroup(2, cores=9, name="large"))), policies()).interchangeable


def test_members_of_a_bounded_array_are_kept_until_the_last_has_gone() -> None:
    one = state()
    one.arrays["a"] = (0, 1)
    rows = [one.new_row(Job(name, 5)) for name in ("a_0", "a_1", "b_0")]
    assert one.members == {"a": {rows[0]: None, rows[1]: None}}
    one.forget_row(rows[0])
    one.forget_row(rows[1])
    assert one.members == {}


def test_void_promises_are_noted() -> None:
    one = state()
    one.void_promises()
    assert one.gauges[VOID] == 1


def test_ends_are_forgotten_and_recalled_unless_the_core_knows_better() -> None:
    core = scheduler(4)
    core.step(0, [submitted("here"), submitted("held", after=("gone",))])
    core.state.finished["old"] = "failed"
    core.step(1, [EndsForgotten()])
    assert core.state.finished == {}
    core.step(2, [EndRecalled("old", "done"), EndRecalled("here", "failed")])
    assert core.state.finished == {"old": "done"}
    core.step(3, [EndRecalled("old", "failed")])
    assert core.state.finished == {"old": "done"}, "what the core knows is newer"
