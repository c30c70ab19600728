"""Give every job held for us back to the plain manager, as its owner asked for it. Needs no controller and no journal.

A job with mates elsewhere is given to its owner instead, held: the plain manager cannot start it together with them,
and only its owner knows whether it is useful alone. Running jobs are not touched. Doing it twice does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cohabit.backend.steered.contract import Manager, ManagerRefused
from cohabit.backend.steered.marks import BACK, HELD, RUN, Mark, back_mark, read_mark, wished_mates
from cohabit.backend.steered.shapes import ManagerJob

AT_ONCE = 100  # jobs in one call


class Handed(NamedTuple):
    """The result of giving jobs back."""

    released: tuple[str, ...]
    failed: dict[str, str]  # job -> what the manager said
    to_owners: tuple[str, ...] = ()  # those with mates: held for their owners


async def hand_back(manager: Manager, partitions: Sequence[str], all_held: bool = False) -> Handed:
    """Release the jobs that wait for us. ManagerAway is passed on: the caller tries again."""
    jobs = [job for job in await manager.jobs() if job.waits]
    found = [(job, mark) for job in jobs if (mark := _ours(job, partitions, all_held)) is not None]
    if not found:
        return Handed((), {})
    most, failed = len(await manager.nodes()), dict[str, str]()
    plain = [job.name for job, mark in found if mark.kind == HELD and not mark.mates]
    for at in range(0, len(plain), AT_ONCE):
        await _all_or_each(manager, plain[at : at + AT_ONCE], failed)
    for job, mark in found:
        try:
            if mark.mates and not job.held:
                await manager.hold(job.name)  # it is about to start, and its mates are not
            if mark.kind == RUN:
                await manager.unplace(job.name, mark.before, most, back_mark(mark.mates))
            if mark.mates:
                await manager.give_to_owner(job.name, back_mark(mark.mates))
            elif mark.kind == RUN and job.held:
                await manager.release([job.name])
        except ManagerRefused as error:
            await _failed(manager, job.name, error, failed)
    done = [(job.name, mark.mates) for job, mark in found if job.name not in failed]
    return Handed(
        tuple(name for name, mates in done if not mates), failed, tuple(name for name, mates in done if mates)
    )


def _ours(job: ManagerJob, partitions: Sequence[str], all_held: bool) -> Mark | None:
    """Return the mark of a job that waits for us, or was steered by us and has not begun."""
    mark = read_mark(job.mark)
    if mark is not None and (mark.kind == RUN or (mark.kind == HELD and job.held)):
        return mark
    if all_held and not job.mark and job.held and job.partition in partitions:
        return Mark(HELD, mates=wished_mates(job.comment))
    return None


async def _all_or_each(manager: Manager, names: Sequence[str], failed: dict[str, str]) -> None:
    """Release all in two calls; if the manager refuses one of them, one by one."""
    try:
        await manager.mark(names, BACK)
        await manager.release(names)
        return
    except ManagerRefused:
        pass
    for name in names:
        try:
            await manager.mark([name], BACK)
            await manager.release([name])
        except ManagerRefused as error:
            await _failed(manager, name, error, failed)


async def _failed(manager: Manager, name: str, error: ManagerRefused, failed: dict[str, str]) -> None:
    """Record a failure unless the job is gone or runs: the kill switch and the watchdog may act at the same time."""
    job = await manager.job(name)
    if job is not None and job.waits:
        failed[name] = str(error)
