"""Holds that others than we put on a job: whose they are, and what a job is left with that is given back. Pure.

A job that waits for us is held, too, so the two must be told apart. Ours carry our mark, and are holds that the manager
counts as the owner's; the manager's records say what others did (`ManagerJob.held_by`), or the flag of our mark does.
"""

from __future__ import annotations

from cohabit.backend.steered.marks import FREE, HOLD, flag_of
from cohabit.backend.steered.shapes import BY_ADMINISTRATOR, BY_OWNER, ManagerJob

ON_PURPOSE = "`cohabit hold` or an operator"


def holder(job: ManagerJob) -> str:
    """Return who holds a waiting job besides us; empty: only we do, or it is not held."""
    if not (job.waits and job.held):
        return ""
    flag = flag_of(job.mark)
    if job.held_by == BY_OWNER or (job.held_by and flag != FREE):
        return job.held_by
    return ON_PURPOSE if flag == HOLD else ""


def is_administrators(job: ManagerJob) -> bool:
    """Return whether an administrator's hold is on it, which its owner may not lift."""
    return holder(job) == BY_ADMINISTRATOR
