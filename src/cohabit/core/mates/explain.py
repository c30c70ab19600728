"""Why a job with mates in other domains has not started, in words and numbers."""

from __future__ import annotations

from cohabit.core.columns import HOLDING, STATE
from cohabit.core.mates.coordinator import given_up_from
from cohabit.core.mates.state import GroupState
from cohabit.core.state import State
from cohabit.model.peer import COMMITTED, IDLE, NEVER, READY, UNSUBMITTED
from cohabit.model.units import FOREVER, span

UNHEARD = 3  # after this many questions without an answer, what was heard before counts as old


def why_not_together(state: State, row: int, now_us: int) -> str:
    """Return what its mates keep it waiting for; empty if it is in the queue like any other job."""
    name, about = state.spec(row).job_id, state.coupled
    job = None if about is None else about.jobs.get(name)
    if about is None or job is None or job.group not in about.protocol.groups:
        return ""
    group = about.protocol.groups[job.group]
    quiet_us = UNHEARD * group.group.terms.ask_us
    others = ", ".join(
        f"{domain}:{group.group.job(domain)} {_where(one.phase)}{_unheard(domain, one.heard_us, now_us, quiet_us)}"
        f"{_given_up(group, domain, now_us, quiet_us)}"
        for domain, one in group.views.items()
    )
    if job.group in about.deadlocked:
        others += f"; deadlock, groups wait for each other's nodes: {about.deadlock}"
    if state.jobs[STATE, row] == HOLDING:
        if group.record.phase == COMMITTED:
            left_us = max(group.record.start_at_us - now_us, 0)
            return f"it keeps {len_nodes(state, row)} and starts in {span(left_us)}, together with its mates: {others}"
        since_us = job.first_chosen_us if job.first_hold_us == NEVER else job.first_hold_us
        return f"it keeps {len_nodes(state, row)} and waits for its mates for {span(now_us - since_us)}: {others}"
    if job.agreed_us != NEVER:
        return f"its nodes are reserved in {span(job.agreed_us - now_us)}, for a start with its mates: {others}"
    if job.yielded_us != NEVER:
        so_far = "1 time" if job.yields == 1 else f"{job.yields} times"
        return f"it gave up its turn ({so_far} so far) because its mates are not ready: {others}"
    return f"it waits for nodes that other groups hold: {others}" if job.group in about.deadlocked else ""


def len_nodes(state: State, row: int) -> str:
    """The number of nodes it has, in words."""
    nodes = sum(count for _, count in state.ranges_of(row))
    return f"{nodes} node" + ("" if nodes == 1 else "s")


def _unheard(domain: str, heard_us: int, now_us: int, quiet_us: int) -> str:
    """Return a note that the information about a mate is old, if its domain does not answer any more."""
    if heard_us == NEVER or now_us - heard_us <= quiet_us:
        return ""
    return f" as far as is known ({domain} was not heard for {span(now_us - heard_us)})"


def _given_up(group: GroupState, domain: str, now_us: int, quiet_us: int) -> str:
    """Return a note when the job fails, if its mate's domain does not answer any more."""
    until_us, heard_us = given_up_from(group, domain), group.views[domain].heard_us
    if group.ready_since_us == NEVER or until_us >= FOREVER or now_us - max(heard_us, group.ready_since_us) <= quiet_us:
        return ""
    return f"; if it is not heard within {span(max(until_us - now_us, 0))}, this job fails"


def _where(phase: str) -> str:
    words = {UNSUBMITTED: "is not submitted yet", IDLE: "is in its queue", READY: "could start"}
    return words.get(phase, f"is {phase}")
