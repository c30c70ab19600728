"""Give every job held for us back to the plain manager, as its owner asked for it. Needs no controller and no journal.

What others hold stays held, for them. A job with mates elsewhere is given to its owner instead, held: the plain manager
cannot start it together with them, and only its owner knows whether it is useful alone. Running jobs are not touched.
Doing it twice does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from cohabit.backend.steered.contract import Manager, ManagerRefused
from cohabit.backend.steered.holds import holder, is_administrators
from cohabit.backend.steered.marks import BACK, HELD, RUN, Mark, back_mark, read_mark, wished_mates
from cohabit.backend.steered.shapes import ManagerJob

AT_ONCE = 100  # jobs in one call


class Handed(NamedTuple):
    """The result of giving jobs back."""

    released: tuple[str, ...]
    failed: dict[str, str]  # job -> what the manager said
    to_owners: tuple[str, ...] = ()  # those with mates: held for their owners
    left_held: tuple[str, ...] = ()  # those that others held


async def hand_back(manager: Manager, partitions: Sequence[str], all_held: bool = False) -> Handed:
    """Release the jobs that wait for us. ManagerAway is passed on: the caller tries again."""
    jobs = [job for job in await manager.jobs() if job.waits]
    found = [(job, mark) for job in jobs if (mark := _ours(job, partitions, all_held)) is not None]
    if not found:
        return Handed((), {})
    most, failed = len(await manager.nodes()), dict[str, str]()
    plain = [job.name for job, mark in found if mark.kind == HELD and not mark.mates and not holder(job)]
    each = await _not_at_once(manager, plain)
    for job, mark in found:
        if (job.name in each or job.name not in plain) and (why := await give_back(manager, job, job.name, mark, most)):
            failed[job.name] = why
    done = [(job.name, mark.mates, holder(job)) for job, mark in found if job.name not in failed]
    return Handed(
        tuple(name for name, mates, others in done if not mates and not others),
        failed,
        tuple(name for name, mates, _ in done if mates),
        tuple(name for name, mates, others in done if others and not mates),
    )


def _ours(job: ManagerJob, partitions: Sequence[str], all_held: bool) -> Mark | None:
    """Return the mark of a job that waits for us, or was steered by us and has not begun."""
    mark = read_mark(job.mark)
    if mark is not None and (mark.kind == RUN or (mark.kind == HELD and job.held)):
        return mark
    if all_held and not job.mark and job.held and job.partition in partitions:
        return Mark(HELD, mates=wished_mates(job.comment))
    return None


async def _not_at_once(manager: Manager, names: Sequence[str]) -> set[str]:
    """Give back all of these in two calls per hundred; return those of calls the manager refused."""
    rest = set[str]()
    for at in range(0, len(names), AT_ONCE):
        some = names[at : at + AT_ONCE]
        try:
            await manager.mark(some, BACK)
            await manager.release(some)
        except ManagerRefused:
            rest.update(some)
    return rest


async def give_back(manager: Manager, job: ManagerJob, name: str, mark: Mark, most_nodes: int) -> str:
    """Give one job to the plain manager; return why it still waits held for us, empty: it does not.

    A manager may refuse to change a job that can never run and yet let it go: each step is tried, and the job asked."""
    text, said, kept = back_mark(mark.mates), list[str](), is_administrators(job)
    try:
        if mark.mates and not job.held:
            await manager.hold(name)  # it is about to start, and its mates are not
        if mark.kind == RUN:
            await manager.unplace(name, mark.before, most_nodes, text)
        elif not mark.mates or kept:
            await manager.mark([name], text)
    except ManagerRefused as error:
        said.append(str(error))
    try:
        if (mark.mates or holder(job)) and not kept:
            await manager.give_to_owner(name, text)
        elif job.held and not kept:
            await manager.release([name])
        if not said:
            return ""
    except ManagerRefused as error:
        said.append(str(error))
    after = await manager.job(name)  # gone or running: the kill switch and the watchdog may act at the same time
    if after is None or not after.waits:
        return ""
    now = read_mark(after.mark)
    still_ours = now is not None and now.kind != BACK
    if not still_ours and not (after.held and not (mark.mates or holder(job))):
        return ""
    if not still_ours and job.mark:  # it is marked as given back, and would not be found again
        with suppress(ManagerRefused):
            await manager.mark([name], job.mark)
    return said[-1]
