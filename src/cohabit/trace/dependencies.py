"""Check the dependencies of a job table: every named job exists, and none waits for itself in a circle."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cohabit.model.errors import InputError


def check_dependencies(ids: Sequence[str], after: Sequence[tuple[str, ...]], where: Callable[[int], str]) -> None:
    """Raise InputError for the first unknown job or circle; `where` names the place of a row for people."""
    row_of = {job: row for row, job in enumerate(ids)}
    blockers = {row: len(set(jobs)) for row, jobs in enumerate(after) if jobs}
    followers: dict[int, list[int]] = {}
    for row in blockers:
        for job in set(after[row]):
            if job not in row_of:
                raise InputError(f"job {job} does not exist", where(row), "name a job_id of this file")
            followers.setdefault(row_of[job], []).append(row)
    free = [row for row in followers if row not in blockers]
    while free:
        for row in followers.get(free.pop(), ()):
            blockers[row] -= 1
            if not blockers[row]:
                del blockers[row]
                free.append(row)
    if blockers:
        row = min(blockers)
        raise InputError(f"job {ids[row]} waits for itself in a circle", where(row), "break the circle")
