"""Give every job held for us back to plain Slurm, as its owner asked for it. Needs no controller, no core, no journal.

Jobs that run are not touched. Doing it twice does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cohabit.backend.slurm import commands
from cohabit.backend.slurm.calls import Calls, SlurmRefused
from cohabit.backend.slurm.marks import BACK, HELD, RUN, Mark, read_mark
from cohabit.backend.slurm.reading import JobReader
from cohabit.backend.slurm.shapes import SlurmJob

AT_ONCE = 100  # jobs in one call


class Handed(NamedTuple):
    """What was done."""

    released: tuple[str, ...]
    failed: dict[str, str]  # job -> what Slurm said


async def hand_back(calls: Calls, partitions: Sequence[str], all_held: bool = False) -> Handed:
    """Release what waits for us. SlurmAway comes through: the caller tries again."""
    jobs = [job for job in await JobReader(calls).all() if job.waits]
    found = [(job, mark) for job in jobs if (mark := _ours(job, partitions, all_held)) is not None]
    if not found:
        return Handed((), {})
    most = sum(line.startswith("NodeName=") for line in (await calls(commands.list_nodes())).splitlines())
    failed: dict[str, str] = {}
    plain = [job.name for job, mark in found if mark.kind == HELD]
    for at in range(0, len(plain), AT_ONCE):
        await _all_or_each(calls, plain[at : at + AT_ONCE], failed)
    for job, mark in found:
        if mark.kind == RUN:
            try:
                await calls(commands.unplace(job.name, mark.before, most, BACK))
                if job.held:
                    await calls(commands.release([job.name]))
            except SlurmRefused as error:
                failed[job.name] = str(error)
    return Handed(tuple(job.name for job, _ in found if job.name not in failed), failed)


def _ours(job: SlurmJob, partitions: Sequence[str], all_held: bool) -> Mark | None:
    """A job that waits for us, or was steered by us and has not begun."""
    mark = read_mark(job.mark)
    if mark is not None and (mark.kind == RUN or (mark.kind == HELD and job.held)):
        return mark
    if all_held and not job.mark and job.held and job.partition in partitions:
        return Mark(HELD)
    return None


async def _all_or_each(calls: Calls, names: Sequence[str], failed: dict[str, str]) -> None:
    """In two calls; where Slurm refuses one of them, one by one."""
    try:
        await calls(commands.mark(names, BACK))
        await calls(commands.release(names))
        return
    except SlurmRefused:
        pass
    for name in names:
        try:
            await calls(commands.mark([name], BACK))
            await calls(commands.release([name]))
        except SlurmRefused as error:
            failed[name] = str(error)
