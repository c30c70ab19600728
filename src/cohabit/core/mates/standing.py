"""What a domain tells the others of its nodes, and the deadlock it finds in what they tell (core/mates/deadlock.py)."""

from __future__ import annotations

from cohabit.core.columns import BLOCKED, HOLDING, NODES, QUEUED, STATE
from cohabit.core.mates import deadlock, schemes
from cohabit.core.mates.deadlock import MateReport
from cohabit.core.mates.local import CoupledState, MateJob
from cohabit.core.state import State
from cohabit.model.peer import MOST_STANDING, NEVER, READY, VOTED, GroupNodes, Standing


def waits_for_held(state: State, name: str, job: MateJob) -> bool:
    """Return whether a job waits in its queue while one of its mates holds nodes elsewhere."""
    about, row = state.coupled, state.rows.get(name, -1)
    known = None if about is None else about.protocol.groups.get(job.group)
    if row < 0 or known is None or row in state.held or state.jobs[STATE, row] not in (QUEUED, BLOCKED):
        return False
    return any(view.phase in (READY, VOTED) for view in known.views.values())


def wanted_elsewhere(state: State, about: CoupledState) -> list[str]:
    """Return waiting jobs whose mates hold nodes in other domains, in the same order everywhere.

    They are the first to get what a release has freed. The paper's release does not know them, and two domains can then
    release and hold again in step for ever.
    """
    found = [(job.group, name) for name, job in about.jobs.items() if waits_for_held(state, name, job)]
    return [name for _, name in sorted(found)]


def holding(state: State, about: CoupledState) -> list[int]:
    """Return the rows of the jobs that hold nodes without running."""
    rows = [state.rows.get(name, -1) for name in about.aside]
    return [row for row in rows if row >= 0 and state.jobs[STATE, row] == HOLDING]


def hold_or_yield(state: State, about: CoupledState, now_us: int, row: int) -> str:
    """Return what the scheme says of a job with nodes whose mates cannot start now."""
    name = state.spec(row).job_id
    job, nodes = about.jobs[name], state.jobs[NODES]
    return schemes.when_not_together(
        about.scheme_of(name),
        job_nodes=int(nodes[row]),
        held_nodes=sum(int(nodes[other]) for other in holding(state, about) if other != row),
        all_nodes=len(state.node_state),
        yields=job.yields - (name in about.repeats),  # it decides as it did the last time
        mates_in_us=NEVER if job.mates_expect_us == NEVER else job.mates_expect_us - now_us,
    )


def own_standing(state: State, about: CoupledState) -> Standing | None:
    """Return the idle nodes, what jobs with mates hold, and what those wait for whose mates hold nodes elsewhere."""
    found = []
    for name, job in about.jobs.items():
        row = state.rows.get(name, -1)
        holds = row >= 0 and state.jobs[STATE, row] == HOLDING
        if holds or waits_for_held(state, name, job):
            found.append(GroupNodes(job.group, bool(holds), int(state.jobs[NODES, row])))
    if not found:
        return None
    return Standing(state.idle_count, tuple(sorted(found, key=lambda one: (not one.holds, one.group))[:MOST_STANDING]))


def look_for_deadlock(state: State, about: CoupledState) -> None:
    """Note the groups that wait for each other's nodes."""
    own = own_standing(state, about)
    told = about.protocol.standings | ({} if own is None else {about.protocol.domain: own})
    reports = [
        MateReport(domain, "", one.group, deadlock.HOLDING if one.holds else deadlock.QUEUED, one.nodes)
        for domain, standing in told.items()
        for one in standing.groups
    ]
    about.deadlocked = deadlock.find_deadlock(reports, {domain: standing.free for domain, standing in told.items()})
    about.deadlock = deadlock.describe(about.deadlocked, reports)


def holds_in_the_way(state: State, group: str, holds: list[str]) -> list[str]:
    """Return which of these holds must be released so that the waiting job of the group finds nodes, smallest first;
    none if all of them are not enough."""
    about = state.coupled
    assert about is not None
    name = next((name for name, job in about.jobs.items() if job.group == group), "")
    if not name or not waits_for_held(state, name, about.jobs[name]):
        return []
    found, missing = [], int(state.jobs[NODES, state.rows[name]]) - state.idle_count
    for hold in sorted(holds, key=lambda one: (state.jobs[NODES, state.rows[one]], about.jobs[one].group)):
        if missing > 0:
            found.append(hold)
            missing -= int(state.jobs[NODES, state.rows[hold]])
    return found if missing <= 0 else []
