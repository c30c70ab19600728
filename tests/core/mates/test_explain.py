"""The words for a job that waits for mates, and for a job that waits for nodes held for others."""

from __future__ import annotations

from dataclasses import replace

from cohabit.core.core import SchedulerCore
from cohabit.core.explain import why_waiting
from cohabit.core.protocols import Coupling
from cohabit.model.cluster import uniform_cluster
from cohabit.model.event import JobStarted, JobSubmitted, Woken
from cohabit.model.group import Group, Member, Terms, make_group
from cohabit.model.job import Job
from cohabit.model.peer import COMMITTED
from cohabit.model.scheme import Scheme
from cohabit.model.units import SECOND
from tests.support.builders import policies

TERMS = Terms()


def group(name: str, job: str) -> Group:
    return make_group(name, [Member("a", job), Member("b", job)], TERMS)


def submit(
    core: SchedulerCore, name: str, nodes: int, mates: Group | None = None, user: int = 0, at_s: int = 3
) -> None:
    job = Job(name, 100 * SECOND, processes=nodes, nodes=nodes, user=user, mates=mates)
    core.step(at_s * SECOND, [JobSubmitted(job)])


def holding(nodes: int = 4, user: int = 0) -> SchedulerCore:
    """A core with three of its nodes held for job m."""
    core = SchedulerCore(uniform_cluster(nodes), replace(policies(), mates=Coupling("a", 0, Scheme())))
    submit(core, "m", 3, group("g", "m"), user, at_s=0)
    core.step(TERMS.patience_us, [Woken()])
    return core


def why(core: SchedulerCore, name: str, names_all: bool = False) -> str:
    return why_waiting(core.state, core.policies, name, 10 * SECOND, names_all)


def test_a_held_node_is_not_a_running_job() -> None:
    core = holding()
    submit(core, "x", 2)
    assert why(core, "x") == "needs 2 nodes, 1 idle (0 jobs running, 3 nodes held for job m, which waits for its mates)"


def test_running_jobs_and_holds_are_told_apart() -> None:
    core = holding(9)
    submit(core, "n", 3, group("h", "n"))
    core.step(3 * SECOND + TERMS.patience_us, [Woken()])
    submit(core, "r", 2, at_s=6)
    core.step(6 * SECOND, [JobStarted("r", 1)])
    submit(core, "x", 3, at_s=6)
    held = "6 nodes held for job m and job n, which wait for their mates"
    text = f"needs 3 nodes, 1 idle (1 job running, {held}); by requested times 3 nodes are free in 1 min 36 s"
    assert why(core, "x") == text  # r's two nodes and the idle one


def test_a_hold_has_no_requested_end() -> None:
    """Only running jobs free nodes by requested times."""
    core = holding()
    submit(core, "x", 4)
    assert "by requested times" not in why(core, "x")


def test_held_jobs_of_other_users_are_not_named() -> None:
    core = holding(user=1)
    submit(core, "x", 2, user=2)
    assert "3 nodes held for a job of another user, which waits for its mates" in why(core, "x")
    assert "3 nodes held for job m, which waits for its mates" in why(core, "x", names_all=True)


def test_a_committed_start_is_told() -> None:
    core = holding()
    assert core.state.coupled is not None
    record = core.state.coupled.protocol.groups["g"].record
    record.phase, record.start_at_us = COMMITTED, 13 * SECOND
    assert why(core, "m") == "it keeps 3 nodes and starts in 3 s, together with its mates: b:m is not submitted yet"
